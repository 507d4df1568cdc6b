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
    """One variable for each statistic, over `step`; over `pass` as well where a step has several."""
    dims = ("step", "pass") if series.n_passes > 1 else ("step",)
    coordinates: dict[str, Any] = {"step": series.steps, "kind": ("step", _texts(series.kinds))}
    if series.n_passes > 1:
        coordinates |= _pass_coordinates(dims, series.passes)
    _check(statistics, tuple(coordinates))
    columns = {_whole(name): (dims, series.stats(name)) for name in statistics}
    return _xarray().Dataset(columns, coordinates, {"site": series.site, "of": series.of})


def run_dataset(statistics: Sequence[str], steps: NDArray[np.int64], chosen: Sequence[Series]) -> Any:
    """One variable for each statistic, over `step` and `site`; over `pass` as well where a step has several."""
    n_passes = max((series.n_passes for series in chosen), default=1)
    dims = ("step", "site", "pass") if n_passes > 1 else ("step", "site")
    shape = (len(steps), len(chosen), n_passes)
    coordinates: dict[str, Any] = {"step": steps, "site": _texts([series.site for series in chosen])}
    if n_passes > 1:
        passes = np.zeros(shape, PASS_DTYPE)
        for number, series in enumerate(chosen):
            passes[np.searchsorted(steps, series.steps), number, : series.n_passes] = _wide(series.passes)
        coordinates |= _pass_coordinates(dims, passes)
    _check(statistics, tuple(coordinates))
    columns = {}
    for name in statistics:
        curves = [series.curve(name) for series in chosen]
        dtype = np.result_type(np.float32, *{curve.values.dtype for curve in curves})
        found = np.full(shape, np.nan, dtype)
        for number, (series, curve) in enumerate(zip(chosen, curves, strict=True)):
            found[np.searchsorted(steps, curve.steps), number, : series.n_passes] = _wide(curve.values)
        columns[_whole(name)] = (dims, found if n_passes > 1 else found[:, :, 0])
    return _xarray().Dataset(columns, coordinates)


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    """`[step, pass]`, also of what has one pass a step."""
    return array if array.ndim == 2 else array[:, None]


def _pass_coordinates(dims: Sequence[str], passes: NDArray[np.void]) -> dict[str, Any]:
    """`pass` counts the passes of a step from 1; which iteration and which pass of it that is may vary by step."""
    return {
        "pass": np.arange(1, passes.shape[-1] + 1),
        "iteration": (dims, passes["iteration"]),
        "pass_in_iteration": (dims, passes["pass"]),
    }


def _texts(texts: Sequence[str]) -> NDArray[np.object_]:
    """Texts, each as long as it is: NumPy's own would all be as long as the longest."""
    found = np.empty(len(texts), object)
    found[:] = [_whole(text) for text in texts]
    return found


def _whole(text: str) -> str:
    """A text without half surrogate pairs, which no index can hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _check(statistics: Sequence[str], taken: Sequence[str]) -> None:
    for name in taken:
        if name in statistics:
            raise InputError(f"a statistic is called {name!r}, and so is a coordinate of the dataset: leave it out.")


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise MissingExtraError("to_xarray() needs xarray: pip install xarray") from error
    return xarray
