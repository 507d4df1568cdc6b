"""Statistics as xarray datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from cutaway.store.series import Series


def series_dataset(statistics: Sequence[str], series: Series) -> Any:
    """One variable for each statistic, over `step`."""
    _check(statistics, ("step", "kind"))
    coordinates = {"step": series.steps, "kind": ("step", _texts(series.kinds))}
    columns = {_whole(name): ("step", series.stats(name)) for name in statistics}
    return _xarray().Dataset(columns, coordinates, {"site": series.site, "of": series.of})


def run_dataset(statistics: Sequence[str], steps: NDArray[np.int64], chosen: Sequence[Series]) -> Any:
    """One variable for each statistic, over `step` and `site`."""
    _check(statistics, ("step", "site"))
    columns = {}
    for name in statistics:
        curves = [series.curve(name) for series in chosen]
        dtype = np.result_type(np.float32, *{curve.values.dtype for curve in curves})
        found = np.full((len(steps), len(chosen)), np.nan, dtype)
        for number, curve in enumerate(curves):
            found[np.searchsorted(steps, curve.steps), number] = curve.values
        columns[_whole(name)] = (("step", "site"), found)
    return _xarray().Dataset(columns, {"step": steps, "site": _texts([series.site for series in chosen])})


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
