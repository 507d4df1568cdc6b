"""Fixed batches: the same samples pass through the model over the whole training, on a schedule of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cutaway.capture.interventions.edit import edit
from cutaway.capture.model.eval_mode import eval_mode, preserve_state
from cutaway.capture.model.rng_state import seed_rng
from cutaway.capture.model.tree import modules_of
from cutaway.capture.patches.eager import force_eager
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.recording.error_guard import ErrorGuard, without_modes
from cutaway.recording.extra_passes.batch_copy import call_with, copy_batch, fingerprint, tensors_of
from cutaway.recording.extra_passes.edited_steps import edited_kind, is_edited
from cutaway.recording.hooks.site_filter import SiteFilter
from cutaway.recording.models import RecordedModels, eager_model, is_several
from cutaway.recording.schedules.base import Cost, Schedule
from cutaway.recording.schedules.parse import schedule_of
from cutaway.recording.settings import Settings, parse_samples
from cutaway.recording.step import RecordedStep, Step
from cutaway.store.format.frames import Plain

if TYPE_CHECKING:
    from cutaway.recording.recorder import Recorder
    from cutaway.recording.step_cycle import StepCycle

Edit = Mapping[Any, Any] | Callable[[], AbstractContextManager[Any]]
"""An edit of a pass: sites → new values, or a function that returns a `cutaway.edit`."""

_PATIENCE = 20
"""Steps for which a batch waits for a free step number before a problem is reported."""


@dataclass(slots=True, eq=False)
class FixedBatch:
    """One batch, and how to pass it through the model."""

    name: str
    batch: Any
    schedule: Schedule
    settings: Settings
    forward: Callable[[Any], Any] | None = None
    training: bool = False
    edits: dict[str, Edit] = field(default_factory=dict)
    n_waited: int = 0
    """Number of steps for which it is due but has no free step number."""

    @property
    def n_passes(self) -> int:
        """Passes each time it is due: one, and one for each edit."""
        return 1 + len(self.edits)


class FixedBatches:
    """The fixed batches of a run.

    Args:
        run: the recorder, for the steps that stand for the passes.
        cycle: writes these steps.
        guard: runs everything that may fail.
        earlier: the document about fixed batches of the previous session.
    """

    def __init__(self, run: Recorder, cycle: StepCycle, guard: ErrorGuard, earlier: Mapping[str, Any]) -> None:
        self._run = run
        self._cycle = cycle
        self._guard = guard
        self._earlier = earlier
        self._batches: dict[str, FixedBatch] = {}
        self._fingerprints: dict[str, str] = {}
        self._models = RecordedModels(eager_model(cycle.models.root), is_eager=True)
        self._first: int | None = None
        """The number of the first step of this session."""

    def add(self, batch: FixedBatch) -> None:
        """Register a batch. It is copied."""
        name = batch.name
        if not isinstance(name, str) or not name:
            raise InputTypeError(f"run.fixed_batch({name!r}): the name is {type_text(name)}; pass a text, as in 'toy'.")
        if name in self._batches or self._cycle.has_kind(name):
            raise InputError(f"run.fixed_batch({name!r}): there are steps of this kind already; choose another name.")
        if batch.forward is None and is_several(self._models.root):
            raise InputError(
                f"run.fixed_batch({name!r}): several models are recorded; say what to run, as in "
                "forward=lambda batch: critic(generator(batch))."
            )
        batch.batch = copy_batch(batch.batch)
        known, now = self._earlier.get(name), fingerprint(batch.batch)
        if isinstance(known, Mapping):
            if known.get("fingerprint") != now:
                raise InputError(
                    f"run.fixed_batch({name!r}): the earlier session of this run has another batch of this name, so "
                    "that the two would be mixed; choose another name, or pass the same batch."
                )
            batch.schedule.restore(known.get("schedule") or {})
        self._batches[name], self._fingerprints[name] = batch, now

    # passes

    def before_step(self, number: int, kind: str | None, *, is_given: bool) -> int:
        """Pass the batches that are due. Returns the number of the step that begins now.

        Every pass is a step with a number of its own. It takes the last numbers before the step, if no recorded
        step has them; else the step gets a later number, unless the user numbers the steps: then the pass waits.

        Args:
            number: the number that the step would have.
            is_given: whether the user has set it.
        """
        if self._first is None:
            self._first = number
        if kind is not None and kind in self._batches:
            problem = f"a step has the kind {kind!r}, which is the name of a fixed batch"
            self._guard.report(InputError(f"{problem}, so that the two are mixed: rename one of them."))
        # Every schedule is asked at every step: it counts them.
        due = [batch for batch in self._batches.values() if self._is_due(batch, number) or batch.n_waited]
        n_passes = sum(batch.n_passes for batch in due)
        if not n_passes:
            return number
        lowest = max(self._first, self._cycle.last_written + 1)
        first = max(lowest, number - n_passes)
        if is_given and first + n_passes > number:
            self._wait(due)
            return number
        now = first
        for batch in due:
            batch.n_waited = 0
            self._pass_all(batch, now)
            now += batch.n_passes
        return max(number, now)

    def _is_due(self, batch: FixedBatch, number: int) -> bool:
        try:
            return bool(batch.schedule.wants(number, batch.name))
        except Exception as error:
            self._guard.report(error)
            return False

    def _wait(self, due: list[FixedBatch]) -> None:
        for batch in due:
            batch.n_waited += 1
            if batch.n_waited == _PATIENCE:
                self._guard.report(
                    InputError(
                        f"the fixed batch {batch.name!r} is not passed, because it needs step numbers of its own: you "
                        "number the steps, and all of them are recorded. Leave gaps, as in number=10 * n, record fewer "
                        "steps, or leave out number=."
                    )
                )

    def _pass_all(self, batch: FixedBatch, number: int) -> None:
        """Pass a batch without its edits, then once with each."""
        edited = {name: number + 1 + position for position, name in enumerate(batch.edits)}
        about: dict[str, Plain] = {"fixed_batch": batch.name}
        try:
            self._pass(batch, batch.name, number, {**about, "edited": list(edited.values())} if edited else about)
            for name, at in edited.items():
                self._pass(batch, f"{batch.name}/{name}", at, {**about, "unedited": number}, batch.edits[name])
        except Exception as error:
            del self._batches[batch.name]
            what = f"{type(error).__name__}: {error}".rstrip(".")
            self._guard.report(
                InputError(f"the fixed batch {batch.name!r} failed and is not passed again: {what}")
                if not isinstance(error, InputError)
                else error
            )

    def _pass(self, batch: FixedBatch, kind: str, number: int, about: dict[str, Plain], edits: Any = None) -> None:
        began, cycle, root = perf_counter(), self._cycle, self._models.root
        _check_is_whole(root)
        step = Step(self._run, edited_kind(kind) if is_edited(root) else kind, number, None)
        step.number = number
        with ExitStack() as stack:
            stack.enter_context(without_modes())
            if "torch._dynamo" in sys.modules:  # an additional compiled variant may evict those of the training
                stack.enter_context(force_eager())
            stack.enter_context(_without_gradients(root))
            stack.enter_context(preserve_state(root) if batch.training else eval_mode(root))
            stack.enter_context(torch.no_grad())
            stack.enter_context(seed_rng(0))
            inputs = copy_batch(batch.batch)
            self._guard(self._begin, step, batch, inputs)
            if step.recorded is None:
                return
            stack.callback(cycle.release, step, step.recorded)
            with nullcontext() if edits is None else edit(_callee(root), edits) if _is_table(edits) else edits():
                call_with(_callee(root), inputs) if batch.forward is None else batch.forward(inputs)
            recorded = step.recorded
            self._guard(recorded.stop, None)
            recorded.about.update(about)
        if recorded.is_whole and not step.is_discarded:
            self._guard(self._write, step, recorded, batch, began)

    def _begin(self, step: Step, batch: FixedBatch, inputs: Any) -> None:
        """Install the hooks for one pass. No gradients: those of the training may still be in `.grad`."""
        settings, cycle = batch.settings, self._cycle
        self._models.refresh()
        site_filter = SiteFilter(settings.at, gradients=False, updates=False, parameters=settings.parameters)
        is_traced = settings.graph and cycle.graphs.needs_trace(step.kind)
        recorded = RecordedStep(
            settings,
            self._models,
            site_filter,
            self._guard,
            units=cycle.units,
            tables=cycle.tables,
            is_traced=is_traced,
        )
        recorded.tensors.selection.infer_batch_size(tensors_of(inputs))
        cycle.open = step
        try:
            recorded.start()
            step.recorded = recorded
        except BaseException:
            cycle.release(step, recorded)
            raise

    def _write(self, step: Step, recorded: RecordedStep, batch: FixedBatch, began: float) -> None:
        n_bytes = self._cycle.put(step, recorded)
        batch.schedule.recorded(batch.name, Cost(perf_counter() - began, n_bytes))

    def state(self) -> dict[str, Plain]:
        """What a resumed run needs: the state of each schedule, and a fingerprint of each batch."""
        return {
            name: {
                "fingerprint": self._fingerprints[name],
                "schedule": batch.schedule.state(),
                "edits": list(batch.edits),
            }
            for name, batch in self._batches.items()
        }


def add_fixed_batch(
    run: Recorder, cycle: StepCycle, settings: Settings, name: str, batch: Any, options: tuple[Any, ...]
) -> None:
    """Add a batch to those of a run; `run.fixed_batch` calls it.

    Args:
        settings: those of the run.
        options: every, forward, edits, training and samples of `run.fixed_batch`.
    """
    every, forward, edits, training, samples = options
    if samples is not None:
        settings = replace(settings, samples=parse_samples(samples))
    if cycle.fixed_batches is None:
        earlier = cycle.earlier_documents.get("fixed_batches")
        cycle.fixed_batches = FixedBatches(run, cycle, run.guard, earlier if isinstance(earlier, dict) else {})
    cycle.fixed_batches.add(FixedBatch(name, batch, schedule_of(every), settings, forward, training, edits))


def _is_table(edits: object) -> bool:
    return isinstance(edits, Mapping)


def _callee(root: nn.Module) -> nn.Module:
    """The module to call: not the wrapper of DDP, which would synchronize buffers with the other ranks."""
    return root.module if isinstance(root, DistributedDataParallel) else root


def _check_is_whole(root: nn.Module) -> None:
    for module in modules_of(root):
        if any(base.__module__.startswith("torch.distributed.fsdp") for base in type(module).__mro__):
            raise InputError(
                "fixed batches are not passed through a model that FSDP shards: the ranks would have to communicate. "
                "Pass the batch in a step of its own: with run.step('toy'), torch.no_grad(): model(batch)."
            )


@contextmanager
def _without_gradients(root: nn.Module) -> Iterator[None]:
    """Context manager: sets aside the `.grad` of all parameters, in case that `forward=` runs a backward pass."""
    grads = [(parameter, parameter.grad) for parameter in root.parameters()]
    for parameter, grad in grads:
        if grad is not None:
            parameter.grad = None
    try:
        yield
    finally:
        for parameter, grad in grads:
            if parameter.grad is not grad:
                parameter.grad = grad
