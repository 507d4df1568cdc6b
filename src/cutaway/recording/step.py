"""One step: its context manager, and its recording from the first hook to the record given to the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.arrays import Raw
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, plural, type_text
from cutaway.core.sites import named_site
from cutaway.core.units.layout import UnitLayout
from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.extra_passes.backward_check import GraphStart
from cutaway.recording.extra_passes.edited_steps import EditLog
from cutaway.recording.facts.losses import loss_node
from cutaway.recording.facts.tables import FactTables
from cutaway.recording.held.anomalies import select_unusual
from cutaway.recording.held.held_hooks import HeldHooks
from cutaway.recording.held.held_step import HeldStep
from cutaway.recording.held.sample_choice import SampleChoice, entries_of, hold_field
from cutaway.recording.hooks.autograd_graph import AutogradGraph
from cutaway.recording.hooks.op_values import TracedStep
from cutaway.recording.hooks.site_filter import SiteFilter
from cutaway.recording.hooks.step_hooks import StepHooks, nothing
from cutaway.recording.models import RecordedModels
from cutaway.recording.recorded_units import RecordedUnits, autograd_note, stated_layout, untraced_note
from cutaway.recording.sample_fields import select_field
from cutaway.recording.settings import Settings
from cutaway.recording.statistics.summary import Summary
from cutaway.recording.step_graph import RowOrder, StepGraphs
from cutaway.recording.tensors import RecordedTensor, StepTensors, TensorKey
from cutaway.recording.usage import (
    KEEP_FULL,
    KEEP_TOO_LATE,
    check_dim,
    check_dims,
    check_names,
    labels_mismatch,
    missing_samples,
    no_op_values,
)
from cutaway.recording.values import SampleSelection
from cutaway.store.format.frames import Plain
from cutaway.store.format.records import MOST_CELLS, VALUE, Row
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Writer

if TYPE_CHECKING:
    from cutaway.recording.recorder import Recorder

Role = Literal["input", "target", "loss", "parameter", "buffer", "value"]
ROLES: tuple[str, ...] = get_args(Role)
About = tuple[str, str, str]
"""What the user stated about a tensor: its role, its node, its part within the node."""


Dims = tuple[int | None, int | Sequence[int] | None]
"""Sample dimension and unit dimensions, where the user states them."""
StatedDims = tuple[int | None, tuple[int, ...] | None]
"""The same, checked."""


class RecordedStep:
    """Records one step and writes it."""

    def __init__(
        self,
        settings: Settings,
        models: RecordedModels,
        site_filter: SiteFilter,
        guard: ErrorGuard,
        *,
        units: RecordedUnits,
        tables: FactTables,
        is_traced: bool,
        overwritten: set[str] | None = None,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._guard = guard
        self._began = perf_counter()
        summary = Summary(settings.statistics, spectral_norm=settings.spectral_norm)
        selection = SampleSelection(settings.samples, settings.batch_dim or 0)
        self.tensors = StepTensors(summary, selection, models.stable_sites)
        most = settings.most_update_bytes
        ops = [site for site in settings.at if site.op is not None]
        # The values of ops cannot be held: a step that records them is recorded at once.
        hooks = HeldHooks if overwritten is not None and not ops else StepHooks
        self.hooks = hooks(models, self.tensors, site_filter, guard, units=units, most_update_bytes=most)
        if isinstance(self.hooks, HeldHooks):
            gradients, sites = self.hooks.gradients, overwritten if overwritten is not None else set()
            self.hooks.held = HeldStep(self.tensors, gradients, guard, overwritten=sites, most_bytes=most)
        self.hooks.on_return = self._resolve_units
        self._units = units
        self._traced: TracedStep | None = None
        self._models = models
        self._sequence_first = models.sequence_first
        if not units.is_traced and settings.batch_dim is None and not (is_traced and models.is_traceable):
            # Without a graph, only layers of torch.nn know whether samples or time steps come first.
            self.tensors.selection.batch_dim = models.sample_dim
        if (is_traced or ops) and models.is_traceable:
            self._traced = TracedStep(models.root, ops, self.tensors, self.hooks.hook_gradient, guard)
            if models.may_run_compiled:
                self.hooks.autograd = AutogradGraph()  # in case that it does, in this step
            if isinstance(self.hooks, HeldHooks):
                self._traced.before_write = self.hooks.held.before_write
        elif is_traced:
            self.hooks.autograd = AutogradGraph()
        self._ops = ops
        if ops and self._traced is None:
            guard.report(no_op_values(ops))
        self._is_traced = is_traced
        self.lost_values = 0
        """Number of tensors that were overwritten before their unit and sample dimensions were known."""
        self._choice: SampleChoice | None = None
        self._held_fields: dict[str, Any] = {}
        """What `run.samples` got, until the step is kept."""
        self._n_named: dict[str, int] = {}
        self._fields: dict[str, Any] = {}
        self._field_lengths: dict[str, int] = {}
        self.about: dict[str, Plain] = {}
        self.n_iterations = 0
        self.has_late_kind = False
        """Whether its kind becomes known only at its end."""
        self.is_whole = False
        """Whether it reached its end, so that it can be written."""
        self.edits = EditLog(models.root, guard)
        """The edits that run in the step."""
        self.graph_start: GraphStart | None = None
        """Counters of torch when the hooks were installed."""

    def start(self) -> None:
        """Install the hooks."""
        self.edits.start()
        self.hooks.start()
        if self._traced is not None:
            self._traced.start()
            if self._models.is_watched:
                self._traced.watch_compiled(lambda: self._guard(self._abort_trace))
        self.graph_start = GraphStart.now()

    def _abort_trace(self) -> None:
        """Compiled code is about to run: continue without a trace, which would change it."""
        if self._traced is not None and self._traced.abort():
            self._models.runs_compiled = True
            if self._traced.has_returned:
                self._resolve_units(is_final=True)
            else:
                dim = self._models.sample_dim if self._settings.batch_dim is None else self._settings.batch_dim
                self.lost_values += self._traced.continue_untraced(dim, self.hooks.layout_of)
            if self._ops:
                self._guard.report(no_op_values(self._ops))

    def _resolve_units(self, is_final: bool = False) -> None:
        """The model has returned: determine the dimensions of the tensors recorded so far."""
        if self._traced is not None:
            n_lost = self._traced.resolve_units(self._units, self.hooks.parameter_names(), is_final=is_final)
            if n_lost:
                self.lost_values += n_lost

    def op_sites(self) -> list[str]:
        """The sites of all ops of the step; empty if it was not traced."""
        return [] if self._traced is None else self._traced.op_sites()

    @property
    def named_sites(self) -> list[str]:
        """The sites of the tensors that the user named."""
        return list(map(named_site, self._n_named))

    @property
    def missing_samples(self) -> str:
        """What to say about samples that were requested but are not in the batch."""
        return missing_samples(self._settings.samples, self.tensors.selection.batch_size)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not recorded in the step, and why."""
        return (*self.hooks.notes, *self._sample_notes(), *self._unit_notes())

    def _sample_notes(self) -> Iterator[str]:
        batch_size, batch_dim = self.tensors.selection.batch_size, self._settings.batch_dim
        if self.missing_samples:
            yield self.missing_samples
        if batch_dim is not None and batch_size is None and self.hooks.n_inputs:
            yield f"batch_dim={batch_dim} is out of range of every model input, so the batch size is unknown"

    def _drop_mismatched_fields(self) -> None:
        """Drop fields without one entry for each sample: their entries would be given to other samples."""
        sizes = self.tensors.batch_sizes()
        for name, n_entries in self._field_lengths.items():
            if sizes and n_entries not in sizes:
                self._fields.pop(name, None)
                self._guard.report(labels_mismatch(name, n_entries, sizes[0]))

    def _unit_notes(self) -> Iterator[str]:
        is_compiled = self._models.may_run_compiled and self._settings.graph
        if not self._units.is_traced:
            dim = self.tensors.selection.batch_dim
            yield untraced_note(dim, self._sequence_first, is_compiled=is_compiled)
        elif self._traced is not None and self._traced.is_aborted:
            yield autograd_note()
        if self.lost_values:
            tensors = plural(self.lost_values, "tensor")
            yield (
                f"{tensors} of a traced step: overwritten before their unit and sample dimensions were known, and "
                "stored without values and without statistics per unit or sample"
            )
        if self._settings.statistics == "full":
            yield from self._unknown_unit_notes()

    def _unknown_unit_notes(self) -> Iterator[str]:
        values = (r for r in self.tensors.records if r.of == VALUE and r.key.role == "value")
        unknown = [record for record in values if record.layout is None or not record.layout.is_known]
        if unknown:
            first = unknown[0]
            reason = first.layout.reason if first.layout is not None else "the graph does not determine it"
            others = f" and {plural(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
            yield (
                f"the unit dimension of {self.tensors.site(first.key)!r}{others} is unknown, so there are no "
                f"statistics per unit: {reason}; set it with unit_dim="
            )

    def choose(self, choice: SampleChoice) -> None:
        """Choose the samples to store when the step is kept."""
        if not isinstance(self.hooks, HeldHooks):
            raise KEEP_TOO_LATE
        self._choice = choice

    def keep(self) -> None:
        """Record what was held until now; does nothing for a step that is recorded at once."""
        if isinstance(self.hooks, HeldHooks):
            if self._choice is not None:
                self._guard(self._select_samples, self._choice)
            self._guard(self.hooks.keep)

    def _select_samples(self, choice: SampleChoice) -> None:
        assert isinstance(self.hooks, HeldHooks)
        if self.hooks.held.was_full:
            raise KEEP_FULL
        if choice.is_by_anomaly:
            self.tensors.selection.is_postponed = True
            return
        indices = choice.indices({name: entries_of(values) for name, values in self._held_fields.items()})
        self.tensors.selection.samples = indices
        self.about["samples"] = list(indices)

    def _select_unusual(self, choice: SampleChoice) -> None:
        """Choose the most unusual samples, now that the sample dimensions of all tensors are known."""
        fields = {name: entries_of(values) for name, values in self._held_fields.items()}
        self.about |= select_unusual(self.tensors, choice, fields)

    def stop(self, error: BaseException | None) -> None:
        """Read the remaining parameters and gradients, and remove the hooks."""
        self._guard(self._resolve_units, True)
        self._guard(self.hooks.read_remaining)
        if self.tensors.selection.is_postponed and self._choice is not None:
            self._guard(self._select_unusual, self._choice)
        if isinstance(self.hooks, HeldHooks):
            fields, self._held_fields = self._held_fields, {}
            self._guard(self.samples, fields)
        self.edits.stop()
        self.hooks.stop()
        if self._traced is not None:
            self._guard(self._traced.stop, error)
            self._is_traced = self._is_traced and not self._traced.is_on
            if self._models.runs_compiled is None and error is None:
                self._models.runs_compiled = False
        self.about["seconds"] = perf_counter() - self._began
        if self.tensors.selection.batch_size is not None:
            self.about["batch_size"] = self.tensors.selection.batch_size
        if self.edits.text:
            self.about["edit"] = self.edits.text
        if error is None:
            self.hooks.note_optimized()
        else:
            self.about["error"] = f"{type(error).__name__}: {error}"[:1000]
        self.is_whole = True

    def drop(self, error: BaseException | None) -> None:
        """Record nothing of the step; `release` removes its hooks."""
        if error is None:
            self.hooks.note_optimized()

    def release(self) -> None:
        """Remove any hooks that are left, in case `stop` has failed. The step must not be used afterwards."""
        try:
            self.edits.stop()
            self.hooks.stop()
        finally:
            # Without this cycle the step is freed at once. The garbage collector would have to find its thousands of
            # objects, which took a seventh of the time of a recorded step.
            self.hooks.on_return = nothing
            if self._traced is not None:
                self._traced.stop(None)

    # called by the user

    def tensor(
        self, name: str, tensor: Tensor, about: About, dims: Dims, then: Callable[[RecordedTensor], None] | None = None
    ) -> None:
        """Record a tensor that the user named.

        Args:
            then: called with its record, when it has one.
        """
        role, node, part = about
        check_names(name, node=node, part=part)
        stated = (check_dim(name, "batch_dim", dims[0]), check_dims(name, dims[1]))
        key = TensorKey(named_site(name), role=role, node=node, part=part)
        if not isinstance(tensor, Tensor):
            raise InputTypeError(f"run.tensor({name!r}) got {type_text(tensor)}: pass a torch.Tensor.")
        if key.role not in ROLES:
            near = hint(key.role, ROLES)
            raise InputError(f"run.tensor({name!r}, role={key.role!r}): pass one of {', '.join(ROLES)}.{near}")
        if stated[0] is not None and not -tensor.dim() <= stated[0] < tensor.dim():
            raise InputError(
                f"run.tensor({name!r}, batch_dim={stated[0]}) is out of range: the tensor has "
                f"{plural(tensor.dim(), 'dimension')}, {list(tensor.shape)}."
            )
        self._n_named[name] = n = self._n_named.get(name, 0) + 1
        if self._traced is not None:
            self._traced.name(name if n == 1 else f"{name}:{n}", tensor)

        def record(value: Tensor) -> None:
            named = self._add_named(value, key, stated)
            if then is not None:
                then(named)

        if isinstance(self.hooks, HeldHooks) and not self.hooks.held.is_over:
            self.hooks.hold_named(key.base, tensor, record)
        else:
            record(tensor)

    def _add_named(self, tensor: Tensor, key: TensorKey, stated: StatedDims) -> RecordedTensor:
        pass_, step_pass = self.tensors.next_pass(key.base)
        key = key._replace(pass_key=key.base, pass_=pass_, iteration=self.tensors.iteration, step_pass=step_pass)
        layout = self._layout(tensor, key, stated)
        record, is_new = self.tensors.add(tensor, key, layout=layout)
        if is_new:
            self.hooks.hook_gradient(tensor, record)
        if self.hooks.autograd is not None:
            self.hooks.autograd.note(record, tensor, is_result=False)
        return record

    def logged(self, name: str, tensor: Tensor) -> None:
        """Record a one-element tensor that the user logged; its role is decided at the end of the step."""
        node = loss_node(tensor)
        self.tensor(name, tensor, ("value", "", ""), (None, None), lambda record: self.hooks.may_be_loss(node, record))

    def _layout(self, tensor: Tensor, key: TensorKey, dims: StatedDims) -> UnitLayout | None:
        """The layout of a tensor that the user named; dimensions that the user states take precedence."""
        batch_dim, unit_dims = dims
        units, batch_size = self._units, self.tensors.selection.batch_size
        layout = units.find(key.base, key.step_pass, tensor)
        is_unknown = layout is None and not units.is_traced and self.tensors.pending is None
        if batch_dim is not None or unit_dims is not None or is_unknown:
            dim = batch_dim if batch_dim is not None else self.tensors.selection.batch_dim
            layout = units.with_samples(layout, tensor, dim, batch_size)
        return layout if unit_dims is None else stated_layout(unit_dims, layout, tensor)

    def samples(self, fields: Mapping[str, Any]) -> None:
        """Keep the fields of the stored samples."""
        selection = self.tensors.selection
        if isinstance(self.hooks, HeldHooks) and not self.hooks.held.is_over:
            self._held_fields |= {name: hold_field(values) for name, values in fields.items() if values is not None}
        elif not selection.is_off:
            for name, values in fields.items():
                if values is not None:
                    self._fields[name], self._field_lengths[name] = select_field(name, values, selection)

    # writing

    def write(self, writer: Writer, graphs: StepGraphs, number: int, kind: str, order: RowOrder) -> int:
        """Give the step to the writer. Returns its size in bytes."""
        self._guard(self.hooks.gradients.finish)
        if self._traced is not None:
            self._traced.drop_unnamed()
        self._guard(self._drop_mismatched_fields)
        self._guard(self.hooks.mark_losses)
        known, values = order.of(self.tensors), self.tensors.values()
        numbers = [self.tensors.records[index].number for index in known.order]
        if values:
            values = {new: values[old] for new, old in enumerate(known.order) if old in values}
        # Rows that have only an array follow those that have statistics.
        arrays: list[tuple[Row, Raw]] = []
        if self._settings.statistics == "full":
            self._guard(
                lambda: arrays.extend((known.array_row(at, name), raw) for at, name, raw in self.tensors.arrays())
            )
        samples: dict[Row, Raw] = {}
        if self._fields:
            self._guard(lambda: samples.update(packed_samples({name: fetch() for name, fetch in self._fields.items()})))
        array_rows = [row for row, _ in arrays]
        n_rows = len(known.rows) + len(arrays) + len(samples)
        raws = (*(raw for _, raw in arrays), *samples.values())
        all_values = {**values, **dict(enumerate(raws, len(known.rows)))}
        statistics = self.tensors.summary.names
        # The format limits the cells of a step: rows beyond it are dropped and counted in `left_out`.
        most = MOST_CELLS // len(statistics)
        if n_rows > most:
            self.about["left_out"] = n_rows - most
            n_rows, numbers = most, numbers[:most]
            all_values = {index: value for index, value in all_values.items() if index < most}
        # Here and not in the writer's thread: two threads that both run Python slow each other down (the GIL).
        matrix = _matrix(self.tensors.summary, numbers, n_rows)
        dtype = matrix.dtype.name
        if samples or self.about.get("left_out"):
            schema = writer.schema([*known.rows, *array_rows, *samples][:most], statistics, dtype=dtype)
        else:
            schema = known.schema(writer, array_rows, statistics, dtype)
        if "error" not in self.about:
            self._guard(self._derive_structure, graphs, kind, schema)
        structure = graphs.note_step(kind, schema, has_late_kind=self.has_late_kind)
        if structure:
            self.about["structure"] = structure
        self._guard(self.tensors.learn_stable_sites)
        self._guard(self._write_facts)
        writer.step(number, schema=schema, kind=kind, matrix=matrix, values=all_values, about=self.about)
        return matrix.nbytes + sum(part.nbytes for part in all_values.values())

    def _write_facts(self) -> None:
        summary, n_backward = self.tensors.summary, self.hooks.gradients.calls.n_backward
        self.about["facts"] = self.hooks.facts.plain(self._tables, summary.matrix(), summary.names, n_backward)

    def _derive_structure(self, graphs: StepGraphs, kind: str, schema: int) -> None:
        if self._traced is not None and self._is_traced and not self._traced.is_aborted:
            graphs.add_traced(kind, schema, self.tensors.recorded(), self._traced.trace)
        elif self.hooks.autograd is not None:
            values = [record for record in self.tensors.records if record.of == VALUE]
            pairs = list(zip(values, self.tensors.recorded(), strict=True))
            graphs.add(schema, self.hooks.autograd.dependencies(pairs, self.hooks.parameter_and_buffer_names()))


class Step:
    """Context manager around one training step; `run.step()` returns one."""

    __slots__ = (
        "_run", "batch_size", "has_late_kind", "is_counted", "is_discarded", "is_entered", "kind", "number",
        "number_given", "recorded",
    )  # fmt: skip

    def __init__(self, run: Recorder, kind: str | None, number: int | None, batch_size: int | None) -> None:
        self._run = run
        self.kind = kind
        """The kind of the step. You may set it inside the block if it was None."""
        self.number_given = number
        self.number = -1
        self.batch_size = batch_size
        self.recorded: RecordedStep | None = None
        self.is_entered = False
        self.is_counted = False
        self.is_discarded = False
        self.has_late_kind = False

    def discard(self) -> None:
        """Do not write this step."""
        self.is_discarded = True

    def choose(self, samples: Any, by: Any, per: str | None) -> None:
        """Choose the samples to store; `run.keep` calls it."""
        choice = SampleChoice.of(samples, by, per)
        if choice is not None and self.recorded is not None:
            self.recorded.choose(choice)

    def __enter__(self) -> Step:
        self.is_entered = True
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
                self._run._release(self)


def _matrix(summary: Summary, numbers: list[int], n_rows: int) -> NDArray[np.floating[Any]]:
    """The statistics of these rows, followed by rows of NaN."""
    matrix = summary.matrix()
    padded = np.full((n_rows, matrix.shape[1]), np.nan, matrix.dtype)
    padded[: len(numbers)] = matrix[numbers]
    return padded
