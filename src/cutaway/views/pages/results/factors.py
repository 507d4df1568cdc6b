"""The page of neuron factors: text colored by factor, curves over positions, units, layers and overlaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cutaway.core.formatting import percent, plural
from cutaway.results.lm.factors import Factors
from cutaway.results.lm.token_names import quoted, readable
from cutaway.views.pages.model import (
    ColoredText,
    Column,
    Heatmap,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Table,
    Text,
)
from cutaway.views.pages.provenance import model_name, provenance_section, summary_line
from cutaway.views.pages.site_names import brief_neuron, short_site_names

_MOST_TOKENS = 5
_MOST_UNITS = 4
_MOST_NARROW = 32
"""Maps with more layers take the whole width."""


def factors_page(factors: Factors) -> Page:
    """The page of a factorization."""
    sections = [*_text(factors), *_over_positions(factors), _made_of(factors), *_layers(factors), *_overlap(factors)]
    if factors.notes:
        sections[0] = replace(sections[0], blocks=[*map(Prose, factors.notes), *sections[0].blocks])
    of = f"{factors.n_units:,} units of {plural(len(factors.layer_names), 'layer')}"
    left = f"{percent(factors.error)} of the activations unexplained, by norm"
    options = {name: value for name, value in factors.about.items() if name != "n"}
    model = model_name(factors.about) if "model" in factors.about else ""
    about = summary_line(model, of, plural(factors.n_positions, "position"), left)
    return Page(
        factors.title,
        about,
        [*sections, provenance_section(options)],
        topic="language",
    )


def factor_name(factors: Factors, factor: int) -> str:
    """A factor by its number and the token where it is strongest."""
    best = factors.top_tokens(factor, 1)
    return f"{factor} {readable(best[0][0])}" if best else str(factor)


def _text(factors: Factors) -> list[Section]:
    if not factors.pieces:
        return []
    channels = [factor_name(factors, factor) for factor in range(len(factors))]
    about = "Strength of each factor when a token was read; a token has the color of its strongest factor."
    if factors.is_written.any():
        about = (
            "Prompt tokens show how a factor responded to them. Generated tokens, framed, show its strength when they "
            "were predicted, one position earlier: the last prompt token and the first generated token share a value."
        )
    is_signed = factors.method == "pca"
    if is_signed and len(factors) > 1:
        about += " Each factor is scaled by its standard deviation, because the first is far larger."
    block = ColoredText(channels, _texts(factors), is_signed=is_signed, shows_strongest=len(factors) > 1)
    return [Section("Text", about, [block], is_wide=True)]


def _texts(factors: Factors) -> list[Text]:
    shown = factors.shown * _scales(factors)[:, None]  # (factor, token)
    texts, start = [], 0
    for text in factors.texts:
        values = shown[:, start : start + text.n_tokens]
        start += text.n_tokens
        written = () if text.n_prompt is None else range(text.n_prompt, text.n_tokens)
        texts.append(Text(text.pieces, values.tolist(), title=text.name, marks=tuple(written)))
    return texts


def _scales(factors: Factors) -> np.ndarray:
    """Scales that make factors comparable: for PCA by standard deviation, or the first would always be strongest."""
    if factors.method != "pca" or len(factors) < 2:
        return factors.scales
    spread = factors.weights.std(axis=1)
    return 1.0 / np.where(spread > 0, spread, 1.0)


def _over_positions(factors: Factors) -> list[Section]:
    """Curves over positions; with several texts, the curves beside each text are enough."""
    if len(factors.texts) > 1 or factors.n_positions < 2:
        return []
    most = np.abs(factors.weights).max(axis=1, keepdims=True)
    own = factors.weights / np.where(most > 0, most, 1.0)
    lines = [Line(factor_name(factors, factor), own[factor].tolist()) for factor in range(len(factors))]
    x = list(range(factors.n_positions))
    names = [readable(piece) for piece in factors.pieces[: len(x)]]
    x_names = names if len(names) == len(x) else ()
    block = Lines("position", "share of its largest value", x, lines, x_names=x_names)
    return [
        Section(
            "Strength over the text",
            "Each factor at each position, as a share of its maximum.",
            [block],
            is_wide=True,
        )
    ]


def _made_of(factors: Factors) -> Section:
    is_written = bool(factors.is_written.any())
    columns = [
        Column("factor"),
        Column("strength", "share", "of all factors together"),
        Column("units", "number", "members of the factor"),
        Column("of all units", "share"),
        Column("responds to", about="the tokens where it is strongest when they are read"),
        *([Column("strong before", about="generated tokens, one position earlier")] if is_written else []),
        Column("strongest neurons", about="layer · number"),
        Column("their sites", about="for cutaway.edit"),
    ]
    strengths, counts = factors.strengths.tolist(), factors.counts.tolist()
    rows = [
        (
            str(factor),
            strengths[factor],
            counts[factor],
            counts[factor] / factors.n_units,
            _said_tokens(factors.top_tokens(factor, _MOST_TOKENS)) if factors.pieces else _positions(factors, factor),
            *([_said_tokens(factors.top_written(factor, _MOST_TOKENS))] if is_written else []),
            ", ".join(brief_neuron(name) for name, _ in factors.top_units(factor, _MOST_UNITS)),
            ", ".join(name for name, _ in factors.top_units(factor, _MOST_UNITS)),
        )
        for factor in range(len(factors))
    ]
    return Section("Units of each factor", "", [Table(columns, rows)], is_wide=True)


def _said_tokens(tokens: list[tuple[str, float]]) -> str:
    return " ".join(quoted(piece) for piece, _ in tokens)


def _positions(factors: Factors, factor: int) -> str:
    return ", ".join(str(position) for position, _, _ in factors.top_positions(factor, _MOST_TOKENS))


def _layers(factors: Factors) -> list[Section]:
    if len(factors.layer_names) < 2:
        return []
    names = [factor_name(factors, factor) for factor in range(len(factors))]
    heatmap = Heatmap(
        names,
        short_site_names(factors.layer_names),
        factors.layer_shares.tolist(),
        low=0.0,
        is_share=True,
        shows_numbers=False,
    )
    about = "The share of each factor in each layer."
    return [Section("Layers", about, [heatmap], is_wide=len(factors.layer_names) > _MOST_NARROW)]


def _overlap(factors: Factors) -> list[Section]:
    if len(factors) < 2 or factors.method == "kmeans":
        return []
    names = [str(factor) for factor in range(len(factors))]
    heatmap = Heatmap(names, names, factors.overlap.tolist(), low=0.0)
    return [Section("Overlap", "Number of units that are members of both.", [heatmap])]
