"""A trace: everything that is known of one run of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

from cutaway.core import late
from cutaway.core.errors import InputError, OpenTraceError, PositionError, SiteSyntaxError
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.analysis.cost_summary import Measure
from cutaway.graph.analysis.distances import Distances, connected_ops, distances
from cutaway.graph.analysis.export import networkx_graph, table
from cutaway.graph.analysis.passes import Rolled
from cutaway.graph.analysis.paths import Paths, critical_path
from cutaway.graph.analysis.saved_for_backward import Retained
from cutaway.graph.analysis.summary import summary
from cutaway.graph.analysis.units import tied_layouts, unit_layouts
from cutaway.graph.control_flow.conditionals import Conditionals
from cutaway.graph.control_flow.source import Source, stack_of
from cutaway.graph.labels import Names
from cutaway.graph.lookup import find, match
from cutaway.graph.modules import Module, ModuleCall, ParameterCount
from cutaway.graph.op import Op
from cutaway.graph.selection import Selection, What, maker_of, rows_of, select
from cutaway.graph.tables import BUFFER, CONSTANT, PARAMETER, ModuleRow, ParameterRow, Tables, Unsaved
from cutaway.results.validation import Validation


class Trace:
    """One run of a model: every operation, its value, its parents, where it ran and what it cost.

    Made by `cutaway.trace` and `cutaway.watch`; inside its own `with` block it cannot be read yet.
    """

    def __init__(self) -> None:
        self._tables: Tables | None = None
        self._orphans = False
        self.returned: Any = None
        """What the model returned, as it returned it (`cutaway.trace` only)."""

    def fill(self, tables: Tables, *, orphans: bool) -> None:
        """Called by capture when the block has ended."""
        self._tables, self._orphans = tables, orphans

    @property
    def tables(self) -> Tables:
        """The columns behind the trace."""
        if self._tables is None:
            raise OpenTraceError("this trace is still being made: read it after its `with` block has ended.")
        return self._tables

    # what it holds

    @property
    def ops(self) -> Selection:
        """Every operation, in order of execution."""
        return Selection(self, self.op_nodes)

    @property
    def saved(self) -> Selection:
        """The operations whose value was kept."""
        return Selection(self, self._saved_nodes)

    @cached_property
    def rolled(self) -> Rolled:
        """The operations in order of first execution, those that ran several times as one `Passes` each."""
        return Rolled(self)

    @cached_property
    def conditionals(self) -> Conditionals:
        """Every test that a tensor decided (`if`, `while`, `assert`…), in order of execution."""
        return Conditionals(self)

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        """Every module by its address, called or not; a shared one under each of its addresses."""
        return {
            address: Module(self, row) for row, module in enumerate(self.tables.modules) for address in module.addresses
        }

    @property
    def calls(self) -> tuple[ModuleCall, ...]:
        """Every run of a module's forward, in order."""
        return tuple(ModuleCall(self, i) for i in range(1, len(self.tables.calls)))

    @cached_property
    def parameters(self) -> Mapping[str, Op]:
        """The parameters that were used, by address; a tied one under each of its addresses."""
        return self._sources(PARAMETER)

    @cached_property
    def buffers(self) -> Mapping[str, Op]:
        """The buffers that were read, as they were before the run, by address."""
        return self._sources(BUFFER)

    @property
    def constants(self) -> tuple[Op, ...]:
        """Tensors that came from outside and are no input, parameter or buffer."""
        kinds = self.tables.nodes.kind
        return tuple(Op(self, node) for node, kind in enumerate(kinds) if kind == CONSTANT)

    @property
    def inputs(self) -> tuple[Op, ...]:
        """The tensors handed to the model, in the order of the flattened arguments."""
        return tuple(Op(self, node) for _, node in self.tables.inputs)

    @property
    def input_paths(self) -> tuple[str, ...]:
        """Where in the arguments each input stood: "0", "mask", "batch.image"…"""
        return tuple(path for path, _ in self.tables.inputs)

    @property
    def outputs(self) -> tuple[Op, ...]:
        """The ops that made what the model returned, in the order of the flattened output."""
        return tuple(Op(self, node) for _, node in self.tables.outputs)

    @property
    def output_paths(self) -> tuple[str, ...]:
        """Where in the returned structure each output stood; "" for a bare tensor."""
        return tuple(path for path, _ in self.tables.outputs)

    @cached_property
    def unit_layouts(self) -> Sequence[UnitLayout | None]:
        """For each node, which of its dimensions count units, samples and positions; None where it is no tensor."""
        known = self.tables.known
        return unit_layouts(self.tables) if known is None or known.units is None else known.units

    @cached_property
    def tied_unit_layouts(self) -> Mapping[tuple[int, str], UnitLayout]:
        """For parameters with several addresses: (node, address) → the layout under that address."""
        return tied_layouts(self.tables)

    # how it went

    @property
    def model_name(self) -> str:
        """Class of the model."""
        return self.tables.model_name

    @property
    def is_complete(self) -> bool:
        """Whether the block ran to its end; False if it raised, and the trace holds what came before."""
        return self.tables.error is None

    @property
    def error(self) -> BaseException | None:
        """What ended the block early."""
        return self.tables.error

    @property
    def failed(self) -> str | None:
        """The operation that raised, in words: function, argument shapes, source line."""
        return self.tables.failed

    @property
    def is_compiled(self) -> bool:
        """Whether the model was compiled: then this is the trace of its eager source."""
        return self.tables.compiled

    @property
    def n_backwards(self) -> int:
        """How many backward passes ran inside the block."""
        return self.tables.n_backwards

    @property
    def seconds(self) -> float:
        """Time the block took, the cost of watching included."""
        return self.tables.seconds

    @cached_property
    def bytes(self) -> int:
        """Size of all values of all operations."""
        return sum(op.bytes for op in self.ops if not op.is_identity)

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of the whole run, by torch's own convention."""
        return sum(op.flops for op in self.ops)

    @cached_property
    def n_parameters(self) -> ParameterCount:
        """All parameters of the model, each counted once."""
        return self.count_parameters(tuple(i for i, row in enumerate(self.tables.parameters) if not row.is_buffer))

    @property
    def tied_parameters(self) -> tuple[tuple[str, ...], ...]:
        """Parameters with more than one address."""
        return tuple(r.addresses for r in self.tables.parameters if not r.is_buffer and len(r.addresses) > 1)

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Parameters that no operation read."""
        return tuple(r.addresses[0] for r in self.tables.parameters if not r.is_buffer and r.node < 0)

    @property
    def uncalled_modules(self) -> tuple[str, ...]:
        """Modules whose forward never ran; containers without one do not count."""
        return tuple(row.addresses[0] for row in self.tables.modules if not row.calls and row.has_forward)

    # asking

    @overload
    def __getitem__(self, key: int | str) -> Op: ...
    @overload
    def __getitem__(self, key: slice) -> Selection: ...
    def __getitem__(self, key: int | str | slice) -> Op | Selection:
        if isinstance(key, slice):
            return self._numbered[key]
        if isinstance(key, int):
            return self._at(key)
        if not isinstance(key, str):
            raise InputError(f"a trace is asked by site, label or position, not by {key!r}.")
        return find(self, key)

    def _at(self, position: int) -> Op:
        numbered = self._numbered
        if not -len(numbered) <= position < len(numbered):
            raise PositionError(f"position {position} is out of range: this trace numbers {len(numbered)} ops, from 0.")
        return numbered[position]

    def match(self, pattern: str) -> list[Op]:
        """Every op that a site, a pattern or a label covers, in order.

        A module's address covers what it returned; `encoder.**` covers all inside as well.
        """
        return match(self, pattern)

    def select(
        self,
        what: What | Callable[[Op], object] | None = None,
        *,
        function: str | None = None,
        module_class: str | None = None,
        kind: str | None = None,
    ) -> Selection:
        """The ops that fit everything that is given; see `Selection.where`.

        Sources are among them only where they are named, or asked for by their kind.
        """
        return select(self, what, function=function, module_class=module_class, kind=kind)

    def between(self, start: What, end: What) -> Selection:
        """Every op on a path from one to the other, neither end included; empty if there is no path."""
        return self.select(start).descendants() & self.select(end).ancestors()

    def paths(self, start: What, end: What, *, most: int | None = 10_000) -> Paths:
        """The paths from one to the other: iterate for each, ask for `count`, `ops`, `shortest` or `heaviest`.

        Args:
            most: how many are given before iterating raises `PathLimitError`; None for no limit.
        """
        starts = {maker_of(self, row) for row in rows_of(self, start)}
        return Paths(self, tuple(sorted(starts)), tuple(sorted(rows_of(self, end))), most)

    def critical_path(self, by: Measure = "seconds") -> Selection:
        """The chain of ops, from the first to an output, on which most seconds, FLOPs or bytes were spent."""
        return critical_path(self, by)

    def retained(self) -> Retained:
        """What autograd keeps alive for a backward pass."""
        found: Retained = late.call("Trace.retained", self)
        return found

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str) and bool(match(self, key))
        except SiteSyntaxError:
            return False

    def __len__(self) -> int:
        return len(self.op_nodes)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Every site that can be asked for: modules first, then inputs, ops, parameters and buffers.

        Where a module ran more than once, `:pass` is to be added to its sites.
        """
        found = [site for row in self.tables.modules for site in self._sites_of(row)]
        found += [f".@in.{path}" for path in self.input_paths]
        return tuple(dict.fromkeys([*found, *(op.site for op in self.ops), *self.parameters, *self.buffers]))

    def _sites_of(self, module: ModuleRow) -> list[str]:
        paths = {path: None for call in module.calls for path, _ in self.tables.calls[call].outputs}
        address = module.addresses[0]
        return [address] if list(paths) == [""] else [f"{address}@out.{path}" for path in paths]

    # showing

    def table(self) -> Any:
        """One row an op: a pandas DataFrame where pandas is installed, else a list of dicts."""
        return table(self.ops)

    def to_networkx(self) -> Any:
        """The graph for networkx: nodes are labels, edges carry their argument."""
        return networkx_graph(self)

    def draw(
        self,
        path: str | PathLike[str] | None = None,
        *,
        depth: int | None = None,
        rolled: bool = False,
        direction: Literal["down", "right"] = "down",
        color_by: str | Mapping[str, float] | Callable[[Op], Any] | None = None,
        focus: What | Callable[[Op], object] | None = None,
    ) -> Any:
        """Draw the graph; `path` ends in .svg, .pdf, .png, .dot or .json. Gives what is written; without a path, SVG.

        Args:
            depth: modules so many steps below the root are one box each; None draws every op.
            rolled: whether what repeats is drawn once: the passes of an op, and identical blocks.
            color_by: the name of a measure ("seconds", "bytes"…), numbers by site, or a function of an op.
            focus: what the picture is about, as `select` takes it: opened and framed, with all that is far off faint.
        """
        more = {"direction": direction, "color_by": color_by, "focus": focus}
        return late.call("Trace.draw", self, path, depth=depth, rolled=rolled, **more)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write the interactive picture of the graph as one HTML file that needs nothing from outside."""
        written: Path = late.call("Trace.to_html", self, path)
        return written

    def _repr_html_(self) -> str | None:
        """What a notebook shows of it: a small picture that stands still."""
        if self._tables is None:
            return None
        picture: str = late.call("Trace._repr_html_", self)
        return picture

    # keeping

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace, values and gradients included, into a new folder; `cutaway.load(path)` reads it back.

        Nothing is ever overwritten: a folder that holds something is an `ExistsError`.
        """
        late.call("Trace.save", self, path)

    # changing

    def replay(self, at: Any, *to: Any, **part: Any) -> Trace:
        """What the trace would be with a change, computed from saved values and only where the change reaches.

        Takes what `cutaway.edit` takes: a site and what it is changed to, or a mapping from sites to changes. Raises
        where the change reaches what cannot be computed: an opaque region, or a number that would steer the program.
        """
        found: Trace = late.call("Trace.replay", self, at, *to, **part)
        return found

    @property
    def recomputed(self) -> Selection:
        """In a replay: the ops whose values are other than in the original."""
        listed = set(self.op_nodes)
        return Selection(self, [node for node in self.tables.recomputed if node in listed])

    # proving

    def validate(self, *, forward: bool = True, perturb: bool = True, retrace: bool = False) -> Validation:
        """Prove that the trace holds what happened, and report what could not be proven.

        Args:
            forward: also run the model once more, unwatched and with the same random numbers, and compare outputs.
            perturb: also put other values in the place of each parent and see whether the result changes.
            retrace: trace the model again with everything saved, prove that, and hold this trace against it.
        """
        found: Validation = late.call("Trace.validate", self, forward=forward, perturb=perturb, retrace=retrace)
        return found

    def tensor(self, name: str, value: Any) -> None:
        """Inside the block: name a tensor, so that it answers to `$name`."""
        if self._tables is not None:
            raise OpenTraceError("a tensor can be named only inside the `with` block of its trace.")
        self._name_tensor(name, value)

    def _name_tensor(self, name: str, value: Any) -> None:
        raise OpenTraceError("a tensor can be named only inside the `with` block of its trace.")

    def __repr__(self) -> str:
        if self._tables is None:
            return "<Trace, still being made: read it after its `with` block>"
        return summary(self)

    # for the other files of this layer

    @cached_property
    def op_nodes(self) -> list[int]:
        """The nodes of all operations, orphans left out unless they were asked for."""
        return connected_ops(self.tables, orphans=self._orphans)

    @cached_property
    def names(self) -> Names:
        return Names(self.tables, self.op_nodes)

    @cached_property
    def distances(self) -> Distances:
        return distances(self.tables)

    @cached_property
    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.tables.nodes.kind]
        parents = self.tables.nodes.parents
        for node in self.op_nodes:
            for parent in parents[node]:
                mine = children[parent]
                if not mine or mine[-1] != node:
                    mine.append(node)
        return children

    @cached_property
    def ops_by_call(self) -> dict[int, list[int]]:
        """Module call → the nodes of the operations executed directly in it."""
        found: dict[int, list[int]] = {}
        calls = self.tables.nodes.call
        for node in self.op_nodes:
            found.setdefault(calls[node], []).append(node)
        return found

    def children_of(self, node: int) -> list[int]:
        return self._children[node]

    @cached_property
    def _saved_nodes(self) -> list[int]:
        nodes = self.tables.nodes
        saved = [node for node in self.op_nodes if not isinstance(nodes.value[node], Unsaved)]
        # Numbers that left torch are kept in any case; they count only where everything does.
        return saved if self.tables.saved_all else [node for node in saved if nodes.meta[node] is not None]

    @property
    def _numbered(self) -> Selection:
        return self.ops if self.tables.saved_all or not self._saved_nodes else self.saved

    def _sources(self, kind: str) -> dict[str, Op]:
        nodes = self.tables.nodes
        return {
            address: Op(self, row.node)
            for row in self.tables.parameters
            if row.node >= 0 and nodes.kind[row.node] == kind
            for address in row.addresses
        }

    def count_parameters(self, rows: tuple[int, ...]) -> ParameterCount:
        chosen: list[ParameterRow] = [self.tables.parameters[row] for row in rows]
        chosen = [row for row in chosen if not row.is_buffer]
        return ParameterCount(
            trainable=sum(row.numel for row in chosen if row.requires_grad),
            frozen=sum(row.numel for row in chosen if not row.requires_grad),
            bytes=sum(row.bytes for row in chosen),
        )

    def call_of(self, node: int) -> ModuleCall | None:
        """The module call of a node; a constant belongs to the module that first used it."""
        nodes = self.tables.nodes
        if nodes.kind[node] == CONSTANT and self._children[node]:
            node = self._children[node][0]
        number = nodes.call[node]
        return ModuleCall(self, number) if number else None

    def group_names(self, group: int) -> tuple[str, ...]:
        names = []
        while group:
            event = self.tables.groups[group]
            names.append(event.function)
            group = event.parent
        return tuple(reversed(names))

    def stack_of(self, node: int) -> tuple[Source, ...]:
        """The places that led to a node: its own line, those of its composites, those of its module calls."""
        event = self.tables.nodes.event[node]
        return () if event is None else stack_of(self.tables, event)
