"""Where the models of a sweep come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import nn

if TYPE_CHECKING:
    from benchmarks.sweep.checks import Verdict


class CannotShrink(Exception):
    """No small configuration of this architecture can be built."""


class CannotRun(Exception):
    """The model was built, and its plain forward fails on every input that was tried."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what to call it with."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    how: str = ""
    """How it was made small and what it is given, in words."""


class Family(Protocol):
    """A set of architectures.

    `names` is cheap and lists all of them, also those that cannot run. `make` builds one with seeded weights, or
    raises `CannotShrink` or `CannotRun` with the reason.
    """

    def names(self) -> Sequence[str]: ...

    def make(self, name: str) -> Case: ...


@runtime_checkable
class JudgesItself(Protocol):
    """A family whose entries are more than one model and its inputs: it also runs the checks."""

    def judge(self, name: str) -> Verdict: ...


class Zoo:
    """The tiny models of the tests: cases that are hard to trace."""

    def names(self) -> Sequence[str]:
        from tests.zoo import ZOO

        return list(ZOO)

    def make(self, name: str) -> Case:
        from tests.zoo import ZOO

        model, args, kwargs = ZOO[name]()
        return Case(model, args, kwargs)


def _transformers() -> Family:
    from benchmarks.sweep.architectures import Transformers

    return Transformers()


def _timm() -> Family:
    from benchmarks.sweep.timm_models import Timm

    return Timm()


def _torchvision() -> Family:
    from benchmarks.sweep.torchvision_models import Torchvision

    return Torchvision()


def _torchaudio() -> Family:
    from benchmarks.sweep.torchaudio_models import Torchaudio

    return Torchaudio()


def _small() -> Family:
    from benchmarks.sweep.small import Small

    return Small()


def _database(entries: str) -> Callable[[], Family]:
    def family() -> Family:
        from benchmarks.sweep.torch_databases import Database

        return Database(f"{entries}_names", f"check_{entries}")

    return family


FAMILIES: dict[str, Callable[[], Family]] = {
    "transformers": _transformers,
    "timm": _timm,
    "torchvision": _torchvision,
    "torchaudio": _torchaudio,
    "small": _small,
    "zoo": Zoo,
    "torch-ops": _database("op"),
    "torch-modules": _database("module"),
    "torch-optimizers": _database("optimizer"),
}
