"""`cutaway.record`: watch a training run step by step, without changing it."""

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
from cutaway.recording.environment import environment, module_tree, plain
from cutaway.recording.error_guard import Guard
from cutaway.recording.hooks import Wanted
from cutaway.recording.models import Models, Subjects
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.scalars import PendingScalars
from cutaway.recording.schedules.parse import Cost, EveryLike, schedule_of
from cutaway.recording.settings import Further, Level, Settings
from cutaway.recording.shutdown import Ending
from cutaway.recording.step import RecordedStep, Role
from cutaway.recording.step_graph import Structures
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Options, Writer

_SAVE_EVERY = 10.0
"""Seconds after which what the schedule has counted is saved, for whoever resumes after a sudden death."""


def record(
    path: str | os.PathLike[str],
    model: Models,
    *,
    every: EveryLike = 100,
    at: str | Sequence[str] = "**",
    samples: int | Sequence[int] = 0,
    statistics: Level = "core",
    resume: bool = False,
    **further: Unpack[Further],
) -> Recorder:
    """Record a training run: a `with` around the loop, and one around each step.

        with cutaway.record("runs/base", model, every=50, samples=8) as run:
            for x, y in loader:
                with run.step():
                    loss = loss_fn(model(x), y)
                    loss.backward()
                    optimizer.step(); optimizer.zero_grad()
                    run.log(loss=loss)

    Args:
        model: what is recorded; several models by name, as a dict.
        every: which steps: every n of each kind, or a schedule (`docs/schedules.md`).
        at: which tensors: all results of modules, parameters and buffers, or those that sites and patterns cover.
        samples: of how many samples of a batch the values are kept; or of which.
        statistics: "core", or "full": also of each unit and each sample.
        resume: whether to go on with the run that is there.
    """
    return Recorder(path, model, every, Settings.of(at, samples, statistics, further), resume=resume)


class Recorder:
    """Writes a run. Made by `cutaway.record`; whatever goes wrong in it, the training goes on."""

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
        self._is_closed = False
        self._saved = monotonic()
        self.guard = Guard(self._say)
        if not settings.enabled:
            return
        self._subjects = Subjects(model)
        self._wanted = Wanted(
            settings.at, gradients=settings.gradients, updates=settings.updates, parameters=settings.parameters
        )
        rank, world_size = _rank()
        options = Options(fsync=settings.fsync, limits=settings.limits)
        self._writer = Writer(path, kind="run", resume=resume, rank=rank, world_size=world_size, options=options)
        self._scalars = PendingScalars(self._writer.scalars)
        self._structures = Structures(self._writer)
        self._units = RecordedUnits(settings.batch_dim, settings.unit_dims)
        if resume:
            try:
                self._go_on(rank)
            except BaseException:
                self._writer.close()
                raise
        self._ending = Ending(self)
        self._described: Any = None
        self.guard(self._describe)

    def _describe(self) -> None:
        """Note what stands beside a run."""
        assert self._writer is not None
        self._writer.document("environment", environment())
        self._writer.document("units", {"rule": "graph"})
        self._describe_modules()
        if self._settings.config is not None:
            config = plain(self._settings.config)
            self._writer.document("config", config if isinstance(config, dict) else {"config": config})

    def _describe_modules(self) -> None:
        """The tree of modules, again if it has changed: adapters come late."""
        held = self._subjects.held
        key = ([addresses for _, addresses in self._subjects.modules.values()], [one.names for one in held])
        if key != self._described and self._writer is not None:
            self._described = key
            self._writer.document("modules", module_tree(self._subjects.root))

    def _go_on(self, rank: int) -> None:
        """Take up the numbers and the spending of the session before."""
        run = Run(Archive(self._path))
        if rank in run.ranks:
            run = run.rank(rank)
        last = [int(run.steps[-1])] if len(run) else []
        last += [int(curve.steps[-1]) for curve in run.scalars.values() if len(curve)]
        self._next = max(last, default=-1) + 1
        state = run.documents.get("schedule")
        if isinstance(state, dict):
            self.guard(self._schedule.restore, state)

    # steps

    def step(self, kind: str | None = "", *, number: int | None = None, batch_size: int | None = None) -> Step:
        """A block around one step of training.

        Args:
            kind: kinds are scheduled apart from each other. None if it is known only later: then the step is
                recorded first, and kept if `step.kind` was set inside and steps of that kind are due.
            number: its number, where the program counts by itself; it must grow.
            batch_size: samples in its batch, where the first input of the model does not tell.
        """
        return Step(self, kind if kind is None else str(kind), number, batch_size)

    @property
    def recording(self) -> bool:
        """Whether the program is inside a step that is being recorded."""
        return self._open is not None and self._open.recorded is not None

    @property
    def path(self) -> str:
        """Where the run lies."""
        return self._path

    @property
    def number(self) -> int:
        """The number of the open step, or of the next one."""
        return self._open.number if self._open is not None else self._next

    @property
    def _at(self) -> int:
        """The step that what is said now belongs to: the open one, the last one, or the first to come."""
        return self.number if self._open is not None or self._last < 0 else self._last

    @property
    def acknowledged(self) -> int | None:
        """The last recorded step that survives the death of the process."""
        return None if self._writer is None else self._writer.acknowledged

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong so far, in words."""
        return () if self._writer is None else self._writer.problems

    # what is added by hand

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
        """Record any tensor under a name; it answers to `$name`. Outside recorded steps this does nothing.

        Args:
            role: what it is for.
            node: the node of the dependency graph it belongs to, where several tensors share one.
            part: what tells it apart from the others in its node.
            batch_dim: the dimension that counts its samples, where the graph of the model does not tell.
            unit_dim: the dimension that counts its units, or several, where the graph of the model does not tell.
        """
        step = self._open.recorded if self._open is not None else None
        if step is not None:
            dims = (unit_dim,) if isinstance(unit_dim, int) else None if unit_dim is None else tuple(unit_dim)
            self.guard(step.tensor, str(name), tensor, (role, node, part), (batch_dim, dims))

    def samples(self, **fields: Any) -> None:
        """Say what the samples of this step are: `ids=`, `text=`, `tokens=`, `label=`, `image=`, or other fields.

        Each has one entry a sample. Those of the kept samples are stored, so that they can be found by content.
        """
        step = self._open.recorded if self._open is not None else None
        if step is not None:
            self.guard(step.samples, fields)

    def log(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Log numbers, at every step: `run.log(loss=loss, lr=0.1)`. A tensor on a device is not waited for."""
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
        """Note something; it is linked to the step."""
        if self._writer is not None and self._is_open():
            self.guard(self._note, text, level)

    def _note(self, text: str, level: str) -> None:
        if self._writer is not None:
            self._writer.note(str(text), step=self._at, level=level)

    def _is_open(self) -> bool:
        """Whether the run can still be written to; said once if not."""
        if self._is_closed:
            self.guard.trouble(InputError("the run is closed, and nothing more is recorded"))
        return not self._is_closed

    @contextmanager
    def iteration(self) -> Iterator[int]:
        """A block around one iteration inside a step: what is seen in it is kept apart. Gives its number, from 1."""
        step = self._open.recorded if self._open is not None else None
        if step is None:
            yield 0
            return
        sightings = step.sightings
        before = sightings.iteration
        step.n_iterations += 1
        sightings.iteration = step.n_iterations
        try:
            yield step.n_iterations
        finally:
            sightings.iteration = before

    @contextmanager
    def gradients(self, loss: str) -> Iterator[None]:
        """A block around the backward pass of one loss: its share of every gradient is kept as `grad/<loss>`, too."""
        step = self._open.recorded if self._open is not None else None
        if step is None:
            yield
            return
        gradients = step.observer.gradients
        before, gradients.loss = gradients.loss, str(loss)
        self.guard(step.observer.follow_parameters)
        try:
            yield
        finally:
            gradients.loss = before

    # the dependency graph

    def link(self, parent: str, child: str) -> None:
        """Draw an edge by hand, where a dependency does not go through torch: `run.link("$memory", "reader")`."""
        if self._writer is not None:
            self._structures.manual.append((str(parent), str(child)))

    def arrange(
        self,
        at: str,
        *,
        label: str | None = None,
        group: str | None = None,
        order: float | None = None,
        hidden: bool | None = None,
    ) -> None:
        """Say how nodes are shown: under which name, in which group, in which order, or not at all."""
        if self._writer is None:
            return
        said = {"at": at, "label": label, "group": group, "order": order, "hidden": hidden}
        self._arrangement.append({key: value for key, value in said.items() if value is not None})
        self.guard(self._writer.document, "arrangement", list(self._arrangement))

    # ending

    def flush(self) -> None:
        """Wait until everything recorded so far is on disk."""
        if self._writer is not None:
            self.guard(self._scalars.drain)
            self.guard(self._writer.flush)

    def close(self) -> None:
        """Bring everything to disk and end the run; calling it again does nothing."""
        if self._writer is None or self._is_closed:
            return
        try:
            if self._open is not None:
                self._leave(self._open, None)
            self.guard(self._scalars.drain)
            self.guard(self._save_schedule)
        finally:
            self._is_closed = True
            self._ending.cancel()
            self.guard(self._writer.close)

    def _save_schedule(self) -> None:
        if self._writer is not None:
            self._saved = monotonic()
            self._writer.document("schedule", plain(self._schedule.state()))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, (GeneratorExit, SystemExit)):
            self.note(f"the program ended the run with {kind.__name__ if kind else ''}: {error}"[:2000], level="error")
        elif self._writer is not None and self._last < 0:
            forgotten = InputError("no step was begun, so nothing is recorded: put `with run.step():` around each")
            self.guard.trouble(forgotten)
        self.close()

    def __repr__(self) -> str:
        state = "off" if self._writer is None else f"{self._next} steps so far"
        return f"<Recorder {self.path}: {state}>"

    # for Step

    def _say(self, text: str) -> None:
        """A failure of ours."""
        if self._writer is not None and not self._is_closed:
            self._writer.note(text, step=self.number, level="error")

    def _enter(self, step: Step) -> None:
        """A step begins."""
        if self._writer is None or not self._is_open():
            return
        if self._open is not None:
            self.guard.trouble(InputError("a step began inside another one: it counts as part of that"))
            return
        step.number = self._last = self._number_of(step)
        self._next = step.number + 1
        self._open = step
        step.is_counted = True
        self.guard.seconds = 0.0
        step.is_late = step.kind is None
        if step.is_late or self._is_due(step):
            self.guard(self._begin, step)

    def _number_of(self, step: Step) -> int:
        if step.number_given is None:
            return self._next
        try:
            given = operator.index(step.number_given)
        except TypeError:
            self.guard.trouble(
                InputError(f"step {step.number_given!r} is no whole number, and it counts as {self._next}")
            )
            return self._next
        if given <= self._last:
            said = f"step {given} comes after step {self._last}"
            self.guard.trouble(InputError(f"{said}: step numbers must grow, and it counts as {self._next}"))
            return self._next
        return given

    def _is_due(self, step: Step) -> bool:
        try:
            return step.kind is not None and bool(self._schedule.wants(step.number, step.kind))
        except Exception as error:
            self.guard.trouble(error)
            return False

    def _begin(self, step: Step) -> None:
        self._subjects.refresh()
        self._describe_modules()
        is_traced = self._settings.graph and self._structures.is_wanted(step.kind)
        recorded = RecordedStep(
            self._settings, self._subjects, self._wanted, self.guard, units=self._units, is_traced=is_traced
        )
        recorded.is_late = step.is_late
        if step.batch_size is not None:
            recorded.sightings.keeper.batch_size = int(step.batch_size)
            recorded.sightings.keeper.is_told = True
        try:
            recorded.start()
            step.recorded = recorded
        except BaseException:
            recorded.release()
            raise

    def _leave(self, step: Step, error: BaseException | None) -> None:
        """A step ends, by itself or by an exception."""
        if self._open is not step:
            return
        recorded = step.recorded
        try:
            if recorded is not None:
                self.guard(recorded.stop, error)
                step.recorded = None
                step.kind = step.kind if step.kind is None else str(step.kind)
                if recorded.is_whole and not step.is_discarded and (not step.is_late or self._is_due(step)):
                    self.guard(self._write, step, recorded)
        finally:
            self._forget(step, recorded)
        if recorded is None and monotonic() - self._saved > _SAVE_EVERY:
            self.guard(self._save_schedule)

    def _forget(self, step: Step, recorded: RecordedStep | None) -> None:
        """Whatever became of a step, nothing of it stays."""
        step.recorded = None
        self._open = None
        if recorded is not None:
            self.guard(recorded.release)

    def _write(self, step: Step, recorded: RecordedStep) -> None:
        assert self._writer is not None
        began = perf_counter()
        kind = step.kind or ""
        n_bytes = recorded.write(self._writer, self._structures, step.number, kind, self._order)
        for note in filter(self.guard.is_first, recorded.notes):
            self._writer.note(note, step=step.number, level="info")
        if "error" not in recorded.about:
            self.guard(self._wanted.check)
        self._schedule.recorded(kind, Cost(self.guard.seconds + perf_counter() - began, n_bytes))
        self._scalars.start()
        self._save_schedule()  # whoever is killed resumes with it


class Step:
    """A block around one step; made by `run.step()`."""

    __slots__ = (
        "_run",
        "batch_size",
        "is_counted",
        "is_discarded",
        "is_late",
        "kind",
        "number",
        "number_given",
        "recorded",
    )

    def __init__(self, run: Recorder, kind: str | None, number: int | None, batch_size: int | None) -> None:
        self._run = run
        self.kind = kind
        """Steps of each kind are scheduled apart; may be set inside the block if it was None."""
        self.number_given = number
        self.number = -1
        self.batch_size = batch_size
        self.recorded: RecordedStep | None = None
        self.is_counted = False
        self.is_discarded = False
        self.is_late = False

    def discard(self) -> None:
        """Do not keep this step after all."""
        self.is_discarded = True

    def __enter__(self) -> Step:
        try:
            self._run._enter(self)
        except Exception as error:
            self._run.guard.trouble(error)
        except BaseException:  # Ctrl-C: the block is not entered, so nobody else will end it
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
                self._run.guard.trouble(failure)
                self._run._forget(self, self.recorded)


def _rank() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
