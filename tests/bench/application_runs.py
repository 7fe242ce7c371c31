# SPDX-License-Identifier: Apache-2.0
"""application_runs.py: tests/bench/applications, natively and under `barcuda run` in turn, or under it with thresholds of the heap in turn."""
import pathlib
import sys

from places import Cold, measure, say

FILES = sorted((pathlib.Path(__file__).resolve().parent / 'applications').glob('*_applications.py'))


class Here:
    """The machine as it is: frameworks bring CUDA's libraries with them."""
    name = 'native'

    def command(self, program):
        return program, None

    def settle(self):
        pass


def chosen(a, file):
    """The command for a file, or None if none of its applications is asked for."""
    names = [n for n in a.application if f'\ndef {n}()' in file.read_text()]
    return [sys.executable, '-B', str(file), *names] if names or not a.application else None


def once(a, place, column, results, told, part, text):
    for file in FILES:
        command = chosen(a, file)
        if not command:
            continue
        rows = {}
        part(f'{column}: {file.stem} {text}', lambda: rows.update(measure(place, command, timeout=240)))
        results.add(column, rows)
        for name, row in rows.items():
            if 'result' in row:
                told.setdefault(name, []).append(row['result'])


def same(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 0.01 * max(abs(x), abs(y), 1e-6) for x, y in zip(a, b))


def judge(results, told):
    """Each program's numbers are those of its first run, which is native where there is a GPU: to a hundredth, since training takes sums in any order."""
    other = [name for name, runs in told.items() if not all(same(runs[0], run) for run in runs)]
    if told:
        results.value('app_other_results', 'programs', 'flat', len(other))
    for name in other:
        say(f'  {name} differs: ' + '; '.join(str(run[:4]) for run in told[name]))


def applications(a, native, flat, results, part):
    told = {}
    ours = Cold(a, BENCH_BARCUDA=str(a.root / 'bin/barcuda'))
    for r in range(a.repetitions):
        for place in [Here()] * bool(native) + [ours]:
            once(a, place, place.name, results, told, part, f'{r + 1}/{a.repetitions}')
    judge(results, told)


def thresholds(a, native, flat, results, part):
    told = {}
    for r in range(a.repetitions):
        for threshold in a.thresholds.split(','):
            once(a, Cold(a, BARCUDA_THRESHOLD=threshold), threshold, results, told, part, f'{r + 1}/{a.repetitions}')
    judge(results, told)
