"""Collections and saved results as entries of a list: what they are, before anything of them is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from cutaway.store.activations.sources import ArchiveSource
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read_description

Topic = Literal["neurons", "language"]
_MOST_SITES: Final = 2_000


@dataclass(frozen=True, slots=True)
class SiteItem:
    """One site of a collection."""

    site: str
    width: int
    """How many units it has."""
    last: int
    """The largest number that one of them has; one less than the width, unless only some were kept."""


@dataclass(frozen=True, slots=True)
class PageItem:
    """What the list says of a collection, or of a saved result."""

    topic: Topic
    """The tab it stands on; what has no topic stands with the neurons."""
    type: str
    """The class of the result; "Activations" for a collection."""
    title: str
    made: float
    """When, in seconds since 1970; 0 where that is not known."""
    n_rows: int
    n_units: int
    sites: tuple[SiteItem, ...]
    """Of a collection; none for all else."""
    edition: str
    """Changes when something else lies there, or more of it."""


def collection_item(archive: Archive, *, edition: str = "") -> PageItem:
    """A collection, from its index alone."""
    source = ArchiveSource(archive)
    sites = tuple(SiteItem(site.site, site.width, int(site.indices.max(initial=0))) for site in source.sites)
    return PageItem(
        topic="neurons",
        type="Activations",
        title=model_of(source.about.provenance),
        made=_time(archive, source.about.provenance.get("time")),
        n_rows=int(source.starts[-1]),
        n_units=sum(site.width for site in sites),
        sites=sites[:_MOST_SITES],
        edition=edition,
    )


def result_item(archive: Archive, *, edition: str = "") -> PageItem:
    """A saved result, from its description alone."""
    about = read_description(archive)
    return PageItem(
        topic="language" if about.topic == "language" else "neurons",
        type=about.type,
        title=about.title,
        made=_time(archive, about.made),
        n_rows=0,
        n_units=0,
        sites=(),
        edition=edition,
    )


def model_of(provenance: Mapping[str, Any]) -> str:
    """The class of a model, and the name it was loaded by."""
    model = provenance.get("model")
    if not isinstance(model, Mapping):
        return "activations"
    parts = [str(model[key]) for key in ("class", "name") if model.get(key)]
    return " · ".join(parts) or "activations"


def _time(archive: Archive, told: Any) -> float:
    if isinstance(told, (int, float)) and math.isfinite(told) and told > 0:
        return float(told)
    try:
        return datetime.fromisoformat(archive.created).timestamp()
    except ValueError:
        return 0.0
