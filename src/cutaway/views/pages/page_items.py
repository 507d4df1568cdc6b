"""Collections and saved results as entries of the viewer's list, read from their metadata alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, get_args

from cutaway.store.activations.sources import ArchiveSource
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read_description
from cutaway.views.pages.model import Topic

_MOST_SITES: Final = 2_000


@dataclass(frozen=True, slots=True)
class SiteItem:
    """One site of a collection."""

    site: str
    width: int
    """Number of units."""
    last: int
    """Largest unit number; the width minus 1, unless only some units were collected."""


@dataclass(frozen=True, slots=True)
class PageItem:
    """One entry of the list: a collection or a saved result."""

    topic: Topic
    """The tab that lists it; entries without a topic are listed with the neurons."""
    type: str
    """Class of the result; "Activations" for a collection."""
    title: str
    created: float
    """Creation time in seconds since 1970; 0 if unknown."""
    n_rows: int
    n_units: int
    sites: tuple[SiteItem, ...]
    """Sites of a collection; empty for other entries."""
    edition: str
    """Changes when the content changes or grows."""


def collection_item(archive: Archive, *, edition: str = "") -> PageItem:
    """The entry of a collection, from its index alone."""
    source = ArchiveSource(archive)
    sites = tuple(SiteItem(site.site, site.width, int(site.indices.max(initial=0))) for site in source.sites)
    return PageItem(
        topic="neurons",
        type="Activations",
        title=model_of(source.about.provenance),
        created=_time(archive, source.about.provenance.get("time")),
        n_rows=int(source.starts[-1]),
        n_units=sum(site.width for site in sites),
        # The list is sent for every entry of the folder; the page of the collection has all sites.
        sites=sites[:_MOST_SITES],
        edition=edition,
    )


def result_item(archive: Archive, *, edition: str = "") -> PageItem:
    """A saved result, from its description alone."""
    about = read_description(archive)
    return PageItem(
        topic=_topic(about.topic),
        type=about.type,
        title=about.title,
        created=_time(archive, about.made),
        n_rows=0,
        n_units=0,
        sites=(),
        edition=edition,
    )


def _topic(name: str) -> Topic:
    """The tab of a saved result; "neurons" for topics that this version does not know."""
    return next((topic for topic in get_args(Topic) if topic == name), "neurons")


def model_of(provenance: Mapping[str, Any]) -> str:
    """The class of a model, and the name it was loaded from."""
    model = provenance.get("model")
    if not isinstance(model, Mapping):
        return "activations"
    parts = [str(model[key]) for key in ("class", "name") if model.get(key)]
    return " · ".join(parts) or "activations"


def _time(archive: Archive, recorded: Any) -> float:
    if isinstance(recorded, (int, float)) and math.isfinite(recorded) and recorded > 0:
        return float(recorded)
    try:
        return datetime.fromisoformat(archive.created).timestamp()
    except ValueError:
        return 0.0
