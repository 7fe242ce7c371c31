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

The programs and the run are the same as above{guests}. LUPINE (commands over TCP) and smolvm-cuda (rings in shared memory) ran on the same
kind of machine at another time, once, without any VM.{guest}"""
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
    lines = [['', 'unit', 'native', 'Barcuda, flat', 'Barcuda, in a VM', 'LUPINE', 'smolvm-cuda']]
    for words, metric, *others in (row for row in ROWS if row[1] in rows):
        lines.append([words, rows[metric]['unit'], *(report.number(report.value(rows, metric, c)) for c in ('native', 'flat', 'vm')), *others])
    return [PEERS.format(guests=f' (in the VM: medians of {runs})' * bool(runs), guest=guest), '', report.markdown_table(lines), '']


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
