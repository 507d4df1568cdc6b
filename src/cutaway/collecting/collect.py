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
from cutaway.collecting.model_call import ModelCall
from cutaway.collecting.pooling import AGGREGATES, Aggregate
from cutaway.collecting.sharding import Shard
from cutaway.collecting.site_values import SiteValues
from cutaway.collecting.tensor_sweep import TensorSweep, default_call
from cutaway.collecting.text_sweep import TextSweep
from cutaway.collecting.tokenization import Encoder, RowKind, RowSettings
from cutaway.collecting.windows import CollectionSettings, Sweep, collect_in_memory, collect_to_disk
from cutaway.core.errors import InputError
from cutaway.core.progress import progress
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.writer import Dtype, check_dtype
from cutaway.store.format.frames import Plain

_DIGEST_ITEMS = 64
"""Items by which a corpus is known again."""


class CollectOptions(TypedDict, total=False):
    """Further choices of `collect`."""

    rows: RowKind
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
    options: CollectOptions
    rows: RowKind


def collect(
    model: nn.Module,
    data: Any,
    *,
    at: Any,
    tokenizer: Any = None,
    aggregate: Aggregate | None = None,
    path: str | os.PathLike[str] | None = None,
    **options: Unpack[CollectOptions],
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
    job = _check(model, data, at, tokenizer, aggregate, options)
    shard = Shard.parse(options.get("shard"), path)
    if shard is not None:
        path = None if path is None else shard.folder(path)
    with eval_mode(job.values_at.model), job.values_at.attached():
        sweep, sources = _text_sweep(job, shard) if tokenizer is not None else _tensor_sweep(job, shard)
        provenance_record: dict[str, Plain] = {
            "model": provenance.describe_model(job.values_at.model),
            "rows": job.rows,
            **sources,
            **({} if shard is None else {"shard": [shard.number, shard.of]}),
            **({} if not sweep.left_out else {"left_out": dict(sweep.left_out)}),
            **provenance.describe_environment(),
        }
        settings = CollectionSettings(options.get("dtype", "float32"), job.aggregate, provenance_record)
        acts = collect_in_memory(sweep, settings) if path is None else collect_to_disk(sweep, settings, path)
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
        first = "; ".join(f"item {problem.item}: {problem.what}" for problem in problems[:3])
        n = f"{len(problems):,} problem{'s' if len(problems) > 1 else ''}"
        warnings.warn(
            f"cutaway: {n} while collecting, all in acts.problems. {first}",
            UserWarning,
            stacklevel=2,
        )
    return acts


def _check(model: Any, data: Any, at: Any, tokenizer: Any, aggregate: Any, options: CollectOptions) -> _Job:
    if not isinstance(model, nn.Module):
        raise InputError(f"collect runs a torch.nn.Module, and this is a {type(model).__name__}.")
    unknown = set(options) - set(CollectOptions.__annotations__)
    if unknown:
        known = ", ".join(f"{name}=" for name in CollectOptions.__annotations__)
        raise InputError(f"{sorted(unknown)[0]!r} is nothing that collect can be told; there are {known}.")
    for name in ("special", "max_length", "strict", "targets") if tokenizer is None else ("call", "samples"):
        if name in options:
            raise InputError(f"{name}= is for {'text with tokenizer=' if tokenizer is None else 'tensors'}.")
    check_dtype(options.get("dtype", "float32"))
    is_text = tokenizer is not None
    rows = options.get("rows", "words" if is_text else "items")
    if rows not in (("words", "items", "positions") if is_text else ("items", "positions")):
        raise InputError(f"rows={rows!r}: give {'words, items' if is_text else 'items'} or positions.")
    aggregate = aggregate or ("last" if is_text else "average")
    if aggregate not in AGGREGATES:
        raise InputError(f"aggregate={aggregate!r}: give one of {', '.join(AGGREGATES)}.")
    targets = options.get("targets")
    if isinstance(data, Sized) and isinstance(targets, Sized) and len(data) != len(targets):
        raise InputError(f"{len(data):,} items and {len(targets):,} targets: each item needs one.")
    return _Job(model, SiteValues(model, at), data, tokenizer, aggregate, options, rows)


def _text_sweep(job: _Job, shard: Shard | None) -> tuple[Sweep, dict[str, Plain]]:
    data, options = job.data, job.options
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise InputError(f"data is a {type(data).__name__}: give a list of sentences, or another iterable of them.")
    targets = options.get("targets")
    if shard is not None:
        data = shard.slice_items(data, "items")
        targets = None if targets is None else shard.slice_items(targets, "targets")
    row_settings = RowSettings(job.rows, options.get("special", False), options.get("max_length") or _max_tokens(job))
    device = device_of(job.values_at.model)
    call = ModelCall.of(job.values_at, job.tokenizer, device, has_targets=targets is not None)
    first_items, items = _peek(data)
    first_targets, all_targets = ([], None) if targets is None else _peek(targets)
    settings = text_sweep.SweepSettings(
        job.aggregate,
        skips_special=job.rows == "items" and not row_settings.special,
        is_strict=options.get("strict", False),
        batch_size=options.get("batch_size"),
        rows=job.rows,
        unit_dim=options.get("unit_dim"),
    )
    encoder = Encoder(job.tokenizer, row_settings)
    items_shown = _with_progress(items, data, "sentences collected")
    return TextSweep(job.values_at, encoder, call, settings, items_shown, all_targets), {
        "tokenizer": provenance.describe_tokenizer(job.tokenizer),
        "special": row_settings.special,
        "max_length": row_settings.max_length,
        "corpus": _corpus(data, provenance.texts_digest([*first_items, *first_targets])),
    }


def _tensor_sweep(job: _Job, shard: Shard | None) -> tuple[Sweep, dict[str, Plain]]:
    if isinstance(job.data, str) or (isinstance(job.data, Sequence) and job.data and isinstance(job.data[0], str)):
        raise InputError("data is text: give the tokenizer that cuts it, tokenizer=…")
    options = job.options
    batches = Batches(job.data, options.get("batch_size"), shard)
    settings = tensor_sweep.SweepSettings(
        job.aggregate,
        by_position=job.rows == "positions",
        call=options.get("call", default_call),
        samples=options.get("samples"),
        unit_dim=options.get("unit_dim"),
    )
    sweep = TensorSweep(job.values_at, batches, settings, device_of(job.values_at.model))
    return sweep, {"corpus": {"digest": provenance.batch_digest(sweep.first_sample)}}


def _max_tokens(job: _Job) -> int | None:
    """What tokenizer and model allow."""
    config = getattr(job.values_at.model, "config", None)
    longest = getattr(config, "max_position_embeddings", None)
    for module in job.values_at.model.modules():  # RoBERTa's begin behind the padding
        if isinstance(module, nn.Embedding) and module.num_embeddings == longest and module.padding_idx is not None:
            longest -= module.padding_idx + 1
            break
    limits = [getattr(job.tokenizer, "model_max_length", None), longest]
    valid = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 24]
    return min(valid) if valid else None


def _peek(data: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first items, and all of them."""
    items = iter(data)
    first_items = list(islice(items, _DIGEST_ITEMS))
    return first_items, chain(first_items, items)


def _with_progress(items: Iterable[Any], data: Any, what: str) -> Iterable[Any]:
    """The items with a line that tells how far it has come, where it is known how many there are."""
    return progress(items, len(data), what) if isinstance(data, Sized) else items


def _corpus(data: Any, digest: str) -> Plain:
    return {"digest": digest, "n_items": len(data) if isinstance(data, Sized) else None}
