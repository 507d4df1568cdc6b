"""`trace.validate()`: proves that a trace shows what the model computed.

Every op is replayed on the saved values of its parents and must give its saved value. With a parent perturbed it must
give something else, unless it truly does not depend on it. The outputs must equal those of a run without capture, and
the graph must be consistent.
"""

from __future__ import annotations

from cutaway.capture.validation.op_check import Check
from cutaway.capture.validation.second_run import SecondRun
from cutaway.core.errors import CannotValidateError
from cutaway.graph.trace import Trace
from cutaway.results.validation import Validation


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
    check = Check(trace, perturb=perturb)
    second = SecondRun(check, lambda other: validate(other, perturb=perturb, retrace=False))
    check.graph()
    check.ops()
    if retrace is None and second.needs_other_processes():
        return check.report()
    if retrace:
        second.retrace()
    elif forward and not (retrace is None and second.retrace_if_needed()):
        second.compare_outputs()
    return check.report()
