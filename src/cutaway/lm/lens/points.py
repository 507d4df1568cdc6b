"""Where a lens reads the residual stream: before the first block, after each, and on request inside blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.lm.arguments import as_list
from cutaway.lm.model.parts import Block, Contribution, Stack

EMBEDDING = "embedding"
PARTS = ("attention", "mlp", "block")
_CROSS = "cross-attention"


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the residual stream."""

    name: str
    site: str


def points(stack: Stack, after: str | Sequence[str]) -> tuple[list[Point], list[str]]:
    """The points in order, ending with the end of the stack; and notes about them.

    Args:
        after: "block", "attention", "mlp", or several of them.
    """
    asked = set(as_list(after))
    if not asked or asked - {*PARTS}:
        raise InputError(f"after={after!r}: give {', '.join(map(repr, PARTS))}, or several of these.")
    last = stack.blocks[-1]
    places = [Point(EMBEDDING, stack.stream[0])]
    seen: set[str] = set()
    for block in stack.blocks:
        inner = [each for each in _inside(block) if each[0] in asked]
        seen |= {kind for kind, _ in inner}
        ends_so = "mlp" in asked and bool(block.contributions) and block.contributions[-1].kind == "mlp"
        places += [point for kind, point in inner if point.site != block.output]
        if "block" in asked or ends_so or block is last:
            places.append(Point(str(block.index), block.output))
            seen |= {"mlp"} if ends_so else set()
    return places, _notes(stack, asked - {"block"} - seen, bool(asked & {"attention"} & seen))


def _inside(block: Block) -> Iterator[tuple[str, Point]]:
    """The stream after each addition but the last: the kind of the added part, and the point."""
    before = 0
    for added in block.added:
        new = block.contributions[before : added.n]
        before = added.n
        # Parts that are added at once have no point between them; after the last part, the point is the output of the
        # block.
        if len(new) != 1 or added.n == len(block.contributions):
            continue
        site = added.cheaper_site if block.is_residual else _norm_output(added.cheaper_site)
        yield new[0].kind, Point(f"{block.index} {_part_name(new[0])}", site)


def _norm_output(site: str) -> str:
    """The output of the norm that takes a sum, in models with norms in the residual stream."""
    parsed = Site.parse(site)
    return str(replace(parsed, side=None, path="")) if parsed.side == "in" else site


def _part_name(part: Contribution) -> str:
    return _CROSS if part.heads is not None and part.heads.is_cross else part.kind


def _notes(stack: Stack, absent: set[str], is_inside: bool) -> list[str]:
    notes = [
        f"no point after {part} alone: blocks add it together with other parts, or have none."
        for part in sorted(absent)
    ]
    if is_inside and not stack.is_residual:
        notes.append("this model has norms in its residual stream: points inside blocks are read after them.")
    return notes
