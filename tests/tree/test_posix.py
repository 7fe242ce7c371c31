# SPDX-License-Identifier: Apache-2.0
"""What is POSIX has one place below the guest's client and heap: base/os, whose files Windows replaces. A file of theirs that includes a header
of POSIX or of Linux is about something that no other system has, or has otherwise: mk/windows.mk leaves it out, or guest-windows has another."""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
ROOMS = ("client", "heap", "heap/registered")
HEADERS = re.compile(r"^#\s*include\s*<((?:sys|linux|netinet|arpa)/[\w/.]+|(?:aio|dirent|dlfcn|fcntl|ifaddrs|link|malloc|netdb|poll|pthread|pwd|sched|"
                     r"semaphore|signal|spawn|termios|time|ucontext|unistd)\.h|csignal)>", re.M)


def absent_on_windows():
    """The files of make's list, which writes some as $(addprefix FOLDER,NAMES)."""
    listed = re.search(r"^absent_on_windows := (.*?[^\\])$", (TOP / "mk/windows.mk").read_text(), re.M | re.S)[1]
    words = listed.replace("\\\n", " ")
    written_out = re.sub(r"\$\(addprefix ([^,]*),([^)]*)\)", lambda some: " ".join(some[1] + name for name in some[2].split()), words)
    return set(written_out.split())


def findings():
    absent = absent_on_windows()
    for room in ROOMS:
        for file in sorted((TOP / "guest-allocator" / room).glob("*.*")):
            name = str(file.relative_to(TOP))
            for header in HEADERS.findall(file.read_text()):
                if name not in absent and not (TOP / "guest-windows" / name).exists():
                    yield f"{name} includes <{header}>: call base/os"


def test_client_and_heap_call_the_system_through_base_os():
    assert list(findings()) == []


def test_the_list_of_files_that_windows_lacks_is_understood():
    absent = absent_on_windows()
    assert "guest-allocator/heap/fork.cc" in absent and "guest-allocator/client/nvtx.cc" in absent
    assert [name for name in absent if not (TOP / name).is_file()] == []


def test_headers_of_posix_are_known():
    assert HEADERS.findall('#include <unistd.h>\n#  include <sys/mman.h>\n#include <cstring>\n#include "a/signal.h"\n// #include <poll.h>\n') == [
        "unistd.h", "sys/mman.h"]
