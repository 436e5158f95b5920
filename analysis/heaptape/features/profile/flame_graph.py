# SPDX-License-Identifier: MIT
"""Flame graphs of call stacks: a tree of frames with weights, and a standalone SVG of it.

The outermost function is on top, its callees are below; a frame's width is the weight of it and all below it. The
picture is complete without scripts; with them (any browser, from a file as well as inside a page) a click zooms
into a frame, the buttons change the weight, and the search marks frames and shows their total weight. The file loads
no font, script or style.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.escape import markup
from heaptape.common.phrases import size
from heaptape.features.profile.data import Profile
from heaptape.tape.embedded import in_script
from heaptape.tape.stack_names import Frame

WIDTH = 1200
ROW = 18
MARGIN = 8
HEAD = 78  # title, buttons, search, status line
FOOT = 8
LETTER = 6.7  # approximate width of one letter
SMALLEST = 0.3  # pixels: narrower frames are not drawn; the caller's width shows that they exist
MOST_FRAMES = 10_000
# A table of weights: name -> (name in the picture, column of the sites, unit)
Weights = Mapping[str, tuple[str, str, str]]
# The weights of Profile.sites.
WEIGHTS: Weights = {
    "bytes": ("bytes requested", "bytes", "bytes"),
    "objects": ("objects", "objects", "objects"),
    "peak": ("live at the peak", "bytes_at_peak", "bytes"),
    "leaked": ("never freed", "live_bytes", "bytes"),
}


@dataclass
class Node:
    """A frame and its callees. `weights`: of the frame and all below, in the order of the table of weights."""

    name: str
    place: str = ""  # module, file and line
    weights: list[int] = field(default_factory=list)
    below: dict[tuple[str, str], "Node"] = field(default_factory=dict)

    def add(self, weights: Sequence[int]) -> None:
        self.weights = [have + more for have, more in zip(self.weights or [0] * len(weights), weights)]

    def child(self, name: str, place: str) -> "Node":
        return self.below.setdefault((name, place), Node(name, place))


def tree(
    sites: pd.DataFrame, stack: Callable[[int], Iterable[Frame]], root: str = "all", table: Weights = WEIGHTS
) -> Node:
    """The frames of all sites, merged by function and module. `sites`: column `node` and the columns of the table of
    weights; `stack(node)`: its frames, innermost first (StackNames.stack). The allocator's own functions are left out;
    sites without a stack are "no stack known".
    """
    top = Node(root, weights=[0] * len(table))
    for site in sites.to_dict("records"):
        weights = [int(site[column]) for _, column, _ in table.values()]
        frames = list(stack(int(site["node"])))
        while frames and frames[0].is_entry_point:
            frames.pop(0)
        top.add(weights)
        at = top
        for name, module in [(f.name, f.module or "") for f in reversed(frames)] or [("no stack known", "")]:
            at = at.child(name, module)
            at.add(weights)
    return top


@dataclass(frozen=True)
class Box:
    """A frame as drawn, for one weight: its row and place. x and width in pixels."""

    node: Node
    parent: int  # index of the caller's box; -1: none
    depth: int
    x: float
    width: float


def layout(top: Node, chosen: int = 0, least: float = 0.0, width: float = WIDTH - 2 * MARGIN) -> list[Box]:
    """Boxes of the frames that have more than a share of `least` (0 to 1) of the whole by any weight. Callers come
    before callees; callees are sorted by name, side by side below their caller. A frame whose weight number `chosen` is
    0 has width 0.
    """
    scale = width / top.weights[chosen] if top.weights[chosen] else 0.0
    boxes = [Box(top, -1, 0, 0.0, width if scale else 0.0)]
    waiting = [0]
    while waiting:
        parent = waiting.pop()
        at = boxes[parent]
        x = at.x
        for node in sorted(at.node.below.values(), key=lambda node: (node.name, node.place)):
            if share(node, top) > least:
                boxes.append(Box(node, parent, at.depth + 1, x, node.weights[chosen] * scale))
                waiting.append(len(boxes) - 1)
                x += boxes[-1].width
    return boxes


def share(node: Node, top: Node) -> float:
    """The largest share (0 to 1) of the whole that a frame has by any weight."""
    return max(weight / total if total else 0.0 for weight, total in zip(node.weights, top.weights))


def _least(top: Node) -> float:
    """The share that a frame must have to be drawn: to be visible, and to be among the MOST_FRAMES heaviest."""
    shares = sorted((share(box.node, top) for box in layout(top)), reverse=True)
    return max(SMALLEST / WIDTH, shares[MOST_FRAMES] if len(shares) > MOST_FRAMES else 0.0)


def render(top: Node, title: str, weight: str = "bytes", table: Weights = WEIGHTS) -> str:
    """The SVG, as text: `weight` is shown first, with buttons for the other weights of the table that are not 0. Raises
    HeaptapeError if all weights are 0.
    """
    if not any(top.weights):
        raise HeaptapeError("there are no call stacks to draw: record with --stacks")
    there = [name for name, total in zip(table, top.weights) if total]
    weight = weight if weight in there else there[0]
    chosen = list(table).index(weight)
    boxes = layout(top, chosen, _least(top))
    height = HEAD + (max(box.depth for box in boxes) + 1) * ROW + FOOT
    about = {
        "weights": [{"name": name, "unit": unit} for name, _, unit in table.values()],
        "chosen": chosen,
        "width": WIDTH, "margin": MARGIN, "head": HEAD, "row": ROW, "letter": LETTER, "smallest": SMALLEST,
        "frames": [[box.parent, box.depth, *box.node.weights] for box in boxes],
    }  # fmt: skip
    head, style, script = (_part(name) for name in ("head", "style", "script"))
    buttons = _buttons(there, weight, table)
    unit = table[weight][2]
    frames = "\n".join(_frame(box, box.node.weights[chosen], top.weights[chosen], unit) for box in boxes)
    return (
        head.replace("@WIDTH@", str(WIDTH)).replace("@HEIGHT@", str(height)).replace("@TITLE@", markup(title))
        + f"<style>{style}</style>\n"
        + f'<text class="title" x="{MARGIN}" y="22">{markup(title)}</text>\n{buttons}\n'
        + f'<g class="frames">\n{frames}\n</g>\n'
        + f'<text class="status" x="{MARGIN}" y="70"> </text>\n'
        + f'<script type="application/json" class="data">{in_script(about)}</script>\n'
        + f"<script><![CDATA[\n{script}]]></script>\n</svg>\n"
    )


def of_profile(found: Profile, stack: Callable[[int], Iterable[Frame]]) -> str:
    """The SVG of a profile's sites. Raises HeaptapeError if the recording has no stacks."""
    if found.sites.empty:
        raise HeaptapeError("the recording has no call stacks: record with --stacks")
    return render(tree(found.sites, stack), f"{found.name}: where its memory is requested")


def amount(value: float, unit: str) -> str:
    """`value` as text: bytes in KiB, MiB, GiB; objects with thousands separators."""
    return size(value) if unit == "bytes" else f"{value:,.0f} {unit}"


def _frame(box: Box, weight: int, total: int, unit: str) -> str:
    y = HEAD + box.depth * ROW
    title = markup(f"{box.node.name} — {amount(weight, unit)}, {100 * weight / max(total, 1):.2f} %")
    title += f"\n{markup(box.node.place)}" if box.node.place else ""
    hidden = ' visibility="hidden"' if box.width < SMALLEST else ""
    return (
        f'<g class="frame"{hidden} tabindex="-1"><title>{title}</title>'
        f'<rect x="{MARGIN + box.x:.2f}" y="{y}" width="{box.width:.2f}" height="{ROW - 1}" '
        f'fill="{_colour(box)}"/><text x="{MARGIN + box.x + 3:.2f}" y="{y + 13}">'
        f"{markup(_short(box.node.name, box.width))}</text></g>"
    )


def _short(name: str, width: float) -> str:
    """As much of the name as fits; the script in flame_graph.svg.in does the same."""
    letters = int((width - 6) / LETTER)
    if letters < 3:
        return ""
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _colour(box: Box) -> str:
    """A colour by module, so that libraries stand out from the program; slightly different for each function."""
    if box.parent < 0:
        return "hsl(220 8% 72%)"
    hue = 14 + _number(box.node.place, 34) + _number(box.node.name, 10)
    return f"hsl({hue} {70 + _number(box.node.name, 16)}% {60 + _number(box.node.name[::-1], 16)}%)"


def _number(text: str, below: int) -> int:
    """A hash that is the same in each run, unlike hash()."""
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return value % below


def _buttons(there: Sequence[str], weight: str, table: Weights) -> str:
    parts: list[str] = []
    x = float(MARGIN)
    for name in there:
        text = table[name][0]
        width = len(text) * LETTER + 16
        number = list(table).index(name)
        pressed = "true" if name == weight else "false"
        parts.append(
            f'<g class="button weight" role="button" tabindex="0" aria-pressed="{pressed}" data-weight="{number}">'
            f'<rect x="{x:.1f}" y="32" width="{width:.1f}" height="20" rx="3"/>'
            f'<text x="{x + 8:.1f}" y="46">{markup(text)}</text></g>'
        )
        x += width + 4
    parts.append(
        f'<g class="button reset" role="button" tabindex="0" visibility="hidden"><rect x="{x:.1f}" y="32" width="84" '
        f'height="20" rx="3"/><text x="{x + 8:.1f}" y="46">zoom out</text></g>'
    )
    parts.append(
        f'<foreignObject x="{WIDTH - MARGIN - 240}" y="30" width="240" height="24">'
        '<input xmlns="http://www.w3.org/1999/xhtml" type="search" placeholder="search functions" '
        'aria-label="search functions"/></foreignObject>'
    )
    return "\n".join(parts)


def _part(name: str) -> str:
    """A part of flame_graph.svg.in, by its heading."""
    whole = resources.files(__package__).joinpath("flame_graph.svg.in").read_text()
    return whole.split(f"== {name} ==\n", 1)[1].split("\n== ", 1)[0] + "\n"
