"""The tail: what a model makes of a hidden state behind its last block. The model's own code does it.

All blocks are bypassed on the instance: each gives back what it was given, the last one the hidden state that is asked
about. So final norm, soft caps, scales and prediction heads are the model's, whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.rebuild import with_tensors
from cutaway.capture.model.tree import structure_of
from cutaway.capture.observe import Observation, observe
from cutaway.core.sites import Site
from cutaway.lm.model.anatomy import shortened
from cutaway.lm.model.forward_run import Reading, logits_of
from cutaway.lm.model.parts import Anatomy, Block

LIMIT = 256 * 2**20
"""Bytes of logits that are made at once, if nothing else is said."""
_MISSING: Any = object()
_returned: WeakKeyDictionary[nn.Module, tuple[int, dict[tuple[str, int], Any]]] = WeakKeyDictionary()
"""Model → (address, pass) → what that block returned once, as a pattern for what it is to return."""


def tail(reading: Reading, hidden: Tensor, rows: Any = None) -> Tensor:
    """(sample, row, class): the logits of hidden states, as they leave the last block.

    Args:
        hidden: (sample, position, d), such as `reading.hidden()`, one sample a layer.
        rows: which positions, if not all; a sequence classifier gives one row in any case.
    """
    parts = [part for _, part in tails(reading, hidden, rows, limit=2**62)]
    n_rows = 1 if is_whole(reading) else hidden.shape[1] if rows is None else len(rows)
    return torch.cat(parts).reshape(len(hidden), n_rows, -1)


def tails(reading: Reading, hidden: Tensor, rows: Any = None, *, limit: int = LIMIT) -> Iterator[tuple[slice, Tensor]]:
    """The same in pieces: (which cells, their logits (cell, class)); a cell is a sample and a row, rows running faster.

    Args:
        limit: bytes of logits that are made at once.
    """
    whole = is_whole(reading)
    chosen = hidden if whole or rows is None else hidden[:, torch.as_tensor(rows, device=hidden.device)]
    cells = chosen if whole else chosen.reshape(-1, 1, chosen.shape[-1])
    width = _n_classes(reading) * 4
    n = max(1, limit // width)
    length = len(reading.ids())
    start = 0
    while start < len(cells):
        part = cells[start : start + n]
        if not whole and len(part) > length:  # whole texts, so that nothing is filled up
            part = part[: len(part) // length * length]
        if whole:
            logits = _run(reading, part)
        else:  # as long as the text, and as many of these as are needed: then no position is beyond the context
            logits = _run(reading, part.reshape(-1, min(length, len(part)), part.shape[-1])).flatten(0, 1)
        yield slice(start, start + len(part)), logits
        start += len(part)


def _run(reading: Reading, hidden: Tensor) -> Tensor:
    n, length = hidden.shape[:2]
    name = "decoder_input_ids" if "decoder_input_ids" in reading.inputs else "input_ids"
    given = {}
    for each, value in reading.inputs.items():
        is_own = each == name or (value.shape == reading.inputs[name].shape and name == "input_ids")
        given[each] = (value[:, :length] if is_own else value).expand(n, -1)
    with reading.still(gradients=hidden.requires_grad), bypassed(reading, hidden):
        return logits_of(reading.call(given), reading.model)


@contextmanager
def bypassed(reading: Reading, hidden: Tensor) -> Iterator[None]:
    """Inside the block no block of the model does anything, and the last one returns `hidden`."""
    found = reading.anatomy
    templates = _templates(reading, found)
    modules: dict[str, list[Block]] = {}
    for stack in found.stacks:
        for block in stack.blocks:
            modules.setdefault(block.address, []).append(block)
    last = found.stack.blocks[-1]
    with ExitStack() as stack_:
        for address, blocks in modules.items():
            module = reading.model.get_submodule(address)
            stack_.callback(_put_back, module, module.__dict__.get("forward", _MISSING))
            module.__dict__["forward"] = _Bypass(blocks, templates, last, hidden)
        yield


@contextmanager
def without(reading: Reading, address: str) -> Iterator[None]:
    """Inside the block this module gives back what it is given."""
    module = reading.model.get_submodule(address)
    own = module.__dict__.get("forward", _MISSING)
    module.__dict__["forward"] = lambda value, *_, **__: value
    try:
        yield
    finally:
        _put_back(module, own)


class _Bypass:
    """Stands in the place of the forward of one module."""

    def __init__(self, blocks: list[Block], templates: Mapping[tuple[str, int], Any], last: Block, hidden: Tensor):
        self._blocks, self._templates, self._last, self._hidden = blocks, templates, last, hidden
        self._n = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        block = self._blocks[min(self._n, len(self._blocks) - 1)]
        self._n += 1
        path = Site.parse(block.input).path
        stream = args[int(path)] if path.isdigit() else kwargs[path]
        new = self._hidden.to(stream) if block is self._last else stream
        return with_tensors(self._templates[(block.address, block.pass_)], {block.out_path: new})


def _templates(reading: Reading, found: Anatomy) -> dict[tuple[str, int], Any]:
    """What each block returns, seen once on a few tokens."""
    structure = structure_of(reading.model)
    if reading.model in _returned and _returned[reading.model][0] == structure:
        return _returned[reading.model][1]
    known: dict[tuple[str, int], Any] = {}

    def note(seen: Observation) -> None:
        known[(seen.site.address, seen.site.pass_ or 1)] = seen.whole

    addresses = dict.fromkeys(block.address for each in found.stacks for block in each.blocks)
    with reading.still(), observe(reading.model, list(addresses), note):
        reading.call(shortened(reading.inputs))
    _returned[reading.model] = (structure, known)
    return known


def is_whole(reading: Reading) -> bool:
    """Whether the tail looks at all positions at once: a classifier of sequences pools, or picks one."""
    return reading.kind == "classifier" and _logits_dim(reading) == 2


def _logits_dim(reading: Reading) -> int:
    with reading.still():
        return logits_of(reading.call(shortened(reading.inputs)), reading.model).dim()


def _n_classes(reading: Reading) -> int:
    config = getattr(reading.model, "config", None)
    own = getattr(config, "num_labels" if reading.kind == "classifier" else "vocab_size", None)
    return int(own) if isinstance(own, int) else 2**16


def _put_back(module: nn.Module, forward: Any) -> None:
    if forward is _MISSING:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = forward
