"""What capture sees, as plain data, and the two seams through which it hands it on.

The watching code appends bare tuples in the order of the fields below, because making a named tuple
costs more than the whole rest of the bookkeeping; readers wrap them again with `OpEvent._make`.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple, Protocol

import numpy as np


class OpEvent(NamedTuple):
    """One call of a torch function that returned."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    result: Any
    call: int
    """Index of the module call it ran in; 0 is the world outside all modules."""
    group: int
    """Index of the composite it was opened from; 0 for none."""
    code: CodeType
    instruction: int
    """Offset into `code`: the source line is worked out when somebody asks."""
    started: int
    ended: int
    """Both in nanoseconds of `time.perf_counter_ns`."""
    version: Any
    """The version counter of each result tensor, where it has one."""
    context: Any
    """Whether gradients were on; a `Context` where autocast or a random generator also had a say."""


class Context(NamedTuple):
    """What besides its arguments a call depended on."""

    grad: bool
    autocast: tuple[tuple[str, Any], ...] = ()
    """(kind of device, dtype) for each that was on."""
    generators: tuple[tuple[Any, Any], ...] = ()
    """(random generator, its state before the call) for each that it may have drawn from."""


class GroupEvent(NamedTuple):
    """One Python composite (`F.softmax`, `multi_head_attention_forward`) that was opened."""

    function: str
    parent: int
    call: int
    code: CodeType
    instruction: int


class Ref(NamedTuple):
    """Stands for a tensor in arguments that were kept without their tensors."""

    node: int


class Sink(Protocol):
    """Takes what capture sees, in order of execution.

    `append` gets op events, and the enter and exit events of module calls. `before_write` is called
    before an operation overwrites the given tensors, so that values kept by reference can be copied;
    `at_once` says that the operation may give the tensors other memory or another shape.
    """

    def append(self, event: tuple[Any, ...], /) -> None: ...

    def before_write(self, tensors: list[Any], /, at_once: bool = False) -> None: ...


class Handle(Protocol):
    """Stands for a value that lies elsewhere; `load()` brings it back."""

    def load(self) -> Any: ...


class ValueSink(Protocol):
    """Takes values somewhere else (a disk) while the model runs and returns a handle for each."""

    def keep(self, index: int, tensor: Any, /) -> Handle: ...

    def close(self) -> None: ...


class TensorMeta(NamedTuple):
    """What is known of a tensor without its values."""

    shape: tuple[int, ...] | None
    dtype: str
    device: str

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes; 0 where there is no dense shape."""
        if self.shape is None:
            return 0
        n = 1
        for size in self.shape:
            n *= int(size)
        return n * itemsize(self.dtype)


_ITEMSIZES = {
    "bfloat16": 2,
    "half": 2,
    "float": 4,
    "double": 8,
    "complex32": 4,
    "quint8": 1,
    "qint8": 1,
    "qint32": 4,
}


def itemsize(dtype: str) -> int:
    """Bytes of one element of a torch dtype, by its name without `torch.`.

    >>> itemsize("bfloat16"), itemsize("float32"), itemsize("float8_e4m3fn")
    (2, 4, 1)
    """
    if dtype in _ITEMSIZES:
        return _ITEMSIZES[dtype]
    if dtype.startswith("float8"):
        return 1
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return 1
