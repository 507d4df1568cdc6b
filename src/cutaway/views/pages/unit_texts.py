"""Texts colored by units: sentences colored by several units, and the top contexts of one unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import nearest_hint, plural, type_text
from cutaway.results.neurons.words import Context, TopContexts
from cutaway.store.activations.activations import Activations
from cutaway.views.pages.model import ColoredText, Page, Section, Text

Scale = Literal["std", "raw"]
"""What colors tokens: z-scores over all rows, or raw values."""
_AROUND = 8


def units_text(
    acts: Activations,
    units: int | str | Iterable[int | str],
    items: Sequence[int] | None = None,
    *,
    n: int = 12,
    scale: Scale = "std",
    title: str = "",
) -> ColoredText:
    """Sentences colored by units, one channel per unit.

    >>> acts = Activations.of({"h": np.array([[0.0, 1], [2, 1], [4, 1]])}, words=[["a", "b"], ["c"]])
    >>> text = units_text(acts, ["h#0"], scale="raw")
    >>> text.channels, [(each.tokens, each.values) for each in text.texts]
    (('h#0',), [(('c',), ((4.0,),)), (('a', 'b'), ((0.0, 2.0),))])

    Args:
        acts: activations of text.
        units: indices or names.
        items: indices of the sentences; default: the `n` sentences with the strongest activation of any unit.
        n: the number of sentences if `items` is not given.
        scale: "std" colors by z-scores over all rows, "raw" by the values themselves.
        title: the title of the block.
    """
    if not isinstance(acts, Activations):
        raise InputTypeError(
            f"got {type_text(acts)}, which has no sentences: pass the result of cutaway.collect, or "
            "Activations.of(x, words=…)."
        )
    indices = unit_numbers(units, acts.names)
    values = _scale_values(acts.columns(indices), scale)  # (row, unit)
    rows_of = _strongest(acts, values, n) if items is None else [_rows(acts, item) for item in items]
    texts = [
        Text(_words(acts, rows), values[rows].T.tolist(), title=f"sentence {acts.items[rows[0]]}") for rows in rows_of
    ]
    return ColoredText([acts.names[index] for index in indices], texts, title=title)


def units_page(
    acts: Activations,
    units: int | str | Iterable[int | str],
    items: Sequence[int] | None = None,
    *,
    n: int = 12,
    scale: Scale = "std",
) -> Page:
    """Page with the sentences of `units_text`.

    Args:
        units: indices or names.
        items: indices of the sentences; default: the `n` sentences with the strongest activation of any unit.
        n: the number of sentences if `items` is not given.
        scale: "std" colors by z-scores over all rows, "raw" by the values themselves.
    """
    text = units_text(acts, units, items, n=n, scale=scale)
    n_texts = plural(len(text.texts), "sentence")
    title, sections = f"Text colored by {', '.join(text.channels)}", [Section("Sentences", blocks=[text])]
    return Page(title, f"{n_texts} of {acts.n_items:,}.", sections, topic="neurons")


def contexts_text(contexts: TopContexts, acts: Activations | None = None, *, title: str = "") -> ColoredText:
    """The top contexts of a unit; with `acts`, more of the surrounding words are shown."""
    values = None
    if acts is not None:
        values = _scale_values(acts.columns(unit_numbers(contexts.unit, acts.names)), "std")[:, 0]
    texts = [_context(each, acts, values) for each in contexts.contexts]
    return ColoredText([contexts.unit], texts, title=title)


def unit_numbers(units: int | str | Iterable[int | str], names: Sequence[str] | None) -> list[int]:
    """Indices of units given by index or name.

    >>> unit_numbers(["h#1", 0, "#2"], ["h#0", "h#1", "h#2"])
    [1, 0, 2]
    """
    several = [units] if isinstance(units, (int, str, np.integer)) else list(units)
    wanted = {unit for unit in several if isinstance(unit, str)}
    known = {} if names is None or not wanted else {name: place for place, name in enumerate(names) if name in wanted}
    return [_number(unit, known, names) for unit in several]


def _number(unit: int | str, known: dict[str, int], names: Sequence[str] | None) -> int:
    if not isinstance(unit, str):
        number = int(unit)
    elif unit in known:
        return known[unit]
    elif unit.startswith("#") and unit[1:].isdecimal():
        number = int(unit[1:])
    else:
        raise InputError(f"no unit {unit!r}." + ("" if names is None else _unit_hint(unit, names)))
    if names is not None and not 0 <= number < len(names):
        raise InputError(f"no unit {number}: there are {len(names):,} units, counted from 0.")
    return number


def _unit_hint(unit: str, names: Sequence[str]) -> str:
    """The nearest names, or an example of one."""
    return nearest_hint(unit, names) or f" Names look like {names[0]!r}; there are {len(names):,}."


def _scale_values(values: NDArray[Any], scale: Scale) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    if scale == "raw":
        return numbers
    if scale != "std":
        raise InputError(f"scale must be 'std' for z-scores or 'raw' for raw values, got {scale!r}.")
    spread = numbers.std(axis=0)
    spread[spread <= 1e-12 * np.abs(numbers).max(axis=0, initial=0.0)] = np.inf  # constant up to rounding: z-score 0
    standard: NDArray[np.float64] = (numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
    return standard


def _strongest(acts: Activations, values: NDArray[np.float64], n: int) -> list[NDArray[np.int64]]:
    """Rows of the sentences with the strongest activation of any unit, strongest first; repeated sentences once."""
    most = np.abs(values).max(axis=1, initial=0.0)
    seen: set[int] = set()
    rows_by_text: dict[tuple[str, ...], NDArray[np.int64]] = {}
    for row in np.argsort(-most, kind="stable").tolist():
        item = int(acts.items[row])
        if item not in seen:
            seen.add(item)
            rows = _rows(acts, item)
            rows_by_text.setdefault(tuple(_words(acts, rows)), rows)
        if len(rows_by_text) >= n:
            break
    return list(rows_by_text.values())


def _rows(acts: Activations, item: int) -> NDArray[np.int64]:
    rows = np.flatnonzero(acts.items == item)
    if not len(rows):
        raise InputError(f"item {item} has no row: items are numbered from {acts.items.min()} to {acts.items.max()}.")
    return rows


def _words(acts: Activations, rows: NDArray[np.int64]) -> list[str]:
    return list(acts.rows(rows).words)


def _context(context: Context, acts: Activations | None, values: NDArray[np.float64] | None) -> Text:
    title = f"sentence {context.item}"
    if acts is None or values is None:
        tokens = [*context.before, context.word, *context.after]
        place = len(context.before)
        scores = context.around or [context.score if at == place else None for at in range(len(tokens))]
        return Text(tokens, [scores], title=title, marks=[place])
    same = np.flatnonzero(acts.items == context.item)
    place = int(np.searchsorted(same, context.row))
    rows = same[max(0, place - _AROUND) : place + _AROUND + 1]
    marks = np.flatnonzero(rows == context.row).tolist()
    return Text(_words(acts, rows), [values[rows].tolist()], title=title, marks=marks)
