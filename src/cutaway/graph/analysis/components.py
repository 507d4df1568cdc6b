"""The components of a model that you can collect: modules, ops and inputs with their shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

from cutaway.core.io import write
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace


@dataclass(frozen=True, slots=True)
class Component:
    """One site whose values can be collected, as seen on the example input."""

    site: str
    kind: str
    """ "module", "op" or "input"."""
    type: str
    """Class of the module, or function of the op."""
    shape: tuple[int, ...]
    dtype: str
    unit_dims: tuple[int, ...]
    """The unit dimensions, in the order of the flat index `#k`; empty if the whole value is one unit."""
    sample_dims: tuple[int, ...]
    """The sample dimensions."""
    n_units: int | None
    """None if the graph does not determine the unit dimension; `why` has the reason."""
    why: str
    n_passes: int
    """Number of passes; if there are several, `:1` and so on select one."""


class Sites(tuple[str, ...]):
    """The names of all sites of a model on an example; `components` are those that can be collected.

    >>> import torch, cutaway
    >>> found = cutaway.sites(torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.ones(2, 4))
    >>> [(each.site, each.shape, each.n_units) for each in found.components]
    [('.', (2, 3), 3), ('0', (2, 3), 3), ('.@in.0', (2, 4), 4), ('0/linear', (2, 3), 3)]
    """

    _trace: Trace

    @staticmethod
    def of(trace: Trace) -> Sites:
        """The sites of a trace, which needs no saved values."""
        sites = Sites(trace.sites)
        sites._trace = trace
        return sites

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """Modules, inputs and ops whose value is a tensor with at least one dimension."""
        by_site: dict[str, Component] = {}
        for component in (*_modules(self._trace), *_ops(self._trace)):
            by_site.setdefault(component.site, component)
        return tuple(by_site.values())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The components as a JSON list, also written to `path` if given."""
        text = json.dumps([asdict(component) for component in self.components], indent=1, ensure_ascii=False)
        if path is not None:
            write(path, text + "\n")
        return text

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[list[str]]]:
        return tuple, (list(self),)


def _modules(trace: Trace) -> Iterator[Component]:
    for module in trace.modules.values():
        calls = module.calls
        if not calls:
            continue
        outputs = calls[0].outputs
        for path, op in outputs.items():
            site = module.address if len(outputs) == 1 else f"{module.address}@out.{path}"
            yield from _component(site, "module", module.class_name, op, len(calls))


def _ops(trace: Trace) -> Iterator[Component]:
    for op in (*trace.inputs, *trace.ops):
        if op.kind == "input":
            yield from _component(op.site, "input", "input", op, 1)
        elif op.kind == "op" and (op.full_site.pass_ or 1) == 1:
            yield from _component(op.site.split(":")[0], "op", op.function, op, op.n_passes)


def _component(site: str, kind: str, type_: str, op: Op, n_passes: int) -> Iterator[Component]:
    shape = op.shape
    if shape:
        layout = op.unit_layout
        n_units = layout.n_units if layout.is_known else None
        samples = tuple(dict.fromkeys(map(layout.dim_of, layout.samples)))
        dims = (layout.unit_dims, samples, n_units, layout.reason)
        yield Component(site, kind, type_, shape, str(op.dtype), *dims, n_passes)
