"""Renders a scene as PNG or PDF with matplotlib. All shapes of a style form one collection, which is fast."""

from __future__ import annotations

import io
import logging
import math
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from cutaway.core.errors import MissingExtraError
from cutaway.layout.layered import Point, Rect
from cutaway.views.draw.shapes import Item, Scene, Shape, Stroke
from cutaway.views.draw.style import LIGHT, Style, color, style_of
from cutaway.views.draw.text_outline import GlyphRun, Outlines, glyph_runs, text_artist

if TYPE_CHECKING:
    from matplotlib.path import Path

RasterFormat = Literal["png", "pdf"]

_logger = logging.getLogger(__name__)
_SCALE: Final = 2.0
"""Pixels of a PNG per unit of length."""
_MOST_SIDE, _MOST_PIXELS = 16_000, 120_000_000
"""Limits of a PNG, which other programs can still open."""
_MOST_POINTS: Final = 14_400
"""The longest side of a PDF page that all viewers can show."""
_POINTS: Final = 0.75
"""Points per unit of length: an inch has 96 units and 72 points."""
_ROUND: Final = 0.5522847498
"""Distance of the Bézier control points of a quarter circle from its ends, in radii."""


def raster(scene: Scene, format: RasterFormat) -> bytes:
    """The bytes of a PNG or PDF file. Text in a PDF can be selected.

    Pictures that are too large for other programs to open are scaled down.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(f"{format.upper()} files need matplotlib: pip install matplotlib") from error
    scale = _scale(scene, format)
    points = scale if format == "pdf" else _POINTS
    inch = scene.width * points / 72, scene.height * points / 72
    figure = Figure(figsize=inch, facecolor=LIGHT["paper"])
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, scene.width)
    # In scenes, y grows downwards.
    axes.set_ylim(scene.height, 0)
    axes.set_axis_off()
    pen = _Pen(axes, points, is_selectable=format == "pdf")
    written = io.BytesIO()
    # Without a date, the same picture gives the same bytes.
    about = {"Creator": "Cutaway", "CreationDate": None} if format == "pdf" else {}
    with matplotlib.rc_context({"pdf.fonttype": 42, "path.simplify": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a missing glyph is drawn as a box
        for number, layer in enumerate(scene.layers):
            pen.layer(layer, number)
        dpi = 72.0 if format == "pdf" else scale * 72 / _POINTS
        figure.savefig(
            written, format=format, dpi=dpi, facecolor=LIGHT["paper"], metadata={"Title": scene.title, **about}
        )
    return written.getvalue()


def _scale(scene: Scene, format: RasterFormat) -> float:
    """Pixels or points per unit of length."""
    longest = max(scene.width, scene.height)
    if format == "pdf":
        wanted, scale = _POINTS, min(_POINTS, _MOST_POINTS / longest)
    else:
        area = math.sqrt(_MOST_PIXELS / (scene.width * scene.height))
        wanted, scale = _SCALE, min(_SCALE, _MOST_SIDE / longest, area)
    if scale < wanted:
        size = f"{scene.width:,.0f}×{scene.height:,.0f}"
        share = f"{scale / wanted:.0%}"
        _logger.warning(
            "the picture is large (%s) and was scaled to %s: draw less with depth=, or use SVG.", size, share
        )
    return scale


class _Pen:
    """Draws layers of shapes, lines and texts on matplotlib axes."""

    def __init__(self, axes: Any, points: float, *, is_selectable: bool) -> None:
        self._axes, self._points, self._is_selectable = axes, points, is_selectable
        self._outlines = Outlines()

    def layer(self, items: Iterable[Item], number: int) -> None:
        """Draw one layer: shapes, then lines, then text."""
        shapes: dict[tuple[Style, str], list[Path]] = {}
        strokes: dict[Style, list[Stroke]] = {}
        texts: list[GlyphRun] = []
        for item in items:
            if isinstance(item, Stroke):
                strokes.setdefault(style_of(item.classes), []).append(item)
                continue
            texts += glyph_runs(item)
            if isinstance(item, Shape):
                shapes.setdefault((style_of(item.classes), item.fill), []).append(_outline(item.rect, item.radius))
        z = 10.0 * number
        for (style, fill), paths in shapes.items():
            self._paths(paths, style, z, fill or style.fill or "none")
        for style, lines in strokes.items():
            self._paths([_path(stroke) for stroke in lines], style, z + 1, "none")
            tips = [_tip(stroke) for stroke in lines if stroke.has_arrow]
            self._paths(tips, Style(stroke="none", width=0.0, opacity=style.opacity), z + 2, style.stroke or "line")
        self._write(texts, z + 3)

    def _write(self, texts: list[GlyphRun], z: float) -> None:
        """Draw texts: as selectable text in PDF, as outlines in PNG."""
        if self._is_selectable:
            lines = text_artist(self._axes, texts, self._points)
            lines.set_zorder(z)
            self._axes.add_artist(lines)
            return
        by_style: dict[tuple[str, float], list[Path]] = {}
        for run in texts:
            by_style.setdefault((run.style.ink, run.opacity), []).append(self._outlines.of(run))
        for (ink, opacity), paths in by_style.items():
            self._paths(paths, Style(opacity=opacity), z, ink)

    def _paths(self, paths: list[Path], style: Style, z: float, fill: str) -> None:
        from matplotlib.collections import PathCollection
        from matplotlib.colors import to_rgba

        if not paths:
            return
        opacity = style.opacity if style.opacity is not None else 1.0
        face = "none" if fill == "none" else to_rgba(color(fill), opacity * (style.fill_opacity or 1.0))
        stroke = style.stroke or "none"
        edge = "none" if stroke == "none" else to_rgba(color(stroke), opacity)
        width = (style.width or 0.0) * self._points
        # matplotlib takes dash lengths in multiples of the line width.
        dash = (0.0, [part * self._points / width for part in style.dash]) if style.dash and width else "solid"
        properties: dict[str, Any] = {
            "facecolors": [face],
            "edgecolors": [edge],
            "linewidths": [width],
            "linestyles": [dash],
        }
        # autolim would compute the extent of all paths, but the limits are set already.
        self._axes.add_collection(PathCollection(paths, zorder=z, **properties), autolim=False)


def _outline(rect: Rect, radius: float) -> Path:
    from matplotlib.path import Path

    r = min(radius, rect.width / 2, rect.height / 2)
    left, top, right, bottom = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height
    if r <= 0:
        square = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        return Path(square, [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY])
    k = r * (1 - _ROUND)
    points = [
        (left + r, top), (right - r, top), (right - k, top), (right, top + k), (right, top + r),
        (right, bottom - r), (right, bottom - k), (right - k, bottom), (right - r, bottom),
        (left + r, bottom), (left + k, bottom), (left, bottom - k), (left, bottom - r),
        (left, top + r), (left, top + k), (left + k, top), (left + r, top), (left + r, top),
    ]  # fmt: skip
    corner = [Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    return Path(points, [Path.MOVETO, *corner * 4, Path.CLOSEPOLY])


def _path(stroke: Stroke) -> Path:
    from matplotlib.path import Path

    points: list[Point] = [stroke.start]
    codes = [Path.MOVETO]
    for segment in stroke.segments:
        points += segment
        codes += [Path.LINETO] if len(segment) == 1 else [Path.CURVE4] * 3
    return Path(points, codes)


def _tip(stroke: Stroke) -> Path:
    """The arrowhead at the end of a line, along its last segment."""
    from matplotlib.path import Path

    before = [stroke.start, *(point for segment in stroke.segments for point in segment)]
    x, y = before[-1]
    a, b = before[-2] if len(before) > 1 else (x, y - 1)
    length = math.hypot(x - a, y - b) or 1.0
    dx, dy = (x - a) / length, (y - b) / length
    # The tip is one unit beyond the end of the line, about as far as the marker of the SVG.
    x, y = x + dx, y + dy
    back, side = 7.0, 2.6
    corners = [(x, y), (x - back * dx - side * dy, y - back * dy + side * dx)]
    corners += [(x - back * dx + side * dy, y - back * dy - side * dx), (x, y)]
    return Path(corners, [Path.MOVETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY])
