"""The verbs `trace`, `watch` and `sites`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from cutaway.capture.model.eval_mode import preserve_state
from cutaway.capture.model.rng_state import seed_rng
from cutaway.capture.saved.save_policy import Save, Saver
from cutaway.capture.session import Session, register_fork_handler
from cutaway.core.errors import InputError, InputTypeError, SiteError
from cutaway.core.events import ValueSink
from cutaway.core.formatting import nearest_hint
from cutaway.graph.analysis.components import Sites
from cutaway.graph.trace import Trace


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> Trace:
    """Runs a model once and records every operation; all other arguments go to the model.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    >>> cutaway.trace(model, torch.ones(2, 4))["relu_1"].shape
    (2, 3)

    If the model raises, its exception propagates unchanged; its attribute `cutaway_trace` is the trace so far.
    """
    _check_model(model)
    captured = Trace()
    try:
        with _session(captured, model, Saver("**", "reference", None), orphans=False, gradients=False):
            captured.returned = model(*args, **kwargs)
    except BaseException as error:
        raise _explain_error(error, model, args, kwargs, captured) from error.__cause__
    return captured


@contextmanager
def watch(
    model: nn.Module | None = None,
    *,
    save: Save = "**",
    keep: str | Path | ValueSink = "reference",
    transform: Callable[[Tensor], Any] | None = None,
    seed: int | None = None,
    orphans: bool = False,
) -> Iterator[Trace]:
    """Records any PyTorch code, including `backward()`; the trace is ready when the block ends.

    >>> import torch, cutaway
    >>> model = torch.nn.Linear(4, 3)
    >>> with cutaway.watch(model) as trace:
    ...     model(torch.ones(2, 4)).sum().backward()
    >>> trace["."].grad.shape
    torch.Size([2, 3])

    Args:
        save: which values to save: "**" for all, None for none, sites and patterns, labels or ops of an earlier trace,
            or a predicate that is called with each `Op` as it runs.
        keep: "reference" (no copy; copied only before something overwrites it), "copy", "cpu", a folder on disk, or a
            `ValueSink`.
        transform: applied to each value before it is saved.
        seed: seeds Python, NumPy and torch for the block; their states are restored afterwards.
        orphans: whether to keep ops that neither depend on an input nor lead to an output.
    """
    if model is not None:
        _check_model(model)
    captured = Trace()
    saver = Saver(save, keep, transform)
    with seed_rng(seed) if seed is not None else nullcontext():
        with _session(captured, model, saver, orphans=orphans, gradients=True):
            yield captured
    missing = saver.unmatched()
    if missing and captured.is_complete:
        hint = nearest_hint(missing[0], captured.sites)
        raise SiteError(
            f"save={missing[0]!r} matches nothing in this trace of {captured.model_name}.{hint}"
            " cutaway.sites(model, example) lists all sites."
        )


def sites(model: nn.Module, /, *args: Any, **kwargs: Any) -> Sites:
    """Lists every site of a model for an example input, without saving values.

    `components` lists the sites that can be collected, with their shapes; `to_json()` exports them.

    >>> import torch, cutaway
    >>> cutaway.sites(torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.ones(2, 4))
    ('.', '0', '.@in.0', '0/linear', '0.weight', '0.bias')

    The model runs once in its current mode; its state and the random generators are restored afterwards.
    """
    _check_model(model)
    with preserve_state(getattr(model, "_orig_mod", model)), watch(model, save=None) as captured:
        model(*args, **kwargs)
    return Sites.of(captured)


@contextmanager
def _session(
    captured: Trace, model: nn.Module | None, saver: Saver, *, orphans: bool, gradients: bool
) -> Iterator[None]:
    register_fork_handler()
    session = Session(captured, model, saver, orphans=orphans, gradients=gradients)
    session.start()
    try:
        yield
    except BaseException as error:
        session.stop(error)
        raise
    else:
        session.stop(None)


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        what = "a class: create an instance first" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputTypeError(
            f"the model must be a torch.nn.Module, got {what}. "
            "To trace other code, put it in a block: `with cutaway.watch() as trace:`."
        )


def _explain_error(
    error: BaseException, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], captured: Trace
) -> BaseException:
    """The model's error with the trace attached, or an `InputError` if the arguments do not fit its forward."""
    if isinstance(error, TypeError) and len(captured) == 0:
        try:
            signature = inspect.signature(model.forward)
            signature.bind(*args, **kwargs)
        except TypeError as misfit:
            names = ", ".join(signature.parameters)
            return InputError(
                f"these arguments do not fit {type(model).__name__}.forward({names}): {misfit}; "
                "trace(model, ...) passes all arguments after the model to it."
            )
        except ValueError:
            pass
    try:
        error.cutaway_trace = captured  # type: ignore[attr-defined]
    except AttributeError:  # an exception class with slots
        pass
    return error
