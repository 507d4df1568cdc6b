"""Checks each op of a trace: replays it on the saved values of its parents, and perturbs each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.model.rng_state import preserve_rng
from cutaway.capture.model.sharding import n_processes
from cutaway.capture.replay.call import (
    FunctionCall,
    MissingValue,
    after_alias_write,
    function_calls,
    generators_of,
    inputs_of,
    replay_call,
    saved_value,
)
from cutaway.capture.torch_functions import BACKWARD, Opaque
from cutaway.capture.validation.compare import bit_equal, deviation, difference_text, has_no_numbers, is_close
from cutaway.capture.validation.perturb import (
    CONCATENATING,
    SENSITIVE,
    fill_with_numbers,
    is_linear_algebra,
    perturbations,
)
from cutaway.capture.validation.slices import smaller
from cutaway.core.formatting import listed, plural
from cutaway.core.progress import progress
from cutaway.graph.analysis.consistency import problems
from cutaway.graph.analysis.nonfinite import UNDEFINED
from cutaway.graph.control_flow.source import is_users
from cutaway.graph.op import Op
from cutaway.graph.tables import ALIAS, OPAQUE
from cutaway.graph.trace import Trace
from cutaway.results.validation import Coverage, Failure, Outcome, Validation, What

_MAX_REASON = 300
_MANY = 8
"""With more arguments than this, those of a `stack` are perturbed all at once: one by one is quadratic."""


class Check:
    """The state of one validation, and the checks that need no second run of the model."""

    def __init__(self, trace: Trace, *, perturb: bool) -> None:
        self.trace, self.nodes, self.perturb = trace, trace.tables.nodes, perturb
        self.failures: list[Failure] = []
        self.outcomes: dict[int, Outcome] = {}
        self.notes: list[str] = []
        self.n_felt = self.n_unfelt = self.n_outputs = 0
        self.deviation = 0.0
        self.other: Validation | None = None
        self.is_rerunnable = True
        self.n_shared = 0
        self._calls: dict[int, FunctionCall] = {}

    def fail(self, what: What, node: int, reason: str) -> None:
        op = self.trace.names.label(node) if node >= 0 else ""
        stack = Op(self.trace, node).stack if node >= 0 else ()
        source = next((str(place) for place in stack if is_users(place)), "")
        self.failures.append(Failure(what, op, source, reason[:_MAX_REASON]))

    # the parts

    def graph(self) -> None:
        for node, reason in problems(self.trace):
            self.fail("graph", node, reason)
        unexplained = [op.label for op in self.trace.unexplained]
        if not unexplained:
            return
        made = (
            f"{listed(unexplained)} {'was' if len(unexplained) == 1 else 'were'} made by code that capture cannot see"
        )
        if self._is_cut():
            self.fail("graph", self.trace.unexplained[0].node, f"no output depends on an input: {made}")
        else:
            self.notes.append(f"the graph may be cut: {made}")

    def _is_cut(self) -> bool:
        """Whether no output is computed from any input."""
        inputs = {op.node for op in self.trace.inputs}
        seen, queue = set(), [op.node for op in self.trace.outputs]
        while queue:
            node = queue.pop()
            if node in inputs:
                return False
            if node not in seen:
                seen.add(node)
                queue.extend(self.nodes.parents[node])
        return bool(inputs) and bool(self.trace.outputs)

    def ops(self) -> None:
        listed = set(self.trace.op_nodes)
        calls = [call for call in function_calls(self.trace.tables) if not listed.isdisjoint(call.nodes)]
        self._calls = {node: call for call in calls for node in call.nodes}
        with torch._C.DisableTorchFunction(), preserve_rng(*generators_of(self.trace.tables)):
            for call in progress(calls, len(calls), "ops replayed"):
                nodes = [node for node in call.nodes if node in listed]
                try:
                    self.call(call, nodes)
                except Exception as error:  # a tensor type that cannot be copied or compared: say so, and go on
                    self.outcomes.update(dict.fromkeys(nodes, "opaque"))
                    label = self.trace.names.label(nodes[0])
                    self.notes.append(f"{label} was not checked: comparing its values raised {error_text(error)}")

    # one call

    def call(self, call: FunctionCall, listed: list[int]) -> None:
        """Validates all results of one function call."""
        flags = self.nodes.flags[call.nodes[0]]
        if flags & ALIAS:
            self.alias(call)
            return
        if flags & OPAQUE or type(call.event[0]) is Opaque or call.function.role == BACKWARD:
            self.outcomes.update(dict.fromkeys(listed, "opaque"))
            return
        if self.is_shared(call):
            self.outcomes.update(dict.fromkeys(listed, "opaque"))
            self.n_shared += len(listed)
            return
        saved = {node: value for node in listed if (value := self._saved(node)) is not _NOTHING}
        self.outcomes.update({node: "not saved" for node in listed if node not in saved})
        if not saved:
            return
        try:
            values = inputs_of(self.trace, call)
        except MissingValue:
            self.outcomes.update(dict.fromkeys(saved, "without inputs"))
            return
        try:
            again = replay_call(self.trace, call, values)
        except Exception as error:
            for node in saved:
                self.outcomes[node] = "failed"
            self.fail("value", min(saved), f"replayed, it raised {type(error).__name__}: {error}")
            return
        for node, value in saved.items():
            self.outcomes[node] = self.outcome(call, node, value, again[node])
        # A function that does not reproduce its value shows nothing about its edges.
        if self.perturb and all(self.outcomes[node] in ("exact", "close") for node in saved):
            self.edges(call, values, again)

    def is_shared(self, call: FunctionCall) -> bool:
        """Whether a call computes on DTensors: replayed, it may wait for other processes, which replay other calls."""
        nodes = (*self.nodes.parents[call.nodes[0]], *call.nodes)
        return any(n_processes(self.nodes.value[node]) > 1 for node in nodes)

    def outcome(self, call: FunctionCall, node: int, value: Any, again: Any) -> Outcome:
        if call.function.name in UNDEFINED or _is_new_of_sizes(call):
            is_alike = isinstance(again, Tensor) and again.shape == value.shape and again.dtype == value.dtype
            return "undefined" if is_alike else self._wrong(node, value, again)
        if bit_equal(again, value):
            return "exact"
        if is_close(again, value):
            self.deviation = max(self.deviation, deviation(again, value) or 0.0)
            return "close"
        return self._wrong(node, value, again)

    def _wrong(self, node: int, value: Any, again: Any) -> Outcome:
        self.fail(
            "value",
            node,
            f"replayed on the values of its parents, it gives a different value{difference_text(value, again)}",
        )
        return "failed"

    def edges(self, call: FunctionCall, values: Mapping[int, Any], again: Mapping[int, Any]) -> None:
        """Perturbs each parent in turn."""
        name = call.function.name
        is_out = "out" in (call.event[2] or ())
        # Where the result is NaN anyway, or `out=` is only written to, a parent can change without effect.
        must_depend = name in SENSITIVE and not is_out and not any(_has_nan(value) for value in again.values())
        if len(values) > _MANY and name in CONCATENATING and self.shows_all(call, values):
            self.n_felt += len(values)
            return
        shown = self.shown_on_slices(call, values)
        for parent, value in values.items():
            if not isinstance(value, Tensor):
                continue
            depends = parent in shown or self.depends_on(call, values, again, parent)
            self.n_felt += depends is True
            self.n_unfelt += depends is False
            if depends is False and must_depend and value.is_floating_point():
                label = self.trace.names.label(parent)
                self.fail("edge", call.nodes[0], f"it has an edge from {label}, but does not change when {label} does")

    def shown_on_slices(self, call: FunctionCall, values: Mapping[int, Any]) -> set[int]:
        """The parents whose influence already shows on a small part: filled with NaN, they make the result NaN."""
        parents = self.nodes.parents[call.nodes[0]]
        small = smaller(call.function.name, parents, call.event, values)
        shown: set[int] = set()
        if small is None:
            return shown
        try:
            if not _is_finite(replay_call(self.trace, call, small)):
                return shown
            for parent, value in small.items():
                nan = torch.full_like(value.detach(), torch.nan)
                if not _is_finite(replay_call(self.trace, call, {**small, parent: nan})):
                    shown.add(parent)
        except Exception:  # it does not work on a part: then the whole call is tried
            shown.clear()
        return shown

    def depends_on(
        self, call: FunctionCall, values: Mapping[int, Any], again: Mapping[int, Any], parent: int
    ) -> bool | None:
        """Whether the results change with the value of one parent; None if no other value could be tried."""
        tried = False
        finite = is_linear_algebra(call.function.name)
        for other in perturbations(values[parent], gently=call.function.is_random, finite=finite):
            tried = True
            try:
                changed = replay_call(self.trace, call, {**values, parent: other})
            except Exception:  # an error also shows that it depends on the value
                return True
            if any(not bit_equal(changed[node], again[node]) for node in again):
                return True
        return False if tried else None

    def shows_all(self, call: FunctionCall, values: Mapping[int, Any]) -> bool:
        """Whether each of very many arguments shows in the result: each is filled with a different number."""
        marked = fill_with_numbers(values)
        if marked is None:
            return False
        (result,) = replay_call(self.trace, call, marked).values()
        return set(range(1, len(values) + 1)) <= set(result.detach().unique().tolist())

    def alias(self, call: FunctionCall) -> None:
        """Validates a value that was changed through another tensor: the old value with the writes applied."""
        node = call.nodes[0]
        value = self._saved(node)
        if value is _NOTHING:
            self.outcomes[node] = "not saved"
            return
        try:
            expected = after_alias_write(self.trace, call, self._calls)
        except MissingValue:
            self.outcomes[node] = "without inputs"
            return
        if expected is None:
            self.outcomes[node] = "opaque"
        else:
            self.outcomes[node] = self.outcome(call, node, value, expected)

    def _saved(self, node: int) -> Any:
        try:
            return saved_value(self.trace, node)
        except MissingValue:
            return _NOTHING

    # the end

    def report(self) -> Validation:
        label = self.trace.names.label
        outcomes: dict[str, Outcome] = {
            label(node): self.outcomes.get(node, "not saved") for node in self.trace.op_nodes
        }
        counts = Counter(outcomes.values())
        other = self.other
        coverage = Coverage(
            **{name: counts[_OUTCOMES[name]] for name in _OUTCOMES},
        )
        self._suggest_retrace(coverage)
        if self.n_shared:
            ops = plural(self.n_shared, "op")
            self.notes.append(f"{ops} on DTensors not replayed: several processes compute them together")
        values = [self.nodes.value[node] for node in self.trace.op_nodes]
        # Jagged tensors are views of a dummy on the meta device, which is no value of the model.
        if any(isinstance(value, Tensor) and not value.is_nested and has_no_numbers(value) for value in values):
            self.notes.append("meta and fake tensors have no numbers: only their shapes and dtypes were compared")
        return Validation(
            failures=(*self.failures, *(other.failures if other else ())),
            coverage=coverage,
            outcomes=outcomes,
            edges_felt=other.edges_felt if other else self.n_felt,
            edges_unfelt=other.edges_unfelt if other else self.n_unfelt,
            outputs_compared=other.outputs_compared if other else self.n_outputs,
            largest_deviation=max(self.deviation, other.largest_deviation if other else 0.0),
            notes=(*self.notes, *(other.notes if other else ())),
        )

    def _suggest_retrace(self, coverage: Coverage) -> None:
        """If values are missing, says how to get them."""
        if self.other is None and coverage.without_inputs + coverage.not_saved > 0:
            if self.trace.tables.is_transformed:
                self.notes.append("the values were saved through transform=, so no op can be replayed on them")
            how = "trace.validate(retrace=True) runs the model again with everything saved"
            if self.is_rerunnable:
                self.notes.append(f"not all values were saved: {how}")


_NOTHING: Any = object()
_OUTCOMES: dict[str, Outcome] = {
    "exact": "exact",
    "close": "close",
    "failed": "failed",
    "opaque": "opaque",
    "undefined": "undefined",
    "without_inputs": "without inputs",
    "not_saved": "not saved",
}


def _is_new_of_sizes(call: FunctionCall) -> bool:
    """Whether it is `x.new(2, 3)`, which is uninitialized; `x.new([2, 3])` has these numbers."""
    sizes = call.event[1][1:]
    return call.function.name == "new" and all(isinstance(size, (int, torch.Size)) for size in sizes)


def _is_finite(results: Mapping[int, Any]) -> bool:
    return all(isinstance(value, Tensor) and bool(value.isfinite().all()) for value in results.values())


def _has_nan(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.is_nested or has_no_numbers(value) or value.numel() == 0:
        return True
    return (value.is_floating_point() or value.is_complex()) and bool(value.isnan().any())


def error_text(error: Exception) -> str:
    """The error as text, for notes of a report."""
    return f"{type(error).__name__}: {error}"[:_MAX_REASON]
