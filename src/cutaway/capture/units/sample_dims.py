"""The sample dimension of each tensor of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from cutaway.core import pytree
from cutaway.core.errors import InputError
from cutaway.core.formatting import type_text
from cutaway.graph.analysis.units import unit_layouts
from cutaway.graph.trace import Trace


def is_array(value: Any) -> bool:
    """Whether it is a tensor or an array."""
    return isinstance(value, (Tensor, np.ndarray))


@dataclass(frozen=True, slots=True)
class SampleDims:
    """The sample dimension of each tensor of a batch.

    >>> dims = SampleDims({"0": 1})
    >>> batch = (np.zeros((7, 2, 3)), np.zeros(7))
    >>> dims.n(batch), [part.shape for part in dims.slice_samples(batch, 0, 1)]
    (2, [(7, 1, 3), (7,)])
    """

    by_path: Mapping[str, int] = field(default_factory=dict)
    """By path in the batch."""
    default: int = 0
    """The dimension for unlisted tensors, if its size is the number of samples."""

    @staticmethod
    def from_trace(trace: Trace, batch: Any) -> SampleDims:
        """Sample dimensions from the graph, for a batch whose parts are the arguments of the model.

        A tensor that the graph does not decide, such as a mask that the model reads as numbers, is treated like the
        others.
        """
        dims = {path: _sample_dim(op.unit_layout) for path, op in zip(trace.input_paths, trace.inputs, strict=True)}
        known = {
            path: dim for path, given in _inputs(batch).items() if given in dims and (dim := dims[given]) is not None
        }
        if not known:
            raise InputError(
                f"no input dimension of {trace.model_name} counts samples: the model computes across each of them. "
                "State the sample dimension with samples=."
            )
        several = set(known.values())
        return SampleDims(known, several.pop() if len(several) == 1 else 0)

    def apply_to(self, trace: Trace, batch: Any) -> None:
        """Makes the layouts of a trace use these sample dimensions, overriding its graph."""
        nodes = dict(trace.tables.inputs)
        stated = {nodes[given]: self.default for given in _inputs(batch).values() if given in nodes}
        trace.unit_layouts = unit_layouts(trace.tables, stated)

    def n(self, batch: Any, *, is_strict: bool = False) -> int:
        """Number of samples in a batch, from the first tensor whose sample dimension is known.

        Args:
            is_strict: whether all tensors must have this many.
        """
        parts = sorted(self._parts(batch), key=lambda part: not part[2])  # known ones first
        counts = [part.shape[dim] for part, dim, _ in parts if part.ndim > dim]
        if not counts:
            raise InputError(f"a batch ({type_text(batch)}) contains no tensor with samples.")
        odd = [count for count in counts if count != counts[0]]
        if is_strict and odd:
            raise InputError(f"the tensors have {counts[0]} and {odd[0]} samples: all must have the same number.")
        return int(counts[0])

    def slice_samples(self, batch: Any, start: int, stop: int) -> Any:
        """Slices the samples of a batch, as views; tensors without samples stay whole."""
        n = self.n(batch)
        batch = dict(batch) if isinstance(batch, Mapping) else batch
        dims = {id(part): dim for part, dim, _ in self._parts(batch)}

        def cut(part: Any) -> Any:
            dim = dims.get(id(part), self.default)
            if part.ndim <= dim or part.shape[dim] != n:
                return part
            return part[(slice(None),) * dim + (slice(start, stop),)]

        return pytree.replace(batch, cut, is_array)

    def _parts(self, batch: Any) -> list[tuple[Any, int, bool]]:
        """Each tensor with its sample dimension, and whether that is known."""
        known = self.by_path
        return [(part, known.get(path, self.default), path in known) for path, part in pytree.leaves(batch, is_array)]


def _sample_dim(layout: Any) -> int | None:
    return layout.dim_of(layout.samples[0]) if len(layout.samples) == 1 else None


def _inputs(batch: Any) -> dict[str, str]:
    """Path in a batch → path in the arguments of the model."""
    is_several = isinstance(batch, (Mapping, tuple, list))
    paths = [path for path, _ in pytree.leaves(batch, is_array)]
    return {path: path if is_several else f"0.{path}".rstrip(".") for path in paths}
