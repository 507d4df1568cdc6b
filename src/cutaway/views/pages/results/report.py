"""The page of a report: answer, sites, top units, scores, what activates the units, ablation and caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from cutaway.core.formatting import fixed, listed, percent, plural
from cutaway.results.neurons.clusters import Clusters
from cutaway.results.neurons.evaluation import Evaluation
from cutaway.results.neurons.report import Asked, Report
from cutaway.results.neurons.verdicts import verdict_of
from cutaway.views.pages.model import (
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Table,
)
from cutaway.views.pages.results.ablation import ablation_sections
from cutaway.views.pages.results.evaluation import (
    ablated_inputs_sections,
    cells_of,
    interval_text,
    intervals_text,
    line_of,
    notes_prose,
    permutation_sections,
    setting_text,
    site_plots,
)
from cutaway.views.pages.results.units import agreement_section, histogram_of, over_sites
from cutaway.views.pages.unit_texts import contexts_text

_MOST_LABELS = 8
_MOST_UNITS = 60
_MOST_CLUSTERS = 30
_MOST_MEMBERS = 12
_CLUSTER_COLUMNS = ("units", "top units")
_VERDICTS = {
    "found": "predicted by these units",
    "memory": "predicted, perhaps by memorized words",
    "spread": "predicted by random units too",
    "weak": "some information, not predicted",
    "nothing": "not predicted",
}


def report_page(report: Report) -> Page:
    """The page of a `Report`, for readers who know only the page."""
    asked = report.asked
    sections = [
        _summary(report),
        *_site_sections(report),
        *_top_unit_sections(report),
        *_redundancy(report),
        *_unit_count_sections(report),
        *_label_sections(report),
        *_inspected_unit_sections(report),
        *_ablation_sections(report),
        Section("Caveats", "", notes_prose(report.notes), is_wide=True),
        _provenance_section(report),
    ]
    return Page(_title(asked), _about(asked), sections, topic="neurons")


def _title(asked: Asked) -> str:
    named = [str(label) for label in asked.labels]
    if not named:
        return "Units that predict a number"
    if len(named) == 2 and asked.kind == "classes":
        return f"Units that distinguish {named[1]} from {named[0]}"
    return f"Units that {'distinguish' if asked.kind == 'classes' else 'predict'} {listed(named)}"


def _about(asked: Asked) -> str:
    model = asked.provenance.get("model")
    of = f" of {model['class']}" if isinstance(model, Mapping) and "class" in model else ""
    is_one_each = asked.n_items is None or asked.n_items == asked.n_rows
    items = "" if is_one_each else f" of {asked.n_items:,} sentences or samples"
    sites = f" at {plural(len(asked.sites), 'site')}" if asked.sites else ""
    return f"{asked.n_rows:,} rows{items}; {asked.n_units:,} units{sites}{of}."


def _summary(report: Report) -> Section:
    asked = report.asked
    facts = _evaluation_facts(report.evaluations[report.method]) if report.evaluations else []
    if report.layers is not None:
        first = report.layers[report.layers.best]
        facts.append(
            Fact("best site", report.layers.best, f"{first.all_units.value:.3f} {interval_text(first.all_units)}")
        )
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
        labels.append(Fact("other labels", f"{len(asked.labels) - len(most):,}"))
    blocks: list[Block] = [Prose("\n\n".join(report.answer.sentences))]
    blocks += [Facts(facts, title=f"Scores of {report.method}")] if facts else []
    blocks += [Facts(labels, title="Labels")] if labels else []
    return Section("Summary", "", blocks, is_wide=True)


def _evaluation_facts(found: Evaluation) -> list[Fact]:
    about = found.setting
    facts = [Fact(f"{found.n:,} units", fixed(found.score.value), f"{interval_text(found.score)} {about.metric}")]
    facts.append(Fact("all units", fixed(found.all_units.value), interval_text(found.all_units)))
    if found.random:
        facts.append(Fact(f"{found.n:,} random units", fixed(found.random[-1].value), interval_text(found.random[-1])))
    if found.majority is not None:
        facts.append(Fact("most frequent class", fixed(found.majority), "always predicted"))
    if found.selectivity:
        facts.append(Fact("selectivity", fixed(found.selectivity[-1].value), interval_text(found.selectivity[-1])))
    if found.information and found.entropy is not None:
        bits = found.information[-1]
        facts.append(
            Fact(
                "mutual information", f"{fixed(bits.value)} bits", f"{interval_text(bits)}, at most {found.entropy:.3f}"
            )
        )
    if found.p_value is not None:
        facts.append(
            Fact("p", f"{found.p_value:.3g}", f"{len(found.null):,} permutations, mean {fixed(found.null.mean())}")
        )
    return facts


def _site_sections(report: Report) -> list[Section]:
    """How well each site predicts the labels, and how many of the top units it has."""
    sections = []
    if report.layers is not None:
        text = f"A probe on all units of each site. {intervals_text(report.layers.evaluations[0])}"
        sections.append(Section("Score by site", text, site_plots(report.layers), is_wide=True))
    if len(report.asked.sites) > 1:
        text = f"Score of a probe on all units of a site, and how many of the top {report.asked.n:,} units it has."
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
        columns.append(Column(f"top by {method}", "bar", f"number of the top {report.asked.n:,} units by {method}"))
        for row, n in zip(rows, over_sites(ranking, ranking.order[: report.asked.n]).values, strict=True):
            row.append(n)
    return _without_empty(columns, rows)


def _top_unit_sections(report: Report) -> list[Section]:
    asked = report.asked
    methods = list(report.rankings)
    again = "fraction of splits that have it in their top units"
    columns = [
        Column("unit"),
        *(Column(method, "number", f"rank by {method}") for method in methods),
        *(Column(f"stability, {method}", "share", again) for method in methods),
        Column("sign", "text", f"whether it rises or falls with {asked.labels[-1] if asked.labels else 'the number'}"),
        Column("cluster", "number", "number of units in its cluster of correlated units"),
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
    text = f"Every unit in the top {asked.n:,} of any method, sorted by vote. Ranks are computed on all rows."
    if report.evaluations:
        text += " “Stability” is the fraction of splits whose training rows put it in the top units."
    sections = [Section("Top units", text, [_without_empty(columns, rows)], is_wide=True)]
    return sections + ([agreement_section(report.comparison)] if report.comparison is not None else [])


def _unit_count_sections(report: Report) -> list[Section]:
    """Score by number of units for every method, and the permutation test."""
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
    blocks: list[Block] = [Lines("units kept", metric, first.counts, lines, is_log, title=metric.capitalize())]
    if all(each.information for each in report.evaluations.values()) and first.entropy is not None:
        bits = [line_of(method, each.information) for method, each in report.evaluations.items()]
        bits.append(Line("shuffled labels", first.information_null, is_dashed=True))
        blocks.append(Lines("units kept", "bits", first.counts, bits, is_log_x=is_log, title="Mutual information"))
    text = f"A probe trained on the top n units only, scored on held-out rows. {intervals_text(first)}"
    sections = [
        Section("How many units are needed", text, blocks, is_wide=True),
        Section(f"With {first.n:,} units", setting_text(first), [_methods_table(report.evaluations)], is_wide=True),
    ]
    checks = [*permutation_sections(first), *ablated_inputs_sections(first)]
    if checks:
        blocks = [replace(block, title=part.title) for part in checks for block in part.blocks]
        text = " ".join(f"{part.title}: {part.about[0].lower()}{part.about[1:]}" for part in checks)
        sections.append(Section(f"Checks of {report.method}", text, blocks, is_wide=True))
    return sections


def _methods_table(evaluations: Mapping[Any, Evaluation], of: str = "method") -> Table:
    metric = next(iter(evaluations.values())).setting.metric
    columns = [Column(of), Column(metric, "bar"), Column("interval"), Column("minus all units", "number")]
    columns += [
        Column("random", "number", "the same number of random units"),
        Column("most frequent", "number", "always predicted"),
    ]
    columns += [Column("selectivity", "number"), Column("interval"), Column("bits", "number")]
    columns += [Column("stability", "number", "mean overlap of the top units of two splits"), Column("p", "number")]
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


def _label_sections(report: Report) -> list[Section]:
    """Multilabel rows: each label against the rest."""
    if not report.per_label:
        return []
    table = _methods_table(report.per_label, "label")
    columns = [*table.columns, Column("verdict")]
    verdicts = (_VERDICTS[verdict_of(each)] for each in report.per_label.values())
    rows = [(*row, verdict) for row, verdict in zip(table.rows, verdicts, strict=True)]
    text = f"Each label against the rest, with the top {report.asked.n:,} units by {report.method}."
    return [Section("Label by label", text, [Table(columns, rows)], is_wide=True)]


def _redundancy(report: Report) -> list[Section]:
    found = report.clusters
    if found is None:
        return []
    best = report.ranking.order[: report.asked.n]
    own = found.labels[best]
    like = "|r|" if found.absolute else "r"
    facts = [
        Fact(f"top {len(best):,} units", plural(len(np.unique(own)), "cluster")),
        Fact("all units", plural(len(found), "cluster"), f"average linkage of 1 − {like}, cut at {found.threshold:g}"),
    ]
    if found.dead is not None and len(found.dead):
        facts.append(Fact("dead units", f"{len(found.dead):,}", "each forms its own cluster"))
    blocks: list[Block] = [Facts(facts)]
    rows = _cluster_rows(found, own, report)
    if rows:
        blocks.append(
            Table(
                [Column("best unit"), *(Column(name, "number") for name in _CLUSTER_COLUMNS), Column("other members")],
                rows,
            )
        )
    text = f"Correlated units carry the same information. Clusters of the top units by {report.method}."
    return [Section("Redundancy", text, blocks, is_wide=report.comparison is None)]


def _cluster_rows(found: Clusters, own: Any, report: Report) -> list[tuple[Cell, ...]]:
    """Clusters of several units that contain top units."""
    name_of, members, sizes = report.ranking.name_of, found.members, found.sizes
    rows: list[tuple[Cell, ...]] = []
    for cluster in dict.fromkeys(own.tolist()):
        if sizes[cluster] < 2 or len(rows) >= _MOST_CLUSTERS:
            continue
        best = int(report.ranking.order[int(np.flatnonzero(own == cluster)[0])])
        others = [name_of(unit) for unit in members[cluster].tolist() if unit != best]
        rows.append((name_of(best), int(sizes[cluster]), int((own == cluster).sum()), listed(others, _MOST_MEMBERS)))
    return rows


def _inspected_unit_sections(report: Report) -> list[Section]:
    """One section per inspected unit."""
    sections = []
    n = max(len(report.words), len(report.histograms))
    for place in range(n):
        blocks: list[Block] = []
        unit = ""
        if report.words:
            words = report.words[place]
            unit = words.unit
            columns = [Column("word"), Column("score", "bar"), Column("occurrences", "number")]
            rows = list(zip(words.words, words.scores.tolist(), words.counts.tolist(), strict=True))
            blocks.append(Table(columns, rows, title="Top words, by mean z-score"))
        if report.histograms:
            unit = report.histograms[place].unit
            blocks.append(histogram_of(report.histograms[place], title="Distribution of values"))
        if report.contexts and report.contexts[place].contexts:
            blocks.append(contexts_text(report.contexts[place], title="Top contexts"))
        sections.append(Section(f"Unit {unit}", _ranks_text(report, unit), blocks))
    return sections


def _ranks_text(report: Report, unit: str) -> str:
    """The rank of a unit by each method, and the labels that rank it first."""
    index = _index(report, unit)
    ranks = ", ".join(f"{rank:,} by {method}" for method, rank in report.rank_of(index).items() if rank is not None)
    labels = [str(label) for label, each in report.ranking.per_label.items() if each.order[0] == index]
    is_several = len(report.ranking.per_label) > 2
    of = f" Ranked first for {listed(labels, _MOST_LABELS)}." if labels and is_several else ""
    return f"Rank {ranks}.{of}"


def _index(report: Report, unit: str) -> int:
    if report.ranking.names is None:
        return int(unit.removeprefix("#"))
    return next(int(place) for place in report.ranking.order if report.ranking.names[int(place)] == unit)


def _ablation_sections(report: Report) -> list[Section]:
    if report.ablation is None:
        return []
    parts = ablation_sections(report.ablation)
    replacement = f"Values are replaced by {_replacement_text(report.ablation.to)}."
    return [
        Section(f"Ablation of the top units: {part.title}", f"{part.about} {replacement}", part.blocks, len(parts) == 1)
        for part in parts
    ]


def _replacement_text(to: str) -> str:
    return {"zero": "zero", "mean": "their mean", "resample": "values of random rows"}.get(to, to)


def _provenance_section(report: Report) -> Section:
    asked = report.asked
    rows = [(name.replace("_", " "), _text(value)) for name, value in asked.provenance.items() if name != "versions"]
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in asked.versions.items())))
    made = Table([Column("what"), Column("")], rows)
    title = f"Run time, {sum(report.seconds.values()):,.0f} seconds in total"
    took = Table([Column("part"), Column("seconds", "bar")], list(report.seconds.items()), title=title)
    return Section("Provenance", "", [Prose(asked.call), made, took], is_wide=True)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    if isinstance(value, float) and value > 1e9:  # a time in seconds
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _without_empty(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """The table without empty columns."""
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    return Table([columns[place] for place in kept], [tuple(row[place] for place in kept) for row in rows])
