"""The section of a beam search: the beams as an indented tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutaway.core.formatting import figures
from cutaway.results.lm.token_names import readable
from cutaway.results.lm.tokens import Beams
from cutaway.views.pages.model import Block, Cell, ColoredText, Column, Section, Table, Text

_MOST_LINES = 200
_MOST_TEXTS = 12


def beams_section(beams: Beams) -> Section:
    """The tree, and the final beams as texts."""
    about = (
        "All beams at all steps. A line is what a beam generated before it split; its continuations are below it, "
        "indented. Scores are sums of log-probabilities; the returned sequence is marked."
    )
    rows = [row for _, row in zip(range(_MOST_LINES), _lines(beams), strict=False)]
    columns = [
        Column("beam"),
        Column("steps"),
        Column("log-probability", "number", "of the tokens of this line"),
        Column("score", "number", "the sum up to this line"),
        Column("returned"),
    ]
    return Section("Beams", about, [Table(columns, rows), *_texts(beams)], is_wide=True)


def _lines(beams: Beams) -> Iterator[list[Cell]]:
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(beams.parents.tolist()):
        below.setdefault(parent, []).append(node)
    for nodes in below.values():
        nodes.sort(key=lambda node: (not beams.is_best[node], -beams.scores[node]))
    waiting = [(node, 0) for node in reversed(below.get(-1, []))]
    while waiting:
        node, depth = waiting.pop()
        alone = [node]
        while len(after := below.get(alone[-1], [])) == 1 and beams.is_best[after[0]] == beams.is_best[node]:
            alone.append(after[0])
        first, last = int(beams.steps[alone[0]]), int(beams.steps[alone[-1]])
        yield [
            "│ " * depth + "".join(readable(beams.pieces[each]) for each in alone),
            str(first) if first == last else f"{first}–{last}",
            float(beams.logprobs[alone].sum()),
            float(beams.scores[alone[-1]]),
            "✓" if beams.is_best[alone[-1]] else "",
        ]
        waiting += [(each, depth + 1) for each in reversed(after)]


def _texts(beams: Beams) -> list[Block]:
    """The final beams, best first, each token colored by its probability."""
    ends = sorted(set(range(len(beams))) - set(beams.parents.tolist()), key=lambda node: -float(beams.scores[node]))
    last = int(beams.steps.max(initial=0))
    whole = [node for node in ends if beams.steps[node] == last or beams.is_best[node]] or ends
    texts = []
    for node in whole[:_MOST_TEXTS]:
        path = [node]
        while beams.parents[path[-1]] >= 0:
            path.append(int(beams.parents[path[-1]]))
        path.reverse()
        title = f"score {figures(float(beams.scores[node]))}{', returned' if beams.is_best[node] else ''}"
        texts.append(Text([beams.pieces[each] for each in path], [np.exp(beams.logprobs[path]).tolist()], title))
    return [ColoredText(["probability"], texts, is_signed=False, most=[1.0], title="As texts")] if texts else []
