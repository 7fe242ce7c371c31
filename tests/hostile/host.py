# SPDX-License-Identifier: Apache-2.0
"""host.py: what campaigns share: a bridge on a region of its own, clients of it, and its books: what it holds when no client uses it any
more, to be compared with what it held at the beginning."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CHANNELS, CHANNEL = 0x100000, 0x100000  # shm-device/layout.h
# What a bridge or a worker says when there is a defect.
CRASH = re.compile(r'(?:worker process|for a client) (?:was killed by signal|ended with status)|AddressSanitizer|runtime error:|its cage denies|region\'s memory is gone')


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
    except (OSError, ValueError):
        return []


def state_of(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
        return None


class Host:
    def __init__(self, build, bridge_build=None, device='soft', size='4G', options=()):
        self.build, self.size, self.device, self.options = pathlib.Path(build).resolve(), size, device, list(options)
        self.bridge_build = pathlib.Path(bridge_build or build).resolve()
        place = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='barcuda-test-', dir=place))
        self.region, self.log = self.folder / 'region', self.folder / 'log'
        self.bridge, self.ended_early = None, 0
        lib = self.build / 'lib'
        self.env = {**os.environ, 'BARCUDA_REGION': str(self.region), 'LD_PRELOAD': str(lib / 'libbarcuda.so'),
                    'LD_LIBRARY_PATH': f'{lib}/barcuda:{lib}/barcuda-libraries'}
        self.plain_env = {**os.environ, 'BARCUDA_REGION': str(self.region)}

    def start(self):
        ready, tell = os.pipe()
        env = {**os.environ, 'ASAN_OPTIONS': 'detect_leaks=0:' + os.environ.get('ASAN_OPTIONS', ''),
               'UBSAN_OPTIONS': 'print_stacktrace=1:' + os.environ.get('UBSAN_OPTIONS', '')}
        with open(self.log, 'ab') as log:
            self.bridge = subprocess.Popen(
                [self.bridge_build / 'bin/barcuda-bridge', '--region', self.region, '--size', self.size, '--no-vm', '--device', self.device,
                 '--log-level', 'info', '--guest-starts', '0', '--guest-log-text', '0', '--client-log-text', '0', '--ready-fd', str(tell), *self.options],
                pass_fds=[tell], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        os.close(tell)
        with os.fdopen(ready, 'rb') as pipe:
            if not pipe.read(1):
                holders = [(p, state_of(p), self.words_of(p)[:2]) for p in self.open_by()]
                raise SystemExit(f'the bridge did not start: {self.said()[-2000:]}\nwho has the region open: {holders}')

    def said(self):
        return self.log.read_text(errors='replace')

    def client(self, *words, **more):
        return subprocess.Popen([str(w) for w in words], env=self.env, preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, cwd=TOP, **more)

    def lives(self):
        return self.bridge.poll() is None

    def proper(self):
        """The process that serves, a child of the keeper's; None where none serves at this moment."""
        return next((p for p in children(self.bridge.pid) if self.words_of(p)[1:2] == [b'--region']), None)

    def returned(self):
        """How many bridges have taken the place of one that ended."""
        return self.said().count('this bridge goes on with')

    def kill(self):
        """Kills the keeper, and waits until the process that serves has ended with it."""
        proper = self.proper()
        self.bridge.kill()
        self.bridge.wait()
        while proper and state_of(proper) not in (None, 'Z', 'X'):
            time.sleep(0.01)

    def workers(self):
        """(serving, waiting): the bridge's workers by what they do."""
        serving, slots = set(), 0
        with open(self.region, 'rb') as region:
            region.seek(64)
            slots = struct.unpack('<I', region.read(4))[0]
            for i in range(slots):
                region.seek(CHANNELS + i * CHANNEL)
                state, _, _, pid = struct.unpack('<IIII', region.read(16))
                if state == 1:
                    serving.add(pid)
        all_workers = [p for p in children(self.bridge.pid) if b'--worker' in self.words_of(p)]
        return [p for p in all_workers if p in serving], [p for p in all_workers if p not in serving]

    @staticmethod
    def words_of(pid):
        try:
            return pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        except OSError:
            return []

    def books(self):
        doctor = subprocess.run([self.build / 'bin/barcuda', 'doctor'], env=self.plain_env, capture_output=True, text=True, timeout=120)
        use = re.search(r'in use: (\d+) of \d+ channels, (\d+) of \d+ MiB', doctor.stdout + doctor.stderr)
        pid, all_children = self.bridge.pid, children(self.bridge.pid)  # the monitor comes when a client asks for it
        rss = re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{pid}/status').read_text())
        return {'channels in use': int(use[1]) if use else None, 'MiB of extents in use': int(use[2]) if use else None,
                'descriptors': len(os.listdir(f'/proc/{pid}/fd')),
                'workers': len([p for p in all_children if b'--worker' in self.words_of(p)]),
                'zombies': len([p for p in all_children if state_of(p) == 'Z']),
                'MiB of the region': self.region.stat().st_blocks >> 11, 'bridge MiB': int(rss[1]) >> 10}

    def wrong_books(self, before, seconds=60):
        """What is not as it was, when all had time to end. The bridge itself may have grown by 16 MiB (with sanitizers by what these quarantine,
        256), the region by what a worker prepares."""
        may_grow = {'bridge MiB': 16 if self.bridge_build == self.build else 272, 'MiB of the region': 128}
        end = time.time() + seconds
        while True:
            now = self.books()
            wrong = {k: (before[k], now[k]) for k in before if now[k] is None or not before[k] - may_grow.get(k, 0) <= now[k] <= before[k] + may_grow.get(k, 0)}
            if not wrong or time.time() > end:
                return wrong, now
            time.sleep(0.5)

    def open_by(self):
        """Processes that have the region's file open."""
        found = []
        for entry in pathlib.Path('/proc').iterdir():
            try:
                if entry.name.isdigit() and any(os.readlink(entry / 'fd' / fd) == str(self.region) for fd in os.listdir(entry / 'fd')):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def orphans(self):
        """Workers and monitors of this region's bridges whose bridge has ended."""
        def parent(pid):
            try:
                return int(pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[1])
            except OSError:
                return self.bridge.pid
        return [p for p in self.open_by() if p != self.bridge.pid and self.words_of(p)[:1] == [b'barcuda-bridge'] and parent(p) != self.bridge.pid]

    def stop(self):
        if self.bridge and self.lives():
            self.bridge.terminate()
            self.bridge.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
