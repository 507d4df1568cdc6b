"""The page of each kind of result, for `show`, notebooks and the viewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutaway.core.units.unit_sites import unit_name
from cutaway.results.lm.attention import Attention
from cutaway.results.lm.factors import Factors
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.lens import Lens
from cutaway.results.lm.logit_attribution import LogitAttribution
from cutaway.results.lm.saliency import Saliency
from cutaway.results.lm.similarity import Dissimilarities, Similarity
from cutaway.results.neurons.ablation import Ablation
from cutaway.results.neurons.clusters import Clusters
from cutaway.results.neurons.comparison import Comparison, Stability
from cutaway.results.neurons.evaluation import Evaluation, Layers
from cutaway.results.neurons.ranking import Ranking
from cutaway.results.neurons.report import Report
from cutaway.results.neurons.words import Histograms, TopContexts, TopWords
from cutaway.results.patching import Patching
from cutaway.views.pages.html import static_html
from cutaway.views.pages.model import Bars, Column, Fact, Facts, Heatmap, Page, Section, Table
from cutaway.views.pages.results.ablation import ablation_page
from cutaway.views.pages.results.attention import attention_page
from cutaway.views.pages.results.evaluation import evaluation_page, layers_page
from cutaway.views.pages.results.factors import factors_page
from cutaway.views.pages.results.generation import generation_page
from cutaway.views.pages.results.lens import lens_page
from cutaway.views.pages.results.logit_attribution import logit_attribution_page
from cutaway.views.pages.results.patching import patching_page
from cutaway.views.pages.results.report import report_page
from cutaway.views.pages.results.saliency import saliency_page
from cutaway.views.pages.results.similarity import dissimilarities_page, similarity_page
from cutaway.views.pages.results.units import (
    agreement_section,
    contexts_section,
    distribution_section,
    ranking_page,
    words_section,
)

_MOST_CLUSTERS = 200
_MOST_MEMBERS = 12


def page_of(result: object) -> Page | None:
    """The page of a result; a page itself as it is; None if there is none.

    Args:
        result: any result, or a page.
    """
    if isinstance(result, Page):
        return result
    make = _PAGES.get(type(result))
    return None if make is None else make(result)


def repr_html(result: object) -> str:
    """The HTML that a notebook shows for a result."""
    return static_html(_PAGES[type(result)](result))


def clusters_page(clusters: Clusters) -> Page:
    """Clusters of redundant units, largest first."""
    sizes = clusters.sizes
    order = sorted(range(len(clusters)), key=lambda cluster: -sizes[cluster])
    members = clusters.members
    several = [cluster for cluster in order if sizes[cluster] > 1][:_MOST_CLUSTERS]
    rows = []
    for cluster in several:
        names = [unit_name(clusters.names, unit) for unit in members[cluster][:_MOST_MEMBERS].tolist()]
        more = ", …" if sizes[cluster] > _MOST_MEMBERS else ""
        rows.append(
            (
                unit_name(clusters.names, int(clusters.independent[cluster])),
                int(sizes[cluster]),
                ", ".join(names) + more,
            )
        )
    like = "|r|" if clusters.absolute else "r"
    facts = [
        Fact("units", f"{clusters.n_units:,}"),
        Fact("clusters", f"{len(clusters):,}", f"cut where 1 − {like} is {clusters.threshold:g}"),
        Fact("clusters of one unit", f"{int((sizes == 1).sum()):,}"),
    ]
    if clusters.dead is not None and len(clusters.dead):
        facts.append(Fact("dead units", f"{len(clusters.dead):,}"))
    shown = several[:20]
    bars = Bars([row[0] for row in rows[:20]], [int(sizes[cluster]) for cluster in shown], title="Largest clusters")
    columns = [
        Column("representative", about="the unit most similar to all others of its cluster"),
        Column("units", "bar"),
        Column("members"),
    ]
    sections = [
        Section("Summary", "", [Facts(facts), *([bars] if shown else [])]),
        Section("Clusters of several units", "", [Table(columns, rows)], is_wide=True),
    ]
    return Page("Clusters of units", "Units whose values are correlated.", sections, topic="neurons")


def stability_page(stability: Stability) -> Page:
    """How similar the rankings of several seeds are."""
    names = [f"seed {seed}" for seed in stability.seeds]
    facts = [
        Fact("seeds", f"{len(names):,}", f"each with {100 * stability.share:.0f} % of the rows"),
        Fact("mean overlap", f"{stability.mean:.2f}", f"± {stability.spread:.2f}"),
        Fact("units among the best for all seeds", f"{len(stability.always):,}", f"of the {stability.n:,} best"),
    ]
    overlap = Heatmap(names, names, stability.overlap.tolist(), low=0.0, high=1.0, title="Overlap of two seeds")
    about = f"The {stability.n:,} best units by {stability.method}, for each seed."
    return Page("Stability of a ranking", about, [Section("Summary", "", [Facts(facts), overlap])], topic="neurons")


def _one_section_page(title: str, section: Section) -> Page:
    return Page(title, "", [section], topic="neurons")


_PAGES: dict[type, Callable[[Any], Page]] = {
    Ablation: ablation_page,
    Ranking: ranking_page,
    TopWords: lambda words: _one_section_page(words.unit, words_section(words)),
    TopContexts: lambda contexts: _one_section_page(contexts.unit, contexts_section(contexts)),
    Histograms: lambda histograms: _one_section_page(histograms.unit, distribution_section(histograms)),
    Comparison: lambda comparison: _one_section_page("Methods compared", agreement_section(comparison)),
    Stability: stability_page,
    Clusters: clusters_page,
    Evaluation: evaluation_page,
    Layers: layers_page,
    Attention: attention_page,
    LogitAttribution: logit_attribution_page,
    Factors: factors_page,
    Patching: patching_page,
    Generation: generation_page,
    Lens: lens_page,
    Saliency: saliency_page,
    Similarity: similarity_page,
    Dissimilarities: dissimilarities_page,
    Report: report_page,
}
