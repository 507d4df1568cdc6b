"""Selects the values to save: all, by site, label, op or predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from cutaway.capture.saved.value_folder import FolderSink
from cutaway.capture.tensors.aliasing import storage_of
from cutaway.capture.tensors.copies import detached_copy
from cutaway.core.errors import InputError, InputTypeError, SiteSyntaxError
from cutaway.core.events import ValueSink
from cutaway.core.formatting import hint, listed
from cutaway.core.sites import Site
from cutaway.graph.labels import Namer, kind_of, op_site, split_label
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, INPUT, OP, PARAMETER, UNSAVED, ModuleRow, Nodes
from cutaway.graph.trace import Trace

_SAVE_HELP = "use sites, labels, ops of an earlier trace, a predicate, '**' for all, or None."
Addresses = dict[int, tuple[str, ...]]
"""id of a module or tensor → all its addresses."""
Place = tuple[str, str, int, int, str]
"""Address, kind, ordinal, pass and path of an op: the arguments of `op_site`."""
Where = Literal["reference", "cpu", "copy"]
_MODES: tuple[str, ...] = get_args(Where)
Save = str | Callable[[Op], bool] | Iterable[Any] | Op | None


class Saver:
    """Decides, while the model runs, which values are saved.

    Args:
        save: "**" for all, None for none, sites, labels, ops of an earlier trace, or a predicate of an `Op`.
        keep: where to save: by reference, on the CPU, as copies, or in a `ValueSink`.
        transform: applied to each value before it is saved.
    """

    def __init__(self, save: Save, keep: Where | ValueSink | str | Path, transform: Callable[[Tensor], Any] | None):
        self.patterns: list[Site] = []
        self.exact: set[Place] = set()
        """Ops of an earlier trace, by their exact position."""
        self.addresses: set[str] = set()
        """Parameters and buffers of an earlier trace."""
        self.constants: set[str] = set()
        """Labels of the constants of an earlier trace."""
        self.labels: dict[str, int] = {}
        self.predicate: Callable[[Op], bool] | None = None
        self.transform = transform
        self.everything = False
        self._parse(save)
        self.where, self.sink = _place(keep)
        self.keeps_all = self.everything and self.where == "reference" and self.sink is None and transform is None
        selected = (self.patterns, self.exact, self.addresses, self.constants, self.labels)
        self.saves_nothing = not (self.everything or self.predicate is not None or any(selected))
        self.requested: list[str] = [*map(str, self.patterns), *self.labels, *sorted(self.addresses | self.constants)]
        self.matched: set[str] = set()
        self._reached: set[Place] = set()
        self.certain: set[int] = set()
        """Nodes that are saved for certain, not only because their label may match."""
        self.by_site = bool(self.patterns or self.exact) or self.predicate is not None
        self.op_at: Callable[[int], Op]
        self.sites: dict[int, Site] = {}
        """Sites of the ops so far, for predicates."""
        self.module_rows: list[ModuleRow] = []
        self._row_of: dict[int, int] = {}
        self._nodes: Nodes
        self._addresses: Addresses = {}
        self._tensors: Addresses = {}
        self._call_address: dict[int, tuple[str, ...]] = {0: ("",)}
        self._call_pass: dict[int, int] = {0: 1}
        self._namer = Namer()
        self._kinds: dict[str, int] = {}
        self._tentative: dict[str, list[int]] = {}
        self._unnamed: list[int] = []

    def begin(self, nodes: Nodes, modules: Addresses, tensors: Addresses) -> None:
        """Called before the first event, with the columns and the addresses of modules and parameters."""
        self._nodes, self._addresses, self._tensors = nodes, modules, tensors

    def enter(self, number: int, module: nn.Module | None, pass_: int) -> int:
        """Called when a module call begins; returns the row of the module in `module_rows`."""
        if not self.by_site:
            return -1
        addresses = self._addresses.get(id(module), (f"<{type(module).__name__}>",))
        self._call_address[number] = addresses
        self._call_pass[number] = pass_
        if self.predicate is None:
            return -1
        row = self._row_of.get(id(module))
        if row is None:
            row = self._row_of[id(module)] = len(self.module_rows)
            self.module_rows.append(ModuleRow(addresses, type(module).__name__, ()))
        return row

    def wants_node(self, node: int, tensor: Any = None) -> bool:
        """Whether to save the value of this new node."""
        if self.everything:
            return True
        if self._nodes.kind[node] != "op":
            return self._source_matches(node, tensor)
        wanted = False
        if self.by_site:
            places = self._places_of(node)
            for place in places:
                if place in self.exact:
                    self._reached.add(place)
                    wanted = True
            if self.patterns:
                for place in places:
                    wanted |= self._any_match(op_site(*place))
            if self.predicate is not None:
                self.sites[node] = op_site(*places[0])
                wanted |= self._predicate_holds(node, tensor)
        if wanted:
            self.certain.add(node)
        if self.labels:
            wanted |= self._label_may_match(node)
        return wanted

    def wants_module(self, number: int, side: str, path: str) -> bool:
        """Whether to save an input or output tensor of a module."""
        if self.everything or not self.patterns:
            return self.everything
        is_match = False
        for address in self._call_address[number]:
            site = Site(address=address, side=side, path=path, pass_=self._call_pass[number])
            is_match |= self._any_match(site)
        return is_match

    def keep(self, node: int, tensor: Tensor) -> tuple[Any, bool]:
        """The value to store, and whether it shares memory with the program's tensor."""
        value: Any = tensor
        with torch.no_grad():
            if self.transform is not None:
                value = self.transform(tensor.detach())
            if isinstance(value, Tensor):
                if self.sink is not None:
                    return self.sink.keep(node, value.detach()), False
                if self.where == "cpu":
                    value = value.detach().to("cpu")
                elif self.where == "copy":
                    return detached_copy(value), False
        return value, isinstance(value, Tensor) and (value is tensor or _shares_memory(value, tensor))

    def unmatched(self) -> list[str]:
        """The requested names that matched nothing."""
        never = sorted(str(op_site(*place)) for place in self.exact - self._reached)
        return [text for text in self.requested if text not in self.matched] + never

    def release(self, label_of: Callable[[int], str]) -> list[int]:
        """The nodes to drop: they were saved because their label might match, and it did not."""
        dropped = []
        for label, nodes in self._tentative.items():
            for node in nodes:
                if _is_label(label, label_of(node)):
                    self.matched.add(label)
                    self.certain.add(node)
                else:
                    dropped.append(node)
        for node in self._unnamed:
            if (label := label_of(node)) in self.constants:
                self.matched.add(label)
            else:
                dropped.append(node)
        return [node for node in dropped if node not in self.certain]

    def _places_of(self, node: int) -> list[Place]:
        """The positions of a new op: one for each address of its module."""
        nodes = self._nodes
        call = nodes.call[node]
        kind = kind_of(nodes.name[node])
        addresses = self._call_address[call]
        ordinal, pass_ = self._namer.count(nodes.event[node], call, addresses[0], kind)
        return [(address, kind, ordinal, pass_, nodes.path[node]) for address in addresses]

    def _source_matches(self, node: int, tensor: Any) -> bool:
        """Matches parameters and buffers by their exact address, not by a pattern around them."""
        addresses = self._tensors.get(id(tensor), ())
        if self.constants and not addresses:
            self._unnamed.append(node)  # constants get their labels when the block ends: until then, it may match
            return True
        is_match = False
        for address in addresses:
            if address in self.addresses:
                self.matched.add(address)
                is_match = True
            for pattern in self.patterns:
                if not pattern.is_pattern and pattern.matches(Site(address=address)):
                    self.matched.add(str(pattern))
                    is_match = True
        return is_match

    def _predicate_holds(self, node: int, tensor: Any) -> bool:
        """Calls the user's predicate; it may read the value, too."""
        nodes = self._nodes
        saved = nodes.value[node]
        nodes.value[node] = tensor if saved is UNSAVED else saved
        try:
            return bool(self.predicate(self.op_at(node))) if self.predicate is not None else False
        finally:
            nodes.value[node] = saved

    def _any_match(self, site: Site) -> bool:
        is_match = False
        for pattern in self.patterns:
            if pattern.matches(site):
                self.matched.add(str(pattern))
                is_match = True
        return is_match

    def _label_may_match(self, node: int) -> bool:
        kind = kind_of(self._nodes.name[node]).replace("_", "")
        # Orphans are removed at the end, so that the number in a label can only be smaller than this count.
        seen = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        is_match = False
        for label, least in self.labels.items():
            if split_label(label)[0] == kind and seen >= least:
                self._tentative.setdefault(label, []).append(node)
                is_match = True
        return is_match

    def _parse_op(self, op: Op) -> None:
        """Adds an op of an earlier trace by its exact position, which is a set lookup however many there are."""
        site = op.full_site
        if op.trace.tables.nodes.meta_of(op.node) is None:
            return  # a Python number: those are always saved
        if op.kind == OP:
            self.exact.add((site.address, site.op or "", site.ordinal or 1, site.pass_ or 1, site.path))
        elif op.kind == INPUT:
            self.patterns.append(site)
        elif op.kind in (PARAMETER, BUFFER) and site.address:
            self.addresses.add(site.address)
        else:
            self.constants.add(op.label)

    def _parse(self, save: Save) -> None:
        if save is None:
            return
        if callable(save) and not isinstance(save, (Op, Trace)):
            self.predicate = save
            return
        if isinstance(save, Op):
            save = [save]
        if not isinstance(save, Iterable) or isinstance(save, Trace):
            raise InputTypeError(f"save={save!r}: {_SAVE_HELP}")
        items = [save] if isinstance(save, str) else list(save)
        for item in items:
            if isinstance(item, Op):
                self._parse_op(item)
            elif isinstance(item, int) and not isinstance(item, bool):
                raise InputTypeError(
                    f"save={save!r} contains the position {item}, and which op that is shows only when the run has "
                    f"ended: trace once with save=None, and pass the op, save=[trace[{item}]]."
                )
            elif not isinstance(item, str):
                raise InputTypeError(f"save={save!r} contains {item!r}: {_SAVE_HELP}")
            elif item == "**":
                self.everything = True
            elif _looks_like_label(item):
                self.patterns.append(Site.parse(item).without_unit())
                self.labels[str(self.patterns[-1])] = split_label(item)[1]
            else:
                self.patterns.append(Site.parse(item).without_unit())


def _looks_like_label(text: str) -> bool:
    try:
        site = Site.parse(text)
    except SiteSyntaxError:
        return False
    head, number = split_label(text)
    return bool(head) and number > 0 and site.op is None and "." not in text and "*" not in text


def _is_label(requested: str, label: str) -> bool:
    return split_label(requested) == split_label(label)


def _place(keep: Any) -> tuple[str, ValueSink | None]:
    if isinstance(keep, str) and keep in _MODES:
        return keep, None
    if isinstance(keep, str) and Path(keep).name == keep and not Path(keep).exists():
        # A misspelled mode would silently become a new folder.
        similar = hint(keep, _MODES)
        if similar:
            modes = listed(map(repr, _MODES))
            raise InputError(f"keep={keep!r} is none of {modes}.{similar} For a folder, write keep='./{keep}'.")
    if isinstance(keep, (str, Path)):
        return "reference", FolderSink(Path(keep))
    if hasattr(keep, "keep") and hasattr(keep, "close"):
        return "reference", keep
    raise InputTypeError(f"keep={keep!r}: use 'reference', 'copy', 'cpu', a folder, or a ValueSink.")


def _shares_memory(a: Tensor, b: Tensor) -> bool:
    storage = storage_of(a)
    return storage is not None and storage == storage_of(b)
