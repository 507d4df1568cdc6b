"""`Result`: the base class of all results, with `save`, `page`, `text` and `to_html`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural


def to_array(values: NDArray[Any], dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """`__array__` of a result whose main matrix is `values`; without a copy if none is needed."""
    return np.array(values, dtype=dtype, copy=copy)


def make_read_only(*arrays: NDArray[Any] | None) -> None:
    """Makes arrays read-only, because results are shared and their arrays depend on each other."""
    for array in arrays:
        if array is not None:
            array.flags.writeable = False


def warn_if_fewer(n: int, available: int, call: str, noun: str) -> None:
    """Warns that a call with `n` returns fewer rows than asked for.

    `call` is the name of the method, `noun` what it returns: `top(100) returns 20 lesions: there are no more.`
    """
    if n > available:
        text = f"cutaway: {call}({n}) returns {plural(available, noun, 'patches' if noun == 'patch' else '')}"
        warnings.warn(f"{text}: there are no more.", UserWarning, stacklevel=3)


def target_index(target: int, n: int) -> int:
    """The index of one of n targets, negative from the end."""
    if not hasattr(target, "__index__") or not -n <= int(target) < n:
        raise InputError(f"there is no target {target!r}: there {'is' if n == 1 else 'are'} {n:,}, counted from 0.")
    return int(target)


class ResultPage(Protocol):
    """What `page()` returns: a `cutaway.pages.Page`, which is in a higher layer than results."""

    @property
    def title(self) -> str: ...

    @property
    def sections(self) -> Sequence[Any]: ...

    def text(self, width: int = 100) -> str: ...

    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...


class Result:
    """Base class of results, which are frozen dataclasses of plain data.

    To make a result class saveable, add it to the registry in `store/results/result_file.py`; to give it a page, add it
    to `views/pages/result_pages.py`.
    """

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a new folder; `cutaway.load(path)` reads it back without torch.

        Raises `ExistsError` if the folder is not empty.

        Args:
            path: a folder that does not exist yet or is empty.
        """
        late.call("result.save", self, path)

    def page(self) -> ResultPage:
        """The result as a page: `cutaway.show` displays it, `print` prints it, `.to_html(path)` writes it."""
        page: ResultPage = late.call("result.page", self)
        return page

    def text(self, width: int = 100) -> str:
        """The page as text for a terminal.

        Args:
            width: the most characters in a line.
        """
        return self.page().text(width)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as a self-contained HTML file and return its path.

        Args:
            path: the file to write.
        """
        return self.page().to_html(path)

    def _repr_html_(self) -> str:
        html: str = late.call("result._repr_html_", self)
        return html
