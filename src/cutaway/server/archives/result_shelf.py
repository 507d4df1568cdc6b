"""Open activations and results, which the viewer shows as pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cutaway.core import late
from cutaway.core.errors import InputError
from cutaway.results.neurons.ranking import Ranking
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read
from cutaway.views.pages.model import Page
from cutaway.views.pages.results.activations import PageView, activations_view

_COLLECTION_BYTES: Final = 100_000
_RESULT_BYTES: Final = 1 << 20
"""Typical memory use; few results take more."""


class OpenActivations:
    """Open activations, with a cached reader of single units."""

    def __init__(self, acts: Activations) -> None:
        self.acts = acts
        self.read = UnitReader(acts)

    @property
    def n_bytes(self) -> int:
        """Approximate memory use."""
        return _COLLECTION_BYTES + self.read.n_bytes

    def view(self) -> PageView:
        """Their page, with the list of sites."""
        return activations_view(self.acts)


@dataclass
class OpenResult:
    """An open result, or an open page."""

    result: Any
    n_bytes: int = _RESULT_BYTES

    def view(self) -> PageView:
        """The page of the result."""
        page = self.result if isinstance(self.result, Page) else late.call("result.page", self.result)
        if page is None:
            raise InputError(f"this version of Cutaway has no page for results of type {type(self.result).__name__}.")
        return PageView(page)

    @cached_property
    def units(self) -> frozenset[str]:
        """Names of the units that it ranks; empty if it is not a ranking or its units have no names."""
        return frozenset((self.result.names if isinstance(self.result, Ranking) else None) or ())


def open_paged(archive: Archive) -> OpenActivations | OpenResult:
    """Open whichever of the two an archive holds."""
    return OpenActivations(Activations.read(archive)) if archive.kind == "activations" else OpenResult(read(archive))
