"""The page of a report: the answer first, then where, which, how many, on what, why, and what to mistrust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from cutaway.core.formatting import fixed, percent
from cutaway.results.clusters import Clusters
from cutaway.results.evaluation import Evaluation
from cutaway.results.report import Asked, Report
from cutaway.results.verdicts import verdict_of
from cutaway.views.pages.model import (
    Cell,
    Column,
    Fact,
    Facts,
    Line,
    Lines,
    Page,
    Plate,
    Prose,
    Section,
    Table,
)
from cutaway.views.pages.results.ablation import ablation_sections
from cutaway.views.pages.results.evaluation import (
    cells_of,
    ends_of,
    inputs_section,
    intervals,
    layers_plates,
    line_of,
    permuted_section,
    prose_of,
    told,
)
from cutaway.views.pages.results.units import agreement_section, histogram_of, over_sites
from cutaway.views.pages.unit_texts import contexts_text

_MOST_LABELS = 8
_MOST_UNITS = 60
_MOST_CLUSTERS = 30
_MOST_MEMBERS = 12
_ALIKE = ("alike", "of the best")
_VERDICTS = {
    "found": "told by these units",
    "memory": "told, but perhaps by heart",
    "spread": "told by random units too",
    "weak": "known, but not told",
    "nothing": "not told",
}


def report_page(report: Report) -> Page:
    """All of it, for a reader who was not there."""
    asked = report.asked
    sections = [
        _in_short(report),
        *_where(report),
        *_which(report),
        *_redundancy(report),
        *_how_many(report),
        *_of_labels(report),
        *_looked_at(report),
        *_causes(report),
        Section("What to mistrust", "", prose_of(report.notes), is_wide=True),
        _made(report),
    ]
    return Page(_title(asked), _about(asked), sections, topic="neurons")


def _title(asked: Asked) -> str:
    named = [str(label) for label in asked.labels]
    if not named:
        return "Which units tell a number"
    if len(named) == 2 and asked.kind == "classes":
        return f"Which units tell {named[1]} from {named[0]}"
    some = ", ".join(named[:4]) + (f" and {len(named) - 4:,} more" if len(named) > 4 else "")
    return f"Which units tell {some}" + (" apart" if asked.kind == "classes" else "")


def _about(asked: Asked) -> str:
    model = asked.provenance.get("model")
    of = f" of {model['class']}" if isinstance(model, Mapping) and "class" in model else ""
    is_one_each = asked.n_items is None or asked.n_items == asked.n_rows
    items = "" if is_one_each else f" of {asked.n_items:,} sentences or samples"
    sites = f" at {len(asked.sites):,} site{'s' if len(asked.sites) > 1 else ''}" if asked.sites else ""
    return f"{asked.n_rows:,} rows{items}; {asked.n_units:,} units{sites}{of}."


def _in_short(report: Report) -> Section:
    asked = report.asked
    facts = _facts_of(report.evaluations[report.method]) if report.evaluations else []
    if report.layers is not None:
        first = report.layers[report.layers.best]
        facts.append(Fact("best site", report.layers.best, f"{first.all_units.value:.3f} {ends_of(first.all_units)}"))
    most = np.argsort(-asked.counts, kind="stable")[:_MOST_LABELS].tolist()
    labels = [
        Fact(
            str(asked.labels[code]),
            f"{asked.counts[code]:,}",
            f"{percent(asked.counts[code] / asked.n_rows)} of the rows",
        )
        for code in most
    ]
    if len(asked.labels) > len(most):
        labels.append(Fact("further labels", f"{len(asked.labels) - len(most):,}"))
    plates: list[Plate] = [Prose("\n\n".join(report.answer.sentences))]
    plates += [Facts(facts, title=f"Found by {report.method}")] if facts else []
    plates += [Facts(labels, title="The labels")] if labels else []
    return Section("In short", "", plates, is_wide=True)


def _facts_of(found: Evaluation) -> list[Fact]:
    about = found.setting
    facts = [Fact(f"{found.n:,} units", fixed(found.score.value), f"{ends_of(found.score)} {about.metric}")]
    facts.append(Fact("all units", fixed(found.all_units.value), ends_of(found.all_units)))
    if found.random:
        facts.append(Fact(f"{found.n:,} random units", fixed(found.random[-1].value), ends_of(found.random[-1])))
    if found.majority is not None:
        facts.append(Fact("most frequent class", fixed(found.majority), "if it is always said"))
    if found.selectivity:
        facts.append(Fact("selectivity", fixed(found.selectivity[-1].value), ends_of(found.selectivity[-1])))
    if found.information and found.entropy is not None:
        bits = found.information[-1]
        facts.append(Fact("bits told", fixed(bits.value), f"of {found.entropy:.3f}, {ends_of(bits)}"))
    if found.p_value is not None:
        facts.append(
            Fact("p", f"{found.p_value:.3g}", f"{len(found.null):,} permutations, mean {fixed(found.null.mean())}")
        )
    return facts


def _where(report: Report) -> list[Section]:
    """Sites: how well each tells the labels, and how many of the best units it has."""
    sections = []
    if report.layers is not None:
        text = f"A probe on all units of each site. {intervals(report.layers.evaluations[0])}"
        sections.append(Section("Where in the model", text, layers_plates(report.layers), is_wide=True))
    if len(report.asked.sites) > 1:
        text = f"What a probe on all units of a site tells, and how many of the best {report.asked.n:,} units it has."
        sections.append(Section("Sites", text, [_sites_table(report)], is_wide=True))
    return sections


def _sites_table(report: Report) -> Table:
    found, sites = report.layers, report.asked.sites
    columns = [Column("", "number"), Column("site")]
    rows: list[list[Cell]] = [[place + 1, site] for place, site in enumerate(sites)]
    if found is not None:
        metric = found.evaluations[0].setting.metric
        for name, each in ((metric, found.score), ("selectivity", found.selectivity), ("bits", found.information)):
            columns.append(Column(name, "number"))
            for row, estimate in zip(rows, each, strict=True):
                row.append(None if estimate is None else estimate.value)
    for method, ranking in report.rankings.items():
        columns.append(Column(f"best by {method}", "bar", f"of the best {report.asked.n:,} units by {method}"))
        for row, n in zip(rows, over_sites(ranking, ranking.order[: report.asked.n]).values, strict=True):
            row.append(n)
    return _without_empty(columns, rows)


def _which(report: Report) -> list[Section]:
    asked = report.asked
    methods = list(report.rankings)
    again = "share of the splits in which it is among the best"
    columns = [
        Column("unit"),
        *(Column(method, "number", f"rank by {method}") for method in methods),
        *(Column(f"again, {method}", "share", again) for method in methods),
        Column("sign", "text", f"whether it rises or falls with {asked.labels[-1] if asked.labels else 'the number'}"),
        Column("cluster", "number", "how many units rise and fall with it, itself counted"),
    ]
    sizes = None if report.clusters is None else report.clusters.sizes[report.clusters.labels]
    rows: list[tuple[Cell, ...]] = []
    for unit in report.units[:_MOST_UNITS].tolist():
        judged = [report.evaluations.get(method) for method in methods]
        rows.append(
            (
                report.ranking.name_of(unit),
                *report.rank_of(unit).values(),
                *(None if each is None or not len(each.chosen) else float(each.chosen[unit]) for each in judged),
                {1: "+", -1: "−", 0: ""}[int(report.ranking.signs[unit])],
                None if sizes is None else int(sizes[unit]),
            )
        )
    text = f"Every unit among the best {asked.n:,} by some method, as the methods vote; ranks are those of all rows."
    if report.evaluations:
        text += " “Again” is the share of the splits in which it was among the best of the training rows."
    sections = [Section("Which units", text, [_without_empty(columns, rows)], is_wide=True)]
    return sections + ([agreement_section(report.comparison)] if report.comparison is not None else [])


def _how_many(report: Report) -> list[Section]:
    """The score over how many units are kept, for every method in one plot; and what permuted labels give."""
    if not report.evaluations:
        return []
    first = report.evaluations[report.method]
    lines = [line_of(method, each.kept) for method, each in report.evaluations.items()]
    lines.append(line_of("random units", first.random))
    n = len(first.counts)
    lines.append(Line("all units", [first.all_units.value] * n, is_dashed=True))
    if first.majority is not None:
        lines.append(Line("most frequent class", [first.majority] * n, is_dashed=True))
    is_log = n > 2
    metric = first.setting.metric
    plates: list[Plate] = [Lines("units kept", metric, first.counts, lines, is_log, title=metric.capitalize())]
    if all(each.information for each in report.evaluations.values()) and first.entropy is not None:
        bits = [line_of(method, each.information) for method, each in report.evaluations.items()]
        bits.append(Line("shuffled labels", first.information_null, is_dashed=True))
        plates.append(Lines("units kept", "bits", first.counts, bits, is_log_x=is_log, title="Mutual information"))
    text = f"A probe learns from the n best units alone and is asked about rows it has not seen. {intervals(first)}"
    sections = [
        Section("How many units are needed", text, plates, is_wide=True),
        Section(f"With {first.n:,} units", told(first), [_methods_table(report.evaluations)], is_wide=True),
    ]
    checks = [*permuted_section(first), *inputs_section(first)]
    if checks:
        plates = [replace(plate, title=part.title) for part in checks for plate in part.plates]
        text = " ".join(f"{part.title}: {part.about[0].lower()}{part.about[1:]}" for part in checks)
        sections.append(Section(f"Chance, and what the probe reads, by {report.method}", text, plates, is_wide=True))
    return sections


def _methods_table(evaluations: Mapping[Any, Evaluation], of: str = "method") -> Table:
    metric = next(iter(evaluations.values())).setting.metric
    columns = [Column(of), Column(metric, "bar"), Column("interval"), Column("less all units", "number")]
    columns += [Column("random", "number", "as many random units"), Column("most frequent", "number", "always said")]
    columns += [Column("selectivity", "number"), Column("interval"), Column("bits", "number")]
    columns += [Column("same again", "number", "overlap of the best units of two splits"), Column("p", "number")]
    rows = [
        (
            str(name),
            *cells_of(each.score),
            each.delta[-1].value if each.delta else None,
            each.random[-1].value if each.random else None,
            each.majority,
            *cells_of(each.selectivity[-1] if each.selectivity else None),
            each.information[-1].value if each.information else None,
            each.stability[-1] if each.stability else None,
            each.p_value,
        )
        for name, each in evaluations.items()
    ]
    return _without_empty(columns, rows)


def _of_labels(report: Report) -> list[Section]:
    """Where rows have several labels: each against the rest."""
    if not report.per_label:
        return []
    table = _methods_table(report.per_label, "label")
    columns = [*table.columns, Column("in short")]
    said = (_VERDICTS[verdict_of(each)] for each in report.per_label.values())
    rows = [(*row, short) for row, short in zip(table.rows, said, strict=True)]
    text = f"Each label against the rest, with the best {report.asked.n:,} units by {report.method}."
    return [Section("Label by label", text, [Table(columns, rows)], is_wide=True)]


def _redundancy(report: Report) -> list[Section]:
    found = report.clusters
    if found is None:
        return []
    best = report.ranking.order[: report.asked.n]
    own = found.labels[best]
    like = "|r|" if found.absolute else "r"
    facts = [
        Fact(f"best {len(best):,} units", _clusters(len(np.unique(own))), "so many different things they say"),
        Fact("all units", _clusters(len(found)), f"cut where 1 − {like} is {found.threshold:g}"),
    ]
    if found.dead is not None and len(found.dead):
        facts.append(Fact("dead units", f"{len(found.dead):,}", "each is a cluster of its own"))
    plates: list[Plate] = [Facts(facts)]
    rows = _cluster_rows(found, own, report)
    if rows:
        plates.append(Table([Column("best unit"), *(Column(name, "number") for name in _ALIKE), Column("which")], rows))
    text = f"Units that rise and fall together say the same. Of the best by {report.method}."
    return [Section("Redundancy", text, plates, is_wide=report.comparison is None)]


def _clusters(n: int) -> str:
    return f"{n:,} cluster{'' if n == 1 else 's'}"


def _cluster_rows(found: Clusters, own: Any, report: Report) -> list[tuple[Cell, ...]]:
    """Clusters of several units that hold some of the best."""
    name_of, members, sizes = report.ranking.name_of, found.members, found.sizes
    rows: list[tuple[Cell, ...]] = []
    for cluster in dict.fromkeys(own.tolist()):
        if sizes[cluster] < 2 or len(rows) >= _MOST_CLUSTERS:
            continue
        best = int(report.ranking.order[int(np.flatnonzero(own == cluster)[0])])
        others = [name_of(unit) for unit in members[cluster].tolist() if unit != best]
        more = ", …" if len(others) > _MOST_MEMBERS else ""
        rows.append(
            (name_of(best), int(sizes[cluster]), int((own == cluster).sum()), ", ".join(others[:_MOST_MEMBERS]) + more)
        )
    return rows


def _looked_at(report: Report) -> list[Section]:
    """The best units closely, a section each."""
    sections = []
    n = max(len(report.words), len(report.histograms))
    for place in range(n):
        plates: list[Plate] = []
        unit = ""
        if report.words:
            words = report.words[place]
            unit = words.unit
            columns = [Column("word"), Column("score", "bar"), Column("occurrences", "number")]
            rows = list(zip(words.words, words.scores.tolist(), words.counts.tolist(), strict=True))
            plates.append(Table(columns, rows, title="Words that move it most, in standard deviations"))
        if report.histograms:
            unit = report.histograms[place].unit
            plates.append(histogram_of(report.histograms[place], title="How its values lie"))
        if report.contexts and report.contexts[place].contexts:
            plates.append(contexts_text(report.contexts[place], title="Where it is strongest"))
        sections.append(Section(f"Unit {unit}", _standing(report, unit), plates))
    return sections


def _standing(report: Report, unit: str) -> str:
    """Its rank by each method, and the labels it is the best unit of."""
    index = _index(report, unit)
    ranks = ", ".join(f"{rank:,} by {method}" for method, rank in report.rank_of(index).items() if rank is not None)
    labels = [str(label) for label, each in report.ranking.per_label.items() if each.order[0] == index]
    is_several = len(report.ranking.per_label) > 2
    of = f" The best unit of {', '.join(labels[:_MOST_LABELS])}." if labels and is_several else ""
    return f"Rank {ranks}.{of}"


def _index(report: Report, unit: str) -> int:
    if report.ranking.names is None:
        return int(unit.removeprefix("#"))
    return next(int(place) for place in report.ranking.order if report.ranking.names[int(place)] == unit)


def _causes(report: Report) -> list[Section]:
    if report.ablation is None:
        return []
    parts = ablation_sections(report.ablation)
    become = f"Values become {_become(report.ablation.to)}."
    return [
        Section(f"Without the best units: {part.title}", f"{part.about} {become}", part.plates, len(parts) == 1)
        for part in parts
    ]


def _become(to: str) -> str:
    return {"zero": "zero", "mean": "their mean", "resample": "those of random rows"}.get(to, to)


def _made(report: Report) -> Section:
    asked = report.asked
    rows = [(name.replace("_", " "), _said(value)) for name, value in asked.provenance.items() if name != "versions"]
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in asked.versions.items())))
    made = Table([Column("what"), Column("")], rows)
    title = f"What took how long, of {sum(report.seconds.values()):,.0f} seconds"
    took = Table([Column("part"), Column("seconds", "bar")], list(report.seconds.items()), title=title)
    return Section("How this was made", "", [Prose(asked.call), made, took], is_wide=True)


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    if isinstance(value, float) and value > 1e9:  # a time in seconds
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _without_empty(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """The table without columns that hold nothing."""
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    return Table([columns[place] for place in kept], [tuple(row[place] for place in kept) for row in rows])
