"""Detects mistakes in how a recorder is called, and says how to call it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, numbered, plural, type_text

_HINTS = {
    "'method' object does not support the context manager protocol": "Call the method: `with run.step():`.",
    "Recorder.log() takes": "Name each number: run.log(loss=0.1), or pass a dict: run.log({'loss': 0.1}).",
    "Recorder.samples() takes": "Name each field: run.samples(text=texts, label=labels).",
}
"""Start of a message of Python → the correct call."""


def add_hint(error: BaseException) -> None:
    """Add the correct call to a TypeError that Python raised about a recorder."""
    if isinstance(error, TypeError):
        for start, hint in _HINTS.items():
            if str(error).startswith(start):
                error.add_note(hint)


def check_scalars(values: object) -> Mapping[str, Any]:
    """The dict that `run.log` got."""
    if not isinstance(values, Mapping):
        raise InputTypeError(
            f"run.log() got {type_text(values)}. Name each number: run.log(loss=0.1), or pass a dict: "
            "run.log({'loss': 0.1})."
        )
    return values


def check_kind(kind: object) -> None:
    """Check that a kind is text. A number would make every step a kind of its own, so that all are recorded."""
    if isinstance(kind, int):
        raise InputTypeError(
            f"run.step({kind!r}) got {type_text(kind)} as kind: pass number={kind} to set the step number, or a str "
            "such as 'eval' as kind."
        )


def check_batch_size(batch_size: Any) -> int:
    """The batch size that `run.step` got."""
    try:
        return operator.index(batch_size)
    except TypeError:
        raise InputTypeError(
            f"run.step(batch_size=) got {type_text(batch_size)}: pass the number of samples, such as len(x)."
        ) from None


SWAPPED_TENSOR = InputTypeError(
    "run.tensor() got a Tensor as name. The name comes first: run.tensor('hidden', tensor)."
)
NOT_ENTERED = InputError("run.step() was called without `with`, so the step is not recorded: write `with run.step():`.")
NESTED = InputError("a step began inside another step, and counts as part of it: end the outer `with` block first.")
BEGUN_TWICE = InputError(
    "run.begin_step() was called before the last step ended, which is ended now: call run.end_step() after each step."
)
NOT_BEGUN = InputError("run.end_step() was called, but run.begin_step() has begun no step: call it before each step.")
KEEP_OUTSIDE = InputError("run.keep() was called outside a step: call it inside `with run.step(kind=None):`.")
KEEP_TOO_LATE = InputError(
    "run.keep(samples=) has no effect in a step that is recorded at once: begin the step with run.step(kind=None), so "
    "that its values are held until you choose. A step that records ops (at='…/softmax') is always recorded at once."
)
KEEP_FULL = InputError(
    "run.keep(samples=) has no effect in this step: it held more bytes than most_update_bytes, so its values were "
    "stored before you chose. Raise most_update_bytes=."
)
CLOSED = InputError("the run is closed, so nothing more is recorded: keep the loop inside `with cutaway.record(…)`.")
NO_STEPS = InputError("no step was recorded because none was begun: put `with run.step():` around each.")
NOT_CALLED = InputError(
    "the recorded model was never called inside a recorded step, so its modules have no outputs. Pass the model that "
    "your loop calls, and call it inside `with run.step():`."
)


def nothing_due(every: str, n_steps: int, kinds: Sequence[str]) -> InputError:
    """The error about a schedule that has chosen no step."""
    named = f" Their kinds: {listed(map(repr, kinds))}." if any(kinds) else ""
    if not named and every.startswith("{"):
        named = " They have no kind: name it with run.step(kind=…), or choose steps without a kind with '*'."
    return InputError(f"no step was recorded: every={every} chose none of {plural(n_steps, 'step')}.{named}")


def missing_samples(samples: int | Sequence[int], batch_size: int | None) -> str:
    """What to say about requested samples that the batch does not have; "" if it has all."""
    if isinstance(samples, int) or batch_size is None:
        return ""
    missing = [index for index in samples if index >= batch_size]
    if not missing:
        return ""
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{numbered('sample', missing)} {verb} not stored, because the batch has {plural(batch_size, 'sample')}, "
        "counted from 0; samples= lists which to store"
    )
