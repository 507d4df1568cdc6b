"""The page of an ablation: each metric by number of ablated units, for the top units and for random units."""

from __future__ import annotations

from cutaway.core.formatting import listed
from cutaway.results.neurons.ablation import Ablation
from cutaway.views.pages.model import Cell, Column, Fact, Facts, Line, Lines, Page, Section, Table
from cutaway.views.pages.text import format_number

_MOST_NAMED = 20


def ablation_page(ablation: Ablation) -> Page:
    """The page of an `Ablation`."""
    facts = Facts(
        [
            Fact("model", ablation.model),
            Fact("units ranked by", ablation.method),
            Fact("values replaced by", ablation.to),
            Fact("random draws", f"{ablation.n_random:,}", "of the same number of units per site"),
        ]
    )
    named = listed(ablation.units, _MOST_NAMED)
    sections = [Section("Summary", f"Units, in this order: {named}.", [facts]), *ablation_sections(ablation)]
    return Page(f"Ablation by {ablation.method}", "Measured in the running model.", sections, topic="neurons")


def ablation_sections(ablation: Ablation) -> list[Section]:
    """One section per metric."""
    return [_metric_section(ablation, j) for j in range(len(ablation.metrics))]


def _metric_section(ablation: Ablation, j: int) -> Section:
    name = ablation.metrics[j]
    x = [0, *ablation.n.tolist()]
    before = float(ablation.baseline[j])
    best = [before, *ablation.scores[:, j].tolist()]
    lines = [Line(f"without the top units by {ablation.method}", best)]
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
        Column("without the top units", "number"),
        Column("change", "number"),
        Column("random, mean", "number"),
        Column("random, range", "text", "minimum and maximum over the random draws"),
        Column("p", "number", "p-value that random units change the metric as much; at least 1 / (1 + draws)"),
    ]
    rows: list[tuple[Cell, ...]] = []
    for i, n in enumerate(ablation.n.tolist()):
        drawn = ablation.random[i, :, j]
        spread: list[Cell] = [None, ""]
        if ablation.n_random:
            spread = [float(drawn.mean()), f"{format_number(float(drawn.min()))} … {format_number(float(drawn.max()))}"]
        rows.append((n, float(ablation.scores[i, j]), float(ablation.effect[i, j]), *spread, float(ablation.p[i, j])))
    about = f"{before:.4g} with all units. The band covers all random draws."
    return Section(name, about, [Lines("units ablated", name, x, lines), Table(columns, rows)])
