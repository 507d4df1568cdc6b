"""The methods of a trace that compute what it would be with an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.core import late
from cutaway.graph.selection import What

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace


class Replays:
    """Base class of `Trace`: replays of its ops."""

    def replay(
        self,
        at: What | Mapping[Any, Any],
        to: object = None,
        *,
        units: int | Sequence[int] | None = None,
        unit_dim: int | Sequence[int] | None = None,
        heads: int | Sequence[int] | None = None,
        n_heads: int | None = None,
        positions: int | slice | Sequence[int] | None = None,
        samples: int | slice | Sequence[int] | None = None,
        index: Any = None,
    ) -> Trace:
        """The trace with an edit applied, recomputed from saved values and only where the edit has an effect.

        Takes the arguments of `cutaway.edit`. Raises if the edit reaches something that cannot be recomputed: an opaque
        op, or a number that controls the program.

        Args:
            at: a site (module, `@in`, op, parameter, optionally with pass and unit), a pattern, an op or selection of a
                trace, the top of a ranking, or several of these; or a mapping from these to new values, without `to`.
            to: a number, a tensor, a function of the value, another site to copy from, an op or trace to take the value
                from, or one of `edit.scale`, `edit.clamp`, `edit.noise`, `edit.swap`.
            units: only these units, by flat index `#k`; the graph of the model decides which dimensions count units.
            unit_dim: the dimensions that count units, in the order of the flat index, if the graph does not tell.
            heads: only these attention heads: consecutive, equal parts of the units.
            n_heads: the number of heads, if the model does not have it as an attribute.
            positions: only these token positions (queries of attention scores); of the whole text during generation.
            samples: only these indices along the sample dimension.
            index: only `value[index]`, for example `np.s_[:, 3]`. Excludes the other keywords.
        """
        part: dict[str, Any] = {"units": units, "unit_dim": unit_dim, "heads": heads, "n_heads": n_heads}
        part |= {"positions": positions, "samples": samples, "index": index}
        replayed: Trace = late.call("Trace.replay", self, at, to, **part)
        return replayed

    def patch_path(
        self,
        at: What | Mapping[Any, Any],
        to: object = None,
        *,
        into: What | None = None,
        frozen: What = (),
        units: int | Sequence[int] | None = None,
        unit_dim: int | Sequence[int] | None = None,
        heads: int | Sequence[int] | None = None,
        n_heads: int | None = None,
        positions: int | slice | Sequence[int] | None = None,
        samples: int | slice | Sequence[int] | None = None,
        index: Any = None,
    ) -> Trace:
        """The trace with an edit that only some readers see, and that reaches them only along some paths.

        First, the edit is applied as `replay` does, except that `frozen` modules and ops keep their values. Then, all
        else is as it was, and the readers `into` get what they would read: only what follows from this is recomputed.

        Args:
            at: the senders, and what `replay` takes; frozen or not, they change.
            to: the new value, as `replay` takes it.
            into: the readers that see the change: modules, inputs of modules (`@in`), ops, or several of these; None
                for all that it reaches.
            frozen: modules and ops that keep their values on the way: sites, patterns, ops or several of these. Not
                frozen are modules around a sender, and those that return their input: these have no own value.
            units: only these units, by flat index `#k`; the graph of the model decides which dimensions count units.
            unit_dim: the dimensions that count units, in the order of the flat index, if the graph does not tell.
            heads: only these attention heads: consecutive, equal parts of the units.
            n_heads: the number of heads, if the model does not have it as an attribute.
            positions: only these token positions (queries of attention scores); of the whole text during generation.
            samples: only these indices along the sample dimension.
            index: only `value[index]`, for example `np.s_[:, 3]`. Excludes the other keywords.
        """
        part: dict[str, Any] = {"units": units, "unit_dim": unit_dim, "heads": heads, "n_heads": n_heads}
        part |= {"positions": positions, "samples": samples, "index": index}
        patched: Trace = late.call("Trace.patch_path", self, at, to, into=into, frozen=frozen, **part)
        return patched
