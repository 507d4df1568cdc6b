"""Ablations as a page: each metric over how many units are gone, the best ones beside random ones."""

from __future__ import annotations

from cutaway.results.ablation import Ablation
from cutaway.views.pages.model import Cell, Column, Fact, Facts, Line, Lines, Page, Section, Table
from cutaway.views.pages.text import format_number

_MOST_NAMED = 20


def ablation_page(ablation: Ablation) -> Page:
    """What a model loses without its best units."""
    facts = Facts(
        [
            Fact("model", ablation.model),
            Fact("units ranked by", ablation.method),
            Fact("their values become", ablation.to),
            Fact("random choices", f"{ablation.n_random:,}", "of as many units at the same sites"),
        ]
    )
    named = ", ".join(ablation.units[:_MOST_NAMED]) + (", …" if len(ablation.units) > _MOST_NAMED else "")
    sections = [Section("In short", f"In this order: {named}.", [facts]), *ablation_sections(ablation)]
    return Page(f"Ablation by {ablation.method}", "Measured in the model that runs.", sections, topic="neurons")


def ablation_sections(ablation: Ablation) -> list[Section]:
    """One section a metric."""
    return [_of_metric(ablation, j) for j in range(len(ablation.metrics))]


def _of_metric(ablation: Ablation, j: int) -> Section:
    name = ablation.metrics[j]
    x = [0, *ablation.n.tolist()]
    before = float(ablation.baseline[j])
    best = [before, *ablation.scores[:, j].tolist()]
    lines = [Line(f"without the best by {ablation.method}", best)]
    if ablation.n_random:
        draws = ablation.random[:, :, j]
        lines.append(
            Line(
                "without random units",
                [before, *draws.mean(axis=1).tolist()],
                [before, *draws.min(axis=1).tolist()],
                [before, *draws.max(axis=1).tolist()],
                is_dashed=True,
            )
        )
    columns = [
        Column("units", "number"),
        Column("without the best", "number"),
        Column("change", "number"),
        Column("random, mean", "number"),
        Column("from … to", "text", "the least and the most of all random choices"),
        Column("p", "number", "how likely random units change as much; 1 / (1 + draws) is the least it can be"),
    ]
    rows: list[tuple[Cell, ...]] = []
    for i, n in enumerate(ablation.n.tolist()):
        drawn = ablation.random[i, :, j]
        spread: list[Cell] = [None, ""]
        if ablation.n_random:
            spread = [float(drawn.mean()), f"{format_number(float(drawn.min()))} … {format_number(float(drawn.max()))}"]
        rows.append((n, float(ablation.scores[i, j]), float(ablation.effect[i, j]), *spread, float(ablation.p[i, j])))
    about = f"{before:.4g} with all units. The band holds all random choices."
    return Section(name, about, [Lines("units ablated", name, x, lines), Table(columns, rows)])
