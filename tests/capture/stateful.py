"""Modules that change their own state while they run, each in a different way."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STATEFUL: dict[str, Callable[[], nn.Module]] = {}


def stateful(kind: type[nn.Module]) -> type[nn.Module]:
    STATEFUL[kind.__name__] = kind
    return kind


class Base(nn.Module):
    """(sample, position, 4) → the same shape, whatever happens on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x)) * self.note(x)

    def note(self, x: Tensor) -> Any:
        return 1.0


@stateful
class CachesByPosition(Base):
    """Like `rotary-embedding-torch`: a table that is valid as far as a plain number says."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(32, 1), persistent=False)
        self.n_valid = 0

    def note(self, x: Tensor) -> Any:
        n = x.shape[1]
        if n > self.n_valid:
            self.table[:n] = torch.arange(n)[:, None].cos() + len(x)  # differs from batch to batch
            self.n_valid = n
        return self.table[:n]


@stateful
class CountsCalls(Base):
    n_calls = 0

    def note(self, x: Tensor) -> Any:
        self.n_calls += 1
        return float(self.n_calls)


@stateful
class ResizesABuffer(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(2))

    def note(self, x: Tensor) -> Any:
        self.seen.resize_(len(self.seen) + 3).fill_(float(x.shape[0]))
        return self.seen.sum()


@stateful
class GivesABufferOtherMemory(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(2))

    def note(self, x: Tensor) -> Any:
        self.seen.data = torch.cat([self.seen, x.detach().flatten()[:1]])
        return self.seen.sum()


@stateful
class ReplacesABuffer(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("nothing", None)

    def note(self, x: Tensor) -> Any:
        self.mean = 0.5 * self.mean + x.detach().mean((0, 1))
        self.nothing = torch.ones(3)
        return self.mean


@stateful
class AddsAndDeletesBuffers(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("old", torch.ones(4))
        self.register_buffer("last", torch.ones(4))

    def note(self, x: Tensor) -> Any:
        if hasattr(self, "old"):
            del self.old
            self.register_buffer("new", torch.full((4,), 3.0))
            return 1.0
        return 2.0


@stateful
class KeepsARunningStatistic(Base):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.average = torch.zeros(4)

    def note(self, x: Tensor) -> Any:
        self.average.mul_(0.9).add_(x.detach().mean((0, 1)))
        return self.norm(x.flatten(0, 1)).reshape(x.shape) + self.average


@stateful
class AppendsToLists(Base):
    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = [3]
        self.nested: dict[str, Any] = {"a": [[torch.zeros(2)], {1, 2}], "b": ({"c": []}, 1)}
        self.recent: deque[Tensor] = deque([torch.zeros(1)], maxlen=2)
        self.raw = bytearray(b"ab")

    def note(self, x: Tensor) -> Any:
        self.lengths.append(x.shape[1])
        self.nested["a"][0][0].add_(1)
        self.nested["a"][0].append(x.detach())
        self.nested["a"][1].add(3)
        self.nested["b"][0]["c"].append(1)
        self.recent.append(x.detach().mean()[None])
        self.raw[0] += 1
        return sum(self.lengths) + self.nested["a"][0][0].sum() + sum(self.recent) + self.raw[0]


@stateful
class KeepsADictCache(Base):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}
        self.ordered: OrderedDict[str, int] = OrderedDict(a=1, b=2)
        self.counted: defaultdict[int, int] = defaultdict(int)

    def note(self, x: Tensor) -> Any:
        n = x.shape[1]
        self.ordered.move_to_end("a")
        self.counted[n] += 1
        if n not in self.cache:
            self.cache[n] = torch.full((n, 1), float(len(x)))
        return self.cache[n] * self.counted[n] * (1 if next(iter(self.ordered)) == "a" else 2)


@stateful
class CreatesAttributesLazily(Base):
    def note(self, x: Tensor) -> Any:
        if not hasattr(self, "scale"):
            self.scale = x.detach().abs().mean()
            self.helper = nn.Linear(4, 4)
            self.own = nn.Parameter(torch.ones(4))
        return self.scale * self.own


@dataclass
class Cache:
    """Like a KV cache: an object with tensors and a counter."""

    n: int = 0
    layers: list[Any] = field(default_factory=list)
    owner: Any = None


class Slotted:
    __slots__ = ("__hidden", "count", "later")

    def __init__(self) -> None:
        self.count = 0
        self.__hidden = [1]

    def step(self) -> int:
        self.count += 1
        self.later = True
        self.__hidden.append(self.count)
        return len(self.__hidden)


@stateful
class HoldsObjects(Base):
    def __init__(self) -> None:
        super().__init__()
        self.kv = Cache(layers=[SimpleNamespace(keys=torch.zeros(2))])
        self.kv.owner = self.kv.layers[0].owner = self  # cycles
        self.slotted = Slotted()
        self.outside = [nn.BatchNorm1d(4)]  # a module that is no child

    def note(self, x: Tensor) -> Any:
        self.kv.n += 1
        self.kv.layers[0].keys += self.kv.n
        self.kv.layers.append(x.detach())
        norm = self.outside[0].train()
        return self.kv.layers[0].keys.sum() + self.slotted.step() + norm(x.flatten(0, 1)).reshape(x.shape)


@stateful
class ReplacesAnObject(Base):
    def __init__(self) -> None:
        super().__init__()
        self.kv = Cache(n=3)

    def note(self, x: Tensor) -> Any:
        self.kv.__dict__ = {"n": self.kv.n + 1, "layers": [], "owner": None}
        self.kv = Cache(n=self.kv.n)
        return float(self.kv.n)


@stateful
class DrawsFromItsOwnGenerators(Base):
    def __init__(self) -> None:
        super().__init__()
        self.torch = torch.Generator().manual_seed(0)
        self.numpy = np.random.default_rng(0)
        self.legacy = np.random.RandomState(0)
        self.python = random.Random(0)
        self.table = np.zeros(3)

    def note(self, x: Tensor) -> Any:
        self.table += 1
        drawn = self.numpy.random() + self.legacy.rand() + self.python.random() + self.table.sum()
        return torch.rand(4, generator=self.torch) + float(drawn)


@stateful
class HooksItself(Base):
    def note(self, x: Tensor) -> Any:
        if not self.fc._forward_hooks:
            self.fc.register_forward_hook(lambda module, args, result: result * 2)
        return 1.0


@stateful
class ChangesItsFlags(Base):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def note(self, x: Tensor) -> Any:
        self.drop.train()
        self.drop.p = 0.9
        return self.drop(x)


@stateful
class TiesAParameter(Base):
    """Puts another parameter in the place of its own."""

    def note(self, x: Tensor) -> Any:
        self.fc.weight = nn.Parameter(self.fc.weight.detach() * 2)
        return 1.0


@stateful
class ChangesItsType(Base):
    """Gives parameters and buffers other memory."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(2))

    def note(self, x: Tensor) -> Any:
        self.double()
        self.seen.data = self.seen.half()
        found = self.seen.sum().float()
        self.fc.float()
        return found


@stateful
class IsLazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.LazyLinear(4), nn.LazyBatchNorm1d()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.fc(x).flatten(0, 1)).reshape(*x.shape[:-1], 4)


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.sizes = torch.jit.Attribute([1], list[int])
        self.register_buffer("total", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        self.sizes.append(self.n)
        self.total += 1
        return x * self.n * len(self.sizes) * self.total


@stateful
class HoldsCompiledCode(Base):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = torch.jit.script(_Counting())

    def note(self, x: Tensor) -> Any:
        return self.scripted(x)
