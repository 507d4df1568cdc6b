"""Activation patching for language models: copies values of a clean run into a corrupted one, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.core.errors import InputError
from cutaway.core.progress import progress
from cutaway.lm.generation.classes import Classes, label_names
from cutaway.lm.generation.generate import start_token
from cutaway.lm.generation.model_kind import kind_of
from cutaway.lm.generation.prompts import Prompt, encode_prompt
from cutaway.lm.generation.tokens import TokenReader
from cutaway.lm.model.forward_run import PromptRun, ValueFn, logits_of, prompt_run
from cutaway.lm.model.language_model import check_ids, check_length, eager_module, vocab_size
from cutaway.results.lm.generation import GenerationKind
from cutaway.results.patching import Patching

PatchedPart = Literal["stream", "attention", "mlp", "heads"]
"""What is patched in each layer:

stream      the output of the block
attention   what its attention adds to the residual stream
mlp         what its feed-forward network adds
heads       each of its heads, at the input of the output projection
"""
_TOKENS_AT_ONCE = 1024
"""How many tokens run as one batch; more take memory and are not faster."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the result: a layer, or a head of it."""

    site: str
    name: str
    head: int = -1
    units: slice = field(default_factory=lambda: slice(None))
    """Units of the last dimension that belong to the head."""


def patch(
    model: Any,
    tokenizer: Any,
    *,
    clean: Any,
    corrupted: Any,
    target: Any = None,
    contrast: Any = None,
    at: PatchedPart = "stream",
    positions: Literal["each"] | Sequence[int] | None = "each",
) -> Patching:
    """Copy single values of a clean run into a corrupted run, and measure how much of the clean answer returns.

        cutaway.lm.patch(
            model, tokenizer, clean="The capital of France is", corrupted="The capital of Italy is",
            target=" Paris", contrast=" Rome",
        ).text()

    The score is the logit of `target` minus that of `contrast`: `recovered` is 0 if a patch changes nothing, and 1 if
    the difference is that of the clean prompt.

    Args:
        model: a loaded language model or classifier.
        tokenizer: its tokenizer; None if the prompts are token ids.
        clean: the prompt that values are copied from.
        corrupted: the prompt that they are copied into; it must have as many tokens.
        target: the answer to the clean prompt: a token by text or id, or a label; the most likely by default.
        contrast: the answer to the corrupted prompt; the most likely by default.
        at: what to patch in each layer: "stream", "attention", "mlp", or each of its "heads".
        positions: "each" position one by one, or some; None patches all positions of a layer at once.
    """
    if at not in get_args(PatchedPart):
        raise InputError(f"at={at!r}: give {', '.join(get_args(PatchedPart))}; cutaway.studies.patch takes any site.")
    core = eager_module(model)
    both = _Pair.of(core, tokenizer, clean, corrupted)
    answer, other = both.answers(target, contrast)
    rows = _rows(both.clean, at)
    columns = _columns(positions, both.n)
    # One clean run serves all patches.
    taken = both.clean.forward(list(dict.fromkeys(row.site for row in rows)))

    def logit_difference(logits: Tensor) -> Any:
        """(sample,): the logit difference."""
        return (logits[:, 0, answer] - logits[:, 0, other]).double().cpu().numpy()

    cells = [(row, column) for row in range(len(rows)) for column in range(len(columns))]
    scores = np.empty(len(cells))
    # Each patch is one sample of a batch of corrupted runs, so a sweep costs a fraction of single runs.
    n_each = max(1, _TOKENS_AT_ONCE // both.n)
    starts = range(0, len(cells), n_each)
    for start in progress(starts, len(starts), "batches of patches"):
        some = cells[start : start + n_each]
        patches = dict(_patches(some, rows, columns, taken.values, both.n))
        scores[start : start + len(some)] = logit_difference(
            both.corrupted.forward(changes=patches, n=len(some)).logits
        )
    names = [both.pieces[0], both.pieces[1]] if positions is not None else [(), ()]
    return Patching(
        model=type(core).__name__,
        sites=tuple(row.site for row in rows),
        positions=np.array([-1 if column is None else column for column in columns], np.int64),
        clean=np.asarray(logit_difference(taken.logits)[0]),
        corrupted=np.asarray(logit_difference(both.corrupted.forward().logits)[0]),
        scores=scores.reshape(len(rows), len(columns)),
        heads=np.array([row.head for row in rows], np.int64) if at == "heads" else None,
        row_names=tuple(row.name for row in rows),
        clean_pieces=tuple(names[0][column] for column in columns if column is not None),
        corrupted_pieces=tuple(names[1][column] for column in columns if column is not None),
        about={
            "part": at,
            "clean": "".join(both.pieces[0]),
            "corrupted": "".join(both.pieces[1]),
            "target": both.name_of(answer),
            "contrast": both.name_of(other),
        },
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two prompts of the same length, and the row of the logits that answers them."""

    clean: PromptRun
    corrupted: PromptRun
    pieces: tuple[tuple[str, ...], tuple[str, ...]]
    classes: Classes

    @staticmethod
    def of(model: nn.Module, tokenizer: Any, clean: Any, corrupted: Any) -> _Pair:
        kind = kind_of(model)
        reader = TokenReader(tokenizer, vocab_size(model))
        prompts = [encode_prompt(tokenizer, prompt) for prompt in (clean, corrupted)]
        pieces = tuple(tuple(reader.pieces(prompt.ids)) for prompt in prompts)
        if len(pieces[0]) != len(pieces[1]):
            raise InputError(
                f"the clean prompt has {len(pieces[0])} tokens, {_joined(pieces[0])}, but the corrupted one has "
                f"{len(pieces[1])}, {_joined(pieces[1])}: choose words with the same number of tokens, so that "
                "positions correspond."
            )
        rows = []
        for prompt in prompts:
            check_ids(model, tokenizer, prompt.ids)
            check_length(model, len(prompt.ids))
            rows.append(_row(kind, tokenizer, prompt.ids))
        if rows[0] != rows[1]:
            raise InputError(f"the masks are at positions {rows[0]} and {rows[1]}: they must be at the same position.")
        clean_run, corrupted_run = (_prompt_run(model, kind, prompt, rows[0]) for prompt in prompts)
        classes = Classes(None, _labels(clean_run)) if kind == "classifier" else Classes(reader)
        return _Pair(clean_run, corrupted_run, (pieces[0], pieces[1]), classes)

    @property
    def n(self) -> int:
        """Number of positions."""
        return len(self.pieces[0])

    def answers(self, target: Any, contrast: Any) -> tuple[int, int]:
        """The two classes whose logits are compared."""
        answer, other = (
            int(run.logits()[0].argmax()) if given is None else self.classes.id_of(given, option)
            for run, given, option in ((self.clean, target, "target"), (self.corrupted, contrast, "contrast"))
        )
        if answer == other:
            how = "both prompts lead to" if target is None or contrast is None else "target and contrast are both"
            raise InputError(
                f"{how} {self.name_of(answer)!r}, so there is no difference to measure: give target=' Paris' and "
                "contrast=' Rome', for example."
            )
        return answer, other

    def name_of(self, number: int) -> str:
        return self.classes.texts([number])[0]


def _labels(run: PromptRun) -> list[str]:
    with run.eval_mode():
        shape = logits_of(run.call(), run.model).shape
    if len(shape) != 2:
        name = type(run.model).__name__
        raise InputError(f"{name} labels each token, so there is no single answer: use cutaway.studies.patch.")
    return label_names(run.model, int(shape[-1]))


def _row(kind: GenerationKind, tokenizer: Any, ids: list[int]) -> int:
    """The row of the logits that answers a prompt."""
    if kind == "masked":
        masks = [i for i, number in enumerate(ids) if number == getattr(tokenizer, "mask_token_id", None)]
        if len(masks) != 1:
            raise InputError(f"each prompt needs exactly one mask, for the answer; one has {len(masks)}.")
        return masks[0]
    return len(ids) - 1 if kind == "causal" else 0


def _prompt_run(model: nn.Module, kind: GenerationKind, prompt: Prompt, row: int) -> PromptRun:
    device = next(model.parameters()).device
    inputs = {"input_ids": torch.tensor([prompt.ids], device=device)}
    if kind == "encoder-decoder":
        inputs["decoder_input_ids"] = torch.tensor([[start_token(model)]], device=device)
    bare = prompt_run(model, kind, inputs, [row], [0])
    more = {name: torch.tensor([numbers], device=device) for name, numbers in prompt.extra_inputs.items()}
    inputs |= {name: numbers for name, numbers in more.items() if name in bare.accepted}
    return prompt_run(model, kind, inputs, [row], [0])


def _rows(run: PromptRun, at: PatchedPart) -> list[_Row]:
    """The rows to patch; of an encoder–decoder, layers of the encoder, which reads the prompt."""
    stack = run.anatomy.part("encoder")
    if at == "stream":
        return [_Row(block.output, f"layer {block.index}") for block in stack.blocks]
    if at == "heads":
        head_rows = []
        for block, heads in zip(stack.blocks, run.anatomy.heads("encoder"), strict=True):
            for each in heads:
                if each.mixed is None:
                    raise InputError(f"the heads of {block.address!r} have no output projection to patch before.")
                parts = [slice(head * each.head_dim, (head + 1) * each.head_dim) for head in range(each.n_heads)]
                head_rows += [
                    _Row(each.mixed, f"layer {block.index} head {head}", head, units)
                    for head, units in enumerate(parts)
                ]
        return head_rows
    rows = [_Row(each.site, f"layer {block.index}") for block in stack.blocks for each in block.of(at)]
    if not rows:
        reason = run.anatomy.missing.get(at, f"no part of its blocks adds {at} to the residual stream")
        raise InputError(f"at={at!r}: {run.anatomy.model_name} has none: {reason}.")
    return rows


def _columns(positions: Any, n: int) -> list[int | None]:
    if positions is None:
        return [None]
    if isinstance(positions, str):
        if positions != "each":
            raise InputError(f'positions={positions!r}: give "each", a list of positions, or None for all at once.')
        return [*range(n)]
    columns: list[int | None] = []
    for position in positions:
        if isinstance(position, bool) or not hasattr(position, "__index__") or not -n <= int(position) < n:
            raise InputError(f"position {position!r}: the prompts have {n} tokens, counted from 0.")
        columns.append(int(position) % n)
    if not columns:
        raise InputError('positions= is empty: give "each", a list of positions, or None for all at once.')
    return columns


def _patches(
    cells: Sequence[tuple[int, int]],
    rows: Sequence[_Row],
    columns: Sequence[int | None],
    clean: dict[str, Tensor],
    n: int,
) -> Iterator[tuple[str, ValueFn]]:
    """For each site, the function that copies clean values into the samples of the batch that are patched there."""
    by_site: dict[str, list[tuple[int, _Row, int | None]]] = {}
    for sample, (row, column) in enumerate(cells):
        by_site.setdefault(rows[row].site, []).append((sample, rows[row], columns[column]))

    def patch(site: str, here: list[tuple[int, _Row, int | None]]) -> ValueFn:
        def put(value: Tensor) -> Tensor:
            new = value.reshape(len(cells), n, -1).clone()  # some models merge samples and positions
            source = clean[site].reshape(n, -1).to(value)
            for sample, row, column in here:
                where = slice(None) if column is None else column
                new[sample, where, row.units] = source[where, row.units]
            return new.reshape(value.shape)

        return put

    for site, here in by_site.items():
        yield site, patch(site, here)


def _joined(pieces: Sequence[str]) -> str:
    return "|".join(pieces) if len(pieces) <= 12 else "|".join(pieces[:12]) + "|…"
