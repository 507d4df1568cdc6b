"""Traces a recorded step as well: for the values of single ops and for the dependency graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from cutaway.capture.patches.compiled_entry import unwatch_compiled, watch_compiled
from cutaway.capture.saved.save_policy import Saver
from cutaway.capture.session import Session, register_fork_handler
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.trace import Trace
from cutaway.recording.recorded_units import PendingTensors, RecordedUnits, partial_layouts
from cutaway.recording.tensors import RecordedTensor, StepTensors, TensorKey

LayoutOf = Callable[[TensorKey, Tensor], UnitLayout | None]


class TracedStep:
    """A capture session around one recorded step, which records the requested ops as they run."""

    def __init__(
        self,
        root: nn.Module,
        ops: Sequence[Site],
        tensors: StepTensors,
        hook_gradient: Callable[[Tensor, RecordedTensor], None],
        guard: Callable[..., None],
    ) -> None:
        register_fork_handler()
        self.trace = Trace()
        self._tensors = tensors
        self._guard = guard
        self.is_on = False
        self.is_aborted = False
        """Whether compiled code ran in the step, so that there is no trace."""
        self.has_returned = False
        """Whether the model has returned, so that the graph has told the layouts."""
        self.before_write: Callable[[list[Any]], None] = lambda tensors: None
        """Callback: tensors are about to be overwritten."""
        self._saver = _OpValueSaver(ops, tensors, hook_gradient, guard)
        self._session = Session(self.trace, root, self._saver, gradients=False)
        if ops:
            self._session.resolver.resolve_immediately()  # gradient hooks must be registered before the backward pass

    def start(self) -> None:
        """Start the capture."""
        pending = self._tensors.pending = PendingTensors()

        def on_write(tensors: list[Any]) -> None:
            self._guard(pending.before_write, tensors)
            self._guard(self.before_write, tensors)

        self._session.resolver.on_write = on_write
        self._session.start()
        self.is_on = True

    def watch_compiled(self, abort: Callable[[], None]) -> None:
        """Call back when compiled code is about to run in the step; `abort` is to be called then."""
        watch_compiled(self, abort)

    def abort(self) -> bool:
        """Compiled code is about to run: remove the capture, which would change it. Returns whether it was there."""
        was_on, self.is_on = self.is_on, False
        self.is_aborted = True
        if was_on:
            self._session.abort()
        else:
            self._session.leave_aborted()
        return was_on

    def continue_untraced(self, batch_dim: int | None, layout_of: LayoutOf) -> int:
        """After `abort`, set the layouts of pending tensors without a graph. Returns how many were overwritten.

        The graph so far does not tell them if the model has not returned: later layers may say which dimension has the
        samples.

        Args:
            batch_dim: the sample dimension of the inputs, as far as it is known without a graph.
            layout_of: the layout of a tensor, as far as it is known without a graph.
        """
        selection, pending = self._tensors.selection, self._tensors.pending
        assert pending is not None
        self._tensors.pending = None
        if selection.batch_dim != batch_dim:
            selection.batch_dim = batch_dim
            if not selection.is_batch_size_given:
                selection.batch_size = None
                inputs = [each.tensor for each in pending.pending if each.record.key.role == "input"]
                selection.infer_batch_size(tensor for tensor in inputs if tensor is not None)
        for each in pending.pending:
            layout = None if each.tensor is None else layout_of(each.record.key, each.tensor)
            self._tensors.set_layout(each.tensor, each.record, layout)
        return sum(each.tensor is None for each in pending.pending)

    def drop_unnamed(self) -> None:
        """Drop the values of ops that have no site because the trace was aborted, and their gradients."""
        if self.is_aborted:
            self._tensors.drop({each for each in self._tensors.records if each.key.base.startswith("op ")})

    def resolve_units(self, units: RecordedUnits, parameters: Mapping[int, str], *, is_final: bool) -> int:
        """Set the layouts of pending tensors. Returns how many were overwritten before their layout was known.

        Args:
            is_final: whether the step, or its trace, is over.
        """
        pending = self._tensors.pending
        if pending is None or not (self.is_on or self.has_returned):
            return 0
        layouts = partial_layouts(self._session, parameters, units.batch_dim)
        units.is_traced = self.has_returned = True
        for name, layout in layouts.parameters.items():
            if layout is not None:
                units.learn(name, 1, layout)

        def assign(tensor: Tensor | None, record: RecordedTensor, layout: UnitLayout | None) -> None:
            if tensor is not None and not record.key.base.startswith("op "):
                layout = units.with_stated_units(record.key.base, layout, tensor)
            self._tensors.set_layout(tensor, record, layout)
            if record.key.role == "input":
                self._tensors.selection.use_layout(layout)
            for key in (record.key, *record.aliases):
                if layout is not None and not key.base.startswith("op "):
                    units.learn(key.base, key.step_pass, layout)

        n_lost = pending.resolve(layouts.of, assign, is_final=is_final)
        if is_final:
            self._tensors.propagate_layouts()
            self._tensors.pending = None
        return n_lost

    def name(self, name: str, tensor: Tensor) -> None:
        """Name a tensor in the trace."""
        if self.is_on:
            self.trace.tensor(name, tensor)

    def op_sites(self) -> list[str]:
        """The sites of all ops, after the capture has stopped; empty if it was aborted."""
        return [] if self.is_aborted else [str(op.site) for op in self.trace]

    def stop(self, error: BaseException | None) -> None:
        """Stop the capture and set the sites of the recorded ops. Idempotent."""
        unwatch_compiled(self)
        if self.is_aborted:
            self._session.leave_aborted()
        if not self.is_on:
            return
        self.is_on = False
        self._session.stop(error)
        for node, record in self._saver.records.items():
            site = str(self.trace.names.site(node))
            key = TensorKey(site, site, 1, record.key.iteration, "value")
            self._tensors.rekey(record.key, key)


class _OpValueSaver(Saver):
    """A saver that stores nothing, but records each value before the program can overwrite it."""

    def __init__(
        self,
        ops: Sequence[Site],
        tensors: StepTensors,
        hook_gradient: Callable[[Tensor, RecordedTensor], None],
        guard: Callable[..., None],
    ) -> None:
        super().__init__([str(site) for site in ops] or None, "reference", None)
        self.records: dict[int, RecordedTensor] = {}
        self._step_tensors = tensors
        self._hook_gradient = hook_gradient
        self._guard = guard

    def keep(self, node: int, tensor: Tensor) -> tuple[Any, bool]:
        if node not in self.records:
            self._guard(self._add, node, tensor)
        return None, False

    def _add(self, node: int, tensor: Tensor) -> None:
        key = TensorKey(f"op {node}", f"op {node}", 1, self._step_tensors.iteration, "value")
        record = self._step_tensors.add_op_value(tensor, key)
        self.records[node] = record
        self._hook_gradient(tensor, record)
