"""The kept samples of a step for the viewer: texts, tokens, labels, small images."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import DamagedError
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import Samples
from cutaway.views.values.value_view import clipped_repr

_MOST_SHOWN: Final = 256
"""Most samples listed; usually only a few are kept."""
_MOST_TEXT: Final = 20_000
_MOST_TOKENS: Final = 4_096
_MOST_SIDE: Final = 128
"""Most pixels of an image in each direction."""
_SHOWN_FIELDS: Final = ("ids", "label", "text", "tokens", "image")


@dataclass(frozen=True, slots=True)
class SampleImage:
    """The image of a sample."""

    rows: int
    columns: int
    n_channels: int
    """1 for grayscale, 3 for RGB, 4 for RGBA."""
    data: str
    """Base64, one byte per pixel and channel, row by row, channels last; 0 is `low` and 255 is `high`."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SampleItem:
    """One sample."""

    number: int
    """Index among the kept samples."""
    id: str
    label: str
    """Class label; "" if unknown."""
    text: str
    """The text; joined tokens if no text was given."""
    tokens: tuple[str, ...]
    image: SampleImage | None
    others: tuple[tuple[str, str], ...]
    """Other fields: (name, text)."""


@dataclass(frozen=True, slots=True)
class SamplesView:
    """The kept samples of one step."""

    step: int
    n_kept: int
    """Number of kept samples, also if nothing is known about them or they are too many to list."""
    fields: tuple[str, ...]
    items: tuple[SampleItem, ...]
    why_missing: str
    """Why none were kept, or why nothing is known about them; "" if neither is the case."""


def samples_view(run: Run, step: int) -> SamplesView:
    """The known fields of the kept samples of a step; damage is reported in `why_missing`."""
    at = run.at(step)
    try:
        n_kept = at.n_samples
        samples = at.samples
    except DamagedError as error:
        return SamplesView(at.step, 0, (), (), str(error))
    if not samples.fields:
        why = (
            "nothing was recorded about these samples: call run.samples(text=…, label=…) to name them."
            if n_kept
            else "no samples were kept at this step: record with samples=8 to keep eight."
        )
        return SamplesView(at.step, n_kept, (), (), why)
    items = tuple(sample_item(samples, number) for number in range(min(len(samples), _MOST_SHOWN)))
    return SamplesView(at.step, len(samples), tuple(samples.fields), items, "")


def sample_item(samples: Samples, number: int) -> SampleItem:
    """One kept sample with all its fields."""
    known = {name: values[number] for name, values in samples.fields.items()}
    tokens = tuple(str(token) for token in known["tokens"][:_MOST_TOKENS]) if _is_list(known.get("tokens")) else ()
    text = _field_text(known["text"]) if "text" in known else _join_tokens(tokens, known.get("tokens"))
    others = [(name, _field_text(value)) for name, value in known.items() if name not in _SHOWN_FIELDS]
    others += [("tokens", _field_text(known["tokens"]))] if "tokens" in known and not _is_list(known["tokens"]) else []
    picture = _image(known["image"]) if "image" in known else None
    others += [("image", _field_text(known["image"]))] if "image" in known and picture is None else []
    return SampleItem(
        number=number,
        id=_field_text(known["ids"]) if "ids" in known else "",
        label=_field_text(known["label"]) if "label" in known else "",
        text=text,
        tokens=tokens,
        image=picture,
        others=tuple(others),
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _join_tokens(tokens: tuple[str, ...], given: Any) -> str:
    """Tokens as a text: strings joined directly, numbers with spaces."""
    is_text = isinstance(given, list) and bool(given) and isinstance(given[0], str)
    return ("" if is_text else " ").join(tokens)[:_MOST_TEXT]


def _field_text(value: Any) -> str:
    """A field of a sample as text."""
    if isinstance(value, str):
        return value[:_MOST_TEXT]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        if value.size > 16:
            return f"{value.dtype} {'×'.join(map(str, value.shape))}"
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    return clipped_repr(value)


def _image(values: Any) -> SampleImage | None:
    """Grayscale or color pixels of an array with one image, channels first or last; None if it is not an image.

    Bytes and numbers between 0 and 1 keep their scale; others are scaled to their range.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    pixels = _channels_last(array)
    if pixels is None:
        return None
    step = max(1, math.ceil(max(pixels.shape[:2]) / _MOST_SIDE))
    low, high = (0.0, 255.0) if array.dtype == np.uint8 else _range(pixels)
    small = pixels[::step, ::step].astype(np.float64)
    with np.errstate(all="ignore"):
        levels = (small - low) / ((high - low) or 1.0) * 255
    levels = np.clip(np.rint(np.nan_to_num(levels, nan=0.0, posinf=255.0, neginf=0.0)), 0, 255).astype(np.uint8)
    rows, columns, n_channels = levels.shape
    return SampleImage(rows, columns, n_channels, base64.b64encode(levels.tobytes()).decode(), low, high)


def _channels_last(array: Array) -> Array | None:
    if array.ndim == 2:
        return array[:, :, None]
    if array.ndim != 3:
        return None
    # A side of 1, 3 or 4 pixels is ambiguous: then channels are taken to be first, as in torch.
    if array.shape[2] in (1, 3, 4) and array.shape[0] not in (1, 3, 4):
        return array
    if array.shape[0] in (1, 3, 4):
        return array.transpose(1, 2, 0)
    return array if array.shape[2] in (1, 3, 4) else None


def _range(pixels: Array) -> tuple[float, float]:
    finite = pixels[np.isfinite(pixels)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
