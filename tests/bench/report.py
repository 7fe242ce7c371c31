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
import readme


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


NCCL_HOW, NCCL_WHAT = ('one_process', 'processes'), ('all_reduce', 'all_gather', 'all_to_all', 'send_receive')
NCCL_SIZES = [f'{n}{unit}' for unit in 'KM' for n in (1, 4, 16, 32, 64, 256)] + ['1G']
NCCL_SMALL = [f'{1 << bits}B' for bits in range(3, 10)] + [f'{1 << bits}K' for bits in range(10)] + ['1M']  # times
WAIT_WORK, WAIT_HOW, WAIT_STREAMS = ('launch', 'copy4', 'copy64K', 'memset4096'), ('stream', 'null', 'device', 'event', 'copy'), (0, 1, 8, 64)
BARS = {
    'launch_post_burst200': most(0.10), 'launch_drained': most(1.00), 'launch+streamsync': most(1.05),
    'launch_drained_five_in_turn': most(1.00), 'launch_drained_five_at_random': most(1.00), 'ten_launches+streamsync': most(1.00),
    **{f'wait_{work}_{how}_{n}': most(1.00 if (work, how) == ('launch', 'stream') else 1.05)
       for work in WAIT_WORK for how in WAIT_HOW for n in WAIT_STREAMS},
    **{f'wait_launch_{how}_{n}_with_work': most(1.05) for how in WAIT_HOW for n in WAIT_STREAMS if n},
    'managed_kernel_on_the_gpu': least(0.98), 'managed_first_touch_by_the_gpu': least(0.9), 'managed_first_touch_by_the_cpu': least(0.9),
    'managed_to_and_fro_16K': most(1.0), 'managed_prefetch_to_the_gpu': least(0.95), 'managed_prefetch_to_the_cpu': least(0.95),
    'pause_1_MiB_out': Bar('≤', 600, fixed=True), 'pause_1_MiB_back': Bar('≤', 500, fixed=True),
    'streamsync_idle': most(0.5), 'event_query': most(0.5), 'getdevice': most(0.5), 'event_record': most(0.5),
    **{f'{d}_{memory}_{n}': most(1.0) for n in (4, 4096) for memory in ('malloc', 'hostalloc') for d in ('h2d', 'd2h', 'h2d+d2h')},
    **{f'{d}_{memory}_{n}': least(1.0) for n in (16384, 65536) for memory in ('malloc', 'hostalloc') for d in ('h2d', 'd2h')},
    **{f'{d}_malloc_{n}': least(f, against=f'{d}_hostalloc_{n}', text='native pinned')
       for n, f in ((1048576, 0.95), (16777216, 0.98), (268435456, 0.99)) for d in ('h2d', 'd2h')},
    'memcpyasync_h2d_hostalloc_16M_post': most(0.3), 'memset_1M_async': most(0.3),
    'overlap_hidden': least(99, fixed=True), 'malloc+free_1M': most(1.0), 'init_first_call': most(20000, fixed=True),
    'idle_host_cpu': most(1, fixed=True),
    'hostalloc+free_4096': most(1, fixed=True), 'hostalloc+free_16777216': most(1, fixed=True),
    'hostalloc+free_268435456': most(1, fixed=True), 'hostregister+unreg_16M': most(0.3, fixed=True),
    **{f'heap_{b}': most(1.05, against=f'heap_{b}_jump_alone', column='flat', text='a jump alone')
       for b in ('32_B', '16_B_to_1_KiB_mixed')},
    'heap_1_MiB': most(1.0), 'heap_64_MiB': most(1.0),
    **{f'{d}_{s}': least(0.8) for s in ('stack_1048576', 'global_16777216', 'mmap_16777216', 'mmap_268435456')
       for d in ('h2d', 'd2h')},
    **{f'wrong_bytes_{s}': most(0, fixed=True) for s in ('malloc', 'hostalloc', 'elsewhere')}, 'wrong_words_managed': most(0, fixed=True),
    **{f'first_launch{how}': most(2000, fixed=True) for how in ('', '_cold')},
    'shortest_program_cold': most(1.05, against='shortest_program', text="native's `shortest_program`"),
    'at_once_32_first_call_slowest': most(20, fixed=True), 'at_once_32_first_call_slowest_pool_of_1': most(1.0, against='at_once_32_first_call_slowest'),
    **{f'at_once_{n}_{what}{pool}': most(0, fixed=True) for n in (4, 32) for what in ('failures', 'fallbacks') for pool in ('', '_pool_of_1')},
    **{f'launch_{n}_{streams}': most(1.0) for n in ('1_thread', '4_threads', '16_threads') for streams in ('own_streams', 'one_stream')},
    **{f'launch+copy+record+wait_{n}': most(1.0) for n in ('1_thread', '4_threads', '16_threads')},
    **{f'{work}+wait_{n}': most(1.05) for work in ('launch', 'launch+device', 'copy4', 'memset4096') for n in ('1_thread', '4_threads', '16_threads')},
    **{f'launch_{n}_processes': most(1.1) for n in (1, 4, 16)},
    **{f'{what}_{how}': most(1.0) for what in ('stream', 'event') for how in ('create', 'destroy')},
    **{f'app_{name}': most(1.0) for name in ('resnet50_step', 'dataloader_batch', 'gpt2_token_graphs', 'gemm_1024', 'gemm_4096', 'fft_1M', 'sort_16M', 'small_array', 'copy_kernel_copy', 'first_uses', 'serving_p99')},
    **{f'app_{name}': most(0.77) for name in ('gpt2_token_eager', 'gpt2_generate_token', 'gemm_256', 'stencil_step')},  # native's launches bound them
    'app_other_results': most(0, fixed=True),
    **{f'peer_{what}{access}_{i}_{j}': bar for i in range(16) for j in range(16) for access in ('', '_access')
       for what, bar in (('bandwidth', least(0.95)), ('latency', most(1.10)))},
    **{f'sum_{d}_malloc_{n}_device{"s" * (n > 1)}': least(0.95, against=f'sum_{d}_pinned_{n}_device{"s" * (n > 1)}', text='native pinned')
       for d in ('h2d', 'd2h') for n in range(1, 17)},
    **{f'sum_{d}_pinned_{n}_device{"s" * (n > 1)}': least(0.95) for d in ('h2d', 'd2h') for n in range(1, 17)},
    **{f'nccl_{how}_{what}_{size}': least(0.95) for how in NCCL_HOW for what in NCCL_WHAT for size in NCCL_SIZES},
    **{f'nccl_{how}_{what}_{size}_time': most(1.05) for how in NCCL_HOW for what in NCCL_WHAT for size in NCCL_SMALL},
    **{f'{name}_wrong{what}': most(0, fixed=True) for name, what in (('peer', '_words'), ('sum', '_words'), ('visible_orders', ''), ('nccl_one_process', ''),
                                                                    ('nccl_processes', ''))},
    'test_programs_failed': most(0, fixed=True),
    **{f'{name}_failed': most(0, fixed=True) for name in ('2_guests_of_the_same', *(f'2_guests_of_{n}' for n in range(1, 9)), *(f'{n}_guests_of_1' for n in range(3, 17)))},
    **{f'app_{name}': most(1.05) for name in ('ddp_step', 'fsdp_step', 'tensor_parallel_token')},
    **{f'app_{name}_differs': most(2.0) for name in ('ddp_step', 'fsdp_step', 'tensor_parallel_token')},
    'mapped_kernel_sees_host_memory': least(1, fixed=True), 'failures': most(0, fixed=True),
}
# Bars that mean something on a machine without a GPU: correctness, and what never leaves the guest.
LOCAL = ('wrong_', 'mapped_', 'failures', 'heap_', 'hostalloc+', 'hostregister+', 'idle_', 'at_once_4_f', 'peer_wrong_', 'sum_wrong_', 'visible_orders_', 'test_programs_')


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
    if got['soft'] and not metric.startswith(LOCAL) and not metric.endswith('_failed'):
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
    counts = list(dict.fromkeys(name for row in got['rows'].values() for name in row.get('counts', {})))
    yield ['metric', 'unit'] + [TITLES[c] for c in columns] + ['flat / native'] + guest + counts + ['bar', 'met']
    for metric, row in got['rows'].items():
        ratio, bar, met = judged(got, metric)
        if barred in (None, bool(bar)):
            more = [judged(got, metric, 'vm')[0]] * len(guest) + [number(row.get('counts', {}).get(name)) for name in counts]
            yield [metric, row['unit']] + [cell(row, c) for c in columns] + [ratio] + more + [bar, met]


def threshold_lines(got):
    columns = got['columns']
    yield ['metric', 'unit', *columns, f'{columns[0]} / {columns[-1]}']
    for metric, row in got['rows'].items():
        if any(c in row for c in columns):
            first, last = (value(got['rows'], metric, c) for c in (columns[0], columns[-1]))
            yield [metric, row['unit'], *(cell(row, c) for c in columns), number(first / last) if first and last else '']


def plain_table(got, part):
    lines = list(threshold_lines(got) if part == 'thresholds' else lines_of(got))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = '\n'.join('  '.join(t.ljust(w) for t, w in zip(line, widths)).rstrip() for line in lines)
    verdicts = [judged(got, m)[2] for m in got['rows']]
    return f'{text}\n{verdicts.count("yes")} bars met, {verdicts.count("no")} missed'


def markdown_table(lines):
    head, *rest = ['| ' + ' | '.join(t.replace('|', '/') for t in line) + ' |' for line in lines]
    return '\n'.join([head, '|' + '---|' * (head.count('|') - 1)] + rest)


def file_of(soft, part):
    """The name of a part's JSON."""
    return ('soft' if soft else 'gpu') + ('' if part == 'calls' else f'-{part}')


def measured(got):
    m = got['machine']
    where = f'{m.get("gpu", got["device"])}; {m["processor"]}, {m["cores"]} cores, Linux {m["kernel"]}'
    return (f'{where}. Measured on {got["date"]} in {got["seconds"]} s, {got["repetitions"]} repetitions in turn; median '
            '(smallest–largest).' + (' Smaller and fewer (`--quick`).' if got['quick'] else ''))


def bars_met(got):
    missed = [m for m in got['rows'] if judged(got, m)[2] == 'no']
    met = sum(judged(got, m)[2] == 'yes' for m in got['rows'])
    return f'{met} bars are met' + (f'; missed: {", ".join(f"`{m}`" for m in missed)}.' if missed else ', none is missed.')


def both(got, metric):
    """Native's, ours and their ratio: a cell of a matrix; bold where the bar is missed."""
    native, ours = (value(got['rows'], metric, column) for column in ('native', 'flat'))
    failed = got['rows'].get(metric, {}).get('flat', {}).get('failed')
    if failed or ours is None or not native:
        return f'failed: {failed}' if failed else number(ours)
    mark = '**' * (judged(got, metric)[2] == 'no')
    return f'{number(native)}, {number(ours)}: {mark}{ours / native:.2f}{mark}'


def wait_lines(got):
    """The matrix: a row for each kind of work and of wait, a column for each number of other streams."""
    yield ['work', 'wait', *(f'{n} other streams' for n in WAIT_STREAMS)]
    for work, end, words in [*((work, '', work) for work in WAIT_WORK), ('launch', '_with_work', 'launch, and one in each other')]:
        for how in WAIT_HOW:
            cells = [both(got, f'wait_{work}_{how}_{n}{end}') if f'wait_{work}_{how}_{n}{end}' in got['rows'] else '' for n in WAIT_STREAMS]
            if any(cells):
                yield [words, how, *cells]
    for work in WAIT_WORK:  # the wait for the device, ours with ours
        ours = [value(got['rows'], f'wait_{work}_device_{n}', 'flat') for n in WAIT_STREAMS]
        if all(ours):
            yield [work, 'device, against 0 other streams', *(f'{x / ours[0]:.2f}' for x in ours)]


def device_tables(got):
    """(caption, lines): a matrix for each figure of pairs, one of NCCL by size, and what is left."""
    rows, shown = got['rows'], set()

    def cell_of(metric):
        shown.add(metric)
        return both(got, metric)
    numbers = [i for i in range(16) if f'peer_bandwidth_{i}_{i}' in rows]
    for what, words in (('bandwidth', 'GB/s from the device of the row to that of the column'), ('latency', 'Microseconds of a copy of 16 bytes, one of many in a stream')):
        for access, how in (('', ''), ('_access', ', with peer access')):
            if any(f'peer_{what}{access}_{i}_{j}' in rows for i in numbers for j in numbers):
                yield f'{words}{how}:', [['from', *map(str, numbers)], *([str(i), *(cell_of(f'peer_{what}{access}_{i}_{j}') for j in numbers)] for i in numbers)]
    columns = [(how, what) for how in NCCL_HOW for what in NCCL_WHAT]
    for words, all_sizes, end in (("NCCL's bus bandwidth, GB/s", NCCL_SIZES, ''), ('Microseconds of one of many of NCCL that are small', NCCL_SMALL, '_time')):
        sizes = [size for size in all_sizes if any(f'nccl_{how}_{what}_{size}{end}' in rows for how, what in columns)]
        if sizes:
            yield f'{words}:', [['size', *(f'{what.replace("_", "-")}, {how.replace("_", " ")}' for how, what in columns)],
                                *([size, *(cell_of(f'nccl_{how}_{what}_{size}{end}') for how, what in columns)] for size in sizes)]
    yield 'The rest:', list(lines_of({**got, 'rows': {metric: row for metric, row in rows.items() if metric not in shown}}))


def guest_words(got, near):
    """How the guest ran, and what it did not; `near`: which rows can be near native where it is emulated."""
    if not got.get('vm'):
        return []
    words = f'The guest ran under QEMU with {got["vm"]}.'
    if got['vm'] != 'KVM':
        words += f' Every instruction of the guest is translated there, so only {near} can be near native; the rest measures the emulator.'
    reasons = {}
    for name, why in got.get('left_out', {}).items():
        reasons.setdefault(why, []).append(f'`{name}`')
    return ['', ' '.join([words, *(f'Left out there: {", ".join(names)}: {why}.' for why, names in reasons.items())])]


def part_section(got, part):
    title, about = PARTS[part]
    if any(metric.startswith('module_') for metric in got['rows']):
        about += CODE
    if part == 'waits':
        return [f'### {title}', '', about, '', measured(got), '', bars_met(got), '', markdown_table(wait_lines(got)), '']
    if part == 'devices':
        tables = [x for caption, lines in device_tables(got) for x in (caption, '', markdown_table(lines), '')]
        return [f'### {title}', '', about, '', measured(got), '', bars_met(got), '', *tables]
    plot = [f'![speed of applications](performance/{file_of(False, part)}.svg)', ''] * (part == 'applications' and not got['soft'])
    if part == 'thresholds':
        return [f'### {title}', '', about, '', measured(got), '', markdown_table(threshold_lines(got)), '']
    guest = guest_words(got, 'applications that wait for the GPU')
    return [f'### {title}', '', about, '', measured(got), *guest, '', *plot, bars_met(got), '', markdown_table(lines_of(got)), '']


def section(got, name):
    text = [measured(got)]
    if got['soft']:
        text += ['', 'The software GPU executes on the same cores as the program, so what waits for the device says little about '
                     'Barcuda. What the guest does alone does: posting, local answers, memory management.']
    text += guest_words(got, 'rows that the GPU and the link bound (large copies, kernels drained, overlap)')
    if not got['soft']:
        text += ['', f'![ours against native](performance/{name}-ratios.svg)', '',
                 f'![copies, host to device](performance/{name}-h2d.svg)', '',
                 f'![copies, device to host](performance/{name}-d2h.svg)']
    text += ['', bars_met(got),
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


def draw_applications(got, folder):
    pairs = [(m.removeprefix('app_'), value(got['rows'], m, 'native') / value(got['rows'], m, 'flat')) for m, row in got['rows'].items()
             if value(got['rows'], m, 'native') and value(got['rows'], m, 'flat') and row['unit'] in ('ms', 'us')]
    file = folder / f'{file_of(False, "applications")}.svg'
    file.write_text(plots.speeds(pairs, 'Speed of applications through Barcuda (flat): native is 1'))
    return [file]


PARTS = {
    'waits': ('Waits', """\
A launch, a copy of 4 bytes or 64 KiB from pinned memory or a fill of 4 KiB, and a wait for it: for its stream, for the default stream that it is in, for the device,
for an event behind it, by a blocking copy of 4 bytes to the host; with so many other streams, which have nothing to do or (last) a launch each. Microseconds natively,
through Barcuda, and their ratio (bold: above the bar, 1.05, and 1.00 for a launch and its stream). Waits of several threads are among the threads below."""),
    'managed': ('Managed memory', """\
1 GiB that a kernel works on, that is touched on the other side first, or prefetched; and 16 KiB to the CPU and back, with a kernel ([managed.md](managed.md))."""),
    'starts': ('Starts', """\
`shortest_program` is a whole program with its first call and one launch, as the shell sees it, served by a warm worker; `_cold` is the same
with a bridge started at that moment (`barcuda run`). `at_once_32` are 32 programs that are told to begin at the same time: the median and
the slowest of their first calls, launches and copies of 16 MiB of `malloc` memory, and how many blocks fell back to ordinary memory; they
find 32 workers that wait (`--warm-most 32`), or, `_pool_of_1`, one."""),
    'threads': ('Threads, clients and objects', """\
Time of one operation over all threads (`tests/bench/many_bench.cu`): launches on a stream of each thread's own, or all on one; and a launch,
a copy of 4 KiB, an event's record and its wait; a launch, a copy of 4 bytes or a fill of 4 KiB and a wait for the stream, or for the device; and a `cudaMalloc` with its `cudaFree`, 20 blocks of 4 to 512 KiB at a time.
`launch_16_processes` is a launch in each of 16 clients. Streams and events are made and
destroyed 10,000 at a time, an event with its first record; `client_memory` is what the program's memory grew by for each, `host_memory`
what bridge and worker's did. (The driver's own memory for the device is in neither.)"""),
    'lives': ('Pauses and killed bridges', """\
`pause_N_MiB_out` and `_back` are `barcuda pause` and `barcuda resume` of a client with N MiB on the GPU, as the shell sees them ([state.md](state.md));
`lost` are clients whose memory was not as before. `shortest_program_after_a_kill` is a program that is started at the moment at which its bridge
was killed, beside the same program before. `forks_8` are eight VMs that go on at once from where a program was suspended, with 1 GiB on the GPU and
256 MiB pinned (software GPU: 16 MiB each): until each is awake, until its program has then answered, and what each has for itself."""),
    'cost': ('What Barcuda uses', """\
`cost_..._cpu` is the time of all processors for the same work, of program, bridge and worker together (`_on_the_host`: of the last two);
a worker looks for commands without sleep while its client works. `_energy` is the GPU's own count, `cost_memory_...` anonymous memory of processes.
`cost_N_clients` are idle clients of one bridge, `cost_N_bridges` idle bridges of a host, with a worker each that waits: processors and memory of all
their processes, the first call of one more program, and `barcuda ps`."""),
    'applications': ('Applications', """\
Programs of PyTorch and CuPy (`tests/bench/applications`), with random weights and data: the time of a step, natively and under `barcuda run`
in turn. Launches, launched graphs, waits and bytes copied between host and device are those of a step through Barcuda. `app_other_results`
is how many give other numbers than natively."""),
    'devices': ('Several devices', """\
All GPUs of one host (`tests/bench/run --part devices`). In matrices a cell is native's figure, ours and their ratio (bold: the bar is missed).
`sum_h2d_malloc_4_devices` is what four devices copy from ordinary memory at the same time, a thread for each, and is held to native's pinned memory.
`2_guests_of_4` are two bridges with four GPUs each (`--gpus`), a client of each at work at the same time, natively two programs with `CUDA_VISIBLE_DEVICES`;
`_of_the_same` shares one GPU; `rounds` are a MiB from a device, back, and looked at, of all together. `visible_orders_wrong` is in how many orders of
`CUDA_VISIBLE_DEVICES` a program found other devices than named. NCCL has its GPUs in one process, or a process for each, without NVLink's multicast;
bus bandwidth is as NCCL defines it. Training and generation are PyTorch's, a process for each GPU (`tests/bench/applications/distributed.py`);
`_differs` is how far results are from each other: natively those of two runs, ours from the nearer of these."""),
    'thresholds': ("The heap's threshold", "The same applications with values of `BARCUDA_THRESHOLD`, in turn."),
}


CODE = """ `module_100M_variable` is machine code with an initialized
variable of that size, `module_100M_fat` a fat binary with as much code for other GPUs and little for this one (`tests/bench/modules.h`):
`load_first` is the program's first `cuModuleLoadData` of it, `load` a later one, `first_launch` the first of a kernel of it with its wait;
memory is what a loaded module adds, `_left` what is left when it is unloaded: of the program, pages of the region that it touched included,
of bridge and worker, and of the region as granted to the program. `launch_parameters_32000` is a launch with so many bytes of parameters."""

PREFACE = '''# Performance

`make bench-gpu` (on a machine with a GPU) and `make bench` (anywhere) write this page; do not edit it. One unchanged program,
`tests/bench/cuda_bench.cu`, runs in turn with the machine's own CUDA and through Barcuda, in one run. *Flat* is Barcuda with no
VM: program, bridge and worker share a kernel. Waits, managed memory, starts, threads and applications are parts of their own: `tests/bench/run --part
applications` measures these alone, `--part thresholds --application NAME` applications with several thresholds of the heap.

- `h2d` and `d2h` are `cudaMemcpy`. Up to 4 KiB a row is the time of the call; above, a bandwidth with the device drained.
  `malloc` is ordinary memory, `hostalloc` pinned, `early` malloc'ed before the first CUDA call. Bandwidths of `malloc` memory
  from 1 MiB on are held to native's *pinned* ones.
- `init_first_call` meets a warm worker, as in a VM whose bridge has been up for a second.
- `heap_*_jump_alone` is a library in front of the program's allocator whose `malloc` and `free` are a jump and nothing else:
  any library there costs as much, so small blocks, which the heap leaves to that allocator, are held to it and not to native.
- `idle_host_cpu` is what bridge and workers use while a client sleeps, `idle_bridge_cpu` the bridge's part of it.

What bounds the figures, and why a bar is missed: [where-time-goes.md](where-time-goes.md).
Where one run's time goes: `BARCUDA_TRACE=trace.json build/bin/barcuda run -- PROGRAM`, and open the file at
[ui.perfetto.dev](https://ui.perfetto.dev): a lane for each thread of the guest program and one for its worker, a slice for each
command. In a VM, host and guest each write a file; `barcuda trace` puts them together, on one clock.
'''


def render(output):
    """Writes performance.md and the plots from the JSON that is there; returns the paths."""
    output, folder = pathlib.Path(output), pathlib.Path(output) / 'performance'
    text, paths = [PREFACE], []
    for soft in (False, True):
        files = {part: folder / f'{file_of(soft, part)}.json' for part in ('calls', *PARTS)}
        all_got = {part: json.loads(file.read_text()) for part, file in files.items() if file.exists()}
        if all_got:
            readme_file, svg = output.parent / 'README.md', folder / 'readme.svg'
            if not soft and 'calls' in all_got and readme_file.exists() and readme.write(readme_file, all_got['calls'], svg):
                paths += [readme_file, svg]
            text += ['## On a machine without a GPU' if soft else f'## On {next(iter(all_got.values()))["device"]}', '']
        for part, got in all_got.items():
            paths.append(files[part])
            if part == 'calls':
                paths += [] if soft else draw(got, folder, 'gpu')
                text += section(got, files[part].stem) + ([] if soft else readme.peers(got))
            else:
                paths += draw_applications(got, folder) if part == 'applications' and not soft else []
                text += part_section(got, part)
    notes = folder / 'notes.md'  # written by people: why a bar is missed, what was tried
    if notes.exists():
        text.append(notes.read_text())
    (output / 'performance.md').write_text('\n'.join(text).rstrip() + '\n')
    return paths + [output / 'performance.md']
