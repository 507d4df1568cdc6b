"""Calls the user's metric from the same RNG state each time; converts the result to an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from cutaway.capture.model.rng_state import preserve_rng
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.studies.fingerprints import State, state_fingerprints

Metric = NDArray[np.float64]


def call_metric(function: Callable[[], Any]) -> Any:
    """Call a function and restore the RNG state afterwards."""
    with preserve_rng():
        return function()


def check_model(model: Any, call: str) -> None:
    """Raise if the first argument of a study is not a model."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"got {type_text(model)} as model: pass a torch.nn.Module first, {call}.")


def to_metric(value: Any, where: str, like: Metric | None = None) -> Metric:
    """Convert the result of a metric to an array, and check that its shape is that of `like`."""
    result = value
    if isinstance(value, Tensor):
        result = value.detach().cpu()
        # NumPy has no bfloat16.
        result = result.numpy() if not result.dtype.is_floating_point else result.double().numpy()
    elif isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        result = [each.item() if isinstance(each, Tensor) and each.numel() == 1 else each for each in value]
    try:
        array = np.asarray(result)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        what = "None" if value is None else f"{type_text(value)}"
        raise InputError(
            f"the metric returned {what} {where}: return a number, or an array of numbers (per class or sample)."
        )
    array = np.array(array, dtype=np.float64)
    if like is not None and array.shape != like.shape:
        raise InputError(
            f"the metric returned an array of shape {list(array.shape)} {where}, but {list(like.shape)} before: it "
            "must return the same shape each time."
        )
    if not array.size:
        raise InputError(f"the metric returned an empty array {where}: return a number, or an array of numbers.")
    return array


def check_unchanged(model: nn.Module, before: State, what: str) -> None:
    """Raise if a run changed the model permanently: later runs could not be compared."""
    after = state_fingerprints(model)
    changed = [name for name in after if after[name] != before.get(name)]
    if changed:
        more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
        raise InputError(
            f"{what} changed {changed[0]!r}{more} of the model, so runs cannot be compared: parameters and very large "
            "tensors are not restored after a run. Do not change them."
        )
