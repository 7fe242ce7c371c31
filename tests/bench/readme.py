# SPDX-License-Identifier: Apache-2.0
"""readme.py: the figures in README.md, from the JSON of a machine with a GPU. The peers' are of the same kind of machine, measured once."""
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
ABOUT = """\
One unchanged program on one {device}, native and through Barcuda in one run of `tests/bench/run` ({date}; medians of
{repetitions} repetitions{guests}). *Flat* is without a VM.{guest} The peers ran on the same kind of machine at
another time, without any VM. All rows, spreads, misses and plots: [docs/performance.md](docs/performance.md); what bounds them:
[docs/where-time-goes.md](docs/where-time-goes.md)."""
EMULATED = " The VM ran in QEMU's {vm}, where every guest instruction is translated; the large copies need no guest CPU and do not mind."
APPLICATIONS = """\
Whole applications, on another {device} ({date}; medians of {repetitions} repetitions, flat):

![applications, ours against native](docs/performance/gpu-applications.svg)"""


def figures(parts):
    """The text between the marks. `parts`: {part: its JSON}, with that of `calls`."""
    calls, applications = parts['calls'], parts.get('applications')
    rows = calls['rows']
    runs = max((row.get('vm', {}).get('runs', 0) for row in rows.values()), default=0)
    guest = EMULATED.format(**calls) if calls.get('vm') not in (None, 'KVM') else ''
    text = [ABOUT.format(**{**calls, 'guests': f', of {runs} in the VM' * bool(runs), 'guest': guest})]
    if applications:
        text.append(APPLICATIONS.format(**applications))
    lines = [['', 'unit', 'native', 'Barcuda, flat', 'Barcuda, in a VM', 'LUPINE', 'smolvm-cuda']]
    for words, metric, *peers in (row for row in ROWS if row[1] in rows):
        lines.append([words, rows[metric]['unit'], *(report.number(report.value(rows, metric, c)) for c in ('native', 'flat', 'vm')), *peers])
    return '\n\n'.join([*text, report.markdown_table(lines)])


def write(readme, parts):
    """Puts them into that file, if it has the marks. True: it had."""
    text = readme.read_text()
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        return False
    readme.write_text(f'{before}{begin}\n{figures(parts)}\n{end}{after}')
    return True
