"""`gen.attention()`: attention weights by layer and head, within a memory limit that is checked before the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.core.formatting import human_bytes
from cutaway.lm.arguments import byte_limit
from cutaway.lm.attention.weights import attention_heads, attention_weights
from cutaway.lm.logit_attribution.direction import source_positions
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.parts import Heads, layer_indices
from cutaway.results.lm.attention import Attention
from cutaway.results.lm.generation import Generation, LayerChoice
from cutaway.results.lm.tokens import Role


def attention(
    gen: Generation,
    *,
    role: Role | None = None,
    cross: bool = False,
    layers: LayerChoice = None,
    rows: Literal["all", "targets"] = "all",
    limit: int = 2**30,
) -> Attention:
    """Read the attention weights of a generation; see `Generation.attention` for the arguments."""
    limit = byte_limit(limit)
    run = PromptRun.of(gen)
    asked = _role(run, role, cross)
    heads = attention_heads(run, asked, is_cross=cross)
    chosen = layer_indices(layers, len(heads))
    read = gen.source if asked == "encoder" and gen.source is not None else gen.read
    given = gen.source if cross else read
    assert given is not None  # an encoder–decoder has a source
    if rows not in ("all", "targets"):
        raise InputError(
            f"rows={rows!r}: give 'all', or 'targets' for only the queries that targets were predicted at."
        )
    target_rows = _rows(run) if read is gen.read else []
    at = sorted(set(target_rows)) if rows == "targets" else list(range(len(read)))
    if not at:
        why = "no single query predicts a label" if read is gen.read else "an encoder predicts no targets"
        raise InputError(f"rows='targets': {why}; leave rows= out.")
    dtype = _dtype([heads[layer] for layer in chosen], len(at), len(given), limit, is_all=rows == "all")
    weights = attention_weights(
        run, asked, is_cross=cross, layers=chosen, rows=None if rows == "all" else at, dtype=dtype
    )
    return Attention(
        weights=weights.numpy(),
        layers=np.array(chosen, np.int64),
        sites=tuple(heads[layer].op for layer in chosen),
        queries=tuple(read.pieces[i] for i in at),
        keys=given.pieces,
        positions=np.array(at, np.int64),
        rows=np.array([at.index(row) for row in target_rows], np.int64),
        targets=gen.targets.pieces if target_rows else (),
        role=asked,
        is_cross=cross,
        n_layers=len(heads),
        about={name: gen.about[name] for name in ("model", "name") if name in gen.about},
    )


def _role(run: PromptRun, role: Any, cross: bool) -> Role:
    if role not in (None, *run.roles):
        names = " and ".join(map(repr, run.roles))
        raise InputError(f"role={role!r}: {type(run.model).__name__} has {names}.")
    if cross and (role == "encoder" or len(run.roles) == 1):
        raise InputError(
            "cross=True is attention of a decoder to an encoder: "
            + ("leave out role=." if role == "encoder" else f"{type(run.model).__name__} has no encoder.")
        )
    stack_role: Role = run.anatomy.stack.role if role is None else role
    return stack_role


def _rows(run: PromptRun) -> list[int]:
    """The query that predicts each target; none if a classifier pools several."""
    if run.kind != "classifier":
        return list(run.rows.tolist())
    with torch.inference_mode(False):
        positions = source_positions(run, run.hidden()[-1])
    return [] if positions is None else list(positions.tolist())


def _dtype(heads: Sequence[Heads], n_rows: int, n_keys: int, limit: int, *, is_all: bool) -> torch.dtype:
    """The dtype to store the weights in, so that they fit; raises if they do not."""
    n = sum(each.n_heads for each in heads) * n_rows * n_keys
    if 4 * n <= limit:
        return torch.float32
    if 2 * n <= limit:
        return torch.float16
    less = "rows='targets', " if is_all else ""
    raise MemoryLimitError(
        f"attention of {len(heads)} layers over {n_rows:,} × {n_keys:,} tokens takes {human_bytes(2 * n)} even as "
        f"float16, but the limit is {human_bytes(limit)}: give {less}fewer layers=, or limit={2 * n}."
    )
