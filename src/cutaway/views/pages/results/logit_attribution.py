"""The page of direct logit attribution: contributions by layer, head and neuron."""

from __future__ import annotations

import numpy as np

from cutaway.core.formatting import figures, plural
from cutaway.results.lm.logit_attribution import LogitAttribution
from cutaway.results.lm.token_names import readable
from cutaway.views.pages.model import Bars, Block, Cell, Column, Heatmap, Page, Prose, Section, Table
from cutaway.views.pages.provenance import model_name, provenance_section, summary_line
from cutaway.views.pages.site_names import neuron_name

_MOST_BARS = 4
_MOST_CELLS = 6000
_MOST_ROWS = 60
_MOST_BEST = 6
_MOST_MAPS = 4


def logit_attribution_page(found: LogitAttribution) -> Page:
    """The page of a logit attribution."""
    sections = _layers(found)
    if found.by == "head":
        sections += _heads(found)
    if found.by in ("component", "mlp"):
        sections.append(_parts(found))
    sections += [_best(found), _provenance(found)]
    parts = f"{found.n_parts:,} parts that sum to the {'lead' if found.contrast else 'logit'}"
    about = summary_line(model_name(found.about), plural(len(found), "target"), parts)
    return Page(found.title, about, sections, topic="language")


def _provenance(found: LogitAttribution) -> Section:
    about = (
        "The residual stream after the last layer is the sum of everything added to it. With the scale of the final "
        f"norm frozen, the {found.what} is the sum of the direct contributions of all parts."
    )
    worst = float(np.abs(found.gap).max(initial=0))
    return provenance_section(
        found.about,
        [("parts", f"{found.n_parts:,}, by {found.by}"), ("largest error of a sum", figures(worst, 2))],
        about,
    )


def _layers(found: LogitAttribution) -> list[Section]:
    """Embedding, layers and the rest, for each target."""
    names, values = _by_layer(found)
    blocks: list[Block] = [Prose(note) for note in found.notes]
    shown = range(min(len(found), _MOST_BARS))
    for target in shown:
        blocks.append(
            Bars(names[::-1], values[target, ::-1].tolist(), is_signed=True, title=_target_title(found, target))
        )
    more = f" The first {_MOST_BARS} targets; the map shows all." if len(found) > _MOST_BARS else ""
    sections = [
        Section(
            "By layer",
            f"Contribution of each layer, last layer on top: right supports, left opposes.{more}",
            blocks,
            is_wide=True,
        )
    ]
    if len(found) > 1 and len(found) * len(names) <= _MOST_CELLS:
        columns = _targets(found)
        block = Heatmap(
            names[::-1], columns, values.T[::-1].tolist(), is_diverging=True, shows_numbers=len(columns) <= 12
        )
        sections.append(
            Section("All targets", "Rows are layers, last on top; columns are targets.", [block], is_wide=True)
        )
    return sections


def _by_layer(found: LogitAttribution) -> tuple[list[str], np.ndarray]:
    """Names, and contributions (target, name)."""
    layers = found.layers()
    start: list[tuple[str, np.ndarray]] = []
    end: list[tuple[str, np.ndarray]] = []
    at = 0
    for group in found.groups:
        value = found.values[:, at : at + group.n].sum(1)
        if group.layer < 0:
            (end if group.kind == "bias" else start).append((group.name, value))
        at += group.n
    used = [layer for layer in range(layers.shape[1]) if np.any(layers[:, layer]) or found.by != "mlp"]
    names = [*(name for name, _ in start), *(f"layer {layer}" for layer in used), *(name for name, _ in end)]
    columns = [*(value for _, value in start), *(layers[:, layer] for layer in used), *(value for _, value in end)]
    return names, np.stack(columns, 1)


def _heads(found: LogitAttribution) -> list[Section]:
    """Layer × head: the mean over targets, and the first of them."""
    sections = []
    for is_cross in (False, True):
        groups = []
        at = 0
        for group in found.groups:
            if group.kind == "head" and group.is_cross == is_cross:
                groups.append((group, found.values[:, at : at + group.n]))
            at += group.n
        if not groups:
            continue
        values = np.stack([value for _, value in groups], 1)  # (target, layer, head)
        rows = [f"layer {group.layer}" for group, _ in groups]
        columns = [str(head) for head in range(values.shape[2])]
        maps = [("mean over targets", values.mean(0))] if len(found) > 1 else []
        maps += [(_target_title(found, target), values[target]) for target in range(min(len(found), _MOST_MAPS))]
        blocks = [
            Heatmap(rows[::-1], columns, each[::-1].tolist(), is_diverging=True, shows_numbers=False, title=title)
            for title, each in maps
        ]
        title = "Cross-attention heads" if is_cross else "Heads"
        sections.append(Section(title, "Rows are layers, last on top; columns are heads.", blocks, is_wide=True))
    return sections


def _parts(found: LogitAttribution) -> Section:
    """Parts × targets."""
    names, targets = found.names, _targets(found)
    values = found.values.T
    keep = np.argsort(-np.abs(values).max(1), kind="stable")[: max(1, _MOST_CELLS // max(len(targets), 1))]
    keep = np.sort(keep)[::-1]
    block = Heatmap(
        [names[i] for i in keep.tolist()],
        targets,
        values[keep].tolist(),
        is_diverging=True,
        shows_numbers=len(targets) <= 12,
    )
    return Section("Parts", "Rows are parts, last on top; columns are targets.", [block], is_wide=True)


def _best(found: LogitAttribution) -> Section:
    """The parts with the largest contribution to each target."""
    what = "lead" if found.contrast else "logit"
    is_neuron = found.by == "neuron"
    columns = [Column("target"), Column("part"), Column("contribution", "number"), Column(f"of the {what}", "share")]
    columns += [Column("site", about="for cutaway.edit")] if is_neuron else []
    n = max(3, min(_MOST_BEST, _MOST_ROWS // max(len(found), 1)))
    rows: list[list[Cell]] = []
    for target, name in enumerate(_targets(found)):
        logit = float(found.logits[target])
        for part, value in _top(found, target, n):
            row: list[Cell] = [name, neuron_name(part), value, abs(value / logit) if logit else None]
            rows.append([*row, part] if is_neuron else row)
    about = "Positive values support the target, negative ones oppose it."
    if is_neuron:
        about += " cutaway.edit(model, at=site, to=0) ablates a neuron."
    return Section("Largest contributions", about, [Table(columns, rows[:400])], is_wide=True)


def _top(found: LogitAttribution, target: int, n: int) -> list[tuple[str, float]]:
    """For neurons, only neurons: whole attention layers would hide them."""
    if found.by not in ("neuron", "head"):
        return found.top(target, n)
    row = found.values[target]
    at, places = 0, []
    for group in found.groups:
        if group.kind == found.by:
            places.append(np.arange(at, at + group.n))
        at += group.n
    own = np.concatenate(places)
    best = own[np.argsort(-np.abs(row[own]), kind="stable")[:n]]
    return [(found.name(i), float(row[i])) for i in best.tolist()]


def _targets(found: LogitAttribution) -> list[str]:
    return [f"{i} {readable(piece)}" for i, piece in enumerate(found.targets)]


def _target_title(found: LogitAttribution, target: int) -> str:
    against = f" rather than {readable(found.contrast[target])}, lead" if found.contrast else ", logit"
    return f"{target} {readable(found.targets[target])}{against} {figures(float(found.logits[target]))}"
