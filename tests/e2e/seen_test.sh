#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an operator sees: `barcuda ps`, `top`, `metrics` and the exporter show each bridge and client, and agree with what programs have
# done; what a guest says is shown as text and nothing else; who may not ask is told nothing; the log names who came and went.
# Where it may, in a /dev/shm of its own: who asks all bridges wakes those of other tests.
. "$(dirname "$0")/own_mounts.sh"
may_mount "$own_shm" && own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/lib.sh"
need python3
need curl
unset NO_COLOR
barcuda=$build/bin/barcuda
mine=seen-$$
seen() { # seen EXPRESSION: of `barcuda ps --json`, in the end; `b` is this test's first bridge, `c` its clients, `other` the second
    for _ in $(seq 150); do
        $barcuda ps --json > "$scratch/json" 2> "$scratch/err" || fail "barcuda ps --json"
        python3 -c '
import json, sys
bridges = json.load(open(sys.argv[1]))["bridges"]
named = lambda name: next((b for b in bridges if b["name"] == name), None)
b, other = named(sys.argv[2]), named(sys.argv[2] + ".2")
c = b and b["clients"]
sys.exit(0 if eval(sys.argv[3]) else 3)' "$scratch/json" "$mine" "$1" && return
        [ $? = 3 ] || fail "$1 is no question"
        sleep 0.02
    done
    fail "never so: $1: $(cat "$scratch/json")"
}
counted() { # counted NAME MIB: in the background, as $!; a line into $scratch/NAME.in makes it go on
    rm -f "$scratch/$1.in" "$scratch/$1.out" && mkfifo "$scratch/$1.in"
    "${guest[@]}" "$build/e2e/counted" "$2" < "$scratch/$1.in" > "$scratch/$1.out" 2>&1 7>&- 8>&- &
}
rounds() { grep -c running "$scratch/one.out"; }  # of the first

# A machine without a bridge: one whose /dev/shm has no doors.
alone() { unshare -rm sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh "$@"; }
if alone true 2> /dev/null; then
    for command in ps "top --interval 0.1"; do
        [ "$(alone $barcuda $command)" = "No bridge runs on this machine." ] || fail "$command without a bridge"
    done
    alone $barcuda metrics | grep -qx 'barcuda_bridges 0' || fail "metrics without a bridge"
fi

# Two bridges, three clients.
serve --no-vm --name "$mine.2"
second=$bridge
other=$scratch; scratch=$(mktemp -d /dev/shm/barcuda-test-XXXXXX)
finish_both() { kill $(jobs -p) 2> /dev/null; finish; scratch=$other; bridge=$second; finish; }
trap finish_both EXIT
serve --no-vm --name "$mine" --metrics "$scratch/metrics" --metrics-clients
library "$PWD/$build/lib"
counted one 16; one=$!; exec 7> "$scratch/one.in"; await running "$scratch/one.out"
counted two 4; two=$!; exec 8> "$scratch/two.in"; await running "$scratch/two.out"
echo >&7
for _ in $(seq 3000); do [ "$(rounds)" = 2 ] && break; sleep 0.02; done
facts() { grep '{' "$scratch/$1.out" | tail -n 1; }
said="[$(facts one), $(facts two)]"
same() { # same ATTRIBUTE PLACE: of each client what it says itself
    seen "[x$2 for x in c] == [s['$1'] for s in $said]"
}
seen "[x['pid'] for x in c] == [$one, $two] and not other['clients']"
for way in to_device to_host on_device; do same $way "['counts']['copied_bytes']['$way']"; done
same launches "['counts']['launches']"
same graph_launches "['counts']['graph_launches']"
same device_memory "['device_memory'][0]"
seen "all(x['program'] == 'counted' and x['user'] == '$(id -un)' and x['worker'] and x['region_memory'] >= 32 << 20 for x in c)"
seen "[c[0]['counts']['copies'][w] for w in ('to_device', 'to_host', 'on_device')] == [12, 8, 2]"
seen "all(x['queued'] == 0 and 0 < x['age_seconds'] < 600 for x in c) and b['queued'] == 0"
seen "b['region_memory']['held'] == sum(x['region_memory'] for x in c) and b['gpus'][0]['held'] == sum(sum(x['device_memory']) for x in c)"
$barcuda ps > "$scratch/out" || fail "barcuda ps"
grep -Eq "^$mine +0 +$one +$(id -un) +counted +[0-9]+s +16M +[0-9]+M +[0-9]+$" "$scratch/out" || fail "the table: $(cat "$scratch/out")"
grep -Eq "^$mine +$bridge .* 2 +16 " "$scratch/out" || fail "the bridge: $(cat "$scratch/out")"
echo "who is there, and what they have done"

# What a process has done in a second. A GPU is busy or not as NVML says; who waits for nobody shows neither.
(while kill -0 $one; do sent=$(rounds); echo $((sent + 1)) > "$scratch/sent"; echo >&7; while [ "$(rounds)" = "$sent" ]; do sleep 0.01; done; done) 2> /dev/null & feeder=$!
$barcuda top --once --interval 0.5 > "$scratch/out" && grep -Eq "^$mine +0 +$one .* [0-9.]+[KMG]/s +[0-9.]+[KMG]/s " "$scratch/out" || fail "top --once: $(cat "$scratch/out")"
$barcuda top --json --interval 0.5 > "$scratch/json" || fail "top --json"
kill $feeder; wait $feeder 2> /dev/null
python3 - "$scratch/json" "$mine" <<'PY' || fail "rates: $(cat "$scratch/json")"
import json, sys
b = next(b for b in json.load(open(sys.argv[1]))["bridges"] if b["name"] == sys.argv[2])
one, two = b["clients"]
rates = lambda x: x["a_second"]
assert rates(one)["launches"] > 0 and rates(two)["launches"] == 0 and rates(two)["commands"] == 0
assert rates(one)["copied_bytes"]["to_device"] > rates(one)["copied_bytes"]["to_host"] > 0
assert abs(rates(b)["launches"] - rates(one)["launches"]) < 1e-6 * rates(b)["launches"]
PY
! grep -q $'\e' "$scratch/out" || fail "top --once has control characters"
# On a terminal: a full screen; a key sorts, q ends it, and the terminal is as before.
python3 - "$barcuda" "$mine" <<'PY' || fail "top on a terminal"
import fcntl, os, pty, re, select, struct, sys, termios, time
def screen(keys, **variables):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", **variables)
        os.execv(sys.argv[1], [sys.argv[1], "top", "--interval", "0.2"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 180, 0, 0))
    text, since, end, keys = b"", 0, time.monotonic() + 60, list(keys)
    while True:
        assert time.monotonic() < end, (keys, text, os.kill(pid, 9))
        if select.select([fd], [], [], 0.1)[0]:
            try:
                more = os.read(fd, 65536)
            except OSError:
                break
            text += more
        if keys and keys[0][0] in text[since:]:  # what is on the screen already is not drawn again
            os.write(fd, keys.pop(0)[1])
            since = len(text)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text
status, text = screen([(sys.argv[2].encode(), b"l"), (b"*", b"q")])
assert status == 0 and not status and b"*m GPU memory" in text and b"\x1b[?1049l" in text, (status, text)
assert re.search(rb"\x1b\[3[0-7]m", text), "no colours"
status, text = screen([(sys.argv[2].encode(), b"q")], NO_COLOR="1")
assert status == 0 and not re.search(rb"\x1b\[3[0-7]m", text), ("colours", text)
PY
echo "what they do"

# Prometheus: the same numbers, from the exporter and for the textfile collector.
for _ in $(seq 3000); do [ "$(rounds)" = "$(cat "$scratch/sent")" ] && break; sleep 0.02; done
said="[$(facts one), $(facts two)]"
same to_device "['counts']['copied_bytes']['to_device']"
sleep 0.6  # the exporter asks twice a second at most
curl -sf -m 20 --unix-socket "$scratch/metrics" http://bridge/metrics > "$scratch/prom" || fail "the exporter does not answer: $(cat "$scratch/log")"
$barcuda metrics --clients --gpus > "$scratch/all" || fail "barcuda metrics"
for file in prom all; do
    python3 - "$scratch/$file" "$mine" "$said" <<'PY' || fail "$(grep "$mine" "$scratch/$file")"
import json, re, sys
values = {}
for line in open(sys.argv[1]):
    if not line.startswith("#"):
        name, labels, value = re.fullmatch(r'(\w+)(?:\{(.*)\})? (\S+)\n', line).groups()
        key = name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        assert key not in values, key
        values[key] = float(value)
said = json.loads(sys.argv[3])
def value(name, **labels): return values[name, frozenset({"vm": sys.argv[2], **labels}.items())]
for way in "to_device", "to_host", "on_device":
    assert value("barcuda_copy_bytes_total", direction=way) == sum(s[way] for s in said), way
    for channel, s in enumerate(said):
        assert value("barcuda_client_copy_bytes_total", client=str(channel), direction=way) == s[way], (channel, way)
assert value("barcuda_launches_total") == sum(s["launches"] for s in said)
assert value("barcuda_clients") == 2 and value("barcuda_clients_admitted_total") == 2
PY
    ! command -v promtool > /dev/null || promtool check metrics < "$scratch/$file" || fail "promtool"
done
grep -q "vm=\"$mine.2\"" "$scratch/all" && ! grep -q "vm=\"$mine.2\"" "$scratch/prom" || fail "the exporter of one bridge shows another"
grep -q "^barcuda_gpu_busy_ratio{vm=\"$mine\",gpu=\"0\"" "$scratch/all" || [ "$device" != soft ] || fail "how busy the GPU is"
# What the dashboard, the alerts and the page name is there.
python3 - "$scratch/all" docs/operating/dashboard.json docs/operating/alerts.yml docs/operating.md <<'PY' || fail "names of metrics"
import re, sys
there = set(re.findall(r"^# TYPE (\w+)", open(sys.argv[1]).read(), re.M))
for page in sys.argv[2:]:
    named = set(re.findall(r"\bbarcuda_(?!client_\.)[a-z_]*[a-z]", open(page).read())) - {"barcuda_client"}
    assert len(named) > 5 and named <= there, (page, named - there)
assert all(name.startswith("barcuda_client_") or name in open(sys.argv[4]).read() for name in there), "the page lacks one"
PY
! command -v promtool > /dev/null || promtool check rules docs/operating/alerts.yml > "$scratch/out" || fail "alerts: $(cat "$scratch/out")"
exporter=$(pgrep -P "$bridge" -f barcuda-exporter)
grep -q '^Seccomp:.2$' "/proc/$exporter/status" || fail "the exporter has no cage"
kill -9 "$exporter"
for _ in $(seq 1500); do curl -sf -m 20 --unix-socket "$scratch/metrics" http://bridge/metrics > /dev/null && break; sleep 0.02; done
curl -sf -m 20 --unix-socket "$scratch/metrics" http://bridge/metrics > /dev/null || fail "no new exporter"
echo "metrics"

# The others' ends: one leaves, one's worker dies. What they have done stays in the bridge's counts.
exec 7>&-; wait $one || fail "one: $(cat "$scratch/one.out")"
await "channel 0: reclaimed, with .*pid $one, user \"$(id -un)\", program \"counted\", worker [0-9]*; .* 16M of device memory .*; it left" "$scratch/log"
kill -9 "$(sed -n "s/.*channel 1: client admitted, worker \([0-9]*\).*/\1/p" "$scratch/log")"
await "error barcuda-bridge $mine: channel 1: the worker process was killed" "$scratch/log"
exec 8>&-; wait $two 2> /dev/null
await "channel 1: reclaimed.*pid $two, .*; its worker was killed" "$scratch/log"
await "info barcuda-bridge $mine: channel 1: client admitted, worker [0-9]*: pid $two, user \"$(id -un)\", program \"counted\"" "$scratch/log"
seen "not c and b['clients_went'] == {'left': 1, 'refused': 0, 'died': 1} and b['clients_came'] == 2"
seen "all(b['counts']['copied_bytes'][w] == sum(s[w] for s in $said) for w in ('to_device', 'to_host'))"
echo "who has gone"

# A program that is called as a terminal's command, or as a line of metrics, is shown as text.
mkfifo "$scratch/evil.in"
(export "${guest[@]:1}"; exec -a $'x\e[2J"} 1\nbarcuda_up\xff' "$build/e2e/counted" 4 < "$scratch/evil.in" > "$scratch/evil.out" 2>&1) & evil=$!
exec 7> "$scratch/evil.in"; await running "$scratch/evil.out"
for command in "ps" "ps --json" "top --once" "metrics --clients"; do
    $barcuda $command > "$scratch/out" || fail "$command"
    ! LC_ALL=C grep -q $'\e\|\xff\|^barcuda_up' "$scratch/out" && grep -q 'x\\\+x1b' "$scratch/out" || fail "$command shows $(cat -v "$scratch/out")"
done
! grep -q $'\e' "$scratch/log" && grep -q 'program "x\\x1b\[2J?} 1\\x0abarcuda_up?"' "$scratch/log" || fail "the log: $(cat -v "$scratch/log")"
exec 7>&-; wait $evil

# Another user sees that there is something, and no more.
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    nobody $barcuda ps > "$scratch/out" || fail "ps of a plain user"
    grep -q '^No bridge of yours runs on this machine; there .* of other users, which root may see.$' "$scratch/out" || fail "a plain user sees $(cat "$scratch/out")"
    ! nobody $barcuda metrics --clients | grep "$mine" || fail "a plain user sees metrics"
fi
echo "who may not"

# More clients than a message holds: processes that only ask how the GPU is.
kill "$bridge" && wait "$bridge"; rm "$scratch/region"
size=8G serve --no-vm --name "$mine"
env "${guest[@]:1:1}" LD_LIBRARY_PATH="$PWD/$build/lib/barcuda" python3 - > "$scratch/many" <<'PY' & many=$!
import ctypes, os, signal, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
children = []
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        os.write(1, b"ready\n" if nvml.nvmlInit_v2() == 0 else b"failed\n")
        signal.pause()
    children.append(pid)
signal.signal(signal.SIGTERM, lambda *_: ([os.kill(c, 9) for c in children], os._exit(0)))
signal.pause()
PY
for _ in $(seq 3000); do [ "$(wc -l < "$scratch/many")" = 100 ] && break; sleep 0.02; done
seen "len({x['channel'] for x in c}) == 100 and all(x['program'].startswith('python3') and x['worker'] is None for x in c) and b['channels']['in_use'] == 0"
kill $many; wait $many 2> /dev/null
seen "not c"

# Names: of the file of options, of the region; and none that would end a label.
kill "$bridge" && wait "$bridge"
echo > "$scratch/from-a-file.conf"
size=8G serve --no-vm --config "$scratch/from-a-file.conf"
$barcuda ps | grep -q '^from-a-file ' || fail "the name of the file: $($barcuda ps)"
kill "$bridge" && wait "$bridge"; bridge=
! "$build/bin/barcuda-bridge" --region "$scratch/region" --device "$device" --name 'a"b' 2> "$scratch/out" && grep -q 'letters' "$scratch/out" || fail "a name with quotes"
! "$build/bin/barcuda-bridge" --region "$scratch/region" --device "$device" --metrics nowhere 2> "$scratch/out" && grep -q 'HOST:PORT' "$scratch/out" || fail "an address: $(cat "$scratch/out")"
echo passed
