"""What went wrong while recording, as sentences: the same for a recorder and for a loaded run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from cutaway.store.format.records import STEPS, Loss, Note

BY_CUTAWAY: Final[Mapping[str, str]] = {"by": "cutaway"}
"""Marks a note that reports a problem of the recording, as opposed to a note of the user."""

# Runs of earlier versions have no mark. These are the openings of all messages that those versions wrote.
_EARLIER: Final = re.compile(
    r"recording failed\b"
    r"|(updates|gradients of .*|gradients that may .*|the gradient of .*) (are|is|were|was) (left out|not recorded): "
    r"|the unit dimension of .* is unknown"
    r"|the graph of the model was not traced|the model was not traced \("
    r"|[0-9,]+ tensors? of a traced step\b",
    re.DOTALL,
)


def problems_of(notes: Iterable[Note], losses: Iterable[Loss]) -> tuple[str, ...]:
    """The problems of one session, in order of time: failures, what could not be seen, what could not be written."""
    # Sorted by stored time, because the recorder learns of losses and failures in two threads: this order is the
    # same in memory and on disk.
    entries: list[Note | Loss] = sorted([*filter(is_problem, notes), *losses], key=attrgetter("time"))
    return tuple(loss_text(entry) if isinstance(entry, Loss) else _note_text(entry) for entry in entries)


def is_problem(note: Note) -> bool:
    """Whether Cutaway wrote a note about a problem of the recording itself."""
    return note.about.get("by") == BY_CUTAWAY["by"] or (not note.about and bool(_EARLIER.match(note.text)))


def loss_text(loss: Loss) -> str:
    """
    >>> loss_text(Loss("steps", (4, 5, 6), "the disk is full", 0.0))
    'steps 4–6 could not be written: the disk is full'
    >>> loss_text(Loss("scalars", (4, 9), "the disk is full", 0.0))
    'scalars of 2 steps (4–9) could not be written: the disk is full'
    """
    return f"{lost_text(loss.what, loss.steps)} could not be written: {loss.reason}"


def lost_text(what: str, steps: tuple[int, ...]) -> str:
    """Names lost data by its steps.

    >>> lost_text("steps", (4,)), lost_text("scalars", (4, 5)), lost_text("note", ())
    ('step 4', 'scalars of steps 4–5', 'note')
    """
    if not steps:
        return what
    first, last = steps[0], steps[-1]
    if len(steps) == 1:
        numbers = f"step {first}"
    else:
        is_gapless = last - first + 1 == len(steps)
        numbers = f"steps {first}–{last}" if is_gapless else f"{len(steps):,} steps ({first}–{last})"
    return numbers if what == STEPS else f"{what} of {numbers}"


def _note_text(note: Note) -> str:
    return note.text if note.step is None else f"step {note.step}: {note.text}"
