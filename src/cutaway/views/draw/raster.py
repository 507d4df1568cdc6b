"""A picture as PNG or PDF, drawn with matplotlib. Things that look alike are drawn in one go, which is quick."""

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
from cutaway.views.draw.style import LIGHT, Look, colour, look
from cutaway.views.draw.text_outline import Letters, Outlines, letters_of, selectable

if TYPE_CHECKING:
    from matplotlib.path import Path

RasterFormat = Literal["png", "pdf"]

_logger = logging.getLogger(__name__)
_SCALE: Final = 2.0
"""Pixels of a PNG for each unit of length."""
_MOST_SIDE, _MOST_PIXELS = 16_000, 120_000_000
_MOST_POINTS: Final = 14_400
"""The longest side of a page of PDF that all programs show."""
_POINTS: Final = 0.75
"""Points in a unit of length: there are 96 units and 72 points in an inch."""
_ROUND: Final = 0.5522847498
"""How far the control points of a quarter of a circle are from its ends, in radii."""


def raster(scene: Scene, format: RasterFormat) -> bytes:
    """The picture as the bytes of a PNG or PDF file; text in a PDF can be selected.

    Large pictures are scaled down to what other programs open.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(f"{format.upper()} files are drawn with matplotlib: pip install matplotlib") from error
    scale = _scale(scene, format)
    points = scale if format == "pdf" else _POINTS
    inch = scene.width * points / 72, scene.height * points / 72
    figure = Figure(figsize=inch, facecolor=LIGHT["paper"])
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.set_axis_off()
    pen = _Pen(axes, points, is_selectable=format == "pdf")
    written = io.BytesIO()
    about = {"Creator": "Cutaway", "CreationDate": None} if format == "pdf" else {}
    with matplotlib.rc_context({"pdf.fonttype": 42, "path.simplify": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a letter that the font lacks is drawn as a box
        for number, layer in enumerate(scene.layers):
            pen.layer(layer, number)
        dpi = 72.0 if format == "pdf" else scale * 72 / _POINTS
        figure.savefig(
            written, format=format, dpi=dpi, facecolor=LIGHT["paper"], metadata={"Title": scene.title, **about}
        )
    return written.getvalue()


def _scale(scene: Scene, format: RasterFormat) -> float:
    """Pixels or points for each unit of length."""
    longest = max(scene.width, scene.height)
    if format == "pdf":
        wanted, found = _POINTS, min(_POINTS, _MOST_POINTS / longest)
    else:
        area = math.sqrt(_MOST_PIXELS / (scene.width * scene.height))
        wanted, found = _SCALE, min(_SCALE, _MOST_SIDE / longest, area)
    if found < wanted:
        size = f"{scene.width:,.0f}×{scene.height:,.0f}"
        share = f"{found / wanted:.0%}"
        _logger.warning("the picture is large (%s) and was scaled to %s: depth= or SVG show more.", size, share)
    return found


class _Pen:
    """Puts layers of shapes, lines and texts onto axes."""

    def __init__(self, axes: Any, points: float, *, is_selectable: bool) -> None:
        self._axes, self._points, self._is_selectable = axes, points, is_selectable
        self._outlines = Outlines()

    def layer(self, items: Iterable[Item], number: int) -> None:
        """Draw one layer: shapes, then lines, then text."""
        shapes: dict[tuple[Look, str], list[Path]] = {}
        strokes: dict[Look, list[Stroke]] = {}
        texts: list[Letters] = []
        for item in items:
            if isinstance(item, Stroke):
                strokes.setdefault(look(item.classes), []).append(item)
                continue
            texts += letters_of(item)
            if isinstance(item, Shape):
                shapes.setdefault((look(item.classes), item.fill), []).append(_outline(item.rect, item.radius))
        z = 10.0 * number
        for (one, fill), paths in shapes.items():
            self._paths(paths, one, z, fill or one.fill or "none")
        for one, lines in strokes.items():
            self._paths([_path(stroke) for stroke in lines], one, z + 1, "none")
            tips = [_tip(stroke) for stroke in lines if stroke.has_tip]
            self._paths(tips, Look(stroke="none", width=0.0, opacity=one.opacity), z + 2, one.stroke or "line")
        self._write(texts, z + 3)

    def _write(self, texts: list[Letters], z: float) -> None:
        """Put texts down, as text where the format has it."""
        if self._is_selectable:
            lines = selectable(self._axes, texts, self._points)
            lines.set_zorder(z)
            self._axes.add_artist(lines)
            return
        by_look: dict[tuple[str, float], list[Path]] = {}
        for letters in texts:
            by_look.setdefault((letters.type.ink, letters.opacity), []).append(self._outlines.of(letters))
        for (ink, opacity), paths in by_look.items():
            self._paths(paths, Look(opacity=opacity), z, ink)

    def _paths(self, paths: list[Path], one: Look, z: float, fill: str) -> None:
        from matplotlib.collections import PathCollection
        from matplotlib.colors import to_rgba

        if not paths:
            return
        opacity = one.opacity if one.opacity is not None else 1.0
        face = "none" if fill == "none" else to_rgba(colour(fill), opacity * (one.fill_opacity or 1.0))
        stroke = one.stroke or "none"
        edge = "none" if stroke == "none" else to_rgba(colour(stroke), opacity)
        width = (one.width or 0.0) * self._points
        # Dashes are given in widths of the line.
        dash = (0.0, [part * self._points / width for part in one.dash]) if one.dash and width else "solid"
        style: dict[str, Any] = {
            "facecolors": [face],
            "edgecolors": [edge],
            "linewidths": [width],
            "linestyles": [dash],
        }
        self._axes.add_collection(PathCollection(paths, zorder=z, **style), autolim=False)


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
    for piece in stroke.pieces:
        points += piece
        codes += [Path.LINETO] if len(piece) == 1 else [Path.CURVE4] * 3
    return Path(points, codes)


def _tip(stroke: Stroke) -> Path:
    """The arrow at the end of a line, pointing where the line goes there."""
    from matplotlib.path import Path

    before = [stroke.start, *(point for piece in stroke.pieces for point in piece)]
    x, y = before[-1]
    a, b = before[-2] if len(before) > 1 else (x, y - 1)
    length = math.hypot(x - a, y - b) or 1.0
    dx, dy = (x - a) / length, (y - b) / length
    x, y = x + dx, y + dy
    back, side = 7.0, 2.6
    corners = [(x, y), (x - back * dx - side * dy, y - back * dy + side * dx)]
    corners += [(x - back * dx + side * dy, y - back * dy - side * dx), (x, y)]
    return Path(corners, [Path.MOVETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY])
