"""The page of a collection of activations: its provenance, sites and problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from cutaway.core import late
from cutaway.core.formatting import human_bytes, percent, plural
from cutaway.results.neurons.ranking import Ranking
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.sampling import UnitReader
from cutaway.views.pages.model import Block, Column, Fact, Facts, Page, Section, Table
from cutaway.views.pages.page_items import model_of

_MOST_PROBLEMS: Final = 500
_ROWS: Final = {
    "words": "one per word",
    "tokens": "one per token",
    "items": "one per item",
    "positions": "one per position",
}


@dataclass(frozen=True, slots=True)
class SiteUnits:
    """One site of a collection and the units it has there."""

    site: str
    width: int
    units: tuple[int, ...]
    """Their indices within the site; empty if the collection has all of them in order."""


@dataclass(frozen=True, slots=True)
class PageView:
    """The page of a collection or a saved result."""

    page: Page
    sites: tuple[SiteUnits, ...] = ()
    """Sites of a collection, whose units have their own pages."""


def activations_view(acts: Activations) -> PageView:
    """The page of a collection, with the sites and units to navigate to."""
    sites = []
    for site, width in zip(acts.sites, acts.widths, strict=True):
        numbers = acts.numbers(site).tolist()
        sites.append(SiteUnits(site, width, () if numbers == list(range(width)) else tuple(numbers)))
    return PageView(activations_page(acts), tuple(sites))


def activations_page(acts: Activations) -> Page:
    """The page of a collection; reads no values."""
    sections = [
        Section("Summary", "" if acts.is_whole else _HALF, [Facts(_facts(acts))]),
        Section("Sites", "Collected sites, in the order of the units.", [_sites(acts)]),
    ]
    made_of = _provenance(acts.provenance)
    if made_of:
        sections.append(Section("Collected from", "", [Facts(made_of)]))
    if acts.left_out:
        left_out = Table([Column("site"), Column("why")], list(acts.left_out.items()))
        about = "These sites match a pattern, but have no rows and units."
        sections.append(Section("Sites left out", about, [left_out], is_wide=True))
    problems = acts.problems
    if problems:
        more = f" Shows the first {_MOST_PROBLEMS:,} of {len(problems):,}." if len(problems) > _MOST_PROBLEMS else ""
        about = f"Items that could not be collected as asked.{more}"
        table = Table(
            [Column("item", "number"), Column("what")],
            [(problem.item, problem.what) for problem in problems[:_MOST_PROBLEMS]],
        )
        sections.append(Section("Problems", about, [table], is_wide=True))
    return Page(f"Activations of {model_of(acts.provenance)}", "", sections)


def unit_view(read: UnitReader, name: str, rankings: Mapping[str, Ranking], *, n_left_out: int = 0) -> PageView:
    """The page of one unit of a collection: top words, distribution of values, top contexts, ranks.

    Args:
        name: `encoder.layer.3#17`.
        rankings: rankings that contain the unit, by the name they are saved under.
        n_left_out: the number of further rankings that were not read.
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
            f"From {len(acts):,} of {n_all:,} rows ({percent(share)}), sampled evenly from the collection, because "
            "reading one unit reads its whole site. cutaway.neurons.page(acts, unit) reads all rows."
        )
    if n_left_out:
        notes.append(f"{plural(n_left_out, 'further ranking')} in this folder not read.")
    return PageView(replace(page, about="\n".join(notes)))


_HALF: Final = "The collection is incomplete or still being written. This page shows the rows so far."


def _facts(acts: Activations) -> list[Fact]:
    n_bytes = acts.shape[0] * acts.shape[1] * acts.dtype.itemsize
    facts = [
        Fact("rows", f"{len(acts):,}", _ROWS.get(str(acts.provenance.get("rows")), "")),
        Fact("units", f"{acts.n_units:,}", f"at {plural(len(acts.sites), 'site')}"),
        Fact("items", f"{acts.n_items:,}", "sentences or samples"),
        Fact("values", str(acts.dtype), human_bytes(n_bytes)),
    ]
    if acts.aggregate:
        facts.append(Fact("aggregation", acts.aggregate, "of the tokens or positions of a row"))
    if "special" in acts.provenance:
        kept = "kept" if acts.provenance["special"] else "left out"
        facts.append(Fact("special tokens", kept))
    if acts.unit_rule == "sizes":
        facts.append(
            Fact(
                "unit rule", "sizes", "collected by an older version: an edit of the same name may change another unit"
            )
        )
    if acts.left_out:
        facts.append(Fact("sites left out", f"{len(acts.left_out):,}", "match a pattern; see below"))
    n_problems = len(acts.problems)
    facts.append(Fact("problems", f"{n_problems:,}", "" if n_problems else "none"))
    return facts


def _sites(acts: Activations) -> Block:
    rows = zip(acts.sites, acts.widths, strict=True)
    return Table([Column("site"), Column("units", "number")], list(rows))


def _provenance(provenance: Mapping[str, Any]) -> list[Fact]:
    """Model, tokenizer, corpus, time and versions."""
    facts = []
    for what in ("model", "tokenizer"):
        source = provenance.get(what)
        if isinstance(source, Mapping):
            sizes = {"n_parameters": "parameters", "n_tokens": "tokens"}
            counts = [f"{source[key]:,} {unit}" for key, unit in sizes.items() if isinstance(source.get(key), int)]
            remark = " · ".join([*([str(source["name"])] if source.get("name") else []), *counts])
            facts.append(Fact(what, str(source.get("class", "")), remark))
    if isinstance(provenance.get("max_length"), int):
        facts.append(Fact("longest item", f"{provenance['max_length']:,}", "tokens; longer items are truncated"))
    corpus = provenance.get("corpus")
    if isinstance(corpus, Mapping) and corpus.get("digest"):
        facts.append(Fact("corpus", str(corpus["digest"])[:12], "hash of its first items"))
    model = provenance.get("model")
    if isinstance(model, Mapping) and model.get("weights"):
        facts.append(Fact("weights", str(model["weights"])[:12], "hash"))
    time, versions = provenance.get("time"), provenance.get("versions")
    if isinstance(time, (int, float)):
        facts.append(Fact("collected", datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M"), "UTC"))
    if isinstance(versions, Mapping):
        others = [f"{name} {version}" for name, version in versions.items() if name != "cutaway"]
        facts.append(Fact("cutaway", str(versions.get("cutaway", "")), ", ".join(others)))
    return facts
