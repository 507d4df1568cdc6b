"""Calling what the user measures with: from the same random state each time, read as an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from cutaway.capture.model.rng_state import preserve_rng
from cutaway.core.errors import InputError
from cutaway.studies.fingerprints import State, state_of

Metric = NDArray[np.float64]


def called(function: Callable[[], Any]) -> Any:
    """What the function returns; random numbers go on afterwards as if it had not been called."""
    with preserve_rng():
        return function()


def as_metric(value: Any, where: str, like: Metric | None = None) -> Metric:
    """What a metric returned as an array, of the same shape as the first it returned."""
    found = value
    if isinstance(value, Tensor):
        found = value.detach().cpu()
        found = found.numpy() if not found.dtype.is_floating_point else found.double().numpy()
    elif isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        found = [each.item() if isinstance(each, Tensor) and each.numel() == 1 else each for each in value]
    try:
        array = np.asarray(found)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        what = "None" if value is None else f"a {type(value).__name__}"
        raise InputError(
            f"the metric returned {what} {where}: return a number, or an array of numbers (one a class, one a sample)."
        )
    array = np.array(array, dtype=np.float64)
    if like is not None and array.shape != like.shape:
        raise InputError(
            f"the metric returned an array of shape {list(array.shape)} {where}, and {list(like.shape)} before: it "
            "has to measure the same each time."
        )
    if not array.size:
        raise InputError(f"the metric returned an empty array {where}: return a number, or an array of numbers.")
    return array


def check_unchanged(model: nn.Module, before: State, what: str) -> None:
    """Raise where a run changed the model and that could not be undone: then no two runs could be compared."""
    after = state_of(model)
    changed = [name for name in after if after[name] != before.get(name)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise InputError(
            f"{what} changed {changed[0]!r}{more} of the model, so that no two runs can be compared: parameters and "
            "very large tensors are not put back after a run. Leave them as they are."
        )
