# SPDX-License-Identifier: Apache-2.0
"""lives.py: what a pause and its return take, by the memory that the client has on the GPU; and how long no bridge serves when one was killed."""
import os
import signal
import subprocess
import time

from places import die_with_parent, measure, say


def seconds_of(place, what):
    """`barcuda pause` or `resume` as the shell sees it; None: it was refused."""
    start = time.time()
    ran = subprocess.run([place.barcuda, what, '--region', place.region], capture_output=True, text=True)
    if ran.returncode:
        return say(f'  {what}: {ran.stderr.strip()}')
    return time.time() - start


def pause(a, place, results, mib, repetitions):
    command, env = place.command([str(a.root / 'bench/cuda_bench'), '--hold', str(mib)])
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as client:
        if 'begin' not in client.stdout.readline():
            return say(f'  no room for {mib} MiB')
        for _ in range(repetitions):
            out = seconds_of(place, 'pause')
            back = out and seconds_of(place, 'resume')
            if not back:
                break
            for name, value in (('out', out), ('back', back)):
                results.value(f'pause_{mib}_MiB_{name}', 'ms', place.name, value * 1e3)
        client.communicate('\n', timeout=120)
        results.value(f'pause_{mib}_MiB_lost', 'clients', place.name, int(client.returncode != 0))


def shortest(a, place, results, name):
    start = time.time()
    rows = measure(place, [a.root / 'bench/cuda_bench', '--start'], settled=True)
    if 'init_first_call' in rows:
        results.value(name, 'ms', place.name, (time.time() - start) * 1e3)


def killed(a, place, results):
    """A program that starts at the moment at which the bridge was killed, beside one that starts before."""
    place.settle()
    shortest(a, place, results, 'shortest_program_before')
    place.settle()
    before = place.serving()
    os.kill(before, signal.SIGKILL)
    shortest(a, place, results, 'shortest_program_after_a_kill')
    results.value('bridges_lost', 'bridges', place.name, int(place.serving() == before))


def lives(a, native, flat, results, part):
    for mib in (1, 64) if a.quick else (1, 1024, 8192, 32768):
        part(f'flat: pauses with {mib} MiB', lambda mib=mib: pause(a, flat, results, mib, a.repetitions))
    for r in range(a.repetitions):
        part(f'flat: a bridge is killed {r + 1}/{a.repetitions}', lambda: killed(a, flat, results))
