"""Pages of units: what activates one unit and how methods rank it; the top units of a ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import listed, plural
from cutaway.results.neurons.comparison import Comparison
from cutaway.results.neurons.ranking import Ranking
from cutaway.results.neurons.words import ALL, Histograms, TopContexts, TopWords
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.model import (
    Bars,
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Heatmap,
    Histogram,
    Line,
    Lines,
    Page,
    Section,
    Series,
    Table,
)
from cutaway.views.pages.provenance import provenance_section, summary_line
from cutaway.views.pages.unit_texts import contexts_text, unit_numbers, units_text

_MOST_LABELS = 8
_MOST_POINTS = 160
_N_COLORED, _N_SPREAD, _N_BINS = 5, 3, 40
SAVED_AS = "saved as"
"""Column with the saved names of rankings; the viewer links them (`web/src/viewer/data/pages.ts`)."""
_SIGNS = {1: "+", -1: "−", 0: ""}


def neuron_page(
    unit: str,
    *,
    words: TopWords | None = None,
    contexts: TopContexts | None = None,
    histograms: Histograms | None = None,
    rankings: Iterable[Ranking] | Mapping[str, Ranking] = (),
    effects: Sequence[tuple[str, float, float]] = (),
    acts: Activations | None = None,
) -> Page:
    """The page of one unit; parts that you do not pass are left out.

    Args:
        unit: its name, `encoder.layer.3#17`, or `#17` if units have no names.
        words: its top words, from `neurons.top_words`.
        contexts: where it is most active, from `neurons.top_contexts`.
        histograms: its values by label, from `neurons.histograms`.
        rankings: rankings that contain it; in a mapping, by the name they are saved under.
        effects: effects of its ablation: name, value before, value after.
        acts: also colors the words around its contexts.
    """
    sections = []
    if words is not None:
        sections.append(words_section(words))
    if histograms is not None:
        sections.append(distribution_section(histograms))
    given = rankings if isinstance(rankings, Mapping) else list(rankings)
    if given:
        about, is_named = "Rank 1 is the best unit of a method.", isinstance(given, Mapping)
        sections.append(Section("Ranks by method", about, [_ranks_table(unit, given)], is_wide=is_named))
    if effects:
        sections.append(Section("Effect of ablation", "Measured in the running model.", [_effects_table(effects)]))
    if contexts is not None:
        sections.append(contexts_section(contexts, acts))
    if not sections:
        raise InputError(
            "the page of a unit needs content: pass words=, contexts=, histograms=, rankings= or effects=."
        )
    return Page(unit, "", sections, topic="neurons")


def ranking_page(
    ranking: Ranking,
    acts: Activations | None = None,
    labels: Sequence[Any] | None = None,
    *,
    comparison: Comparison | None = None,
    n: int = 50,
) -> Page:
    """The page of a ranking: its top units, their sites and their scores.

    Args:
        ranking: the result of `neurons.rank`.
        acts: adds sentences colored by the top units.
        labels: one per row of `acts`; adds the distribution of values per label.
        comparison: adds the agreement of methods.
        n: the number of top units.
    """
    best = ranking.order[:n]
    sections = [
        Section(f"Top {plural(len(best), 'unit')}", "Sort by any column.", [_top_table(ranking, best)], is_wide=True)
    ]
    if ranking.names is not None:
        sections.append(
            Section("Units per site", f"Sites of the top {plural(len(best), 'unit')}.", [over_sites(ranking, best)])
        )
    sections.append(Section("Scores by rank", "From the best unit to the last.", _score_curves(ranking)))
    if comparison is not None:
        sections.append(agreement_section(comparison))
    if acts is not None and len(best):
        if labels is not None:
            sections.append(_distribution_section(acts, labels, best[:_N_SPREAD].tolist()))
        text = units_text(acts, best[:_N_COLORED].tolist())
        about = "Colors show z-scores over all words. Choose a unit; point at a word to see its values."
        sections.append(Section("Text colored by the top units", about, [text], is_wide=True))
    sections.append(
        provenance_section({name: value for name, value in ranking.about.items() if _is_shown(name, value)})
    )
    return Page(f"Units ranked by {ranking.method.replace('_', ' ')}", _about(ranking, acts), sections, topic="neurons")


def words_section(words: TopWords) -> Section:
    """The top words of a unit."""
    about = "Mean z-score over the occurrences of each word."
    if words.n_left_out:
        about += f" Leaves out {plural(words.n_left_out, 'word')} with fewer than {words.min_count} occurrences."
    columns = [Column("word"), Column("score", "bar"), Column("occurrences", "number")]
    rows = zip(words.words, words.scores.tolist(), words.counts.tolist(), strict=True)
    return Section("Top words", about, [Table(columns, list(rows))])


def contexts_section(contexts: TopContexts, acts: Activations | None = None) -> Section:
    """The top contexts of a unit: the places where its activation is farthest from its mean."""
    if contexts.contexts and not any(each.word for each in contexts.contexts):
        return _items_section(contexts)
    about = "Strongest first. Colors show z-scores over all words."
    return Section("Top contexts", about, [contexts_text(contexts, acts)], is_wide=True)


def _items_section(contexts: TopContexts) -> Section:
    """The top contexts if rows have no words."""
    columns = [Column("item", "number"), Column("row", "number"), Column("value", "number"), Column("score", "bar")]
    rows = [(each.item, each.row, each.value, each.score) for each in contexts.contexts]
    about = "Strongest first. Scores are z-scores over all rows."
    return Section("Top items", about, [Table(columns, rows)])


def distribution_section(histograms: Histograms) -> Section:
    """Histogram of the values of a unit per label."""
    about = "All rows." if histograms.labels == (ALL,) else "One histogram per label."
    return Section("Distribution of values", about, [*_histogram(histograms)])


def agreement_section(comparison: Comparison) -> Section:
    """Agreement of methods on the top units."""
    about = f"Jaccard index of the top {comparison.n:,} units of two methods."
    heatmap = Heatmap(comparison.methods, comparison.methods, comparison.overlap.tolist(), low=0.0, high=1.0)
    columns = [
        Column("method"),
        Column("average overlap", "bar", "mean overlap with the other methods"),
        Column("neuron vote", "bar", "overlap with the units that the other methods vote for"),
    ]
    rows = zip(comparison.methods, comparison.average_overlap.tolist(), comparison.neuron_vote.tolist(), strict=True)
    return Section("Agreement of methods", about, [heatmap, Table(columns, list(rows))])


def _about(ranking: Ranking, acts: Activations | None) -> str:
    of = f" of {ranking.n_units:,}" if len(ranking) < ranking.n_units else ""
    n_rows = len(acts) if acts is not None else ranking.about.get("n_rows")
    return summary_line(
        f"{len(ranking):,}{of} units",
        f"{plural(len(ranking.labels), 'label')}: {listed(map(str, ranking.labels), _MOST_LABELS)}"
        if ranking.labels
        else "",
        plural(n_rows, "row") if isinstance(n_rows, int) else "",
        f"{len(ranking.dead):,} dead (constant), ranked last" if len(ranking.dead) else "",
    )


def _is_shown(name: str, value: object) -> bool:
    return name == "counts" or (isinstance(value, (str, int, float)) and value != "")


def _top_table(ranking: Ranking, best: Any) -> Table:
    labels = ranking.labels[:_MOST_LABELS]
    columns = [Column("rank", "number"), Column("unit"), Column("score", "bar")]
    is_signed = bool(ranking.signs[best].any())
    columns += [Column("sign")] if is_signed else []
    columns += [Column(str(label), "number", f"score for {label}") for label in labels]
    rows: list[tuple[Cell, ...]] = [
        (
            rank,
            ranking.name_of(unit),
            float(ranking.scores[unit]),
            *([_SIGNS[int(ranking.signs[unit])]] if is_signed else []),
            *(float(ranking.per_label[label].scores[unit]) for label in labels),
        )
        for rank, unit in enumerate(best.tolist(), start=1)
    ]
    return Table(columns, rows)


def over_sites(ranking: Ranking, best: Any, *, title: str = "") -> Bars:
    """The number of top units at each site, in model order."""
    names = ranking.names or ()
    sites = dict.fromkeys(name.rpartition("#")[0] for name in names)
    counts = Counter(names[unit].rpartition("#")[0] for unit in best.tolist())
    return Bars(list(sites), [counts[site] for site in sites], title=title)


def _score_curves(ranking: Ranking) -> list[Block]:
    ranks = _spaced_ranks(len(ranking) - len(ranking.dead))  # scores of dead units are meaningless
    if not ranks:
        return [Facts([Fact("units", "0")])]
    lines = [Line("all", [float(ranking.scores[ranking.order[rank - 1]]) for rank in ranks])]
    for label in ranking.labels[:_MOST_LABELS]:
        own = ranking.per_label[label]
        if len(own) - len(own.dead) >= ranks[-1]:
            lines.append(Line(str(label), [float(own.scores[own.order[rank - 1]]) for rank in ranks]))
    blocks: list[Block] = [Lines("rank", "score", ranks, lines, is_log_x=True)]
    if ranking.tiers is not None and len(ranking.tiers) > 1:
        shares = np.linspace(0, 100, len(ranking.tiers)).tolist()
        weight = Line("units", ranking.tiers.tolist())
        blocks.append(
            Lines("percent of the weight mass", "units", shares, [weight], title="Units that hold the weight mass")
        )
    return blocks


def _spaced_ranks(n: int) -> list[int]:
    """Ranks from 1 to n, geometrically spaced if there are many."""
    if n <= _MOST_POINTS:
        return list(range(1, n + 1))
    return sorted({int(rank) for rank in np.geomspace(1, n, _MOST_POINTS).round()})


def _distribution_section(acts: Activations, labels: Sequence[Any], units: list[int]) -> Section:
    if len(labels) != len(acts):
        raise InputError(f"got {len(labels):,} labels for {len(acts):,} rows of activations: pass one label per row.")
    counts = Counter(labels)
    kept = sorted((label for label, _ in counts.most_common(_MOST_LABELS)), key=str)
    codes = np.array([kept.index(label) if label in kept else -1 for label in labels])
    values = acts.columns(units)
    blocks = []
    for column, unit in enumerate(units):
        own = values[:, column].astype(np.float64)
        edges = np.histogram_bin_edges(own[np.isfinite(own)], _N_BINS)
        series = [
            Series(str(label), np.histogram(own[codes == code], edges)[0].tolist()) for code, label in enumerate(kept)
        ]
        blocks.append(Histogram(edges.tolist(), series, title=acts.names[unit]))
    return Section(
        "Distribution of values of the top units", "One histogram per label, with shared bins.", blocks, is_wide=True
    )


def histogram_of(histograms: Histograms, *, title: str = "") -> Histogram:
    """One outline per label."""
    series = [Series(str(label), row.tolist()) for label, row in zip(histograms.labels, histograms.counts, strict=True)]
    return Histogram(histograms.edges.tolist(), series, title=title)


def _histogram(histograms: Histograms) -> tuple[Block, Block]:
    columns = [
        Column("label"),
        Column("rows", "number"),
        Column("mean", "number"),
        Column("standard deviation", "number"),
    ]
    rows = [
        (str(label), int(row.sum()), float(mean), float(std))
        for label, row, mean, std in zip(
            histograms.labels, histograms.counts, histograms.means, histograms.stds, strict=True
        )
    ]
    return histogram_of(histograms), Table(columns, rows)


def _ranks_table(unit: str, rankings: Sequence[Ranking] | Mapping[str, Ranking]) -> Table:
    """Its rank in each ranking and in the ranking of each label."""
    saved = list(rankings) if isinstance(rankings, Mapping) else [""] * len(rankings)
    columns = [
        *((Column(SAVED_AS),) if isinstance(rankings, Mapping) else ()),
        *(Column("method"), Column("label"), Column("rank", "number"), Column("of", "number")),
        *(Column("better than", "share", "fraction of the ranked units"), Column("score", "number"), Column("sign")),
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, ranking in zip(saved, rankings.values() if isinstance(rankings, Mapping) else rankings, strict=True):
        (index,) = unit_numbers(unit, ranking.names)
        first = (name,) if isinstance(rankings, Mapping) else ()
        rows.append((*first, *_rank_cells(ranking, index, "all")))
        rows += [
            (*first, *_rank_cells(own, index, str(label), ranking.method)) for label, own in ranking.per_label.items()
        ]
    return Table(columns, rows)


def _rank_cells(ranking: Ranking, unit: int, label: str, method: str = "") -> tuple[str | float | None, ...]:
    n = len(ranking)
    places = np.flatnonzero(ranking.order == unit)
    rank = int(places[0]) + 1 if len(places) else None
    share = None if rank is None else (n - rank) / max(1, n - 1)
    return (
        *(method or ranking.method, label, rank, n, share),
        *(float(ranking.scores[unit]), _SIGNS[int(ranking.signs[unit])]),
    )


def _effects_table(effects: Sequence[tuple[str, float, float]]) -> Table:
    columns = [Column("of"), Column("before", "number"), Column("ablated", "number"), Column("change", "bar")]
    return Table(columns, [(name, before, after, after - before) for name, before, after in effects])
