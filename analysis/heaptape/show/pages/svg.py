# SPDX-License-Identifier: MIT
"""A matplotlib figure as inline SVG: short, fast to make, with ink in the page's text colour.

matplotlib's own SVG takes three times the bytes and the time, most of it for the five artists of each tick; here the
marks of an axis are one path. The content of an Axes is drawn by its artists, as usual. Figures that are laid out when
they are drawn (`layout="constrained"`, colour bars) are drawn completely by matplotlib.
"""

import base64
import functools
import html
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.spines import Spine
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Affine2D, Bbox, Transform
from PIL import Image

from heaptape.show.figures.axes import INK

# A point of SVG is 1/72 inch. Areas that are drawn as one picture have a higher resolution.
DPI, RASTER_DPI = 72, 100
PALETTE_COLOURS, WEBP_EFFORT = 128, 3
# Steps per point for long lines, and for outlines whose shape matters. Shorter moves of long lines are not drawn.
COARSE, FINE, UNSEEN = 10, 100, 2
_ANCHORS = {"left": "start", "center": "middle", "right": "end"}
_POWER = re.compile(r"\$\\mathdefault\{(.*?)\}\$")
_BASE = "*{stroke-linejoin:round;stroke-linecap:butt}"
_STYLE = re.compile(f"<style>{re.escape(_BASE)}([^<]*)</style>")
# A curve of code n has n - 1 points.
_CURVES = {int(Path.CURVE3): "q", int(Path.CURVE4): "c"}
_glyphs = TextToPath()


def svg(figure: Figure, salt: str) -> str:
    """Inline SVG, without declarations, metadata or external references.

    `salt`: letters, digits and hyphens, unique in the page; the figure's ids begin with it.
    """
    figure.set_dpi(DPI)
    width, height = figure.get_size_inches() * DPI
    renderer = _Renderer(width, height, salt)
    if figure.get_layout_engine() or any(axes.get_axes_locator() for axes in figure.axes):
        figure.draw(renderer)
    else:
        _draw(figure, renderer)
    return renderer.text()


def with_one_style(page: str) -> str:
    """The page with its figures' CSS rules moved into the head, each once: a rule's name is a hash of its content."""
    rules = dict.fromkeys(rule for style in _STYLE.findall(page) for rule in style.split("\n"))
    whole = f"<style>{_BASE}{''.join(rules)}</style>\n</head>"
    return _STYLE.sub("", page).replace("</head>", whole, 1)


class _Renderer(RendererBase):
    def __init__(self, width: float, height: float, salt: str) -> None:
        super().__init__()
        self.width, self.height, self.salt = width, height, salt
        self.elements: list[str] = []
        self.classes: dict[str, str] = {}
        self.defined: dict[str, str] = {}
        self.flip = Affine2D().scale(1, -1).translate(0, height)

    def text(self) -> str:
        rules = "\n".join(f".{name}{{{style}}}" for style, name in self.classes.items())
        box = f"0 0 {_number(self.width, FINE)} {_number(self.height, FINE)}"
        definitions = f"<defs>{''.join(self.defined.values())}</defs>" if self.defined else ""
        return (
            f'<svg viewBox="{box}" aria-hidden="true"><style>{_BASE}{rules}</style>{definitions}'
            f"{''.join(self.elements)}</svg>"
        )

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self.width, self.height

    def flipy(self) -> bool:
        return True

    def get_text_width_height_descent(self, s: str, prop: FontProperties, ismath: Any) -> tuple[float, float, float]:  # noqa: ANN401
        return _extent(s, prop, bool(ismath))

    def draw_path(
        self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: Any = None  # noqa: ANN401, N803
    ) -> None:  # fmt: skip
        simplify = path.should_simplify and rgbFace is None
        self.outline(gc, path.cleaned(transform + self.flip, True, simplify=simplify, curves=True), rgbFace)

    def draw_markers(
        self, gc: GraphicsContextBase, marker_path: Path, marker_trans: Transform, path: Path, trans: Transform,
        rgbFace: Any = None,  # noqa: ANN401, N803
    ) -> None:  # fmt: skip
        marker, codes = _points(marker_path.cleaned(marker_trans + Affine2D().scale(1, -1), True, curves=True))
        at = (trans + self.flip).transform(_points(path.cleaned(remove_nans=True))[0])
        placed = [Path(marker + place, codes) for place in at]
        if placed:
            self.outline(gc, Path.make_compound_path(*placed), rgbFace)

    def draw_text(
        self, gc: GraphicsContextBase, x: float, y: float, s: str, prop: FontProperties, angle: float,
        ismath: Any = False, mtext: Text | None = None,  # noqa: ANN401
    ) -> None:  # fmt: skip
        if ismath:
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
            return
        anchor = "left"
        if mtext is not None and angle == 0:
            # The text's anchor, as the browser's letters have other widths than ours.
            anchor = str(mtext.get_horizontalalignment())
            x = float(mtext.get_transform().transform(mtext.get_unitless_position())[0])
        self.words(html.escape(s, quote=False), (x, y), prop, _colour(gc.get_rgb()), anchor, angle, _alpha(gc, None))

    def words(
        self, inner: str, at: tuple[float, float], prop: FontProperties, colour: str, anchor: str = "left",
        angle: float = 0, alpha: float = 1,
    ) -> None:  # fmt: skip
        """Text, or other content of a text element, at points from the upper left."""
        style = f"font-size:{prop.get_size_in_points():g}px;fill:{colour}"
        style += "" if anchor == "left" else f";text-anchor:{_ANCHORS[anchor]}"
        style += "" if prop.get_weight() in ("normal", 400) else f";font-weight:{prop.get_weight()}"
        style += "" if prop.get_style() == "normal" else f";font-style:{prop.get_style()}"
        style += "" if alpha == 1 else f";opacity:{alpha:g}"
        x, y = (_number(round(place * COARSE) / COARSE, COARSE) for place in at)
        place = f'transform="translate({x} {y}) rotate({-angle:g})"' if angle else f'x="{x}" y="{y}"'
        self.elements.append(f"<text {place}{self.styled(style)}>{inner}</text>")

    def picture(self, rgba: np.ndarray, box: Bbox) -> None:
        """An image, its highest row first."""
        place = _place(box, self.height)
        self.elements.append(f'<image {place} preserveAspectRatio="none" href="{_picture(rgba)}"/>')

    def lines(self, drawn: Sequence[str], colour: str, width: float, alpha: float = 1) -> None:
        """Lines of one style, each as the "d" of a path."""
        style = f"fill:none;stroke:{colour};stroke-width:{width:g}" + (
            f";stroke-opacity:{alpha:g}" if alpha != 1 else ""
        )
        if drawn:
            self.add("".join(drawn), self.styled(style), alpha == 1)

    def outline(self, gc: GraphicsContextBase, path: Path, face: Any) -> None:  # noqa: ANN401
        """A path in the SVG's own coordinates."""
        drawn = _path_data(path)
        if not drawn:
            return
        clip, (points, codes) = gc.get_clip_rectangle(), _points(path)
        clipped = ""
        if clip is not None and not _holds(clip, self.flip.transform(points[codes != Path.CLOSEPOLY])):
            clipped = f' clip-path="url(#{self.clip(clip)})"'
        style = self.style(gc, face)
        self.add(drawn, clipped + self.styled(style), "opacity" not in style and face is None)

    def add(self, drawn: str, options: str, continues: bool) -> None:
        """Adds a path; where `continues`, to the preceding element if that has the same options."""
        end = f'"{options}/>'
        if continues and self.elements and self.elements[-1].startswith("<path") and self.elements[-1].endswith(end):
            self.elements[-1] = f"{self.elements[-1].removesuffix(end)}{drawn}{end}"
        else:
            self.elements.append(f'<path d="{drawn}{end}')

    def style(self, gc: GraphicsContextBase, face: Any) -> str:  # noqa: ANN401
        rules = []
        if gc.get_hatch():
            rules.append(f"fill:url(#{self.hatch(gc, face)})")
        elif face is None:
            rules.append("fill:none")
        else:
            rules.append(f"fill:{_colour(face)}")
            alpha = _alpha(gc, face)
            rules += [f"fill-opacity: {alpha:g}"] if alpha != 1 else []
        if gc.get_linewidth():
            alpha = _alpha(gc, None)
            rules += [f"stroke:{_colour(gc.get_rgb())}", f"stroke-width:{gc.get_linewidth():g}"]
            rules += [f"stroke-opacity:{alpha:g}"] if alpha != 1 else []
            rules += [f"stroke-linejoin:{gc.get_joinstyle()}"] if gc.get_joinstyle() != "round" else []
            caps = {"butt": [], "round": ["stroke-linecap:round"], "projecting": ["stroke-linecap:square"]}
            rules += caps[gc.get_capstyle()]
            begin, dashes = gc.get_dashes()
            if dashes is not None:
                rules.append("stroke-dasharray:" + ",".join(f"{dash:.4g}" for dash in np.ravel(dashes)))
                rules += [f"stroke-dashoffset:{begin:.4g}"] if begin else []
        return ";".join(rules)

    def styled(self, style: str) -> str:
        name = self.classes.setdefault(style, f"s{zlib.crc32(style.encode()):08x}")
        return f' class="{name}"'

    def clip(self, box: Bbox) -> str:
        return self.define("clipPath", f"<rect {_place(box, self.height)}/>")

    def hatch(self, gc: GraphicsContextBase, face: Any) -> str:  # noqa: ANN401
        """A pattern of one inch, as matplotlib's."""
        lines = _path_data(gc.get_hatch_path().cleaned(Affine2D().scale(DPI), True, curves=True))
        colour, ground = _colour(gc.get_hatch_color()), "none" if face is None else _colour(face)
        style = f'fill="{colour}" stroke="{colour}" stroke-width="{gc.get_hatch_linewidth():g}"'
        size = f'width="{DPI}" height="{DPI}"'
        inner = f'<rect {size} fill="{ground}"/><path d="{lines}" {style}/>'
        return self.define("pattern", inner, f' patternUnits="userSpaceOnUse" {size}')

    def define(self, element: str, inner: str, options: str = "") -> str:
        name = f"{self.salt}-{len(self.defined)}"
        known = self.defined.setdefault(inner, f'<{element} id="{name}"{options}>{inner}</{element}>')
        return re.search(r'id="([^"]*)"', known)[1]  # type: ignore[index]


def _draw(figure: Figure, renderer: _Renderer) -> None:
    """Draws like `Figure.draw`, for Axes whose places are fixed."""
    shown = [axes for axes in figure.axes if axes.get_visible()]
    for axes in shown:
        axes.apply_aspect()
    below = [artist for axes in shown for artist in _children(axes) if _is_raster(axes, artist)]
    _draw_raster(figure, renderer, below)
    for axes in shown:
        for artist in sorted(_children(axes), key=lambda artist: artist.get_zorder()):
            if isinstance(artist, Axis):
                _draw_axis(renderer, axes, artist)
            elif _is_raster(axes, artist):
                continue
            elif isinstance(artist, AxesImage):
                _draw_image(renderer, axes, artist)
            else:
                artist.draw(renderer)
    for artist in (*figure.legends, *figure.texts):
        artist.draw(renderer)


def _children(axes: Axes) -> list[Artist]:
    framed = axes.axison and axes.get_frame_on()
    return [
        artist for artist in axes.get_children()
        if artist.get_visible() and artist is not axes.patch and (framed or not isinstance(artist, (Axis, Spine)))
    ]  # fmt: skip


def _is_raster(axes: Axes, artist: Artist) -> bool:
    below = axes.get_rasterization_zorder()
    return below is not None and artist.get_zorder() < below


def _draw_raster(figure: Figure, renderer: _Renderer, artists: Sequence[Artist]) -> None:
    """All artists as one picture, of the part of the figure that they cover."""
    if not artists:
        return
    figure.set_dpi(RASTER_DPI)
    width, height = figure.get_size_inches() * RASTER_DPI
    agg = RendererAgg(width, height, RASTER_DPI)
    for artist in artists:
        artist.draw(agg)
    figure.set_dpi(DPI)
    rgba = np.asarray(agg.buffer_rgba())
    rows, columns = (np.flatnonzero(rgba[..., 3].any(axis=axis)) for axis in (1, 0))
    if len(rows):
        top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
        box = np.array([[left, len(rgba) - bottom], [right, len(rgba) - top]]) * DPI / RASTER_DPI
        renderer.picture(rgba[top:bottom, left:right], Bbox(box))


def _draw_image(renderer: _Renderer, axes: Axes, image: AxesImage) -> None:
    """Draws at the image's extent. Its own `draw` in Debian 12's Matplotlib 3.6 enlarges it to whole points."""
    left, right, low, high = image.get_extent()
    rows = image.to_rgba(np.ma.asarray(image.get_array()), bytes=True)
    place = Bbox(axes.transData.transform([(left, low), (right, high)]))
    renderer.picture(rows[::-1] if image.origin == "lower" else rows, place)


def _draw_axis(renderer: _Renderer, axes: Axes, axis: Axis) -> None:
    """The marks of an axis, their labels and its title, as `Axis.draw` draws them."""
    across = isinstance(axis, YAxis)
    # get_tick_params came with Matplotlib 3.7, and Debian 12 has 3.6.
    ticks = axis._major_tick_kw  # type: ignore[attr-defined]
    low, high = axes.transAxes.transform([(0, 0), (1, 1)]).tolist()
    font = FontProperties(size=ticks.get("labelsize", _setting("font.size")))
    room = 0.0
    for which, locations, formatter in (
        ("major", np.asarray(axis.get_majorticklocs(), float), axis.get_major_formatter()),
        ("minor", np.asarray(axis.get_minorticklocs(), float), axis.get_minor_formatter()),
    ):
        labels = formatter.format_ticks(list(locations))
        places = _on_paper(axes, axis, locations)[:, 1 if across else 0]
        seen = (places > low[across] - 0.5) & (places < high[across] + 0.5)
        places, labels = places[seen], [label for label, there in zip(labels, seen) if there]
        if which == "major" and ticks.get("gridOn"):
            _draw_grid(renderer, axis, places, (low, high), float(ticks.get("grid_alpha", 1)))
        _draw_marks(renderer, axis, places, low, which)
        if ticks.get("label1On"):
            room = max(room, _draw_labels(renderer, axis, dict(zip(places.tolist(), labels)), low, font))
    _draw_title(axis, low[0 if across else 1] - room, renderer)
    factor = axis.get_major_formatter().get_offset()
    if factor and room:
        at = (low[0], renderer.height - high[1] - 3) if across else (high[0], renderer.height - low[1] + 2 * room)
        renderer.words(html.escape(factor), at, font, _tick_colour(axis), "left" if across else "right")


def _on_paper(axes: Axes, axis: Axis, locations: np.ndarray) -> np.ndarray:
    """Points of the figure for places on an axis."""
    nothing = np.zeros(len(locations))
    if isinstance(axis, YAxis):
        return axes.get_yaxis_transform().transform(np.column_stack([nothing, locations]))
    return axes.get_xaxis_transform().transform(np.column_stack([locations, nothing]))


def _draw_grid(
    renderer: _Renderer, axis: Axis, places: np.ndarray, corners: tuple[list[float], list[float]], alpha: float
) -> None:
    low, high = corners
    if isinstance(axis, YAxis):
        lines = [f"M{_number(low[0])} {_number(renderer.height - at)}H{_number(high[0])}" for at in places]
    else:
        ends = [_number(renderer.height - end[1]) for end in corners]
        lines = [f"M{_number(at)} {ends[0]}V{ends[1]}" for at in places]
    renderer.lines(lines, _colour(_setting("grid.color")), _setting("grid.linewidth"), alpha)


def _draw_marks(renderer: _Renderer, axis: Axis, places: np.ndarray, low: list[float], which: str) -> None:
    name = f"{_name(axis)}tick.{which}"
    length, width = _number(_setting(f"{name}.size")), _setting(f"{name}.width")
    if isinstance(axis, YAxis):
        lines = [f"M{_number(low[0])} {_number(renderer.height - at)}h-{length}" for at in places]
    else:
        lines = [f"M{_number(at)} {_number(renderer.height - low[1])}v{length}" for at in places]
    renderer.lines(lines, _tick_colour(axis), width)


def _draw_labels(
    renderer: _Renderer, axis: Axis, labels: Mapping[float, str], low: list[float], font: FontProperties
) -> float:
    """Draws the labels of marks, by place. Returns how far they reach from the axis in points; 0 without labels."""
    across = isinstance(axis, YAxis)
    away = sum(_setting(f"{_name(axis)}tick.major.{what}") for what in ("size", "pad"))
    _, height, descent = _extent("lp", font, False)
    widest = 0.0
    for place, label in labels.items():
        inner, plain = _power(label)
        widest = max(widest, _extent(plain, font, False)[0])
        if across:
            at = (low[0] - away, renderer.height - place + (height - descent) / 2)
        else:
            at = (place, renderer.height - low[1] + away + height - descent)
        if label:
            renderer.words(inner, at, font, _tick_colour(axis), "right" if across else "center")
    return (away + (widest if across else height)) * bool(widest)


def _draw_title(axis: Axis, edge: float, renderer: _Renderer) -> None:
    """The axis title, beyond `edge` unless it has its own place."""
    label = axis.label
    if getattr(axis, "_autolabelpos", True):
        (label.set_x if isinstance(axis, YAxis) else label.set_y)(edge - axis.labelpad)
    if label.get_visible():
        label.draw(renderer)


def _setting(name: str) -> Any:  # noqa: ANN401
    return matplotlib.rcParams[name]  # type: ignore[index]


def _name(axis: Axis) -> str:
    return "y" if isinstance(axis, YAxis) else "x"


def _tick_colour(axis: Axis) -> str:
    return _colour(_setting(f"{_name(axis)}tick.color"))


def _power(label: str) -> tuple[str, str]:
    """A label as an element's inner text, and as plain text. Of matplotlib's formulas only powers of ten occur."""
    found = _POWER.fullmatch(label)
    text = label if found is None else found[1].replace(r"\times", "×").replace("-", "\N{MINUS SIGN}")
    base, _, power = text.partition("^{")
    if found is None or not power:
        return html.escape(text, quote=False), text
    power = power.rstrip("}")
    return f'{base}<tspan dy="-.45em" font-size="70%">{power}</tspan>', base + power


@functools.lru_cache(8192)
def _extent(text: str, font: FontProperties, formula: bool) -> tuple[float, float, float]:
    """Width, height and descent in points."""
    return _glyphs.get_text_width_height_descent(text, font, formula)


def _colour(colour: Any) -> str:  # noqa: ANN401
    code = to_hex(colour)
    return "currentColor" if code == INK else code


def _alpha(gc: GraphicsContextBase, face: Any) -> float:  # noqa: ANN401
    if gc.get_forced_alpha():
        return gc.get_alpha()
    return gc.get_rgb()[3] if face is None else face[3] if len(face) > 3 else 1


def _place(box: Bbox, height: float) -> str:
    """A box as attributes, in a figure of height `height`."""
    values = {"x": box.x0, "y": height - box.y1, "width": box.width, "height": box.height}
    return " ".join(f'{name}="{_number(value)}"' for name, value in values.items())


def _holds(box: Bbox, points: np.ndarray) -> bool:
    low, high = points.min(axis=0), points.max(axis=0)
    return bool((low >= np.array(box.min) - 0.01).all() and (high <= np.array(box.max) + 0.01).all())


def _number(value: float, steps: int = FINE) -> str:
    """A number in its shortest form: 12, .5, -3.25."""
    text = f"{round(value * steps) / steps:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _points(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and codes of a cleaned path, without its end."""
    codes = np.asarray(path.codes)
    there = codes != Path.STOP
    return np.asarray(path.vertices, float)[there], codes[there]


def _path_data(path: Path) -> str:
    """The "d" of a cleaned path in the SVG's own coordinates, relative and rounded: to a tenth of a point, and where it
    is short or has curves to a hundredth.
    """
    vertices, codes = _points(path)
    exact = len(codes) < 8 or bool(np.isin(codes, (Path.CURVE3, Path.CURVE4)).any())
    steps = FINE if exact else COARSE
    points = np.rint(np.clip(vertices, -1e5, 1e5) * steps).astype(int).tolist()
    following = [*codes[1:].tolist(), Path.STOP]
    out: list[str] = []
    curve: list[int] = []
    at = start = [0, 0]
    for index, (code, point) in enumerate(zip(codes.tolist(), points)):
        right, down = point[0] - at[0], point[1] - at[1]
        if code == Path.MOVETO:
            out.append(f"M{_joined(point, steps)}")
            at = start = point
        elif code == Path.CLOSEPOLY:
            out.append("z")
            at = start
        elif code in _CURVES:
            curve += [right, down]
            if len(curve) == 2 * (code - 1):
                out.append(_CURVES[code] + _joined(curve, steps))
                at, curve = point, []
        elif following[index] != Path.LINETO or not (
            _in_line(right, down, points[index + 1], point) or (not exact and max(abs(right), abs(down)) <= UNSEEN)
        ):
            out.append(_line(right, down, steps))
            at = point
    return "".join(out)


def _in_line(right: int, down: int, following: list[int], point: list[int]) -> bool:
    """Does the next line continue along the same axis, in the same direction?"""
    next_right, next_down = following[0] - point[0], following[1] - point[1]
    return right * next_right + down * next_down >= 0 and (
        (down == 0 and next_down == 0) or (right == 0 and next_right == 0)
    )


def _line(right: int, down: int, steps: int) -> str:
    if down == 0:
        return f"h{_joined([right], steps)}" if right else ""
    return f"l{_joined([right, down], steps)}" if right else f"v{_joined([down], steps)}"


def _joined(numbers: Sequence[int], steps: int) -> str:
    """Numbers with the fewest separators."""
    out = ""
    for number in numbers:
        text = _number(number / steps)
        out += text if not out or text.startswith("-") else f" {text}"
    return out


def _picture(rgba: np.ndarray) -> str:
    """A lossless WebP of few colours, as a data URL: a fourth of the bytes, with an invisible difference of colour."""
    few = Image.fromarray(np.ascontiguousarray(rgba)).quantize(
        PALETTE_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    out = io.BytesIO()
    few.convert("RGBA").save(out, "webp", lossless=True, method=WEBP_EFFORT)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()
