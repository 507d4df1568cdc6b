"""The page of saliency: text colored by target, a map of all targets, and the highest scores."""

from __future__ import annotations

import math

import numpy as np

from cutaway.core.formatting import figures, percent, plural
from cutaway.results.lm.saliency import METHODS, Saliency
from cutaway.results.lm.token_names import quoted, readable
from cutaway.views.pages.model import (
    Cell,
    ColoredText,
    Column,
    Heatmap,
    Page,
    Prose,
    Section,
    Table,
    Text,
)
from cutaway.views.pages.provenance import model_name, provenance_section, summary_line

_MOST_NUMBERS = 12
"""Wider maps have colors only; the number shows on hover."""
_MOST_CELLS = 6000
_MOST_BEST = 5


def saliency_page(saliency: Saliency) -> Page:
    """The page of a saliency."""
    notes = [Prose(note) for note in saliency.notes]  # warnings come before the colors
    sections = [Section("Text", _text_intro(saliency), [*notes, _text(saliency, is_signed=False)], is_wide=True)]
    if saliency.has_signs:
        about = "Red supports the target, blue opposes it: sums over the embedding."
        sections.append(Section("For and against", about, [_text(saliency, is_signed=True)], is_wide=True))
    shown = _map(saliency)
    if shown is not None:
        sections.append(Section("All targets", "Rows are targets, columns are the tokens read.", [shown], is_wide=True))
    sections += [Section("Highest scores", "", [_best(saliency)], is_wide=True), _provenance(saliency)]
    about = summary_line(model_name(saliency.about), saliency.described, plural(len(saliency), "target"))
    return Page(saliency.title, about, sections, topic="language")


def _provenance(saliency: Saliency) -> Section:
    more = [(f"{saliency.unit}s read", f"{len(saliency.positions):,}")]
    if saliency.delta is not None and len(saliency.delta):
        worst = float(np.abs(saliency.delta).max())
        more.append(("largest error", f"{figures(worst)}: the sum of a row minus the change along the path"))
    summary = METHODS[saliency.method].summary if saliency.method in METHODS else ""
    return provenance_section(saliency.about, [("method", saliency.described), *more], summary)


def _text_intro(saliency: Saliency) -> str:
    what = "label" if (saliency.places < 0).all() else "target"
    how = "Choose a label" if what == "label" else "Point at a target, or choose one"
    about = f"{how}: the text is colored by how much each {saliency.unit} mattered to it"
    return about + (f", rather than to {_others(saliency)}." if saliency.contrast else ".")


def _others(saliency: Saliency) -> str:
    """What targets are contrasted with, if it is one token for all."""
    return readable(saliency.contrast[0]) if len(set(saliency.contrast)) == 1 else "another one"


def _text(saliency: Saliency, *, is_signed: bool) -> ColoredText:
    """One text per stack, one channel per target."""
    values = saliency.signed if is_signed else saliency.scores
    target_at: dict[int, int] = {}
    for target, place in enumerate(saliency.places.tolist()):
        target_at.setdefault(place, target)  # of several targets in one word the first
    texts = []
    for role in dict.fromkeys(saliency.roles):
        at = [i for i, each in enumerate(saliency.roles) if each == role]
        pieces = [_display_text(saliency, i) for i in at]
        places = set(saliency.places.tolist())
        marks = [j for j, i in enumerate(at) if i in places]
        chooses = [target_at.get(i, -1) for i in at] if marks else []
        title = {"encoder": "source"}.get(role, "written") if len(set(saliency.roles)) > 1 else ""
        texts.append(Text(pieces, [row[at].tolist() for row in values], title, marks, chooses))
    return ColoredText(
        _channels(saliency),
        texts,
        is_signed=is_signed,
        is_share=not is_signed,
        missing="not seen by this target",
        link="targets",
    )


def _map(saliency: Saliency) -> Heatmap | None:
    columns = [i for i in range(len(saliency.positions)) if not np.isnan(saliency.scores[:, i]).all()]
    if not columns or len(columns) * len(saliency) > _MOST_CELLS:
        return None
    return Heatmap(
        _channels(saliency),
        [readable(saliency.positions[i]) for i in columns],
        saliency.scores[:, columns].tolist(),
        low=0.0,
        is_share=True,
        shows_numbers=len(columns) <= _MOST_NUMBERS,
    )


def _best(saliency: Saliency) -> Table:
    columns = [Column("target"), _value_column(saliency)]
    if saliency.delta is not None:
        columns.append(Column("error", "number", "the sum minus the change along the path"))
    columns += [Column("highest"), Column("its share", "share"), Column("next")]
    rows: list[list[Cell]] = []
    for i, name in enumerate(_channels(saliency)):
        best = saliency.top(i, _MOST_BEST)
        value = float(saliency.values[i])
        row: list[Cell] = [name, value if math.isfinite(value) else None]
        if saliency.delta is not None:
            row.append(float(saliency.delta[i]))
        others = ", ".join(f"{quoted(piece)} {percent(score)}" for piece, score in best[1:])
        rows.append([*row, *([readable(best[0][0]), best[0][1]] if best else ["", None]), others])
    if not saliency.has_signs:
        columns.pop(1)
        rows = [[row[0], *row[2:]] for row in rows]
    return Table(columns, rows)


def _value_column(saliency: Saliency) -> Column:
    """The column of the explained value, or of the lead over the contrast."""
    if not saliency.contrast:
        return Column(saliency.explained, "number", "the explained value of the target")
    is_one = len(set(saliency.contrast)) == 1
    what = saliency.explained.removeprefix("lead in ")
    about = f"the {what} of the target minus that of {_others(saliency)}: positive if the target is more likely"
    return Column(f"lead over {_others(saliency)}" if is_one else "lead", "number", about)


def _channels(saliency: Saliency) -> list[str]:
    """The targets with their numbers, because texts may repeat."""
    is_said = len(set(saliency.contrast)) == 1 < len(saliency)  # once, in the section's text
    others = () if is_said else saliency.contrast
    against = [f" rather than {readable(each)}" for each in others] or [""] * len(saliency)
    return [
        f"{i} {readable(piece)}{other}" for i, (piece, other) in enumerate(zip(saliency.targets, against, strict=True))
    ]


def _display_text(saliency: Saliency, i: int) -> str:
    return saliency.positions[i] if saliency.unit == "token" else f" {saliency.positions[i]}"
