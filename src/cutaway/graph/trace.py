"""`Trace`: one run of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, SupportsIndex, overload

from cutaway.core import late
from cutaway.core.arrays import short_repr
from cutaway.core.call_errors import explain_positional
from cutaway.core.errors import InputTypeError, OpenTraceError, SiteSyntaxError
from cutaway.core.positions import position
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.analysis.cost_summary import Measure
from cutaway.graph.analysis.distances import Distances, connected_ops, distances
from cutaway.graph.analysis.export import networkx_graph, table
from cutaway.graph.analysis.nonfinite import Nonfinite, first_nonfinite
from cutaway.graph.analysis.passes import Rolled
from cutaway.graph.analysis.paths import Paths, critical_path
from cutaway.graph.analysis.reachability import direct_children, grouped_by
from cutaway.graph.analysis.saved_for_backward import Retained
from cutaway.graph.analysis.summary import summary
from cutaway.graph.analysis.units import tied_layouts, unit_layouts
from cutaway.graph.control_flow.conditionals import Conditionals
from cutaway.graph.labels import Names
from cutaway.graph.lookup import all_sites, find, match_units
from cutaway.graph.modules import ByAddress, Module, ModuleCall, ParameterCount, count_parameters, sources
from cutaway.graph.op import Op
from cutaway.graph.replays import Replays
from cutaway.graph.selection import Drawing, Selection, What, rows_of, select
from cutaway.graph.tables import BUFFER, CONSTANT, PARAMETER, Tables, Unsaved, maker
from cutaway.results.validation import Validation

INTERNAL = frozenset({"tables", "fill", "op_nodes", "names", "distances", "ops_by_call", "children_of", "call_of"})
"""Attributes for other modules of the package; `dir(trace)` leaves them out."""


class Trace(Replays):
    """One run of a model: every op with its value, parents, module, source line and cost.

    Created by `cutaway.trace` and `cutaway.watch`. You can read it after its `with` block has ended.
    """

    def __init__(self) -> None:
        self._tables: Tables | None = None
        self._orphans = False
        self.returned: Any = None
        """The return value of the model, unchanged (`cutaway.trace` only)."""

    def fill(self, tables: Tables, *, orphans: bool) -> None:
        """Set the tables; capture calls this when the block ends."""
        self._tables, self._orphans = tables, orphans

    @property
    def tables(self) -> Tables:
        """The columns behind the trace."""
        if self._tables is None:
            raise OpenTraceError("this trace is still being made: read it after its `with` block has ended.")
        return self._tables

    # contents

    @property
    def ops(self) -> Selection:
        """Every op, in order of execution."""
        return Selection(self, self.op_nodes)

    @property
    def saved(self) -> Selection:
        """The ops whose value was saved."""
        return Selection(self, self._saved_nodes)

    @cached_property
    def rolled(self) -> Rolled:
        """The ops in order of first execution; those that ran several times are one `Passes` each."""
        return Rolled(self)

    @cached_property
    def conditionals(self) -> Conditionals:
        """Every test that a tensor decided (`if`, `while`, `assert`…), in order of execution."""
        return Conditionals(self)

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        """Every module by address, called or not; a shared module under each of its addresses."""
        rows = enumerate(self.tables.modules)
        modules = {address: Module(self, row) for row, module in rows for address in module.addresses}
        return ByAddress(modules, "module", "trace.modules")

    @property
    def calls(self) -> tuple[ModuleCall, ...]:
        """Every call of a module's forward, in order."""
        return tuple(ModuleCall(self, i) for i in range(1, len(self.tables.calls)))

    @cached_property
    def parameters(self) -> Mapping[str, Op]:
        """The parameters that were used, by address; a tied parameter under each of its addresses."""
        return sources(self, PARAMETER)

    @cached_property
    def buffers(self) -> Mapping[str, Op]:
        """The buffers that were read, as they were before the run, by address."""
        return sources(self, BUFFER)

    @property
    def constants(self) -> tuple[Op, ...]:
        """Tensors from outside the model that are not an input, parameter or buffer."""
        kinds = self.tables.nodes.kind
        return tuple(Op(self, node) for node, kind in enumerate(kinds) if kind == CONSTANT)

    @property
    def unexplained(self) -> tuple[Op, ...]:
        """Constants made during the run by code that capture cannot see (C++): the graph may be cut there."""
        return tuple(Op(self, node) for node in self.tables.unexplained)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the trace does not have: parts of DTensors in other processes, parameters that FSDP freed."""
        return self.tables.notes

    @cached_property
    def first_nonfinite(self) -> Nonfinite | None:
        """The first op that made NaN or Inf of inputs without; None if no saved value has any."""
        return first_nonfinite(self)

    @property
    def inputs(self) -> tuple[Op, ...]:
        """The input tensors, in the order of the flattened arguments."""
        return tuple(Op(self, node) for _, node in self.tables.inputs)

    @property
    def input_paths(self) -> tuple[str, ...]:
        """The path of each input in the arguments: "0", "mask", "batch.image"…"""
        return tuple(path for path, _ in self.tables.inputs)

    @property
    def outputs(self) -> tuple[Op, ...]:
        """The ops that computed the outputs, in the order of the flattened output."""
        return tuple(Op(self, node) for _, node in self.tables.outputs)

    @property
    def output_paths(self) -> tuple[str, ...]:
        """The path of each output in the returned structure; "" for a bare tensor."""
        return tuple(path for path, _ in self.tables.outputs)

    @cached_property
    def unit_layouts(self) -> Sequence[UnitLayout | None]:
        """For each node, which of its dimensions count units, samples and positions; None if it is not a tensor."""
        stored = self.tables.stored
        return unit_layouts(self.tables) if stored is None or stored.units is None else stored.units

    @cached_property
    def tied_unit_layouts(self) -> Mapping[tuple[int, str], UnitLayout]:
        """For parameters with several addresses: (node, address) → the layout under that address."""
        return tied_layouts(self.tables)

    # status and cost

    @property
    def model_name(self) -> str:
        """Class name of the model."""
        return self.tables.model_name

    @property
    def is_complete(self) -> bool:
        """Whether the block ran to its end. False if it raised; the trace then has everything up to the error."""
        return self.tables.error is None

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the block early."""
        return self.tables.error

    @property
    def failed(self) -> str | None:
        """A description of the op that raised: function, argument shapes, source line."""
        return self.tables.failed

    @property
    def is_compiled(self) -> bool:
        """Whether the model was compiled with `torch.compile`. The trace is then that of its eager code."""
        return self.tables.compiled

    @property
    def n_backwards(self) -> int:
        """How many backward passes ran inside the block."""
        return self.tables.n_backwards

    @property
    def seconds(self) -> float:
        """Duration of the block, including the overhead of tracing."""
        return self.tables.seconds

    @cached_property
    def bytes(self) -> int:
        """Total size of the values of all ops."""
        # An identity op returns its input, whose bytes count already.
        return sum(op.bytes for op in self.ops if not op.is_identity)

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of the whole run, by torch's convention."""
        return sum(op.flops for op in self.ops)

    @cached_property
    def n_parameters(self) -> ParameterCount:
        """All parameters of the model, each counted once."""
        return count_parameters(self.tables.parameters)

    @property
    def tied_parameters(self) -> tuple[tuple[str, ...], ...]:
        """Parameters with more than one address."""
        return tuple(r.addresses for r in self.tables.parameters if not r.is_buffer and len(r.addresses) > 1)

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Parameters that no op read."""
        return tuple(r.addresses[0] for r in self.tables.parameters if not r.is_buffer and r.node < 0)

    @property
    def uncalled_modules(self) -> tuple[str, ...]:
        """Modules that were never called (`m.forward(x)` is no call), without containers and those nobody can see."""
        return tuple(row.addresses[0] for row in self.tables.modules if not row.calls and row.has_forward)

    # queries

    @overload
    def __getitem__(self, key: int | str | Site) -> Op: ...
    @overload
    def __getitem__(self, key: slice) -> Selection: ...
    def __getitem__(self, key: int | str | Site | slice) -> Op | Selection:
        if isinstance(key, slice):
            return self._numbered[key]
        if isinstance(key, (str, Site)):
            return find(self, str(key))
        if isinstance(key, bool) or not isinstance(key, SupportsIndex):
            raise InputTypeError(f"index a trace by site, label, position or slice, got {short_repr(key)}.")
        noun = "op" if len(self._numbered) == len(self) else "saved op"
        return self._numbered[position(key, len(self._numbered), "this trace", noun=noun)]

    def match(self, pattern: str | Site) -> list[Op]:
        """Every op that matches a site, a pattern or a label, in order; with a unit (`**#7`), every op that has it.

        The address of a module matches its outputs; `encoder.**` also matches everything inside.
        """
        return match_units(self, str(pattern) if isinstance(pattern, Site) else pattern)

    def select(
        self,
        what: What | Callable[[Op], object] | None = None,
        *,
        function: str | None = None,
        module_class: str | None = None,
        kind: str | None = None,
    ) -> Selection:
        """The ops that meet all given conditions. Sources are included only if you name them, or ask for their kind.

        Args:
            what: a site, pattern or label, ops, or a predicate that is called with each op.
            function: name of the function, or a pattern such as "*pool*"; "relu" also matches `relu_`.
            module_class: class of a module in which the op ran, at any depth; or a pattern such as "*Attention".
            kind: "op", "input", "parameter", "buffer" or "constant".
        """
        return select(self, what, function=function, module_class=module_class, kind=kind)

    def between(self, start: What, end: What) -> Selection:
        """Every op on a path from `start` to `end`, both excluded; empty if there is no path."""
        return self.select(start).descendants & self.select(end).ancestors

    def paths(self, start: What, end: What, *, most: int | None = 10_000) -> Paths:
        """The paths from `start` to `end`: iterate over them, or use `count`, `ops`, `shortest` or `heaviest`.

        Args:
            start: the ops at which paths start, as `select` takes them.
            end: the ops at which they end.
            most: the number of paths after which iterating raises `PathLimitError`; None for no limit.
        """
        starts = {maker(self.tables.nodes, row) for row in rows_of(self, start)}
        return Paths(self, tuple(sorted(starts)), tuple(sorted(rows_of(self, end))), most)

    def critical_path(self, by: Measure = "seconds") -> Selection:
        """The chain of ops from the first op to an output with the most seconds, FLOPs or bytes in total."""
        return critical_path(self, by)

    @property
    def retained(self) -> Retained:
        """The tensors that autograd keeps alive for a backward pass."""
        retained: Retained = late.call("Trace.retained", self)
        return retained

    def __contains__(self, key: object) -> bool:
        if isinstance(key, Op):
            return key in self.ops
        try:
            # Text that is not a site may still be asked for: `"a..b" in trace` is False.
            return isinstance(key, (str, Site)) and bool(match_units(self, str(key)))
        except SiteSyntaxError:
            return False

    def __len__(self) -> int:
        return len(self.op_nodes)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Every site: modules, inputs, ops, parameters and buffers. If a module ran repeatedly, add `:pass` to its."""
        return all_sites(self)

    # output

    def table(self) -> Any:
        """One row per op: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return table(self.ops)

    def to_networkx(self) -> Any:
        """The graph as a networkx graph: nodes are labels, edges have their argument."""
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
    ) -> Drawing:
        """Draw the graph, and return the content of the file; without a path, SVG text.

        Args:
            path: the file to write, ending in .svg, .pdf, .png, .dot or .json; None writes none.
            depth: how many levels of modules to open; deeper ones are one box each. None draws every op.
            rolled: whether to draw repetitions once: the passes of an op, and identical blocks.
            direction: the direction of the data flow, "down" or "right".
            color_by: the name of a measure ("seconds", "bytes"…), numbers by site, or a function of an op.
            focus: the ops to focus on, as `select` takes them. Their modules are opened; distant ops are faded.
        """
        picture: Drawing = late.call(
            "Trace.draw", self, path, depth=depth, rolled=rolled, direction=direction, color_by=color_by, focus=focus
        )
        return picture

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write the interactive picture of the graph as one self-contained HTML file."""
        written: Path = late.call("Trace.to_html", self, path)
        return written

    def _repr_html_(self) -> str | None:
        """A small static picture for notebooks."""
        if self._tables is None:
            return None
        picture: str = late.call("Trace._repr_html_", self)
        return picture

    # saving

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace with its values and gradients to a new folder; `cutaway.load(path)` reads it back.

        Never overwrites: raises `ExistsError` if the folder is not empty.
        """
        late.call("Trace.save", self, path)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # Ops, selections and modules refer to their trace, so pickling or deep-copying them ends here, too.
        raise InputTypeError(
            "a trace, its ops and its selections cannot be pickled or deep-copied: write the trace with "
            "trace.save(path), and read it with cutaway.load(path), also in another process."
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        # Without this method, NumPy would read every op and try to stack values of different shapes.
        raise InputTypeError("a trace is not one array: use np.asarray(trace[site]) for one op, or trace.table().")

    @property
    def recomputed(self) -> Selection:
        """In a replay, the ops whose values differ from the original."""
        listed = set(self.op_nodes)
        return Selection(self, [node for node in self.tables.recomputed if node in listed])

    # validation

    @explain_positional("Write trace.validate(): the trace knows its model and inputs.")
    def validate(self, *, forward: bool = True, perturb: bool = True, retrace: bool | None = None) -> Validation:
        """Check that the trace is correct, and report what could not be checked.

        Args:
            forward: also run the model again, untraced and with the same random numbers, and compare outputs.
            perturb: also replace the value of each parent and check whether the result changes.
            retrace: trace again with everything saved, validate that, and compare; None: if not all values were saved.
        """
        report: Validation = late.call("Trace.validate", self, forward=forward, perturb=perturb, retrace=retrace)
        return report

    def tensor(self, name: str, value: Any) -> None:
        """Inside the block, give a tensor a name; its site is then `$name`."""
        self._name_tensor(name, value)

    # Capture replaces this method while the block is open.
    def _name_tensor(self, name: str, value: Any) -> None:
        raise OpenTraceError("a tensor can be named only inside the `with` block of its trace.")

    def __repr__(self) -> str:
        if self._tables is None:
            return "<Trace, still being made: read it after its `with` block>"
        return summary(self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    # internal, for other modules of the package: see INTERNAL

    @cached_property
    def op_nodes(self) -> list[int]:
        """The nodes of all ops, without orphans unless they were asked for."""
        return connected_ops(self.tables, orphans=self._orphans)

    @cached_property
    def names(self) -> Names:
        return Names(self.tables, self.op_nodes)

    @cached_property
    def distances(self) -> Distances:
        return distances(self.tables)

    @cached_property
    def _children(self) -> list[list[int]]:
        return direct_children(self.op_nodes, self.tables.nodes.parents)

    @cached_property
    def ops_by_call(self) -> dict[int, list[int]]:
        """Module call → the nodes of the ops that ran directly in it."""
        return grouped_by(self.op_nodes, self.tables.nodes.call)

    def children_of(self, node: int) -> list[int]:
        return self._children[node]

    @cached_property
    def _saved_nodes(self) -> list[int]:
        nodes = self.tables.nodes
        saved = [node for node in self.op_nodes if not isinstance(nodes.value[node], Unsaved)]
        # Numbers that left torch are always saved; they count as saved only if everything is.
        return saved if self.tables.saved_all else [node for node in saved if nodes.meta[node] is not None]

    @property
    def _numbered(self) -> Selection:
        return self.ops if self.tables.saved_all or not self._saved_nodes else self.saved

    def call_of(self, node: int) -> ModuleCall | None:
        """The module call of a node; for a constant, that of its first user."""
        nodes = self.tables.nodes
        # A constant existed before the run, so its own row names no call.
        if nodes.kind[node] == CONSTANT and self._children[node]:
            node = self._children[node][0]
        number = nodes.call[node]
        return ModuleCall(self, number) if number else None
