"""The color scale of a measure: the fill of each box and the ramp in the legend.

The colors are the same in light and dark mode. Text on them is black or white, whichever has the higher contrast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cutaway.core.formatting import human_bytes, human_number, human_seconds
from cutaway.layout.graph_view import Measure
from cutaway.views.draw.style import CHALK, INK

Ink = Literal["inked", "chalked"]

SEQUENTIAL: Final = ("#eee9da", "#f6cc84", "#e98c54", "#b83454", "#58185c")
"""For measures where only high values matter. Both ramps are those of the interactive picture."""
DIVERGING: Final = ("#2d3a8c", "#6f9bd1", "#e9e4d4", "#e5905b", "#b3253f")
"""For measures where both ends matter."""


@dataclass(frozen=True, slots=True)
class ColorScale:
    """The fill of each box, and the range and title of the scale."""

    measure: Measure
    values: tuple[float | None, ...]
    """The number of each box."""
    low: float = field(init=False, default=0.0)
    high: float = field(init=False, default=0.0)
    fills: tuple[str | None, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        known = [value for value in self.values if value is not None and self._is_shown(value)]
        low, high = (min(known), max(known)) if known else (0.0, 0.0)
        if self.measure.scale == "diverging":
            high = max(abs(low), abs(high))
            low = -high
        # The dataclass is frozen, so its computed fields are set this way.
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "fills", tuple(map(self._fill, self.values)))

    def _is_shown(self, value: float) -> bool:
        """Whether the ramp can show a value: it must be finite, and positive on a log scale."""
        return math.isfinite(value) and (value > 0 or self.measure.scale != "log")

    def _fill(self, value: float | None) -> str | None:
        return None if value is None or not self._is_shown(value) else self.color(self._share(value))

    def _share(self, value: float) -> float:
        """The position of a value on the ramp, from 0 to 1."""
        low, high = self.low, self.high
        if self.measure.scale == "log":
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5

    @property
    def title(self) -> str:
        """The title of the ramp in the legend."""
        return f"{self.measure.title}, log scale" if self.measure.scale == "log" else self.measure.title

    @property
    def ticks(self) -> tuple[str, str, str]:
        """The tick labels at the start, middle and end of the ramp."""
        middle = math.sqrt(self.low * self.high) if self.measure.scale == "log" else (self.low + self.high) / 2
        low, mean, high = (amount(value, self.measure.unit) for value in (self.low, middle, self.high))
        return low, mean, high

    @property
    def has_gaps(self) -> bool:
        """Whether some boxes have no color."""
        return any(fill is None for fill in self.fills)

    def color(self, share: float) -> str:
        """The color at a position on the ramp, from 0 to 1."""
        # Of costs that add up, only high values matter; of statistics, both ends do.
        is_rising = self.measure.scale != "diverging" and self.measure.total == "sum"
        return interpolate(SEQUENTIAL if is_rising else DIVERGING, share)

    @staticmethod
    def ink_on(fill: str) -> Ink:
        """The class of the text color with the higher contrast on a fill."""
        return "inked" if contrast(fill, INK) >= contrast(fill, CHALK) else "chalked"


def amount(value: float, unit: str) -> str:
    """A short text of a number and its unit.

    >>> amount(0.00042, "s"), amount(1536, "B"), amount(4.1e6, "FLOPs"), amount(0.25, "")
    ('420 µs', '1.5 KB', '4.10 M', '0.25')
    """
    if unit == "s":
        return human_seconds(value) if value >= 1e-6 else f"{value * 1e9:.0f} ns"
    if unit == "B":
        return human_bytes(value)
    return human_number(value) if abs(value) >= 1000 else f"{value:.3g}"


def interpolate(colors: Sequence[str], share: float) -> str:
    """Interpolate linearly between several colors, at a position from 0 to 1.

    >>> interpolate(["#000000", "#ffffff"], 0.0), interpolate(["#000000", "#ffffff"], 1.0)
    ('#000000', '#ffffff')
    """
    place = min(max(share, 0.0), 1.0) * (len(colors) - 1)
    first = min(int(place), len(colors) - 2)
    a, b = (_rgb(colors[number]) for number in (first, first + 1))
    return "#" + "".join(f"{round(x + (y - x) * (place - first)):02x}" for x, y in zip(a, b, strict=True))


def contrast(one: str, other: str) -> float:
    """The WCAG contrast ratio of two colors, from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"))
    21
    """
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [part / 255 for part in _rgb(color)]
    # 0.04045 is the threshold of sRGB; WCAG 2 prints 0.03928, which differs for no 8-bit color.
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rgb(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
