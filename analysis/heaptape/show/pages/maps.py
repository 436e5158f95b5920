# SPDX-License-Identifier: MIT
"""Memory maps as pictures of a page: SVG around a small PNG, in the place of matplotlib's figures
(`memory_plots.memory_map`), which take a third of a second each.
"""

import base64
import io
import math
from collections.abc import Iterable

import numpy as np
from PIL import Image

from heaptape.common.tables import MIB
from heaptape.results.memory_map import CompactMap
from heaptape.results.schema import Results
from heaptape.show import drawing

WIDTH, HEIGHT = 784, 406  # as in report.html.j2
LEFT, RIGHT, TOP, BOTTOM = 78, 682, 12, 341
FONT, GAP_FONT, TICK = 17.5, 14.6, 7
TICKS = 7
PALETTE = 64  # a PNG with a palette takes a quarter of the bytes


def memory_maps(file: Results) -> dict[str, str]:
    """By allocator, its memory by address over progress as a data URI; all have one scale. Allocators under which
    nothing was ever live are left out. Raises HeaptapeError for a malformed map.
    """
    maps = {label: found for label, found in file.memory_maps().items() if found.fullness.size}
    top = max((found.height_bytes for found in maps.values()), default=0) / MIB
    return {label: f"data:image/svg+xml,{_svg(found, top).translate(_ESCAPED)}" for label, found in maps.items()}


_ESCAPED = {ord(sign): f"%{ord(sign):02X}" for sign in "%#<>:"}  # the colon as well: a page has no addresses


def _svg(compact: CompactMap, top: float) -> str:
    """`top`: MiB at the upper end of the scale."""
    end = max(int(compact.positions[-1]), 1)
    across = {LEFT + ops / end * (RIGHT - LEFT): _ops(ops) for ops in ticks(end, TICKS)}
    upwards = {_height(mib, top): f"{mib:g}" for mib in ticks(top, TICKS)}
    gaps = {_height(mib, top): text for mib, text in drawing.gap_labels(compact, top)}
    begin = _height(compact.height_bytes / MIB, top)
    gap_lines = (f"M{LEFT} {_height(mib, top):.1f}H{RIGHT}" for mib in drawing.gap_lines(compact))
    tick_lines = [f"M{x:.1f} {BOTTOM}v{TICK}" for x in across] + [f"M{LEFT} {y:.1f}h-{TICK}" for y in upwards]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' fill='{drawing.INK}'"
        f" font-family='system-ui,DejaVu Sans,sans-serif' font-size='{FONT}'>"
        f"<image x='{LEFT}' y='{begin:.1f}' width='{RIGHT - LEFT}' height='{BOTTOM - begin:.1f}'"
        f" preserveAspectRatio='none' style='image-rendering:pixelated' href='{_png(compact)}'/>"
        f"<g fill='none' stroke='{drawing.INK}'>"
        f"<path stroke-opacity='.6' stroke-dasharray='4 3' d='{''.join(gap_lines)}'/>"
        f"<path stroke-width='1.6' d='M{LEFT} {TOP}V{BOTTOM}H{RIGHT}{''.join(tick_lines)}'/></g>"
        f"<g text-anchor='middle'>{_texts((x, BOTTOM + 25, text) for x, text in across.items())}"
        f"{_texts([((LEFT + RIGHT) / 2, HEIGHT - 14, 'progress, ops')])}"
        f"<g transform='translate(18 {(TOP + BOTTOM) / 2}) rotate(-90)'>{_texts([(0, 0, 'addresses, MiB')])}</g></g>"
        f"<g text-anchor='end'>{_texts((LEFT - 12, y + FONT / 3, text) for y, text in upwards.items())}</g>"
        f"<g font-size='{GAP_FONT}'>{_texts((RIGHT + 5, y + GAP_FONT / 3, text) for y, text in gaps.items())}</g></svg>"
    )


def ticks(end: float, most: int) -> list[float]:
    """Round numbers from 0 to `end`, at most so many and one.

    >>> ticks(3.1, 7), ticks(1_200_000, 7)
    ([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [0.0, 200000.0, 400000.0, 600000.0, 800000.0, 1000000.0, 1200000.0])
    """
    power = 10.0 ** math.floor(math.log10(end / most))
    step = next(power * digit for digit in (1, 2, 2.5, 5, 10) if end / (power * digit) <= most)
    return [number * step for number in range(int(end / step) + 1)]


def _ops(value: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _height(mib: float, top: float) -> float:
    return BOTTOM - mib / top * (BOTTOM - TOP)


def _texts(placed: Iterable[tuple[float, float, str]]) -> str:
    return "".join(f"<text x='{x:.1f}' y='{y:.1f}'>{text}</text>" for x, y, text in placed)


def _png(compact: CompactMap) -> str:
    pixels = np.round(drawing.map_image(compact)[::-1] * 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).quantize(PALETTE, Image.Quantize.FASTOCTREE).save(out, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
