"""The modules of a recorded model as a table, with parameter counts: own, and including children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cutaway.core.sites import ROOT
from cutaway.store.format.records import VALUE
from cutaway.views.run.rows import RunRows

SEVERAL: Final = "_Several"
"""Class of the container that a recorder puts around several models; not a model itself."""
_COLUMNS: Final = ("parameters", "trainable", "bytes", "buffers")


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module; its children follow."""

    address: str
    """"." is the model itself."""
    name: str
    """The last part of the address."""
    class_name: str
    parent: int
    """Row of the parent; -1 for none."""
    depth: int
    n_parameters: int
    """Including children; a shared parameter counts at its first module."""
    n_trainable: int
    bytes: int
    n_buffers: int
    own_parameters: int
    """Without children."""
    own_trainable: int
    own_bytes: int
    rows: tuple[int, ...]
    """The viewer's rows of its own parameters and buffers."""


@dataclass(frozen=True, slots=True)
class NetworkView:
    """The module tree."""

    modules: tuple[ModuleRow, ...]
    n_parameters: int
    n_trainable: int
    bytes: int
    why_missing: str
    """Why there are no modules; "" if there are."""


def network_view(rows: RunRows) -> NetworkView:
    """The module tree of a run, from its newest session, in depth-first order."""
    columns = _columns(rows.run.documents.get("modules"))
    if columns is None:
        why = "this run has no record of its modules: cutaway.record writes one."
        return NetworkView((), 0, 0, 0, why)
    addresses, classes, own = columns
    known = {address: i for i, address in enumerate(addresses)}
    above = [_around(address, known) for address in addresses]
    below: dict[int, list[int]] = {}
    for i, around in enumerate(above):
        below.setdefault(around, []).append(i)
    order: list[int] = []
    stack = below.get(-1, [])[::-1]
    while stack:
        order.append(stack.pop())
        stack += below.get(order[-1], [])[::-1]
    total = [list(counts) for counts in own]
    # Children come after their parents in the order, so their totals are complete when they are added.
    for i in reversed(order):
        if above[i] >= 0:
            total[above[i]] = [a + b for a, b in zip(total[above[i]], total[i], strict=True)]
    place = {-1: -1} | {i: number for number, i in enumerate(order)}
    depth: dict[int, int] = {-1: -1}
    held = _own_rows(rows)
    modules = []
    for i in order:
        depth[i] = depth[above[i]] + 1
        address = addresses[i]
        modules.append(
            ModuleRow(
                address=address,
                name=address.rpartition(".")[2] or address,
                class_name=classes[i],
                parent=place[above[i]],
                depth=depth[i],
                n_parameters=total[i][0],
                n_trainable=total[i][1],
                bytes=total[i][2],
                n_buffers=total[i][3],
                own_parameters=own[i][0],
                own_trainable=own[i][1],
                own_bytes=own[i][2],
                rows=tuple(held.get(address, ())),
            )
        )
    n_parameters, n_trainable, n_bytes = (sum(counts[column] for counts in own) for column in range(3))
    return NetworkView(tuple(modules), n_parameters, n_trainable, n_bytes, "")


def _columns(document: Any) -> tuple[list[str], list[str], list[list[int]]] | None:
    """Addresses, classes and counts; None if the document is malformed."""
    names = ("address", "class", *_COLUMNS)
    columns = [document.get(name) for name in names] if isinstance(document, dict) else []
    lists: list[list[Any]] = [column for column in columns if isinstance(column, list)]
    if len(lists) < len(names) or len({len(column) for column in lists}) > 1:
        return None
    addresses, classes, *counts = lists
    is_text = all(isinstance(text, str) for text in (*addresses, *classes))
    is_counted = all(type(count) is int and count >= 0 for column in counts for count in column)
    if not is_text or not is_counted or len(set(addresses)) < len(addresses):
        return None
    rows = [list(row) for row in zip(*counts, strict=True)]
    if addresses[:1] == [ROOT] and classes[0] == SEVERAL and not any(rows[0]):
        return addresses[1:], classes[1:], rows[1:]
    return addresses, classes, rows


def _around(address: str, known: dict[str, int]) -> int:
    """Index of the nearest enclosing module; -1 for none."""
    at = address
    while at != ROOT and "." in at:
        at = at.rpartition(".")[0]
        if at in known:
            return known[at]
    return known.get(ROOT, -1) if address != ROOT else -1


def _own_rows(rows: RunRows) -> dict[str, list[int]]:
    """Module → rows of its own parameters and buffers."""
    by_module: dict[str, list[int]] = {}
    for number, row in enumerate(rows.rows):
        if row.role in ("parameter", "buffer") and row.of == VALUE:
            by_module.setdefault(row.site.rpartition(".")[0] or ROOT, []).append(number)
    return by_module
