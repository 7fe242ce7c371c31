# SPDX-License-Identifier: Apache-2.0
"""cuts FILE COMMAND...: a transport of `barcuda move` that fails as FILE says: it carries the messages between its own input and output and
the command, and each connection takes the first fault of the list in FILE (JSON), if there is one.

A fault: {"word": "have", "count": 1, "delivered": false, "does": "cut"}: at the message of that name, the so many-th. `does`: cut (the
connection ends), receiver (the command is killed), mover (the process that moves the VM is killed), both (and its parent). `pid`: that process is killed
before; `does` may be `nothing` then.
"""
import json
import os
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path

WORDS = "alive offer go drop early early_end part bytes again part_end description welcome have awake dropped failed".split()
HEAD = struct.Struct("III")


def taken(file):
    faults = json.loads(file.read_text())
    file.write_text(json.dumps(faults[1:]))
    return faults[0] if faults else {}


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def exactly(fd, count):
    data = b""
    while len(data) < count and (piece := os.read(fd, count - len(data))):
        data += piece
    return data if len(data) == count else None


def write(fd, data):
    while data:
        data = data[os.write(fd, data):]


def main():
    fault = taken(Path(sys.argv[1]))
    seen = 0
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as command:
        into = command.stdin.fileno()
        ends = {0: into, command.stdout.fileno(): 1}
        while ends:
            for fd in select.select(list(ends), [], [])[0]:
                head = exactly(fd, HEAD.size)
                body = exactly(fd, HEAD.unpack(head)[2]) if head else None
                if body is None:
                    if (to := ends.pop(fd)) == into:
                        command.stdin.close()  # the object's own, which would close the number again
                    else:
                        os.close(to)
                    if fd == command.stdout.fileno():
                        return
                    continue
                seen += WORDS[HEAD.unpack(head)[0]] == fault.get("word")
                hit = seen == fault.get("count", 1)
                if not hit or fault["delivered"]:
                    write(ends[fd], head + body)
                if not hit:
                    continue
                seen += 1
                if "pid" in fault:
                    os.kill(fault["pid"], signal.SIGKILL)
                if fault["does"] == "cut":
                    os._exit(1)
                elif fault["does"] == "receiver":
                    command.kill()
                elif fault["does"] in ("mover", "both"):
                    mover = os.getppid()
                    if fault["does"] == "both":
                        os.kill(parent_of(mover), signal.SIGKILL)
                    os.kill(mover, signal.SIGKILL)
                    os._exit(1)


try:
    main()
except OSError as error:  # a side that the fault has ended, or that ended by itself
    sys.exit(f"cuts: nothing more to carry: {error}")
