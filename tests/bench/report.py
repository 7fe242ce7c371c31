# SPDX-License-Identifier: Apache-2.0
"""report.py: from measured rows to the table of bars, docs/performance.md and its plots.

A bar compares ours with a native figure of the same run (or with a fixed figure): "at most F times native" for a time, "at
least F times native" for a bandwidth, sometimes the figure of another metric: a copy of malloc memory is held to native's
copy of *pinned* memory, a small block to a library that does nothing but jump to libc's malloc.
"""
import json
import math
import pathlib

import plots


def median(values):
    v = sorted(values)
    n = len(v)
    return v[n // 2] if n % 2 else (v[n // 2 - 1] + v[n // 2]) / 2


class Bar:
    """Met when ours is at most (or at least) `limit` of the metric `against` in `column`, `text` in words; or of nothing (`fixed`)."""

    def __init__(self, sign, limit, against=None, column='native', text='native', fixed=False):
        self.sign, self.limit, self.against, self.column, self.text, self.fixed = sign, limit, against, column, text, fixed

    def reference(self, rows, metric):
        return 1.0 if self.fixed else value(rows, self.against or metric, self.column)

    def met(self, ours, reference):
        return ours <= self.limit * reference if self.sign == '≤' else ours >= self.limit * reference

    def words(self, unit):
        if self.fixed:
            return f'{self.sign} {self.limit:g} {unit}'
        return f'{self.sign} {self.limit:.2f} × {self.text}'


def most(limit, **k):
    return Bar('≤', limit, **k)


def least(limit, **k):
    return Bar('≥', limit, **k)


BARS = {
    'launch_post_burst200': most(0.10), 'launch_drained': most(1.00), 'launch+streamsync': most(1.05),
    'launch_drained_five_in_turn': most(1.00), 'launch_drained_five_at_random': most(1.00), 'ten_launches+streamsync': most(1.00),
    **{f'wait_{work}_{how}_{n}': most(1.00 if (work, how) == ('launch', 'stream') else 1.05)
       for work in ('launch', 'copy4', 'memset4096') for how in ('stream', 'null', 'device', 'event') for n in (0, 1, 8, 64)},
    'wait_launch_device_8_busy': most(1.05),
    'managed_kernel_on_the_gpu': least(0.98), 'managed_first_touch_by_the_gpu': least(0.9), 'managed_first_touch_by_the_cpu': least(0.9),
    'managed_to_and_fro_16K': most(1.0), 'managed_prefetch_to_the_gpu': least(0.95), 'managed_prefetch_to_the_cpu': least(0.95),
    'streamsync_idle': most(0.5), 'event_query': most(0.5), 'getdevice': most(0.5), 'event_record': most(0.5),
    **{f'{d}_malloc_{n}': most(1.10) for n in (4, 4096) for d in ('h2d', 'd2h')},
    **{f'{d}_malloc_{n}': least(f, against=f'{d}_hostalloc_{n}', text='native pinned')
       for n, f in ((1048576, 0.95), (16777216, 0.98), (268435456, 0.99)) for d in ('h2d', 'd2h')},
    'memcpyasync_h2d_hostalloc_16M_post': most(0.3), 'memset_1M_async': most(0.3),
    'overlap_hidden': least(99, fixed=True), 'malloc+free_1M': most(1.0), 'init_first_call': most(20000, fixed=True),
    'launch_4_processes': most(1.1), 'idle_host_cpu': most(1, fixed=True),
    'hostalloc+free_4096': most(1, fixed=True), 'hostalloc+free_16777216': most(1, fixed=True),
    'hostalloc+free_268435456': most(1, fixed=True), 'hostregister+unreg_16M': most(0.3, fixed=True),
    **{f'heap_{b}': most(1.05, against=f'heap_{b}_jump_alone', column='flat', text='a jump alone')
       for b in ('32_B', '16_B_to_1_KiB_mixed')},
    'heap_1_MiB': most(1.0), 'heap_64_MiB': most(1.0),
    **{f'{d}_{s}': least(0.8) for s in ('stack_1048576', 'global_16777216', 'mmap_16777216', 'mmap_268435456')
       for d in ('h2d', 'd2h')},
    **{f'wrong_bytes_{s}': most(0, fixed=True) for s in ('malloc', 'hostalloc', 'elsewhere')}, 'wrong_words_managed': most(0, fixed=True),
    'mapped_kernel_sees_host_memory': least(1, fixed=True), 'failures': most(0, fixed=True),
}
# Bars that mean something on a machine without a GPU: correctness, and what never leaves the guest.
LOCAL = ('wrong_', 'mapped_', 'failures', 'heap_', 'hostalloc+', 'hostregister+', 'idle_')


def value(rows, metric, column):
    return rows.get(metric, {}).get(column, {}).get('value')


def number(v):
    if v is None:
        return ''
    if v == 0 or abs(v) >= 100:
        return f'{v:,.0f}'
    return f'{v:.{max(0, 2 - math.floor(math.log10(abs(v))))}f}'


def cell(row, column):
    c = row.get(column)
    if not c:
        return ''
    if 'failed' in c:
        return 'failed: ' + c['failed'].split(':')[-1].strip()
    spread = f' ({number(c["low"])}–{number(c["high"])})' if c['runs'] > 1 else ''
    return number(c['value']) + spread


def judged(got, metric, column='flat'):
    """(ratio, bar in words, yes | no | ''): ours against the bar, or, without one, against native's same metric."""
    rows, bar, ours = got['rows'], BARS.get(metric), value(got['rows'], metric, column)
    if got['soft'] and not metric.startswith(LOCAL):
        bar = None
    reference = bar.reference(rows, metric) if bar else value(rows, metric, 'native')
    fixed = bool(bar and bar.fixed)
    plain = value(rows, metric, 'native') if fixed else reference
    ratio = number(ours / plain) if ours is not None and plain else ''
    if not bar:
        return ratio, '', ''
    if ours is None:
        failed = 'failed' in rows[metric].get(column, {})
        return '', bar.words(rows[metric]['unit']), 'no' if failed else ''
    if reference is None:
        return '', bar.words(rows[metric]['unit']), ''
    return ratio, bar.words(rows[metric]['unit']), 'yes' if bar.met(ours, reference) else 'no'


def columns_of(got):
    return [c for c in ('native', 'flat', 'vm') if any(c in row for row in got['rows'].values())]


TITLES = {'native': 'native', 'flat': 'Barcuda, flat', 'vm': 'Barcuda, in a VM'}


def lines_of(got, barred=None):
    """The table: all of it, or only rows that have a bar, or only those that have none."""
    columns = columns_of(got)
    guest = ['VM / native'] * ('vm' in columns and 'native' in columns)
    yield ['metric', 'unit'] + [TITLES[c] for c in columns] + ['flat / native'] + guest + ['bar', 'met']
    for metric, row in got['rows'].items():
        ratio, bar, met = judged(got, metric)
        if barred in (None, bool(bar)):
            more = [judged(got, metric, 'vm')[0]] * len(guest)
            yield [metric, row['unit']] + [cell(row, c) for c in columns] + [ratio] + more + [bar, met]


def plain_table(got):
    lines = list(lines_of(got))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = '\n'.join('  '.join(t.ljust(w) for t, w in zip(line, widths)).rstrip() for line in lines)
    verdicts = [judged(got, m)[2] for m in got['rows']]
    return f'{text}\n{verdicts.count("yes")} bars met, {verdicts.count("no")} missed'


def markdown_table(lines):
    head, *rest = ['| ' + ' | '.join(t.replace('|', '/') for t in line) + ' |' for line in lines]
    return '\n'.join([head, '|' + '---|' * (head.count('|') - 1)] + rest)


def section(got, name):
    m = got['machine']
    where = f'{m.get("gpu", got["device"])}; {m["processor"]}, {m["cores"]} cores, Linux {m["kernel"]}'
    title = 'On a machine without a GPU' if got['soft'] else f'On {got["device"]}'
    text = [f'## {title}', '',
            f'{where}. Measured on {got["date"]} in {got["seconds"]} s, {got["repetitions"]} repetitions in turn; median '
            '(smallest–largest).' + (' Smaller and fewer (`--quick`).' if got['quick'] else '')]
    if got['soft']:
        text += ['', 'The software GPU executes on the same cores as the program, so what waits for the device says little about '
                     'Barcuda. What the guest does alone does: posting, local answers, memory management.']
    if got.get('vm'):
        text += ['', f'The guest ran under QEMU with {got["vm"]}.' + (
            ' Every instruction of the guest is translated there, so only rows that the GPU and the link bound (large copies, '
            'kernels drained, overlap) can be near native; the rest measures the emulator.' if got['vm'] != 'KVM' else '')]
    if not got['soft']:
        text += ['', f'![ours against native](performance/{name}-ratios.svg)', '',
                 f'![copies, host to device](performance/{name}-h2d.svg)', '',
                 f'![copies, device to host](performance/{name}-d2h.svg)']
    missed = [m for m in got['rows'] if judged(got, m)[2] == 'no']
    met = sum(judged(got, m)[2] == 'yes' for m in got['rows'])
    text += ['', f'{met} bars are met' + (f'; missed: {", ".join(f"`{m}`" for m in missed)}.' if missed else ', none is missed.'),
             '', markdown_table(lines_of(got, True)), '', 'The rest of the same run:', '',
             markdown_table([line[:-2] for line in lines_of(got, False)]), '']
    return text


def draw(got, folder, name):
    rows = got['rows']
    ratios = []
    for metric, row in rows.items():
        native, ours = value(rows, metric, 'native'), value(rows, metric, 'flat')
        if native and ours and row['unit'] in ('us', 'ns', 'GB/s'):
            ratios.append((metric, native / ours if row['unit'] == 'GB/s' else ours / native))
    made = {f'{name}-ratios': plots.ratios(ratios, 'Time of Barcuda (flat) over native: left of the line is faster')}
    for d, title in (('h2d', 'host to device'), ('d2h', 'device to host')):
        series = []
        for column in columns_of(got):
            for source in ('malloc', 'hostalloc'):
                points = []
                for n in (16384, 65536, 262144, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
                    v = value(rows, f'{d}_{source}_{n}', column)
                    if v:
                        points.append((n, v))
                if points and not (column != 'native' and source == 'hostalloc'):
                    kind = {'malloc': 'malloc', 'hostalloc': 'pinned'}[source]
                    series.append((f'{TITLES[column]}, {kind}', points))
        made[f'{name}-{d}'] = plots.lines(series, f'cudaMemcpy, {title}: GB/s by size')
    for stem, svg in made.items():
        (folder / f'{stem}.svg').write_text(svg)
        yield folder / f'{stem}.svg'


PREFACE = '''# Performance

`make bench-gpu` (on a machine with a GPU) and `make bench` (anywhere) write this page; do not edit it. One unchanged program,
`tests/bench/cuda_bench.cu`, runs in turn with the machine's own CUDA and through Barcuda, in one run. *Flat* is Barcuda with no
VM: program, bridge and worker share a kernel.

- `h2d` and `d2h` are `cudaMemcpy`. Up to 4 KiB a row is the time of the call; above, a bandwidth with the device drained.
  `malloc` is ordinary memory, `hostalloc` pinned, `early` malloc'ed before the first CUDA call. Bandwidths of `malloc` memory
  are held to native's *pinned* ones.
- `init_first_call` meets a warm worker, as in a VM whose bridge has been up for a second; `shortest_program` is a whole program
  with that call and one launch, as the shell sees it; `_cold` is the same with a bridge started at that moment (`barcuda run`).
- `heap_*_jump_alone` is a library in front of the program's allocator whose `malloc` and `free` are a jump and nothing else:
  any library there costs as much, so small blocks, which the heap leaves to that allocator, are held to it and not to native.
- `idle_host_cpu` is what bridge and workers use while a client sleeps, `idle_bridge_cpu` the bridge's part of it.

Where one run's time goes: `BARCUDA_TRACE=trace.json build/bin/barcuda run -- PROGRAM`, and open the file at
[ui.perfetto.dev](https://ui.perfetto.dev): a lane for each thread of the guest program and one for its worker, a slice for each
command. In a VM, host and guest each write a file; `barcuda trace` puts them together, on one clock.
'''


def render(output):
    """Writes performance.md and the plots from the JSON that is there; returns the paths."""
    output, folder = pathlib.Path(output), pathlib.Path(output) / 'performance'
    text, paths = [PREFACE], []
    for name in ('gpu', 'soft'):
        file = folder / f'{name}.json'
        if not file.exists():
            continue
        got = json.loads(file.read_text())
        paths.append(file)
        if not got['soft']:
            paths += draw(got, folder, name)
        text += section(got, name)
    notes = folder / 'notes.md'  # written by people: why a bar is missed, what was tried
    if notes.exists():
        text.append(notes.read_text())
    (output / 'performance.md').write_text('\n'.join(text).rstrip() + '\n')
    return paths + [output / 'performance.md']
