"""Settings of `cutaway.record`, and their checks."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, type_text
from cutaway.core.sites import Site
from cutaway.recording.flight.settings import Flight
from cutaway.store.format.segments import Limits

Level = Literal["core", "full"]
MOST_UPDATE_BYTES = 2 << 30
"""Default limit of the copy of the parameters that updates need: 2 GiB."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a recorder, validated; `cutaway.record` documents each."""

    at: tuple[Site, ...] = ()
    """Empty for all module outputs, parameters and buffers."""
    samples: int | tuple[int, ...] = 0
    statistics: Level = "core"
    parameters: bool = True
    gradients: bool = True
    updates: bool = True
    graph: bool = True
    spectral_norm: bool = False
    config: Any = None
    batch_dim: int | None = None
    unit_dim: Mapping[str, int | Sequence[int]] | None = None
    most_update_bytes: int = MOST_UPDATE_BYTES
    fsync: bool = False
    limits: Limits = field(default_factory=Limits)
    enabled: bool = True
    flight: Flight | None = None

    def __post_init__(self) -> None:
        if self.statistics not in get_args(Level):
            near = hint(self.statistics, get_args(Level))
            raise InputError(f"statistics={self.statistics!r}: pass 'core' or 'full'.{near}")
        if self.batch_dim is not None and type(self.batch_dim) is not int:
            raise InputTypeError(f"batch_dim={self.batch_dim!r} is {type_text(self.batch_dim)}: pass an int, as in 0.")
        if not isinstance(self.most_update_bytes, int):
            raise InputTypeError(
                f"most_update_bytes={self.most_update_bytes!r} is {type_text(self.most_update_bytes)}: "
                "pass a number of bytes, as in 2 << 30."
            )
        if not isinstance(self.limits, Limits):
            raise InputTypeError(f"limits={self.limits!r} is {type_text(self.limits)}: pass a cutaway.store.Limits.")
        if self.unit_dim is not None and not isinstance(self.unit_dim, Mapping):
            raise InputTypeError(
                f"unit_dim={self.unit_dim!r} is {type_text(self.unit_dim)}: pass a mapping from sites to dimensions, "
                "such as {'head': 1}."
            )

    @property
    def unit_dims(self) -> dict[Site, tuple[int, ...]]:
        """The stated unit dimensions by site."""
        return {
            Site.parse(site): (dims,) if isinstance(dims, int) else tuple(int(dim) for dim in dims)
            for site, dims in (self.unit_dim or {}).items()
        }


def parse_sites(at: object) -> tuple[Site, ...]:
    """Parse `at=`; no sites stand for everything."""
    if at is None or at == "**":
        return ()
    # nn.Sequential is iterable: a module passed here would otherwise be taken for a list of sites.
    if not isinstance(at, (str, Iterable)) or isinstance(at, Mapping) or hasattr(at, "forward"):
        raise InputTypeError(f"at= got {type_text(at)}: pass a site, a pattern, or a list of them, as in 'encoder.*'.")
    patterns = [at] if isinstance(at, str) else list(at)
    if not patterns:
        raise InputError("at=[] names no tensor: pass sites or patterns, or omit at= to record everything.")
    return tuple(map(_parse_site, patterns))


def _parse_site(pattern: object) -> Site:
    if not isinstance(pattern, (str, Site)):
        raise InputTypeError(f"at= contains {type_text(pattern)}: pass sites as text, as in 'encoder.0'.")
    site = Site.parse(str(pattern))
    if site.unit is not None:
        whole = str(pattern).partition("#")[0]
        raise InputError(
            f"at={str(pattern)!r} names a unit, but record() records whole tensors: pass {whole!r}. "
            "statistics='full' adds statistics for each unit."
        )
    return site


def parse_samples(samples: object) -> int | tuple[int, ...]:
    """Parse `samples=`: a count, or distinct indices."""
    if isinstance(samples, (str, bytes, bool)):
        raise _samples_error(samples)
    count = _as_int(samples)
    if count is not None:
        if count < 0:
            raise InputError(f"samples={count} is negative: pass how many samples of each batch to store, 0 for none.")
        return count
    if not isinstance(samples, Iterable):
        raise _samples_error(samples)
    indices = [_as_int(entry) for entry in samples]
    if None in indices:
        raise _samples_error(samples)
    negative = [index for index in indices if index is not None and index < 0]
    if negative:
        raise InputError(f"samples= lists index {negative[0]}: indices of samples start at 0.")
    return tuple(dict.fromkeys(index for index in indices if index is not None))


def _samples_error(samples: object) -> InputTypeError:
    return InputTypeError(
        f"samples={samples!r} is {type_text(samples)}: pass how many samples of each batch to store, as in 8, "
        "or a list of indices, as in [0, 5]."
    )


def _as_int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
