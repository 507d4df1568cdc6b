"""How a run is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.store.format.segments import Limits

Level = Literal["core", "full"]


class Further(TypedDict, total=False):
    """The settings of `cutaway.record` that are seldom needed, each a keyword of its own."""

    batch_dim: int
    """The dimension that counts samples in what the model is given; by default the graph of the model tells."""
    unit_dim: Mapping[str, int | Sequence[int]]
    """Site or pattern → the dimension that counts its units, or several, where the graph of the model does not tell."""
    gradients: bool
    """Whether gradients are recorded; True."""
    updates: bool
    """Whether what the optimizer changes is recorded; True."""
    parameters: bool
    """Whether parameters and buffers are recorded, with their gradients and updates; True."""
    graph: bool
    """Whether the first step of each structure is traced for the dependency graph; True."""
    spectral_norm: bool
    """Whether the largest singular value of matrices is recorded; False."""
    config: Any
    """Settings of the training, kept with the run: a dict, a dataclass, a namespace."""
    enabled: bool
    """False makes every call do nothing; True."""
    fsync: bool
    """Whether each step waits until it would survive a loss of power; False."""
    most_update_bytes: int
    """Updates need a copy of the parameters; beyond so many bytes they are left out, with a note; 2 GiB."""
    limits: Limits
    """When files on disk are closed and new ones begun."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a recorder, checked."""

    at: tuple[Site, ...] = ()
    samples: int | tuple[int, ...] = 0
    statistics: Level = "core"
    batch_dim: int | None = None
    unit_dim: Mapping[str, int | Sequence[int]] | None = None
    gradients: bool = True
    updates: bool = True
    parameters: bool = True
    graph: bool = True
    spectral_norm: bool = False
    config: Any = None
    enabled: bool = True
    fsync: bool = False
    most_update_bytes: int = 2 << 30
    limits: Limits = field(default_factory=Limits)

    @staticmethod
    def of(at: Any, samples: Any, statistics: Any, further: Mapping[str, Any]) -> Settings:
        """Check what was given to `cutaway.record`."""
        known = Further.__annotations__
        unknown = [name for name in further if name not in known]
        if unknown:
            raise InputError(f"record() has no setting {unknown[0]!r}. It has: {', '.join(sorted(known))}.")
        if statistics not in ("core", "full"):
            raise InputError(f"statistics={statistics!r}: give 'core' or 'full'.")
        return Settings(_sites(at), _samples(samples), statistics, **further)

    @property
    def unit_dims(self) -> dict[Site, tuple[int, ...]]:
        """What the user says of units, by site."""
        given = self.unit_dim
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InputError(f"unit_dim={given!r}: give a mapping from sites to dimensions, such as {{'head': 1}}.")
        return {
            Site.parse(site): (dims,) if isinstance(dims, int) else tuple(int(dim) for dim in dims)
            for site, dims in given.items()
        }


def _sites(at: Any) -> tuple[Site, ...]:
    if at is None or at == "**":
        return ()
    if not isinstance(at, (str, Iterable)):
        raise InputError(f"at={at!r}: give a site, a pattern, or several of them.")
    return tuple(Site.parse(pattern) for pattern in ([at] if isinstance(at, str) else at))


def _samples(samples: Any) -> int | tuple[int, ...]:
    if isinstance(samples, bool) or (isinstance(samples, int) and samples < 0):
        raise InputError(f"samples={samples!r}: give how many are kept of each batch, or a list of which.")
    if isinstance(samples, int):
        return samples
    if isinstance(samples, (Sequence, range)) and all(type(one) is int and one >= 0 for one in samples):
        return tuple(dict.fromkeys(samples))
    raise InputError(f"samples={samples!r}: give how many are kept of each batch, or a list of which.")
