"""The parts of a language model: stacks of blocks, their contributions to the residual stream, heads and units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError, InputTypeError
from cutaway.results.lm.generation import LayerChoice
from cutaway.results.lm.tokens import Role

Kind = Literal["attention", "mlp", "other"]


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of one attention layer."""

    op: str
    """Site of `scaled_dot_product_attention`, or of the softmax that computes the weights."""
    is_fused: bool
    """Whether the op is fused: then the weights do not exist, and are computed from queries, keys and mask."""
    mixed: str | None
    """Site of the input of the output projection, (batch, position, head · head_dim); None if there is none."""
    out: str | None
    """Address of the output projection."""
    n_heads: int
    head_dim: int
    is_cross: bool
    """Whether keys and values come from the encoder."""


@dataclass(frozen=True, slots=True)
class Units:
    """The neurons of one feed-forward network."""

    site: str
    """Site of the units: the input of the down-projection, (batch, position, unit), or (row, unit) for experts."""
    down: str | None
    """Address of the down-projection, or of the parameter with those of all experts."""
    width: int
    """Number of units; per expert if there are several."""
    n_experts: int = 1
    rows: str | None = None
    """Experts: site of the token index of each row; None if rows are (batch, position)."""
    ends: str | None = None
    """Experts: site of the end offsets of the rows of each expert."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one part of a block adds to the residual stream."""

    kind: Kind
    site: str
    """Site of the added value, (batch, position, d)."""
    heads: Heads | None = None
    units: Units | None = None


@dataclass(frozen=True, slots=True)
class StreamPoint:
    """The residual stream inside a block, after an addition."""

    n: int
    """How many contributions have been added so far."""
    site: str
    """Its site: an edit here affects everything after it."""
    cheaper_site: str
    """A site with the same value that is cheaper to observe: the input of a module."""


@dataclass(frozen=True, slots=True)
class Block:
    """One run of one block; a shared layer has one per pass."""

    index: int
    """Index in its stack, from 0."""
    address: str
    pass_: int
    """Pass of the module at this address, from 1."""
    input: str
    """Site of the stream at the input."""
    output: str
    """Site of the stream at the output."""
    out_path: str
    """Path of the stream in the module's output; "" for a bare tensor."""
    contributions: tuple[Contribution, ...]
    """In the order in which they are added."""
    added: tuple[StreamPoint, ...]
    """The stream after each addition, in order."""
    is_residual: bool
    """Whether the output is exactly the input plus the contributions."""

    def of(self, kind: Kind) -> tuple[Contribution, ...]:
        return tuple(each for each in self.contributions if each.kind == kind)


@dataclass(frozen=True, slots=True)
class Stack:
    """A sequence of blocks."""

    role: Role
    embedding: str
    """Site of the token embeddings: the output of the embedding module, (batch, position, d of the embedding)."""
    blocks: tuple[Block, ...]
    d: int
    """Width of the residual stream."""
    final_norm: str | None
    """Address of the norm after the last block; None if there is none."""

    @property
    def is_residual(self) -> bool:
        """Whether the last stream is the first plus all contributions; not so with norms in the stream, as in BERT."""
        return all(block.is_residual for block in self.blocks)

    @property
    def stream(self) -> tuple[str, ...]:
        """Sites of the residual stream: before the first block, and after each."""
        return (self.blocks[0].input, *(block.output for block in self.blocks))


@dataclass(frozen=True, slots=True, repr=False)
class Anatomy:
    """The parts of a model that were found, and the reasons for those that were not."""

    model_name: str
    stacks: tuple[Stack, ...]
    """One stack, or encoder and decoder; the last one leads to the logits."""
    head: str
    """Address of the module that computes the logits."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Part → why it was not found."""

    @property
    def stack(self) -> Stack:
        """The stack that leads to the logits."""
        return self.stacks[-1]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.stack.blocks

    @property
    def n_layers(self) -> int:
        return len(self.stack.blocks)

    def part(self, role: Role) -> Stack:
        """The stack of this role; a single stack has both roles."""
        return next((stack for stack in self.stacks if stack.role == role), self.stack)

    def table(self) -> Any:
        """One row per layer, with the sites of its parts: a pandas DataFrame if pandas is installed, else dicts.

        `stream` is the output of the layer, `attention` and `mlp` are what they add to it, `heads` and `units` are
        where you find single ones. All are sites for `cutaway.edit(at=…)`.
        """
        return to_dataframe(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for stack in self.stacks:
            for block in stack.blocks:
                heads = next((c.heads for c in block.contributions if c.heads is not None), None)
                units = next((c.units for c in block.contributions if c.units is not None), None)
                added = {kind: [c.site for c in block.of(kind)] for kind in ("attention", "mlp")}  # type: ignore[arg-type]
                yield {
                    "role": stack.role,
                    "layer": block.index,
                    "stream": block.output,
                    "attention": added["attention"][0] if added["attention"] else None,
                    "mlp": added["mlp"][0] if added["mlp"] else None,
                    "heads": None if heads is None else heads.mixed,
                    "n_heads": 0 if heads is None else heads.n_heads,
                    "units": None if units is None else units.site,
                    "n_units": 0 if units is None else units.width * units.n_experts,
                }

    def __repr__(self) -> str:
        lines = [f"Anatomy of {self.model_name}"]
        for stack in self.stacks:
            first = next(row for row in self._rows() if row["role"] == stack.role)
            named = [
                f"{name} {first[name]!r}" for name in ("stream", "attention", "mlp", "heads", "units") if first[name]
            ]
            lines.append(f"  {stack.role}: {len(stack.blocks)} layers of width {stack.d}")
            lines += [f"    {each}" for each in named]
        return "\n".join([*lines, *(f"  no {part}: {reason}" for part, reason in self.missing.items())])

    def heads(self, role: Role | None = None) -> tuple[tuple[Heads, ...], ...]:
        """The attention layers of each block; raises if there are none."""
        stack = self.stack if role is None else self.part(role)
        by_block = tuple(tuple(c.heads for c in block.contributions if c.heads is not None) for block in stack.blocks)
        if not any(by_block):
            raise InputError(f"{self.model_name} has no attention: {self.missing.get('attention', 'none was found')}.")
        return by_block

    def units(self, role: Role | None = None) -> tuple[Units, ...]:
        """The neurons of each block that has some; raises if there are none."""
        stack = self.stack if role is None else self.part(role)
        networks = tuple(c.units for block in stack.blocks for c in block.contributions if c.units is not None)
        if not networks or "mlp" in self.missing:
            raise InputError(
                f"{self.model_name} has no feed-forward neurons: {self.missing.get('mlp', 'none were found')}. "
                "Give a site: at='backbone.layers.*.mixer.out_proj@in.0'."
            )
        return networks


def layer_indices(layers: LayerChoice, n: int) -> list[int]:
    """The indices of the chosen layers among n, ascending, without duplicates.

    >>> layer_indices(slice(-2, None), 12), layer_indices([10, 2, -1], 12), layer_indices(-1, 12)
    ([10, 11], [2, 10, 11], [11])
    """
    if layers is None:
        return list(range(n))
    if isinstance(layers, str):
        raise InputTypeError(
            f"layers={layers!r}: give a number, a list or a slice, counted from 0; leave it out for all {n}."
        )
    if isinstance(layers, slice):
        indices = list(range(n))[layers]
    else:
        indices = []
        for layer in [layers] if not isinstance(layers, (Sequence, np.ndarray)) else layers:
            if isinstance(layer, (bool, str)) or not hasattr(layer, "__index__") or not -n <= int(layer) < n:
                raise InputError(f"layers has {layer!r}: there are {n} layers, counted from 0.")
            indices.append(int(layer) % n)
    if not indices:
        raise InputError(f"layers={layers!r} selects none of the {n} layers, which are counted from 0.")
    return sorted(set(indices))
