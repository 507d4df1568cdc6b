"""What all results can do: be shown as a page, printed, and written to disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cutaway.core import late


class Result:
    """An answer as plain data, a frozen dataclass. What can be shown or saved of it is the business of other layers.

    A class that is to be saved needs a line in the registry of `store/results/result_file.py`; one that is to be shown,
    in `views/pages/result_pages.py`.
    """

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into a new folder; `cutaway.load(path)` reads it back, without torch.

        Nothing is overwritten: a folder that holds something is an `ExistsError`.
        """
        late.call("result.save", self, path)

    def page(self) -> Any:
        """All of it as a page: `cutaway.show` shows it, `print` prints it, `.to_html(path)` writes it."""
        return late.call("result.page", self)

    def text(self, width: int = 100) -> str:
        """The page as text for a terminal, in lines of at most so many characters."""
        found: str = self.page().text(width)
        return found

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as one HTML file that needs nothing from outside; gives where it lies."""
        written: Path = self.page().to_html(path)
        return written

    def _repr_html_(self) -> str:
        found: str = late.call("result._repr_html_", self)
        return found
