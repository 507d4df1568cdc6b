"""The `Recorder` that `cutaway.record` returns: writes a training run step by step without changing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from reprlib import repr as shortened
from types import TracebackType
from typing import Any, Literal

from torch import Tensor

from cutaway.recording import usage
from cutaway.recording.environment import environment, rank_and_world_size, to_plain
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.extra_passes.fixed_batches import Edit, add_fixed_batch
from cutaway.recording.extra_passes.losses import named_losses, record_parts, total_of
from cutaway.recording.models import Models, RecordedModels
from cutaway.recording.run_folder import Resume, check_resume, claim_run_folder
from cutaway.recording.schedules.parse import EveryLike, schedule_of
from cutaway.recording.settings import Settings
from cutaway.recording.shutdown import CloseAtExit
from cutaway.recording.step import RecordedStep, Role, Step
from cutaway.recording.step_cycle import StepCycle
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.writing.folders import release_folder
from cutaway.store.writing.writer import Options, Writer


class Recorder:
    """Writes a run; `cutaway.record` returns one. An error inside the recorder never stops the training."""

    def __init__(
        self, path: str | os.PathLike[str], model: Models, every: EveryLike, settings: Settings, *, resume: Resume
    ) -> None:
        self._path = os.fspath(path)
        self._settings = settings
        self._created: Step | None = None
        self._begun: Step | None = None
        """The step that `begin_step` began."""
        self._cycle: StepCycle | None = None
        self._arrangement: list[dict[str, Any]] = []
        self._writer: Writer | None = None
        self._earlier_problems: tuple[str, ...] = ()
        self._is_closed = False
        self.guard = ErrorGuard(self._note_failure)
        schedule = schedule_of(every)
        resume = check_resume(resume)
        if not settings.enabled:
            return
        models = RecordedModels(model)  # before the writer, which creates the folder
        rank, world_size = rank_and_world_size()
        options = Options(fsync=settings.fsync, limits=settings.limits)
        is_continued = resume is True
        if resume is False:
            self._path = claim_run_folder(self._path, rank, world_size)
        try:
            self._writer = Writer(
                self._path, kind="run", resume=is_continued, rank=rank, world_size=world_size, options=options
            )
        except BaseException:
            if resume is False and rank == 0:
                with suppress(Exception):
                    release_folder(self._path)
            raise
        self._cycle = StepCycle(self._writer, models, schedule, settings, self.guard)
        self._cycle.every = shortened(every)
        if is_continued:
            try:
                self._resume(rank)
            except BaseException:
                self._writer.close()
                raise
        self._close_at_exit = CloseAtExit(self)
        self.guard(self._describe)

    def _describe(self) -> None:
        """Write the run's documents: environment, unit rule, modules, config."""
        assert self._writer is not None
        assert self._cycle is not None
        self._writer.document("environment", environment())
        self._writer.document("units", {"rule": "graph"})
        self._cycle.describe_modules()
        if self._settings.config is not None:
            config = to_plain(self._settings.config)
            self._writer.document("config", config if isinstance(config, dict) else {"config": config})

    def _resume(self, rank: int) -> None:
        run = Run(Archive(self._path))
        if rank in run.ranks:
            run = run.rank(rank)
        self._earlier_problems = run.problems
        if self._cycle is not None:
            self._cycle.resume(run)

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
                self.guard(usage.check_kind, kind)
            if self._created is not None and not self._created.is_entered:
                self.guard.report(usage.NOT_ENTERED)
        self._created = Step(self, kind if kind is None else str(kind), number, batch_size)
        return self._created

    def begin_step(self, kind: str | None = "", *, number: int | None = None, batch_size: int | None = None) -> Step:
        """Begin a step where no `with` block fits, as in a callback; `end_step` ends it. Returns the step.

        Args:
            kind: the kind of step, as in `run.step`.
            number: the step number, if you count steps yourself. Numbers must increase.
            batch_size: the number of samples in the batch, if it cannot be inferred from the first model input.
        """
        if self._begun is not None and self._is_in(self._begun):
            self.guard.report(usage.BEGUN_TWICE)
            self._begun.__exit__(None, None, None)
        self._begun = self.step(kind, number=number, batch_size=batch_size)
        return self._begun.__enter__()

    def end_step(self) -> None:
        """End the step that `begin_step` began, and write it if it is to be kept."""
        begun, self._begun = self._begun, None
        if begun is not None and (self._writer is None or self._is_in(begun)):
            begun.__exit__(None, None, None)
        elif self._writer is not None and self._is_open():
            self.guard.report(usage.NOT_BEGUN)

    def _is_in(self, step: Step) -> bool:
        return self._cycle is not None and self._cycle.open is step

    @property
    def recording(self) -> bool:
        """Whether the program is inside a step that is being recorded."""
        return self._recorded is not None

    @property
    def _recorded(self) -> RecordedStep | None:
        """The recording of the open step; None if no step is open or it is not recorded."""
        opened = None if self._cycle is None else self._cycle.open
        return None if opened is None else opened.recorded

    @property
    def path(self) -> str:
        """The folder of the run: the path you passed or, if that was taken, a numbered one."""
        return self._path

    @property
    def number(self) -> int:
        """The number of the open step, or of the next one."""
        if self._cycle is None:
            return 0
        return self._cycle.next if self._cycle.open is None else self._cycle.open.number

    @property
    def acknowledged(self) -> int | None:
        """The last recorded step that is safely on disk, should the process die now."""
        return None if self._writer is None else self._writer.acknowledged

    @property
    def problems(self) -> tuple[str, ...]:
        """What has gone wrong so far: failures, what could not be seen or written; `Run.problems` is the same list."""
        return () if self._writer is None else (*self._earlier_problems, *self._writer.problems)

    def keep(
        self,
        kind: str | None = None,
        *,
        samples: int | Sequence[int] | Sequence[bool] | Tensor | None = None,
        by: Sequence[float] | Tensor | Literal["anomaly"] | None = None,
        per: str | None = None,
    ) -> None:
        """Keep a step that began with `run.step(kind=None)`, now that its results are known.

            with run.step(kind=None):
                losses = loss_fn(model(x), y)  # one per sample
                losses.mean().backward()
                if losses.max() > 5:
                    run.keep("hard", samples=8, by=losses)

        The step is written if its kind is due. Without `keep`, and unless you set `step.kind`, it is dropped.

        Args:
            kind: the kind of the step; None leaves what it is.
            samples: the samples to store values of: how many, their indices, or a mask with one truth value per
                sample. By default those that `cutaway.record` was told to store.
            by: one number per sample, such as its loss: store the samples with the largest. "anomaly": store those
                whose values are the most unusual within the batch.
            per: a field of `run.samples`, such as "label": store as many samples of each of its categories.
        """
        if self._cycle is not None and self._is_open():
            self.guard(self._cycle.keep, kind, samples, by, per)

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
        step = self._recorded
        if step is not None:
            if isinstance(name, Tensor):
                self.guard.report(usage.SWAPPED_TENSOR)
                return
            if self._cycle is not None:
                self._cycle.has_named |= role != "loss"
            self.guard(step.tensor, str(name), tensor, (role, node, part), (batch_dim, unit_dim))

    def samples(self, **fields: Any) -> None:
        """Describe the samples of this step: `ids=`, `text=`, `tokens=`, `label=`, `image=`, or any other field.

        Each field has one entry per sample. The entries of the stored samples are written and searchable.

        Args:
            fields: the entries of all samples of the batch, by the name of the field.
        """
        step = self._recorded
        if step is not None:
            self.guard(step.samples, fields)

    def log(self, values: Mapping[str, Any] | None = None, /, **scalars: Any) -> None:
        """Log scalars: `run.log(loss=loss, lr=0.1)`. Works at every step and never waits for a GPU.

        At a recorded step, a tensor with a gradient is also recorded as `$name`: as a loss if the step calls
        `backward()` on it or on a sum that has it as a term.

        Args:
            values: numbers or one-element tensors by name, for names that are not Python identifiers.
            scalars: the same as keywords.
        """
        if self._cycle is None:
            return
        if values is not None and not isinstance(values, Mapping):
            self.guard(usage.check_scalars, values)
            values = None
        named = {**(values or {}), **scalars}
        if self._is_open():
            self.guard(self._cycle.scalars.add, self._cycle.at, named)
            if self._cycle.flight is not None:
                self.guard(self._cycle.flight.log, self._cycle.at, named)
        step = self._recorded
        if step is not None:
            for name, value in named.items():
                if isinstance(value, Tensor) and value.requires_grad and value.numel() == 1:
                    self.guard(step.logged, str(name), value)

    def note(self, text: str, *, level: str = "info") -> None:
        """Add a note to the run, attached to the current step.

        Args:
            text: the note.
            level: "info", "warning", "error" or any other word to search for.
        """
        writer, cycle = self._writer, self._cycle
        if writer is not None and cycle is not None and self._is_open():
            self.guard(lambda: writer.note(str(text), step=cycle.at, level=level))

    def _is_open(self) -> bool:
        """Whether the run still accepts data; reports once if it is closed."""
        if self._is_closed:
            self.guard.report(usage.CLOSED)
        return not self._is_closed

    @contextmanager
    def iteration(self) -> Iterator[int]:
        """Context manager around one iteration inside a step; its tensors are recorded separately. Yields 1, 2, …"""
        step = self._recorded
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
        step = self._recorded
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

    def backward(
        self,
        losses: Mapping[str, Tensor] | None = None,
        /,
        *,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
        **named: Tensor,
    ) -> None:
        """Run the backward pass of a sum of losses: `run.backward(main=a, aux=b)` runs `(a + b).backward()`.

        In recorded steps it also records the gradients of each loss, as `grad/main` and `grad/aux`. This takes one
        more backward pass per loss, none for a single one. In all other steps it is the plain backward pass.

        Args:
            losses: the losses by name, for names that are not Python identifiers.
            retain_graph: as in `torch.Tensor.backward`.
            create_graph: as in `torch.Tensor.backward`.
            inputs: as in `torch.Tensor.backward`.
            named: the losses by name. They are added in this order.
        """
        parts = named_losses(losses, named)
        step = self._recorded
        if step is not None and len(parts) > 1:
            self.guard(step.hooks.hook_parameters)
            keeps = create_graph if retain_graph is None else retain_graph
            self.guard(partial(record_parts, step, parts, inputs, retain_graph=bool(keeps)))
        with self.gradients(next(iter(parts))) if len(parts) == 1 else nullcontext():
            total_of(parts).backward(retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)

    def fixed_batch(
        self,
        name: str,
        batch: Any,
        *,
        every: EveryLike = 100,
        forward: Callable[[Any], Any] | None = None,
        edits: Mapping[str, Edit] | None = None,
        training: bool = False,
        samples: int | Sequence[int] | None = None,
    ) -> None:
        """Pass the same batch through the model again and again, between the steps, as steps of the kind `name`.

            run.fixed_batch("toy", x, every=50, edits={"without 1": {"1": 0}})

        A pass runs before the step at which it is due, without gradients. Afterwards the model (its buffers, `.grad`
        and training mode) and all random generators are as they were before.

        Args:
            name: the kind of these steps.
            batch: the batch, copied now. The model gets a dict as keyword arguments, a tuple or list as arguments,
                and anything else as its only argument.
            every: before which steps to pass it: every nth, or a schedule (`docs/schedules.md`).
            forward: a function to call with the batch instead of the model, such as `model.encode`.
            edits: name → an edit, as sites → new values, or as a function that returns a `cutaway.edit`. Each time,
                the batch passes once more under each edit, as a step of the kind `<name>/<name of the edit>`.
            training: True leaves the modules in their mode; by default they run in eval mode.
            samples: how many samples to store values for, or which; by default as in `cutaway.record`.
        """
        if self._cycle is not None and self._is_open():
            options = (every, forward, dict(edits or {}), training, samples)
            self.guard(add_fixed_batch, self, self._cycle, self._settings, name, batch, options)

    # the dependency graph

    def link(self, parent: str, child: str) -> None:
        """Add a dependency that does not go through torch: `run.link("$memory", "reader")`.

        Args:
            parent: the site that is read.
            child: the site that was computed from it.
        """
        if self._cycle is not None:
            self._cycle.graphs.manual.append((str(parent), str(child)))

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
        if self._writer is not None and self._cycle is not None:
            self.guard(self._cycle.scalars.drain)
            self.guard(self._writer.flush)

    def close(self) -> None:
        """Write everything to disk and end the run. Idempotent."""
        if self._writer is None or self._cycle is None or self._is_closed:
            return
        try:
            self.guard(self._cycle.close, self._created)
        finally:
            # Whatever failed above, the writer must release its lease, or this process could not resume the run.
            self._is_closed = True
            self._close_at_exit.cancel()
            self.guard(self._writer.close)

    def _report_missing(self) -> None:
        """At a normal end, report what a correct program would have recorded."""
        if self._cycle is None or self._is_closed:
            return
        if self._created is not None and not self._created.is_entered:
            self.guard.report(usage.NOT_ENTERED)
        if self._created is None or self._cycle.last >= 0:
            self._cycle.report_missing()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, (GeneratorExit, SystemExit)):
            usage.add_hint(error)
            if self._cycle is not None and self._cycle.flight is not None and not self._is_closed:
                self.guard(self._cycle.flight.fail, error)
            self.note(f"the run ended with {kind.__name__ if kind else ''}: {error}"[:2000], level="error")
        else:
            self._report_missing()
        self.close()

    def __repr__(self) -> str:
        state = "off" if self._cycle is None else f"{self._cycle.next} steps so far"
        return f"<Recorder {self.path}: {state}>"

    # for Step

    def _note_failure(self, text: str) -> None:
        """Write an internal failure into the run as a note."""
        if self._writer is not None and not self._is_closed:
            self._writer.problem(text, step=self.number)

    def _enter(self, step: Step) -> None:
        if self._cycle is not None and self._is_open():
            self._cycle.enter(step)

    def _leave(self, step: Step, error: BaseException | None) -> None:
        if self._cycle is not None:
            self._cycle.leave(step, error)

    def _release(self, step: Step) -> None:
        if self._cycle is not None:
            self._cycle.release(step, step.recorded)
