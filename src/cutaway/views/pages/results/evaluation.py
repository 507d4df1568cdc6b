"""Pages about evaluations: a curve over the units kept, controls, nulls; and all sites of a model beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.core.formatting import fixed
from cutaway.results.evaluation import Estimate, Evaluation, Layers
from cutaway.views.pages.model import (
    Bars,
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

_MOST_UNITS = 50


def evaluation_page(found: Evaluation) -> Page:
    """How well the units do, beside all of them, random ones, memory and chance."""
    about = found.setting
    sections = [Section("In short", "", [Facts(_in_short(found)), *prose_of(found.notes)], is_wide=True)]
    if found.kept:
        text = f"Of a probe that learns from the n best units alone, on rows it has not seen. {intervals(found)}"
        sections.append(Section("Units kept", text, [_curve(found), *_table(found)], is_wide=True))
    if found.information:
        text = "Bits that Gaussians on the n best units tell of the class, on rows they were not fitted to."
        sections.append(Section("Mutual information", text, [_bits(found)]))
    sections += [*inputs_section(found), *permuted_section(found)]
    if len(found.chosen):
        text = f"In what share of the splits a unit is among the {found.n:,} best."
        sections.append(Section("Units found again", text, [_chosen(found)]))
    return Page(f"Evaluation of {about.method}", told(found), sections, topic="neurons")


def layers_page(found: Layers) -> Page:
    """All sites: how well each tells the labels."""
    first = found.evaluations[0]
    columns = [Column("site", "number"), Column("name"), Column(first.setting.metric, "bar"), Column("interval")]
    columns += [Column("selectivity", "bar", "the score less that of the control task"), Column("interval")]
    columns += [Column("bits", "bar"), Column("interval")]
    rows = [
        (
            place + 1,
            site,
            *cells_of(found.score[place]),
            *cells_of(found.selectivity[place]),
            *cells_of(found.information[place]),
        )
        for place, site in enumerate(found.sites)
    ]
    facts = [
        Fact("best site", found.best, str(max(found.score, key=float))),
        Fact("rows", f"{first.setting.n_rows:,}", f"{first.setting.n_groups:,} {first.setting.groups}"),
    ]
    if first.majority is not None:
        facts.append(Fact("most frequent class", fixed(first.majority), "if it is always said"))
    sections = [
        Section("In short", "", [Facts(facts), *prose_of(first.notes)], is_wide=True),
        Section("Over the sites", f"All units of a site. {intervals(first)}", layers_plates(found), is_wide=True),
        Section("Sites", "", [Table(columns, rows)], is_wide=True),
    ]
    return Page("Layers", told(first), sections, topic="neurons")


def layers_plates(found: Layers) -> list[Plate]:
    """The score, selectivity and bits over the sites, as far as they are known."""
    first = found.evaluations[0]
    x = [float(place) for place in range(1, len(found) + 1)]
    lines = [line_of(first.setting.metric, found.score)]
    if first.control_all is not None:
        lines.append(line_of("control task", [each.control_all for each in found.evaluations], is_dashed=True))
    if first.majority is not None:
        lines.append(Line("most frequent class", [first.majority] * len(found), is_dashed=True))
    plates: list[Plate] = [Lines("site", first.setting.metric, x, lines, title=first.setting.metric.capitalize())]
    if first.control_all is not None:
        chosen = [line_of("above the control task", found.selectivity)]
        plates.append(Lines("site", "selectivity", x, chosen, title="Selectivity"))
    if first.information_all is not None and first.entropy is not None:
        bits = [line_of("held-out bits", found.information)]
        bits.append(Line("all there is to tell", [first.entropy] * len(found), is_dashed=True))
        plates.append(Lines("site", "bits", x, bits, title="Mutual information"))
    return plates


def inputs_section(found: Evaluation) -> list[Section]:
    """What a probe on all units does without some; nothing where it was not asked."""
    text = "A probe learned from all units; on the test rows, some are blotted out. It does not learn again."
    return [Section("Inputs ablated", text, [_ablations(found)])] if found.ablated else []


def permuted_section(found: Evaluation) -> list[Section]:
    """The score among those of permuted labels; nothing where there was no test."""
    text = f"Everything was done again {len(found.null):,} times with permuted labels: their mean, least and largest."
    return [Section("Permuted labels", text, [_null(found)])] if len(found.null) else []


def _in_short(found: Evaluation) -> list[Fact]:
    about = found.setting
    facts = [Fact(about.metric, fixed(found.score.value), f"{ends_of(found.score)} with {found.n:,} units")]
    if found.kept:
        facts.append(
            Fact("all units", fixed(found.all_units.value), f"{ends_of(found.all_units)}, {about.n_units:,} units")
        )
        facts.append(Fact("difference", fixed(found.delta[-1].value, sign="+"), ends_of(found.delta[-1])))
    if found.random:
        facts.append(Fact("random units", fixed(found.random[-1].value), f"{ends_of(found.random[-1])}, as many"))
    if found.majority is not None:
        facts.append(Fact("most frequent class", fixed(found.majority), "if it is always said"))
    selectivity = found.selectivity[-1] if found.selectivity else found.selectivity_all
    if selectivity is not None:
        facts.append(Fact("selectivity", fixed(selectivity.value), f"{ends_of(selectivity)} above the control task"))
    if found.information and found.entropy is not None:
        bits = found.information[-1]
        facts.append(Fact("mutual information", f"{bits.value:.3f} bits", f"{ends_of(bits)} of {found.entropy:.3f}"))
    if found.information_all is not None:
        bits = found.information_all
        facts.append(Fact("of all units", f"{bits.value:.3f} bits", f"{ends_of(bits)}, as the probe tells"))
    if found.p_value is not None:
        facts.append(
            Fact("p", f"{found.p_value:.3g}", f"{len(found.null):,} permutations, mean {fixed(found.null.mean())}")
        )
    if len(found.per_seed) > 1:
        spread = f"{found.per_seed.min():.3f} to {found.per_seed.max():.3f}"
        facts.append(Fact("over seeds", f"± {found.per_seed.std(ddof=1):.3f}", spread))
    if found.stability:
        facts.append(Fact("same units again", f"{found.stability[-1]:.2f}", "overlap of the best units of two splits"))
    return facts


def told(found: Evaluation) -> str:
    about = found.setting
    n_folds = f"{about.n_folds} folds" if about.n_folds > 1 else "one split"
    n_seeds = f"{len(about.seeds)} seed{'s' if len(about.seeds) > 1 else ''}"
    apart = "" if about.groups == "rows" else f", {about.groups} whole on one side"
    return f"{about.n_rows:,} rows, {about.n_groups:,} {about.groups}; {n_folds}{apart}; {n_seeds}."


def intervals(found: Evaluation) -> str:
    about = found.setting
    more = f", widened {about.widened:.2f} times for training rows that folds share" if about.widened > 1 else ""
    return f"Intervals hold {100 * about.level:.0f} % of the resamples of whole {about.groups}{more}."


def prose_of(notes: Sequence[str]) -> list[Plate]:
    return [Prose("\n\n".join(f"{note[:1].upper()}{note[1:]}" for note in notes))] if notes else []


def _curve(found: Evaluation) -> Lines:
    lines = [line_of(f"best by {found.setting.method}", found.kept)]
    if found.random:
        lines.append(line_of("random units", found.random))
    if found.control:
        lines.append(line_of("control task", found.control))
    lines.append(Line("all units", [found.all_units.value] * len(found.counts), is_dashed=True))
    if found.majority is not None:
        lines.append(Line("most frequent class", [found.majority] * len(found.counts), is_dashed=True))
    return Lines("units kept", found.setting.metric, found.counts, lines, is_log_x=len(found.counts) > 2)


def _table(found: Evaluation) -> list[Plate]:
    named = [(found.setting.metric, found.kept), ("less all units", found.delta), ("selectivity", found.selectivity)]
    named = [(name, each) for name, each in named if each]
    columns = [Column("units", "number")]
    for name, _ in named:
        columns += [Column(name, "number"), Column("interval")]
    rows = [(n, *(cell for _, each in named for cell in cells_of(each[row]))) for row, n in enumerate(found.counts)]
    return [Table(columns, rows)]


def _bits(found: Evaluation) -> Lines:
    lines = [line_of("bits", found.information), Line("shuffled labels", found.information_null, is_dashed=True)]
    if found.entropy is not None:
        lines.append(Line("all there is to tell", [found.entropy] * len(found.counts), is_dashed=True))
    return Lines("units", "bits", found.counts, lines, is_log_x=len(found.counts) > 2)


def _ablations(found: Evaluation) -> Lines:
    lines = []
    for action, to in dict.fromkeys((each.action, each.to) for each in found.ablated):
        name = f"{'others' if action == 'keep' else 'best'} to {'zero' if to == 'zero' else 'their mean'}"
        lines.append(line_of(name, [each.score for each in found.ablated if (each.action, each.to) == (action, to)]))
    lines.append(Line("untouched", [found.all_units.value] * len(found.counts), is_dashed=True))
    return Lines("best units", found.setting.metric, found.counts, lines, is_log_x=len(found.counts) > 2)


def _null(found: Evaluation) -> Bars:
    """The score beside the mean of those of permuted labels, with the least and the largest of them."""
    value, null = float(found.per_seed[0]), found.null
    names = ("the labels", f"{len(null):,} permutations")
    ends = ([value, float(null.min())], [value, float(null.max())])
    return Bars(names, [value, float(null.mean())], *ends, is_signed=min(ends[0]) < 0)


def _chosen(found: Evaluation) -> Table:
    units = found.units[:_MOST_UNITS]
    rows = [
        (f"#{unit}" if found.names is None else found.names[unit], float(found.chosen[unit])) for unit in units.tolist()
    ]
    return Table([Column("unit"), Column("share of splits", "share")], rows)


def line_of(name: str, estimates: Sequence[Estimate | None], *, is_dashed: bool = False) -> Line:
    def part(which: str) -> list[float | None]:
        return [None if each is None else getattr(each, which) for each in estimates]

    return Line(name, part("value"), part("low"), part("high"), is_dashed=is_dashed)


def cells_of(estimate: Estimate | None) -> tuple[float | None, str]:
    return (None, "") if estimate is None else (estimate.value, ends_of(estimate))


def ends_of(estimate: Estimate) -> str:
    return f"[{fixed(estimate.low)}, {fixed(estimate.high)}]"
