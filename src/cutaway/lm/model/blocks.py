"""Finds blocks: modules of one list that run one after another, each on the output of the previous one."""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.core.sites import Site
from cutaway.lm.model.wiring import Wiring

_USER_NAMED = ""
"""Group of blocks named by the user; always treated as a list of blocks."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Module calls in the order in which they run, and the stream between them."""

    calls: tuple[int, ...]
    inputs: tuple[int, ...]
    """Node of the stream at the input of each call."""
    outputs: tuple[int, ...]
    out_path: str


def find_chains(wiring: Wiring, pattern: str | None = None) -> list[Chain]:
    """All outermost chains of blocks, in the order in which they run.

    A list with a single block does not repeat; being in a list is enough there.
    """
    groups: dict[tuple[int, str], list[int]] = {}
    asked = None if pattern is None else Site.parse(pattern)
    for call in range(1, len(wiring.rows)):
        row = wiring.rows[call]
        key = wiring.address(call)
        holder, _, last = key.rpartition(".")
        if last.isdigit() and holder:
            key = holder
        if asked is None:
            groups.setdefault((row.parent, key), []).append(call)
        elif asked.covers_address(wiring.address(call)):
            groups.setdefault((0, _USER_NAMED), []).append(call)
    # A module without a forward is a container, such as nn.ModuleList.
    listed = {_USER_NAMED} | {row.addresses[0] for row in wiring.trace.tables.modules if not row.has_forward}
    chains = [chain for (_, key), calls in groups.items() for chain in _chains(wiring, calls, is_list=key in listed)]
    chains = [chain for chain in chains if _is_stream(wiring, chain)]
    # A block may contain chains of its own, such as an nn.Sequential in its feed-forward network.
    inside = {call for chain in chains for call in chain.calls}
    outermost = [c for c in chains if not inside.intersection(wiring.calls_from(wiring.rows[c.calls[0]].parent))]
    return _longest(wiring, sorted(outermost, key=lambda chain: chain.calls[0]))


def _chains(wiring: Wiring, calls: list[int], *, is_list: bool) -> list[Chain]:
    """The calls of one group, split wherever a call does not take the output of the previous one."""
    chains: list[Chain] = []
    run: list[int] = []
    links: list[tuple[int, str]] = []
    for call in calls:
        link = _link(wiring, run[-1], call) if run else None
        if link is None and run:
            chains += _chain(wiring, run, links, is_list=is_list)
            run, links = [], []
        if link is not None:
            links.append(link)
        run.append(call)
    return chains + _chain(wiring, run, links, is_list=is_list)


def _link(wiring: Wiring, call: int, next_call: int) -> tuple[int, str] | None:
    """The stream between two calls: its node, and its path in the output."""
    given = {node for _, node in wiring.rows[next_call].inputs}
    taken = [node for _, node in wiring.rows[call].inputs]
    shapes = {wiring.shape(node) for _, node in wiring.rows[next_call].outputs}
    for path, node in wiring.rows[call].outputs:
        # What is passed through unchanged (mask, position embeddings) is not the stream.
        is_stream = node in given and node not in taken and _is_hidden_state(wiring, node)
        if is_stream and wiring.shape(node) in shapes:
            return node, path
    return None


def _chain(wiring: Wiring, calls: list[int], links: list[tuple[int, str]], *, is_list: bool) -> list[Chain]:
    rows = wiring.rows
    if not calls or (len(calls) == 1 and not is_list):
        return []
    if len(calls) > 1 and not is_list and len({rows[call].module for call in calls}) > 1:
        modules = wiring.trace.tables.modules
        if len({modules[rows[call].module].class_name for call in calls}) > 1:
            return []
    paths = {path for _, path in links}
    ends = [(path, node) for path, node in rows[calls[-1]].outputs if _is_hidden_state(wiring, node)]
    end = next(((path, node) for path, node in ends if not paths or path in paths), None)
    if end is None:
        return []
    path = links[0][1] if links else end[0]
    shape = wiring.shape(links[0][0]) if links else wiring.shape(end[1])
    starts = [node for _, node in rows[calls[0]].inputs if wiring.is_float(node) and wiring.shape(node) == shape]
    if not starts:
        return []
    outputs = (*(node for node, _ in links), end[1])
    return [Chain(tuple(calls), (starts[0], *outputs[:-1]), outputs, path)]


def _is_hidden_state(wiring: Wiring, node: int) -> bool:
    return wiring.is_float(node) and len(wiring.shape(node) or ()) == 3


def _is_stream(wiring: Wiring, chain: Chain) -> bool:
    """Whether a chain leads to the logits and uses weights."""
    end = chain.outputs[-1]
    logits = wiring.logits()
    leads = end == logits or end in wiring.ancestors(logits)
    return leads and any(wiring.is_weight(node) for node in wiring.ancestors(end) - wiring.ancestors(chain.inputs[0]))


def _longest(wiring: Wiring, chains: list[Chain]) -> list[Chain]:
    """The long chains if there are several; short ones belong to the embedding or the head."""
    most = max((len(chain.calls) for chain in chains), default=0)
    return [chain for chain in chains if 2 * len(chain.calls) >= most]
