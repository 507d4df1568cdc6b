"""A trace as boxes, frames and edges: what is to be drawn, before anything has a place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from cutaway.core.errors import InputError
from cutaway.graph.modules import ModuleCall
from cutaway.graph.naming import kind_of
from cutaway.graph.nodes import BUFFER, CONSTANT, IDENTITY, INPUT, OP, PARAMETER
from cutaway.graph.op import Op
from cutaway.graph.summary import human_bytes
from cutaway.graph.trace import Trace
from cutaway.views.deciding import IF, decides, leads_off
from cutaway.views.rolling import Rolling, passes_label

Kind = Literal["input", "buffer", "constant", "plain", "parametric", "made", "standin"]
Form = Literal["function", "leaf", "folded", "small"]
Mark = Literal["new", "gone", "changed", "apart", "apart1", "apart2", "apart3", "apart4"]
Key = tuple[str, int]
"""What a box stands for: ("op", node), ("call", number of a folded call), ("standin", serial number)."""

_MANY = 8
"""A tensor with more users than this is drawn again, small, beside each of them."""
_LABELLED = 12
"""Where more tensors than this arrive, as in a stack over time, labels would only hide each other."""
_COMMUTATIVE = frozenset(
    [
        *("add", "iadd", "radd", "mul", "imul", "rmul", "multiply", "eq", "ne", "and", "or", "xor"),
        *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("maximum", "minimum", "hypot", "logaddexp"),
    ]
)


@dataclass(frozen=True, slots=True)
class Box:
    """One op, one source or one folded module call; the first of its lines is its name."""

    lines: tuple[str, ...]
    kind: Kind
    form: Form
    frame: int
    is_output: bool = False
    is_light: bool = False
    """Whether nothing follows from it: it gave back the tensor it got, or took a number out of torch."""
    is_condition: bool = False
    """Whether it decided an `if`, a `while` or another test."""
    marks: tuple[Mark, ...] = ()
    """What differs there, in a picture of two traces."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A module call around several boxes; frame 0 is the whole picture."""

    title: str
    parent: int
    call: int = 0
    """Number of the module call."""


@dataclass(frozen=True, slots=True)
class Edge:
    """From a box to another one; the label tells the argument and, where it repeats, how often."""

    parent: int
    child: int
    label: str

    @property
    def is_feedback(self) -> bool:
        """Whether it goes back to an earlier box, or from a box to itself; only in rolled-up pictures."""
        return self.parent >= self.child


@dataclass(frozen=True, slots=True)
class View:
    """All that is in the picture; boxes stand parents first, those of one frame next to each other."""

    title: str
    subtitle: str
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    edges: tuple[Edge, ...]
    faint: frozenset[int] = frozenset()
    """Boxes that are only there for orientation."""
    keys: tuple[Key, ...] = ()
    """What each box stands for."""


def picture(
    trace: Trace, *, depth: int | None = None, rolled: bool = False, bright: Collection[int] | None = None
) -> View:
    """What to draw of a trace, with the module calls `depth` steps below the root folded into one box each.

    Args:
        depth: None draws every op, 1 the children of the root and its own ops, 0 the model as one box.
        rolled: whether the passes of an op are drawn as one box.
        bright: rows that are drawn as usual, all others faint; None for no difference.
    """
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool) or depth < 0):
        raise InputError(f"depth is a whole number from 0, or None for every op; it was {depth!r}.")
    folding = _Folding(trace, depth)
    draft = _Draft(trace, folding, Rolling(trace, rolled))
    draft.find_wires()
    draft.part_from_crowds()
    draft.put_in_order()
    draft.count_bright(bright)
    count = trace.n_parameters
    n_rolled = f" rolled up to {len(trace.rolled):,}" if rolled else ""
    subtitle = (
        f"{len(trace):,} ops{n_rolled} · {human_bytes(trace.bytes)} of values · "
        f"{count.trainable:,} trainable and {count.frozen:,} frozen parameters"
    )
    if bright is not None:
        subtitle = f"{sum(node in bright for node in trace.op_nodes):,} selected of {subtitle}"
    keys = tuple(key for key, _ in draft.order)
    return View(trace.model_name or "code around no model", subtitle, *draft.parts(), draft.faint(), keys)


class _Folding:
    """Which module calls are frames, and which are folded into a box."""

    def __init__(self, trace: Trace, depth: int | None) -> None:
        self.rows, self.of_node = trace.tables.calls, trace.tables.nodes.call
        n = len(self.rows)
        self.n_ops, first, last = [0] * n, [len(trace)] * n, [-1] * n
        for position, node in enumerate(trace.op_nodes):
            call = self.of_node[node]
            while call:
                self.n_ops[call] += 1
                first[call], last[call] = min(first[call], position), position
                call = self.rows[call].parent
        self.depth, self.frame, self.folded = [-1] * n, [0] * n, [0] * n
        for call in range(1, n):
            above = self.rows[call].parent
            self.depth[call] = self.depth[above] + 1
            # Calls in parallel threads mix their ops: two such boxes could each need what the other makes.
            is_whole = last[call] - first[call] + 1 == self.n_ops[call] > 1
            is_deep = depth is not None and self.depth[call] >= depth
            self.folded[call] = self.folded[above] or (call if is_deep and is_whole else 0)
            # The header names the model already: no frame around the whole picture.
            is_framed = is_whole and not self.folded[call] and self.n_ops[call] < len(trace)
            self.frame[call] = call if is_framed else self.frame[above]

    def outside(self, frame: int) -> int:
        """The frame around a frame."""
        return self.frame[self.rows[frame].parent]

    def common(self, frames: Iterable[int]) -> int:
        """The innermost frame around all of these."""
        found = -1
        for frame in frames:
            if found < 0:
                found = frame
            while frame != found:
                if self.depth[frame] >= self.depth[found]:
                    frame = self.outside(frame)
                else:
                    found = self.outside(found)
        return max(found, 0)


class _Draft:
    """What goes into the picture, by key, until the order of the boxes is known."""

    def __init__(self, trace: Trace, folding: _Folding, rolling: Rolling) -> None:
        self.trace, self.folding, self.nodes, self.rolling = trace, folding, trace.tables.nodes, rolling
        self.drawn = set(trace.op_nodes)
        self.wires: dict[tuple[Key, Key], list[int]] = {}
        """(from, to) → the tensors that go that way, once for each argument; rolled up, those of the first time."""
        self.ways: dict[tuple[Key, Key], list[tuple[int, int]]] = {}
        """(from, to) → each tensor that goes that way in any pass, and the op that takes it."""
        self.standins: dict[Key, tuple[list[Key], Key]] = {}
        """Stand-in → what it stands for, and who uses it."""
        self.users: dict[Key, int] = {}
        self.outputs: dict[Key, list[str]] = {}
        self.begun: set[int] = set()
        """The frames in which there is something."""
        self.order: list[tuple[Key, int]] = []
        self.bright: dict[Key, int] | None = None
        """Box → how many of its tensors are selected."""

    def key(self, node: int) -> Key:
        node = self.rolling.first(node)
        call = self.folded(node)
        return ("call", call) if call else ("op", node)

    def folded(self, node: int) -> int:
        """The folded call in which a node was made; 0 for none."""
        return self.folding.folded[self.nodes.call[node]] if self.nodes.kind[node] == OP else 0

    def find_wires(self) -> None:
        for node in self.trace.op_nodes:
            child, call = self.key(node), self.folded(node)
            if self.rolling.is_on:
                self.note_calls(node, call)
            for parent in self.nodes.parents[node]:
                kind = self.nodes.kind[parent]
                if kind == PARAMETER or (kind == OP and parent not in self.drawn):
                    continue
                upper = self.key(parent)
                if upper != child or (self.rolling.is_on and not (call and call == self.folded(parent))):
                    ways = self.ways.setdefault((upper, child), [])
                    ways.append((parent, node))
                    if not self.rolling.is_on or ways[0][1] == node:
                        self.wires.setdefault((upper, child), []).append(parent)
        self.hide_inner_sources()
        for path, node in self.trace.tables.outputs:
            _, n_passes = turn = self.turn(node)
            named = f"{path}, pass {turn[0]}" if path else f"of pass {turn[0]}"
            self.outputs.setdefault(self.key(node), []).append(named if n_passes > 1 else path)

    def note_calls(self, node: int, call: int) -> None:
        """Note which calls the folded call or the frames of the first pass stand for."""
        first = self.rolling.first(node)
        here, there = (self.folding.frame[self.nodes.call[n]] for n in (first, node))
        while here and there and self.folding.rows[here].module == self.folding.rows[there].module:
            self.rolling.note_call(here, there)
            here, there = self.folding.outside(here), self.folding.outside(there)
        if self.folded(first):
            self.rolling.note_call(self.folded(first), call)

    def turn(self, node: int) -> tuple[int, int]:
        """In which pass of its box a node was made, and of how many."""
        key = self.key(node)
        return self.rolling.turn(node, key[1] if key[0] == "call" else 0, self.folded(node))

    def hide_inner_sources(self) -> None:
        """A buffer or constant that only one folded module reads is its own affair."""
        readers: dict[Key, list[Key]] = {}
        for upper, child in self.wires:
            if upper[0] == "op" and self.nodes.kind[upper[1]] in (BUFFER, CONSTANT):
                readers.setdefault(upper, []).append(child)
        for upper, children in readers.items():
            if len(children) == 1 and children[0][0] == "call":
                del self.wires[(upper, children[0])]

    def part_from_crowds(self) -> None:
        """Give every user of a tensor that very many use a stand-in of its own."""
        crowds: dict[Key, set[int]] = {}
        for upper, child in self.wires:
            # The results of one call, say a split, are one user.
            event = self.nodes.event[child[1]] if child[0] == "op" else None
            crowds.setdefault(upper, set()).add(id(event) if event is not None else -child[1])
        self.users = {upper: len(crowd) for upper, crowd in crowds.items() if len(crowd) > _MANY}
        parted: dict[Key, list[Key]] = {}
        for upper, child in self.wires:
            if upper in self.users:
                parted.setdefault(child, []).append(upper)
        for child, uppers in parted.items():
            for group in [uppers] if len(uppers) > _MANY else [[upper] for upper in uppers]:
                standin = ("standin", len(self.standins))
                self.standins[standin] = (group, child)
                self.wires[(standin, child)] = [node for upper in group for node in self.wires.pop((upper, child))]
                self.ways[(standin, child)] = [way for upper in group for way in self.ways.pop((upper, child))]

    def home(self, key: Key) -> int:
        """The frame in which an op or a folded call is drawn."""
        return self.folding.frame[key[1] if key[0] == "call" else self.nodes.call[key[1]]]

    def put_in_order(self) -> None:
        """Ops as they ran; sources at the head of the frame that holds all their users; stand-ins before their user."""
        nodes, folding = self.nodes, self.folding
        users: dict[int, list[int]] = {node: [] for _, node in self.trace.tables.inputs}
        for (upper, child), _ in self.wires.items():
            if upper[0] == "op" and nodes.kind[upper[1]] != OP:
                users.setdefault(upper[1], []).append(self.home(child))
        for uppers, child in self.standins.values():
            for upper in uppers:
                if upper[0] == "op" and nodes.kind[upper[1]] != OP:
                    users.setdefault(upper[1], []).append(self.home(child))
        heads: dict[int, list[int]] = {}
        for node, frames in sorted(users.items()):
            heads.setdefault(0 if nodes.kind[node] == INPUT else folding.common(frames), []).append(node)
        before: dict[Key, list[Key]] = {}
        for standin, (_, child) in self.standins.items():
            before.setdefault(child, []).append(standin)
        begun = self.begun
        placed: set[Key] = set()
        for node in [-1, *self.trace.op_nodes]:  # the head of the whole picture also where nothing ran
            path = [self.home(self.key(node))] if node >= 0 else [0]
            while path[-1] not in begun and path[-1]:
                path.append(folding.outside(path[-1]))
            for frame in reversed(path):
                if frame not in begun:
                    begun.add(frame)
                    self.order.extend((("op", source), frame) for source in heads.get(frame, ()))
            if node >= 0 and (key := self.key(node)) not in placed:
                placed.add(key)
                self.order.extend((standin, path[0]) for standin in before.get(key, ()))
                self.order.append((key, path[0]))

    def count_bright(self, bright: Collection[int] | None) -> None:
        """Note what is selected; a stand-in is if both its user and what it stands for are."""
        if bright is None:
            return
        found = self.bright = dict[Key, int]()
        for node in bright:
            found[self.key(node)] = found.get(self.key(node), 0) + 1
        for standin, (uppers, child) in self.standins.items():
            if child in found and any(upper in found for upper in uppers):
                found[standin] = 1

    def faint(self) -> frozenset[int]:
        """The numbers of the boxes in which nothing is selected."""
        if self.bright is None:
            return frozenset()
        return frozenset(i for i, (key, _) in enumerate(self.order) if key not in self.bright)

    def parts(self) -> tuple[tuple[Box, ...], tuple[Frame, ...], tuple[Edge, ...]]:
        calls = sorted(self.begun - {0})
        number = {0: 0} | {call: i for i, call in enumerate(calls, 1)}
        frames = [Frame("", -1)]
        for call in calls:
            name = self.call_name(ModuleCall(self.trace, call))
            title = f"{name} ({ModuleCall(self.trace, call).class_name})"
            frames.append(Frame(title, number[self.folding.outside(call)], call))
        place = {key: i for i, (key, _) in enumerate(self.order)}
        boxes = tuple(self.box(key, number[frame]) for key, frame in self.order)
        n_arriving: dict[Key, int] = {}
        for (_, child), tensors in self.wires.items():
            n_arriving[child] = n_arriving.get(child, 0) + len(tensors)
        edges = tuple(
            Edge(place[upper], place[child], self.edge_label(upper, child, n_arriving[child]))
            for (upper, child), tensors in self.wires.items()
        )
        return boxes, tuple(frames), edges

    def edge_label(self, upper: Key, child: Key, n_arriving: int) -> str:
        passes = self.passes_label(upper, child) if self.rolling.is_on else ""
        begins = IF if child[0] == "op" and leads_off(self.trace, self.ways[upper, child]) else ""
        return " ".join(filter(None, (begins, self.argument_label(upper, child, n_arriving), passes)))

    def argument_label(self, upper: Key, child: Key, n_arriving: int) -> str:
        if child[0] == "call" or not 2 <= n_arriving <= _LABELLED:
            return ""
        tensors = self.wires[upper, child]
        op = Op(self.trace, self.ways[upper, child][0][1])
        if self.rolling.is_on and sum(edge.parent.kind != PARAMETER for edge in op.edges) < 2:
            return ""  # one argument, given by several boxes in turn
        repeats = f"×{len(tensors)}" if len(tensors) > len(set(tensors)) else ""
        if kind_of(op.function) in _COMMUTATIVE:
            return repeats
        arguments = [edge.argument for edge in op.edges if edge.parent.node in tensors]
        shown = ",".join(arguments) if len(arguments) < 4 else f"{arguments[0]}…{arguments[-1]}"
        return f"{_short(shown, 14)} {repeats}".strip()

    def passes_label(self, upper: Key, child: Key) -> str:
        out = [self.turn(parent) for parent, _ in self.ways[upper, child]]
        into = [self.turn(node) for _, node in self.ways[upper, child]]
        n_out = out[0][1] if upper[0] != "standin" else 0
        return passes_label({number for number, _ in out}, n_out, {number for number, _ in into}, into[0][1])

    def box(self, key: Key, frame: int) -> Box:
        if key[0] == "standin":
            uppers = self.standins[key][0]
            many = f"{len(uppers)} tensors, {self.name(uppers[0])} to {self.name(uppers[-1])}"
            return Box((_short(many if len(uppers) > 1 else self.name(uppers[0])),), "standin", "small", frame)
        notes = [f"feeds {self.users[key]} ops"] if key in self.users else []
        if (paths := self.outputs.get(key)) is not None:
            rest = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            notes.append(_short(f"output {paths[0]}".strip()) + rest)
        if key[0] == "call":
            return self.folded_box(ModuleCall(self.trace, key[1]), frame, notes, paths is not None)
        op = Op(self.trace, key[1])
        if op.kind != OP:
            form: Form = "function" if op.kind == INPUT else "small"
            return Box((_short(self.name(key)), _size([op]), *notes), _source_kind(op), form, frame, paths is not None)
        call = op.module
        is_leaf = call is not None and self.folding.n_ops[call.number] == 1
        parameters = [_parameter(parent, call) for parent in op.parents if parent.kind == PARAMETER]
        n_passes = len(self.rolling.passes(op.node))
        name = f"{op.label} (×{n_passes})" if n_passes > 1 else op.label
        lines = [name, self.size(op), *(" · ".join(parameters[i : i + 2]) for i in range(0, len(parameters), 2))]
        if is_leaf and call is not None:
            name = call.address if n_passes > 1 else _name(call)
            lines.append(_short(f"{name} ({call.class_name})"))
        is_identity = bool(self.nodes.flags[op.node] & IDENTITY)
        if is_identity:
            notes.append("gives back its input")
        decided = decides(self.trace, self.rolling.passes(op.node))
        notes = [*map(_short, decided), *notes]
        is_light = is_identity or (op.shape is None and not self.trace.children_of(op.node) and not decided)
        kind: Kind = "parametric" if parameters else "plain" if self.nodes.parents[op.node] else "made"
        form = "leaf" if is_leaf else "function"
        lines = [line for line in (*lines, *notes) if line]
        return Box(tuple(lines), kind, form, frame, paths is not None, is_light and paths is None, bool(decided))

    def folded_box(self, call: ModuleCall, frame: int, notes: list[str], is_output: bool) -> Box:
        count = call.total
        frozen = f", {count.frozen:,} frozen" if count.frozen else ""
        n_ops = f"{self.folding.n_ops[call.number]:,} ops"
        if self.bright is not None and ("call", call.number) in self.bright:
            n_ops += f", {self.bright['call', call.number]:,} selected"
        lines = [_short(self.call_name(call)), call.class_name, n_ops, _size(call.outputs.values())]
        if count.total:
            lines.append(f"{count.total:,} parameters{frozen}")
        lines = [line for line in (*lines, *notes) if line]
        return Box(tuple(lines), "parametric" if count.total else "plain", "folded", frame, is_output)

    def size(self, op: Op) -> str:
        """Shape and bytes of one pass."""
        passes = self.rolling.passes(op.node)
        shapes = {Op(self.trace, node).shape for node in passes}
        return _size([op]) if len(shapes) == 1 else f"{_shape(op)} to {_shape(Op(self.trace, passes[-1]))}"

    def call_name(self, call: ModuleCall) -> str:
        """Address and pass of a module call; rolled up, how often it ran where it stands for several."""
        if not self.rolling.is_on:
            return _name(call)
        n = self.rolling.n_calls(call.number)
        return f"{call.address} (×{n})" if n > 1 else call.address if call.pass_ == 1 else _name(call)

    def name(self, key: Key) -> str:
        if key[0] == "call":
            return self.call_name(ModuleCall(self.trace, key[1]))
        address = self.nodes.path[key[1]] if self.nodes.kind[key[1]] == BUFFER else ""
        return address or self.trace.names.label(key[1])


def _source_kind(op: Op) -> Kind:
    return "input" if op.kind == INPUT else "buffer" if op.kind == BUFFER else "constant"


def _name(call: ModuleCall) -> str:
    several = len(call.trace.tables.modules[call.trace.tables.calls[call.number].module].calls) > 1
    return f"{call.address}:{call.pass_}" if several else call.address


def _size(ops: Iterable[Op]) -> str:
    """Shapes and bytes of one or several values: `2×16 · 128 B`."""
    values = list(ops)
    shapes = [_shape(op) for op in values[:2]] + ([f"{len(values) - 2} more"] if len(values) > 2 else [])
    n_bytes = sum(op.bytes for op in values)
    return ", ".join(shapes) + (f" · {human_bytes(n_bytes)}" if n_bytes else "")


def _shape(op: Op) -> str:
    if op.shape is None:
        return op.dtype or ""
    return "×".join(map(str, op.shape)) or "scalar"


def _parameter(parameter: Op, call: ModuleCall | None) -> str:
    own = f"{call.address}." if call is not None else ""
    return _short(f"{parameter.label.removeprefix(own)} {_shape(parameter)}")


def _short(text: str, most: int = 44) -> str:
    """The two ends of a text that is too long; in an address both tell something."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - most + most // 2 + 1 :]}"
