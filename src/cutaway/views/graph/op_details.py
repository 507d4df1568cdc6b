"""The details of an op for the inspector: facts, arguments, source, values and gradients."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cutaway.core.errors import CutawayError
from cutaway.core.formatting import human_bytes, human_number, human_seconds, plural
from cutaway.graph.argument_text import value_text
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.layout.graph_view import plain
from cutaway.views.values.image import Layout
from cutaway.views.values.numbers import MOST_ELEMENTS, reason_of
from cutaway.views.values.value_view import MOST_PIXELS, ValuePicture, printable, value_picture

_AROUND: Final = 6
"""Lines of source shown before and after the line of the op."""
_MOST_ARGUMENTS, _MOST_TEXT, _MOST_PARAMETERS = 64, 300, 16
_BYTES_PER_PIXEL: Final = 4 / 3
"""Pixels are sent as base64."""
_BYTES_OF_WORDS: Final = 2_500
"""Assumed size of the text of an op, before it is known."""
_FEWEST_PIXELS: Final = 64
_MOST_SAMPLED: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call."""

    name: str
    """Its position or keyword, with its index if it is part of a list: `0`, `dim`, `0.2`."""
    text: str
    row: int | None
    """The row of the tensor; None for other arguments."""


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's code with the lines around it."""

    file: str
    function: str
    line: int
    first: int
    """The line number of the first line of `text`."""
    text: tuple[str, ...]
    """Empty if the file is no longer available."""


@dataclass(frozen=True, slots=True)
class ParameterPicture:
    """A parameter that an op reads."""

    name: str
    shape: str
    value: ValuePicture | None
    grad: ValuePicture | None


@dataclass(frozen=True, slots=True)
class OpDetails:
    """The details of one op or source."""

    row: int
    label: str
    site: str
    kind: str
    function: str
    facts: tuple[tuple[str, str], ...]
    """(name, value)."""
    arguments: tuple[Argument, ...]
    source: Source | None
    stack: tuple[tuple[str, int, str], ...]
    """(file, line, function), innermost first."""
    tests: tuple[str, ...]
    """The tests that it decided, and the branches in which it ran."""
    parameters: tuple[ParameterPicture, ...]
    value: ValuePicture | None
    missing: str
    """Why the value is missing; empty if it is there."""
    grad: ValuePicture | None


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """How much detail to compute for values."""

    most_pixels: int = MOST_PIXELS
    """Of each picture; 0 for no picture and no histogram."""
    most_elements: int = MOST_ELEMENTS
    """Larger values are sampled."""
    with_parameters: bool = True
    """Whether to include the values of parameters."""
    with_files: bool = True
    """Whether to read source files; otherwise only the line saved with the trace is shown."""


def detail(trace: Trace, row: int, most_pixels: int = MOST_PIXELS, *, with_files: bool = True) -> OpDetails:
    """The details of one row of a trace.

    Args:
        most_pixels: of each picture.
        with_files: whether source files may be read. A trace from an untrusted source can name any file.
    """
    return _detail(Op(trace, row), DetailLevel(most_pixels, with_files=with_files))


def _detail(op: Op, level: DetailLevel) -> OpDetails:
    stack = op.stack
    value, missing = _value(op, level)
    return OpDetails(
        row=op.node,
        label=printable(op.label),
        site=printable(op.site),
        kind=op.kind,
        function=printable(op.function),
        facts=tuple((what, printable(text)) for what, text in _facts(op)),
        arguments=tuple(_arguments(op)),
        source=_source(op, with_files=level.with_files),
        stack=tuple((printable(place.file), place.line, printable(place.function)) for place in stack),
        tests=tuple(printable(text) for text in _tests(op)),
        parameters=_parameters(op, level),
        value=value,
        missing=printable(missing),
        grad=_grad(op, level),
    )


def details(trace: Trace, rows: Sequence[int], budget_bytes: int = 12_000_000) -> dict[int, OpDetails]:
    """The details of many rows, reduced until they fit into `budget_bytes` of JSON.

    Pictures get smaller first. Then pictures of parameters, the context of source lines, all pictures and the stacks
    are left out; in the end, whole rows.
    """
    wanted = list(dict.fromkeys(row for row in rows if row >= 0))
    by_row: dict[int, OpDetails] = {}
    # The braces of the JSON object take two.
    left = budget_bytes - 2
    enough = 0
    for i, row in enumerate(wanted):
        share = left // (len(wanted) - i)
        for n_cuts, reduced in enumerate(_reductions(_detail(Op(trace, row), _level_for(share)))):
            if n_cuts < enough - 1:  # skip reductions that were too small for the previous row
                continue
            size = len(json.dumps(plain(reduced))) + len(f'"{row}": , ')
            if size <= share:
                by_row[row] = reduced
                left -= size
                enough = n_cuts
                break
    return by_row


def _level_for(n_bytes: int) -> DetailLevel:
    """The level that fits into this many bytes. Text takes some, and an op with parameters has several pictures."""
    pixels = min(MOST_PIXELS, int((n_bytes - _BYTES_OF_WORDS) / _BYTES_PER_PIXEL / 2))
    return DetailLevel(
        pixels if pixels >= _FEWEST_PIXELS else 0, _MOST_SAMPLED, with_parameters=pixels >= _FEWEST_PIXELS
    )


def _reductions(whole: OpDetails) -> Iterator[OpDetails]:
    """The whole detail, then versions with less and less in them."""
    yield whole
    bare = tuple(replace(p, value=_without_image(p.value), grad=_without_image(p.grad)) for p in whole.parameters)
    yield (reduced := replace(whole, parameters=bare))
    yield (reduced := replace(reduced, source=_one_line(reduced.source)))
    yield (reduced := replace(reduced, value=_without_image(reduced.value), grad=_without_image(reduced.grad)))
    unseen = tuple(replace(p, value=None, grad=None) for p in reduced.parameters)
    yield (reduced := replace(reduced, parameters=unseen, stack=()))
    yield (reduced := replace(reduced, value=_bare(reduced.value), grad=_bare(reduced.grad)))
    yield (reduced := replace(reduced, source=None, tests=(), parameters=()))
    yield (reduced := replace(reduced, arguments=()))
    missing = reduced.missing or ("left out to keep this file small" if reduced.value else "")
    yield replace(reduced, value=None, grad=None, missing=missing[:_MOST_TEXT])


def _one_line(source: Source | None) -> Source | None:
    if source is None or not source.text:
        return source
    at = source.line - source.first
    return replace(source, first=source.line, text=source.text[at : at + 1])


def _without_image(picture: ValuePicture | None) -> ValuePicture | None:
    return None if picture is None else replace(picture, image=None)


def _bare(picture: ValuePicture | None) -> ValuePicture | None:
    return None if picture is None else replace(picture, image=None, histogram=None, text=picture.text[:100])


# facts


def _facts(op: Op) -> Iterator[tuple[str, str]]:
    trace = op.trace
    if op.shape is not None:
        yield "shape", shown_shape(op.shape)
    if op.dtype is not None:
        yield "dtype", op.dtype
    if op.device is not None:
        yield "device", op.device
    if op.bytes:
        yield "size", human_bytes(op.bytes)
    if not op.is_source:
        yield "time", human_seconds(op.seconds)
    if op.flops:
        yield "FLOPs", human_number(op.flops)
    module = op.module
    if module is not None:
        tables = trace.tables
        n_runs = len(tables.modules[tables.calls[module.number].module].calls)
        run = f", run {module.pass_} of {n_runs}" if n_runs > 1 else ""
        yield "module", f"{module.address} ({module.class_name}{run})"
    if op.groups:
        yield "inside", " › ".join(op.groups)
    if op.position is not None:
        yield "position", f"{op.position + 1} of {len(trace)}"
    if op.output_path and (n_results := len(op.siblings)) > 1:
        yield "result", f"{op.output_path}, one of {n_results}"
    if not op.is_source and op.n_passes > 1:
        yield "pass", f"{op.loop_pass} of {op.n_passes}"
    yield from _place(op)
    yield from _peculiarities(op)


def _place(op: Op) -> Iterator[tuple[str, str]]:
    tables = op.trace.tables
    for what, places in (("input", tables.inputs), ("output", tables.outputs)):
        paths = [path for path, node in places if node == op.node]
        if paths:
            yield what, ", ".join(path or f"the {what} itself" for path in paths)
    names = [f"${name}" for name, node in tables.named.items() if node == op.node]
    if names:
        yield "name", ", ".join(names)
    for what, distance in (("from input", op.distance_from_input), ("to output", op.distance_to_output)):
        if distance:
            yield what, plural(distance, "step")


def _peculiarities(op: Op) -> Iterator[tuple[str, str]]:
    if op.is_inplace:
        yield "in place", "overwrote its argument"
    if op.is_identity:
        yield "identity", "returned its input unchanged"
    if op.is_opaque:
        yield "opaque", "code that could not be traced"
    if op.is_alias_write:
        yield "shared memory", "changed through another tensor"
    if op.writes:
        yield "writes", ", ".join(op.writes)
    if op.is_branch:
        yield "branch", "used only to decide a branch"
    grads = op.trace.tables.nodes.grads.get(op.node)
    if grads and op.trace.n_backwards > 1:
        yield "gradients", f"{len(grads)} in {op.trace.n_backwards} backward passes; the last is shown"


def shown_shape(shape: Sequence[int]) -> str:
    """
    >>> shown_shape((8, 3)), shown_shape(())
    ('8 × 3', 'scalar')
    """
    return " × ".join(map(str, shape)) or "scalar"


# arguments


def _arguments(op: Op) -> Iterator[Argument]:
    arguments = [*((str(i), value) for i, value in enumerate(op.args)), *op.kwargs.items()]
    left = _MOST_ARGUMENTS
    for name, value in arguments:
        for argument in _expand(name, value, left):
            yield argument
            left -= 1
            if not left:
                yield Argument("…", "and more", None)
                return


def _expand(name: str, value: Any, most: int) -> Iterator[Argument]:
    """An argument as text; one that contains tensors is split into its parts."""
    if isinstance(value, Op):
        shape = value.shape
        what = f"{value.dtype} {list(shape)}" if shape is not None else f"{value.dtype}"
        yield Argument(printable(name), printable(f"{value.label}: {what}"), value.node)
        return
    parts: list[tuple[str, Any]] = []
    if isinstance(value, (list, tuple)):
        parts = [(str(i), part) for i, part in enumerate(value)]
    elif isinstance(value, Mapping):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, slice):
        parts = [("start", value.start), ("stop", value.stop), ("step", value.step)]
    if any(_holds_op(part) for _, part in parts):
        for key, part in parts[: most + 1]:
            yield from _expand(f"{name}.{key}", part, most)
        return
    text = value_text(value, lambda _: False)
    yield Argument(printable(name), printable(text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"), None)


def _holds_op(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_op, value))
    if isinstance(value, Mapping):
        return any(map(_holds_op, value.values()))
    if isinstance(value, slice):
        return any(map(_holds_op, (value.start, value.stop, value.step)))
    return isinstance(value, Op)


# source


def _source(op: Op, *, with_files: bool) -> Source | None:
    place = op.source
    if place is None:
        return None
    lines = linecache.getlines(place.file) if with_files else []
    first, line = max(place.line - _AROUND, 1), place.text
    text = lines[first - 1 : place.line + _AROUND]
    if not 0 < place.line <= len(lines) or lines[place.line - 1].strip() != line:
        # The file is gone or has changed since the trace was made.
        first, text = place.line, [line] if line else []
    return Source(
        file=printable(place.file),
        function=printable(place.function),
        line=place.line,
        first=first,
        text=tuple(printable(line.rstrip().expandtabs(4)) for line in text),
    )


def _tests(op: Op) -> Iterator[str]:
    for conditional in op.conditionals:
        test = conditional.kind if conditional.test is None else f"{conditional.kind} {conditional.test}"
        gave = "" if conditional.value is None else f": {conditional.value}"
        took = "" if conditional.arm is None else f", so {conditional.arm!r}"
        yield f"decided “{test}”{gave}{took} (line {conditional.source.line})"
    for conditional, arm in op.arms:
        test = conditional.kind if conditional.test is None else f"{conditional.kind} {conditional.test}"
        yield f"ran in {arm!r} of “{test}” (line {conditional.source.line})"


# values


def _value(op: Op, level: DetailLevel) -> tuple[ValuePicture | None, str]:
    try:
        return _picture(op, op.value, level), ""
    except CutawayError as error:
        return None, str(error)
    except Exception as error:  # a value that is stored elsewhere and cannot be read
        return None, f"the value could not be read: {reason_of(error)}."


def _grad(op: Op, level: DetailLevel) -> ValuePicture | None:
    if op.node not in op.trace.tables.nodes.grads:
        return None
    try:
        grad = op.grad
    except Exception:  # not stored, or cannot be read
        return None
    return None if grad is None else _picture(op, grad, level)


def _parameters(op: Op, level: DetailLevel) -> tuple[ParameterPicture, ...]:
    less = replace(level, most_pixels=level.most_pixels // 2)
    return tuple(
        ParameterPicture(
            name=printable(parameter.label),
            shape=shown_shape(parameter.shape or ()),
            value=_value(parameter, less)[0] if level.with_parameters else None,
            grad=_grad(parameter, less) if level.with_parameters else None,
        )
        for parameter in op.parameters[:_MOST_PARAMETERS]
    )


def _picture(op: Op, value: Any, level: DetailLevel) -> ValuePicture:
    """The picture of a value or gradient of an op, laid out by the meaning of its dimensions."""
    return value_picture(
        value,
        level.most_pixels,
        layout=Layout(_units(op) if level.most_pixels else None, is_batched=op.kind not in (PARAMETER, BUFFER)),
        dtype=op.dtype,
        most_elements=level.most_elements,
    )


def _units(op: Op) -> int | None:
    """The unit dimension, if it is known."""
    layout = op.unit_layout
    return layout.unit_dim if len(op.shape or ()) > 2 and layout.is_known else None
