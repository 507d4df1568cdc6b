"""The grammar of filters on steps and samples: `loss > 2`, `kind = train`, `note ~ nan`, `label = 3`, `token = cat`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint, listed
from cutaway.store.format.records import VALUE
from cutaway.store.runs.run import Run

FilterSource = Literal["step", "kind", "note", "level", "logged", "field", "token", "value"]

COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=", "~")
EXAMPLES: Final = "loss > 2, kind = train, note ~ nan, label = 3, target = 3, token = cat"
_TERM: Final = re.compile(r"(.*?)\s*(!=|<=|>=|==|=|<|>|~)\s*(.*)", re.DOTALL)
_WORDS: Final[dict[str, FilterSource]] = {
    "step": "step",
    "kind": "kind",
    "note": "note",
    "level": "level",
    "token": "token",
    "tokens": "token",
}
_PREFIXES: Final[dict[str, FilterSource]] = {"logged": "logged", "sample": "field", "value": "value"}
_OF_STEPS: Final = ("step", "kind", "note", "level", "logged")
_MOST_LISTED: Final = 12
_MOST_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition, as `parse_filter` understood it."""

    source: FilterSource
    """What is compared: the step, a logged scalar, a field of the samples…"""
    name: str
    """The scalar, field or site; "" for the others."""
    comparison: str
    """One of `COMPARISONS`; "~" means contains."""
    value: str
    number: float
    """The value as a number; NaN if it is none."""

    @property
    def is_of_steps(self) -> bool:
        """Whether it is about whole steps; else it is about single samples."""
        return self.source in _OF_STEPS

    @property
    def meaning(self) -> str:
        """What it keeps, as a noun phrase."""
        than = {
            "=": "is",
            "!=": "is not",
            "<": "is below",
            "<=": "is at most",
            ">": "is above",
            ">=": "is at least",
            "~": "contains",
        }[self.comparison]
        value = self.value if math.isfinite(self.number) and self.comparison != "~" else f"“{self.value}”"
        if self.source in ("step", "kind"):
            return f"steps whose {'number' if self.source == 'step' else 'kind'} {than} {value}"
        if self.source in ("note", "level"):
            what = "whose text" if self.source == "note" else "whose level"
            return f"steps with a note {what} {than} {value}"
        if self.source == "logged":
            return f"steps whose logged {self.name} {than} {value}"
        if self.source == "token":
            return f"samples with a token that {than} {value}"
        what = f"field {self.name}" if self.source == "field" else f"recorded value {self.name}"
        return f"samples whose {what} {than} {value}"


def parse_filter(text: str, run: Run) -> Filter:
    """Read one filter: a name, a comparison and a value, which may be quoted.

    A name is `step`, `kind`, `note`, `level` or `token`; else the first of these that has it: a logged scalar, a field
    of the samples, a recorded tensor with one number per sample. `logged.loss`, `sample.loss` and `value.loss` name one
    of the three.

    Args:
        text: the filter.
        run: the run that it is about; errors list what this run has.
    """
    match = _TERM.fullmatch(text.strip())
    if match is None or not match[1] or len(text) > _MOST_CHARACTERS:
        raise InputError(
            f"{text[:60]!r} is not a filter. Write a name, one of {' '.join(COMPARISONS)} and a value: {EXAMPLES}."
        )
    name, comparison, value = match[1], "=" if match[2] == "==" else match[2], _unquoted(match[3])
    if not value:
        raise InputError(f"{text[:60]!r} lacks a value after {match[2]}. Examples: {EXAMPLES}.")
    source, found = _source(name, run)
    number = _number(value)
    if comparison in ("<", "<=", ">", ">=") and math.isnan(number):
        raise InputError(f"{match[2]} compares numbers, and {value[:40]!r} is none. For texts, use =, != or ~.")
    if source in ("note", "level", "kind", "token") and comparison not in ("=", "!=", "~"):
        raise InputError(f"{name} is a text: compare it with =, != or ~ (contains).")
    if source in ("step", "logged") and (comparison == "~" or math.isnan(number)):
        raise InputError(f"{name} is a number: compare it with =, !=, <, <=, > or >= and a number.")
    return Filter(source, found, comparison, value, number)


def _source(name: str, run: Run) -> tuple[FilterSource, str]:
    if name.casefold() in _WORDS:
        return _WORDS[name.casefold()], ""
    fields = sample_fields(run)
    values = sites_with_samples(run)
    known: dict[FilterSource, Sequence[str]] = {"logged": tuple(run.scalars), "field": fields, "value": values}
    prefix, _, rest = name.partition(".")
    if prefix in _PREFIXES and _spelled(rest, known[_PREFIXES[prefix]]):
        return _PREFIXES[prefix], _spelled(rest, known[_PREFIXES[prefix]])
    for source, names in known.items():
        if _spelled(name, names):
            return source, _spelled(name, names)
    has = [
        f"{title}: {listed(names, _MOST_LISTED) or 'none'}"
        for title, names in (
            ("logged", known["logged"]),
            ("fields of samples", fields),
            ("recorded values with one number per sample", values),
        )
    ]
    every = [*_WORDS, *known["logged"], *fields, *values]
    raise InputError(
        f"this run has nothing called {name[:60]!r}.{hint(name, every)} "
        f"Filters know step, kind, note, level and token; {'; '.join(has)}."
    )


def _spelled(name: str, names: Sequence[str]) -> str:
    """The name as the run spells it: `id` is the field `ids`, `target` the tensor `$target`; "" if it has none."""
    return next((spelled for spelled in (name, "ids" if name == "id" else name, f"${name}") if spelled in names), "")


def sample_fields(run: Run) -> tuple[str, ...]:
    """The fields of samples at any step, without `tokens`."""
    rows = (row.site for schema in run.timeline.schemas for row in schema.rows if row.is_sample)
    return tuple(name for name in dict.fromkeys(rows) if name != "tokens")


def sites_with_samples(run: Run) -> tuple[str, ...]:
    """Inputs, targets and tensors that the user named, of which values with one number per sample were kept."""
    found: dict[str, None] = {}
    for index in run.sessions:
        for layout in index.layouts.values():
            schema = index.schemas.get(layout.schema)
            for row_number, shape in zip(layout.rows, layout.shapes, strict=True):
                row = None if schema is None or row_number >= len(schema.rows) else schema.rows[row_number]
                if row is not None and row.of == VALUE and not row.is_sample and is_number_per_sample(row.role, shape):
                    found[row.base] = None
    return tuple(found)


def is_number_per_sample(role: str, shape: tuple[int, ...]) -> bool:
    """Whether a kept value has one number for each sample: `[n]` or `[n, 1]`, and is not part of the model."""
    return role not in ("parameter", "buffer") and len(shape) in (1, 2) and math.prod(shape[1:]) == 1


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("−", "-"))
    except ValueError:
        return math.nan
