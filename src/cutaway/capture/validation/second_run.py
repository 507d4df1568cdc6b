"""Runs the model of a trace again, plainly or traced, and compares: what repeats, what the trace got wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from cutaway.capture.api import watch
from cutaway.capture.replay.call import MissingValue, saved_value
from cutaway.capture.replay.rerun import CannotRun, original_state
from cutaway.capture.validation.compare import bit_equal, difference_text, is_close
from cutaway.capture.validation.op_check import Check, error_text
from cutaway.capture.validation.together import participants, together
from cutaway.core.errors import CannotValidateError
from cutaway.core.pytree import leaves
from cutaway.graph.analysis.nonfinite import UNDEFINED
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace
from cutaway.results.validation import Outcome, Validation

_MISSING: tuple[Outcome, ...] = ("without inputs", "not saved")


class SecondRun:
    """The checks of a validation that run the model again.

    Args:
        check: receives failures, notes and outcomes.
        validate: validates a second trace.
    """

    def __init__(self, check: Check, validate: Callable[[Trace], Validation]) -> None:
        self.check, self.trace, self._validate = check, check.trace, validate
        self._ranks = participants(self.trace)

    def needs_other_processes(self) -> bool:
        """Whether the model runs only together with other processes, which may not validate: then it would wait."""
        n = len(self._ranks)
        if n > 1:
            self.check.notes.append(
                f"the model was not run again: {n} processes run it together; to prove more, call "
                "trace.validate(retrace=True) in all of them"
            )
        return n > 1

    # outputs

    def compare_outputs(self) -> None:
        """Runs the model again without capture, and compares its outputs."""
        check = self.check
        if self.trace.error is not None:
            check.notes.append("the outputs were not compared: the run ended in an error")
            return
        try:
            with together(self.trace) as ready, original_state(self.trace) as (model, args, kwargs):
                ready()
                try:
                    returned = model(*args, **kwargs)
                except Exception as error:
                    # The run was untraced, so the cause is state that a trace cannot restore, not the trace.
                    check.notes.append(
                        f"the outputs were not compared: run again, the model raised {error_text(error)}"
                    )
                    return
                wrong, check.n_outputs = self._differing_outputs(self.trace, first := _tensors_of(returned))
                if wrong:
                    self._explain(wrong, first)
        except CannotRun as reason:
            check.notes.append(f"the outputs were not compared with a run without capture: {reason}")

    def _differing_outputs(self, trace: Trace, plain: Mapping[str, Tensor]) -> tuple[list[tuple[str, int]], int]:
        """The outputs of a trace that differ from those of a plain run, as path and node; and how many are equal."""
        wrong, n_equal = [], 0
        for path, op in zip(trace.output_paths, trace.outputs, strict=True):
            try:
                value = saved_value(trace, op.node)
            except MissingValue:
                continue
            # Memory that was never written to may be the same in two runs and another in the third.
            if op.function in UNDEFINED or (trace is self.trace and self.check.outcomes.get(op.node) == "undefined"):
                continue
            if path not in plain or not _is_same(plain[path], value):
                wrong.append((path, op.node))
            else:
                n_equal += 1
        return wrong, n_equal

    def _explain(self, wrong: list[tuple[str, int]], first: Mapping[str, Tensor]) -> None:
        """Finds out why outputs differ: the trace is wrong, unless the model does not repeat what it did.

        The second run starts with what the first has left in objects and filled containers: a trace does not know
        their contents before the traced run.
        """
        check = self.check
        if self._ranks:  # the other processes do not run the model once more
            for path, node in wrong:
                check.fail("output", node, f"output {path!r} differs in a run without capture and with the same seed")
            return
        try:
            with original_state(self.trace) as (model, args, kwargs):
                second = _tensors_of(model(*args, **kwargs))
        except Exception as error:
            check.notes.append(
                f"the outputs were not compared: run a second time, the model raised {error_text(error)}"
            )
            return
        differs = {path for path, _ in wrong if path in first and path in second}
        differs = {path for path in differs if not bit_equal(first[path], second[path])}
        for path in differs:
            check.notes.append(f"output {path!r} was not compared: two runs of the model without capture differ")
        rest = [(path, node) for path, node in wrong if path not in differs]
        reason = self._why_not_repeatable(first) if rest else None
        if reason is not None:
            check.notes.append(f"{reason}; the outputs were not compared")
            return
        for path, node in rest:
            check.fail("output", node, f"output {path!r} differs in a run without capture and with the same seed")

    def _why_not_repeatable(self, plain: Mapping[str, Tensor]) -> str | None:
        """Names the first op at which the model does something else than in the traced run; None if it repeats itself.

        A hook or submodule that acts only once, by a counter in a closure, does so. Capture is not the cause if a
        second trace has the outputs of the plain run.

        Args:
            plain: the outputs of a run without capture, which differ from those of the trace.
        """
        try:
            full = self._trace_again()
        except Exception:
            return None
        if self._differing_outputs(full, plain)[0]:
            return None
        where = self._first_difference(_ops_inside_model(self.trace), _ops_inside_model(full), full)
        return f"not repeatable: the model does something else on its second run{where}"

    def _first_difference(self, mine: Mapping[str, Op], theirs: Mapping[str, Op], full: Trace) -> str:
        for (site, op), (other_site, other) in zip(mine.items(), theirs.items(), strict=False):
            if site != other_site:
                return f", at {op.label} ({op.site}), where it then ran {other.site}"
            if op.is_saved and not self.trace.tables.is_transformed and op.function not in UNDEFINED:
                value, again = saved_value(self.trace, op.node), saved_value(full, other.node)
                if not _is_same(value, again):
                    return f", at {op.label} ({op.site})"
        if len(mine) > len(theirs):
            op = list(mine.values())[len(theirs)]
            return f", at {op.label} ({op.site}), which then did not run"
        if len(theirs) > len(mine):
            return f": it then also ran {list(theirs.values())[len(mine)].site}"
        return ""

    # a second trace

    def retrace_if_needed(self) -> bool:
        """Proves a trace with few saved values by a second one with all of them; returns whether that was possible."""
        check, tables = self.check, self.trace.tables
        if tables.saved_all or tables.is_transformed or self.trace.error is not None:
            return False
        if not any(outcome in _MISSING for outcome in check.outcomes.values()):
            return False
        failures, outcomes = list(check.failures), dict(check.outcomes)
        try:
            self.retrace()
        except Exception as error:  # nobody asked for a second trace: say why there is none
            check.failures, check.outcomes, check.other = failures, outcomes, None
            reason = (
                str(error) if isinstance(error, CannotValidateError) else f"tracing again raised {error_text(error)}"
            )
            check.notes.append(f"not all values were saved, and {reason.removesuffix('.')}")
            check.is_rerunnable = False
            return False
        saved, total = len(self.trace.saved), len(self.trace)
        check.notes.append(f"{saved} of {total} values were saved: the ops were proven in a second trace of the model")
        return True

    def retrace(self) -> None:
        """Traces again with everything saved, validates that trace, and compares the values of this trace with it."""
        try:
            full = self._trace_again()
        except CannotRun as reason:
            raise CannotValidateError(f"the model cannot be traced again: {reason}.") from None
        self.check.other = self._validate(full)
        mine, theirs = _ops_inside_model(self.trace), _ops_inside_model(full)
        n_before = len(self.check.failures)
        self._compare_with_retrace(mine, theirs, full)
        if len(self.check.failures) == n_before or self._ranks:  # the other processes do not run the model once more
            return
        plain = self._plain_outputs()
        if plain is None:
            raise CannotValidateError(
                "the model cannot be traced again: its state changes with each run in a way that a trace cannot "
                "restore, such as a counter in an object, a filled dict or its own random generator."
            )
        if self._differing_outputs(self.trace, plain)[0] and not self._differing_outputs(full, plain)[0]:
            where = self._first_difference(mine, theirs, full)
            raise CannotValidateError(f"not repeatable: the model does something else on its second run{where}.")

    def _trace_again(self) -> Trace:
        """A trace of the model in its original state, with everything saved."""
        with together(self.trace) as ready, original_state(self.trace) as (model, args, kwargs):
            ready()
            # What the run writes to is put back afterwards, under the values that were kept by reference.
            recipe = self.trace.tables.recipe
            # So is a parameter that FSDP gathers: its memory is freed after the run.
            keep = "copy" if recipe.written or self._ranks else "reference"
            with watch(model, orphans=self.trace._orphans, keep=keep) as full:
                model(*args, **kwargs)
        return full

    def _plain_outputs(self) -> dict[str, Tensor] | None:
        """The outputs of a run without capture; None if it depends on what the previous run left in objects."""
        with original_state(self.trace) as (model, args, kwargs):
            first = _tensors_of(model(*args, **kwargs))
            with original_state(self.trace) as (model, args, kwargs):
                second = _tensors_of(model(*args, **kwargs))
            is_same = all(path in second and bit_equal(first[path], second[path]) for path in first)
            return first if is_same else None

    def _compare_with_retrace(self, mine: Mapping[str, Op], theirs: Mapping[str, Op], full: Trace) -> None:
        """Compares the values of this trace with those of the same ops in the new trace."""
        check = self.check
        if list(mine) != list(theirs):
            first = next((a for a, b in zip([*mine, "its end"], theirs, strict=False) if a != b), "its end")
            check.fail(
                "graph",
                -1,
                f"traced again, the model ran different ops ({len(theirs)}); the first difference is at {first}",
            )
            return
        for op, again in zip(mine.values(), theirs.values(), strict=True):
            check.outcomes[op.node] = check.other.outcomes[again.label]  # type: ignore[union-attr]
            if op.is_saved and not self.trace.tables.is_transformed:
                value, other = saved_value(self.trace, op.node), saved_value(full, again.node)
                if not _is_same(value, other) and op.function not in UNDEFINED:
                    check.outcomes[op.node] = "failed"
                    check.fail("value", op.node, f"traced again, its value differs{difference_text(value, other)}")


def _is_same(a: Any, b: Any) -> bool:
    return bit_equal(a, b) or is_close(a, b)


def _tensors_of(returned: Any) -> dict[str, Tensor]:
    return dict(leaves(returned, lambda value: isinstance(value, Tensor)))


def _ops_inside_model(trace: Trace) -> dict[str, Op]:
    """The ops that ran inside a module, by their full sites."""
    calls = trace.tables.nodes.call
    return {str(op.full_site): op for op in trace.ops if calls[op.node]}
