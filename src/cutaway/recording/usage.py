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


def check_names(name: str, **names: object) -> None:
    """Check that the node and the part that `run.tensor` got are text."""
    for option, given in names.items():
        if not isinstance(given, str):
            raise InputTypeError(f"run.tensor({name!r}, {option}=) got {type_text(given)}: pass a str.")


def check_dim(name: str, option: str, dim: object) -> int | None:
    """The dimension that `run.tensor` got."""
    if dim is None or isinstance(dim, int):
        return dim
    try:
        return operator.index(dim)  # type: ignore[arg-type]
    except TypeError:
        raise InputTypeError(f"run.tensor({name!r}, {option}=) got {type_text(dim)}: pass an int, as in 1.") from None


def check_dims(name: str, dims: object) -> tuple[int, ...] | None:
    """The unit dimensions that `run.tensor` got: one or several."""
    several = dims if isinstance(dims, Sequence) and not isinstance(dims, (str, bytes)) else (dims,)
    checked = [check_dim(name, "unit_dim", dim) for dim in several]
    if dims is None:
        return None
    if None in checked:
        raise InputTypeError(f"run.tensor({name!r}, unit_dim=) lists None: pass ints, as in (1, 2).")
    return tuple(dim for dim in checked if dim is not None)


def schedule_failed(error: Exception) -> InputError:
    """The error about a schedule of the user that has raised."""
    return InputError(f"every= raised {type(error).__name__}: {error}. The step is not recorded")


SWAPPED_TENSOR = InputTypeError(
    "run.tensor() got a Tensor as name. The name comes first: run.tensor('hidden', tensor)."
)
NOT_ENTERED = InputError(
    "run.step() was called without `with`, so the step is not recorded: write `with run.step():` around each step. "
    "It is a context manager, unlike the step() of a profiler."
)
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
OPTIMIZER_OUTSIDE = InputError(
    "parameters changed between two steps, so no updates are recorded: move optimizer.step() into `with run.step():`."
)
NOT_SEEN = InputError(
    "parameters of the recorded model are trained, but no call of the model was seen, so it has no outputs in the run. "
    "Pass what your loop calls to cutaway.record: the result of torch.compile, or the module that it gives to "
    "torch.func.functional_call. Inside a compiled function nothing can be seen: compile the model instead."
)
NO_STEPS = InputError("no step was recorded because none was begun: put `with run.step():` around each.")
NOT_CALLED = InputError(
    "the recorded model was never called inside a recorded step, so its modules have no outputs. Pass the model that "
    "your loop calls, and call it inside `with run.step():`."
)


def step_forgotten(n_passes: int) -> InputError:
    """The error about a training that runs without steps."""
    return InputError(
        f"the model was called {n_passes} times, but no step was begun, so nothing is recorded: put `with run.step():` "
        "around each step."
    )


def unregistered_layers(attributes: Sequence[str]) -> InputError:
    """The error about layers that torch does not register."""
    return InputError(
        f"{listed(attributes)}: these layers are in a plain Python list, tuple or dict, so they are no part of the "
        "model. They are not recorded, and model.parameters() lacks them. Use nn.ModuleList or nn.ModuleDict."
    )


def labels_mismatch(name: str, n_entries: int, batch_size: int) -> InputError:
    """The error about a field that does not have one entry for each sample."""
    entries = plural(n_entries, "entry", "entries")
    return InputError(
        f"run.samples({name}=) has {entries}, but the batch has {plural(batch_size, 'sample')}, so the field is not "
        "stored. Pass one entry for each sample; if another dimension holds the samples, state it with batch_dim=."
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


def no_op_values(ops: Sequence[object]) -> InputError:
    """The error about values of ops that were requested, but cannot be recorded."""
    problem = "which cannot be recorded because compiled code runs in the step"
    return InputError(f"at={str(ops[0])!r} is an op, {problem}: name modules instead of ops.")
