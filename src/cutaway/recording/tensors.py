"""The tensors of one recorded step: their keys, statistics and stored values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.arrays import Raw
from cutaway.core.formatting import listed
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.dependencies.graph import RecordedSite
from cutaway.recording.recorded_units import PendingTensors, summary_view
from cutaway.recording.statistics.stable_sites import SiteOf, StableSites
from cutaway.recording.statistics.summary import Summary
from cutaway.recording.values import SampleSelection, to_host
from cutaway.store.format.records import VALUE, Row

_LOST = (
    "statistics of {sites} are missing in this step: the program overwrote the tensors in place, which it had not done "
    "in earlier recorded steps; from now on their statistics are taken at once"
)


class TensorKey(NamedTuple):
    """Identifies a tensor within a step: its site, pass, iteration and role.

    A tuple, because a frozen dataclass takes ten times as long to create.
    """

    base: str
    """The site without its pass."""
    pass_key: str = ""
    """What its passes are counted by: a module address, or the name of a tensor."""
    pass_: int = 1
    iteration: int = 0
    role: str = ""
    node: str = ""
    part: str = ""
    step_pass: int = 1
    """Its pass counted over the whole step rather than the iteration, as a trace counts it."""


_NO_DERIVED: Mapping[str, int] = MappingProxyType({})
"""Shared: most records have no gradients of their own, and a dict for each is work for the garbage collector."""


def _nothing() -> None:
    """Stands for a weak reference of which there is none."""


@dataclass(slots=True, eq=False)
class RecordedTensor:
    """One recorded tensor, its gradient or its update."""

    key: TensorKey
    of: str
    number: int
    """Its row in the summary."""
    value: Tensor | None = None
    aliases: tuple[TensorKey, ...] = ()
    """Other keys of the same tensor; those of a gradient or update are the ones of its source."""
    source: RecordedTensor | None = None
    """The record of the tensor that this is a gradient or update of."""
    n_derived: Mapping[str, int] = field(default_factory=lambda: _NO_DERIVED)
    """Number of recorded gradients and updates of this tensor, by name."""
    requires_grad: bool = True
    """Whether the tensor required gradients."""
    layout: UnitLayout | None = None
    """Its unit and sample dimensions; None if unknown so far."""
    keeps_value: bool = True
    """Whether its values may be stored."""
    is_recomputed: bool = False
    """Whether a checkpoint has recomputed it, so that it stands for a tensor that is recorded already."""
    tensor_ref: Callable[[], Tensor | None] = _nothing
    """A weak reference to an output, by which a repetition is recognized; with its version counter."""
    version: int = 0

    def is_of(self, tensor: Tensor, version: int | None) -> bool:
        """Whether this is the record of a tensor that was not written to since."""
        return self.tensor_ref() is tensor and self.version == version


class StepTensors:
    """All tensors of one recorded step, in order."""

    def __init__(self, summary: Summary, selection: SampleSelection, stable: StableSites | None = None) -> None:
        self.summary = summary
        self._stable = StableSites() if stable is None else stable
        self._checks: list[tuple[SiteOf, int, int]] = []
        """Sites recorded for the first time on a GPU: their rows taken at once, and taken with others."""
        self.notes: dict[str, None] = {}
        """What was not recorded and why, each message once (a dict used as an ordered set)."""
        self.selection = selection
        self.iteration = 0
        self.records: list[RecordedTensor] = []
        self._passes: dict[int, dict[str, int]] = {}
        """Iteration → number of passes by their key."""
        self._step_passes: dict[str, int] = {}
        self._by_id: dict[int, RecordedTensor] = {}
        self._without_grad: dict[str, list[RecordedTensor]] = {}
        self._recomputed: list[tuple[RecordedTensor, list[RecordedTensor]]] = []
        """Tensors that a checkpoint recomputed, with the records that each may belong to."""
        self._owners: dict[RecordedTensor, RecordedTensor | None] = {}
        """The record that each recomputed tensor belongs to; None if that is ambiguous."""
        self._deferred: tuple[list[Tensor], list[RecordedTensor]] | None = None
        self.assumed_stable: bool | None = None
        """Whether tensors that are added now may be overwritten by the program; None for what their sites tell."""
        self.pending: PendingTensors | None = None
        """Tensors whose layouts become known when the model returns; None if the step is not traced."""

    def next_pass(self, pass_key: str) -> tuple[int, int]:
        """Count a pass. Returns its number within this iteration, and within the step; both from 1."""
        passes = self._passes.get(self.iteration)
        if passes is None:
            passes = self._passes[self.iteration] = {}
        passes[pass_key] = pass_ = passes.get(pass_key, 0) + 1
        self._step_passes[pass_key] = step_pass = self._step_passes.get(pass_key, 0) + 1
        return pass_, step_pass

    def step_pass(self, pass_key: str) -> int:
        """Number of passes in the whole step so far."""
        return self._step_passes.get(pass_key, 0)

    def n_passes(self, pass_key: str) -> int:
        """Number of passes in this iteration so far."""
        return self._passes.get(self.iteration, {}).get(pass_key, 0)

    def add(
        self, tensor: Tensor, key: TensorKey, others: Sequence[TensorKey] = (), *, layout: UnitLayout | None = None
    ) -> tuple[RecordedTensor, bool]:
        """Record a tensor. Returns its record and whether it is new.

        A tensor that this iteration has recorded already and that was not written to since gets an alias instead.

        Args:
            others: other keys of the same module output.
            layout: unit and sample dimensions, if known.
        """
        version = version_of(tensor)
        known = self._by_id.get(id(tensor))
        if known is not None and known.is_of(tensor, version) and known.key.iteration == key.iteration:
            names = {(each.base, each.pass_) for each in (known.key, *known.aliases)}
            known.aliases += tuple([each for each in (key, *others) if (each.base, each.pass_) not in names])
            known.key = _with_role(known.key, key)
            return known, False
        record = self._add(tensor, key, VALUE, layout)
        if others:
            record.aliases = tuple(others)
        record.requires_grad = tensor.requires_grad
        # Without a version counter (inference_mode), a repetition cannot be told from a change.
        # A weak reference: activations must be freed as before, and ids are reused after that.
        if version is not None:
            record.tensor_ref, record.version = weakref.ref(tensor), version
            self._by_id[id(tensor)] = record
        if not record.requires_grad:
            self._without_grad.setdefault(key.base, []).append(record)
        return record, True

    def add_op_value(self, tensor: Tensor, key: TensorKey) -> RecordedTensor:
        """Record the result of an op."""
        return self._add(tensor, key, VALUE, None)

    def add_derived(self, tensor: Tensor, record: RecordedTensor, of: str) -> RecordedTensor:
        """Record a gradient or update of a tensor; from the second on it is numbered: `grad@2`."""
        of = _derived_name(of, record)
        if self._deferred is None or record.keeps_value:
            return self._add(tensor, record.key, of, record.layout, record)
        derived = RecordedTensor(record.key, of, -1, None, (), record, _NO_DERIVED, True, record.layout, False)
        self._deferred[0].append(tensor)
        self._deferred[1].append(derived)
        self.records.append(derived)
        return derived

    def add_same(self, derived: RecordedTensor, record: RecordedTensor, of: str) -> RecordedTensor:
        """Record the same statistics under a second name."""
        same = replace(derived, of=_derived_name(of, record), n_derived=_NO_DERIVED)
        self.records.append(same)
        return same

    def reassign(self, derived: RecordedTensor, owner: RecordedTensor, of: str) -> None:
        """Move a gradient from a recomputed tensor to the record it belongs to, with the key that this has now."""
        if derived.source is not owner:
            derived.of, derived.source = _derived_name(of, owner), owner
        derived.key = owner.key  # the user may have given it a role since

    def drop(self, lost: Set[RecordedTensor]) -> None:
        """Remove these records."""
        if lost:
            self.records = [record for record in self.records if record not in lost]

    def move_last(self, records: Set[RecordedTensor]) -> None:
        """Move these records behind all others: parameters are listed after the tensors computed from them."""
        if records:
            self.records.sort(key=records.__contains__)

    def _add(
        self,
        tensor: Tensor,
        key: TensorKey,
        of: str,
        layout: UnitLayout | None,
        source: RecordedTensor | None = None,
    ) -> RecordedTensor:
        """Add a record: compute statistics, and copy the value if it is to be stored."""
        keeps_value = source is None or source.keeps_value
        record = RecordedTensor(key, of, -1, None, (), source, _NO_DERIVED, True, layout, keeps_value)
        if self._deferred is not None and not keeps_value:
            self._deferred[0].append(tensor)
            self._deferred[1].append(record)
        else:
            record.number = self._summarize(tensor, layout, key.base, of)
        self.records.append(record)
        if keeps_value:
            if layout is None and self.pending is not None and of == VALUE:
                self.pending.add(tensor, record)
            elif not self.selection.is_off:
                record.value = self.selection.copy_samples(tensor, layout)
        return record

    def _summarize(self, tensor: Tensor, layout: UnitLayout | None, base: str | None = None, of: str = VALUE) -> int:
        """Add a tensor to the summary. Returns its row.

        Args:
            base: its site; None if the tensor may be overwritten, whatever is known about its site.
            of: what it is of the site: its value or a gradient.
        """
        summary = self.summary
        view, batch_dim, unit_dim = summary_view(tensor, layout, is_full=summary.is_full)
        if base is None or summary.is_on_host(view):
            return summary.add(view, batch_dim=batch_dim, unit_dim=unit_dim)
        if self.assumed_stable is not None:
            return summary.add(view, batch_dim=batch_dim, unit_dim=unit_dim, is_stable=self.assumed_stable)
        site = (base, of.partition("@")[0])
        is_stable = self._stable.find(site)
        number = self.summary.add(view, batch_dim=batch_dim, unit_dim=unit_dim, is_stable=is_stable is True)
        if is_stable is None:
            again = self.summary.add(view, batch_dim=batch_dim, unit_dim=unit_dim, is_stable=True)
            self._checks.append((site, number, again))
        return number

    def learn_stable_sites(self) -> None:
        """At the end of the step, learn which sites may be held, and note tensors that were overwritten meanwhile."""
        rows, lost = self.summary.matrix(), self.summary.lost
        for site, number, again in self._checks:
            if again in lost:
                self._stable.learn(site, is_stable=False)
            else:
                self._stable.compare(site, rows[number], rows[again])
        self._checks.clear()
        sites: dict[str, None] = {}
        for record in self.records:
            if record.number in lost:
                self._stable.learn((record.key.base, record.of.partition("@")[0]), is_stable=False)
                sites[self.site(record.key)] = None
        if sites:
            self.notes[_LOST.format(sites=listed(map(repr, sites)))] = None

    def set_layout(self, tensor: Tensor | None, record: RecordedTensor, layout: UnitLayout | None) -> None:
        """Set the layout of a recorded tensor now that it is known, and compute what depends on it.

        Args:
            tensor: None if it was overwritten in the meantime; its first statistics stay.
        """
        record.layout = layout
        if tensor is None:
            return
        if layout is not None:
            record.number = self._summarize(tensor, layout)
        record.value = self.selection.copy_samples(tensor, layout)

    def propagate_layouts(self) -> None:
        """Copy the layout of each tensor to gradients that were recorded before it was known."""
        layouts = {id(r.key): r.layout for r in self.records if r.of == VALUE and r.layout is not None}
        for record in self.records:
            if record.layout is None:
                record.layout = layouts.get(id(record.key))

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers statistics and computes them in one batched call on exit.

        Applies to tensors whose values are not stored. None of them may change inside the block.
        """
        deferred = self._deferred = [], []
        try:
            yield
        finally:
            self._deferred = None
            self._summarize_deferred(*deferred)

    def _summarize_deferred(self, tensors: list[Tensor], records: list[RecordedTensor]) -> None:
        try:
            numbers = self._summarize_all(tensors, records)
        except Exception:
            self._summarize_one_by_one(tensors, records)
            return
        for record, number in zip(records, numbers, strict=True):
            record.number = number

    def _summarize_all(self, tensors: list[Tensor], records: list[RecordedTensor]) -> list[int]:
        if not self.summary.is_full:
            return self.summary.add_many(tensors)
        pairs = zip(tensors, records, strict=True)
        views = [summary_view(tensor, record.layout, is_full=True) for tensor, record in pairs]
        return self.summary.add_many([view for view, *_ in views], [(samples, units) for _, samples, units in views])

    def _summarize_one_by_one(self, tensors: list[Tensor], records: list[RecordedTensor]) -> None:
        """Fallback of the batched call: a tensor that fails loses only its own record."""
        lost: dict[int, Exception] = {}
        for tensor, record in zip(tensors, records, strict=True):
            try:
                record.number = self._summarize(tensor, record.layout)
            except Exception as error:
                lost[id(record)] = error
        self.records = [record for record in self.records if id(record) not in lost]
        if lost:
            raise next(iter(lost.values()))

    def rekey(self, old: TensorKey, new: TensorKey) -> None:
        """Replace a key in all records that have it, gradients included."""
        for record in self.records:
            if record.key is old:
                record.key = new

    # tensors that a checkpoint recomputes

    def add_recomputed(self, tensor: Tensor, base: str) -> RecordedTensor | None:
        """Record a recomputed tensor if its first computation had no gradient; else return None.

        Which pass it belongs to is decided at the end of the step by comparing statistics: torch does not specify in
        which order checkpoints recompute.
        """
        first = self._without_grad.get(base)
        if not first:
            return None
        key, layout = TensorKey(*first[0].key), first[0].layout  # a new object: records are told apart by its identity
        number = self._summarize(tensor, layout, base)
        recomputed = RecordedTensor(key, VALUE, number, layout=layout, is_recomputed=True)
        self._recomputed.append((recomputed, list(first)))
        return recomputed

    def match_recomputed(self) -> None:
        """Find the record that each recomputed tensor belongs to."""
        rows = self.summary.matrix() if self._recomputed else None
        for recomputed, first in self._recomputed:
            assert rows is not None
            row = rows[recomputed.number]
            matches = [each for each in first if np.array_equal(rows[each.number], row, equal_nan=True)]
            self._owners[recomputed] = matches[0] if len(matches) == 1 else None
        self._recomputed.clear()

    def owner(self, record: RecordedTensor) -> RecordedTensor | None:
        """The record itself or, for a recomputed tensor, the one it belongs to; None if that is ambiguous."""
        return self._owners.get(record, record)

    def forget_identities(self) -> None:
        """Forget which tensors were recorded: the step is over, and ids may be reused."""
        self._by_id.clear()

    # results

    def batch_sizes(self) -> list[int]:
        """The number of samples of each batch of the step, as stated or as the layouts say; empty if unknown."""
        if self.selection.is_batch_size_given and self.selection.batch_size is not None:
            return [self.selection.batch_size]
        layouts = [record.layout for record in self.records if record.of == VALUE]
        sizes = [each.sizes[each.samples[0]] for each in layouts if each is not None and len(each.samples) == 1]
        return list(dict.fromkeys(sizes))

    def site(self, key: TensorKey) -> str:
        """The site of a key, with its pass if the module ran more than once."""
        has_several = self._passes.get(key.iteration, {}).get(key.pass_key, 1) > 1
        return f"{key.base}:{key.pass_}" if has_several else key.base

    def structure(self) -> tuple[Any, ...]:
        """What `rows` depends on, for comparison with other steps. Layouts are compared by identity."""
        parts: list[Any] = [
            (key, iteration) for iteration, passes in self._passes.items() for key, n in passes.items() if n > 1
        ]
        for record in self.records:
            parts += (record.key, record.of, id(record.layout), *(record.source or record).aliases)
        return tuple(parts)

    def rows(self) -> list[Row]:
        """One row per record."""
        rows = []
        for record in self.records:
            key, aliases = record.key, (record.source or record).aliases
            names = tuple(dict.fromkeys([self.site(alias) for alias in aliases])) if aliases else ()
            layout = None if record.layout is None else _pattern(record.layout)
            about = (key.role, key.node, key.part, names, layout)
            rows.append(Row(self.site(key), record.of, key.iteration, *about))
        return _deduplicate(rows)

    def recorded(self) -> list[RecordedSite]:
        """The recorded values as input of the dependency graph."""
        recorded = []
        for row, record in zip(self.rows(), self.records, strict=True):
            if record.of == VALUE:
                key = record.key
                node = row.node or (f"{row.site}~{row.iteration}" if row.iteration else "")
                has_several = self._step_passes.get(key.pass_key, 1) > 1
                site = f"{key.base}:{key.step_pass}" if has_several else key.base
                names = tuple(dict.fromkeys(name for name in (row.site, *row.names) if name != site))
                # Inside a re-entrant checkpoint, outputs seem to have no graph: rely on the trace for them.
                is_given = row.role in ("input", "target") or row.site.startswith("$")
                has_graph = record.requires_grad if is_given else None
                recorded.append(RecordedSite(site, row.role, node, row.part, names, has_graph))
        return recorded

    def values(self) -> dict[int, Raw]:
        """The stored values by row number."""
        copies = {number: r.value for number, r in enumerate(self.records) if r.value is not None}
        raws = zip(copies, to_host(list(copies.values())), strict=True)
        return {number: raw for number, raw in raws if raw is not None}

    def arrays(self) -> list[tuple[int, str, Raw]]:
        """Arrays of the level "full", statistics per unit and per sample: the row each belongs to, and its name."""
        arrays = []
        for index, record in enumerate(self.records):
            for name, array in self.summary.arrays(record.number).items():
                arrays.append((index, name, Raw.of(array)))
        return arrays


_pattern = lru_cache(1 << 12)(UnitLayout.pattern)


def _with_role(known: TensorKey, key: TensorKey) -> TensorKey:
    """A key, completed with the role and node of another key of the same tensor."""
    if known.role in ("", "value") and key.role not in ("", "value"):
        known = known._replace(role=key.role)
    if key.node and not known.node:
        known = known._replace(node=key.node, part=key.part)
    return known


def _derived_name(of: str, record: RecordedTensor) -> str:
    """The name of the next gradient or update; from the second on with its number."""
    counts = record.n_derived
    if of not in counts:  # nearly always
        record.n_derived = {**counts, of: 1} if counts else {of: 1}
        return of
    number = counts[of] + 1
    record.n_derived = {**counts, of: number}
    return f"{of}@{number}"


def _deduplicate(rows: list[Row]) -> list[Row]:
    """Make row names unique by numbering duplicates."""
    distinct: list[Row] = []
    used: set[tuple[str, str, int]] = set()
    for row in rows:
        site, number = row.site, 1
        while (site, row.of, row.iteration) in used:
            number += 1
            site = f"{row.site}:{number}"
        used.add((site, row.of, row.iteration))
        distinct.append(row if site == row.site else replace(row, site=site))
    return distinct
