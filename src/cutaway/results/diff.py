"""The result of `cutaway.diff`: the differences between two traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from cutaway.core import late
from cutaway.core.formatting import plural, ratio_text
from cutaway.core.sites import ROOT

How = Literal["new", "removed", "changed", "moved"]
Kind = Literal["op", "input", "output", "parameter", "buffer", "constant", "module"]
Aspect = Literal["function", "class", "shape", "dtype", "arguments", "inputs"]
"""What changed:

function    another function was called in its place
class       its module has another class
shape       of the value
dtype       of the value
arguments   the non-tensor arguments, or the number of tensors
inputs      it was computed from other tensors
"""
_MOST_SHOWN = 5
_SHADES = (1e-4, 1e-2, 0.2)


@dataclass(frozen=True, slots=True)
class Change:
    """One structural difference."""

    how: How
    kind: Kind
    label: str
    """Label in the second trace; in the first one if it was removed. Modules and parameters have their address."""
    site: str
    was: str
    """Its site in the first trace; "" if it is new."""
    aspects: tuple[Aspect, ...] = ()
    """What changed."""
    before: str = ""
    """Description in the first trace."""
    after: str = ""
    source: str = ""
    """The line of the program that it comes from."""

    def __str__(self) -> str:
        where = self.site if self.was in ("", self.site) else f"{self.was} → {self.site}"
        what = " → ".join(filter(None, (self.before, self.after)))
        name = where if self.label == self.site else f"{self.label} at {where}"
        return f"{SIGNS[self.how]} {self.kind} {name}" + (f": {what}" if what else "")


SIGNS: dict[How, str] = {"new": "+", "removed": "−", "changed": "~", "moved": "→"}
"""Markers of changes in text and in pictures."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance between two values, over the elements that are finite in both; relative to the first value."""

    is_equal: bool
    """Whether all elements are equal; NaN equals NaN."""
    absolute: float = 0.0
    """The largest absolute difference of two elements."""
    relative: float | None = 0.0
    """The same, relative to the largest element of the first; None if that is 0."""
    norm: float | None = 0.0
    """L2 norm of the difference, relative to that of the first; None if that is 0."""
    cosine: float | None = 1.0
    """Cosine similarity; None if one of the two is 0."""
    n_elements: int = 1
    n_different: int = 0
    n_nan: int = 0
    """Elements that are NaN in only one of the two."""
    n_inf: int = 0
    """Elements that are infinite in only one, or of opposite sign; NaN not counted."""

    @property
    def share(self) -> float:
        """Share of the elements that differ."""
        return self.n_different / self.n_elements if self.n_elements else 0.0

    @property
    def order(self) -> tuple[int, float, float]:
        """Sort key, larger for larger distances: non-finite elements first, then the norm."""
        return self.n_nan + self.n_inf, float("inf") if self.norm is None else self.norm, self.absolute

    def __str__(self) -> str:
        if self.is_equal:
            return "equal"
        odd = [f"{n:,} {what}" for n, what in ((self.n_nan, "NaN"), (self.n_inf, "Inf")) if n]
        far = "" if self.norm is None else f"{ratio_text(self.norm)} of its norm, "
        some = f"{self.n_different:,} of {self.n_elements:,} elements" if self.n_different else "no element"
        return f"{far}at most {self.absolute:.2g}, {some}" + (f" ({', '.join(odd)} in one only)" if odd else "")


@dataclass(frozen=True, slots=True)
class Compared:
    """One value that both traces have, and the distance between the two."""

    kind: Kind
    what: Literal["value", "grad"]
    label: str
    """Label in the second trace."""
    site: str
    was: str
    """Its site in the first trace."""
    distance: Distance
    backward: int | None = None
    """The backward pass a gradient belongs to, from 0; None for values."""
    is_origin: bool = False
    """Whether it differs although none of its inputs does: a difference starts here."""
    source: str = ""
    """The line of the program that it comes from; "" if both are equal."""

    @property
    def is_equal(self) -> bool:
        return self.distance.is_equal

    def __str__(self) -> str:
        name = self.site if self.label == self.site else f"{self.label} at {self.site}"
        which = "" if self.what == "value" else " gradient" + (f" {self.backward + 1}" if self.backward else "")
        return f"{name}{which}: {self.distance}"


@dataclass(frozen=True, slots=True)
class First:
    """The first op, in graph order, whose two values differ."""

    label: str
    site: str
    was: str
    source: str
    distance: Distance
    equal: tuple[str, ...]
    """Labels of its parents whose values are still equal."""
    different: tuple[str, ...]
    """Labels of its parents that differ, are new or have another shape."""
    unknown: tuple[str, ...]
    """Labels of its parents whose values one of the two traces did not save."""


@dataclass(frozen=True)
class Diff:
    """The differences between two traces. True if there are any.

    It is plain data: `to_dict` returns what `json` can write. It keeps the traces only for `draw`.
    """

    a: str
    """Description of the first trace."""
    b: str
    structure: tuple[Change, ...]
    """Everything that is new, removed, changed or moved: modules and parameters, then ops in graph order."""
    values: tuple[Compared, ...]
    """Every value that both traces have, equal or not: sources, then ops in graph order, outputs, gradients."""
    first: First | None
    """The first op whose values differ; None if none does."""
    n_ops: int
    """Number of ops in both traces."""
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""

    def __bool__(self) -> bool:
        return bool(self.structure) or any(not row.is_equal for row in self.values)

    @property
    def new(self) -> tuple[Change, ...]:
        """Ops that only the second trace has."""
        return self._changes("new")

    @property
    def removed(self) -> tuple[Change, ...]:
        """Ops that only the first trace has."""
        return self._changes("removed")

    @property
    def changed(self) -> tuple[Change, ...]:
        """Ops that both traces have, with a different function, shape, dtype, arguments or inputs."""
        return self._changes("changed")

    def _changes(self, how: How) -> tuple[Change, ...]:
        return tuple(row for row in self.structure if row.how == how and row.kind == "op")

    @property
    def modules(self) -> tuple[Change, ...]:
        """Modules that are new, removed, of another class, or at another address."""
        return tuple(row for row in self.structure if row.kind == "module")

    @property
    def parameters(self) -> tuple[Change, ...]:
        """Parameters and buffers that are new, removed, of another shape or dtype, or at another address."""
        return tuple(row for row in self.structure if row.kind in ("parameter", "buffer"))

    @property
    def outputs(self) -> tuple[Compared, ...]:
        """The outputs that both traces have, by their path."""
        return tuple(row for row in self.values if row.kind == "output")

    @property
    def different(self) -> tuple[Compared, ...]:
        """The values that differ."""
        return tuple(row for row in self.values if not row.is_equal)

    @property
    def origins(self) -> tuple[Compared, ...]:
        """The values that differ although none of their inputs does."""
        return tuple(row for row in self.values if row.is_origin)

    def largest(self, n: int = _MOST_SHOWN) -> tuple[Compared, ...]:
        """The values of ops and sources with the largest distances: NaN or Inf first, then by relative norm.

        Args:
            n: the most values to return.
        """
        rows = [row for row in self.different if row.kind != "output"]
        return tuple(sorted(rows, key=lambda row: row.distance.order, reverse=True)[:n])

    def table(self) -> Any:
        """One row per change or compared value: a pandas DataFrame if pandas is installed, else a list of dicts."""
        rows = [*map(_record_change, self.structure), *map(_record_value, self.values)]
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame.from_records(rows, columns=list(_COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers."""
        return asdict(self)

    def draw(
        self,
        path: str | PathLike[str] | None = None,
        *,
        depth: int | None = None,
        rolled: bool = False,
        direction: Literal["down", "right"] = "down",
        color_by: str | None = None,
    ) -> str | bytes:
        """Draw the second trace with all differences marked; `path` ends in .svg, .pdf, .png or .dot.

        Returns the content of the file; without a path, SVG text.

        Args:
            path: the file to write; None writes none.
            depth: how many levels of modules to open. None draws every op, except that a module that was removed as
                a whole is one box.
            rolled: whether to draw repetitions once: the passes of an op, and identical blocks.
            direction: the direction of the data flow, "down" or "right".
            color_by: "distance" for the distance between the values, or a measure of the second trace.
        """
        more = {"direction": direction, "color_by": color_by}
        picture: str | bytes = late.call("Diff.draw", self, path, depth=depth, rolled=rolled, **more)
        return picture

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write the interactive picture of the diff as one self-contained HTML file.

        Args:
            path: the file to write.
        """
        written: Path = late.call("Diff.to_html", self, path)
        return written

    def __repr__(self) -> str:
        if not self:
            equal = plural(len(self.values), "value") + " equal" if self.values else "no value compared"
            return "\n".join([f"no difference: {plural(self.n_ops, 'op')} alike, {equal}", *self._note_lines()])
        lines = [f"Diff of {self.a} and {self.b}", *self._counts(), *self._where()]
        lines += _structure(self.structure)
        if far := self.largest():
            rest = sum(row.kind != "output" for row in self.different) - len(far)
            lines += ["  furthest apart", *(f"    {row}" for row in far)]
            lines += [f"    and {rest:,} more"] if rest > 0 else []
        return "\n".join([*lines, *self._note_lines()])

    def _counts(self) -> list[str]:
        lines = []
        for kind in ("op", "module", "parameter", "buffer", "input", "output"):
            rows = [row for row in self.structure if row.kind == kind]
            counts = [(sum(row.how == how for row in rows), how) for how in SIGNS]
            parts = [f"{n:,} {how}" for n, how in counts if n]
            parts += [f"{self.n_ops:,} in both"] if kind == "op" else []
            if rows or kind == "op":
                lines.append(f"  {kind + 's':<11} {', '.join(parts)}")
        n, n_different = len(self.values), len(self.different)
        lines.append(f"  values      {n:,} compared, {n - n_different:,} equal, {n_different:,} different")
        return lines + [f"  output      {row}" for row in self.outputs[:_MOST_SHOWN]]

    def _where(self) -> list[str]:
        if self.first is None:
            return []
        first = self.first
        words = (("equal", first.equal), ("different", first.different), ("unknown", first.unknown))
        parents = "; ".join(f"{how} {', '.join(names)}" for how, names in words if names)
        lines = [f"  first       {first.label} at {first.site}: {first.distance}"]
        lines += [f"              {first.source}"] if first.source else []
        return lines + ([f"              of its parents: {parents}"] if parents else [])

    def _note_lines(self) -> list[str]:
        return [f"  note        {note}" for note in self.notes]


_COLUMNS = (
    *("what", "how", "kind", "label", "site", "was", "aspects", "before", "after", "backward", "is_equal"),
    *("absolute", "relative", "norm", "cosine", "n_elements", "n_different", "n_nan", "n_inf", "share"),
    *("is_origin", "source"),
)


def _record_change(row: Change) -> dict[str, Any]:
    """A row of the table; its keys are the attribute names."""
    return {**dict.fromkeys(_COLUMNS), "what": "structure", **asdict(row)}


def _record_value(row: Compared) -> dict[str, Any]:
    known = asdict(row)
    return {**dict.fromkeys(_COLUMNS), **known.pop("distance"), **known, "share": row.distance.share}


def shade(distance: Distance) -> int:
    """The color strength of a difference: 0 equal, 1 below 0.01 % of the norm, 2 below 1 %, 3 below 20 %, else 4."""
    if distance.is_equal:
        return 0
    if distance.norm is None or distance.n_nan or distance.n_inf:
        return 4
    return 1 + sum(distance.norm >= step for step in _SHADES)


def _structure(rows: Iterable[Change]) -> list[str]:
    """Lines on the first few changes; a module that is new or removed covers all changes inside it."""
    whole: dict[tuple[How, str], Counter[str]] = {
        (row.how, row.site): Counter() for row in rows if row.kind == "module" and row.how in ("new", "removed")
    }
    shown = []
    for row in rows:
        home = _home(row, whole)
        if home is None:
            shown.append(row)
        else:
            whole[home][row.kind] += 1
    lines = ["  structure"] if shown else []
    for row in shown[: 2 * _MOST_SHOWN]:
        inside = whole.get((row.how, row.site), Counter()) if row.kind == "module" else Counter[str]()
        more = ", ".join(plural(n, kind) for kind, n in inside.items())
        lines.append(f"    {row}" + (f" with {more}" if more else ""))
    return lines + ([f"    and {len(shown) - 2 * _MOST_SHOWN:,} more"] if len(shown) > 2 * _MOST_SHOWN else [])


def _home(row: Change, whole: Collection[tuple[How, str]]) -> tuple[How, str] | None:
    """The outermost new or removed module that contains a change; None if there is none."""
    address = row.site.split("/")[0].split(":")[0].split("@")[0]
    parts = address.split(".") if row.kind in _INSIDE and address != ROOT else []
    last = len(parts) if row.kind == "op" else len(parts) - 1
    homes = ((row.how, ".".join(parts[:n])) for n in range(1, last + 1))
    return next((home for home in homes if home in whole), None)


_INSIDE = ("op", "module", "parameter", "buffer")
