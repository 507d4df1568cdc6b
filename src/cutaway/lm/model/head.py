"""The logits of hidden states, computed by the model's own code after its last block.

All blocks are bypassed on the instance: each returns its input, and the last one returns the given hidden state. So the
final norm, soft caps, scales and prediction heads are the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.rebuild import with_tensors
from cutaway.capture.model.forward import replace_forward
from cutaway.capture.model.tree import structure_of
from cutaway.capture.observe import Observation, observe
from cutaway.core.sites import Site
from cutaway.lm.model.anatomy import shorten
from cutaway.lm.model.forward_run import PromptRun, logits_of
from cutaway.lm.model.parts import Anatomy, Block

LIMIT = 256 * 2**20
"""Bytes of logits computed at once, by default."""
_block_outputs: WeakKeyDictionary[nn.Module, tuple[int, dict[tuple[str, int], Any]]] = WeakKeyDictionary()
"""Model → (address, pass) → an example output of that block, as the template for bypassed outputs."""


def head_logits(run: PromptRun, hidden: Tensor, rows: Any = None) -> Tensor:
    """(sample, row, class): the logits of hidden states at the output of the last block.

    Args:
        hidden: (sample, position, d), such as `run.hidden()`, one sample per layer.
        rows: which positions; all by default. A sequence classifier always gives one row.
    """
    parts = [part for _, part in iter_head_logits(run, hidden, rows, limit=2**62)]
    n_rows = 1 if is_pooled(run) else hidden.shape[1] if rows is None else len(rows)
    return torch.cat(parts).reshape(len(hidden), n_rows, -1)


def iter_head_logits(
    run: PromptRun, hidden: Tensor, rows: Any = None, *, limit: int = LIMIT
) -> Iterator[tuple[slice, Tensor]]:
    """`head_logits` in chunks: (cells, logits (cell, class)). A cell is a sample and a row; rows vary fastest.

    Args:
        limit: bytes of logits computed at once.
    """
    is_whole_text = is_pooled(run)
    chosen = hidden if is_whole_text or rows is None else hidden[:, torch.as_tensor(rows, device=hidden.device)]
    cells = chosen if is_whole_text else chosen.reshape(-1, 1, chosen.shape[-1])
    width = n_classes(run) * 4
    n = max(1, limit // width)
    length = len(run.ids())
    start = 0
    while start < len(cells):
        part = cells[start : start + n]
        if not is_whole_text and len(part) > length:  # a multiple of the text length, so that reshape works
            part = part[: len(part) // length * length]
        if is_whole_text:
            logits = _run(run, part)
        else:  # rows of at most the text length, so that no position exceeds the context
            logits = _run(run, part.reshape(-1, min(length, len(part)), part.shape[-1])).flatten(0, 1)
        yield slice(start, start + len(part)), logits
        start += len(part)


def _run(run: PromptRun, hidden: Tensor) -> Tensor:
    n, length = hidden.shape[:2]
    name = "decoder_input_ids" if "decoder_input_ids" in run.inputs else "input_ids"
    given = {}
    for each, value in run.inputs.items():
        is_own = each == name or (value.shape == run.inputs[name].shape and name == "input_ids")
        given[each] = (value[:, :length] if is_own else value).expand(n, -1)
    with run.eval_mode(gradients=hidden.requires_grad), bypass_blocks(run, hidden):
        return logits_of(run.call(given), run.model)


@contextmanager
def bypass_blocks(run: PromptRun, hidden: Tensor) -> Iterator[None]:
    """Context manager: all blocks return their input, and the last one returns `hidden`."""
    parts = run.anatomy
    templates = _templates(run, parts)
    modules: dict[str, list[Block]] = {}
    for stack in parts.stacks:
        for block in stack.blocks:
            modules.setdefault(block.address, []).append(block)
    last = parts.stack.blocks[-1]
    with ExitStack() as forwards:
        for address, blocks in modules.items():
            module = run.model.get_submodule(address)
            forwards.enter_context(replace_forward(module, _Bypass(blocks, templates, last, hidden)))
        yield


@contextmanager
def bypass_module(run: PromptRun, address: str) -> Iterator[None]:
    """Context manager: this module returns its input."""
    module = run.model.get_submodule(address)
    with replace_forward(module, lambda value, *_, **__: value):
        yield


class _Bypass:
    """Replaces the forward of one module."""

    def __init__(self, blocks: list[Block], templates: Mapping[tuple[str, int], Any], last: Block, hidden: Tensor):
        self._blocks, self._templates, self._last, self._hidden = blocks, templates, last, hidden
        self._n = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        block = self._blocks[min(self._n, len(self._blocks) - 1)]
        self._n += 1
        # Blocks take the stream as the first argument or by keyword, depending on the model.
        path = Site.parse(block.input).path
        stream = args[int(path)] if path.isdigit() else kwargs[path]
        new = self._hidden.to(stream) if block is self._last else stream
        return with_tensors(self._templates[(block.address, block.pass_)], {block.out_path: new})


def _templates(run: PromptRun, parts: Anatomy) -> dict[tuple[str, int], Any]:
    """An example output of each block, from a run on a few tokens."""
    structure = structure_of(run.model)
    if run.model in _block_outputs and _block_outputs[run.model][0] == structure:
        return _block_outputs[run.model][1]
    known: dict[tuple[str, int], Any] = {}

    def note(seen: Observation) -> None:
        known[(seen.site.address, seen.site.pass_ or 1)] = seen.whole

    addresses = dict.fromkeys(block.address for each in parts.stacks for block in each.blocks)
    with run.eval_mode(), observe(run.model, list(addresses), note):
        run.call(shorten(run.inputs))
    _block_outputs[run.model] = (structure, known)
    return known


def is_pooled(run: PromptRun) -> bool:
    """Whether the head uses all positions at once: a sequence classifier pools them, or picks one."""
    return run.kind == "classifier" and _logits_dim(run) == 2


def _logits_dim(run: PromptRun) -> int:
    with run.eval_mode():
        return logits_of(run.call(shorten(run.inputs)), run.model).dim()


def n_classes(run: PromptRun) -> int:
    """Number of classes that the logits score, for memory estimates; a large number if the config does not say."""
    config = getattr(run.model, "config", None)
    size = getattr(config, "num_labels" if run.kind == "classifier" else "vocab_size", None)
    return int(size) if isinstance(size, int) else 2**16
