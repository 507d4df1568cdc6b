"""`trace.validate()`: proves that a trace shows what the model computed.

Every op is replayed on the saved values of its parents and must give its saved value. With a parent perturbed it must
give something else, unless it truly does not depend on it. The outputs must equal those of a run without capture, and
the graph must be consistent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.api import watch
from cutaway.capture.model.rng_state import preserve_rng
from cutaway.capture.model.sharding import n_processes, processes_of
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
from cutaway.capture.replay.rerun import CannotRun, original_state
from cutaway.capture.torch_functions import BACKWARD, Opaque
from cutaway.capture.validation.compare import TOLERANCES, bit_equal, deviation, has_no_numbers, is_close
from cutaway.capture.validation.perturb import (
    CONCATENATING,
    SENSITIVE,
    fill_with_numbers,
    is_linear_algebra,
    perturbations,
)
from cutaway.core.errors import CannotValidateError
from cutaway.core.formatting import listed, plural
from cutaway.core.progress import progress
from cutaway.core.pytree import leaves
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


def validate(trace: Trace, *, forward: bool = True, perturb: bool = True, retrace: bool | None = None) -> Validation:
    """Validates a trace; `Trace.validate` documents the options."""
    tables = trace.tables
    if tables.read_from:
        raise CannotValidateError(
            f"this trace was loaded from {tables.read_from}: functions and their arguments are not stored, so nothing "
            "can be replayed. Trace the model again and validate that trace."
        )
    if tables.is_replay:
        raise CannotValidateError(
            "this is a replay: it was computed, not captured. Validate the trace it was computed from."
        )
    check = _Check(trace, perturb=perturb)
    check.graph()
    check.ops()
    if retrace is None and check.needs_other_processes():
        return check.report()
    if retrace:
        check.retrace()
    elif forward and not (retrace is None and check.retrace_if_needed()):
        check.outputs()
    return check.report()


class _Check:
    """One validation in progress."""

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
                    self.notes.append(f"{label} was not checked: comparing its values raised {_text(error)}")

    def needs_other_processes(self) -> bool:
        """Whether the model runs only together with other processes, which may not validate: then it would wait."""
        recipe = self.trace.tables.recipe
        n = processes_of(recipe.model()) if recipe is not None else 1
        if n > 1:
            self.notes.append(
                f"the model was not run again: {n} processes run it together; to prove more, call "
                "trace.validate(retrace=True) in all of them"
            )
        return n > 1

    def outputs(self) -> None:
        """Runs the model again without capture, and compares its outputs."""
        if self.trace.error is not None:
            self.notes.append("the outputs were not compared: the run ended in an error")
            return
        try:
            with original_state(self.trace) as (model, args, kwargs):
                try:
                    returned = model(*args, **kwargs)
                except Exception as error:
                    # The run was untraced, so the cause is state that a trace cannot restore, not the trace.
                    self.notes.append(f"the outputs were not compared: run again, the model raised {_text(error)}")
                    return
                self._compare(_tensors_of(returned))
        except CannotRun as reason:
            self.notes.append(f"the outputs were not compared with a run without capture: {reason}")

    def _compare(self, first: Mapping[str, Tensor]) -> None:
        wrong = []
        for path, op in zip(self.trace.output_paths, self.trace.outputs, strict=True):
            try:
                value = saved_value(self.trace, op.node)
            except MissingValue:
                continue
            # Memory that was never written to may be the same in two runs and another in the third.
            if self.outcomes.get(op.node) == "undefined":
                continue
            if path not in first or not (bit_equal(first[path], value) or is_close(first[path], value)):
                wrong.append((path, op.node))
            else:
                self.n_outputs += 1
        if wrong:
            self._explain(wrong, first)

    def _explain(self, wrong: list[tuple[str, int]], first: Mapping[str, Tensor]) -> None:
        """Finds out why outputs differ: the trace is wrong, unless the model gives a different result in each run.

        The second run starts with what the first has left in objects and filled containers: a trace does not know
        their contents before the traced run.
        """
        try:
            with original_state(self.trace) as (model, args, kwargs):
                second = _tensors_of(model(*args, **kwargs))
        except Exception as error:
            self.notes.append(f"the outputs were not compared: run a second time, the model raised {_text(error)}")
            return
        for path, node in wrong:
            if path in first and path in second and not bit_equal(first[path], second[path]):
                self.notes.append(f"output {path!r} was not compared: two runs of the model without capture differ")
            else:
                self.fail("output", node, f"output {path!r} differs in a run without capture and with the same seed")

    def retrace_if_needed(self) -> bool:
        """Proves a trace with few saved values by a second one with all of them; returns whether that was possible."""
        if self.trace.tables.saved_all or self.trace.tables.is_transformed or self.trace.error is not None:
            return False
        if not any(outcome in _MISSING for outcome in self.outcomes.values()):
            return False
        failures, outcomes = list(self.failures), dict(self.outcomes)
        try:
            self.retrace()
        except Exception as error:  # nobody asked for a second trace: say why there is none
            self.failures, self.outcomes, self.other = failures, outcomes, None
            reason = str(error) if isinstance(error, CannotValidateError) else f"tracing again raised {_text(error)}"
            self.notes.append(f"not all values were saved, and {reason.removesuffix('.')}")
            self.is_rerunnable = False
            return False
        saved, total = len(self.trace.saved), len(self.trace)
        self.notes.append(f"{saved} of {total} values were saved: the ops were proven in a second trace of the model")
        return True

    def retrace(self) -> None:
        """Traces again with everything saved, validates that trace, and compares the values of this trace with it."""
        try:
            with original_state(self.trace) as (model, args, kwargs):
                # What the run writes to is put back afterwards, under the values that were kept by reference.
                recipe = self.trace.tables.recipe
                # So is a parameter that FSDP gathers: its memory is freed after the run.
                keep = "copy" if recipe.written or processes_of(model) > 1 else "reference"
                with watch(model, orphans=self.trace._orphans, keep=keep) as full:
                    model(*args, **kwargs)
        except CannotRun as reason:
            raise CannotValidateError(f"the model cannot be traced again: {reason}.") from None
        self.other = validate(full, perturb=self.perturb, retrace=False)
        mine, theirs = _ops_inside_model(self.trace), _ops_inside_model(full)
        n_before = len(self.failures)
        self._compare_with_retrace(mine, theirs, full)
        if len(self.failures) > n_before and self._keeps_state():
            raise CannotValidateError(
                "the model cannot be traced again: its state changes with each run in a way that a trace cannot "
                "restore, such as a counter in an object, a filled dict or its own random generator."
            )

    def _keeps_state(self) -> bool:
        """Whether a run depends on what the previous one left in objects and filled containers."""
        with original_state(self.trace) as (model, args, kwargs):
            first = _tensors_of(model(*args, **kwargs))
            with original_state(self.trace) as (model, args, kwargs):
                second = _tensors_of(model(*args, **kwargs))
            return any(path not in second or not bit_equal(first[path], second[path]) for path in first)

    def _compare_with_retrace(self, mine: Mapping[str, Op], theirs: Mapping[str, Op], full: Trace) -> None:
        """Compares the values of this trace with those of the same ops in the new trace."""
        if list(mine) != list(theirs):
            first = next((a for a, b in zip([*mine, "its end"], theirs, strict=False) if a != b), "its end")
            self.fail(
                "graph",
                -1,
                f"traced again, the model ran different ops ({len(theirs)}); the first difference is at {first}",
            )
            return
        for op, again in zip(mine.values(), theirs.values(), strict=True):
            self.outcomes[op.node] = self.other.outcomes[again.label]  # type: ignore[union-attr]
            if op.is_saved and not self.trace.tables.is_transformed:
                value, other = saved_value(self.trace, op.node), saved_value(full, again.node)
                if not (bit_equal(value, other) or is_close(value, other)) and op.function not in UNDEFINED:
                    self.outcomes[op.node] = "failed"
                    self.fail("value", op.node, f"traced again, its value differs{_difference_text(value, other)}")

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
            f"replayed on the values of its parents, it gives a different value{_difference_text(value, again)}",
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
        for parent, value in values.items():
            if not isinstance(value, Tensor):
                continue
            depends = self.depends_on(call, values, again, parent)
            self.n_felt += depends is True
            self.n_unfelt += depends is False
            if depends is False and must_depend and value.is_floating_point():
                label = self.trace.names.label(parent)
                self.fail("edge", call.nodes[0], f"it has an edge from {label}, but does not change when {label} does")

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
_MISSING: tuple[Outcome, ...] = ("without inputs", "not saved")
_OUTCOMES: dict[str, Outcome] = {
    "exact": "exact",
    "close": "close",
    "failed": "failed",
    "opaque": "opaque",
    "undefined": "undefined",
    "without_inputs": "without inputs",
    "not_saved": "not saved",
}


def _tensors_of(returned: Any) -> dict[str, Tensor]:
    return dict(leaves(returned, lambda value: isinstance(value, Tensor)))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_REASON]


def _ops_inside_model(trace: Trace) -> dict[str, Op]:
    """The ops that ran inside a module, by their full sites."""
    calls = trace.tables.nodes.call
    return {str(op.full_site): op for op in trace.ops if calls[op.node]}


def _is_new_of_sizes(call: FunctionCall) -> bool:
    """Whether it is `x.new(2, 3)`, which is uninitialized; `x.new([2, 3])` has these numbers."""
    sizes = call.event[1][1:]
    return call.function.name == "new" and all(isinstance(size, (int, torch.Size)) for size in sizes)


def _has_nan(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.is_nested or has_no_numbers(value) or value.numel() == 0:
        return True
    return (value.is_floating_point() or value.is_complex()) and bool(value.isnan().any())


def _difference_text(value: Any, again: Any) -> str:
    """How two values differ: the deviation, or dtype, shape and device of each."""
    apart = deviation(again, value)
    if apart is not None:
        return f": off by {apart:.1e} of its largest element, tolerance {TOLERANCES.get(value.dtype, 1e-2):.0e}"
    if isinstance(value, Tensor) and isinstance(again, Tensor):
        return f": {_kind(again)} instead of {_kind(value)}" if _kind(again) != _kind(value) else ""
    return f": {again!r:.40} instead of {value!r:.40}"


def _kind(tensor: Tensor) -> str:
    shape = "nested" if tensor.is_nested else list(tensor.shape)
    return f"{str(tensor.dtype).removeprefix('torch.')} {shape} on {tensor.device}"
