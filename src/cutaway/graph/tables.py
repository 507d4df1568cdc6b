"""The columns behind a trace.

A trace of 20,000 ops has these lists instead of 20,000 objects, and creates an `Op` for a row on access. Parents always
come before their children.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from cutaway.core.current_step import StepOrigin, current_step
from cutaway.core.events import GroupEvent, Ref, TensorMeta

if TYPE_CHECKING:
    from cutaway.graph.stored_facts import StoredFacts

OP: Final = "op"
INPUT: Final = "input"
PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
CONSTANT: Final = "constant"
KINDS: Final = (OP, INPUT, PARAMETER, BUFFER, CONSTANT)

INPLACE: Final = 1
IDENTITY: Final = 2
OPAQUE: Final = 4
ALIAS: Final = 8
NEEDS_GRAD: Final = 16
"""`requires_grad` of the original, recorded because a saved copy does not have it."""
LEFT_TORCH: Final = 32
"""Its result is not a tensor but a Python number or an array, as of `item()`."""


@dataclass(frozen=True, slots=True, eq=False)
class Unsaved:
    """Placeholder for a missing value: it was not saved, or could not be written when the trace was stored."""

    reason: str = ""
    """Why it could not be written."""


UNSAVED: Final = Unsaved()
"""The value was not saved. Traces loaded from disk can have further instances, with a reason."""


@dataclass(slots=True)
class Nodes:
    """One row for each tensor: results of operations, and sources (inputs, parameters…)."""

    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    event: list[tuple[Any, ...] | None] = field(default_factory=list)
    """The `OpEvent` as a bare tuple; results of one call share it. None for sources."""
    parents: list[tuple[int, ...]] = field(default_factory=list)
    """One entry for each tensor argument, in the order of the tree walk."""
    call: list[int] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    """Path among the results of the call, "" for a single one; for sources their address or path."""
    value: list[Any] = field(default_factory=list)
    version: list[int | None] = field(default_factory=list)
    """The version counter for which a value kept by reference is valid; None for a copy."""
    meta: list[TensorMeta | None] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    writes: dict[int, list[str]] = field(default_factory=dict)
    """Node → addresses of the buffers or parameters it overwrote."""
    grads: dict[int, dict[int, Any]] = field(default_factory=dict)
    """Node → backward pass → gradient."""

    def __len__(self) -> int:
        return len(self.kind)

    def add(
        self, kind: str, name: str, event: tuple[Any, ...] | None, parents: tuple[int, ...], call: int, path: str
    ) -> int:
        """Append a row without a value and return its index."""
        self.kind.append(kind)
        self.name.append(name)
        self.event.append(event)
        self.parents.append(parents)
        self.call.append(call)
        self.path.append(path)
        self.value.append(UNSAVED)
        self.version.append(None)
        self.meta.append(None)
        self.flags.append(0)
        return len(self.kind) - 1

    def add_op(self, name: str, event: tuple[Any, ...], parents: tuple[int, ...], value: Any, version: Any) -> int:
        """Append the single result of an operation, with its value. This is the hot path, so it is not factored out."""
        self.kind.append(OP)
        self.name.append(name)
        self.event.append(event)
        self.parents.append(parents)
        self.call.append(event[4])
        self.path.append("")
        self.value.append(value)
        self.version.append(version)
        self.meta.append(None)
        self.flags.append(0)
        return len(self.kind) - 1

    def meta_of(self, node: int) -> TensorMeta | None:
        """Shape, dtype and device; read from the value on first access."""
        # Lazy, because reading shape and dtype costs 0.2 µs per op while the model runs.
        meta = self.meta[node]
        if meta is None:
            value = self.value[node]
            if hasattr(value, "dtype") and hasattr(value, "device"):
                meta = self.meta[node] = describe(value)
        return meta


def maker(nodes: Nodes, row: int) -> int:
    """The row that made the tensor of a row: another one if its op returned its input unchanged.

    `torch.autograd.grad` may return one of its arguments, but as a gradient.
    """
    while nodes.flags[row] & IDENTITY and nodes.parents[row] and nodes.name[row] != "grad":
        parents, value = nodes.parents[row], nodes.value[row]
        same = [parent for parent in parents if nodes.value[parent] is value]
        # Without saved values, the first argument is the best guess: `dropout(x)`, `x.to(y)`.
        row = same[0] if len(same) == 1 else parents[0]
    return row


def describe(tensor: Any) -> TensorMeta:
    """The metadata of anything with a shape, a dtype and a device; equal metadata share one object."""
    try:
        shape = tensor.shape
        if not _INTEGERS.issuperset(map(type, shape)):
            shape = tuple(map(int, shape))
    except (RuntimeError, TypeError, ValueError, AttributeError):  # nested tensors have no dense shape
        shape = None
    return _meta(shape, tensor.dtype, getattr(tensor, "device", "cpu"))


_INTEGERS = frozenset({int})


@lru_cache(maxsize=4096)
def _meta(shape: tuple[int, ...] | None, dtype: Any, device: Any) -> TensorMeta:
    return TensorMeta(None if shape is None else tuple(shape), str(dtype).removeprefix("torch."), str(device))


@dataclass(slots=True)
class CallRow:
    """One call of a module's forward."""

    module: int
    """Row in the table of modules; -1 for code outside all modules."""
    parent: int
    pass_: int
    training: bool
    seconds: float
    code: CodeType | None
    instruction: int
    inputs: list[tuple[str, int]] = field(default_factory=list)
    """(path, node) of every input tensor."""
    outputs: list[tuple[str, int]] = field(default_factory=list)
    is_finished: bool = False
    is_root: bool = False
    first_node: int = 0


@dataclass(slots=True)
class ModuleRow:
    """One module of the model, called or not."""

    addresses: tuple[str, ...]
    class_name: str
    parameters: tuple[int, ...]
    """Rows of its direct parameters in the table of parameters."""
    children: tuple[int, ...] = ()
    calls: list[int] = field(default_factory=list)
    has_forward: bool = True
    """False for containers such as a `ModuleList`, and where a class with its own `__call__` bypassed all hooks: then
    nobody knows whether it ran."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter or buffer of the model, used or not."""

    addresses: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    numel: int
    is_buffer: bool
    requires_grad: bool
    node: int
    """Its node in the graph; -1 if nothing read it."""


@dataclass(frozen=True, slots=True)
class FailedOp:
    """The operation that ended a trace; it has no row, because it has no result."""

    function: str
    """Its name, as an op would have it: `linear`, `matmul`."""
    parents: tuple[int, ...]
    """The nodes of its tensor arguments, each once; tensors that were not used before have none."""
    call: int
    """Index of the module call it ran in; 0 outside all modules."""
    source: str
    """The user's line that called it: `model.py:12 in Net.forward`; "" if there is none."""
    text: str
    """The text of that line, if its file is available."""


@dataclass(slots=True)
class Tables:
    """Everything that capture recorded."""

    nodes: Nodes
    calls: list[CallRow]
    modules: list[ModuleRow]
    parameters: list[ParameterRow]
    groups: dict[int, GroupEvent]
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    """User-given names → nodes (`$memory`)."""
    is_tensor: Callable[[Any], bool] = lambda value: isinstance(value, Ref)
    """Whether an argument of an event stands for a tensor."""
    n_backwards: int = 0
    model_name: str = ""
    compiled: bool = False
    seconds: float = 0.0
    saved_all: bool = True
    error: BaseException | None = None
    failed: str | None = None
    """A description of the operation that raised the error."""
    failed_op: FailedOp | None = None
    """The same as data; also None in a trace saved by an older Cutaway."""
    recipe: Any = None
    """How to run the model again; None if capture does not know."""
    unexplained: tuple[int, ...] = ()
    """Constants that were created during the run, by code that capture cannot see."""
    notes: tuple[str, ...] = ()
    """What the trace does not have, in sentences."""
    is_transformed: bool = False
    """Whether transformed values were saved instead of the values themselves."""
    is_replay: bool = False
    """Whether these are the computed values of a replay."""
    recomputed: tuple[int, ...] = ()
    """In a replay, the nodes whose values differ from the original."""
    patched: dict[tuple[int, int], Any] = field(default_factory=dict)
    """In a replay, (op, parent) → the value that this op alone read instead of its parent's."""
    read_from: str = ""
    """Where the trace was loaded from; "" if it was made in this process."""
    stored: StoredFacts | None = None
    """Analysis results from when it was saved; None if it was made in this process."""
    origin: StepOrigin | None = field(default_factory=current_step)
    """The run and step in which it was made; None if that was not inside `with run.step():`."""
