"""Renders an array as a small grayscale image: a line, a matrix or tiles."""

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
"""The largest aspect ratio of a matrix image."""
_MOST_TILES, _FEW_TILES = 64, 16
_NOT_FINITE: Final = 255


@dataclass(frozen=True, slots=True)
class Image:
    """Values as gray levels, row by row."""

    kind: Literal["line", "matrix", "tiles"]
    rows: int
    """Height in pixels, over all rows of tiles."""
    columns: int
    tile_rows: int
    """Height of one tile in pixels; equal to `rows` if there is one tile."""
    tile_columns: int
    n_tiles: int
    """Number of filled tiles, from the left and row by row. Pixels after the last one are padding."""
    low: float
    high: float
    data: str
    """Base64 of one byte per pixel: 0 is `low` or less, 254 is `high` or more, 255 is not finite."""
    caption: str
    """Which part of the value is shown."""
    axes: tuple[int, int, int]
    """The dimensions of the value for tiles, rows and columns; -1 for none."""
    first: tuple[int, ...]
    """The index of the first pixel in the value."""
    tile_word: str
    """What a tile is: "channel", "head"…; "" if the value has no tiles."""
    n_tiles_total: int
    """Number of tiles of the value, shown or not."""
    ranges: tuple[tuple[float, float], ...]
    """The `low` and `high` of each tile, if each has its own; else empty."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The meaning of the dimensions of a value, and which part to show."""

    unit_dimension: int | None = None
    """The unit dimension; None for the last one."""
    is_batched: bool = True
    """Whether the first dimension counts samples; only the first is shown."""
    tile: int | None = None
    """The channel, head… to show alone; None, or a number out of range, shows all."""
    is_each: bool = False
    """Whether each tile has its own range from lowest to highest value."""


def image(numbers: Numbers, layout: Layout, most_pixels: int) -> Image | None:
    """The image that suits the shape of a value; None for fewer than two elements.

    It shows the first sample of a batch, and the first of many channels, each as a tile. If there are more elements
    than pixels, a pixel is the mean of a block; it is not finite if the block has a NaN or an infinity.
    """
    shape = tuple(int(size) for size in numbers.source.shape)
    if math.prod(shape) < 2 or most_pixels < 1:
        return None
    slicing = _slicing(shape, layout)
    rows, columns = slicing.size(shape)
    start = 0
    if slicing.tiled is not None and layout.tile is not None and 0 <= layout.tile < shape[slicing.tiled]:
        start, n_tiles, n_pixels = layout.tile, 1, most_pixels
    elif slicing.tiled is None or shape[slicing.tiled] == 1:
        n_tiles, n_pixels = 1, most_pixels
    else:
        n_tiles = _n_tiles(shape[slicing.tiled], rows * columns, most_pixels)
        n_pixels = most_pixels // n_tiles
    # Very large values are strided before they are averaged, so that time and memory stay bounded.
    step = max(1, math.isqrt(-(-rows * columns * n_tiles // MOST_ELEMENTS)))
    tiles = _tiles(numbers.source, slicing, range(start, start + n_tiles), step)
    blocks = _blocks(tiles.shape[1], tiles.shape[2], n_pixels)
    reduced = np.stack([_block_means(tile, *blocks) for tile in tiles])
    captions = [*slicing.captions(shape, range(start, start + n_tiles))]
    captions += [f"every {_ordinal(step)} row and column"] if step > 1 else []
    captions += [f"means of {blocks[0]} × {blocks[1]}"] if blocks != (1, 1) else []
    captions += [numbers.note] if numbers.note else []
    rendered = _render(reduced, " · ".join(captions), is_each=layout.is_each)
    n_tiles_total = 0 if slicing.tiled is None else shape[slicing.tiled]
    return replace(
        rendered,
        axes=slicing.axes,
        first=slicing.first(start, len(shape)),
        tile_word=slicing.tile_word,
        n_tiles_total=n_tiles_total,
    )


@dataclass(frozen=True, slots=True)
class _Slicing:
    """Which dimensions are rows, columns and tiles, and at which index the others are fixed."""

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

    def captions(self, shape: tuple[int, ...], tiles: range) -> list[str]:
        captions = [f"{word} {at + 1} of {shape[d]}" for d, at, word in self.fixed if shape[d] > 1]
        if self.tiled is not None and shape[self.tiled] > 1:
            shown = f"{tiles[0] + 1}" if len(tiles) == 1 else f"{tiles[0] + 1}–{tiles[-1] + 1}"
            captions.append(f"{self.tile_word}{'s' * (len(tiles) > 1)} {shown} of {shape[self.tiled]}")
        rows, columns = self.size(shape)
        captions.append(f"{columns:,} elements" if rows == 1 else f"{rows:,} rows × {columns:,} columns")
        return captions


def _slicing(shape: tuple[int, ...], layout: Layout) -> _Slicing:
    n = len(shape)
    last = n - 1
    unit = last if layout.unit_dimension is None else min(layout.unit_dimension, last)
    if n == 1:
        return _Slicing((), None, "", None, 0)
    if n == 2:
        return _Slicing((), None, "", 0, 1)
    if not layout.is_batched:
        return _Slicing(tuple((d, 0, "slice") for d in range(1, last - 1)), 0, "unit", last - 1, last)
    if unit < last and unit <= n - 3:  # channels of images: samples come before, space comes after
        before = tuple((d, 0, "sample") for d in range(unit))
        # The middle slice of a volume shows more than its border.
        between = tuple((d, shape[d] // 2, "slice") for d in range(unit + 1, last - 1))
        return _Slicing(before + between, unit, "channel", last - 1, last)
    if n == 3 and (unit < last or shape[1] != shape[2]):
        return _Slicing(((0, 0, "sample"),), None, "", 1, 2)
    if n == 4 and unit == last and shape[1] == shape[2] != shape[3]:  # images with their channels last
        return _Slicing(((0, 0, "sample"),), 3, "channel", 1, 2)
    fixed = tuple((d, 0, "sample" if d == 0 else "slice") for d in range(n - 3))
    # Square maps that are no images are taken for attention weights.
    word = "sample" if n == 3 else "head" if n == 4 and shape[2] == shape[3] else "slice"
    return _Slicing(fixed, n - 3, word, n - 2, n - 1)


def _n_tiles(n: int, n_elements: int, most_pixels: int) -> int:
    """As many tiles as fit at full resolution, but at least a few and at most `_MOST_TILES`."""
    few = min(_FEW_TILES, max(1, most_pixels // 64))
    return min(n, max(few, min(_MOST_TILES, most_pixels // max(n_elements, 1))))


def _tiles(source: Any, slicing: _Slicing, tiles: range, step: int) -> Floats:
    """The shown part of a value, as (tile, row, column)."""
    keys: list[Any] = [slice(None, None, step)] * len(source.shape)
    for dimension, at, _ in slicing.fixed:
        keys[dimension] = at
    if slicing.tiled is not None:
        keys[slicing.tiled] = slice(tiles.start, tiles.stop)
    part = array_of(source[tuple(keys)])
    left = [d for d in range(len(keys)) if isinstance(keys[d], slice)]
    order = [left.index(d) for d in (slicing.tiled, slicing.row, slicing.column) if d is not None]
    part = part.transpose(order)
    return part.reshape((1,) * (3 - part.ndim) + part.shape).astype(np.float64)


def _blocks(rows: int, columns: int, most: int) -> tuple[int, int]:
    """Height and width of the blocks that become one pixel each."""
    ratio = min(max(rows / columns, 1 / _LONGEST), _LONGEST)
    high = min(rows, max(1, math.isqrt(int(most * ratio))))
    wide = min(columns, max(1, most // high))
    high = min(rows, max(1, most // wide))
    longest = max(1, math.isqrt(most * _LONGEST))  # limits matrices with few rows or few columns
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
        # Dividing before adding keeps the largest floats from overflowing.
        sums = np.add.reduceat(np.add.reduceat(tile / (high * wide), rows, axis=0), columns, axis=1)
        means: Floats = sums * (high * wide / n)
    return means


def _render(tiles: Floats, caption: str, *, is_each: bool) -> Image:
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
        n_tiles_total=0,
        ranges=ranges if len(ranges) > 1 else (),
    )


def _levels(values: Floats) -> tuple[NDArray[np.uint8], tuple[float, float]]:
    """Gray levels, and the values of the lowest and the highest level."""
    finite = np.isfinite(values)
    flat = values[finite]
    low, high = robust_range(flat, float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
    levels = np.full(values.shape, _NOT_FINITE, np.uint8)
    half = half_width(low, high)
    # Halves, because high - low overflows for the largest floats.
    places = (flat / 2 - low / 2) / half * 254 if half else np.full(flat.shape, 127.0)
    levels[finite] = np.clip(np.rint(places), 0, 254)
    return levels, (low, high)


def _ordinal(n: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return f"{n}{ending}"
