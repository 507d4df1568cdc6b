"""`cutaway.record` and the `Recorder`: record a training run step by step without changing it."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, perf_counter
from types import TracebackType
from typing import Any, Unpack

import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.recording.environment import environment, module_tree, to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.hooks import SiteFilter
from cutaway.recording.models import Models, RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.scalars import PendingScalars
from cutaway.recording.schedules.parse import Cost, EveryLike, schedule_of
from cutaway.recording.settings import Level, RecordOptions, Settings
from cutaway.recording.shutdown import CloseAtExit
from cutaway.recording.step import RecordedStep, Role
from cutaway.recording.step_graph import StepGraphs
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Options, Writer

_SAVE_EVERY = 10.0
"""Seconds between saves of the schedule's state, so that a run killed between two recorded steps resumes with it."""


def record(
    path: str | os.PathLike[str],
    model: Models,
    *,
    every: EveryLike = 100,
    at: str | Sequence[str] = "**",
    samples: int | Sequence[int] = 0,
    statistics: Level = "core",
    resume: bool = False,
    **options: Unpack[RecordOptions],
) -> Recorder:
    """Record a training run: put one `with` block around the loop and one around each step.

        with cutaway.record("runs/base", model, every=50, samples=8) as run:
            for x, y in loader:
                with run.step():
                    loss = loss_fn(model(x), y)
                    loss.backward()
                    optimizer.step(); optimizer.zero_grad()
                    run.log(loss=loss)

    Args:
        path: the folder to write the run to.
        model: the model to record, or a dict of several models by name.
        every: which steps to record: every nth of each kind, or a schedule (`docs/schedules.md`).
        at: which tensors to record: sites and patterns. By default all module outputs, parameters and buffers.
        samples: how many samples of each batch to store values for, or a list of sample indices.
        statistics: "core", or "full" for statistics per unit and per sample as well.
        resume: whether to continue the run that is already at `path`.
        options: `gradients`, `updates`, `graph`, `config`, `enabled` and others: see `RecordOptions`.
    """
    return Recorder(path, model, every, Settings.of(at, samples, statistics, options), resume=resume)


class Recorder:
    """Writes a run; `cutaway.record` returns one. An error inside the recorder never stops the training."""

    def __init__(
        self, path: str | os.PathLike[str], model: Models, every: EveryLike, settings: Settings, *, resume: bool
    ) -> None:
        self._path = os.fspath(path)
        self._settings = settings
        self._schedule = schedule_of(every)
        self._open: Step | None = None
        self._next = 0
        self._last = -1
        self._order: dict[Any, int] = {}
        self._arrangement: list[dict[str, Any]] = []
        self._writer: Writer | None = None
        self._earlier_problems: tuple[str, ...] = ()
        self._is_closed = False
        self._saved = monotonic()
        self.guard = ErrorGuard(self._note_failure)
        if not settings.enabled:
            return
        self._models = RecordedModels(model)
        self._filter = SiteFilter(
            settings.at, gradients=settings.gradients, updates=settings.updates, parameters=settings.parameters
        )
        rank, world_size = _rank()
        options = Options(fsync=settings.fsync, limits=settings.limits)
        self._writer = Writer(path, kind="run", resume=resume, rank=rank, world_size=world_size, options=options)
        self._scalars = PendingScalars(self._writer.scalars)
        self._graphs = StepGraphs(self._writer)
        self._units = RecordedUnits(settings.batch_dim, settings.unit_dims)
        if resume:
            try:
                self._resume(rank)
            except BaseException:
                self._writer.close()
                raise
        self._close_at_exit = CloseAtExit(self)
        self._described: Any = None
        self.guard(self._describe)

    def _describe(self) -> None:
        """Write the run's documents: environment, unit rule, modules, config."""
        assert self._writer is not None
        self._writer.document("environment", environment())
        self._writer.document("units", {"rule": "graph"})
        self._describe_modules()
        if self._settings.config is not None:
            config = to_plain(self._settings.config)
            self._writer.document("config", config if isinstance(config, dict) else {"config": config})

    def _describe_modules(self) -> None:
        """Write the module tree, again if it has changed: adapters may be added after the run began."""
        models = self._models
        names = [parameter.names for parameter in models.parameters]
        key = ([addresses for _, addresses in models.modules.values()], names)
        if key != self._described and self._writer is not None:
            self._described = key
            self._writer.document("modules", module_tree(models.root))

    def _resume(self, rank: int) -> None:
        """Continue the step numbers and the schedule of the previous session."""
        run = Run(Archive(self._path))
        if rank in run.ranks:
            run = run.rank(rank)
        last = [int(run.steps[-1])] if len(run) else []
        last += [int(curve.steps[-1]) for curve in run.scalars.values() if len(curve)]
        self._next = max(last, default=-1) + 1
        self._earlier_problems = run.problems
        state = run.documents.get("schedule")
        if isinstance(state, dict):
            self.guard(self._schedule.restore, state)

    # steps

    def step(self, kind: str | None = "", *, number: int | None = None, batch_size: int | None = None) -> Step:
        """Context manager around one training step.

        Args:
            kind: the kind of step, such as "eval". Each kind has its own schedule. Pass None if you learn the kind
                inside the block: the step is recorded, and written only if you set `step.kind` and that kind is due.
            number: the step number, if you count steps yourself. Numbers must increase.
            batch_size: the number of samples in the batch, if it cannot be inferred from the first model input.
        """
        return Step(self, kind if kind is None else str(kind), number, batch_size)

    @property
    def recording(self) -> bool:
        """Whether the program is inside a step that is being recorded."""
        return self._open is not None and self._open.recorded is not None

    @property
    def path(self) -> str:
        """The folder of the run."""
        return self._path

    @property
    def number(self) -> int:
        """The number of the open step, or of the next one."""
        return self._open.number if self._open is not None else self._next

    @property
    def _at(self) -> int:
        """The step that notes and scalars are attached to now: the open step, else the last one, else the first."""
        return self.number if self._open is not None or self._last < 0 else self._last

    @property
    def acknowledged(self) -> int | None:
        """The last recorded step that is safely on disk, should the process die now."""
        return None if self._writer is None else self._writer.acknowledged

    @property
    def problems(self) -> tuple[str, ...]:
        """What has gone wrong so far: failures, what could not be seen or written; `Run.problems` is the same list."""
        return () if self._writer is None else (*self._earlier_problems, *self._writer.problems)

    # added by the user

    def tensor(
        self,
        name: str,
        tensor: Tensor,
        *,
        role: Role = "value",
        node: str = "",
        part: str = "",
        batch_dim: int | None = None,
        unit_dim: int | Sequence[int] | None = None,
    ) -> None:
        """Record any tensor under a name; its site is `$name`. Does nothing outside recorded steps.

        Args:
            name: the name of the tensor.
            tensor: the tensor to record.
            role: "input", "target", "loss", "parameter", "buffer" or "value".
            node: the node of the dependency graph that the tensor belongs to, if several tensors share one.
            part: the name of the tensor within its node.
            batch_dim: the sample dimension, if the graph of the model does not determine it.
            unit_dim: the unit dimension or dimensions, if the graph of the model does not determine them.
        """
        step = self._open.recorded if self._open is not None else None
        if step is not None:
            dims = (unit_dim,) if isinstance(unit_dim, int) else None if unit_dim is None else tuple(unit_dim)
            self.guard(step.tensor, str(name), tensor, (role, node, part), (batch_dim, dims))

    def samples(self, **fields: Any) -> None:
        """Describe the samples of this step: `ids=`, `text=`, `tokens=`, `label=`, `image=`, or any other field.

        Each field has one entry per sample. The entries of the stored samples are written and searchable.
        """
        step = self._open.recorded if self._open is not None else None
        if step is not None:
            self.guard(step.samples, fields)

    def log(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Log scalars: `run.log(loss=loss, lr=0.1)`. Works at every step and never waits for a GPU."""
        if self._writer is None:
            return
        named = {**(values or {}), **more}
        if self._is_open():
            self.guard(self._scalars.add, self._at, named)
        if self.recording:
            for name, value in named.items():
                if isinstance(value, Tensor) and value.requires_grad and value.numel() == 1:
                    self.tensor(name, value, role="loss")

    def note(self, text: str, *, level: str = "info") -> None:
        """Add a note to the run, attached to the current step."""
        if self._writer is not None and self._is_open():
            self.guard(self._note, text, level)

    def _note(self, text: str, level: str) -> None:
        if self._writer is not None:
            self._writer.note(str(text), step=self._at, level=level)

    def _is_open(self) -> bool:
        """Whether the run still accepts data; reports once if it is closed."""
        if self._is_closed:
            self.guard.report(InputError("the run is closed: nothing more is recorded"))
        return not self._is_closed

    @contextmanager
    def iteration(self) -> Iterator[int]:
        """Context manager around one iteration inside a step; its tensors are recorded separately. Yields 1, 2, …"""
        step = self._open.recorded if self._open is not None else None
        if step is None:
            yield 0
            return
        tensors = step.tensors
        before = tensors.iteration
        step.n_iterations += 1
        tensors.iteration = step.n_iterations
        try:
            yield step.n_iterations
        finally:
            tensors.iteration = before

    @contextmanager
    def gradients(self, loss: str) -> Iterator[None]:
        """Context manager around the backward pass of one loss; also records its gradients as `grad/<loss>`."""
        step = self._open.recorded if self._open is not None else None
        if step is None:
            yield
            return
        gradients = step.hooks.gradients
        before, gradients.loss = gradients.loss, str(loss)
        self.guard(step.hooks.hook_parameters)
        try:
            yield
        finally:
            gradients.loss = before

    # the dependency graph

    def link(self, parent: str, child: str) -> None:
        """Add a dependency that does not go through torch: `run.link("$memory", "reader")`."""
        if self._writer is not None:
            self._graphs.manual.append((str(parent), str(child)))

    def arrange(
        self,
        at: str,
        *,
        label: str | None = None,
        group: str | None = None,
        order: float | None = None,
        hidden: bool | None = None,
    ) -> None:
        """Set how the graph shows nodes: their label, group and order, or whether they are hidden."""
        if self._writer is None:
            return
        rule = {"at": at, "label": label, "group": group, "order": order, "hidden": hidden}
        self._arrangement.append({key: value for key, value in rule.items() if value is not None})
        self.guard(self._writer.document, "arrangement", list(self._arrangement))

    # closing

    def flush(self) -> None:
        """Block until everything recorded so far is on disk."""
        if self._writer is not None:
            self.guard(self._scalars.drain)
            self.guard(self._writer.flush)

    def close(self) -> None:
        """Write everything to disk and end the run. Idempotent."""
        if self._writer is None or self._is_closed:
            return
        try:
            if self._open is not None:
                self._leave(self._open, None)
            self.guard(self._scalars.drain)
            self.guard(self._save_schedule)
        finally:
            self._is_closed = True
            self._close_at_exit.cancel()
            self.guard(self._writer.close)

    def _save_schedule(self) -> None:
        if self._writer is not None:
            self._saved = monotonic()
            self._writer.document("schedule", to_plain(self._schedule.state()))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, (GeneratorExit, SystemExit)):
            self.note(f"the run ended with {kind.__name__ if kind else ''}: {error}"[:2000], level="error")
        elif self._writer is not None and self._last < 0:
            forgotten = InputError("no step was recorded because none was begun: put `with run.step():` around each")
            self.guard.report(forgotten)
        self.close()

    def __repr__(self) -> str:
        state = "off" if self._writer is None else f"{self._next} steps so far"
        return f"<Recorder {self.path}: {state}>"

    # for Step

    def _note_failure(self, text: str) -> None:
        """Write an internal failure into the run as a note."""
        if self._writer is not None and not self._is_closed:
            self._writer.problem(text, step=self.number)

    def _enter(self, step: Step) -> None:
        """Begin a step, and record it if it is due."""
        if self._writer is None or not self._is_open():
            return
        if self._open is not None:
            self.guard.report(InputError("a step began inside another step: it counts as part of the outer one"))
            return
        step.number = self._last = self._number_of(step)
        self._next = step.number + 1
        self._open = step
        step.is_counted = True
        self.guard.seconds = 0.0
        step.has_late_kind = step.kind is None
        if step.has_late_kind or self._is_due(step):
            self.guard(self._begin, step)

    def _number_of(self, step: Step) -> int:
        if step.number_given is None:
            return self._next
        try:
            given = operator.index(step.number_given)
        except TypeError:
            self.guard.report(
                InputError(f"number={step.number_given!r} is not an integer: the step is numbered {self._next} instead")
            )
            return self._next
        if given <= self._last:
            problem = f"number={given} is not greater than the last step, {self._last}"
            self.guard.report(InputError(f"{problem}: step numbers must increase; using {self._next} instead"))
            return self._next
        return given

    def _is_due(self, step: Step) -> bool:
        try:
            return step.kind is not None and bool(self._schedule.wants(step.number, step.kind))
        except Exception as error:
            self.guard.report(error)
            return False

    def _begin(self, step: Step) -> None:
        self._models.refresh()
        self._describe_modules()
        is_traced = self._settings.graph and self._graphs.needs_trace(step.kind)
        recorded = RecordedStep(
            self._settings, self._models, self._filter, self.guard, units=self._units, is_traced=is_traced
        )
        recorded.has_late_kind = step.has_late_kind
        if step.batch_size is not None:
            recorded.tensors.selection.batch_size = int(step.batch_size)
            recorded.tensors.selection.is_batch_size_given = True
        try:
            recorded.start()
            step.recorded = recorded
        except BaseException:
            recorded.release()
            raise

    def _leave(self, step: Step, error: BaseException | None) -> None:
        """End a step, normally or with an exception; write it if it is to be kept."""
        if self._open is not step:
            return
        recorded = step.recorded
        try:
            if recorded is not None:
                self.guard(recorded.stop, error)
                step.recorded = None
                step.kind = step.kind if step.kind is None else str(step.kind)
                if recorded.is_whole and not step.is_discarded and (not step.has_late_kind or self._is_due(step)):
                    self.guard(self._write, step, recorded)
        finally:
            self._release(step, recorded)
        if recorded is None and monotonic() - self._saved > _SAVE_EVERY:
            self.guard(self._save_schedule)

    def _release(self, step: Step, recorded: RecordedStep | None) -> None:
        """Remove every hook of a step, whatever happened in it."""
        step.recorded = None
        self._open = None
        if recorded is not None:
            self.guard(recorded.release)

    def _write(self, step: Step, recorded: RecordedStep) -> None:
        assert self._writer is not None
        began = perf_counter()
        kind = step.kind or ""
        n_bytes = recorded.write(self._writer, self._graphs, step.number, kind, self._order)
        for note in filter(self.guard.is_new, recorded.notes):
            self._writer.problem(note, step=step.number, level="info")
        if "error" not in recorded.about:
            self.guard(self._filter.check)
        self._schedule.recorded(kind, Cost(self.guard.seconds + perf_counter() - began, n_bytes))
        self._scalars.start_copies()
        self._save_schedule()  # so that a killed run resumes with it


class Step:
    """Context manager around one training step; `run.step()` returns one."""

    __slots__ = (
        "_run", "batch_size", "has_late_kind", "is_counted", "is_discarded", "kind", "number", "number_given",
        "recorded",
    )  # fmt: skip

    def __init__(self, run: Recorder, kind: str | None, number: int | None, batch_size: int | None) -> None:
        self._run = run
        self.kind = kind
        """The kind of the step. You may set it inside the block if it was None."""
        self.number_given = number
        self.number = -1
        self.batch_size = batch_size
        self.recorded: RecordedStep | None = None
        self.is_counted = False
        self.is_discarded = False
        self.has_late_kind = False

    def discard(self) -> None:
        """Do not write this step."""
        self.is_discarded = True

    def __enter__(self) -> Step:
        try:
            self._run._enter(self)
        except Exception as error:
            self._run.guard.report(error)
        except BaseException:  # Ctrl-C: __exit__ will not run, because the block was never entered
            self.is_discarded = True
            self._run._leave(self, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_counted:
            try:
                self._run._leave(self, error)
            except Exception as failure:
                self._run.guard.report(failure)
                self._run._release(self, self.recorded)


def _rank() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
