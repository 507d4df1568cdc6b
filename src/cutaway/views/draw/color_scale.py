"""Colour by a number: which fill each box gets, and what the ramp in the legend says.

The colours are the same by day and by night; text on them is black or white, whichever is the easier to read.
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

RISING: Final = ("#eee9da", "#f6cc84", "#e98c54", "#b83454", "#58185c")
"""Only much is remarkable. These and the next are the ramps of the interactive picture."""
DIVERGING: Final = ("#2d3a8c", "#6f9bd1", "#e9e4d4", "#e5905b", "#b3253f")
"""Both ends are."""


@dataclass(frozen=True, slots=True)
class Colouring:
    """The fill of each box, and what the colours mean."""

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
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "fills", tuple(map(self._fill, self.values)))

    def _is_shown(self, value: float) -> bool:
        """Numbers that are none have no place on the ramp, and on a logarithmic one zero has not."""
        return math.isfinite(value) and (value > 0 or self.measure.scale != "log")

    def _fill(self, value: float | None) -> str | None:
        return None if value is None or not self._is_shown(value) else self.colour(self._share(value))

    def _share(self, value: float) -> float:
        """Where on the ramp a number stands, from 0 to 1."""
        low, high = self.low, self.high
        if self.measure.scale == "log":
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5

    @property
    def title(self) -> str:
        """What the ramp shows."""
        return f"{self.measure.title}, log scale" if self.measure.scale == "log" else self.measure.title

    @property
    def ticks(self) -> tuple[str, str, str]:
        """The numbers at the beginning, in the middle and at the end of the ramp."""
        middle = math.sqrt(self.low * self.high) if self.measure.scale == "log" else (self.low + self.high) / 2
        low, mean, high = (amount(value, self.measure.unit) for value in (self.low, middle, self.high))
        return low, mean, high

    @property
    def has_gaps(self) -> bool:
        """Whether some boxes have no number."""
        return any(fill is None for fill in self.fills)

    def colour(self, share: float) -> str:
        """The colour at a place on the ramp."""
        # Of what adds up, only much is remarkable; of a statistic, both ends are.
        is_rising = self.measure.scale != "diverging" and self.measure.total == "sum"
        return mixed(RISING if is_rising else DIVERGING, share)

    @staticmethod
    def ink_on(fill: str) -> Ink:
        """Whether dark or white text is easier to read on a colour."""
        return "inked" if contrast(fill, INK) >= contrast(fill, CHALK) else "chalked"


def amount(value: float, unit: str) -> str:
    """A number with its unit, short.

    >>> amount(0.00042, "s"), amount(1536, "B"), amount(4.1e6, "FLOPs"), amount(0.25, "")
    ('420 µs', '1.5 KB', '4.10 M', '0.25')
    """
    if unit == "s":
        return human_seconds(value) if value >= 1e-6 else f"{value * 1e9:.0f} ns"
    if unit == "B":
        return human_bytes(value)
    return human_number(value) if abs(value) >= 1000 else f"{value:.3g}"


def mixed(colours: Sequence[str], share: float) -> str:
    """The colour at a place between several, from 0 to 1.

    >>> mixed(["#000000", "#ffffff"], 0.0), mixed(["#000000", "#ffffff"], 1.0)
    ('#000000', '#ffffff')
    """
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    first = min(int(place), len(colours) - 2)
    a, b = (_rgb(colours[number]) for number in (first, first + 1))
    return "#" + "".join(f"{round(x + (y - x) * (place - first)):02x}" for x, y in zip(a, b, strict=True))


def contrast(one: str, other: str) -> float:
    """The ratio of two lightnesses, from 1 to 21, as WCAG has it.

    >>> round(contrast("#000000", "#ffffff"))
    21
    """
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in _rgb(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
