"""The verbs `trace`, `watch` and `sites`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from torch import Tensor, nn

from cutaway.capture.misuse import (
    EntryReminder,
    check_model,
    explain_error,
    refuse_attribute,
    warn_of_swallowed_options,
)
from cutaway.capture.model.eval_mode import preserve_state
from cutaway.capture.model.rng_state import seed_rng
from cutaway.capture.saved.save_policy import Save, Saver, Where
from cutaway.capture.session import Session, register_fork_handler
from cutaway.core.call_errors import explain_positional
from cutaway.core.errors import InputError, InputTypeError, SiteError
from cutaway.core.events import ValueSink
from cutaway.core.formatting import nearest_hint
from cutaway.graph.analysis.components import Sites
from cutaway.graph.trace import Trace


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> Trace:
    """Runs a model once and records every operation.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    >>> cutaway.trace(model, torch.ones(2, 4))["relu_1"].shape
    (2, 3)

    It has no options of its own; `watch` has. If the model raises, its exception propagates; its attribute
    `cutaway_trace` is the trace so far.

    Args:
        model: the model, an instance of `torch.nn.Module`. Its mode (training or eval) stays as it is.
        args: positional inputs of the model.
        kwargs: keyword inputs of the model, whatever their names.
    """
    check_model(model, "trace")
    warn_of_swallowed_options(model, kwargs)
    captured = Trace()
    try:
        with _session(captured, model, Saver("**", "reference", None), orphans=False, gradients=False):
            captured.returned = model(*args, **kwargs)
    except BaseException as error:
        explained = explain_error(error, "trace", model, args, kwargs, n_ops=_n_ops(captured))
        if explained is error:
            _attach(error, captured)
        raise explained from error.__cause__
    return captured


class watch:
    """Records any PyTorch code in a block, including `backward()`; the trace is ready when the block ends.

    >>> import torch, cutaway
    >>> model = torch.nn.Linear(4, 3)
    >>> with cutaway.watch(model) as trace:
    ...     model(torch.ones(2, 4)).sum().backward()
    >>> trace["."].grad.shape
    torch.Size([2, 3])

    Args:
        model: the model whose modules and parameters name the ops; None for code without a model. Run it yourself,
            inside the block.
        save: which values to save: "**" for all, None for none, sites and patterns, labels or ops of an earlier trace,
            or a predicate that is called with each `Op` as it runs.
        keep: "reference" (no copy; copied only before something overwrites it), "copy", "cpu", a folder on disk, or a
            `ValueSink`.
        transform: applied to each value before it is saved.
        seed: seeds Python, NumPy and torch for the block; their states are restored afterwards.
        orphans: whether to keep ops that neither depend on an input nor lead to an output.
    """

    @explain_positional("Run the model inside the block: `with cutaway.watch(model) as trace: model(x)`.")
    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        save: Save = "**",
        keep: Where | str | Path | ValueSink = "reference",
        transform: Callable[[Tensor], Any] | None = None,
        seed: int | None = None,
        orphans: bool = False,
    ) -> None:
        if model is not None:
            check_model(model, "watch")
        if transform is not None and not callable(transform):
            raise InputTypeError(f"transform={transform!r}: pass a function of a tensor, such as torch.Tensor.mean.")
        self._block = _watch_block(model, save, keep, transform, seed, orphans=orphans)
        self._reminder = EntryReminder("watch", "recorded nothing")

    def __enter__(self) -> Trace:
        if self._reminder.is_entered:
            raise InputError("this watch was already used: create a new one for each block.")
        self._reminder.is_entered = True
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("watch", name, "the trace is what `with cutaway.watch(model) as trace:` gives you.")


@contextmanager
def _watch_block(
    model: nn.Module | None,
    save: Save,
    keep: Where | str | Path | ValueSink,
    transform: Callable[[Tensor], Any] | None,
    seed: int | None,
    *,
    orphans: bool,
) -> Iterator[Trace]:
    captured = Trace()
    saver = Saver(save, keep, transform)
    with seed_rng(seed) if seed is not None else nullcontext():
        with _session(captured, model, saver, orphans=orphans, gradients=True):
            yield captured
    missing = saver.unmatched()
    # A block that raised may not have reached the sites yet; its own error matters more.
    if missing and captured.is_complete:
        raise SiteError(
            f"save={missing[0]!r} matches nothing in this trace of {captured.model_name}."
            f"{nearest_hint(missing[0], captured.sites)} "
            f"cutaway.sites(model, example) lists all {len(captured.sites)} sites."
        )


def sites(model: nn.Module, /, *args: Any, **kwargs: Any) -> Sites:
    """Lists every site of a model for an example input, without saving values.

    `components` lists the sites that can be collected, with their shapes; `to_json()` exports them.

    >>> import torch, cutaway
    >>> cutaway.sites(torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.ones(2, 4))
    ('.', '0', '.@in.0', '0/linear', '0.weight', '0.bias')

    The model runs once in its current mode; its state and the random generators are restored afterwards.

    Args:
        model: the model, an instance of `torch.nn.Module`.
        args: positional inputs of the model, as an example.
        kwargs: keyword inputs of the model.
    """
    check_model(model, "sites")
    captured = Trace()
    try:
        with preserve_state(getattr(model, "_orig_mod", model)), watch(model, save=None) as captured:
            model(*args, **kwargs)
    except BaseException as error:
        raise explain_error(error, "sites", model, args, kwargs, n_ops=_n_ops(captured)) from error.__cause__
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


def _n_ops(captured: Trace) -> int:
    """Number of ops recorded before an error; 0 if the capture did not even start."""
    return 0 if captured._tables is None else len(captured)


def _attach(error: BaseException, captured: Trace) -> None:
    try:
        error.cutaway_trace = captured  # type: ignore[attr-defined]
    except AttributeError:  # an exception class with slots
        pass
