"""Factors as a page: the text in the colour of each, how they rise and fall, and what they are made of."""

from __future__ import annotations

import math

from cutaway.results.factors import Factors
from cutaway.views.plates import (
    ColouredText,
    Column,
    Fact,
    Facts,
    Heatmap,
    Line,
    Lines,
    Page,
    Plate,
    Prose,
    Section,
    Table,
    Text,
)

_SAID = {"nmf": "NMF", "pca": "PCA", "kmeans": "k-means"}
_MOST_TOKENS = 5
_MOST_UNITS = 4


def factors_page(factors: Factors) -> Page:
    """All of a factorisation."""
    sections = [Section("In short", "", _in_short(factors)), *_text(factors), _over_positions(factors)]
    sections += [_made_of(factors), *_layers(factors), *_overlap(factors)]
    return Page(f"{len(factors)} factors of {factors.n_units:,} units", "", sections)


def named(factors: Factors, factor: int) -> str:
    """A factor by its number and the token at which it is strongest."""
    best = factors.top_positions(factor, 1)
    return f"{factor} {best[0][1].strip()!r}" if best and best[0][1].strip() else str(factor)


def _in_short(factors: Factors) -> list[Plate]:
    facts = [
        Fact("method", _SAID[factors.method]),
        Fact("positions", f"{factors.n_positions:,}"),
        Fact("units", f"{factors.n_units:,}", f"of {len(factors.layer_names)} layers"),
        Fact("left over", f"{factors.error:.1%}", "of the activations, by their norm"),
    ]
    return [Facts(facts), *(Prose(note) for note in factors.notes)]


def _text(factors: Factors) -> list[Section]:
    if not factors.pieces:
        return []
    values = [[None if math.isnan(value) else value for value in row] for row in factors.shown.tolist()]
    channels = [named(factors, factor) for factor in range(len(factors))]
    about = "How strong a factor was when each token was read."
    if factors.n_prompt is not None:
        about = (
            "Tokens that were given: how the factor answered to them. Tokens that were written: how it fired when they "
            "were, one position earlier; so the last given and the first written token have the same value."
        )
    written = range(factors.n_prompt, len(factors.pieces)) if factors.n_prompt is not None else ()
    text = Text(factors.pieces, values, marks=tuple(written))
    return [Section("Text", about, [ColouredText(channels, [text], is_signed=factors.method == "pca")], is_wide=True)]


def _over_positions(factors: Factors) -> Section:
    lines = [Line(named(factors, factor), factors.weights[factor].tolist()) for factor in range(len(factors))]
    plate = Lines("position", "strength", list(range(factors.n_positions)), lines)
    return Section("Over the text", "How strong each factor is at each position.", [plate], is_wide=True)


def _made_of(factors: Factors) -> Section:
    columns = [
        Column("factor"),
        Column("strength", "share", "of all that the factors say"),
        Column("units", "number", "that take part in it"),
        Column("of all units", "share"),
        Column("strongest at"),
        Column("most of it"),
    ]
    strengths, counts = factors.strengths.tolist(), factors.counts.tolist()
    rows = [
        (
            str(factor),
            strengths[factor],
            counts[factor],
            counts[factor] / factors.n_units,
            ", ".join(piece.strip() or str(p) for p, piece, _ in factors.top_positions(factor, _MOST_TOKENS)),
            ", ".join(name for name, _ in factors.top_units(factor, _MOST_UNITS)),
        )
        for factor in range(len(factors))
    ]
    return Section("What they are made of", "", [Table(columns, rows)], is_wide=True)


def _layers(factors: Factors) -> list[Section]:
    if len(factors.layer_names) < 2:
        return []
    names = [named(factors, factor) for factor in range(len(factors))]
    heatmap = Heatmap(names, factors.layer_names, factors.layer_shares.tolist(), low=0.0, shows_numbers=False)
    return [Section("Layers", "The share of each factor that lies in each layer.", [heatmap])]


def _overlap(factors: Factors) -> list[Section]:
    if len(factors) < 2 or factors.method == "kmeans":
        return []
    names = [str(factor) for factor in range(len(factors))]
    heatmap = Heatmap(names, names, factors.overlap.tolist(), low=0.0)
    return [Section("Overlap", "How many units take part in both.", [heatmap])]
