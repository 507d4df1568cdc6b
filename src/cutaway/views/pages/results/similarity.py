"""The page of similarities: a map of all pairs, adjacent layers, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cutaway.results.lm.similarity import Dissimilarities, Similarity
from cutaway.views.pages.model import (
    Bars,
    Block,
    Column,
    Fact,
    Facts,
    Heatmap,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Table,
)

_MOST_NUMBERS = 14
"""Wider maps have colors only; the number shows on hover."""
_MOST_PAIRS = 500
_MOST_CELLS = 120
_METHOD_SUMMARIES = {
    "cca": "Mean of the canonical correlations: 1 if one is an invertible linear map of the other.",
    "svcca": "Mean canonical correlation of the directions of largest variance.",
    "pwcca": "Canonical correlations, weighted by how much of the units each accounts for.",
    "cka": "Whether the same rows are close in both: 1 if one is a rotated, scaled copy of the other.",
    "rsa": "Whether rows that are far apart in one are far apart in the other: a correlation of distances.",
}


def similarity_page(similarity: Similarity) -> Page:
    """The page of a similarity: for two representations a number, for more a map."""
    sections = [Section("Summary", _METHOD_SUMMARIES[similarity.method], _in_short(similarity))]
    n_rows, n_columns = similarity.shape
    if n_rows > 1 and n_columns > 1:
        sections += [_map(similarity), *_adjacent_pairs(similarity)]
    elif n_rows > 1 or n_columns > 1:
        sections.append(_against_one(similarity))
    else:
        sections += _spectrum(similarity)
    if n_rows * n_columns > 1:
        sections.append(Section("All pairs", "", [_pairs(similarity)]))
    return Page(_title(similarity), "", sections, topic="language")


def dissimilarities_page(found: Dissimilarities) -> Page:
    """The page of a dissimilarity matrix; of many rows, an evenly spaced sample."""
    n = len(found)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_CELLS)).round().astype(np.int64))
    names = [found.name_of(int(row)) for row in chosen]
    some = found.values[np.ix_(chosen, chosen)]
    sample = f"{len(chosen):,} of {n:,} rows, evenly spaced." if len(chosen) < n else ""
    heatmap = Heatmap(names, names, some.tolist(), low=0.0, shows_numbers=len(chosen) <= _MOST_NUMBERS)
    facts = [Fact("rows", f"{n:,}"), Fact("metric", found.metric)]
    if n > 1:
        low, middle, high = np.quantile(found.upper, [0, 0.5, 1]).tolist()
        facts.append(Fact("distance", f"{middle:.4g}", f"median; {low:.4g} to {high:.4g}"))
    sections = [Section("Summary", "", [Facts(facts)]), Section("Distances", sample, [heatmap], is_wide=True)]
    return Page("Dissimilarity of rows", "", sections, topic="language")


def _title(similarity: Similarity) -> str:
    if similarity.shape == (1, 1):
        return f"Similarity of {similarity.row_names[0]} and {similarity.column_names[0]}"
    return f"Similarity by {similarity.described}"


def _in_short(similarity: Similarity) -> list[Block]:
    facts = [Fact("method", similarity.described), Fact("rows", f"{similarity.n_rows:,}", "the same in all")]
    facts += [
        Fact(name.replace("_", " "), str(value))
        for name, value in similarity.about.items()
        if name not in ("kernel", "debiased", "compat")
    ]
    if similarity.shape == (1, 1):
        facts.insert(0, Fact("similarity", f"{similarity.value:.4f}"))
        for name, units in zip(
            (*similarity.row_names, *similarity.column_names),
            (*similarity.row_units, *similarity.column_units),
            strict=False,
        ):
            facts.append(Fact(f"units of {name}", f"{units:,}"))
    else:
        pairs = _unique_pairs(similarity)
        values = [value for *_, value in pairs if math.isfinite(value)]
        if values:
            facts.append(Fact("pairs", f"{len(pairs):,}", f"from {min(values):.3f} to {max(values):.3f}"))
        widths = sorted({*similarity.row_units, *similarity.column_units})
        facts.append(Fact("units", " to ".join(f"{each:,}" for each in dict.fromkeys(widths[:: len(widths) - 1 or 1]))))
    return [Facts(facts), *(Prose(note) for note in similarity.notes)]


def _map(similarity: Similarity) -> Section:
    rows, columns = _short_names(similarity.row_names), _short_names(similarity.column_names)
    is_wide = len(columns) > _MOST_NUMBERS
    low = _palest_value(similarity.values)
    heatmap = Heatmap(rows, columns, similarity.values.tolist(), low=low, high=1.0, shows_numbers=not is_wide)
    about = "All pairs." if similarity.is_within else "Rows are the first argument, columns the second."
    return Section("Map", about, [heatmap], is_wide=is_wide)


def _adjacent_pairs(similarity: Similarity) -> list[Section]:
    """Of one model, each layer and the next: where a bar is short, much changes."""
    if not similarity.is_within or len(similarity.row_names) < 3:
        return []
    names = _short_names(similarity.row_names)
    steps = [f"{here} → {there}" for here, there in pairwise(names)]
    values = [float(similarity.values[i, i + 1]) for i in range(len(steps))]
    bars = Bars(steps, values, is_signed=min(values) < 0)
    return [Section("Adjacent pairs", "In the order in which they were given.", [bars])]


def _against_one(similarity: Similarity) -> Section:
    is_column = similarity.shape[1] == 1
    names = similarity.row_names if is_column else similarity.column_names
    other = (similarity.column_names if is_column else similarity.row_names)[0]
    values = similarity.values.ravel().tolist()
    steps = _numbers(names)
    block: Block
    if steps is not None:
        block = Lines("step", similarity.described, steps, [Line(f"with {other}", values)])
    else:
        block = Bars(_short_names(names), values, is_signed=min(values) < 0)
    return Section(f"Similarity with {other}", "", [block], is_wide=True)


def _spectrum(similarity: Similarity) -> list[Section]:
    """The canonical correlations of a pair."""
    if similarity.correlations is None:
        return []
    own = similarity.correlations[0, 0]
    own = own[np.isfinite(own)]
    lines = Lines(
        "number", "canonical correlation", list(range(1, len(own) + 1)), [Line("canonical correlations", own.tolist())]
    )
    return [Section("Canonical correlations", "Largest first; their number is that of the smaller side.", [lines])]


def _pairs(similarity: Similarity) -> Table:
    rows = sorted(_unique_pairs(similarity), key=lambda pair: -pair[2] if math.isfinite(pair[2]) else math.inf)[
        :_MOST_PAIRS
    ]
    heads = ("first", "second") if similarity.is_within else ("row", "column")
    columns = [Column(heads[0]), Column(heads[1]), Column(similarity.described, "bar")]
    return Table(columns, rows)


def _unique_pairs(similarity: Similarity) -> list[tuple[str, str, float]]:
    """Each pair once, without pairs of the same."""
    values = similarity.values
    is_even = similarity.is_within and np.allclose(values, values.T, equal_nan=True)
    return [
        (row, column, float(values[i, j]))
        for i, row in enumerate(similarity.row_names)
        for j, column in enumerate(similarity.column_names)
        if not similarity.is_within or (i < j if is_even else i != j)
    ]


def _palest_value(values: NDArray[np.float64]) -> float:
    """The value with the palest color: 0 if values are spread, else a tenth below the least."""
    finite = values[np.isfinite(values)]
    least = float(finite.min()) if len(finite) else 0.0
    return min(math.floor(least * 10) / 10, 0.9) if least < 0 or least > 0.5 else 0.0


def _short_names(names: Sequence[str]) -> list[str]:
    """Names without their common prefix, up to a dot or a space: layers by number."""
    if len(names) < 2:
        return list(names)
    first, last = min(names), max(names)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    cut = max(first.rfind(".", 0, n), first.rfind(" ", 0, n)) + 1
    return [name[cut:] for name in names] if all(len(name) > cut for name in names) else list(names)


def _numbers(names: Sequence[str]) -> list[float] | None:
    """Names that are ascending numbers, as numbers, such as training steps."""
    try:
        numbers = [float(name.removeprefix("step").strip()) for name in names]
    except ValueError:
        return None
    return numbers if all(a < b for a, b in pairwise(numbers)) else None
