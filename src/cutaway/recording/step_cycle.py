"""The life of steps: counts them, decides which are recorded, and gives them to the writer."""

from __future__ import annotations

import operator
from time import monotonic, perf_counter
from typing import Any

from cutaway.core.errors import InputError
from cutaway.recording.environment import module_tree, to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.facts.tables import FactTables
from cutaway.recording.hooks.step_hooks import SiteFilter
from cutaway.recording.models import RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.scalars import PendingScalars
from cutaway.recording.schedules.fixed import Never
from cutaway.recording.schedules.parse import Cost, Schedule
from cutaway.recording.settings import Settings
from cutaway.recording.step import RecordedStep, Step
from cutaway.recording.step_graph import StepGraphs
from cutaway.recording.usage import NESTED, NO_STEPS, NOT_CALLED, check_batch_size, nothing_due
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer

_SAVE_EVERY = 10.0
"""Seconds between saves of the schedule's state, so that a run killed between two recorded steps resumes with it."""


class StepCycle:
    """Begins, ends and writes the steps of one run.

    Args:
        writer: takes the steps that are to be kept.
        models: the recorded model or models.
        schedule: decides which steps are recorded.
        settings: what to record of them.
        guard: runs everything that may fail.
    """

    def __init__(
        self, writer: Writer, models: RecordedModels, schedule: Schedule, settings: Settings, guard: ErrorGuard
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._guard = guard
        self._schedule = schedule
        self.every = ""
        """The schedule as the user wrote it, for messages."""
        self._kinds: dict[str, None] = {}
        self._n_steps = 0
        self._n_due = 0
        self._order: dict[Any, int] = {}
        self._saved = monotonic()
        self._described: Any = None
        self.open: Step | None = None
        """The step that the program is in."""
        self.next = 0
        """The number of the next step."""
        self.last = -1
        """The number of the last step that began; -1 before the first."""
        self.has_named = False
        """Whether the user has named a tensor, other than a loss."""
        self.models = models
        self._filter = SiteFilter(
            settings.at, gradients=settings.gradients, updates=settings.updates, parameters=settings.parameters
        )
        self.scalars = PendingScalars(writer.scalars)
        self.graphs = StepGraphs(writer)
        self._tables = FactTables(writer)
        self._overwritten: set[str] = set()
        """Sites that steps have seen overwritten: a step that may be dropped must copy them at once."""
        self._units = RecordedUnits(settings.batch_dim, settings.unit_dims)

    @property
    def at(self) -> int:
        """The step that notes and scalars are attached to now: the open step, else the last one, else the first."""
        if self.open is not None:
            return self.open.number
        return self.next if self.last < 0 else self.last

    def resume(self, run: Run) -> None:
        """Continue the step numbers and the schedule of the previous session."""
        last = [int(run.steps[-1])] if len(run) else []
        # Scalars are logged at every step, so they may be ahead of the last recorded step.
        last += [int(curve.steps[-1]) for curve in run.scalars.values() if len(curve)]
        self.next = max(last, default=-1) + 1
        state = run.documents.get("schedule")
        if isinstance(state, dict):
            self._guard(self._schedule.restore, state)

    def describe_modules(self) -> None:
        """Write the module tree, again if it has changed: adapters may be added after the run began."""
        models = self.models
        names = [parameter.names for parameter in models.parameters]
        key = ([addresses for _, addresses in models.modules.values()], names)
        if key != self._described:
            self._described = key
            self._writer.document("modules", module_tree(models.root))

    def save_schedule(self) -> None:
        """Write the state of the schedule, so that a resumed run continues it."""
        self._saved = monotonic()
        self._writer.document("schedule", to_plain(self._schedule.state()))

    def report_missing(self) -> None:
        """At a normal end, report what a correct program would have recorded."""
        if self.last < 0:
            self._guard.report(NO_STEPS)
        elif not self._n_due and self._kinds and not isinstance(self._schedule, Never):
            self._guard.report(nothing_due(self.every, self._n_steps, [*self._kinds]))
        elif self._order and not self.models.has_run and not self.has_named:
            self._guard.report(NOT_CALLED)

    def enter(self, step: Step) -> None:
        """Begin a step, and record it if it is due."""
        if self.open is not None:
            self._guard.report(NESTED)
            return
        step.number = self.last = self._number_of(step)
        self.next = step.number + 1
        self.open = step
        self._n_steps += 1
        step.is_counted = True
        self._guard.seconds = 0.0
        step.has_late_kind = step.kind is None
        if step.has_late_kind or self._is_due(step):
            self._guard(self._begin, step)

    def _number_of(self, step: Step) -> int:
        if step.number_given is None:
            return self.next
        try:
            given = operator.index(step.number_given)
        except TypeError:
            self._guard.report(
                InputError(f"number={step.number_given!r} is not an integer: the step is numbered {self.next} instead")
            )
            return self.next
        if given <= self.last:
            problem = f"number={given} is not greater than the last step, {self.last}"
            self._guard.report(InputError(f"{problem}: step numbers must increase; using {self.next} instead"))
            return self.next
        return given

    def _is_due(self, step: Step) -> bool:
        if step.kind is None:
            return False
        self._kinds[step.kind] = None
        try:
            is_due = bool(self._schedule.wants(step.number, step.kind))
        except Exception as error:
            self._guard.report(error)
            is_due = False
        self._n_due += is_due
        return is_due

    def _begin(self, step: Step) -> None:
        self.models.refresh()
        self.describe_modules()
        is_traced = self._settings.graph and self.graphs.needs_trace(step.kind)
        recorded = RecordedStep(
            self._settings,
            self.models,
            self._filter,
            self._guard,
            units=self._units,
            tables=self._tables,
            is_traced=is_traced,
            overwritten=self._overwritten if step.has_late_kind else None,
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

    def leave(self, step: Step, error: BaseException | None) -> None:
        """End a step, normally or with an exception; write it if it is to be kept."""
        # close() inside the step has left it already, or Ctrl-C came before it was opened.
        if self.open is not step:
            return
        recorded = step.recorded
        try:
            if recorded is not None:
                step.kind = step.kind if step.kind is None else str(step.kind)
                is_kept = not step.is_discarded and (not step.has_late_kind or self._is_due(step))
                if is_kept:
                    self._guard(recorded.keep)
                    self._guard(recorded.stop, error)
                step.recorded = None
                if is_kept and recorded.is_whole:
                    self._guard(self._write, step, recorded)
        finally:
            self.release(step, recorded)
        if recorded is None and monotonic() - self._saved > _SAVE_EVERY:
            self._guard(self.save_schedule)

    def release(self, step: Step, recorded: RecordedStep | None) -> None:
        """Remove every hook of a step, whatever happened in it."""
        step.recorded = None
        self.open = None
        if recorded is not None:
            self._guard(recorded.release)

    def _write(self, step: Step, recorded: RecordedStep) -> None:
        began = perf_counter()
        kind = step.kind or ""
        if not self._order and recorded.missing_samples:
            # Later batches may be smaller, as the last of an epoch is: for these, a note suffices.
            self._guard.report(InputError(recorded.missing_samples))
            self._guard.is_new(recorded.missing_samples)  # marks the note as reported
        n_bytes = recorded.write(self._writer, self.graphs, step.number, kind, self._order)
        for note in filter(self._guard.is_new, recorded.notes):
            self._writer.problem(note, step=step.number, level="info")
        if "error" not in recorded.about:
            self._guard(self._filter.check, recorded.op_sites)
            self._guard(self._units.check)
        self._schedule.recorded(kind, Cost(self._guard.seconds + perf_counter() - began, n_bytes))
        self.scalars.start_copies()
        self.save_schedule()  # so that a killed run resumes with it
