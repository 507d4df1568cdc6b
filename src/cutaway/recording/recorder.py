"""The `Recorder` that `cutaway.record` returns: writes a training run step by step without changing it."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as shortened
from time import monotonic, perf_counter
from types import TracebackType
from typing import Any

from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.recording.environment import environment, module_tree, rank_and_world_size, to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.hooks.step_hooks import SiteFilter
from cutaway.recording.models import Models, RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.scalars import PendingScalars
from cutaway.recording.schedules.fixed import Never
from cutaway.recording.schedules.parse import Cost, EveryLike, schedule_of
from cutaway.recording.settings import Settings
from cutaway.recording.shutdown import CloseAtExit
from cutaway.recording.step import RecordedStep, Role, Step
from cutaway.recording.step_graph import StepGraphs
from cutaway.recording.usage import (
    CLOSED,
    NESTED,
    NO_STEPS,
    NOT_CALLED,
    NOT_ENTERED,
    SWAPPED_TENSOR,
    add_hint,
    check_batch_size,
    check_kind,
    check_scalars,
    nothing_due,
)
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Options, Writer

_SAVE_EVERY = 10.0
"""Seconds between saves of the schedule's state, so that a run killed between two recorded steps resumes with it."""


class Recorder:
    """Writes a run; `cutaway.record` returns one. An error inside the recorder never stops the training."""

    def __init__(
        self, path: str | os.PathLike[str], model: Models, every: EveryLike, settings: Settings, *, resume: bool
    ) -> None:
        self._path = os.fspath(path)
        self._settings = settings
        self._schedule = schedule_of(every)
        self._every = shortened(every)
        self._kinds: dict[str, None] = {}
        self._n_steps = 0
        self._n_due = 0
        self._created: Step | None = None
        self._has_named = False
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
        rank, world_size = rank_and_world_size()
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
        # Scalars are logged at every step, so they may be ahead of the last recorded step.
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
        if self._writer is not None:
            if isinstance(kind, int):  # tested here: this runs at every step, and a guarded call costs microseconds
                self.guard(check_kind, kind)
            if self._created is not None and not self._created.is_entered:
                self.guard.report(NOT_ENTERED)
        self._created = Step(self, kind if kind is None else str(kind), number, batch_size)
        return self._created

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
            if isinstance(name, Tensor):
                self.guard.report(SWAPPED_TENSOR)
                return
            self._has_named |= role != "loss"  # `log` names losses by itself
            dims = (unit_dim,) if isinstance(unit_dim, int) else None if unit_dim is None else tuple(unit_dim)
            self.guard(step.tensor, str(name), tensor, (role, node, part), (batch_dim, dims))

    def samples(self, **fields: Any) -> None:
        """Describe the samples of this step: `ids=`, `text=`, `tokens=`, `label=`, `image=`, or any other field.

        Each field has one entry per sample. The entries of the stored samples are written and searchable.

        Args:
            fields: the entries of all samples of the batch, by the name of the field.
        """
        step = self._open.recorded if self._open is not None else None
        if step is not None:
            self.guard(step.samples, fields)

    def log(self, values: Mapping[str, Any] | None = None, /, **scalars: Any) -> None:
        """Log scalars: `run.log(loss=loss, lr=0.1)`. Works at every step and never waits for a GPU.

        Args:
            values: numbers or one-element tensors by name, for names that are not Python identifiers.
            scalars: the same as keywords.
        """
        if self._writer is None:
            return
        if values is not None and not isinstance(values, Mapping):
            self.guard(check_scalars, values)
            values = None
        named = {**(values or {}), **scalars}
        if self._is_open():
            self.guard(self._scalars.add, self._at, named)
        if self.recording:
            for name, value in named.items():
                if isinstance(value, Tensor) and value.requires_grad and value.numel() == 1:
                    self.tensor(name, value, role="loss")

    def note(self, text: str, *, level: str = "info") -> None:
        """Add a note to the run, attached to the current step.

        Args:
            text: the note.
            level: "info", "warning", "error" or any other word to search for.
        """
        if self._writer is not None and self._is_open():
            self.guard(self._note, text, level)

    def _note(self, text: str, level: str) -> None:
        if self._writer is not None:
            self._writer.note(str(text), step=self._at, level=level)

    def _is_open(self) -> bool:
        """Whether the run still accepts data; reports once if it is closed."""
        if self._is_closed:
            self.guard.report(CLOSED)
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
        """Context manager around the backward pass of one loss; also records its gradients as `grad/<loss>`.

        Args:
            loss: the name of the loss.
        """
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
        """Add a dependency that does not go through torch: `run.link("$memory", "reader")`.

        Args:
            parent: the site that is read.
            child: the site that was computed from it.
        """
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
        """Set how the graph shows nodes: their label, group and order, or whether they are hidden.

        Args:
            at: the site or pattern of the nodes.
            label: the text on the node.
            group: the name of the box that holds the nodes.
            order: where the node stands among its neighbors; smaller numbers come first.
            hidden: whether to leave the nodes out.
        """
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
            # Whatever failed above, the writer must release its lease, or this process could not resume the run.
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
            add_hint(error)
            self.note(f"the run ended with {kind.__name__ if kind else ''}: {error}"[:2000], level="error")
        elif self._writer is not None and not self._is_closed:
            self._report_missing()
        self.close()

    def _report_missing(self) -> None:
        """At a normal end, report what a correct program would have recorded."""
        if self._last < 0:
            self.guard.report(NO_STEPS)
        elif not self._n_due and self._kinds and not isinstance(self._schedule, Never):
            self.guard.report(nothing_due(self._every, self._n_steps, [*self._kinds]))
        elif self._order and not self._models.has_run and not self._has_named:
            self.guard.report(NOT_CALLED)

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
            self.guard.report(NESTED)
            return
        step.number = self._last = self._number_of(step)
        self._next = step.number + 1
        self._open = step
        self._n_steps += 1
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
        if step.kind is None:
            return False
        self._kinds[step.kind] = None
        try:
            is_due = bool(self._schedule.wants(step.number, step.kind))
        except Exception as error:
            self.guard.report(error)
            is_due = False
        self._n_due += is_due
        return is_due

    def _begin(self, step: Step) -> None:
        self._models.refresh()
        self._describe_modules()
        is_traced = self._settings.graph and self._graphs.needs_trace(step.kind)
        recorded = RecordedStep(
            self._settings, self._models, self._filter, self.guard, units=self._units, is_traced=is_traced
        )
        recorded.has_late_kind = step.has_late_kind
        if step.batch_size is not None:
            recorded.tensors.selection.batch_size = check_batch_size(step.batch_size)
            recorded.tensors.selection.is_batch_size_given = True
        try:
            recorded.start()
            step.recorded = recorded
        except BaseException:
            recorded.release()
            raise

    def _leave(self, step: Step, error: BaseException | None) -> None:
        """End a step, normally or with an exception; write it if it is to be kept."""
        # close() inside the step has left it already, or Ctrl-C came before it was opened.
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
        if not self._order and recorded.missing_samples:
            # Later batches may be smaller, as the last of an epoch is: for these, a note suffices.
            self.guard.report(InputError(recorded.missing_samples))
            self.guard.is_new(recorded.missing_samples)  # marks the note as reported
        n_bytes = recorded.write(self._writer, self._graphs, step.number, kind, self._order)
        for note in filter(self.guard.is_new, recorded.notes):
            self._writer.problem(note, step=step.number, level="info")
        if "error" not in recorded.about:
            self.guard(self._filter.check, recorded.op_sites)
            self.guard(self._units.check)
        self._schedule.recorded(kind, Cost(self.guard.seconds + perf_counter() - began, n_bytes))
        self._scalars.start_copies()
        self._save_schedule()  # so that a killed run resumes with it
