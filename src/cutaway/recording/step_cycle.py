"""The life of steps: counts them, decides which are recorded, and gives them to the writer."""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Mapping
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from cutaway.capture import sessions
from cutaway.core.current_step import OpenStep, enter_step
from cutaway.core.errors import InputError
from cutaway.recording.coverage import Coverage, ForwardCounter
from cutaway.recording.environment import module_tree, to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.extra_passes.edited_steps import edited_kind, is_edited
from cutaway.recording.facts.tables import FactTables
from cutaway.recording.flight.flight_recorder import FlightRecorder
from cutaway.recording.hooks.site_filter import SiteFilter
from cutaway.recording.models import RecordedModels
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.scalars import PendingScalars
from cutaway.recording.schedules.fixed import AtSteps, EveryNth, GrowingSchedule, Never
from cutaway.recording.schedules.parse import Cost, Schedule
from cutaway.recording.settings import Settings
from cutaway.recording.shutdown import CloseAtExit
from cutaway.recording.step import RecordedStep, Step
from cutaway.recording.step_graph import RowOrder, StepGraphs
from cutaway.recording.usage import (
    KEEP_OUTSIDE,
    NESTED,
    NO_STEPS,
    NOT_CALLED,
    NOT_ENTERED,
    check_batch_size,
    nothing_due,
    schedule_failed,
)
from cutaway.store.format.records import OPEN_STEP
from cutaway.store.runs.run import Run
from cutaway.store.runs.timeline import lost_steps
from cutaway.store.writing.writer import Writer

if TYPE_CHECKING:
    from cutaway.recording.extra_passes.fixed_batches import FixedBatches

_SAVE_EVERY = 10.0
"""Seconds between saves of the schedule's state, so that a run killed between two recorded steps resumes with it."""
_MAX_GAP = 100_000
"""Most steps that a killed session is said to have lost: a program may count its steps in any way."""


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
        self._order = RowOrder()
        self._named_sites: set[str] = set()
        """Sites of all tensors that the user named; a tensor that is also a module output has both names."""
        self._saved = monotonic()
        self._described: Any = None
        self._n_described = -1
        """`models.n_changes` when the module tree was last compared with the one that is written."""
        self._killed: Run | None = None
        """The run so far, if its last session was killed and this one has begun no step yet."""
        self.open: Step | None = None
        """The step that the program is in."""
        self._entered: OpenStep | None = None
        self.next = 0
        """The number of the next step."""
        self.last = -1
        """The number of the last step that began; -1 before the first."""
        self.last_written = -1
        """The number of the last step given to the writer; -1 before the first."""
        self.fixed_batches: FixedBatches | None = None
        """Batches that pass through the model between the steps; None if there are none."""
        self.earlier_documents: Mapping[str, Any] = {}
        """Documents of the previous session, if this one resumes it."""
        self.has_named = False
        """Whether the user has named a tensor, other than a loss."""
        self.models = models
        self._filter = SiteFilter(
            settings.at, gradients=settings.gradients, updates=settings.updates, parameters=settings.parameters
        )
        self._coverage = Coverage(models, guard)
        roots = [module for module, _ in models.modules.values() if id(module) in models.roots]
        self.outside = ForwardCounter(roots, guard)
        """Counts forward passes until the first step begins."""
        self.scalars = PendingScalars(writer.scalars)
        self.graphs = StepGraphs(writer)
        self.tables = FactTables(writer)
        """Tables of the run that its steps refer to."""
        self._overwritten: set[str] = set()
        """Sites that steps have seen overwritten: a step that may be dropped must copy them at once."""
        self.units = RecordedUnits(settings.batch_dim, settings.unit_dims)
        """Unit and sample dimensions learned so far."""
        self.flight = None if settings.flight is None else FlightRecorder(settings.flight, writer, models, guard)
        """The flight recorder; None if it is off."""

    @property
    def at(self) -> int:
        """The step that notes and scalars are attached to now: the open step, else the last one, else the first."""
        if self.open is not None:
            return self.open.number
        return self.next if self.last < 0 else self.last

    def resume(self, run: Run) -> None:
        """Continue the step numbers and the schedule of the previous session."""
        earlier = [index for index in run.sessions if index.number < self._writer.session]
        self._killed = run if earlier and not earlier[-1].is_ended else None
        last = [int(run.steps[-1])] if len(run) else []
        # Scalars are logged at every step, so they may be ahead of the last recorded step.
        last += [int(curve.steps[-1]) for curve in run.scalars.values() if len(curve)]
        self.next = max(last, default=-1) + 1
        self.earlier_documents = run.documents
        state = run.documents.get("schedule")
        if isinstance(state, dict):
            self._guard(self._schedule.restore, state)

    def _report_killed(self, run: Run, expected: int, first: int) -> None:
        """Record which steps a killed session has lost, now that the first step of this one is known.

        Args:
            expected: the step after the last one of which anything was written.
            first: the first step of this session. If your program counts the steps, it may be a later one.
        """
        known = {*run.steps.tolist(), *lost_steps(run.sessions)}
        opened = run.documents.get(OPEN_STEP)
        if isinstance(opened, int) and opened < first and opened not in known:
            self._writer.lose([opened], "the process ended while it was being recorded or written")
            known.add(opened)
        gap = [number for number in range(expected, min(first, expected + _MAX_GAP)) if number not in known]
        reason = "the process ended before they were written"
        if isinstance(self._schedule, (AtSteps, EveryNth, GrowingSchedule, Never)) and len(run.kinds) == 1:
            schedule = copy.deepcopy(self._schedule)
            gap = [number for number in gap if schedule.wants(number, run.kinds[0])]
        else:
            reason += "; only those of them that were to be recorded"
        if gap:
            self._writer.lose(gap, reason)

    def describe_modules(self) -> None:
        """Write the module tree, again if it has changed: adapters may be added after the run began."""
        models = self.models
        if models.n_changes == self._n_described:
            return
        self._n_described = models.n_changes
        names = [parameter.names for parameter in models.parameters]
        key = ([addresses for _, addresses in models.modules.values()], names)
        if key != self._described:
            self._described = key
            self._writer.document("modules", module_tree(models.root))

    def save_schedule(self) -> None:
        """Write the state of the schedule, so that a resumed run continues it."""
        self._saved = monotonic()
        self._writer.document("schedule", to_plain(self._schedule.state()))
        if self.fixed_batches is not None:
            self._writer.document("fixed_batches", to_plain(self.fixed_batches.state()))

    def has_kind(self, kind: str) -> bool:
        """Whether a step of this kind has begun."""
        return kind in self._kinds

    def report_missing(self) -> None:
        """At a normal end, report what a correct program would have recorded."""
        if self.last < 0:
            if not self.outside.has_reported:
                self._guard.report(NO_STEPS)
        elif not self._n_due and self._kinds and not isinstance(self._schedule, Never):
            self._guard.report(nothing_due(self.every, self._n_steps, [*self._kinds]))
        elif self._order.sites and self._n_due and not self._has_seen:
            self._guard.report(NOT_CALLED)
        else:
            self._guard(self._filter.check_names, sorted(self._named_sites))

    @property
    def _has_seen(self) -> bool:
        """Whether anything of a model was recorded, or it was reported that nothing can be."""
        return self.models.has_run or self.has_named or self._coverage.is_unseen

    def close(self, created: Step | None) -> None:
        """End the open step, and give everything that waits to the writer.

        Args:
            created: the last step that the program has made; None if there is none.
        """
        self._guard(self._report_forgotten, created)
        self._guard(self.outside.stop)
        if self.open is not None:
            self.leave(self.open, None)
        self._guard(self.scalars.drain)
        if self.flight is not None:
            self._guard(self.flight.close)
        self._guard(self.save_schedule)

    def _report_forgotten(self, created: Step | None) -> None:
        """Report that no step was begun, unless the program has failed before it could."""
        if self.last < 0 and sys.exc_info()[0] is None and not CloseAtExit.after_failure:
            if created is None:
                self.report_missing()
            elif not created.is_entered:
                self._guard.report(NOT_ENTERED)

    def enter(self, step: Step) -> None:
        """Begin a step, and record it if it is due."""
        if self.open is not None:
            self._guard.report(NESTED)
            return
        if self._n_steps == 0:
            self._guard(self.outside.stop)
        elif self._coverage.versions:
            self._guard(self._coverage.check_between)
        number = self._number_of(step)
        if self.fixed_batches is not None:
            number = self.fixed_batches.before_step(number, step.kind, is_given=step.number_given is not None)
        step.number = self.last = number
        if self._killed is not None:
            self._guard(self._report_killed, self._killed, self.next, step.number)
            self._killed = None
        self.next = step.number + 1
        self.open = step
        self._entered = enter_step(self._writer.head.id, step.number)
        if step.kind is not None and sessions.edits and is_edited(self.models.root):
            step.kind = edited_kind(step.kind)
        self._n_steps += 1
        step.is_counted = True
        self._guard.seconds = 0.0
        step.has_late_kind = step.kind is None
        if step.has_late_kind or self._is_due(step):
            self._guard(self._begin, step)
        if self.flight is not None:
            self._guard(self.flight.enter, step)

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
            self._guard.report(schedule_failed(error))
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
            units=self.units,
            tables=self.tables,
            is_traced=is_traced,
            overwritten=self._overwritten if step.has_late_kind else None,
        )
        recorded.has_late_kind = step.has_late_kind
        if step.batch_size is not None:
            recorded.tensors.selection.batch_size = check_batch_size(step.batch_size)
            recorded.tensors.selection.is_batch_size_given = True
        if not step.has_late_kind:
            self._writer.open_step(step.number)
        try:
            recorded.start()
            step.recorded = recorded
        except BaseException:
            recorded.release()
            raise

    def keep(self, kind: str | None, samples: Any, by: Any, per: str | None) -> None:
        """Keep the open step, whose kind was not known when it began; `run.keep` calls it."""
        step = self.open
        if step is None:
            self._guard.report(KEEP_OUTSIDE)
            return
        if kind is not None or step.kind is None:
            step.kind = str(kind or "")
        if step.recorded is not None:
            step.choose(samples, by, per)

    def leave(self, step: Step, error: BaseException | None) -> None:
        """End a step, normally or with an exception; write it if it is to be kept."""
        # close() inside the step has left it already, or Ctrl-C came before it was opened.
        if self.open is not step:
            return
        recorded = step.recorded
        is_written = False
        try:
            if self.flight is not None:
                self._guard(self.flight.stop)
            if recorded is not None:
                step.kind = step.kind if step.kind is None else str(step.kind)
                if step.kind is not None and recorded.edits.text:
                    step.kind = edited_kind(step.kind)
                is_kept = not step.is_discarded and (not step.has_late_kind or self._is_due(step))
                if is_kept or not step.has_late_kind:  # the flight recorder reads a discarded step as well
                    self._guard(recorded.keep)
                    self._guard(recorded.stop, error)
                else:
                    self._guard(recorded.drop, error)
                step.recorded = None
                if is_kept and recorded.is_whole:
                    is_written = True
                    self._guard(self._write, step, recorded)
                elif not step.has_late_kind:
                    self._guard(self._writer.open_step, None)
            if self.flight is not None:
                self._guard(self.flight.leave, step, recorded, error, is_written)
        finally:
            self.release(step, recorded)
        if recorded is None and monotonic() - self._saved > _SAVE_EVERY:
            self._guard(self.save_schedule)

    def release(self, step: Step, recorded: RecordedStep | None) -> None:
        """Remove every hook of a step, whatever happened in it."""
        step.recorded = None
        self.open = None
        if self._entered is not None:
            self._entered.close()
        if self.flight is not None:
            self._guard(self.flight.release)
        if recorded is not None:
            self._guard(recorded.release)

    def put(self, step: Step, recorded: RecordedStep) -> int:
        """Give a recorded step to the writer. Returns its size in bytes."""
        n_bytes = recorded.write(self._writer, self.graphs, step.number, step.kind or "", self._order)
        self.last_written = step.number
        self._named_sites.update(recorded.named_sites)
        for note in filter(self._guard.is_new, recorded.notes):
            self._writer.problem(note, step=step.number, level="info")
        return n_bytes

    def _write(self, step: Step, recorded: RecordedStep) -> None:
        began = perf_counter()
        kind = step.kind or ""
        if recorded.missing_samples and not self._order.sites:
            # Later batches may be smaller, as the last of an epoch is: for these, a note suffices.
            self._guard.report(InputError(recorded.missing_samples))
            self._guard.is_new(recorded.missing_samples)  # marks the note as reported
        n_bytes = self.put(step, recorded)
        if "error" not in recorded.about:
            self._guard(self._filter.check, recorded.op_sites)
            self._guard(self.units.check)
            self._guard(self._check_coverage, step.number, recorded)
        self._schedule.recorded(kind, Cost(self._guard.seconds + perf_counter() - began, n_bytes))
        self.scalars.start_copies()
        self.save_schedule()  # so that a killed run resumes with it

    def _check_coverage(self, number: int, recorded: RecordedStep) -> None:
        for note in filter(self._guard.is_new, self._coverage.check(recorded.hooks)):
            self._writer.problem(note, step=number, level="info")
