"""Splits data into batches; finds the sample and unit dimensions of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.tensors.conversion import as_tensor
from cutaway.capture.units.live_units import SiteLayouts, UnitDim, dims_of, trace_hidden_run
from cutaway.capture.units.sample_dims import SampleDims, is_array
from cutaway.core import pytree
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout

Call = Callable[[nn.Module, Any], Any]
_AT_ONCE = 32


def call_model(model: nn.Module, batch: Any) -> Any:
    """Call the model: a mapping as keyword arguments, a tuple or list as positional, anything else as the only one."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


@dataclass(frozen=True, slots=True)
class StatedDims:
    """Dimensions known before the first run."""

    samples: int | None = None
    """The sample dimension of the data, if you pass it."""
    unit_dim: UnitDim | None = None
    """The unit dimension, if you pass it."""
    layouts: Mapping[str, UnitLayout] | None = None
    """Layouts of the activations, by site."""


class BatchLayouts:
    """Sample and unit dimensions of the batches and of the values in the model.

    Traces one run on the first batch, and another one if the first batch has one sample and a later batch has several.
    """

    def __init__(self, model: nn.Module, call: Call, stated: StatedDims) -> None:
        self._model = model
        self._call = call
        self._stated = stated
        self.dims = SampleDims({}, stated.samples or 0)
        self._layouts: SiteLayouts | None = None

    def trace_batch(self, batch: Any) -> None:
        """Trace one run of the model."""
        trace = trace_hidden_run(self._model, lambda: self._call(self._model, batch))
        if self._call is call_model:
            if self._stated.samples is None:
                self.dims = SampleDims.from_trace(trace, batch)
            else:
                self.dims.apply_to(trace, batch)
        self._layouts = SiteLayouts(trace)

    def trace_again(self, batch: Any) -> None:
        """Trace again if the first batch had one sample, which can hide the sample dimension."""
        if self._layouts is not None and self._layouts.n_samples == 1 and self.dims.n(batch) > 1:
            self.trace_batch(batch)

    def at(self, name: str, site: Site, value: Tensor, n_samples: int) -> UnitLayout:
        """The layout of one value.

        Args:
            name: the site as you wrote it.
            site: the full site.
        """
        given = (self._stated.layouts or {}).get(name)
        layout = given or (self._layouts.find(site) if self._layouts is not None else None)
        if layout is None:
            layout = UnitLayout.refused(value.shape, "the traced run has no value at this site")
        layout = layout.for_shape(value.shape, n_samples)
        unit_dim = self._stated.unit_dim
        return layout if unit_dim is None else layout.with_units(dims_of(unit_dim))

    def refusal(self, name: str) -> str:
        """Why the units of a site are unknown; "" if they are known or only a run can tell."""
        if self._layouts is None or self._stated.unit_dim is not None or name in (self._stated.layouts or {}):
            return ""
        layout = self._layouts.find(Site.parse(name))
        return "" if layout is None or layout.is_known else layout.reason


def make_batches(data: Any, size: int | None, layouts: BatchLayouts, model: nn.Module) -> Iterable[Any]:
    """Split the data into batches; the first one determines the dimensions."""
    given = dict(data) if isinstance(data, Mapping) else data
    parts = list(given.values()) if isinstance(given, dict) else list(given) if isinstance(given, tuple) else [given]
    if parts and all(map(is_array, parts)):
        return _slice_batches(given, size or _AT_ONCE, layouts, model)
    if isinstance(given, (str, bytes, dict)) or not isinstance(given, Iterable):
        raise InputTypeError(
            f"data is {type_text(data)}: pass a tensor of samples, a tuple of tensors (positional arguments), a "
            "mapping of tensors (keyword arguments), or an iterable of such batches."
        )
    if isinstance(given, Sequence) and len(given) and isinstance(_first_leaf(given), str):
        raise InputTypeError("data is text: pass tokenizer=, or the tokenized texts.")
    if size is not None:
        raise InputError("batch_size= works with tensors only: this data already has batches.")
    return _trace_first(given, layouts, model)


def _slice_batches(data: Any, size: int, layouts: BatchLayouts, model: nn.Module) -> list[Any]:
    guess = layouts.dims
    n = guess.n(data, is_strict=True)
    if n:
        # A batch of one can hide the sample dimension; three samples cost little.
        layouts.trace_batch(to_device(guess.slice_samples(data, 0, min(n, 3)), model))
    n = layouts.dims.n(data, is_strict=True)
    return [layouts.dims.slice_samples(data, start, min(start + size, n)) for start in range(0, n, size)]


def _trace_first(batches: Iterable[Any], layouts: BatchLayouts, model: nn.Module) -> Iterable[Any]:
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        return []
    layouts.trace_batch(to_device(first, model))
    return batches if isinstance(batches, Sequence) else _chained(first, rest)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield from chain([first], rest)


def to_device(batch: Any, model: nn.Module) -> Any:
    """Move a batch to the device of the model."""
    device = next((tensor.device for tensor in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    given = dict(batch) if isinstance(batch, Mapping) else batch
    return pytree.replace(given, lambda part: as_tensor(part).to(device), is_array)


def tokenize_texts(tokenizer: Any, texts: Any) -> Any:
    """Tokenize texts or lists of words: padded to the longest, or one by one if the tokenizer has no pad token."""
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(_first_leaf(list(texts)), str):
        raise InputTypeError(f"data is {type_text(texts)} without texts: tokenizer= needs a list of texts.")
    options = {"return_tensors": "pt", "is_split_into_words": not isinstance(texts[0], str)}
    # transformers writes 1e30 where there is no limit, and truncation would then warn.
    if tokenizer.model_max_length < 1 << 24:
        options["truncation"] = True
    if getattr(tokenizer, "pad_token", None) is None:
        return [dict(tokenizer([text], **options)) for text in texts]
    return dict(tokenizer(list(texts), padding=True, **options))


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data
