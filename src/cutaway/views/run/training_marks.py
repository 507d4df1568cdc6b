"""Tensors that training does not reach at a step: no gradient, not updated, frozen; with since when.

A mark says what was recorded and never what follows from the code: a gradient is missing only if gradients of other
tensors of that role were recorded at the same step, and `frozen` and the optimizer's groups are facts of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import CutawayError, DamagedError
from cutaway.core.sites import split_pass
from cutaway.core.unusual import Contents, contents_of
from cutaway.graph.dependencies.graph import Dependencies
from cutaway.store.format.records import GRAD, UPDATE, VALUE, Row, quantity_of
from cutaway.store.runs.step import Step
from cutaway.store.runs.step_facts import StepFacts
from cutaway.views.run.arrangement import dependencies_of, structure_hash
from cutaway.views.run.rows import RunRows

TrainingState = Literal["no gradient", "not updated", "frozen"]

_MOST_BACK: Final = 1_000
"""How many recorded steps to go back at most for "since"."""
_MOST_MATRICES: Final = 50


@dataclass(frozen=True, slots=True)
class TrainingMark:
    """A tensor that training does not reach."""

    row: int
    """The row of its value."""
    state: TrainingState
    since: int
    """The first recorded step of the same kind from which on it has been so without a break."""
    is_first: bool
    """Whether `since` is the first recorded step of the kind."""
    text: str
    """A few words for a label: "no gradient since step 0"."""
    about: str
    """A sentence with the reason, as far as it was recorded."""


def training_marks(rows: RunRows, at: Step) -> tuple[TrainingMark, ...]:
    """The marks of a step; none if no gradient was recorded at it."""
    now = _states(rows, at)
    if not now:
        return ()
    timeline = rows.run.timeline
    place = timeline.position(at.step)
    of_kind = timeline.kinds[at.kind]
    before = of_kind[: int(np.searchsorted(of_kind, place))][::-1][:_MOST_BACK].tolist() if place is not None else []
    since = dict.fromkeys(now, at.step)
    open_ = set(now)
    cache: dict[object, dict[int, tuple[TrainingState, str]]] = {}
    n_matrices = 0
    is_cut = False
    for earlier in before:
        if not open_:
            break
        step = rows.run.at(timeline.records[earlier].step)
        if not _has_gradients(step):
            continue
        key = _key(step)
        if key not in cache:
            cache[key] = _states(rows, step, with_updates=False, is_past=True)
        states = dict(cache[key])
        if any(now[row][0] == "not updated" for row in open_) and n_matrices < _MOST_MATRICES:
            n_matrices += 1
            states = _states(rows, step, is_past=True)
        open_ = {row for row in open_ if row in states and states[row][0] == now[row][0]}
        for row in open_:
            since[row] = step.step
    else:
        is_cut = len(before) == _MOST_BACK
    return tuple(_mark(row, *now[row], since[row], is_first=row in open_ and not is_cut) for row in now)


def _mark(row: int, state: TrainingState, why: str, since: int, *, is_first: bool) -> TrainingMark:
    words = "never updated" if state == "not updated" and is_first else state
    text = words if words == "never updated" else f"{words} since step {since:,}"
    start = f"since step {since:,}{', the first that was recorded' if is_first else ''}"
    return TrainingMark(row, state, since, is_first, text, f"{why}, {start}.")


def _states(
    rows: RunRows, at: Step, *, with_updates: bool = True, is_past: bool = False
) -> dict[int, tuple[TrainingState, str]]:
    """Row of a value → its state and why.

    Args:
        with_updates: whether to read the numbers of the step, for updates of zero.
        is_past: whether a step without a graph goes on with the states of a later one, if gradients are missing.
    """
    if not _has_gradients(at):
        return {}
    facts = _facts(at)
    frozen = frozenset(facts.frozen) if facts is not None else frozenset()
    of_role: dict[str, int] = {}
    have: dict[str, set[str]] = {GRAD: set(), UPDATE: set()}
    for row in at.rows:
        quantity = quantity_of(row.of)
        if quantity in have:
            have[quantity].add(row.base)
            if quantity == GRAD:
                of_role[row.role] = of_role.get(row.role, 0) + 1
    trained = _reached_by_training(rows, at, frozen)
    updates = _zero_updates(rows, at) if with_updates else frozenset()
    states: dict[int, tuple[TrainingState, str]] = {}
    for number, row in enumerate(rows.rows):
        if row.of != VALUE or row.role not in ("parameter", "value", "") or not rows.has(at, number):
            continue
        reached = frozenset({row.base}) if trained is None and is_past else trained
        found = _state(row, have, of_role, frozen, facts, reached, updates)
        if found is not None:
            states[number] = found
    return states


def _state(
    row: Row,
    have: dict[str, set[str]],
    of_role: dict[str, int],
    frozen: frozenset[str],
    facts: StepFacts | None,
    trained: frozenset[str] | None,
    zero_updates: frozenset[str],
) -> tuple[TrainingState, str] | None:
    names = {row.base, *row.bare_names}
    has_gradient = bool(names & have[GRAD])
    if row.role == "parameter":
        if names & frozen:
            return "frozen", "It does not require gradients"
        if not has_gradient and of_role.get("parameter"):
            return "no gradient", "No gradient reaches this parameter, while others have one"
        if facts is not None and any(not step.is_skipped for step in facts.optimizer_steps):
            if not names & set(facts.groups):
                return "not updated", "No optimizer that stepped has this parameter"
            if names & zero_updates:
                return "not updated", "The optimizer's update of this parameter is zero"
        return None
    if has_gradient or not of_role.get(row.role) or trained is None or not names & trained:
        return None
    return "no gradient", "No gradient reaches this tensor, although trained parameters come before it"


def _has_gradients(at: Step) -> bool:
    return any(quantity_of(row.of) == GRAD for row in at.rows)


def _facts(at: Step) -> StepFacts | None:
    try:
        return at.facts
    except DamagedError:
        return None


def _key(at: Step) -> object:
    """What the states of a step depend on, apart from its numbers."""
    facts = _facts(at)
    known = (
        None if facts is None else (facts.frozen, tuple(facts.groups), facts.n_skipped == len(facts.optimizer_steps))
    )
    return id(at.rows), known


def _zero_updates(rows: RunRows, at: Step) -> frozenset[str]:
    """Tensors with an update that is all zero."""
    try:
        matrix: NDArray[Any] = rows.matrix(at)
    except DamagedError:
        return frozenset()
    contents = contents_of(matrix, rows.statistics)
    return frozenset(
        row.base
        for number, row in enumerate(rows.rows)
        if quantity_of(row.of) == UPDATE and contents[number] == Contents.ZEROS
    )


def _reached_by_training(rows: RunRows, at: Step, frozen: frozenset[str]) -> frozenset[str] | None:
    """All tensors that come after a parameter that requires gradients; None without a recorded graph."""
    structure = structure_hash(at.about)
    if not structure:
        return None
    try:
        graph, hash_, _ = dependencies_of(rows, structure)
    except CutawayError:
        return None
    return _after(graph, frozen) if hash_ else None


def _after(graph: Dependencies, frozen: frozenset[str]) -> frozenset[str]:
    children: dict[str, list[str]] = {}
    for link in graph.links:
        children.setdefault(link.parent, []).append(link.child)
    sites = {node.name: frozenset({node.name, *node.sites}) for node in graph.nodes}
    todo = [node.name for node in graph.nodes if node.role == "parameter" and not sites[node.name] & frozen]
    met = set(todo)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in met:
                met.add(child)
                todo.append(child)
    return frozenset(site for name in met for site in _bare(sites[name]))


def _bare(sites: frozenset[str]) -> frozenset[str]:
    return sites | frozenset(split_pass(site)[0] for site in sites)
