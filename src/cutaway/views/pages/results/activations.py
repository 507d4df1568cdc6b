"""A collection as a page: of what it was collected, how, which sites it has, what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from cutaway.core import late
from cutaway.core.formatting import human_bytes, percent
from cutaway.results.ranking import Ranking
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.views.pages.model import Column, Fact, Facts, Page, Plate, Section, Table
from cutaway.views.pages.page_items import model_of

_MOST_PROBLEMS: Final = 500
_ROWS: Final = {"words": "one a word", "tokens": "one a token", "items": "one an item", "positions": "one a position"}


@dataclass(frozen=True, slots=True)
class SiteUnits:
    """One site of a collection, and which of its units are there."""

    site: str
    width: int
    units: tuple[int, ...]
    """Their numbers within the site, where they are not all from 0 on; else empty."""


@dataclass(frozen=True, slots=True)
class PageView:
    """What is shown of a collection or a saved result."""

    page: Page
    sites: tuple[SiteUnits, ...] = ()
    """Of a collection: its units have pages, too."""


def activations_view(acts: Activations) -> PageView:
    """A collection, with all that is needed to go from unit to unit."""
    sites = []
    for site, width in zip(acts.sites, acts.widths, strict=True):
        numbers = acts.numbers(site).tolist()
        sites.append(SiteUnits(site, width, () if numbers == list(range(width)) else tuple(numbers)))
    return PageView(activations_page(acts), tuple(sites))


def activations_page(acts: Activations) -> Page:
    """What is known of a collection before its values are read."""
    sections = [
        Section("In short", "" if acts.is_whole else _HALF, [Facts(_facts(acts))]),
        Section("Sites", "What was collected, in the order of the units.", [_sites(acts)]),
    ]
    made_of = _provenance(acts.provenance)
    if made_of:
        sections.append(Section("Collected from", "", [Facts(made_of)]))
    if acts.left_out:
        left_out = Table([Column("site"), Column("why")], list(acts.left_out.items()))
        about = "A pattern covers them, and they have no rows and units."
        sections.append(Section("Sites left out", about, [left_out], is_wide=True))
    problems = acts.problems
    if problems:
        more = f" The first {_MOST_PROBLEMS:,} of {len(problems):,}." if len(problems) > _MOST_PROBLEMS else ""
        about = f"Items with which something went wrong.{more}"
        table = Table(
            [Column("item", "number"), Column("what")], [(one.item, one.what) for one in problems[:_MOST_PROBLEMS]]
        )
        sections.append(Section("Problems", about, [table], is_wide=True))
    return Page(f"Activations of {model_of(acts.provenance)}", "", sections)


def unit_view(read: UnitReader, name: str, rankings: Mapping[str, Ranking], *, n_left_out: int = 0) -> PageView:
    """One unit of a collection: its words, its values, where it is strongest, who ranks it where.

    Args:
        name: `encoder.layer.3#17`.
        rankings: those that know the unit, by the names under which they are saved.
        n_left_out: how many more there are, which were not asked.
    """
    acts = read(read.unit_number(name))
    n_all = len(read.acts)
    if not len(acts):
        return PageView(Page(acts.names[0], "This collection has no rows yet."))
    page: Page = late.call("neurons.page", acts, 0, rankings=rankings)
    notes = []
    if len(acts) < n_all:
        share = len(acts) / n_all
        notes.append(
            f"From {len(acts):,} of {n_all:,} rows ({percent(share)}), an even sample of the collection's windows. "
            "To read a unit is to read its whole site. cutaway.neurons.page(acts, unit) reads all of them."
        )
    if n_left_out:
        notes.append(f"{n_left_out:,} more rankings of this folder were not asked.")
    return PageView(replace(page, about="\n".join(notes)))


_HALF: Final = "It was not collected to its end, or is being written: these are the rows so far."


def _facts(acts: Activations) -> list[Fact]:
    n_bytes = acts.shape[0] * acts.shape[1] * acts.dtype.itemsize
    facts = [
        Fact("rows", f"{len(acts):,}", _ROWS.get(str(acts.provenance.get("rows")), "")),
        Fact("units", f"{acts.n_units:,}", f"of {len(acts.sites):,} site{'s' if len(acts.sites) > 1 else ''}"),
        Fact("items", f"{acts.n_items:,}", "sentences or samples"),
        Fact("values", str(acts.dtype), human_bytes(n_bytes)),
    ]
    if acts.aggregate:
        facts.append(Fact("aggregation", acts.aggregate, "of the tokens or positions of a row"))
    if "special" in acts.provenance:
        kept = "kept" if acts.provenance["special"] else "left out"
        facts.append(Fact("special tokens", kept))
    if acts.unit_rule == "sizes":
        facts.append(Fact("unit rule", "sizes", "of an older version: an edit of the same name may meet another unit"))
    if acts.left_out:
        facts.append(Fact("sites left out", f"{len(acts.left_out):,}", "a pattern covers them; see below"))
    n_problems = len(acts.problems)
    facts.append(Fact("problems", f"{n_problems:,}", "" if n_problems else "none"))
    return facts


def _sites(acts: Activations) -> Plate:
    rows = zip(acts.sites, acts.widths, strict=True)
    return Table([Column("site"), Column("units", "number")], list(rows))


def _provenance(provenance: Mapping[str, Any]) -> list[Fact]:
    """The model, the tokenizer, the corpus, when and with what."""
    facts = []
    for what in ("model", "tokenizer"):
        own = provenance.get(what)
        if isinstance(own, Mapping):
            sizes = {"n_parameters": "parameters", "n_tokens": "tokens"}
            counts = [f"{own[key]:,} {unit}" for key, unit in sizes.items() if isinstance(own.get(key), int)]
            remark = " · ".join([*([str(own["name"])] if own.get("name") else []), *counts])
            facts.append(Fact(what, str(own.get("class", "")), remark))
    if isinstance(provenance.get("max_length"), int):
        facts.append(Fact("longest item", f"{provenance['max_length']:,}", "tokens; the rest is cut off"))
    corpus = provenance.get("corpus")
    if isinstance(corpus, Mapping) and corpus.get("digest"):
        facts.append(Fact("corpus", str(corpus["digest"])[:12], "a digest of its first items"))
    model = provenance.get("model")
    if isinstance(model, Mapping) and model.get("weights"):
        facts.append(Fact("weights", str(model["weights"])[:12], "a digest"))
    time, versions = provenance.get("time"), provenance.get("versions")
    if isinstance(time, (int, float)):
        facts.append(Fact("collected", datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M"), "UTC"))
    if isinstance(versions, Mapping):
        told = [f"{name} {version}" for name, version in versions.items() if name != "cutaway"]
        facts.append(Fact("cutaway", str(versions.get("cutaway", "")), ", ".join(told)))
    return facts
