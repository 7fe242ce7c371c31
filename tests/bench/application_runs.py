# SPDX-License-Identifier: Apache-2.0
"""application_runs.py: tests/bench/applications, natively, under `barcuda run` and in a QEMU guest in turn, or under `barcuda run` with thresholds
of the heap in turn."""
import os
import pathlib
import re
import sys

from places import Cold, Guest, accelerator, measure, rows_and_status, say

FILES = sorted((pathlib.Path(__file__).resolve().parent / 'applications').glob('*_applications.py'))
PASSED = ('HOME', 'PYTHONPATH', 'LD_LIBRARY_PATH', 'CUPY_CACHE_DIR')  # where Python, CuPy and the loader look


class Here:
    """The machine as it is: frameworks bring CUDA's libraries with them."""
    name = 'native'

    def command(self, program):
        return program, None

    def settle(self):
        pass


def all_of(file):
    """{application: what it is registered with}"""
    return {name: how for how, name in re.findall(r'^@application\((.*)\)\ndef (\w+)\(\):', file.read_text(), re.M)}


def asked_for(a, file):
    return [n for n in all_of(file) if n in a.application or not a.application]


def command_of(file, names):
    return [sys.executable, '-B', str(file), *names]


def note(rows, column, results, told):
    results.add(column, rows)
    for name, row in rows.items():
        if 'result' in row:
            told.setdefault(name, []).append((column, row['result']))


def once(a, place, column, results, told, part, text):
    for file in FILES:
        if not (names := asked_for(a, file)):
            continue
        rows = {}
        part(f'{column}: {file.stem} {text}', lambda: rows.update(measure(place, command_of(file, names), timeout=240)))
        note(rows, column, results, told)


# ---- in a guest ----------------------------------------------------------------------------------------------------

def guest(a):
    """A guest that sees this machine's files as this user does: packages may lie in a home folder, and the code that CuPy has compiled does."""
    options = ['--user', str(os.getuid()), '--memory', '4G', '--region-size', a.region_size, '--cpus', str(min(4, len(os.sched_getaffinity(0)))),
               '--no-library', *(f'--env={name}' for name in PASSED if os.environ.get(name))]
    return Guest(a, options, [str(a.root / 'bin/barcuda'), 'exec'])


def in_guest(a, file, names, results, told, part):
    """A guest for all of them; where it ends before they do, another for those that are left, without the one that alone filled a guest's time."""
    place, left = guest(a), list(names)
    while left:
        ended = {}

        def boot():
            ended['rows'], ended['status'] = rows_and_status(place, command_of(file, left), a.vm_timeout + 30)
        part(f'vm: {", ".join(left)}', boot)
        rows, status = ended.get('rows', {}), ended.get('status')
        note(rows, 'vm', results, told)
        some = len(left)
        left = [n for n in left if f'app_{n}' not in rows]
        if status in (0, 77):  # what has no row has none natively, either
            return
        why = f'no end within {a.vm_timeout:g} s' if status in (124, 'timeout') else f'the guest ended with status {status}'
        if 'about' not in rows:
            why, lost = f'{why} (before its first application)', left
        else:
            lost = left[:1] if len(left) == some else []
        for name in lost:
            results.add('vm', {f'app_{name}': {'failed': why}})
        left = left[len(lost):]


def in_guests(a, results, told, part):
    emulated, chosen = accelerator() != 'KVM', a.vm_application or a.application
    for file in FILES:
        here = {n: how for n, how in all_of(file).items() if f'app_{n}' in told}  # what does not run here is not tried there
        names = [n for n, how in here.items() if (n in chosen if chosen else not emulated or 'emulated=True' in how)]
        in_guest(a, file, names, results, told, part)
        for name in [n for n in here if n not in names]:
            results.left_out[f'app_{name}'] = 'not named' if chosen else 'not marked for an emulated processor (--vm-application names it)'


# ---- the parts -----------------------------------------------------------------------------------------------------

def same(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 0.01 * max(abs(x), abs(y), 1e-6) for x, y in zip(a, b))


def judge(results, told):
    """Each program's numbers are those of its first run, which is native where there is a GPU: to a hundredth, since training takes sums in any order."""
    other = {}
    for name, runs in told.items():
        for column, run in runs:
            other.setdefault('vm' if column == 'vm' else 'flat', set()).update([name] * (not same(runs[0][1], run)))
    for column, names in other.items():
        results.value('app_other_results', 'programs', column, len(names))
    for name in sorted(set().union(*other.values())):
        say(f'  {name} differs: ' + '; '.join(f'{column} {run[:4]}' for column, run in told[name]))


def applications(a, native, flat, results, part):
    told = {}
    ours = Cold(a, BENCH_BARCUDA=str(a.root / 'bin/barcuda'))
    for r in range(a.repetitions):
        for place in [Here()] * bool(native) + [ours]:
            once(a, place, place.name, results, told, part, f'{r + 1}/{a.repetitions}')
        if a.vm and r < a.vm_repetitions:
            in_guests(a, results, told, part)
    judge(results, told)
    for name, why in results.left_out.items():
        say(f'vm: {name} is left out: {why}')


def thresholds(a, native, flat, results, part):
    told = {}
    for r in range(a.repetitions):
        for threshold in a.thresholds.split(','):
            once(a, Cold(a, BARCUDA_THRESHOLD=threshold), threshold, results, told, part, f'{r + 1}/{a.repetitions}')
    judge(results, told)
