# SPDX-License-Identifier: Apache-2.0
"""cost.py: what Barcuda itself uses: processors and energy for the same work natively and through Barcuda, memory of its processes, and both by the
number of clients of a bridge and of bridges on a host."""
import contextlib
import ctypes
import json
import os
import pathlib
import subprocess
import time

from places import Flat, cpu_seconds, die_with_parent, measure, own_memory, rows_of, say


class Meter:
    """The GPU's own count of its energy, in joules, by NVML; None: it does not count."""

    def __init__(self):
        self.library, self.device = None, ctypes.c_void_p()
        with contextlib.suppress(OSError):
            library = ctypes.CDLL('libnvidia-ml.so.1')
            if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0:
                self.library = library

    def joules(self):
        used = ctypes.c_ulonglong()
        if self.library and self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(used)) == 0:
            return used.value / 1e3
        return None


class Program:
    """A program of the benchmark that starts its work when a line comes, and then waits for another line."""

    def __init__(self, place, program, *arguments):
        command, env = place.command([str(program), *map(str, arguments)])
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.out = ''
        self.ready = self.reads('"ready"')

    def reads(self, word):
        for line in self.process.stdout:
            self.out += line
            if word in line:
                return True
        return False

    def goes_on(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write('\n')
            self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()


# What is done, how often, and how many of them one figure is for.
WORK = {'copies_16M': (1000, 'ms per GB', 1e9 / (16 << 20)), 'copies_4K': (100_000, 'ms per 1,000', 1000),
        'launches': (1_000_000, 'ms per 1,000', 1000), 'launches_and_waits': (100_000, 'ms per 1,000', 1000)}


def work(a, place, results, meter, name):
    """Milliseconds of all processors, of program, bridge and worker together; of these the host's; and joules of the GPU, idle ones included."""
    times, unit, each = WORK[name]
    times //= 100 if a.quick else 1
    place.settle()
    with Program(place, a.root / 'bench/cuda_bench', '--work', name, times) as program:
        if not program.ready:
            return say(f'  {place.name}: no {name}')
        place.settle()
        host, energy = (cpu_seconds(place.bridge.pid) if place.name == 'flat' else 0), meter.joules()
        program.goes_on()
        if not program.reads('"done"'):
            return say(f'  {place.name}: {name} does not end')
        after = meter.joules()
        host = cpu_seconds(place.bridge.pid) - host if place.name == 'flat' else 0
        rows = rows_of(program.out)
        own, seconds = rows['work_cpu']['value'], rows['work_time']['value']
    results.value(f'cost_{name}_cpu', unit, place.name, (own + host) * 1e3 * each / times)
    if place.name == 'flat':
        results.value(f'cost_{name}_cpu_on_the_host', unit, place.name, host * 1e3 * each / times)
    results.value(f'cost_{name}_time', unit, place.name, seconds * 1e3 * each / times)
    if energy is not None and after is not None and after > energy:
        results.value(f'cost_{name}_energy', unit.replace('ms', 'mJ'), place.name, (after - energy) * 1e3 * each / times)


def memory(a, place, results):
    """MiB of anonymous memory: of a program that waits; of bridge and keeper; of a worker that waits for a client, and of one that has one."""
    place.settle()
    before = own_memory(place.bridge.pid) if place.name == 'flat' else 0
    with Program(place, a.root / 'bench/cuda_bench', '--work', 'launches', 1) as program:
        if not program.ready:
            return say(f'  {place.name}: no program')
        place.settle()
        results.value('cost_memory_program', 'MiB', place.name, own_memory(program.process.pid) / 2**20)
        if place.name != 'flat':
            return
        serving = place.serving()
        alone = sum(rss(pid) for pid in (place.bridge.pid, serving))
        results.value('cost_memory_bridge_and_keeper', 'MiB', place.name, alone / 2**20)
        results.value('cost_memory_waiting_worker', 'MiB', place.name, (before - alone) / 2**20)
        results.value('cost_memory_worker', 'MiB', place.name, (own_memory(place.bridge.pid) - before) / 2**20)
        if place.folder:
            results.value('cost_memory_region', 'MiB', place.name, os.stat(place.region).st_blocks / 2048)


def rss(pid):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith('RssAnon:'):
            return int(line.split()[1]) << 10
    return 0


def clients(a, results, counts):
    """Idle clients of one bridge: what they cost, and what the next one's first call takes."""
    flat = Flat(a, (), 2 * counts[-1] << 26)  # a channel for each 64 MiB
    programs = []
    try:
        for count in counts:
            while len(programs) < count:
                programs.append(Program(flat, a.root / 'bench/cuda_bench', '--work', 'launches', 1))
                if not programs[-1].ready:
                    return say(f'  no client {len(programs)}')
            idle(results, f'cost_{count}_clients', [flat])
            first = measure(flat, [a.root / 'bench/cuda_bench', '--start'])
            if 'init_first_call' in first:
                results.value(f'cost_{count}_clients_next_first_call', 'us', 'flat', first['init_first_call']['value'])
            start = time.time()
            subprocess.run([flat.barcuda, 'ps', '--json'], stdout=subprocess.DEVNULL)
            results.value(f'cost_{count}_clients_ps', 'ms', 'flat', (time.time() - start) * 1e3)
            told = flat.told()
            results.value(f'cost_{count}_clients_missing', 'clients', 'flat', max(0, count - sum(len(b['clients']) for b in told)))
    finally:
        for program in programs:
            program.process.kill()
            program.process.wait()
        flat.close()


def bridges(a, results, counts):
    """Idle bridges, each with a region and a worker that waits."""
    flats = []
    try:
        for count in counts:
            while len(flats) < count:
                flats.append(Flat(a, ()))
            idle(results, f'cost_{count}_bridges', flats)
            first = measure(flats[-1], [a.root / 'bench/cuda_bench', '--start'])
            if 'init_first_call' in first:
                results.value(f'cost_{count}_bridges_first_call', 'us', 'flat', first['init_first_call']['value'])
            start = time.time()
            told = json.loads(subprocess.run([flats[0].barcuda, 'ps', '--json'], capture_output=True, text=True).stdout or '{}')
            results.value(f'cost_{count}_bridges_ps', 'ms', 'flat', (time.time() - start) * 1e3)
            results.value(f'cost_{count}_bridges_missing', 'bridges', 'flat', max(0, count - len(told.get('bridges', []))))
    finally:
        for flat in flats:
            flat.close()


def idle(results, name, flats, seconds=4):
    """Processors and memory of bridges, keepers and workers while nothing happens."""
    for flat in flats:
        flat.settle()
    before, began = sum(cpu_seconds(f.bridge.pid) for f in flats), time.time()
    time.sleep(seconds)
    used = sum(cpu_seconds(f.bridge.pid) for f in flats) - before
    results.value(f'{name}_cpu', 'percent', 'flat', 100 * used / (time.time() - began))
    results.value(f'{name}_memory', 'MiB', 'flat', sum(own_memory(f.bridge.pid) for f in flats) / 2**20)


def costs(a, native, flat, results, part):
    meter = Meter()
    for r in range(a.repetitions):
        for name in WORK:
            for place in native + [flat]:
                part(f'{place.name}: {name} {r + 1}/{a.repetitions}', lambda: work(a, place, results, meter, name))
    for place in native + [flat]:
        part(f'{place.name}: memory', lambda: memory(a, place, results))
    part('clients', lambda: clients(a, results, (1, 4, 16) if a.quick else (1, 4, 16, 64, 128)))
    part('bridges', lambda: bridges(a, results, (1, 4, 16) if a.quick else (1, 4, 16, 64)))
