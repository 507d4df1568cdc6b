"""`gen.lens()`: the logit lens, which reads every layer with the model's own final norm and head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.lm.arguments import as_list, byte_limit, whole_number
from cutaway.lm.generation.classes import Classes
from cutaway.lm.generation.scores import output_form
from cutaway.lm.lens.points import Point, points
from cutaway.lm.lens.scores import Scorer, Scores, split_by_target
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.head import bypass_module, is_pooled, iter_head_logits
from cutaway.lm.model.output_drift import drift_notes
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.lens import Lens, Watched

_RTOL = 1e-4


def lens(
    gen: Generation,
    norm: bool = True,
    *,
    after: str | Sequence[str] = ("block",),
    watch: str | int | Sequence[str | int] | None = None,
    k: int = 10,
    positions: bool = False,
    limit: int = 256 * 2**20,
) -> Lens:
    """Apply the logit lens: what each layer would have predicted; see `Generation.lens` for the arguments."""
    k, limit = whole_number(k, "k"), byte_limit(limit)
    if not isinstance(norm, bool):  # gen.lens(" are") would otherwise apply the norm and watch nothing
        raise InputTypeError(f"norm={norm!r} is {type_text(norm)}: give True or False; watch={norm!r} follows a token.")
    if not isinstance(positions, bool):
        raise InputTypeError(f"positions={positions!r}: give True for every token that was read, or leave it out.")
    with torch.inference_mode(False):
        run = PromptRun.of(gen)
        classes = Classes.of(gen)
        tokens = [] if watch is None else as_list(watch)
        watched = [classes.id_of(token, "watch") for token in tokens]
        where, notes = points(run.anatomy.stack, after)
        seen = run.forward([point.site for point in where])
        targets = _all_positions(gen, run) if positions else _Targets(gen.rows, gen.target_ids, np.ones(len(gen), bool))
        streams = [seen.values[point.site][0] for point in where]
        scores = _scores(
            run, streams, targets, (k, watched), _Readout(seen.logits[0], _skipped_norm(run, norm, notes), limit)
        )
    # The lens takes a softmax over the classes, which independent labels do not have.
    if output_form(gen.model, gen.kind) != "one":
        notes.append(
            "The labels of this model are independent: ranks are valid, but probabilities assume exclusive labels."
        )
    elif not positions:
        notes += drift_notes(gen, "logprob", scores.logprobs[-1].numpy())
    result = _result(gen, scores, where, targets, classes)
    result = replace(result, norm=norm, n_classes=int(seen.logits.shape[-1]), notes=tuple(notes))
    if watched:
        followed = Watched(
            np.array(watched, np.int64),
            classes.texts(watched),
            scores.watched_ranks.numpy(),
            scores.watched_logprobs.numpy(),
        )
        result = replace(result, watched=followed)
    again = partial(_watch_again, gen, norm=norm, after=after, positions=positions, limit=limit)
    object.__setattr__(result, "_again", again)  # keeps the generation, which holds its model by weak reference
    return result


def _watch_again(gen: Generation, tokens: Sequence[str | int], **options: Any) -> Watched:
    watched = lens(gen, watch=tokens, k=1, **options).watched
    if watched is None:
        raise InputError("give at least one token to watch: lens.watch([' is', ' are']).")
    return watched


@dataclass(frozen=True, slots=True)
class _Targets:
    """The class at each row."""

    rows: Any
    classes: Any
    is_written: Any


@dataclass(frozen=True, slots=True)
class _Readout:
    """How logits are computed and checked."""

    own: Tensor
    """(target, class): the model's logits for the targets of the run."""
    raw: str | None
    """Address of the norm that is skipped at all layers but the last."""
    limit: int


def _skipped_norm(run: PromptRun, norm: bool, notes: list[str]) -> str | None:
    if norm:
        return None
    final_norm = run.anatomy.stack.final_norm
    if final_norm is None:
        notes.append("this model has no final norm: norm=False is the same as norm=True.")
    return final_norm


def _all_positions(gen: Generation, run: PromptRun) -> _Targets:
    """Every position as a target: the next token, or the token itself if the model is bidirectional."""
    n = len(gen.read)
    if gen.kind in ("causal", "encoder-decoder"):
        return _Targets(np.arange(n - 1), gen.token_ids[1:], np.arange(1, n) >= gen.n_prompt)
    if is_pooled(run):
        raise InputError("this model classifies whole texts and has no positions: leave out positions=True.")
    rows = torch.arange(n, device=run.device)
    ids = np.array(gen.token_ids)
    if gen.kind == "classifier":
        ids = replace(run, rows=rows, classes=rows).logits().argmax(-1).cpu().numpy()
    ids[gen.rows] = gen.target_ids
    return _Targets(np.arange(n), ids, np.isin(np.arange(n), gen.rows))


def _scores(
    run: PromptRun, streams: list[Tensor], targets: _Targets, asked: tuple[int, list[int]], readout: _Readout
) -> Scores:
    k, watched = asked
    n_layers, n_targets, n_classes = len(streams), len(targets.rows), readout.own.shape[-1]
    scores = Scores.empty(n_layers, n_targets, min(k, n_classes), len(watched))
    classes, others = (torch.tensor(np.asarray(ids, np.int64), device=run.device) for ids in (targets.classes, watched))
    scorer = Scorer(scores, classes, others)
    places = {int(row): place for place, row in enumerate(run.rows.tolist())}
    if is_pooled(run):
        pieces = _pooled_logits(run, torch.stack(streams[::-1]), n_targets, readout.raw)
    else:
        rows = torch.tensor(np.asarray(targets.rows), device=run.device)
        # The last layer comes first: KL compares the others with it, and if it is not the model's output, nothing else
        # runs.
        hidden = torch.stack([stream[rows] for stream in streams[::-1]], dim=1)  # (target, layer from the end, d)
        pieces = _logits_by_target(run, hidden, readout.raw, readout.limit)
    for target, layers, logits in pieces:
        place = places.get(int(targets.rows[target]))
        if layers[0] == n_layers - 1 and place is not None:
            _check_last_layer(logits[0], readout.own[place], run)
        scorer.add(target, layers, logits)
    return scores


def _logits_by_target(
    run: PromptRun, hidden: Tensor, raw: str | None, limit: int
) -> Iterator[tuple[int, range, Tensor]]:
    """Logits by target, layers from last to first: (target, layers, logits (layer, class))."""
    n_targets, n_layers = hidden.shape[:2]
    if raw is None:
        for cells, logits in iter_head_logits(run, hidden, limit=limit):
            for target, layers, part in split_by_target(n_targets, n_layers, cells):
                yield target, layers, logits[part]
        return
    last = range(n_layers - 1, n_layers - 2, -1)
    n = max(1, limit // (_width(run, hidden) * n_layers))
    for start in range(0, n_targets, n):
        some = hidden[start : start + n]
        ends = torch.cat([logits for _, logits in iter_head_logits(run, some[:, :1], limit=limit)])
        with bypass_module(run, raw):  # collected before the yield: no caller may see it bypassed
            others = torch.cat([logits for _, logits in iter_head_logits(run, some[:, 1:], limit=limit)])
        for target in range(len(some)):
            yield start + target, last, ends[target : target + 1]
            its_logits = others[target * (n_layers - 1) : (target + 1) * (n_layers - 1)]
            yield start + target, range(n_layers - 2, -1, -1), its_logits


def _width(run: PromptRun, hidden: Tensor) -> int:
    """Bytes of the logits of one layer and target."""
    _, logits = next(iter_head_logits(run, hidden[:1, :1]))
    return logits.shape[-1] * logits.element_size()


def _pooled_logits(
    run: PromptRun, hidden: Tensor, n_targets: int, raw: str | None
) -> Iterator[tuple[int, range, Tensor]]:
    """The same for a sequence classifier: all targets share their logits."""
    parts = [hidden] if raw is None else [hidden[:1]]
    chunks = [logits for _, logits in iter_head_logits(run, parts[0])]
    if raw is not None:
        with bypass_module(run, raw):
            chunks += [logits for _, logits in iter_head_logits(run, hidden[1:])]
    logits = torch.cat(chunks)
    for target in range(n_targets):
        yield target, range(len(hidden) - 1, -1, -1), logits


def _check_last_layer(last: Tensor, output: Tensor, run: PromptRun) -> None:
    """Raises unless the last layer gives the model's own logits; otherwise no layer of the lens can be trusted."""
    # Heads that rule out tokens give -inf, and the difference of two of these is NaN.
    finite = torch.isfinite(output)
    apart = float((last - output).masked_fill(~finite, 0.0).abs().max())
    size = float(output.masked_fill(~finite, 0.0).abs().max())
    most = max(_RTOL, 16 * torch.finfo(output.dtype).eps) * max(size, 1e-30)
    if apart <= most:
        return
    raise InputError(
        f"the last layer of this lens differs from the output of {type(run.model).__name__}: their logits differ by up "
        f"to {apart:.3g}, with a size of {size:.3g}. Either the head depends on more than the residual stream, so "
        "that a lens cannot read this model, or this is not the model that generated the text."
    )


def _result(gen: Generation, scores: Scores, where: list[Point], targets: _Targets, classes: Classes) -> Lens:
    named = torch.unique(scores.top_ids)
    return Lens(
        layers=tuple(point.name for point in where),
        sites=tuple(point.site for point in where),
        targets=classes.texts(np.asarray(targets.classes).tolist()),
        target_ids=np.array(targets.classes, np.int64),
        rows=np.array(targets.rows, np.int64),
        is_written=np.array(targets.is_written, bool),
        ranks=scores.ranks.numpy(),
        logprobs=scores.logprobs.numpy(),
        entropies=scores.entropies.numpy(),
        kl=scores.kl.numpy(),
        top_ids=scores.top_ids.numpy(),
        top_logprobs=scores.top_logprobs.numpy(),
        named_ids=named.numpy(),
        names=classes.texts(named.tolist()),
        about={
            "model": str(gen.about.get("model", "")),
            **({"name": str(gen.about["name"])} if gen.about.get("name") else {}),
            "text": gen.text,
            "kind": gen.kind,
        },
    )
