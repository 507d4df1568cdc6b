"""What the viewer shows as pages: collections and saved results, opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cutaway.core import late
from cutaway.core.errors import InputError
from cutaway.results.ranking import Ranking
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read
from cutaway.views.pages.model import Page
from cutaway.views.pages.results.activations import PageView, activations_view

_COLLECTION_BYTES: Final = 100_000
_RESULT_BYTES: Final = 1 << 20
"""About what an opened one takes; few results take more."""


class Collected:
    """A collection, and what is kept of it to go from unit to unit."""

    def __init__(self, acts: Activations) -> None:
        self.acts = acts
        self.read = UnitReader(acts)

    @property
    def n_bytes(self) -> int:
        """About what it takes."""
        return _COLLECTION_BYTES + self.read.n_bytes

    def view(self) -> PageView:
        """Its page of facts, and its sites."""
        return activations_view(self.acts)


@dataclass
class Saved:
    """A result that was saved, or a page."""

    result: Any
    n_bytes: int = _RESULT_BYTES

    def view(self) -> PageView:
        """The page of the result."""
        page = self.result if isinstance(self.result, Page) else late.call("result.page", self.result)
        if page is None:
            raise InputError(f"this version of Cutaway has no page for a result of type {type(self.result).__name__}.")
        return PageView(page)

    @cached_property
    def units(self) -> frozenset[str]:
        """The names of the units it ranks; none where it ranks none, or where they have no names."""
        return frozenset((self.result.names if isinstance(self.result, Ranking) else None) or ())


def opened(archive: Archive) -> Collected | Saved:
    """Whichever of the two an archive holds."""
    return Collected(Activations.read(archive)) if archive.kind == "activations" else Saved(read(archive))
