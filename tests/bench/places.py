# SPDX-License-Identifier: Apache-2.0
"""places.py: where programs are measured (natively, through Barcuda with and without a VM), and one run of a program there."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import report

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / 'tests/vm'))
from guest import has_kvm  # noqa: E402


def say(text):
    print(text, flush=True)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


# ---- where programs run --------------------------------------------------------------------------------------------

class Native:
    """The machine's own CUDA."""
    name = 'native'

    def __init__(self, a):
        library = ':'.join(str(d) for d in (f'{a.cuda}/lib64', f'{a.cuda}/targets/x86_64-linux/lib') if os.path.isdir(d))
        self.env = {**os.environ, 'LD_LIBRARY_PATH': library + ':' + os.environ.get('LD_LIBRARY_PATH', '')}

    def command(self, program):
        return program, self.env

    def settle(self):
        pass

    def there(self, a):
        """Is there a GPU? The benchmark's own answer: 77 says no."""
        tried = subprocess.run([a.root / 'bench/cuda_bench', '--start'], env=self.env, timeout=60,
                               capture_output=True, text=True)
        if tried.returncode not in (0, 77):
            say(f'  native: cuda_bench does not start ({tried.returncode}): {tried.stderr.strip()[-300:]}')
        return tried.returncode == 0


class Flat:
    """Barcuda with no VM: a region, one bridge for all runs, programs under the library."""
    name = 'flat'

    def __init__(self, a, options=(), least=0):
        size = max({'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[a.region_size[-1].upper()] * int(a.region_size[:-1]), least)
        room, self.folder = os.statvfs('/dev/shm'), None
        if room.f_bavail * room.f_frsize >= size:
            self.folder = tempfile.TemporaryDirectory(prefix='barcuda-bench-', dir='/dev/shm')
            self.region = f'{self.folder.name}/region'
        else:  # a container's /dev/shm is often small
            self.region = f'/proc/{os.getpid()}/fd/{os.memfd_create("barcuda-bench")}'
        ready, tell = os.pipe()
        self.log = tempfile.NamedTemporaryFile(prefix='barcuda-bench-', suffix='.log')
        self.bridge = subprocess.Popen(
            [a.root / 'bin/barcuda-bridge', '--region', self.region, '--size', str(size), '--no-vm', '--device', a.device,
             '--ready-fd', str(tell), *options], pass_fds=[tell], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        os.close(tell)
        with os.fdopen(ready, 'rb') as pipe:
            if not pipe.read(1):
                sys.exit('tests/bench/run: the bridge did not start: ' + pathlib.Path(self.log.name).read_text())
        lib, self.barcuda = a.root / 'lib', a.root / 'bin/barcuda'
        self.env = {**os.environ, 'BARCUDA_REGION': self.region, 'LD_PRELOAD': str(lib / 'libbarcuda.so'),
                    'LD_LIBRARY_PATH': str(lib / 'barcuda')}

    def command(self, program):
        return program, self.env

    def settle(self):
        """Until the next warm worker has its context: it is quiet when it has used no CPU for a while."""
        deadline, quiet, before = time.time() + 8, 0, -1
        while time.time() < deadline and quiet < 4:
            used = cpu_seconds(self.bridge.pid)
            quiet, before = (quiet + 1 if used - before < 0.005 else 0), used
            time.sleep(0.15)

    def serving(self):
        """The process that serves, a child of its keeper (self.bridge)."""
        def serves(pid):
            with contextlib.suppress(OSError):
                return pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')[1:2] == [b'--region']
        return next((pid for pid in family(self.bridge.pid) if pid != self.bridge.pid and serves(pid)), self.bridge.pid)

    def told(self):
        """What `barcuda ps` says of the bridge: a list of one, or of none."""
        told, serving = subprocess.run([self.barcuda, 'ps', '--json'], capture_output=True, text=True).stdout, self.serving()
        return [b for b in json.loads(told or '{}').get('bridges', []) if b['pid'] == serving]

    def region_memory(self, pid):
        """Bytes of the region that a client has been granted."""
        return sum(c['region_memory'] for b in self.told() for c in b['clients'] if c['pid'] == pid)

    def waiting(self, workers, seconds=60):
        """Until so many workers wait for clients."""
        deadline, seen = time.time() + seconds, None
        while time.time() < deadline:
            seen = [b['waiting_workers'] for b in self.told()]
            if seen and seen[0] >= workers:
                return
            time.sleep(0.2)
        say(f'  flat: {workers} workers should wait, {seen} do after {seconds} s')

    def close(self):
        self.bridge.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.bridge.wait(5)
        self.bridge.kill()
        if self.folder:
            self.folder.cleanup()
        text = pathlib.Path(self.log.name).read_text().strip()
        if text:
            say('the bridge said:\n' + text[-3000:])


class Cold:
    """Barcuda with a bridge started at that moment: `barcuda run`."""
    name = 'flat'

    def __init__(self, a, **environment):
        self.run = [str(a.root / 'bin/barcuda'), 'run', '--device', a.device, '--region-size', a.region_size, '--']
        self.env = {**os.environ, **environment}

    def command(self, program):
        return self.run + [str(x) for x in program], self.env

    def settle(self):
        pass


def accelerator():
    return 'KVM' if has_kvm() else 'software emulation'


class Guest:
    """Barcuda in a QEMU guest: a boot for every run. `options` are tests/vm/run's."""
    name = 'vm'

    def __init__(self, a, options=(), before=()):
        self.run = [str(TOP / 'tests/vm/run'), '--device', a.device, '--timeout', str(a.vm_timeout), *options, '--', *before]
        self.env = {**os.environ, 'BARCUDA_BUILD': str(a.root.resolve())}

    def command(self, program):
        return self.run + [str(x) for x in program], self.env

    def settle(self):
        pass


# ---- one run -------------------------------------------------------------------------------------------------------

def rows_of(text):
    rows = {}
    for line in text.splitlines():
        if line.startswith('{'):
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                if 'metric' in row or 'device' in row:
                    rows[row.get('metric', 'about')] = row
    return rows


def measure(place, program, timeout=300.0, settled=False):
    """Runs the program there. Returns its rows; what went wrong is said, and what was measured before it is kept."""
    return rows_and_status(place, program, timeout, settled)[0]


def rows_and_status(place, program, timeout=300.0, settled=False):
    if not settled:
        place.settle()
    command, env = place.command(program)
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors='replace', timeout=timeout, preexec_fn=die_with_parent)
        out, err, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as e:
        out, err, status = (e.stdout or b'').decode(errors='replace'), (e.stderr or b'').decode(errors='replace'), 'timeout'
    if status or err:
        say(f'  {place.name}: {os.path.basename(str(program[0]))} {" ".join(map(str, program[1:]))}: status {status}'
            + ''.join(f'\n    {line}' for line in err.splitlines()[-12:]))
    return rows_of(out), status


class Results:
    """rows: metric -> {unit, column -> {value, low, high, runs} or {failed}}; left_out: what was not run, and why"""

    def __init__(self):
        self.seen, self.units, self.failed, self.about, self.counts, self.left_out = {}, {}, {}, {}, {}, {}

    def add(self, column, rows, prefix=''):
        for name, row in rows.items():
            if name == 'about':
                self.about.setdefault(column, row)
            elif 'failed' in row:
                self.failed.setdefault((prefix + name, column), row['failed'])
            else:
                self.units[prefix + name] = row['unit']
                if 'counts' in row:
                    self.counts[prefix + name] = row['counts']
                self.seen.setdefault(prefix + name, {}).setdefault(column, []).append(row['value'])

    def value(self, name, unit, column, value):
        self.add(column, {name: {'metric': name, 'unit': unit, 'value': value}})

    def rows(self):
        table = {}
        for name, columns in self.seen.items():
            table[name] = {'unit': self.units[name], **({'counts': self.counts[name]} if name in self.counts else {})}
            for column, values in columns.items():
                table[name][column] = {'value': report.median(values), 'low': min(values), 'high': max(values), 'runs': len(values)}
        for (name, column), why in self.failed.items():
            table.setdefault(name, {'unit': ''}).setdefault(column, {'failed': why})
        return table


def family(pid):
    """A process, and all that it started and still has."""
    children = {}
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(')')[2].split()[1]), []).append(int(stat.parent.name))
    todo = [pid]
    for one in todo:
        todo += children.get(one, [])
    return todo


def cpu_seconds(pid, with_children=True):
    """CPU time of a process, and of its family."""
    used = 0.0
    for one in family(pid) if with_children else [pid]:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f'/proc/{one}/stat').read_text().rpartition(')')[2].split()
            mine = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
            with contextlib.suppress(OSError, ValueError):  # in nanoseconds, where the kernel counts them
                mine = sum(int(t.read_text().split()[0]) for t in pathlib.Path(f'/proc/{one}/task').glob('*/schedstat')) / 1e9 or mine
            used += mine
    return used


def own_memory(pid):
    """Bytes of memory that a process and its family share with no file: the region is not in it."""
    used = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            used += sum(int(n) for n in re.findall(r'^RssAnon:\s+(\d+) kB', pathlib.Path(f'/proc/{one}/status').read_text(), re.M)) << 10
    return used
