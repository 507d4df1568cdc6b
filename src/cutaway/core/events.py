"""Plain records of what capture sees, and the protocols (`Sink`, `ValueSink`) that receive them.

The hot path appends bare tuples in the order of these fields, because creating a named tuple costs more than all
other bookkeeping; readers convert them with `OpEvent._make`.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple, Protocol

import numpy as np


class OpEvent(NamedTuple):
    """One completed call of a torch function."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    result: Any
    call: int
    """Index of the enclosing module call; 0 is outside all modules."""
    group: int
    """Index of the composite that called it; 0 for none."""
    code: CodeType
    instruction: int
    """Offset into `code`; the source line is computed on demand."""
    started: int
    ended: int
    """Both in nanoseconds of `time.perf_counter_ns`."""
    version: Any
    """The version counter of each result tensor that has one."""
    context: Any
    """Whether gradients were enabled; a `Context` if autocast or a random generator was also involved."""


class Context(NamedTuple):
    """What a call depended on besides its arguments."""

    grad: bool
    autocast: tuple[tuple[str, Any], ...] = ()
    """(device type, dtype) for each autocast that was enabled."""
    generators: tuple[tuple[Any, Any], ...] = ()
    """(random generator, its state before the call) for each generator that the call may use."""


class GroupEvent(NamedTuple):
    """One Python composite (`F.softmax`, `multi_head_attention_forward`) whose inner calls were captured."""

    function: str
    parent: int
    call: int
    code: CodeType
    instruction: int


class Ref(NamedTuple):
    """Placeholder for a tensor in arguments that were saved without their tensors."""

    node: int


class Sink(Protocol):
    """Receives what capture sees, in order of execution.

    `append` receives op events, and the enter and exit events of module calls. `before_write` is called before an
    operation overwrites the given tensors, so that values saved by reference can be copied; `at_once` says that the
    operation may also change their memory or shape.
    """

    def append(self, event: tuple[Any, ...], /) -> None: ...

    def before_write(self, tensors: list[Any], /, at_once: bool = False) -> None: ...


class Handle(Protocol):
    """A value that is stored elsewhere; `load()` reads it."""

    def load(self) -> Any: ...


class ValueSink(Protocol):
    """Stores values outside memory (on disk) while the model runs and returns a handle for each."""

    def keep(self, index: int, tensor: Any, /) -> Handle: ...

    def close(self) -> None: ...


class TensorMeta(NamedTuple):
    """Shape, dtype and device of a tensor."""

    shape: tuple[int, ...] | None
    dtype: str
    device: str

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes; 0 without a dense shape."""
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
    """Bytes per element of a torch dtype, by its name without `torch.`.

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
