"""Pages about units: what one fires on and who ranks it where; the best units of a ranking and where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.results.comparison import Comparison
from cutaway.results.ranking import Ranking
from cutaway.results.words import ALL, Histograms, TopContexts, TopWords
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.model import (
    Bars,
    Cell,
    Column,
    Fact,
    Facts,
    Heatmap,
    Histogram,
    Line,
    Lines,
    Page,
    Plate,
    Section,
    Series,
    Table,
)
from cutaway.views.pages.provenance import provenance_section, summary_line
from cutaway.views.pages.unit_texts import contexts_text, unit_numbers, units_text

_MOST_LABELS = 8
_MOST_POINTS = 160
_N_COLOURED, _N_SPREAD, _N_BINS = 5, 3, 40
SAVED_AS = "saved as"
"""The column that names rankings as they lie in a folder: the viewer leads from there to them."""
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
    """All that is known of one unit; what is not given is left out.

    Args:
        unit: its name, `encoder.layer.3#17`, or `#17` where units have none.
        rankings: methods that rank it; a mapping also tells under what name each was saved.
        effects: what its ablation changes: a name, the number before, the number after.
        acts: colours the words around its contexts, too.
    """
    sections = []
    if words is not None:
        sections.append(words_section(words))
    if histograms is not None:
        sections.append(spread_section(histograms))
    placed = rankings if isinstance(rankings, Mapping) else list(rankings)
    if placed:
        about, is_named = "1 is the best unit of a method.", isinstance(placed, Mapping)
        sections.append(Section("Who ranks it where", about, [_places(unit, placed)], is_wide=is_named))
    if effects:
        sections.append(Section("When it is ablated", "In the model that runs.", [_effects(effects)]))
    if contexts is not None:
        sections.append(contexts_section(contexts, acts))
    if not sections:
        raise InputError("a page about a unit needs something to show: words=, contexts=, histograms=, rankings= …")
    return Page(unit, "", sections, topic="neurons")


def ranking_page(
    ranking: Ranking,
    acts: Activations | None = None,
    labels: Sequence[Any] | None = None,
    *,
    comparison: Comparison | None = None,
    n: int = 50,
) -> Page:
    """The best units of a ranking: which they are, where they are, and how they stand out.

    Args:
        acts: sentences are coloured by the best units.
        labels: one for each row of `acts`; how values of the best units lie for each of them.
        comparison: how far methods agree.
        n: how many units are the best.
    """
    best = ranking.order[:n]
    sections = [Section(f"The best {len(best):,}", "Sort by any column.", [_best(ranking, best)], is_wide=True)]
    if ranking.names is not None:
        sections.append(
            Section("Where they are", f"Sites of the best {len(best):,} units.", [over_sites(ranking, best)])
        )
    sections.append(Section("How scores fall", "From the best unit to the last.", _falling(ranking)))
    if comparison is not None:
        sections.append(agreement_section(comparison))
    if acts is not None and len(best):
        if labels is not None:
            sections.append(_spread(acts, labels, best[:_N_SPREAD].tolist()))
        text = units_text(acts, best[:_N_COLOURED].tolist())
        about = (
            "Colours are standard deviations from the mean of all words. Choose a unit; point at a word for numbers."
        )
        sections.append(Section("Text coloured by the best units", about, [text], is_wide=True))
    sections.append(provenance_section({name: value for name, value in ranking.about.items() if _is_told(name, value)}))
    return Page(f"Units ranked by {ranking.method.replace('_', ' ')}", _about(ranking, acts), sections, topic="neurons")


def words_section(words: TopWords) -> Section:
    """The words that move a unit most."""
    about = "Mean over the occurrences of a word, in standard deviations from the mean of all words."
    if words.n_left_out:
        about += f" {words.n_left_out:,} words that occur fewer than {words.min_count} times were left out."
    columns = [Column("word"), Column("score", "bar"), Column("occurrences", "number")]
    rows = zip(words.words, words.scores.tolist(), words.counts.tolist(), strict=True)
    return Section("Words that move it most", about, [Table(columns, list(rows))])


def contexts_section(contexts: TopContexts, acts: Activations | None = None) -> Section:
    """Where in the corpus a unit is far from its mean."""
    if contexts.contexts and not any(each.word for each in contexts.contexts):
        return _items_section(contexts)
    about = "Strongest first. Colours are standard deviations from the mean of all words."
    return Section("Where it is strongest", about, [contexts_text(contexts, acts)], is_wide=True)


def _items_section(contexts: TopContexts) -> Section:
    """The same where rows are no words."""
    columns = [Column("item", "number"), Column("row", "number"), Column("value", "number"), Column("score", "bar")]
    rows = [(each.item, each.row, each.value, each.score) for each in contexts.contexts]
    about = "Strongest first. Scores are standard deviations from the mean of all rows."
    return Section("Where it is strongest", about, [Table(columns, rows)])


def spread_section(histograms: Histograms) -> Section:
    """How the values of a unit lie for each label."""
    about = "Of all rows." if histograms.labels == (ALL,) else "For each label."
    return Section("How its values lie", about, [*_histogram(histograms)])


def agreement_section(comparison: Comparison) -> Section:
    """How far methods agree on the best units."""
    about = f"Units that are among the best {comparison.n:,} of both methods, by units among those of either."
    heatmap = Heatmap(comparison.methods, comparison.methods, comparison.overlap.tolist(), low=0.0, high=1.0)
    columns = [
        Column("method"),
        Column("average overlap", "bar", "mean overlap with the others"),
        Column("neuron vote", "bar", "overlap with the units that the others vote for"),
    ]
    rows = zip(comparison.methods, comparison.average_overlap.tolist(), comparison.neuron_vote.tolist(), strict=True)
    return Section("Do methods agree?", about, [heatmap, Table(columns, list(rows))])


def _about(ranking: Ranking, acts: Activations | None) -> str:
    of = f" of {ranking.n_units:,}" if len(ranking) < ranking.n_units else ""
    some = ", ".join(map(str, ranking.labels[:_MOST_LABELS])) + (", …" if len(ranking.labels) > _MOST_LABELS else "")
    n_rows = len(acts) if acts is not None else ranking.about.get("n_rows")
    return summary_line(
        f"{len(ranking):,}{of} units",
        f"{plural(len(ranking.labels), 'label')}: {some}" if ranking.labels else "",
        plural(n_rows, "row") if isinstance(n_rows, int) else "",
        f"{len(ranking.dead):,} dead, the same at every row, ranked last" if len(ranking.dead) else "",
    )


def _is_told(name: str, value: object) -> bool:
    return name == "counts" or (isinstance(value, (str, int, float)) and value != "")


def _best(ranking: Ranking, best: Any) -> Table:
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
    """How many of the best each site has; sites in the order of the model."""
    names = ranking.names or ()
    sites = dict.fromkeys(name.rpartition("#")[0] for name in names)
    counts = Counter(names[unit].rpartition("#")[0] for unit in best.tolist())
    return Bars(list(sites), [counts[site] for site in sites], title=title)


def _falling(ranking: Ranking) -> list[Plate]:
    ranks = _spaced(len(ranking) - len(ranking.dead))  # scores of dead units say nothing
    if not ranks:
        return [Facts([Fact("units", "0")])]
    lines = [Line("all", [float(ranking.scores[ranking.order[rank - 1]]) for rank in ranks])]
    for label in ranking.labels[:_MOST_LABELS]:
        own = ranking.per_label[label]
        if len(own) - len(own.dead) >= ranks[-1]:
            lines.append(Line(str(label), [float(own.scores[own.order[rank - 1]]) for rank in ranks]))
    plates: list[Plate] = [Lines("rank", "score", ranks, lines, is_log_x=True)]
    if ranking.tiers is not None and len(ranking.tiers) > 1:
        shares = np.linspace(0, 100, len(ranking.tiers)).tolist()
        weight = Line("units", ranking.tiers.tolist())
        plates.append(Lines("percent of the weight", "units", shares, [weight], title="Units that hold the weight"))
    return plates


def _spaced(n: int) -> list[int]:
    """Ranks from 1 to n, close together among the best."""
    if n <= _MOST_POINTS:
        return list(range(1, n + 1))
    return sorted({int(rank) for rank in np.geomspace(1, n, _MOST_POINTS).round()})


def _spread(acts: Activations, labels: Sequence[Any], units: list[int]) -> Section:
    if len(labels) != len(acts):
        raise InputError(f"there are {len(labels):,} labels, and {len(acts):,} rows of activations.")
    counts = Counter(labels)
    kept = sorted((label for label, _ in counts.most_common(_MOST_LABELS)), key=str)
    codes = np.array([kept.index(label) if label in kept else -1 for label in labels])
    values = acts.columns(units)
    plates = []
    for column, unit in enumerate(units):
        own = values[:, column].astype(np.float64)
        edges = np.histogram_bin_edges(own[np.isfinite(own)], _N_BINS)
        series = [
            Series(str(label), np.histogram(own[codes == code], edges)[0].tolist()) for code, label in enumerate(kept)
        ]
        plates.append(Histogram(edges.tolist(), series, title=acts.names[unit]))
    return Section("How values of the best units lie", "For each label, in the same bins.", plates, is_wide=True)


def histogram_of(histograms: Histograms, *, title: str = "") -> Histogram:
    """One outline for each label."""
    series = [Series(str(label), row.tolist()) for label, row in zip(histograms.labels, histograms.counts, strict=True)]
    return Histogram(histograms.edges.tolist(), series, title=title)


def _histogram(histograms: Histograms) -> tuple[Plate, Plate]:
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


def _places(unit: str, rankings: Sequence[Ranking] | Mapping[str, Ranking]) -> Table:
    """Its place in each ranking, and in those of the labels."""
    saved = list(rankings) if isinstance(rankings, Mapping) else [""] * len(rankings)
    columns = [
        *((Column(SAVED_AS),) if isinstance(rankings, Mapping) else ()),
        *(Column("method"), Column("label"), Column("rank", "number"), Column("of", "number")),
        *(Column("better than", "share", "of the units that are ranked"), Column("score", "number"), Column("sign")),
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, ranking in zip(saved, rankings.values() if isinstance(rankings, Mapping) else rankings, strict=True):
        (index,) = unit_numbers(unit, ranking.names)
        first = (name,) if isinstance(rankings, Mapping) else ()
        rows.append((*first, *_place(ranking, index, "all")))
        rows += [(*first, *_place(own, index, str(label), ranking.method)) for label, own in ranking.per_label.items()]
    return Table(columns, rows)


def _place(ranking: Ranking, unit: int, label: str, method: str = "") -> tuple[str | float | None, ...]:
    n = len(ranking)
    places = np.flatnonzero(ranking.order == unit)
    rank = int(places[0]) + 1 if len(places) else None
    share = None if rank is None else (n - rank) / max(1, n - 1)
    return (
        *(method or ranking.method, label, rank, n, share),
        *(float(ranking.scores[unit]), _SIGNS[int(ranking.signs[unit])]),
    )


def _effects(effects: Sequence[tuple[str, float, float]]) -> Table:
    columns = [Column("of"), Column("before", "number"), Column("ablated", "number"), Column("change", "bar")]
    return Table(columns, [(name, before, after, after - before) for name, before, after in effects])
