# SPDX-License-Identifier: Apache-2.0
"""plots.py: plots as plain SVG, drawn by hand so that nothing needs to be installed. They read on light and dark pages."""
import math
from xml.sax.saxutils import escape

COLORS = ('#7f7f7f', '#1f77b4', '#d62728', '#2ca02c', '#9467bd')
STYLE = ('<style>text{font:12px sans-serif;fill:#222}.t{font-weight:bold;font-size:14px}.g{stroke:#ddd}'
         '.one{stroke:#222;stroke-width:1.5}.e{text-anchor:end}.m{text-anchor:middle}</style>')


def sheet(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">{STYLE}'
            f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + '\n'.join(parts) + '\n</svg>\n')


def text(x, y, words, kind=''):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'


def decades(low, high):
    return [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def ratios(pairs, title):
    """Bars to the left of one are faster than native, to the right slower; the scale is logarithmic."""
    left, right, top, step = 270, 60, 60, 19
    width, height = 860, top + step * len(pairs) + 20
    marks = decades(min([r for _, r in pairs] + [0.1]), max([r for _, r in pairs] + [10]))
    low, high = math.log10(marks[0]), math.log10(marks[-1])

    def x(ratio):
        return left + (math.log10(ratio) - low) / (high - low) * (width - left - right)

    parts = [text(12, 22, title, 't')]
    for m in marks:
        parts += [f'<line x1="{x(m):.1f}" x2="{x(m):.1f}" y1="{top - 8}" y2="{height - 16}" class="{"one" if m == 1 else "g"}"/>',
                  text(x(m), top - 14, f'{m:g}', 'm')]
    for i, (name, ratio) in enumerate(pairs):
        y = top + i * step
        a, b = sorted((x(1), x(ratio)))
        color = COLORS[3] if ratio <= 1 else '#d62728' if ratio > 1.1 else '#bcbd22'
        parts += [text(left - 8, y + 11, name, 'e'),
                  f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 1):.1f}" height="{step - 6}" fill="{color}"/>',
                  text(b + 5, y + 11, f'{ratio:.2g}')]
    return sheet(width, height, parts)


def factors(rows, title):
    """A bar for each row, (words, how many times as fast as native, native's figure, ours), on a logarithmic scale that begins at native."""
    left, right, top, step = 270, 310, 44, 30
    width, height = 860, top + step * len(rows) + 12
    most = math.log10(max([10.0] + [factor for _, factor, *_ in rows]))
    parts = [text(12, 22, title, 't')]
    for i, (words, factor, native, ours) in enumerate(rows):
        y, length = top + i * step, max(0.02, math.log10(max(factor, 1)) / most) * (width - left - right)
        times = f'{factor:.0f} times as fast' if factor >= 10 else f'{factor:.1f} times as fast' if factor >= 1.05 else 'as fast' if factor > 0.95 else f'{factor:.2f} times as fast'
        parts += [text(left - 8, y + 14, words, 'e'), f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 10}" fill="{COLORS[3] if factor > 0.95 else COLORS[2]}"/>',
                  text(left + length + 6, y + 14, f'{times} ({ours}, native {native})')]
    return sheet(width, height, parts)


def speeds(pairs, title):
    """Bars from zero; those that reach beyond the line at one are faster than native."""
    left, right, top, step = 200, 60, 60, 24
    width, height = 860, top + step * len(pairs) + 20
    most = math.ceil(max([1.0] + [r for _, r in pairs]) * 2) / 2

    def x(ratio):
        return left + ratio / most * (width - left - right)

    parts = [text(12, 22, title, 't')]
    for m in (k / 2 for k in range(int(most * 2) + 1)):
        parts += [f'<line x1="{x(m):.1f}" x2="{x(m):.1f}" y1="{top - 8}" y2="{height - 16}" class="{"one" if m == 1 else "g"}"/>', text(x(m), top - 14, f'{m:g}', 'm')]
    for i, (name, ratio) in enumerate(pairs):
        y = top + i * step
        color = COLORS[3] if ratio >= 1 else '#d62728' if ratio < 0.9 else '#bcbd22'
        parts += [text(left - 8, y + 13, name, 'e'), f'<rect x="{left}" y="{y}" width="{x(ratio) - left:.1f}" height="{step - 8}" fill="{color}"/>',
                  text(x(ratio) + 5, y + 13, f'{ratio:.2f}')]
    return sheet(width, height, parts)


def size(n):
    for unit, one in (('GiB', 1 << 30), ('MiB', 1 << 20), ('KiB', 1 << 10)):
        if n >= one:
            return f'{n / one:g} {unit}'
    return f'{n} B'


def lines(series, title):
    """(name, [(bytes, GB/s), ...]) each; both scales are logarithmic."""
    width, height, left, right, top, bottom = 860, 420, 60, 20, 74, 36
    points = [p for _, ps in series for p in ps]
    if not points:
        return sheet(width, 60, [text(12, 22, title + ': nothing was measured', 't')])
    marks = decades(min(v for _, v in points), max(v for _, v in points))
    sizes = sorted({n for n, _ in points})

    def x(n):
        return left + math.log(n / sizes[0]) / max(math.log(sizes[-1] / sizes[0]), 1e-9) * (width - left - right)

    def y(v):
        return top + math.log(marks[-1] / v) / math.log(marks[-1] / marks[0]) * (height - top - bottom)

    parts = [text(12, 22, title, 't')]
    for m in marks:
        for k in (1, 2, 5):
            if m * k <= marks[-1]:
                parts += [f'<line x1="{left}" x2="{width - right}" y1="{y(m * k):.1f}" y2="{y(m * k):.1f}" class="g"/>',
                          text(left - 6, y(m * k) + 4, f'{m * k:g}', 'e')]
    parts += [text(x(n), height - 14, size(n), 'm' if n != sizes[-1] else 'e') for n in sizes]
    at = 12.0
    for i, (name, ps) in enumerate(series):
        color = COLORS[i % len(COLORS)]
        path = ' '.join(f'{x(n):.1f},{y(v):.1f}' for n, v in ps)
        parts += [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
        parts += [f'<circle cx="{x(n):.1f}" cy="{y(v):.1f}" r="3" fill="{color}"/>' for n, v in ps]
        parts += [f'<rect x="{at:.1f}" y="40" width="12" height="12" fill="{color}"/>', text(at + 17, 51, name)]
        at += 30 + 7 * len(name)
    return sheet(width, height, parts)


def columns(rows, heads, title):
    """A row for each (words, kind, values); a column of bars for each of `heads`, with a scale of its own. Rows of one kind have one color."""
    left, top, step, gap = 200, 62, 22, 90
    width = 860
    room = (width - left) / len(heads) - gap
    kinds = list(dict.fromkeys(kind for _, kind, _ in rows))
    most = [max([values[i] for *_, values in rows] + [1e-9]) for i in range(len(heads))]
    parts, y = [text(12, 22, title, 't')] + [text(left + i * (room + gap), top - 12, head) for i, head in enumerate(heads)], float(top)
    for at, (words, kind, values) in enumerate(rows):
        if at and kind == kinds[0]:
            y += 10
        parts.append(text(left - 8, y + 13, words, 'e'))
        for i, value in enumerate(values):
            x, length = left + i * (room + gap), max(value / most[i] * room, 1)
            parts += [f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" height="{step - 6}" fill="{COLORS[kinds.index(kind) % len(COLORS)]}"/>',
                      text(x + length + 5, y + 13, f'{value:,.4g}')]
        y += step
    return sheet(width, round(y) + 14, parts)
