# SPDX-License-Identifier: Apache-2.0
"""lives.py: what a pause and its return take, by the memory that the client has on the GPU; how long no bridge serves when one was killed; and
what forks of a suspended program take and cost."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

from places import Flat, die_with_parent, family, measure, own_memory, say


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


class Clone:
    """One of several VMs that go on from the same point: `barcuda wake --as`, and a copy of the program that plays the VM."""

    def __init__(self, a, flat, folder, name):
        self.region, self.log = pathlib.Path(flat.folder.name) / name, open(f'{flat.folder.name}/{name}.log', 'w+')
        # What its clients' processes hold of a region's file: this one does until they are there.
        self.held = open(self.region, 'w+b')
        fcntl.fcntl(self.held, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, os.SEEK_SET, 1, 0, 0))  # F_OFD_SETLK
        self.began = time.time()
        self.bridge = subprocess.Popen([flat.barcuda, 'wake', '--as', name, '--region', self.region, folder, '--no-vm', '--device', a.device,
                                        '--log-level', 'info'], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=die_with_parent)

    def awakes(self, seconds=120):
        while time.time() < self.began + seconds and self.bridge.poll() is None:
            if 'awake, with 1 client' in pathlib.Path(self.log.name).read_text():
                return True
            time.sleep(0.005)
        return say(f'  a fork does not wake: {pathlib.Path(self.log.name).read_text()[-2000:]}')

    def memory(self, told):
        """MiB: of its region's file, of its processes' own, on the GPU."""
        clients = [c for b in told if b['pid'] in family(self.bridge.pid) for c in b['clients']]
        return self.region.stat().st_blocks / 2048, own_memory(self.bridge.pid) / 2**20, sum(sum(c['device_memory']) for c in clients) / 2**20

    def end(self):
        self.bridge.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.bridge.wait(10)
        self.bridge.kill()
        self.held.close()
        self.log.close()


def forks(a, results, count, mib, pinned):
    """A program with so much on the GPU and in the region, and `count` VMs that go on from where it was suspended, all at once."""
    player = a.root / 'e2e/pauses'
    flat = Flat(a, ('--device-memory', 'blocks'))
    if not player.exists() or not flat.folder:
        flat.close()
        return say(f'  no forks: {player} is missing, or /dev/shm is small')
    folder, clones, answers = f'{flat.folder.name}/set', [], []
    # Its buffers are not in the region: it is copied while it runs.
    vm = subprocess.Popen([player, 'follows', str(mib), str(pinned)], env=flat.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          preexec_fn=die_with_parent)
    try:
        if 'running' not in vm.stdout.readline():
            return say(f'  no room for {mib} MiB')
        start = time.time()
        subprocess.run([flat.barcuda, 'suspend', '--region', flat.region, folder], check=True, stdout=subprocess.DEVNULL)
        results.value(f'forks_{count}_suspended', 'ms', 'flat', (time.time() - start) * 1e3)
        reader = threading.Thread(target=lambda: [answers.append((time.time(), line)) for line in vm.stdout if re.search('right|wrong', line)])
        reader.start()
        clones = [Clone(a, flat, folder, f'clone{i}') for i in range(count)]
        for clone in clones:
            if not clone.awakes():
                return
            results.value(f'forks_{count}_awake', 'ms', 'flat', (time.time() - clone.began) * 1e3)
        told = json.loads(subprocess.run([flat.barcuda, 'ps', '--json'], capture_output=True, text=True).stdout)['bridges']
        for clone in clones:
            for what, mibs in zip(('region', 'processes', 'gpu'), clone.memory(told)):
                results.value(f'forks_{count}_{what}', 'MiB', 'flat', mibs)
        for n, clone in enumerate(clones, 1):
            asked = time.time()
            vm.stdin.write(f'clone {clone.region}\n')
            vm.stdin.flush()
            while len(answers) < n and time.time() < asked + 60:
                time.sleep(0.002)
            if len(answers) >= n:
                results.value(f'forks_{count}_first_answer', 'ms', 'flat', (answers[n - 1][0] - asked) * 1e3)
        results.value(f'forks_{count}_wrong', 'forks', 'flat', count - sum(line == 'right\n' for _, line in answers))
    finally:
        vm.kill()
        vm.wait()
        for clone in clones:
            clone.end()
        shutil.rmtree(folder, ignore_errors=True)
        flat.close()


def lives(a, native, flat, results, part):
    for mib in (1, 64) if a.quick else (1, 1024, 8192, 32768):
        part(f'flat: pauses with {mib} MiB', lambda mib=mib: pause(a, flat, results, mib, a.repetitions))
    part('flat: eight forks', lambda: forks(a, results, 8, *((16, 16) if a.quick else (1024, 256))))
    for r in range(a.repetitions):
        part(f'flat: a bridge is killed {r + 1}/{a.repetitions}', lambda: killed(a, flat, results))
