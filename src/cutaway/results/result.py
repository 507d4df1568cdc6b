"""`Result`: the base class of all results, with `save`, `page`, `text` and `to_html`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import InputError


def to_array(values: NDArray[Any], dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """`__array__` of a result whose main matrix is `values`; without a copy if none is needed."""
    return np.array(values, dtype=dtype, copy=copy)


def make_read_only(*arrays: NDArray[Any] | None) -> None:
    """Makes arrays read-only, because results are shared and their arrays depend on each other."""
    for array in arrays:
        if array is not None:
            array.flags.writeable = False


def target_index(target: int, n: int) -> int:
    """The index of one of n targets, negative from the end."""
    if not hasattr(target, "__index__") or not -n <= int(target) < n:
        raise InputError(f"there is no target {target!r}: there {'is' if n == 1 else 'are'} {n:,}, counted from 0.")
    return int(target)


class Result:
    """Base class of results, which are frozen dataclasses of plain data.

    To make a result class saveable, add it to the registry in `store/results/result_file.py`; to give it a page, add it
    to `views/pages/result_pages.py`.
    """

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a new folder; `cutaway.load(path)` reads it back without torch.

        Raises `ExistsError` if the folder is not empty.
        """
        late.call("result.save", self, path)

    def page(self) -> Any:
        """The result as a page: `cutaway.show` displays it, `print` prints it, `.to_html(path)` writes it."""
        return late.call("result.page", self)

    def text(self, width: int = 100) -> str:
        """The page as text for a terminal, in lines of at most `width` characters."""
        page_text: str = self.page().text(width)
        return page_text

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as a self-contained HTML file and return its path."""
        written: Path = self.page().to_html(path)
        return written

    def _repr_html_(self) -> str:
        html: str = late.call("result._repr_html_", self)
        return html
