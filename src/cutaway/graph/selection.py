"""Selections of ops that can be filtered, extended and combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeGuard, overload

from cutaway.core import late
from cutaway.core.arrays import short_repr
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import clipped, hint, human_bytes, human_number, human_seconds, plural, type_text
from cutaway.core.positions import position
from cutaway.core.sites import Site
from cutaway.graph.analysis.cost_summary import Grouping, Measure, Total, Totals, total, totals
from cutaway.graph.analysis.export import table
from cutaway.graph.analysis.passes import Passes
from cutaway.graph.analysis.reachability import downstream, upstream
from cutaway.graph.labels import kind_of
from cutaway.graph.lookup import find, match_units
from cutaway.graph.op import Op
from cutaway.graph.tables import IDENTITY, KINDS, OP, maker

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

What = str | Site | Op | Iterable[Any]
"""Names of ops: a site, a pattern, a label, an op, a selection, or several of these."""
Drawing = str | bytes
"""The content of a picture file: text for SVG, DOT and JSON, bytes for PDF and PNG."""
_MOST_LINES = 10


# No slots: `cached_property` needs a `__dict__`.
@dataclass(frozen=True, eq=False, repr=False)
class Selection(Sequence[Op]):
    """Some ops of one trace, each once, in order of execution. `Op` objects are created on access.

    Selections of one trace combine: `a & b`, `a | b`, `a - b`, and `~a` for all ops of the trace that are not in `a`.
    Inputs, parameters and other sources are included only if you ask for them (`ancestors` finds them, too); `~a`
    never includes any.
    """

    trace: Trace
    nodes: Sequence[int]
    """Its rows in the trace."""

    # filters

    def where(
        self,
        what: What | Callable[[Op], object] | None = None,
        *,
        function: str | None = None,
        module_class: str | None = None,
        kind: str | None = None,
    ) -> Selection:
        """The ops of this selection that meet all given conditions.

        Args:
            what: a site, pattern or label, ops, or a predicate that is called with each op.
            function: name of the function, or a pattern such as "*pool*"; "relu" also matches `relu_`.
            module_class: class of a module in which the op ran, at any depth; or a pattern such as "*Attention".
            kind: "op", "input", "parameter", "buffer" or "constant".
        """
        _check_conditions(self.trace, function, module_class, kind)
        columns = self.trace.tables.nodes
        nodes: Iterable[int] = self.nodes
        if kind is not None:
            nodes = [node for node in nodes if columns.kind[node] == kind]
        if function is not None:
            # A trace of thousands of ops has few different functions.
            fits = {name: _fits(name, function) for name in set(columns.name)}
            nodes = [node for node in nodes if fits[columns.name[node]]]
        if module_class is not None:
            inside = _inside(self.trace, module_class)
            nodes = [node for node in nodes if inside[columns.call[node]]]
        # Last, because a predicate needs an `Op` object for each row; the conditions above read columns.
        if is_predicate(what):
            nodes = [node for node in nodes if what(Op(self.trace, node))]
        elif what is not None:
            named = rows_of(self.trace, what)
            nodes = [node for node in nodes if node in named]
        return Selection(self.trace, list(nodes))

    # neighbors

    @property
    def parents(self) -> Selection:
        """The direct inputs of its ops."""
        parents = self.trace.tables.nodes.parents
        return self._with(parent for node in self.nodes for parent in parents[node])

    @property
    def children(self) -> Selection:
        """The direct users of its ops.

        An op that returned its input unchanged (dropout in eval mode) made no tensor: its children are those of the op
        that made the tensor.
        """
        makers, aside = self._makers()
        below = (child for node in makers for child in self.trace.children_of(node))
        again = {child for node in self.nodes for child in self.trace.children_of(node)}
        return self._with(node for node in below if node not in aside or node in again)

    @property
    def ancestors(self) -> Selection:
        """Everything that its ops depend on, directly or indirectly, including sources."""
        mark = upstream(self.trace.tables.nodes.parents, self.nodes)
        return Selection(self.trace, [node for node, is_in in enumerate(mark) if is_in])

    @property
    def descendants(self) -> Selection:
        """Everything that depends on its ops, directly or indirectly."""
        makers, aside = self._makers()
        ops, parents = self.trace.op_nodes, self.trace.tables.nodes.parents
        mark = downstream(ops, parents, makers)
        # Each identity op is a child of its maker, and so marked; it counts only if a selected op leads to it.
        for node in aside:
            mark[node] = any(mark[parent] or parent in self._set for parent in parents[node])
        return Selection(self.trace, [node for node in ops if mark[node]])

    def near(self, distance: int = 1) -> Selection:
        """Its ops and everything within `distance` steps, up or down; paths never lead through a source.

        Args:
            distance: how many steps.
        """
        if not isinstance(distance, int) or isinstance(distance, bool):
            raise InputTypeError(f"distance must be an integer number of steps, got {short_repr(distance)}.")
        if distance < 0:
            raise InputError(f"distance must be an integer number of steps, at least 0, got {distance}.")
        columns, makers = self.trace.tables.nodes, self._makers()[0]
        reached = {*self._set, *makers}
        edge = reached
        for _ in range(distance):
            around = {parent for node in edge for parent in columns.parents[node]}
            around.update(child for node in edge for child in self.trace.children_of(node))
            # A shared parameter or input would connect everything that reads it.
            reached, edge = reached | around, {node for node in around - reached if columns.kind[node] == OP}
        return self._with(reached if distance else self.nodes)

    def _makers(self) -> tuple[set[int], set[int]]:
        """Its rows with identity ops replaced by the makers of their tensors, and the replaced identity ops."""
        flags = self.trace.tables.nodes.flags
        replaced = {node for node in self.nodes if flags[node] & IDENTITY and self.trace.tables.nodes.parents[node]}
        return {maker(self.trace.tables.nodes, node) for node in self.nodes}, replaced

    # combining

    def __and__(self, other: object) -> Selection:
        return self._with(self._set & self._others(other, "&"))

    def __or__(self, other: object) -> Selection:
        return self._with(self._set | self._others(other, "|"))

    def __sub__(self, other: object) -> Selection:
        return self._with(self._set - self._others(other, "-"))

    def __invert__(self) -> Selection:
        return Selection(self.trace, [node for node in self.trace.op_nodes if node not in self._set])

    def _others(self, other: object, sign: str) -> frozenset[int]:
        if not isinstance(other, Selection):
            raise InputTypeError(
                f"selection {sign} {_short(other)}: only selections combine; make one with trace.select(…)."
            )
        if other.trace is not self.trace:
            raise InputError(f"selection {sign} selection: they belong to different traces. {_SAME_SITES}")
        return other._set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.trace is other.trace and self._set == other._set

    def __hash__(self) -> int:
        return hash((id(self.trace), self._set))

    # contents

    @overload
    def __getitem__(self, index: int) -> Op: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...
    def __getitem__(self, index: int | slice) -> Op | Selection:
        if isinstance(index, slice):
            return Selection(self.trace, self.nodes[index])
        instead = f" For a site or label, use selection.where({index!r})." if isinstance(index, str) else ""
        return Op(self.trace, self.nodes[position(index, len(self), "this selection", hint=instead)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        # Without this method, NumPy would read every op and try to stack values of different shapes.
        raise InputTypeError(
            "a selection is not one array, because its ops differ in shape: use np.asarray(selection[0]) for one op, "
            "[np.asarray(op) for op in selection] for all, or selection.table() for a table."
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, op: object) -> bool:
        return isinstance(op, Op) and op.trace is self.trace and op.node in self._set

    @property
    def sites(self) -> tuple[str, ...]:
        """The shortest unique site of each op."""
        return tuple(op.site for op in self)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each op."""
        return tuple(op.label for op in self)

    @cached_property
    def total(self) -> Total:
        """Count, seconds, FLOPs and bytes of its ops; a call with several results counts once."""
        return total(self.trace, self.nodes)

    def totals(
        self, by: Grouping | Callable[[Op], Any] = "function", *, of: Measure = "seconds", inclusive: bool = False
    ) -> Totals:
        """Time, FLOPs and bytes by group.

        Args:
            by: "function", "module" (the one in which an op ran directly), "module_class", or a function of an op.
            of: the measure to sort by and to compute shares of.
            inclusive: also count an op for every module around its own; shares then add up to more than one.
        """
        return totals(self.trace, self.nodes, by, of=of, inclusive=inclusive)

    def table(self) -> Any:
        """One row per op, like `trace.table()`."""
        return table(self)

    def draw(
        self,
        path: str | PathLike[str] | None = None,
        *,
        depth: int | None = None,
        rolled: bool = False,
        direction: Literal["down", "right"] = "down",
        color_by: str | Mapping[str, float] | Callable[[Op], Any] | None = None,
    ) -> Drawing:
        """Draw the trace like `trace.draw`, with everything that is not in the selection faded.

        Args:
            path: the file to write (.svg, .pdf, .png, .dot, .json); None writes none and returns SVG text.
            depth: how many levels of modules to open; None draws every op.
            rolled: whether to draw repetitions once.
            direction: the direction of the data flow, "down" or "right".
            color_by: the name of a measure, numbers by site, or a function of an op.
        """
        picture: Drawing = late.call(
            "Selection.draw",
            self.trace,
            self._set,
            path,
            depth=depth,
            rolled=rolled,
            direction=direction,
            color_by=color_by,
        )
        return picture

    def __repr__(self) -> str:
        size = self.total
        spent = [human_seconds(size.seconds), *([f"{human_number(size.flops)} FLOPs"] if size.flops else [])]
        n = f"{plural(len(self), 'op')} of {self.trace.model_name}"
        if not self:
            return f"<Selection of {n}>"
        lines = [f"<Selection of {n}: {', '.join([*spent, human_bytes(size.bytes)])}>"]
        shown = self.nodes if len(self) <= _MOST_LINES else self.nodes[: _MOST_LINES - 1]
        lines += [clipped(f"  {_line(Op(self.trace, node))}") for node in shown]
        return "\n".join(lines + ([f"  and {len(self) - len(shown)} more"] if len(shown) < len(self) else []))

    @cached_property
    def _set(self) -> frozenset[int]:
        return frozenset(self.nodes)

    def _with(self, nodes: Iterable[int]) -> Selection:
        return Selection(self.trace, sorted(set(nodes)))


_SAME_SITES = "trace.select(selection.sites) finds the same sites in another trace."


def select(
    trace: Trace,
    what: What | Callable[[Op], object] | None,
    *,
    function: str | None,
    module_class: str | None,
    kind: str | None,
) -> Selection:
    """The ops of a trace that meet the conditions; sources only if they are named, or asked for by kind."""
    if what is not None and not is_predicate(what):
        rows = sorted(rows_of(trace, what))
        return Selection(trace, rows).where(function=function, module_class=module_class, kind=kind)
    candidates = trace.ops
    if kind not in (None, OP):
        kinds = trace.tables.nodes.kind
        candidates = Selection(trace, [node for node, each in enumerate(kinds) if each == kind])
    return candidates.where(what, function=function, module_class=module_class, kind=kind)


def _check_conditions(trace: Trace, function: object, module_class: object, kind: object) -> None:
    """Refuses conditions that no op can meet because they are misspelled; a name that is not there is no mistake."""
    for keyword, pattern in (("function", function), ("module_class", module_class)):
        if pattern is not None and not isinstance(pattern, str):
            name = getattr(pattern, "__name__", "")
            instead = f" Pass its name: {keyword}={name!r}." if name else ""
            raise InputTypeError(f"{keyword} must be a name or a pattern, got {_short(pattern)}.{instead}")
    if kind is None or kind in KINDS:
        return
    # Other tools call functions and module classes kinds.
    if kind in trace.tables.nodes.name:
        instead = f" For the function, use function={kind!r}."
    elif any(str(kind) in module.class_name for module in trace.tables.modules):
        instead = f" For a class of modules, use module_class='*{kind}*'."
    else:
        instead = hint(kind, KINDS)
    raise InputError(f"kind must be {', '.join(map(repr, KINDS[:-1]))} or {KINDS[-1]!r}, got {_short(kind)}.{instead}")


def _short(value: object) -> str:
    """A value in a message: a repr of several lines would bury the sentence."""
    return short_repr(value) if isinstance(value, (str, int, float)) else f"{type_text(value)}"


def rows_of(trace: Trace, what: object) -> set[int]:
    """The rows that a site, a pattern, a label, an op, a selection or several of these refer to."""
    if isinstance(what, (str, Site)):
        text = str(what)
        return {op.node for op in match_units(trace, text) or [find(trace, text)]}
    if isinstance(what, (Op, Selection)):
        if what.trace is not trace:
            raise InputError(f"{short_repr(what)} belongs to another trace. {_SAME_SITES}")
        return set(what.nodes) if isinstance(what, (Selection, Passes)) else {what.node}
    if isinstance(what, Iterable):
        return {row for each in what for row in rows_of(trace, each)}
    instead = f" For a position, use trace[{what}]." if isinstance(what, int) else ""
    raise InputTypeError(
        f"{_short(what)} selects no ops: give a site, a pattern, a label, an op, a selection, or a list of these."
        f"{instead}"
    )


def is_predicate(what: object) -> TypeGuard[Callable[[Op], object]]:
    return callable(what) and not isinstance(what, (Op, Selection))


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(kind_of(name), pattern)


def _inside(trace: Trace, pattern: str) -> list[bool]:
    """Whether each module call is of a matching class, or inside such a call."""
    calls, modules = trace.tables.calls, trace.tables.modules
    fits = [fnmatchcase(module.class_name, pattern) for module in modules]
    is_inside = [False] * len(calls)
    for call in range(1, len(calls)):  # a call comes after its parent
        row = calls[call]
        is_inside[call] = is_inside[row.parent] or (row.module >= 0 and fits[row.module])
    return is_inside


def _line(op: Op) -> str:
    shape = "" if op.shape is None else "×".join(map(str, op.shape)) or "scalar"
    return f"{op.label:<24} {op.site:<40} {shape}".rstrip()
