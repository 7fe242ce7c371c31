# SPDX-License-Identifier: Apache-2.0
"""readme.py: the chart in README.md, and the table of other projects, from the JSON of a machine with a GPU."""
import plots
import report

MARKS = '<!-- figures -->', '<!-- /figures -->'
ROWS = (  # in words, metric, LUPINE, smolvm-cuda
    ('first CUDA call of a process (ours: a warm worker)', 'init_first_call', '357946.4', '4.10'),
    ('launch, posting', 'launch_post_burst200', '6.14', '1.06'),
    ('launch, 20,000 drained', 'launch_drained', '5.83', '7.69'),
    ('launch, 20,000 of five kernels in turn', 'launch_drained_five_in_turn', '', ''),
    ('ten launches + `cudaStreamSynchronize`', 'ten_launches+streamsync', '', ''),
    ('launch + `cudaStreamSynchronize`', 'launch+streamsync', '43.6', '50.2'),
    ('`cudaStreamSynchronize`, idle', 'streamsync_idle', '33.0', '42.5'),
    ('`cudaEventQuery`', 'event_query', '0.33', '23.4'),
    ('`cudaMemcpy` to the device, 4 B', 'h2d_malloc_4', '83.1', '38.2'),
    ('`cudaMemcpy` to the host, 4 B', 'd2h_malloc_4', '43.3', '24.9'),
    ('to the device, 16 MiB of `malloc` memory', 'h2d_malloc_16777216', '3.00', '0.47'),
    ('to the host, 16 MiB of `malloc` memory', 'd2h_malloc_16777216', '2.69', '0.53'),
    ('to the device, 256 MiB of `malloc` memory', 'h2d_malloc_268435456', '3.57', '0.45'),
    ('to the host, 256 MiB of `malloc` memory', 'd2h_malloc_268435456', '3.45', '0.31'),
    ('to the device, 256 MiB of pinned memory', 'h2d_hostalloc_268435456', '3.58', '9.14'),
    ('`cudaHostAlloc` + `cudaFreeHost`, 16 MiB', 'hostalloc+free_16777216', '7200.7', '0.23'),
    ('`cudaHostRegister` + `Unregister`, 16 MiB', 'hostregister+unreg_16M', '1428.2', '0.03'),
    ('`cudaMalloc` + `cudaFree`, 1 MiB', 'malloc+free_1M', '134.3', '99.6'),
)
# In words, metric, what virtio-nvgpu's authors publish: guest against native (an RTX 5090 behind 14 GB/s, QEMU with patches, KVM).
VIRTIO_NVGPU = (
    ('bodies that draw each other (theirs: CUDA\'s n-body)', 'bodies_16K', '1.00 to 1.08'),
    ('copy of 256 MiB to the device, pinned', 'h2d_hostalloc_268435456', '1.00 to 1.08'),
    ('the same from ordinary memory', 'h2d_malloc_268435456', '1.00 to 1.08'),
    ('launch and a wait that spins', 'launch+streamsync', '1.00 (4.97 of 4.98 us)'),
    ('launches in a row', 'launch_drained', '1.04 (750,000 of 780,000 a second)'),
    ('launch and a wait that sleeps', 'launch+blocking_wait', '2.67 (19.0 of 7.12 us)'),
    ('`cuMemHostRegister` of 64 MiB', 'hostregister_64M', '3.2 (4.2 of 1.3 ms)'),
    ('first write to fresh pinned memory', 'first_write_hostalloc_64M', '21 (1.0 of 21 GB/s)'),
    ('`cuMemAlloc` and `cuMemFree`, 1 MiB', 'malloc+free_1M', '1.24 to 1.5'),
    ('`cuCtxCreate`', 'context_create', '1.27 to 2.05'),
)
BARS = (  # of the chart: in words, metric
    ('first CUDA call of a program', 'init_first_call'),
    ('kernel launches, 20,000 in a row', 'launch_drained'),
    ('cudaMemcpy of 16 MiB of malloc memory', 'h2d_malloc_16777216'),
    ('cudaMemcpy of 256 MiB of pinned memory', 'h2d_hostalloc_268435456'),
    ('a launch and its synchronization', 'launch+streamsync'),
)
TITLE = 'The same program, natively and in Barcuda without a VM: {device}, {date}'
SUMMARY = """\
![five operations, native and Barcuda](docs/performance/readme.svg)

One unchanged program on one {device}, in one run of `tests/bench/run` ({date}; medians of {repetitions} repetitions). All
rows, the rows that are slower than native, whole applications and figures of other projects: [docs/performance.md](docs/performance.md)."""
PEERS = """\
### Beside other projects

The programs and the run are the same as above{guests}. LUPINE (commands over TCP) and smolvm-cuda (rings in shared memory) ran on an
H200 at another time, once, without any VM.{guest}"""
NVGPU = """\
virtio-nvgpu (the kernel driver's ioctls over virtio, NVIDIA's own libraries in the guest) publishes its guest's time as a multiple of native's on an
RTX 5090, in a VM with KVM. Ours are flat, of the run above: another machine, and no VM, so only the ratios are beside each other."""
EMULATED = " The VM ran in QEMU's {vm}, where every guest instruction is translated; the large copies need no guest CPU and do not mind."


def chart(calls):
    """The plot of README.md: five pairs of bars, each with its factor."""
    pairs = []
    for words, metric in (bar for bar in BARS if bar[1] in calls['rows']):
        unit = calls['rows'][metric]['unit']
        native, ours = (report.value(calls['rows'], metric, column) for column in ('native', 'flat'))
        pairs.append((words, ours / native if unit == 'GB/s' else native / ours, f'{report.number(native)} {unit}', f'{report.number(ours)} {unit}'))
    return plots.factors(pairs, TITLE.format(**calls))


def peers(calls):
    """A section of docs/performance.md: rows for which figures of other projects are known."""
    rows = calls['rows']
    runs = max((row.get('vm', {}).get('runs', 0) for row in rows.values()), default=0)
    guest = EMULATED.format(**calls) if calls.get('vm') not in (None, 'KVM') else ''
    columns = {'native': 'native', 'flat': 'Barcuda, flat', **({'vm': 'Barcuda, in a VM'} if runs else {})}
    lines = [['', 'unit', *columns.values(), 'LUPINE', 'smolvm-cuda']]
    for words, metric, *others in (row for row in ROWS if row[1] in rows):
        lines.append([words, rows[metric]['unit'], *(report.number(report.value(rows, metric, c)) for c in columns), *others])
    return [PEERS.format(guests=f' (in the VM: medians of {runs})' * bool(runs), guest=guest), '', report.markdown_table(lines), '', *virtio_nvgpu(rows)]


def virtio_nvgpu(rows):
    """Times as ratios of native's in the same run: ours, and theirs on their machine."""
    lines = [['', 'unit', 'native', 'Barcuda, flat', 'time of native\'s', 'virtio-nvgpu, time of native\'s']]
    for words, metric, theirs in (row for row in VIRTIO_NVGPU if row[1] in rows):
        native, ours = (report.value(rows, metric, c) for c in ('native', 'flat'))
        if native and ours:
            ratio = native / ours if rows[metric]['unit'] == 'GB/s' else ours / native
            lines.append([words, rows[metric]['unit'], report.number(native), report.number(ours), report.number(ratio), theirs])
    return [NVGPU, '', report.markdown_table(lines), ''] if len(lines) > 1 else []


def write(readme, calls, svg):
    """Puts the chart and what it shows into that file, if it has the marks. True: it had."""
    text = readme.read_text()
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        return False
    svg.write_text(chart(calls))
    readme.write_text(f'{before}{begin}\n{SUMMARY.format(**calls)}\n{end}{after}')
    return True
