"""Options of `cutaway.record`, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint
from cutaway.core.sites import Site
from cutaway.store.format.segments import Limits

Level = Literal["core", "full"]


class RecordOptions(TypedDict, total=False):
    """Less common keyword arguments of `cutaway.record`."""

    batch_dim: int
    """The sample dimension of the model's inputs. By default the graph of the model determines it."""
    unit_dim: Mapping[str, int | Sequence[int]]
    """Site or pattern → its unit dimension or dimensions, where the graph of the model does not determine them."""
    gradients: bool
    """Whether to record gradients. Default: True."""
    updates: bool
    """Whether to record the parameter updates of each optimizer step. Default: True."""
    parameters: bool
    """Whether to record parameters and buffers, with their gradients and updates. Default: True."""
    graph: bool
    """Whether to trace the first step of each structure for the dependency graph. Default: True."""
    spectral_norm: bool
    """Whether to record the largest singular value of matrices. Default: False."""
    config: Any
    """Hyperparameters to store with the run: a dict, a dataclass or a namespace."""
    enabled: bool
    """False turns every call into a no-op. Default: True."""
    fsync: bool
    """Whether each step waits for fsync, so that it survives a power loss. Default: False."""
    most_update_bytes: int
    """Updates need a copy of the parameters; if that is larger than this, a note replaces them. Default: 2 GiB."""
    limits: Limits
    """Sizes at which the writer closes a file and begins the next."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a recorder, validated."""

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
    def of(at: Any, samples: Any, statistics: Any, options: Mapping[str, Any]) -> Settings:
        """Validate the arguments of `cutaway.record`."""
        known = RecordOptions.__annotations__
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"record() got an unexpected option {unknown[0]!r}.{hint(unknown[0], known)} "
                f"Options: {', '.join(sorted(known))}."
            )
        if statistics not in ("core", "full"):
            raise InputError(f"statistics={statistics!r}: pass 'core' or 'full'.")
        return Settings(_sites(at), _samples(samples), statistics, **options)

    @property
    def unit_dims(self) -> dict[Site, tuple[int, ...]]:
        """The stated unit dimensions by site."""
        given = self.unit_dim
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InputTypeError(
                f"unit_dim={given!r} is a {type(given).__name__}: pass a mapping from sites to dimensions, "
                "such as {'head': 1}."
            )
        return {
            Site.parse(site): (dims,) if isinstance(dims, int) else tuple(int(dim) for dim in dims)
            for site, dims in given.items()
        }


def _sites(at: Any) -> tuple[Site, ...]:
    if at is None or at == "**":
        return ()
    if not isinstance(at, (str, Iterable)):
        raise InputTypeError(f"at={at!r} is a {type(at).__name__}: pass a site, a pattern, or a list of them.")
    return tuple(Site.parse(pattern) for pattern in ([at] if isinstance(at, str) else at))


def _samples(samples: Any) -> int | tuple[int, ...]:
    if isinstance(samples, int) and not isinstance(samples, bool) and samples >= 0:
        return samples
    if isinstance(samples, (Sequence, range)) and all(type(index) is int and index >= 0 for index in samples):
        return tuple(dict.fromkeys(samples))
    raise InputError(f"samples={samples!r}: pass how many samples to store per batch, or a list of indices.")
