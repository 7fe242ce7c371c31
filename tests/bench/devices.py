# SPDX-License-Identifier: Apache-2.0
"""devices.py: all GPUs of this machine. Our tests of several devices; which devices a program sees in what order; pairs of them, and all at the
same time (devices_bench.cu); bridges that share them out; NCCL's collectives; training and generation on all of them (applications/)."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading

from application_runs import Here, all_of
from places import Cold, Flat, die_with_parent, measure, rows_of, say

APPLICATIONS = pathlib.Path(__file__).resolve().parent / 'applications'
TESTS = ('devices', 'device_state', 'which_devices')  # of tests/programs: those that use all devices that there are


def program_of(a, *words):
    return [a.root / 'bench/devices_bench', *words] + ['--quick'] * a.quick


def measured(a):
    return program_of(a) + (['--only', a.only] if a.only else []) + (['--budget', str(a.budget)] if a.budget else [])


def uuids(a, place):
    """Of the devices that a program sees there, in its order."""
    return [u for u in measure(place, program_of(a, '--list'), 120).get('about', {}).get('uuids', '').split(',') if u]


# ---- our own tests -------------------------------------------------------------------------------------------------

def output_of(place, program, limit, **more):
    """(standard output, what was wrong or None)"""
    command, env = place.command([str(x) for x in program])
    try:
        done = subprocess.run(command, env={**(env or os.environ), **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace', timeout=limit,
                              preexec_fn=die_with_parent)
    except subprocess.TimeoutExpired:
        return '', f'no end within {limit} s'
    wrong = None if done.returncode == 0 else ((done.stderr + done.stdout).strip().splitlines() or [f'status {done.returncode}'])[-1]
    return done.stdout, wrong


def tests(a, places, results):
    """All of them in all places at the same time: nothing is measured."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        running = {(place.name, name): pool.submit(output_of, place, [a.root / 'programs' / name], 150) for place in places for name in TESTS}
    for place in places:
        wrong = {name: running[place.name, name].result()[1] for name in TESTS}
        for name, why in wrong.items():
            if why:
                say(f'  {place.name}: {name}: {why}')
        results.value('test_programs_failed', 'programs', place.name, sum(why is not None for why in wrong.values()))


def orders(every):
    """(CUDA_VISIBLE_DEVICES, the devices it names): backwards, in turn, every other one, the last half; by number and by UUID."""
    n = len(every)
    for order in (list(range(n))[::-1], [*range(1, n), 0], [*range(1, n, 2), *range(0, n, 2)], list(range(n // 2, n))):
        yield ','.join(map(str, order)), order
    yield ','.join(every[::-1]), list(range(n))[::-1]


def seen(a, place, **more):
    """[(UUID, place on the bus)] as a program finds them, which has had a kernel's result of each; or what was wrong."""
    out, wrong = output_of(place, [a.root / 'programs/which_devices'], 120, **more)
    return wrong or re.findall(r'^\d+ (GPU-\S+) (\S+)$', out, re.M)


def visible(a, places, results):
    first = None
    for place in places:
        every = seen(a, place)
        first = first or every
        wrong = [('all', every)] * (every != first or isinstance(every, str))
        if not wrong:
            asked = list(orders([uuid for uuid, _ in every]))
            with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
                got = list(pool.map(lambda one: seen(a, place, CUDA_VISIBLE_DEVICES=one[0]), asked))
            wrong = [(value, found) for (value, order), found in zip(asked, got) if found != [every[i] for i in order]]
        for value, found in wrong:
            say(f'  {place.name}: CUDA_VISIBLE_DEVICES={value}: {found}')
        results.value('visible_orders_wrong', 'orders', place.name, len(wrong))


# ---- guests that share them out ------------------------------------------------------------------------------------

def together(a, clients, seconds):
    """Runs [(place, environment)] at the same time: of each (what it told, its status)."""
    running = []
    for place, more in clients:
        command, env = place.command([str(x) for x in program_of(a, '--work', str(seconds))])
        running.append(subprocess.Popen(command, env={**(env or os.environ), **more}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent))
    late = threading.Timer(60 + seconds, lambda: [p.kill() for p in running])
    late.start()
    heads = []
    for p in running:
        heads.append('')
        for line in p.stdout:
            heads[-1] += line
            if line.startswith('{"at"'):
                break
    for p in running:
        if p.poll() is None:
            p.stdin.write('\n')
            p.stdin.flush()
    told = [(rows_of(head + p.communicate()[0]), p.returncode) for head, p in zip(heads, running)]
    late.cancel()
    return told


def shares(n):
    """What guests get, by the rows' names: each half of the devices, one each, and two the same one."""
    half = (n + 1) // 2
    if n > 1:
        yield f'2_guests_of_{half}', [list(range(half)), list(range(half, n))]
    if n > 2:
        yield f'{n}_guests_of_1', [[i] for i in range(n)]
    yield '2_guests_of_the_same', [[0], [0]]


def guests(a, native, every, results, part):
    """Bridges with --gpus, a client of each at the same time; natively programs with CUDA_VISIBLE_DEVICES."""
    small = argparse.Namespace(**{**vars(a), 'region_size': '1G'})
    seconds = 1 if a.quick else 2

    def judge(name, column, sets, told):
        good = [status == 0 and rows.get('wrong_words', {}).get('value') == 0 and rows.get('about', {}).get('uuids') == ','.join(every[i] for i in devices)
                for devices, (rows, status) in zip(sets, told)]
        for devices, (rows, status), well in zip(sets, told, good):
            if not well:
                say(f'  {column}: {name}: the one of {devices}: status {status}, {rows}')
        results.value(f'{name}_failed', 'guests', column, good.count(False))
        if all(good):
            results.value(f'{name}_rounds', 'rounds/s', column, sum(len(devices) * rows['rounds']['value'] for devices, (rows, _) in zip(sets, told)))

    for name, sets in shares(len(every)):
        def natively():
            judge(name, 'native', sets, together(a, [(native[0], {'CUDA_VISIBLE_DEVICES': ','.join(map(str, s))}) for s in sets], seconds))

        def ours():
            bridges = []
            try:
                for s in sets:
                    bridges.append(Flat(small, ['--gpus', ','.join(map(str, s))]))
                judge(name, 'flat', sets, together(a, [(bridge, {}) for bridge in bridges], seconds))
            finally:
                for bridge in bridges:
                    bridge.close()
        if native:
            part(f'native: {name}', natively)
        part(f'flat: {name}', ours)


# ---- NCCL, PyTorch -------------------------------------------------------------------------------------------------

def ranks(place, n, row, limit, *words):
    """The rows of a program with so many ranks; a failure is one of them."""
    return measure(place, [sys.executable, '-B', str(APPLICATIONS / 'ranks.py'), '--ranks', str(n), '--limit', str(limit), '--row', row, str(APPLICATIONS / words[0]),
                           *words[1:]], limit + 30, settled=True)


def collectives(a, places, n, results, part):
    quick = ['--quick'] * a.quick
    for how, number, more in (('one_process', 1, ['--gpus', str(n)]), ('processes', n, [])):
        for size in ([], ['--small']):
            for place in places:
                part(f'{place.name}: NCCL, {how}{" small" * bool(size)}',
                     lambda: results.add(place.name, ranks(place, number, f'nccl_{how}', 75, 'collectives.py', *more, *size, *quick)))


def distance(one, other):
    """How far two results are from each other, as a part of the larger numbers' size."""
    if len(one) != len(other):
        return 1.0
    return max((abs(x - y) for x, y in zip(one, other)), default=0.0) / max([1e-30, *map(abs, one)])


def distributed(a, place, n):
    """The rows of PyTorch's applications; what fails or hangs is one, and those behind it go on in new processes."""
    rows, left = {}, [name for name in all_of(APPLICATIONS / 'distributed.py') if name in a.application or not a.application]
    while left:
        told = ranks(place, n, 'ended', 90, 'distributed.py', *left)
        ended = told.pop('ended', None)
        rows.update(told)
        if not ended:  # what has no row is not for this machine
            break
        met = any(f'app_{name}' in told for name in left)
        left = [name for name in left if f'app_{name}' not in rows]
        # Ranks that wait for each other and have shown nothing have not met: nor would they for the others.
        blamed = left if not met and ended['failed'].startswith('no end') else left[:1]
        rows.update({f'app_{name}': {**ended, 'metric': f'app_{name}'} for name in blamed})
        left = left[len(blamed):]
    return rows


def training(a, places, n, results, part):
    """Natively twice: two native runs say how far results may be from each other."""
    told = {}
    for place in [*places, *places[:-1]]:
        rows = {}
        part(f'{place.name}: PyTorch on {n} GPUs', lambda: rows.update(distributed(a, place, n)))
        results.add(place.name, rows)
        for name, row in rows.items():
            if 'result' in row:
                told.setdefault(name, {}).setdefault(place.name, []).append(row['result'])
    for name, runs in told.items():
        natively, ours = runs.get('native', []), runs.get('flat', [])
        if len(natively) > 1:
            results.value(f'{name}_differs', 'of its size', 'native', distance(*natively[:2]))
            for run in ours:
                results.value(f'{name}_differs', 'of its size', 'flat', min(distance(native, run) for native in natively))


# ---- the part ------------------------------------------------------------------------------------------------------

def devices(a, native, flat, results, part):
    every = uuids(a, native[0] if native else Cold(a))
    n = len(every)
    if n < 2:
        say(f'devices: {n or "no"} device here: what several would show is left out')
    if not n:
        return
    flat = Flat(a, [], n << 30)  # a block of 256 MiB for each device, and another, pinned
    try:
        places = native + [flat]
        for place in places:
            results.add(place.name, measure(place, program_of(a, '--list'), 120))
        if all((a.root / 'programs' / name).exists() for name in TESTS):
            part('tests of several devices', lambda: tests(a, places, results))
            part('CUDA_VISIBLE_DEVICES', lambda: visible(a, places, results))
        else:
            say(f'  {a.root}/programs has not {", ".join(TESTS)} (make programs): tests and orders are left out')
        for r in range(a.repetitions):
            for place in places:
                part(f'{place.name}: {n} devices {r + 1}', lambda: results.add(place.name, measure(place, measured(a), 120)))
    finally:
        flat.close()
    guests(a, native, every, results, part)
    if a.device == 'soft' or (not native and not a.no_native):
        return say('devices: no GPU: NCCL and PyTorch are left out')
    large = Cold(argparse.Namespace(**{**vars(a), 'region_size': f'{max(8, 2 * n)}G'}))
    frameworks = [Here()] * bool(native) + [large]
    collectives(a, frameworks, n, results, part)
    training(a, frameworks, n, results, part)
