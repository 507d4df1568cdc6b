"""The picture of an array: a line, a matrix or tiles, reduced to as many pixels as there is room for."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.views.values.numbers import MOST_ELEMENTS, Numbers, array_of
from cutaway.views.values.summaries import half_width, robust_range

Floats = NDArray[np.float64]

_LONGEST: Final = 6
"""A matrix is shown at most so many times wider than high, or higher than wide."""
_MOST_TILES, _FEW_TILES = 64, 16
_NOT_FINITE: Final = 255


@dataclass(frozen=True, slots=True)
class Image:
    """Values as grey levels, row by row."""

    kind: Literal["line", "matrix", "tiles"]
    rows: int
    """Pixels from top to bottom, tiles that stand below each other included."""
    columns: int
    tile_rows: int
    """Pixels of one tile from top to bottom; as many as `rows` where there is one."""
    tile_columns: int
    n_tiles: int
    """Tiles that are filled, from the left and row by row; pixels behind the last one mean nothing."""
    low: float
    high: float
    data: str
    """Base64 of a byte for each pixel: 0 is `low` or less, 254 is `high` or more, 255 is not finite."""
    caption: str
    """What is shown of the value."""
    axes: tuple[int, int, int]
    """The dimensions of the value that count its tiles, its rows and its columns; -1 for none."""
    first: tuple[int, ...]
    """Where the first pixel stands in the value."""
    tile_word: str
    """What the tiles are: "channel", "head"…; "" where the value has none."""
    n_all: int
    """How many of them the value has, shown or not."""
    ranges: tuple[tuple[float, float], ...]
    """The `low` and `high` of each tile, where each has its own; else none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which dimensions of a value are what."""

    unit_dimension: int | None = None
    """The dimension that counts the units; the last where nothing is said."""
    is_batched: bool = True
    """Whether the first dimension counts samples, of which one is shown."""
    tile: int | None = None
    """The one channel, head… to be shown alone; all where there is none of that number."""
    is_each: bool = False
    """Whether each tile is painted from its own lowest to its own highest value."""


def image(numbers: Numbers, layout: Layout, most_pixels: int) -> Image | None:
    """The picture that suits the shape of a value; None for a single number, or none.

    Of a batch the first sample is shown, of many channels the first ones, each as a tile. Where there are more
    elements than pixels, a pixel is the mean of a block; one that holds a NaN or an infinity is not finite.
    """
    shape = tuple(int(size) for size in numbers.source.shape)
    if math.prod(shape) < 2 or most_pixels < 1:
        return None
    cut = _cut(shape, layout)
    rows, columns = cut.size(shape)
    start = 0
    if cut.tiled is not None and layout.tile is not None and 0 <= layout.tile < shape[cut.tiled]:
        start, n_tiles, n_pixels = layout.tile, 1, most_pixels
    elif cut.tiled is None or shape[cut.tiled] == 1:
        n_tiles, n_pixels = 1, most_pixels
    else:
        n_tiles = _n_tiles(shape[cut.tiled], rows * columns, most_pixels)
        n_pixels = most_pixels // n_tiles
    step = max(1, math.isqrt(-(-rows * columns * n_tiles // MOST_ELEMENTS)))
    tiles = _tiles(numbers.source, cut, range(start, start + n_tiles), step)
    blocks = _blocks(tiles.shape[1], tiles.shape[2], n_pixels)
    reduced = np.stack([_block_means(tile, *blocks) for tile in tiles])
    said = [*cut.said(shape, range(start, start + n_tiles))]
    said += [f"every {_ordinal(step)} row and column"] if step > 1 else []
    said += [f"means of {blocks[0]} × {blocks[1]}"] if blocks != (1, 1) else []
    said += [numbers.note] if numbers.note else []
    painted = _painted(reduced, " · ".join(said), is_each=layout.is_each)
    n_all = 0 if cut.tiled is None else shape[cut.tiled]
    return replace(painted, axes=cut.axes, first=cut.first(start, len(shape)), tile_word=cut.tile_word, n_all=n_all)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Which two dimensions are rows and columns, which one counts the tiles, and where the others are fixed."""

    fixed: tuple[tuple[int, int, str], ...]
    """(dimension, index, what it counts)."""
    tiled: int | None
    tile_word: str
    row: int | None
    column: int

    def size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        return 1 if self.row is None else shape[self.row], shape[self.column]

    @property
    def axes(self) -> tuple[int, int, int]:
        tiled, row = (-1 if dimension is None else dimension for dimension in (self.tiled, self.row))
        return tiled, row, self.column

    def first(self, tile: int, n_dims: int) -> tuple[int, ...]:
        at = {dimension: place for dimension, place, _ in self.fixed}
        return tuple(tile if dimension == self.tiled else at.get(dimension, 0) for dimension in range(n_dims))

    def said(self, shape: tuple[int, ...], tiles: range) -> list[str]:
        said = [f"{word} {at + 1} of {shape[d]}" for d, at, word in self.fixed if shape[d] > 1]
        if self.tiled is not None and shape[self.tiled] > 1:
            shown = f"{tiles[0] + 1}" if len(tiles) == 1 else f"{tiles[0] + 1}–{tiles[-1] + 1}"
            said.append(f"{self.tile_word}{'s' * (len(tiles) > 1)} {shown} of {shape[self.tiled]}")
        rows, columns = self.size(shape)
        said.append(f"{columns:,} elements" if rows == 1 else f"{rows:,} rows × {columns:,} columns")
        return said


def _cut(shape: tuple[int, ...], layout: Layout) -> _Cut:
    n = len(shape)
    last = n - 1
    unit = last if layout.unit_dimension is None else min(layout.unit_dimension, last)
    if n == 1:
        return _Cut((), None, "", None, 0)
    if n == 2:
        return _Cut((), None, "", 0, 1)
    if not layout.is_batched:
        return _Cut(tuple((d, 0, "slice") for d in range(1, last - 1)), 0, "unit", last - 1, last)
    if unit < last and unit <= n - 3:  # channels of images: those before them count samples, those behind them space
        before = tuple((d, 0, "sample") for d in range(unit))
        between = tuple((d, shape[d] // 2, "slice") for d in range(unit + 1, last - 1))
        return _Cut(before + between, unit, "channel", last - 1, last)
    if n == 3 and (unit < last or shape[1] != shape[2]):
        return _Cut(((0, 0, "sample"),), None, "", 1, 2)
    if n == 4 and unit == last and shape[1] == shape[2] != shape[3]:  # images with their channels last
        return _Cut(((0, 0, "sample"),), 3, "channel", 1, 2)
    fixed = tuple((d, 0, "sample" if d == 0 else "slice") for d in range(n - 3))
    # Squares that are no images: what attends to what.
    word = "sample" if n == 3 else "head" if n == 4 and shape[2] == shape[3] else "slice"
    return _Cut(fixed, n - 3, word, n - 2, n - 1)


def _n_tiles(n: int, n_elements: int, most_pixels: int) -> int:
    """As many as fit whole; a few in any case, and of tiny ones not too many."""
    few = min(_FEW_TILES, max(1, most_pixels // 64))
    return min(n, max(few, min(_MOST_TILES, most_pixels // max(n_elements, 1))))


def _tiles(source: Any, cut: _Cut, tiles: range, step: int) -> Floats:
    """The part of a value that is shown, as (tile, row, column)."""
    keys: list[Any] = [slice(None, None, step)] * len(source.shape)
    for dimension, at, _ in cut.fixed:
        keys[dimension] = at
    if cut.tiled is not None:
        keys[cut.tiled] = slice(tiles.start, tiles.stop)
    part = array_of(source[tuple(keys)])
    left = [d for d in range(len(keys)) if isinstance(keys[d], slice)]
    order = [left.index(d) for d in (cut.tiled, cut.row, cut.column) if d is not None]
    part = part.transpose(order)
    return part.reshape((1,) * (3 - part.ndim) + part.shape).astype(np.float64)


def _blocks(rows: int, columns: int, most: int) -> tuple[int, int]:
    """The size of the blocks that become one pixel each."""
    ratio = min(max(rows / columns, 1 / _LONGEST), _LONGEST)
    high = min(rows, max(1, math.isqrt(int(most * ratio))))
    wide = min(columns, max(1, most // high))
    high = min(rows, max(1, most // wide))
    longest = max(1, math.isqrt(most * _LONGEST))  # of one row, or a few
    if rows > 1:
        wide = min(wide, longest)
    high = min(high, longest)
    return -(-rows // high), -(-columns // wide)


def _block_means(tile: Floats, high: int, wide: int) -> Floats:
    if (high, wide) == (1, 1):
        return tile
    with np.errstate(all="ignore"):
        rows, columns = np.arange(0, tile.shape[0], high), np.arange(0, tile.shape[1], wide)
        n = np.outer(np.diff([*rows, tile.shape[0]]), np.diff([*columns, tile.shape[1]]))
        # Divided before they are added, the largest floats do not overflow.
        sums = np.add.reduceat(np.add.reduceat(tile / (high * wide), rows, axis=0), columns, axis=1)
        means: Floats = sums * (high * wide / n)
    return means


def _painted(tiles: Floats, caption: str, *, is_each: bool) -> Image:
    n, rows, columns = tiles.shape
    parts = [_levels(tile) for tile in tiles] if is_each and n > 1 else [_levels(tiles)]
    levels = np.concatenate([part.reshape(-1, rows, columns) for part, _ in parts])
    ranges = tuple(reach for _, reach in parts)
    across = min(n, max(1, round(math.sqrt(n * rows / columns))))
    down = -(-n // across)
    whole = np.full((down * across, rows, columns), _NOT_FINITE, np.uint8)
    whole[:n] = levels
    mosaic = whole.reshape(down, across, rows, columns).transpose(0, 2, 1, 3)  # (down, row, across, column)
    return Image(
        kind="tiles" if n > 1 else "line" if rows == 1 else "matrix",
        rows=down * rows,
        columns=across * columns,
        tile_rows=rows,
        tile_columns=columns,
        n_tiles=n,
        low=min(low for low, _ in ranges),
        high=max(high for _, high in ranges),
        data=base64.b64encode(np.ascontiguousarray(mosaic).tobytes()).decode(),
        caption=caption,
        axes=(-1, -1, -1),
        first=(),
        tile_word="",
        n_all=0,
        ranges=ranges if len(ranges) > 1 else (),
    )


def _levels(values: Floats) -> tuple[NDArray[np.uint8], tuple[float, float]]:
    """Grey levels, and what the lowest and the highest of them stand for."""
    finite = np.isfinite(values)
    flat = values[finite]
    low, high = robust_range(flat, float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
    levels = np.full(values.shape, _NOT_FINITE, np.uint8)
    half = half_width(low, high)
    places = (flat / 2 - low / 2) / half * 254 if half else np.full(flat.shape, 127.0)
    levels[finite] = np.clip(np.rint(places), 0, 254)
    return levels, (low, high)


def _ordinal(n: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return f"{n}{ending}"
