# SPDX-License-Identifier: Apache-2.0
"""several.py: starts of programs, alone and many at once; threads; clients at once; thousands of objects; code that is large or much."""
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time

import report
from places import Cold, Flat, die_with_parent, measure, own_memory, rows_of, say


def shortest(a, places, results):
    """The shortest program, in the shell: natively, with a warm worker, and all of `barcuda run` from nothing."""
    for place, suffix in [(p, '') for p in places] + [(Cold(a), '_cold')]:
        places[-1].waiting(1)  # no driver starts beside what is measured
        place.settle()
        start = time.time()
        rows = measure(place, [a.root / 'bench/cuda_bench', '--start'], settled=True)
        if 'init_first_call' in rows:
            results.value('shortest_program' + suffix, 'ms', place.name, (time.time() - start) * 1e3)
            for name in ('init_first_call', 'first_launch'):
                results.value(name + suffix, 'us', place.name, rows[name]['value'])


def at_once(a, place, results, programs, suffix=''):
    """So many programs that are told to begin at the same time: what the first calls of each take, and whether all get the region's memory."""
    command, env = place.command([str(a.root / 'bench/many_bench'), '--begin'])
    with tempfile.TemporaryDirectory(prefix='barcuda-bench-') as folder:
        running = [subprocess.Popen(command, env={**env, 'BARCUDA_STATS': f'{folder}/{i}'}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    preexec_fn=die_with_parent) for i in range(programs)]
        for p in running:
            p.stdout.readline()
        for p in running:
            p.stdin.write('\n')
            p.stdin.flush()
        told = [rows_of(p.communicate(timeout=180)[0]) for p in running]
        tables = [file.read_text() for file in pathlib.Path(folder).iterdir()]
    failed = sum(p.returncode != 0 for p in running)
    name = f'at_once_{programs}_'
    results.value(f'{name}failures{suffix}', 'programs', place.name, failed)
    for metric, unit in (('first_call', 'ms'), ('first_launch', 'ms'), ('first_copy_16M', 'ms')):
        values = sorted(rows[metric]['value'] for rows in told if metric in rows)
        if values:
            results.value(f'{name}{metric}{suffix}', unit, place.name, report.median(values))
            results.value(f'{name}{metric}_slowest{suffix}', unit, place.name, values[-1])
    if place.name == 'flat' and not failed:
        fallen = [int(n) for table in tables for n in re.findall(r'fallbacks\s+(\d+) blocks', table)]
        if len(fallen) < programs:
            say(f'  flat: {len(fallen)} of {programs} programs told of their memory')
        results.value(f'{name}fallbacks{suffix}', 'blocks', 'flat', sum(fallen))


def starts(a, native, flat, results, part):
    places = native + [flat]
    programs = 4 if a.quick else 32
    for r in range(a.repetitions):
        part(f'starts {r + 1}/{a.repetitions}', lambda: shortest(a, places, results))
    for r in range(a.repetitions):
        for place in native:
            part(f'native: {programs} at once', lambda: at_once(a, place, results, programs))
        grown = Flat(a, ['--warm', '1', '--warm-most', str(programs), '--warm-idle', '600'], programs << 28)  # a client begins with 64 MiB
        try:
            grown.waiting(1)
            part(f'flat: {programs} at once, one worker waits', lambda: at_once(a, grown, results, programs, '_pool_of_1'))
            part('the pool grows', lambda: grown.waiting(programs))
            grown.settle()
            part(f'flat: {programs} at once', lambda: at_once(a, grown, results, programs))
        finally:
            grown.close()


def followed(a, place, results, options, look):
    """Runs many_bench, which says where it is and waits: `look` gets that."""
    place.settle()
    command, env = place.command([str(a.root / 'bench/many_bench'), *options])
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as client:
        out, late = '', threading.Timer(120, client.kill)
        late.start()
        for line in client.stdout:
            out += line
            if line.startswith('{"at"'):
                if place.name == 'flat':
                    place.settle()  # a worker that takes the place of ours among those that wait is not the client's cost
                look(json.loads(line), client.pid)
                client.stdin.write('\n')
                client.stdin.flush()
        late.cancel()
    if client.returncode:
        say(f'  {place.name}: many_bench {" ".join(options)}: status {client.returncode}')
    results.add(place.name, rows_of(out))


def objects(a, place, results, number):
    """Streams and events by the thousand: time and memory of each, here and in the worker."""
    before = [0]

    def look(told, _):
        if place.name == 'flat':
            what, where = told['at'].split('s ', 1)
            now = own_memory(place.bridge.pid)
            if where == 'made':
                results.value(f'{what}_host_memory', 'bytes', 'flat', max(now - before[0], 0) / number)
            before[0] = now
    followed(a, place, results, ['--objects', str(number)], look)


def code(a, place, results, megabytes):
    """Large modules, many kernels, large parameters; and what modules hold, and leave behind: in the program, in bridge and worker, of the region."""
    before = {}

    def look(told, pid):
        name, where = told['at'].split(' ', 1)
        now = {'client_memory': told['client_memory']}
        if place.name == 'flat':
            now.update(host_memory=own_memory(place.bridge.pid), region_memory=place.region_memory(pid))
        if where == 'to load':
            before.update(now)
        else:
            for what in now:
                suffix = '' if where == 'loaded' else '_left'
                results.value(f'{name}_{what}{suffix}', 'MB', place.name, max(now[what] - before[what], 0) / 1e6)
    followed(a, place, results, ['--code', str(megabytes)] + ['--quick'] * a.quick, look)


def clients_at_once(a, place, results, clients):
    results.add(place.name, measure(place, [a.root / 'bench/cuda_bench', '--processes', str(clients)] + ['--quick'] * a.quick))


def threads(a, native, flat, results, part):
    quick = ['--quick'] * a.quick + (['--budget', str(a.budget)] if a.budget else [])
    many = a.root / 'bench/many_bench'
    for r in range(a.repetitions):
        for place in native + [flat]:
            part(f'{place.name}: threads {r + 1}/{a.repetitions}', lambda: results.add(place.name, measure(place, [many, *quick])))
    for r in range(min(a.repetitions, 3)):
        if not a.quick and r == 0:
            large = Flat(a, [], 64 << 28)
            try:
                for place in native + [large]:
                    part(f'{place.name}: 64 processes', lambda: clients_at_once(a, place, results, 64))
            finally:
                large.close()
        for place in native + [flat]:
            for clients in (1, 4) if a.quick else (1, 4, 16):
                part(f'{place.name}: {clients} processes', lambda: clients_at_once(a, place, results, clients))
            part(f'{place.name}: objects', lambda: objects(a, place, results, 500 if a.quick else 10000))
            part(f'{place.name}: code', lambda: code(a, place, results, 4 if a.quick else 100))
