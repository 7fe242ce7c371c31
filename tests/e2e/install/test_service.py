# SPDX-License-Identifier: Apache-2.0
"""The bridge as a unit: it tells systemd when guests may come, that it lives, and that it leaves; its options come from a file, from the
environment or from the command line, which wins; --print-config writes a file with all of them."""
import re
import socket

import pytest

from e2e.flat import BRIDGE, BUILD, DEVICE, TOP, run, succeed, until, written

NO_SETTINGS = "version", "config", "print-config", "ready-fd", "numbers", "wake"
TOO_ODD = "314572800"  # 300M: no power of two, so a bridge with this size ends at once


class Systemd:
    """What systemd would hear: `heard`, a message each."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.path, self.heard = path, []

    def listen(self):
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode().replace("\n", " "))
        except BlockingIOError:
            return self.heard

    def hears(self, pattern):
        until(lambda: any(re.search(pattern, message) for message in self.listen()), lambda: f"{pattern} is said: {self.heard}")


@pytest.fixture
def systemd(scratch):
    listener = Systemd(scratch / "notify")
    with listener.socket:
        yield listener


def test_systemd_hears_when_guests_may_come_that_the_bridge_lives_and_that_it_leaves(systemd, region):
    region.serve("--warm", "0", env={"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "1000000"})
    systemd.hears("^READY=1 STATUS=region .*: ")
    systemd.hears("^WATCHDOG=1")
    region.stop()
    systemd.hears("^STOPPING=1")


def test_systemd_is_not_told_that_the_bridge_lives_where_it_has_not_asked(systemd, region):
    region.serve("--warm", "0", env={"NOTIFY_SOCKET": systemd.path})
    region.stop()
    systemd.hears("^STOPPING=1")
    assert not any("WATCHDOG" in message for message in systemd.heard), systemd.heard


def test_a_reload_puts_the_installed_bridge_in_the_place_of_the_one_that_runs(systemd, region):
    """As the unit has it: with its environment. systemd hears of the new bridge, and of no end."""
    unit = (TOP / "system/barcuda-bridge@.service.in").read_text()
    command = re.search(r"^ExecReload=@BINDIR@/(.*)$", unit, re.M)[1].split()
    assert re.search(r"^Environment=BARCUDA_REGION=", unit, re.M), "the command knows its region by it"
    bridge = region.serve("--warm", "0", env={"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "1000000"})
    systemd.hears("^READY=1")
    before, client = bridge.proper, region.start("client", BUILD / "e2e/endless")
    systemd.heard.clear()
    succeed(BRIDGE.parent / command[0], *command[1:], env=region.named)
    systemd.hears("^READY=1 STATUS=region .*: ")
    systemd.hears("^WATCHDOG=1")
    assert bridge.proper not in (None, before) and client.runs()
    assert not any("STOPPING" in message for message in systemd.heard), systemd.heard


def test_the_printed_file_has_every_option_of_the_help_that_is_a_setting():
    options = re.findall("^  --([a-z-]+)", succeed(BRIDGE, "--help"), re.M)
    assert set(NO_SETTINGS) < set(options)
    file = succeed(BRIDGE, "--print-config")
    missing = [option for option in options if option not in NO_SETTINGS and not re.search(f"^#{option} =", file, re.M)]
    assert not missing, f"{missing} of {file}"


@pytest.fixture
def refused():
    def ends_at_once(text, *options, env=None):
        """The bridge says the text."""
        ran = run(BRIDGE, "--device", DEVICE, "--warm", "0", *options, env=env)
        assert ran.status != 0 and text in ran.said, ran
    return ends_at_once


def test_the_printed_file_can_be_read_with_each_option_set_that_has_a_default(scratch, refused):
    settings = re.sub("^#([a-z-]* = .)", r"\1", succeed(BRIDGE, "--print-config"), flags=re.M)
    file = written(scratch / "set.conf", re.sub("^size = .*", "size = 300M", settings, flags=re.M))
    refused(f"{TOO_ODD} bytes are not a power of two", "--config", file, "--region", scratch / "none")


def test_a_file_with_an_unknown_option_and_one_that_is_missing_are_refused(scratch, refused):
    refused("regoin", "--config", written(scratch / "wrong.conf", 'regoin = "x"\n'))
    refused("missing.conf", "--config", scratch / "missing.conf")


def test_the_file_wins_over_the_environment_and_the_command_line_over_both(scratch, refused):
    """A file that the environment names may be missing."""
    file = written(scratch / "one.conf", f'region = "{scratch}/of-file"\nsize = 300M\n')
    environment = {"BARCUDA_REGION": scratch / "of-environment", "BARCUDA_CONFIG": file}
    refused(f"{scratch}/of-file: {TOO_ODD}", env=environment)
    refused(f"{scratch}/of-line: {TOO_ODD}", "--region", scratch / "of-line", env=environment)
    refused(f"{scratch}/of-environment: {TOO_ODD}", "--size", "300M", env={**environment, "BARCUDA_CONFIG": scratch / "missing.conf"})
