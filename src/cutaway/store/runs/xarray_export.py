"""Statistics as xarray datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError
from cutaway.store.format.passes import PASS_DTYPE

if TYPE_CHECKING:
    from cutaway.store.runs.series import Series


def series_dataset(statistics: Sequence[str], series: Series) -> Any:
    """One variable per statistic, over `step`, and over `pass` if steps have several."""
    dims = ("step", "pass") if series.n_passes > 1 else ("step",)
    coordinates: dict[str, Any] = {"step": series.steps, "kind": ("step", _texts(series.kinds))}
    if series.n_passes > 1:
        coordinates |= _pass_coordinates(dims, series.passes)
    _check(statistics, tuple(coordinates))
    columns = {_escape_surrogates(name): (dims, series.stats(name)) for name in statistics}
    return _xarray().Dataset(columns, coordinates, {"site": series.site, "of": series.of})


def run_dataset(statistics: Sequence[str], steps: NDArray[np.int64], chosen: Sequence[Series]) -> Any:
    """One variable per statistic, over `step` and `site`, and over `pass` if steps have several."""
    n_passes = max((series.n_passes for series in chosen), default=1)
    dims = ("step", "site", "pass") if n_passes > 1 else ("step", "site")
    shape = (len(steps), len(chosen), n_passes)
    coordinates: dict[str, Any] = {"step": steps, "site": _texts([series.site for series in chosen])}
    if n_passes > 1:
        passes = np.zeros(shape, PASS_DTYPE)
        for number, series in enumerate(chosen):
            passes[np.searchsorted(steps, series.steps), number, : series.n_passes] = _with_pass_dim(series.passes)
        coordinates |= _pass_coordinates(dims, passes)
    _check(statistics, tuple(coordinates))
    columns = {}
    for name in statistics:
        curves = [series.curve(name) for series in chosen]
        dtype = np.result_type(np.float32, *{curve.values.dtype for curve in curves})
        values = np.full(shape, np.nan, dtype)
        for number, (series, curve) in enumerate(zip(chosen, curves, strict=True)):
            values[np.searchsorted(steps, curve.steps), number, : series.n_passes] = _with_pass_dim(curve.values)
        # One pass per step needs no third dimension.
        columns[_escape_surrogates(name)] = (dims, values if n_passes > 1 else values[:, :, 0])
    return _xarray().Dataset(columns, coordinates)


def _with_pass_dim(array: NDArray[Any]) -> NDArray[Any]:
    """As `[step, pass]`, also for one pass per step."""
    return array if array.ndim == 2 else array[:, None]


def _pass_coordinates(dims: Sequence[str], passes: NDArray[np.void]) -> dict[str, Any]:
    """`pass` counts the passes of a step from 1; their iteration and number within it may vary by step."""
    return {
        "pass": np.arange(1, passes.shape[-1] + 1),
        "iteration": (dims, passes["iteration"]),
        "pass_in_iteration": (dims, passes["pass"]),
    }


def _texts(texts: Sequence[str]) -> NDArray[np.object_]:
    """Object array of texts: a NumPy string array would pad all to the longest."""
    array = np.empty(len(texts), object)
    array[:] = [_escape_surrogates(text) for text in texts]
    return array


def _escape_surrogates(text: str) -> str:
    """Escape lone surrogates, which an xarray index cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _check(statistics: Sequence[str], taken: Sequence[str]) -> None:
    for name in taken:
        if name in statistics:
            raise InputError(f"the statistic {name!r} has the name of a coordinate of the dataset. Leave it out.")


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise MissingExtraError("to_xarray() needs xarray: pip install xarray") from error
    return xarray
