"""Pages of evaluations (score by number of units, controls, permutation test) and of `Layers`."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.core.formatting import fixed, plural
from cutaway.core.units.unit_sites import unit_name
from cutaway.results.neurons.evaluation import Estimate, Evaluation, Layers
from cutaway.views.pages.model import (
    Bars,
    Block,
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

_MOST_UNITS = 50


def evaluation_page(evaluation: Evaluation) -> Page:
    """The page of an `Evaluation`."""
    about = evaluation.setting
    sections = [
        Section("Summary", "", [Facts(_summary_facts(evaluation)), *notes_prose(evaluation.notes)], is_wide=True)
    ]
    if evaluation.kept:
        text = f"A probe trained on the top n units only, scored on held-out rows. {intervals_text(evaluation)}"
        sections.append(
            Section("Score by number of units", text, [_curve(evaluation), *_score_table(evaluation)], is_wide=True)
        )
    if evaluation.information:
        text = (
            "Mutual information in bits between the top n units and the class, estimated by Gaussians on held-out rows."
        )
        sections.append(Section("Mutual information", text, [_information_curve(evaluation)]))
    sections += [*ablated_inputs_sections(evaluation), *permutation_sections(evaluation)]
    if len(evaluation.chosen):
        text = f"The fraction of splits that have a unit in their top {evaluation.n:,}."
        sections.append(Section("Stability of the top units", text, [_stability_table(evaluation)]))
    return Page(f"Evaluation of {about.method}", setting_text(evaluation), sections, topic="neurons")


def layers_page(layers: Layers) -> Page:
    """The page of `Layers`: how well each site predicts the labels."""
    first = layers.evaluations[0]
    columns = [Column("site", "number"), Column("name"), Column(first.setting.metric, "bar"), Column("interval")]
    columns += [Column("selectivity", "bar", "score minus score on the control task"), Column("interval")]
    columns += [Column("bits", "bar"), Column("interval")]
    rows = [
        (
            place + 1,
            site,
            *cells_of(layers.score[place]),
            *cells_of(layers.selectivity[place]),
            *cells_of(layers.information[place]),
        )
        for place, site in enumerate(layers.sites)
    ]
    facts = [
        Fact("best site", layers.best, str(max(layers.score, key=float))),
        Fact("rows", f"{first.setting.n_rows:,}", f"{first.setting.n_groups:,} {first.setting.groups}"),
    ]
    if first.majority is not None:
        facts.append(Fact("most frequent class", fixed(first.majority), "always predicted"))
    sections = [
        Section("Summary", "", [Facts(facts), *notes_prose(first.notes)], is_wide=True),
        Section(
            "Score by site",
            f"A probe on all units of each site. {intervals_text(first)}",
            site_plots(layers),
            is_wide=True,
        ),
        Section("Sites", "", [Table(columns, rows)], is_wide=True),
    ]
    return Page("Layers", setting_text(first), sections, topic="neurons")


def site_plots(layers: Layers) -> list[Block]:
    """Plots of the score, selectivity and mutual information by site, where known."""
    first = layers.evaluations[0]
    x = [float(place) for place in range(1, len(layers) + 1)]
    lines = [line_of(first.setting.metric, layers.score)]
    if first.control_all is not None:
        lines.append(line_of("control task", [each.control_all for each in layers.evaluations], is_dashed=True))
    if first.majority is not None:
        lines.append(Line("most frequent class", [first.majority] * len(layers), is_dashed=True))
    blocks: list[Block] = [Lines("site", first.setting.metric, x, lines, title=first.setting.metric.capitalize())]
    if first.control_all is not None:
        chosen = [line_of("score minus control task", layers.selectivity)]
        blocks.append(Lines("site", "selectivity", x, chosen, title="Selectivity"))
    if first.information_all is not None and first.entropy is not None:
        bits = [line_of("bits on held-out rows", layers.information)]
        bits.append(Line("entropy of the classes", [first.entropy] * len(layers), is_dashed=True))
        blocks.append(Lines("site", "bits", x, bits, title="Mutual information"))
    return blocks


def ablated_inputs_sections(evaluation: Evaluation) -> list[Section]:
    """Score of a probe on all units with some inputs ablated; empty if not measured."""
    text = "A probe trained on all units, with some inputs replaced on the test rows. It is not trained again."
    return [Section("Ablated inputs", text, [_ablation_curves(evaluation)])] if evaluation.ablated else []


def permutation_sections(evaluation: Evaluation) -> list[Section]:
    """The score compared with permuted labels; empty without a permutation test."""
    text = f"Everything repeated {len(evaluation.null):,} times with permuted labels: mean, minimum and maximum."
    return [Section("Permutation test", text, [_null_bars(evaluation)])] if len(evaluation.null) else []


def _summary_facts(evaluation: Evaluation) -> list[Fact]:
    about = evaluation.setting
    facts = [
        Fact(
            about.metric,
            fixed(evaluation.score.value),
            f"{interval_text(evaluation.score)} with {evaluation.n:,} units",
        )
    ]
    if evaluation.kept:
        facts.append(
            Fact(
                "all units",
                fixed(evaluation.all_units.value),
                f"{interval_text(evaluation.all_units)}, {about.n_units:,} units",
            )
        )
        facts.append(
            Fact("difference", fixed(evaluation.delta[-1].value, sign="+"), interval_text(evaluation.delta[-1]))
        )
    if evaluation.random:
        facts.append(
            Fact(
                "random units",
                fixed(evaluation.random[-1].value),
                f"{interval_text(evaluation.random[-1])}, {evaluation.n:,} units",
            )
        )
    if evaluation.majority is not None:
        facts.append(Fact("most frequent class", fixed(evaluation.majority), "always predicted"))
    selectivity = evaluation.selectivity[-1] if evaluation.selectivity else evaluation.selectivity_all
    if selectivity is not None:
        facts.append(
            Fact("selectivity", fixed(selectivity.value), f"{interval_text(selectivity)}, score minus control task")
        )
    if evaluation.information and evaluation.entropy is not None:
        bits = evaluation.information[-1]
        facts.append(
            Fact(
                "mutual information",
                f"{bits.value:.3f} bits",
                f"{interval_text(bits)}, at most {evaluation.entropy:.3f}",
            )
        )
    if evaluation.information_all is not None:
        bits = evaluation.information_all
        facts.append(Fact("with all units", f"{bits.value:.3f} bits", f"{interval_text(bits)}, by the probe"))
    if evaluation.p_value is not None:
        facts.append(
            Fact(
                "p",
                f"{evaluation.p_value:.3g}",
                f"{len(evaluation.null):,} permutations, mean {fixed(evaluation.null.mean())}",
            )
        )
    if len(evaluation.per_seed) > 1:
        spread = f"{evaluation.per_seed.min():.3f} to {evaluation.per_seed.max():.3f}"
        facts.append(Fact("over seeds", f"± {evaluation.per_seed.std(ddof=1):.3f}", spread))
    if evaluation.stability:
        facts.append(
            Fact("stability", f"{evaluation.stability[-1]:.2f}", "mean overlap of the top units of two splits")
        )
    return facts


def setting_text(evaluation: Evaluation) -> str:
    about = evaluation.setting
    n_folds = f"{about.n_folds} folds" if about.n_folds > 1 else "one split"
    n_seeds = plural(len(about.seeds), "seed")
    apart = "" if about.groups == "rows" else f" that keep {about.groups} together"
    return f"{about.n_rows:,} rows, {about.n_groups:,} {about.groups}; {n_folds}{apart}; {n_seeds}."


def intervals_text(evaluation: Evaluation) -> str:
    about = evaluation.setting
    more = f", widened by {about.widened:.2f} because folds share training rows" if about.widened > 1 else ""
    return f"Intervals cover {100 * about.level:.0f} % of bootstrap resamples of {about.groups}{more}."


def notes_prose(notes: Sequence[str]) -> list[Block]:
    return [Prose("\n\n".join(f"{note[:1].upper()}{note[1:]}" for note in notes))] if notes else []


def _curve(evaluation: Evaluation) -> Lines:
    lines = [line_of(f"top units by {evaluation.setting.method}", evaluation.kept)]
    if evaluation.random:
        lines.append(line_of("random units", evaluation.random))
    if evaluation.control:
        lines.append(line_of("control task", evaluation.control))
    lines.append(Line("all units", [evaluation.all_units.value] * len(evaluation.counts), is_dashed=True))
    if evaluation.majority is not None:
        lines.append(Line("most frequent class", [evaluation.majority] * len(evaluation.counts), is_dashed=True))
    return Lines(
        "number of units", evaluation.setting.metric, evaluation.counts, lines, is_log_x=len(evaluation.counts) > 2
    )


def _score_table(evaluation: Evaluation) -> list[Block]:
    named = [
        (evaluation.setting.metric, evaluation.kept),
        ("minus all units", evaluation.delta),
        ("selectivity", evaluation.selectivity),
    ]
    named = [(name, each) for name, each in named if each]
    columns = [Column("units", "number")]
    for name, _ in named:
        columns += [Column(name, "number"), Column("interval")]
    rows = [
        (n, *(cell for _, each in named for cell in cells_of(each[row]))) for row, n in enumerate(evaluation.counts)
    ]
    return [Table(columns, rows)]


def _information_curve(evaluation: Evaluation) -> Lines:
    lines = [
        line_of("bits", evaluation.information),
        Line("shuffled labels", evaluation.information_null, is_dashed=True),
    ]
    if evaluation.entropy is not None:
        lines.append(Line("entropy of the classes", [evaluation.entropy] * len(evaluation.counts), is_dashed=True))
    return Lines("number of units", "bits", evaluation.counts, lines, is_log_x=len(evaluation.counts) > 2)


def _ablation_curves(evaluation: Evaluation) -> Lines:
    lines = []
    for action, to in dict.fromkeys((each.action, each.to) for each in evaluation.ablated):
        name = f"{'other units' if action == 'keep' else 'top units'} to {'zero' if to == 'zero' else 'their mean'}"
        lines.append(
            line_of(name, [each.score for each in evaluation.ablated if (each.action, each.to) == (action, to)])
        )
    lines.append(Line("not ablated", [evaluation.all_units.value] * len(evaluation.counts), is_dashed=True))
    return Lines(
        "number of top units", evaluation.setting.metric, evaluation.counts, lines, is_log_x=len(evaluation.counts) > 2
    )


def _null_bars(evaluation: Evaluation) -> Bars:
    """The score next to the mean of the permuted scores, with their minimum and maximum."""
    value, null = float(evaluation.per_seed[0]), evaluation.null
    names = ("true labels", f"{len(null):,} permutations")
    ends = ([value, float(null.min())], [value, float(null.max())])
    return Bars(names, [value, float(null.mean())], *ends, is_signed=min(ends[0]) < 0)


def _stability_table(evaluation: Evaluation) -> Table:
    units = evaluation.units[:_MOST_UNITS]
    rows = [(unit_name(evaluation.names, unit), float(evaluation.chosen[unit])) for unit in units.tolist()]
    return Table([Column("unit"), Column("fraction of splits", "share")], rows)


def line_of(name: str, estimates: Sequence[Estimate | None], *, is_dashed: bool = False) -> Line:
    def part(which: str) -> list[float | None]:
        return [None if each is None else getattr(each, which) for each in estimates]

    return Line(name, part("value"), part("low"), part("high"), is_dashed=is_dashed)


def cells_of(estimate: Estimate | None) -> tuple[float | None, str]:
    return (None, "") if estimate is None else (estimate.value, interval_text(estimate))


def interval_text(estimate: Estimate) -> str:
    return f"[{fixed(estimate.low)}, {fixed(estimate.high)}]"
