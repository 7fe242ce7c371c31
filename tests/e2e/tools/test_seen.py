# SPDX-License-Identifier: Apache-2.0
"""What an operator sees: `barcuda ps`, `top`, `metrics` and the exporter show each bridge and client, and agree with what programs have
done; what a guest says is shown as text and nothing else; a user without the right is told nothing; the log names the clients that came and
went."""
import fcntl
import json
import os
import pty
import pwd
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, LIBRARIES, TOP, Program, children, may_be_other_user, need, other_user, run, succeed, until

# What asks all bridges wakes those of other tests.
pytestmark = pytest.mark.usefixtures("own_shm")
COUNTED = BUILD / "e2e/counted"
MINE = f"seen-{os.getpid()}"
USER = pwd.getpwuid(os.geteuid()).pw_name
WAYS = "to_device", "to_host", "on_device"
MIB = 1 << 20


def listed(name):
    """What `barcuda ps --json` says of a bridge; None where it is not there."""
    bridges = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
    return next((bridge for bridge in bridges if bridge["name"] == name), None)


class Seen:
    """A bridge with two clients, beside another bridge."""

    def __init__(self, region, other):
        self.other = other
        other.serve("--no-vm", "--name", f"{MINE}.2")
        self.region = region
        self.metrics = region.folder / "metrics"
        self.bridge = region.serve("--no-vm", "--name", MINE, "--metrics", self.metrics, "--metrics-clients")
        self.one, self.two = self.counted("one", 16), self.counted("two", 4)
        self.work(self.one)

    def counted(self, name, mib, program=COUNTED):
        """Says after each round what it has done until then, as JSON; a line makes it go on."""
        return self.region.start(name, program, mib, stdin=subprocess.PIPE, executable=str(COUNTED))

    def work(self, client):
        """One round more."""
        rounds = client.out.count("running")
        client.send()
        client.wait_for("running", rounds + 1)

    def said(self):
        """What each client says that it has done."""
        return [json.loads(re.findall(r".*\{.*", client.out)[-1]) for client in (self.one, self.two)]

    def soon(self, condition):
        """Waits until the list is so: a function of the bridge and its clients."""
        until(lambda: (bridge := listed(MINE)) and condition(bridge, bridge["clients"]), lambda: f"the list is so: {listed(MINE)}")

    def agrees(self, name, place):
        """Of each client the list has what the client says itself."""
        said = [client[name] for client in self.said()]
        self.soon(lambda _, clients: [place(client) for client in clients] == said)


@pytest.fixture
def seen(regions):
    return Seen(regions(), regions())


@pytest.mark.parametrize("command", [["ps"], ["top", "--interval", "0.1"], ["metrics"]], ids=lambda words: words[0])
def test_a_machine_without_a_bridge(command):
    alone = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]  # one whose /dev/shm has no doors
    if run(*alone, "true").status:
        pytest.skip("may not mount a /dev/shm of its own")
    said = succeed(*alone, BARCUDA, *command)
    if command == ["metrics"]:
        assert "barcuda_bridges 0" in said.splitlines()
    else:
        assert said == "No bridge runs on this machine.\n"


def test_the_list_has_each_client_and_what_it_has_done(seen):
    seen.soon(lambda _, clients: [client["pid"] for client in clients] == [seen.one.pid, seen.two.pid])
    assert not listed(f"{MINE}.2")["clients"]
    for way in WAYS:
        seen.agrees(way, lambda client, way=way: client["counts"]["copied_bytes"][way])
    seen.agrees("launches", lambda client: client["counts"]["launches"])
    seen.agrees("graph_launches", lambda client: client["counts"]["graph_launches"])
    seen.agrees("device_memory", lambda client: client["device_memory"][0])
    seen.soon(lambda _, clients: all(c["program"] == "counted" and c["user"] == USER and c["worker"] and c["region_memory"] >= 32 * MIB
                                     for c in clients))
    seen.soon(lambda _, clients: [clients[0]["counts"]["copies"][way] for way in WAYS] == [12, 8, 2])
    seen.soon(lambda bridge, clients: all(c["queued"] == 0 and 0 < c["age_seconds"] < 600 for c in clients) and bridge["queued"] == 0)
    seen.soon(lambda bridge, clients: bridge["region_memory"]["held"] == sum(c["region_memory"] for c in clients))
    seen.soon(lambda bridge, clients: bridge["gpus"][0]["held"] == sum(sum(c["device_memory"]) for c in clients))


def test_the_table_has_each_client_and_its_bridge(seen):
    table = succeed(BARCUDA, "ps")
    assert re.search(rf"^{MINE} +0 +{seen.one.pid} +{USER} +counted +[0-9]+s +16M +[0-9]+M +[0-9]+ +running$", table, re.M), table
    assert re.search(rf"^{MINE} +{seen.bridge.proper} .* 2 +16 ", table, re.M), table


def test_the_bridges_of_some_vms_alone(seen):
    told = succeed(BARCUDA, "ps", f"{MINE}.2")
    assert re.search(f"^{MINE}[.]2 ", told, re.M) and not re.search(f"^{MINE} ", told, re.M) and "counted" not in told, told
    both = run(BARCUDA, "ps", MINE, "nobodys")
    assert both.status == 1 and "there is no VM with the name nobodys whose bridge answers" in both.err and re.search(f"^{MINE} ", both.out, re.M), both
    none = run(BARCUDA, "ps", "--json", "nobodys")
    assert none.status == 1 and not json.loads(none.out)["bridges"], none


# ---- what processes do in a second ----------------------------------------------------------------------------------------------------
@pytest.fixture
def busy(seen):
    """The first client works all the time."""
    ends = threading.Event()

    def feed():
        while not ends.is_set():
            seen.work(seen.one)
    feeder = threading.Thread(target=feed)
    feeder.start()
    yield seen
    ends.set()
    feeder.join()


def test_top_shows_once_what_a_process_has_done_in_a_second(busy):
    said = succeed(BARCUDA, "top", "--once", "--interval", "0.5")
    assert re.search(rf"^{MINE} +0 +{busy.one.pid} .* [0-9.]+[KMG]/s +[0-9.]+[KMG]/s ", said, re.M), said
    assert "\x1b" not in said


def test_top_has_rates_as_json(busy):
    said = json.loads(succeed(BARCUDA, "top", "--json", "--interval", "0.5"))
    bridge = next(b for b in said["bridges"] if b["name"] == MINE)
    one, two = (client["a_second"] for client in bridge["clients"])
    assert one["launches"] > 0 and two["launches"] == 0 and two["commands"] == 0, said
    assert one["copied_bytes"]["to_device"] > one["copied_bytes"]["to_host"] > 0, said
    assert abs(bridge["a_second"]["launches"] - one["launches"]) < 1e-6 * bridge["a_second"]["launches"], said


def screen(answers, columns=180, **variables):
    """`barcuda top` on a terminal: its status and what it drew. `answers`: what is waited for, and the key that is typed then."""
    variables = {name: value for name, value in {**os.environ, "TERM": "xterm-256color", "NO_COLOR": None, **variables}.items() if value is not None}
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.execve(BARCUDA, [str(BARCUDA), "top", "--interval", "0.2"], variables)
    try:
        drawn, since, end, answers = b"", 0, time.monotonic() + 60, list(answers)
        while True:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError((answers, drawn))
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    drawn += os.read(terminal, 65536)
                except OSError:
                    break
            if answers and answers[0][0] in drawn[since:]:  # what is on the screen already is not drawn again
                os.write(terminal, answers.pop(0)[1])
                since = len(drawn)
    finally:
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, drawn


COLOUR = rb"\x1b\[3[0-7]m"


def test_top_on_a_terminal_sorts_by_a_key_and_ends_with_another(seen):
    status, drawn = screen([(MINE.encode(), b"l"), (b"*", b"q")])
    assert status == 0 and b"*m memory" in drawn, drawn
    assert b"\x1b[?1049l" in drawn, f"the terminal is not as before: {drawn}"
    assert re.search(COLOUR, drawn), f"no colours: {drawn}"


def test_top_on_a_terminal_has_no_colours_where_they_are_not_wanted(seen):
    status, drawn = screen([(MINE.encode(), b"q")], NO_COLOR="1")
    assert status == 0 and not re.search(COLOUR, drawn), drawn


RIGHT = b"\x1bOC"


def test_top_at_80_columns_has_what_matters_and_shows_the_rest_sideways(seen):
    status, drawn = screen([(MINE.encode(), RIGHT), (b"CMD/s", b"q")], columns=80)
    assert status == 0, drawn
    narrow = drawn[:drawn.index(b"CMD/s")].decode()  # before the arrow
    for heading in "VM", "BUSY", "MEMORY", "PROGRAM", "LAUNCH/s", "TO GPU", "QUEUE":
        assert heading in narrow, f"no {heading}: {narrow}"
    assert re.search(r"memory \[[ |]+\] +\d+% of [0-9.]+[GM]", narrow), f"the bar is cut off: {narrow}"
    assert "a age  arrows" in narrow, f"the line of keys is cut off: {narrow}"


def test_top_scrolls_sideways_to_its_last_column_and_no_further(seen, scratch):
    """On the terminal of tmux, 80 columns wide. After many steps to the right one to the left is seen at once."""
    need("tmux")
    tmux = ["tmux", "-S", scratch / "tmux"]

    def headings():
        return [line.rstrip() for line in succeed(*tmux, "capture-pane", "-p").splitlines() if "LAUNCH/s" in line or "TO HOST" in line]

    succeed(*tmux, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "30", f"{BARCUDA} top --interval 0.2", env={"TERM": "xterm-256color"})
    try:
        until(headings, "there are headings")
        succeed(*tmux, "send-keys", *["Right"] * 40)
        last = until(lambda: [line for line in headings() if "TO HOST" in line and line.endswith("QUEUE") and len(line) == 80], "QUEUE is at the right")
        succeed(*tmux, "send-keys", "Left")
        until(lambda: headings() and last[0] not in headings(), lambda: f"one step back: {headings()}")
    finally:
        run(*tmux, "kill-server")


# ---- Prometheus: the same numbers, from the exporter and for the textfile collector -------------------------------------------------------
class Metrics:
    def __init__(self, text):
        self.text, self.values = text, {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
                key = name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
                assert key not in self.values, key
                self.values[key] = float(value)
        if shutil.which("promtool"):
            succeed("promtool", "check", "metrics", input=text)

    def value(self, name, **labels):
        return self.values[name, frozenset({"vm": MINE, **labels}.items())]

    def are(self, said):
        for way in WAYS:
            assert self.value("barcuda_copy_bytes_total", direction=way) == sum(s[way] for s in said), way
            for channel, s in enumerate(said):
                assert self.value("barcuda_client_copy_bytes_total", client=str(channel), direction=way) == s[way], (channel, way)
        assert self.value("barcuda_launches_total") == sum(s["launches"] for s in said)
        assert self.value("barcuda_clients") == 2 and self.value("barcuda_clients_admitted_total") == 2


def exported(seen):
    need("curl")
    return succeed("curl", "-sf", "-m", "20", "--unix-socket", seen.metrics, "http://bridge/metrics")


def all_metrics():
    return Metrics(succeed(BARCUDA, "metrics", "--clients", "--gpus"))


def test_the_exporter_of_a_bridge_has_the_same_numbers_of_that_bridge_alone(seen):
    for _ in range(3):
        seen.work(seen.one)
    seen.agrees("to_device", lambda client: client["counts"]["copied_bytes"]["to_device"])
    # It asks its bridge twice a second at most, and may have asked before: the first answer of a new exporter is new.
    metrics = Metrics(exported(seen))
    metrics.are(seen.said())
    assert f'vm="{MINE}.2"' not in metrics.text


def test_barcuda_metrics_has_the_same_numbers_of_all_bridges(seen):
    seen.agrees("to_device", lambda client: client["counts"]["copied_bytes"]["to_device"])
    metrics = all_metrics()
    metrics.are(seen.said())
    assert f'vm="{MINE}.2"' in metrics.text
    if DEVICE == "soft":
        assert f'\nbarcuda_gpu_busy_ratio{{vm="{MINE}",gpu="0"' in metrics.text


def test_what_the_dashboard_the_alerts_and_the_page_name_is_there_and_the_page_names_all(seen):
    there = set(re.findall(r"^# TYPE (\w+)", all_metrics().text, re.M))
    page = (TOP / "docs/operating.md").read_text()
    for text in (TOP / "docs/operating/dashboard.json").read_text(), (TOP / "docs/operating/alerts.yml").read_text(), page:
        named = set(re.findall(r"\bbarcuda_(?!client_\.)[a-z_]*[a-z]", text)) - {"barcuda_client"}
        assert len(named) > 5 and named <= there, named - there
    assert [name for name in there if not name.startswith("barcuda_client_") and name not in page] == []
    if shutil.which("promtool"):
        succeed("promtool", "check", "rules", TOP / "docs/operating/alerts.yml")


def test_an_exporter_has_a_cage_and_is_replaced_when_it_dies(seen):
    exported(seen)
    exporter = children(seen.bridge.proper, "barcuda-exporter")[0]
    status = Path(f"/proc/{exporter}/status").read_text()
    assert re.search("^Seccomp:.2$", status, re.M), status
    os.kill(exporter, signal.SIGKILL)
    until(lambda: run("curl", "-sf", "-m", "20", "--unix-socket", seen.metrics, "http://bridge/metrics").status == 0, "a new exporter")


# ---- ends, and names ----------------------------------------------------------------------------------------------------------------------
def test_clients_that_have_gone_stay_in_the_log_and_in_their_bridges_counts(seen):
    """One leaves, the other's worker dies."""
    one, two, region, said = seen.one, seen.two, seen.region, seen.said()
    one.end_input()
    assert one.wait() == 0, one
    region.wait_for_log(rf'channel 0: reclaimed, with .*pid {one.pid}, user "{USER}", program "counted", worker [0-9]*; .* 16M of device memory '
                        ".*; it left")
    os.kill(seen.bridge.workers()[1], signal.SIGKILL)
    region.wait_for_log(f"error barcuda-bridge {MINE}: channel 1: the worker process was killed")
    two.end_input()
    two.wait()
    region.wait_for_log(rf"channel 1: reclaimed.*pid {two.pid}, .*; its worker was killed")
    region.wait_for_log(rf'info barcuda-bridge {MINE}: channel 1: client admitted, worker [0-9]*: pid {two.pid}, user "{USER}", program "counted"')
    seen.soon(lambda bridge, clients: not clients and bridge["clients_went"] == {"left": 1, "refused": 0, "died": 1} and bridge["clients_came"] == 2)
    seen.soon(lambda bridge, _: all(bridge["counts"]["copied_bytes"][way] == sum(s[way] for s in said) for way in ("to_device", "to_host")))


@pytest.fixture
def evil(seen):
    """A program that is called as a terminal's command, and as a line of metrics."""
    seen.counted("evil", 4, program=b"x\x1b[2J\"} 1\nbarcuda_up\xff")
    return seen


@pytest.mark.parametrize("command", ["ps", "ps --json", "top --once", "metrics --clients"])
def test_a_name_is_shown_as_text(evil, command):
    said = subprocess.run([BARCUDA, *command.split()], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    assert b"\x1b" not in said and b"\xff" not in said, said
    assert not re.search(b"^barcuda_up", said, re.M) and re.search(rb"x\\+x1b", said), said


def test_a_name_is_text_in_the_log(evil):
    assert "\x1b" not in evil.region.log and r'program "x\x1b[2J?} 1\x0abarcuda_up?"' in evil.region.log, evil.region.log


def test_another_user_sees_that_there_is_something_and_no_more(seen):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv")
    said = succeed(*other_user(BARCUDA, "ps"))
    assert re.search("^No bridge of yours runs on this machine; there .* of other users, which root may see.$", said, re.M), said
    assert MINE not in run(*other_user(BARCUDA, "metrics", "--clients")).out


MANY = """
import ctypes, os, signal
nvml = ctypes.CDLL("libnvidia-ml.so.1")
children = []
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        os.write(1, b"ready\\n" if nvml.nvmlInit_v2() == 0 else b"failed\\n")
        signal.pause()
    children.append(pid)
signal.signal(signal.SIGTERM, lambda *_: ([os.kill(c, 9) for c in children], os._exit(0)))
signal.pause()
"""


def test_the_list_has_more_clients_than_a_message_holds(region):
    """Processes that only ask how the GPU is."""
    region.serve("--no-vm", "--name", MINE, size="8G")
    many = Program(region.folder, "many", [sys.executable, "-c", MANY], env={**region.named, "LD_LIBRARY_PATH": LIBRARIES / "barcuda"})
    try:
        many.wait_for("^(ready|failed)$", 100)
        assert "failed" not in many.out
        until(lambda: len({c["channel"] for c in listed(MINE)["clients"]}) == 100, lambda: f"100 clients: {listed(MINE)}")
        bridge = listed(MINE)
        assert all(c["program"].startswith("python3") and c["worker"] is None for c in bridge["clients"]) and bridge["channels"]["in_use"] == 0, bridge
    finally:
        many.kill(signal.SIGTERM)
    until(lambda: not listed(MINE)["clients"], lambda: f"no clients: {listed(MINE)}")


def test_a_bridge_has_the_name_of_its_file_of_options(region):
    (region.folder / "from-a-file.conf").write_text("\n")
    region.serve("--no-vm", "--config", region.folder / "from-a-file.conf")
    said = succeed(BARCUDA, "ps")
    assert "\nfrom-a-file " in "\n" + said, said


@pytest.mark.parametrize("option, value, words", [("--name", 'a"b', "letters"), ("--metrics", "nowhere", "HOST:PORT")], ids=["name", "address"])
def test_a_name_that_would_end_a_label_and_an_address_that_is_none_are_refused(region, option, value, words):
    ran = run(BRIDGE, "--region", region.path, "--device", DEVICE, option, value)
    assert ran.status != 0 and words in ran.err, ran
