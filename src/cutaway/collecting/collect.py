"""The verb `collect`: a model goes over a data set, and what some of its units gave is kept, row by row."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypedDict, Unpack

from torch import nn

from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.units.live_units import UnitDim
from cutaway.collecting import provenance, tensor_sweep, text_sweep
from cutaway.collecting.batches import Batches
from cutaway.collecting.model_call import Call
from cutaway.collecting.pooling import AGGREGATES, Aggregate
from cutaway.collecting.sharding import Share
from cutaway.collecting.site_values import SiteValues
from cutaway.collecting.tensor_sweep import Samples, call_model
from cutaway.collecting.text_sweep import Sentences
from cutaway.collecting.tokenization import Encoder, RowsAre, Wanted
from cutaway.collecting.windows import Settings, Sweep, gathered, written
from cutaway.core.errors import InputError
from cutaway.core.progress import progress
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.writer import Dtype, check_dtype
from cutaway.store.format.frames import Plain

_KNOWN_AGAIN = 64
"""Items by which a corpus is known again."""


class How(TypedDict, total=False):
    """Further choices of `collect`."""

    rows: RowsAre
    """What a row is: a word, a whole item, or each position (token). Words for text, items for tensors."""
    dtype: Dtype
    """In which values are kept: "float32" or "float16"."""
    special: bool
    """Whether tokens that the tokenizer puts in ([CLS], </s>) have rows, or are part of whole items."""
    max_length: int
    """Tokens of an item that are read, special ones included; what the tokenizer and model allow without it."""
    strict: bool
    """Whether a word that gets no row is an error; else it is listed in `acts.problems`."""
    targets: Iterable[Any]
    """Encoder–decoder models: for each item the text that the decoder reads; rows are its words."""
    batch_size: int
    """Items that are run at once; without it, as many as have some thousand tokens."""
    shard: tuple[int, int]
    """Which of how many parts of the data this process collects, `(0, 8)`; torchrun tells it where `path` is given."""
    unit_dim: UnitDim
    """The dimension that counts units, or several in the order of the flat index `#k`, of all sites: where the graph of
    the model does not tell it."""
    samples: int
    """Tensors: the dimension of the data that counts samples, where the graph of the model does not tell it."""
    call: Callable[[nn.Module, Any], Any]
    """Tensors: how the model is called with a batch, `lambda model, batch: model(batch[0])`."""


@dataclass(frozen=True, slots=True)
class _Job:
    """All that was asked for, checked."""

    model: nn.Module
    values_at: SiteValues
    data: Any
    tokenizer: Any
    aggregate: Aggregate
    how: How
    rows: RowsAre


def collect(
    model: nn.Module,
    data: Any,
    *,
    at: Any,
    tokenizer: Any = None,
    aggregate: Aggregate | None = None,
    path: str | os.PathLike[str] | None = None,
    **how: Unpack[How],
) -> Activations:
    """Run a model over a data set, and keep what it computed at some sites: rows × units.

        acts = cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.*", aggregate="last")

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    >>> collect(model, torch.ones(5, 4), at="1").shape
    (5, 3)

    The model is run in evaluation mode, without gradients, where its parameters are, and left as it was.

    Args:
        data: texts, lists of words, or tuples of two of these, with a tokenizer; else tensors or a DataLoader.
        at: sites and patterns, as everywhere: `encoder.layer.*`, `h.3.mlp@in.0`, `encoder.0/softmax`, `cell:2`.
        aggregate: how the tokens of a word, or the positions of a whole item, become one row: "last", "first",
            "average" or "max". Without it, the last token of text, the average of all else.
        path: a folder to write to, for what is larger than memory. The same call goes on where it was interrupted.
            Under torchrun each process writes its share of the data below it; `cutaway.load(path)` reads all as one.
        how: `rows`, `dtype`, `special`, `max_length`, `strict`, `targets`, `batch_size`, `shard`, `unit_dim`,
            `samples`, `call`: see `How`.
    """
    job = _checked(model, data, at, tokenizer, aggregate, how)
    share = Share.asked(how.get("shard"), path)
    if share is not None:
        path = None if path is None else share.folder(path)
    with eval_mode(job.values_at.model), job.values_at.attached():
        sweep, made_of = _of_text(job, share) if tokenizer is not None else _of_tensors(job, share)
        about: dict[str, Plain] = {
            "model": provenance.of_model(job.values_at.model),
            "rows": job.rows,
            **made_of,
            **({} if share is None else {"shard": [share.number, share.of]}),
            **({} if not sweep.left_out else {"left_out": dict(sweep.left_out)}),
            **provenance.of_now(),
        }
        settings = Settings(how.get("dtype", "float32"), job.aggregate, about)
        acts = gathered(sweep, settings) if path is None else written(sweep, settings, path)
    if sweep.left_out:
        name, why = next(iter(sweep.left_out.items()))
        n = f"{len(sweep.left_out):,} site{'s' if len(sweep.left_out) > 1 else ''}"
        warnings.warn(
            f"cutaway: {n} that the pattern covers cannot be collected, all in acts.left_out. {name!r}: {why}",
            UserWarning,
            stacklevel=2,
        )
    problems = acts.problems
    if problems:
        some = "; ".join(f"item {problem.item}: {problem.what}" for problem in problems[:3])
        n = f"{len(problems):,} problem{'s' if len(problems) > 1 else ''}"
        warnings.warn(
            f"cutaway: {n} while collecting, all in acts.problems. {some}",
            UserWarning,
            stacklevel=2,
        )
    return acts


def _checked(model: Any, data: Any, at: Any, tokenizer: Any, aggregate: Any, how: How) -> _Job:
    if not isinstance(model, nn.Module):
        raise InputError(f"collect runs a torch.nn.Module, and this is a {type(model).__name__}.")
    unknown = set(how) - set(How.__annotations__)
    if unknown:
        known = ", ".join(f"{name}=" for name in How.__annotations__)
        raise InputError(f"{sorted(unknown)[0]!r} is nothing that collect can be told; there are {known}.")
    for name in ("special", "max_length", "strict", "targets") if tokenizer is None else ("call", "samples"):
        if name in how:
            raise InputError(f"{name}= is for {'text with tokenizer=' if tokenizer is None else 'tensors'}.")
    check_dtype(how.get("dtype", "float32"))
    is_text = tokenizer is not None
    rows = how.get("rows", "words" if is_text else "items")
    if rows not in (("words", "items", "positions") if is_text else ("items", "positions")):
        raise InputError(f"rows={rows!r}: give {'words, items' if is_text else 'items'} or positions.")
    aggregate = aggregate or ("last" if is_text else "average")
    if aggregate not in AGGREGATES:
        raise InputError(f"aggregate={aggregate!r}: give one of {', '.join(AGGREGATES)}.")
    targets = how.get("targets")
    if isinstance(data, Sized) and isinstance(targets, Sized) and len(data) != len(targets):
        raise InputError(f"{len(data):,} items and {len(targets):,} targets: each item needs one.")
    return _Job(model, SiteValues(model, at), data, tokenizer, aggregate, how, rows)


def _of_text(job: _Job, share: Share | None) -> tuple[Sweep, dict[str, Plain]]:
    data, how = job.data, job.how
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise InputError(f"data is a {type(data).__name__}: give a list of sentences, or another iterable of them.")
    targets = how.get("targets")
    if share is not None:
        data = share.of_items(data, "items")
        targets = None if targets is None else share.of_items(targets, "targets")
    wanted = Wanted(job.rows, how.get("special", False), how.get("max_length") or _most_tokens(job))
    device = device_of(job.values_at.model)
    call = Call.of(job.values_at, job.tokenizer, device, has_targets=targets is not None)
    begins, items = _peeked(data)
    first_targets, all_targets = ([], None) if targets is None else _peeked(targets)
    manner = text_sweep.Manner(
        job.aggregate,
        skips_special=job.rows == "items" and not wanted.special,
        is_strict=how.get("strict", False),
        batch_size=how.get("batch_size"),
        rows=job.rows,
        unit_dim=how.get("unit_dim"),
    )
    encoder = Encoder(job.tokenizer, wanted)
    shown = _shown(items, data, "sentences collected")
    return Sentences(job.values_at, encoder, call, manner, shown, all_targets), {
        "tokenizer": provenance.of_tokenizer(job.tokenizer),
        "special": wanted.special,
        "max_length": wanted.max_length,
        "corpus": _corpus(data, provenance.of_texts([*begins, *first_targets])),
    }


def _of_tensors(job: _Job, share: Share | None) -> tuple[Sweep, dict[str, Plain]]:
    if isinstance(job.data, str) or (isinstance(job.data, Sequence) and job.data and isinstance(job.data[0], str)):
        raise InputError("data is text: give the tokenizer that cuts it, tokenizer=…")
    how = job.how
    batches = Batches(job.data, how.get("batch_size"), share)
    manner = tensor_sweep.Manner(
        job.aggregate,
        by_position=job.rows == "positions",
        call=how.get("call", call_model),
        samples=how.get("samples"),
        unit_dim=how.get("unit_dim"),
    )
    sweep = Samples(job.values_at, batches, manner, device_of(job.values_at.model))
    return sweep, {"corpus": {"digest": provenance.of_batch(sweep.first_sample)}}


def _most_tokens(job: _Job) -> int | None:
    """What tokenizer and model allow."""
    config = getattr(job.values_at.model, "config", None)
    most = getattr(config, "max_position_embeddings", None)
    for module in job.values_at.model.modules():  # RoBERTa's begin behind the padding
        if isinstance(module, nn.Embedding) and module.num_embeddings == most and module.padding_idx is not None:
            most -= module.padding_idx + 1
            break
    limits = [getattr(job.tokenizer, "model_max_length", None), most]
    fine = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 24]
    return min(fine) if fine else None


def _peeked(data: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first items, and all of them."""
    items = iter(data)
    begins = list(islice(items, _KNOWN_AGAIN))
    return begins, chain(begins, items)


def _shown(items: Iterable[Any], data: Any, what: str) -> Iterable[Any]:
    """The items with a line that tells how far it has come, where it is known how many there are."""
    return progress(items, len(data), what) if isinstance(data, Sized) else items


def _corpus(data: Any, digest: str) -> Plain:
    return {"digest": digest, "n_items": len(data) if isinstance(data, Sized) else None}
