"""The view of one value: statistics, histogram and a small image, in a few hundred bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from cutaway.views.values.image import Image, Layout, image
from cutaway.views.values.numbers import MOST_ELEMENTS, Numbers, exact_array_of, numbers_of, reason_of
from cutaway.views.values.summaries import Histogram, histogram, summaries

MOST_PIXELS: Final = 4096
PLAIN: Final = Layout()
_MOST_PRINTED: Final = 16
_MOST_TEXT: Final = 2000


@dataclass(frozen=True, slots=True)
class ValuePicture:
    """Statistics, histogram and image of a value."""

    shape: tuple[int, ...]
    dtype: str
    statistics: tuple[tuple[str, float | None], ...]
    """Mean, std, min, max and norm of the finite elements, the share of zeros, the numbers of NaN and Inf."""
    histogram: Histogram | None
    image: Image | None
    text: str
    """The whole value if it is small; else how it was sampled or converted, or why it could not be read."""


def value_picture(
    value: Any,
    most_pixels: int = MOST_PIXELS,
    *,
    layout: Layout = PLAIN,
    dtype: str | None = None,
    most_elements: int = MOST_ELEMENTS,
) -> ValuePicture:
    """The picture of a tensor, an array, a number or any other value; never raises.

    Args:
        layout: the meaning of the dimensions, and which part to show.
        dtype: the original dtype, if the value was converted to another one when it was read.
        most_pixels: size limit of the image; 0 also leaves out the histogram.
        most_elements: mean, std, norm, zeros and histogram of larger values are computed on a sample. Extremes and
            the numbers of NaN and Inf always cover all elements.

    >>> import numpy as np
    >>> value_picture(np.array([[0.0, 2.0], [4.0, 6.0]])).statistics[:2]
    (('mean', 3.0), ('std', 2.23606797749979))
    """
    numbers = numbers_of(value)
    shape, dtype = numbers.shape, dtype or numbers.dtype
    if numbers.source is None:
        text = numbers.reason if hasattr(value, "dtype") else clipped_repr(value)
        return ValuePicture(shape, dtype, (), None, None, printable(text))
    try:
        return _picture(numbers, dtype, most_pixels, most_elements, layout)
    except Exception as error:  # a tensor subclass or stand-in may refuse any operation
        return ValuePicture(shape, dtype, (), None, None, printable(reason_of(error)))


def _picture(numbers: Numbers, dtype: str, most_pixels: int, most_elements: int, layout: Layout) -> ValuePicture:
    n = numbers.n_elements
    if not n:
        return ValuePicture(numbers.shape, dtype, (), None, None, "no elements")
    notes = [_printed(exact_array_of(numbers.source))] if n <= _MOST_PRINTED else []
    notes += [numbers.note] if numbers.note else []
    numbers = numbers.near()
    flat, step = numbers.sample(most_elements)
    notes += [f"sampled: one element in {step:,}"] if step > 1 else []
    statistics = _statistics(flat, step, numbers)
    return ValuePicture(
        shape=numbers.shape,
        dtype=dtype,
        statistics=statistics,
        histogram=histogram(flat) if flat.size > 1 and most_pixels else None,
        image=image(numbers, layout, most_pixels),
        text=printable(" · ".join(notes)),
    )


def _statistics(flat: NDArray[Any], step: int, numbers: Numbers) -> tuple[tuple[str, float | None], ...]:
    statistics = summaries([flat])
    count = int(statistics.count[0])
    low, high = float(statistics.low[0]), float(statistics.high[0])
    n_nan, n_inf = int(statistics.n_nan[0]), int(statistics.n_inf[0])
    if step > 1:
        extremes = numbers.extremes()
        if all(map(math.isfinite, extremes)):
            low, high = extremes
        else:  # a sample could miss the only NaN
            n_nan, n_inf = numbers.n_not_finite()
    named = {
        "mean": statistics.mean[0],
        "std": statistics.std[0],
        "min": low,
        "max": high,
        "norm": statistics.norm[0] * math.sqrt(step),
        "zeros": statistics.n_zeros[0] / count,
        "NaN": n_nan,
        "Inf": n_inf,
    }
    return tuple((name, finite_or_none(number)) for name, number in named.items())


def finite_or_none(number: Any) -> float | None:
    """A number as JSON allows it: None if it is not finite.

    >>> finite_or_none(float("inf")), finite_or_none(1)
    (None, 1.0)
    """
    plain = float(number)
    return plain if math.isfinite(plain) else None


def printable(text: str) -> str:
    """Escape the characters of a text that cannot be shown or encoded as UTF-8.

    >>> printable("a\\x00b\\ud800")
    'a\\\\x00b\\\\ud800'
    """
    # isprintable is one fast call, and almost all texts pass it.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clipped_repr(value: Any, most: int = _MOST_TEXT) -> str:
    """The `repr` of a value, cut to `most` characters; its class if `repr` raises."""
    try:
        text = repr(value)
    except Exception:  # `__repr__` is user code
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _printed(array: NDArray[Any]) -> str:
    return _nested_text(array.tolist())


def _nested_text(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_nested_text, item))}]"
    if isinstance(item, float):
        return f"{item:.6g}"
    return f"{item:.6g}" if isinstance(item, complex) else str(item)
