"""Unit and sample dimensions of recorded tensors, learned from a traced step.

A step that is traced for its dependency graph also yields the layout of every tensor, but only when the model has
returned. Until then the tensors of that step are pending. Steps that are not traced use the layouts learned before.
Where nothing is traced (compiled code runs in the step, or `graph=False`), layers of torch.nn still have known units,
and samples are taken along `batch_dim=`; a note in the run says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cutaway.capture.tensors.aliasing import storage_of, version_of
from cutaway.capture.units.module_units import output_layout, output_sample_dim, parameter_layout
from cutaway.core.errors import SiteError, UnitError
from cutaway.core.formatting import nearest_hint
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout, layout_of_pass
from cutaway.graph.analysis.units import unit_layouts
from cutaway.graph.tables import CONSTANT, PARAMETER

if TYPE_CHECKING:
    from cutaway.capture.session import Session
    from cutaway.recording.tensors import RecordedTensor
    from cutaway.recording.values import SampleSelection

_COMPILED = "compiled code runs in the step, so the dependency graph comes from autograd instead of a trace"
_UNTRACED = "the model was not traced (graph=False, or no step could be)"


def autograd_note() -> str:
    """What to say of a run whose graph comes from autograd."""
    return f"{_COMPILED}: links through tensors without gradients are missing"


def untraced_note(batch_dim: int | None, sequence_first: str, *, is_compiled: bool) -> str:
    """What to say of a run without a trace.

    Args:
        batch_dim: the dimension that is taken as the sample dimension; None if it is unknown.
        sequence_first: the address of a layer that takes time steps first, if there is one.
        is_compiled: whether compiled code runs in the step.
    """
    reason = autograd_note() if is_compiled else _UNTRACED
    if batch_dim is None:
        return (
            f"{reason}. Its layer {sequence_first!r} takes time steps before samples (batch_first=False), so the "
            "sample dimension of most tensors is unknown: state that of the model's inputs with batch_dim="
        )
    return (
        f"{reason}. Only layers of torch.nn have known units, and dimension {batch_dim} is taken as the sample "
        "dimension; batch_dim= sets another"
    )


_MOST_FOUND = 10_000
"""Largest number of adapted layouts that are kept: texts of all lengths have as many shapes."""


class RecordedUnits:
    """The known layouts of a run's tensors.

    Args:
        batch_dim: the sample dimension of the models' inputs, if the user states it.
        unit_dims: site or pattern → its unit dimensions, if the user states them.
    """

    def __init__(self, batch_dim: int | None = None, unit_dims: Mapping[Site, tuple[int, ...]] | None = None) -> None:
        self.batch_dim = batch_dim
        self._unit_dims = dict(unit_dims or {})
        self._unmatched = [site for site in self._unit_dims if site.name is None]
        """Stated sites that no tensor has matched so far; named tensors may come at a later step."""
        self.is_traced = False
        """Whether a step was traced, so that layouts come from the graph."""
        self._known: dict[str, dict[int, UnitLayout]] = {}
        """Site without a pass → pass, counted over the step → layout."""
        self._found: dict[tuple[str, int, tuple[int, ...], int | None], UnitLayout | None] = {}
        """Answers of `find`: adapting a layout takes tens of microseconds, and shapes repeat from step to step."""

    def learn(self, base: str, pass_: int, layout: UnitLayout) -> None:
        """Store the layout of one tensor."""
        self._known.setdefault(base, {})[pass_] = layout
        self._found.clear()

    def find(self, base: str, pass_: int, tensor: Tensor, n_samples: int | None = None) -> UnitLayout | None:
        """The learned layout, adapted to the tensor's shape; None if there is none or if it does not fit.

        Args:
            n_samples: the batch size; needed where one dimension holds both samples and tokens.
        """
        if base not in self._known:
            return None  # before its shape is asked for: nested and lazy tensors have none
        key = base, pass_, tensor.shape, n_samples
        if key not in self._found:
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[key] = self._adapted(base, pass_, tensor, n_samples)
        return self._found[key]

    def _adapted(self, base: str, pass_: int, tensor: Tensor, n_samples: int | None) -> UnitLayout | None:
        layout = layout_of_pass(self._known[base], pass_)
        for count in (n_samples, None) if layout is not None and n_samples is not None else (None,):
            try:
                return None if layout is None else layout.for_shape(tensor.shape, count)
            except UnitError:
                continue
        return None

    def with_stated_units(self, base: str, layout: UnitLayout | None, tensor: Tensor) -> UnitLayout | None:
        """The layout with the unit dimensions that the user states. Raises if they do not fit; the run notes it."""
        for site, dims in self._unit_dims.items():
            if base.startswith("$") == (site.name is not None) and site.matches(Site.parse(base)):
                self._unmatched = [other for other in self._unmatched if other is not site]
                return stated_layout(dims, layout, tensor)
        return layout

    def check(self) -> None:
        """After a complete step, raise a `SiteError` for a stated site that has matched nothing. Raises once."""
        unmatched, self._unmatched = self._unmatched, []
        if unmatched:
            asked = str(unmatched[0])
            near = nearest_hint(asked, self._known)
            raise SiteError(f"unit_dim names {asked!r}, which matches no output of the first recorded step.{near}")

    @staticmethod
    def from_module(module: nn.Module, path: str, tensor: Tensor, selection: SampleSelection) -> UnitLayout | None:
        """The layout without a graph: units of torch.nn layers, samples along their dimension or the inputs' one."""
        layout = output_layout(module, path, tensor.shape)
        dim = output_sample_dim(module, path, tensor.dim())
        if dim is None:
            return RecordedUnits.with_samples(layout, tensor, selection.batch_dim, selection.batch_size)
        if selection.batch_size is None:
            selection.batch_size = tensor.shape[dim]
        return RecordedUnits.with_samples(layout, tensor, dim, selection.batch_size)

    @staticmethod
    def with_samples(
        layout: UnitLayout | None, tensor: Tensor, dim: int | None, batch_size: int | None
    ) -> UnitLayout | None:
        """Add a sample dimension to a layout, if the dimension has as many entries as the batch has samples."""
        n = tensor.dim()
        if dim is None or batch_size is None:
            return layout
        if tensor.is_nested or not -n <= dim < n or tensor.shape[dim] != batch_size:
            return layout
        if layout is None:
            layout = UnitLayout.refused(tensor.shape, "the graph was not traced")
        axis = dim % n
        return layout if axis in layout.units or layout.samples else replace(layout, samples=(axis,))


def stated_layout(dims: tuple[int, ...], layout: UnitLayout | None, tensor: Tensor) -> UnitLayout:
    """Whole dimensions as units, with the samples of the known layout."""
    return (layout or UnitLayout(tuple((size,) for size in tensor.shape))).with_units(dims)


def parameter_units(modules: Mapping[str, nn.Module], name: str, tensor: Tensor) -> UnitLayout | None:
    """The output units of a parameter, if its owner is a layer of torch.nn."""
    owner, _, own = name.rpartition(".")
    module = modules.get(owner or ".")
    return None if module is None or is_lazy(tensor) else parameter_layout(module, own, tensor.shape)


@dataclass(slots=True, eq=False)
class PendingTensor:
    """A tensor of a traced step whose layout is not known yet."""

    seen: Tensor
    """The program's tensor, by which the graph identifies it."""
    version: int | None
    """Its version counter when recorded; None under inference_mode, which has no counter."""
    record: RecordedTensor
    copy: Tensor | None = None
    """Made just before it was overwritten."""

    @property
    def tensor(self) -> Tensor | None:
        """Its values when it was recorded; None if they were overwritten without notice."""
        return self.copy if self.copy is not None or version_of(self.seen) != self.version else self.seen


class PendingTensors:
    """Tensors of a traced step that wait until the model returns and their layouts are known."""

    def __init__(self) -> None:
        self.pending: list[PendingTensor] = []

    def add(self, tensor: Tensor, record: RecordedTensor) -> None:
        self.pending.append(PendingTensor(tensor, version_of(tensor), record))

    def before_write(self, tensors: list[Any]) -> None:
        """Copy pending tensors that share memory with tensors that are about to be overwritten."""
        if not self.pending:
            return
        written = {storage_of(tensor) for tensor in tensors if isinstance(tensor, Tensor)} - {None}
        for each in self.pending:
            if each.tensor is each.seen and storage_of(each.seen) in written:
                each.copy = each.seen.detach().clone()

    def resolve(
        self, layout_of: Callable[[Tensor], UnitLayout | None], add: Callable[..., None], *, is_final: bool
    ) -> int:
        """Call `add` with each tensor and its layout. Returns how many tensors had been overwritten.

        Args:
            is_final: whether the step is over. Until then tensors that the user named stay pending: the sample
                dimension of a target is known only from the loss.
        """
        pending = [each for each in self.pending if is_final or not each.record.key.base.startswith("$")]
        self.pending = [each for each in self.pending if each not in pending]
        for each in pending:
            add(each.tensor, each.record, layout_of(each.seen))
        return sum(each.tensor is None for each in pending)


def partial_layouts(session: Session, parameters: Mapping[int, str], batch_dim: int | None) -> PartialLayouts:
    """The layouts of all tensors that a running capture has seen so far.

    Args:
        parameters: parameter id → name; the capture itself names parameters only at its end.
        batch_dim: the sample dimension of the inputs, if the user states it.
    """
    tables, resolver = session.tables_so_far(), session.resolver
    kinds = list(tables.nodes.kind)
    named: dict[str, int] = {}
    for node, ref in resolver.sources.items():
        name = parameters.get(id(ref()))
        if kinds[node] in (CONSTANT, PARAMETER) and name is not None:
            kinds[node] = PARAMETER  # until the end of a capture, plain tensors among them count as constants
            named[name] = node
    tables.nodes = replace(tables.nodes, kind=kinds)
    samples = None if batch_dim is None else {node: batch_dim for _, node in tables.inputs}
    return PartialLayouts(resolver, unit_layouts(tables, samples), named)


class PartialLayouts:
    """Layouts by tensor, and by the name of a parameter."""

    def __init__(self, resolver: Any, layouts: list[UnitLayout | None], named: Mapping[str, int]) -> None:
        self._resolver, self._layouts = resolver, layouts
        self.parameters = {name: layouts[node] for name, node in named.items()}

    def of(self, tensor: Tensor) -> UnitLayout | None:
        rows = self._resolver.rows_of(tensor)
        layout = self._layouts[rows[0]] if rows and rows[0] < len(self._layouts) else None
        return layout if layout is None or layout.shape == tuple(tensor.shape) else None


def summary_view(tensor: Tensor, layout: UnitLayout | None, *, is_full: bool) -> tuple[Tensor, int | None, int | None]:
    """The tensor as the statistics need it: with one sample dimension and one unit dimension, if it has them.

    Splitting a dimension is a view. Only units in several dimensions need a copy, and only for statistics per unit.
    """
    if layout is None or tensor.is_nested:
        return tensor, None, None
    known = _plans.get((id(layout), is_full))
    if known is None:
        if len(_plans) >= _MOST_FOUND:
            _plans.clear()
        known = _plans[id(layout), is_full] = layout, _plan(layout, is_full)
    plan = known[1]
    if tensor.shape != plan.shape:
        return tensor, None, None
    if plan.sizes is None:
        return layout.rows(tensor), plan.samples, plan.units
    return (tensor if plan.sizes == plan.shape else tensor.reshape(plan.sizes)), plan.samples, plan.units


@dataclass(frozen=True, slots=True)
class _Plan:
    """How tensors of one layout are summarized; the same at every step."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...] | None
    """The shape to view it as; None if it is copied as samples × positions × units."""
    samples: int | None
    units: int | None


_plans: dict[tuple[int, bool], tuple[UnitLayout, _Plan]] = {}
"""Id of a layout → the layout, so that its id is not reused, and its plan. Hashing layouts would take longer."""


def _plan(layout: UnitLayout, is_full: bool) -> _Plan:
    shape = layout.shape
    samples = layout.samples[0] if len(layout.samples) == 1 else None
    if not (is_full and layout.is_known and layout.units):
        return _Plan(shape, layout.sizes, samples, None)
    first, stop = layout.units[0], layout.units[0] + len(layout.units)
    if layout.units != tuple(range(first, stop)):
        return _Plan(shape, None, 0 if samples is not None else None, 2)
    sizes = list(layout.sizes)
    sizes[first:stop] = [layout.n_units]
    if samples is not None and samples >= stop:
        samples -= len(layout.units) - 1
    return _Plan(shape, tuple(sizes), samples, first)
