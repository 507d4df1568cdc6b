"""`cutaway.collect`: run a model over a data set and store activations as rows × units."""

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
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, plural
from cutaway.core.progress import progress
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.writer import Dtype, check_dtype
from cutaway.store.format.frames import Plain

_DIGEST_ITEMS = 64
"""Number of items in the digest that identifies a corpus."""


class CollectOptions(TypedDict, total=False):
    """Less common keyword arguments of `collect`."""

    rows: RowKind
    """What a row is: "words", "items" or "positions" (tokens). Default: words for text, items for tensors."""
    dtype: Dtype
    """The stored dtype: "float32" or "float16". Default: "float32"."""
    special: bool
    """Whether special tokens ([CLS], </s>) get rows, or count as part of an item. Default: False."""
    max_length: int
    """Truncate items to this many tokens, special ones included. Default: what tokenizer and model allow."""
    strict: bool
    """Whether to raise if a word gets no row. Default: False, which lists it in `acts.problems`."""
    targets: Iterable[Any]
    """Encoder–decoder models: the decoder text of each item. Rows are its words."""
    batch_size: int
    """Items per batch. Default: as many as have a few thousand tokens."""
    shard: tuple[int, int]
    """(index, count): the part of the data that this process collects. With `path`, torchrun sets it."""
    unit_dim: UnitDim
    """The unit dimension of all sites, or several in the order of the flat index `#k`, where the graph of the model
    does not determine it."""
    samples: int
    """Tensors: the sample dimension of the data, where the graph of the model does not determine it."""
    call: Callable[[nn.Module, Any], Any]
    """Tensors: how to call the model with a batch: `lambda model, batch: model(batch[0])`."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The validated arguments of `collect`."""

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
    """Run a model over a data set and store the activations at some sites as rows × units.

        acts = cutaway.collect(model, sentences, tokenizer=tokenizer, at="encoder.layer.*", aggregate="last")

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    >>> collect(model, torch.ones(5, 4), at="1").shape
    (5, 3)

    The model runs in eval mode without gradients, on the device of its parameters, and is restored afterwards.

    Args:
        model: the model to run.
        data: with a tokenizer, strings, lists of words, or pairs (tuples) of these; else tensors or a DataLoader.
        at: sites and patterns: `encoder.layer.*`, `h.3.mlp@in.0`, `encoder.0/softmax`, `cell:2`.
        tokenizer: a tokenizer of transformers, for text.
        aggregate: how to pool the tokens of a word, or the positions of an item, into one row: "last", "first",
            "average" or "max". Default: "last" for text, "average" for tensors.
        path: a folder to write to, for data larger than memory. Repeat the call to resume after an interruption.
            Under torchrun each process writes its shard below it; `cutaway.load(path)` reads all shards as one.
        options: `rows`, `dtype`, `special`, `max_length`, `strict`, `targets`, `batch_size`, `shard`, `unit_dim`,
            `samples`, `call`: see `CollectOptions`.
    """
    job = _check(model, data, at, tokenizer, aggregate, options)
    shard = Shard.parse(options.get("shard"), path)
    if shard is not None:
        path = None if path is None else shard.folder(path)
    with eval_mode(job.values_at.model), job.values_at.attached():
        sweep, sources = _text_sweep(job, shard) if tokenizer is not None else _tensor_sweep(job, shard)
        description: dict[str, Plain] = {
            "model": provenance.describe_model(job.values_at.model),
            "rows": job.rows,
            **sources,
            **({} if shard is None else {"shard": [shard.number, shard.of]}),
            **({} if not sweep.left_out else {"left_out": dict(sweep.left_out)}),
            **provenance.describe_environment(),
        }
        settings = CollectionSettings(options.get("dtype", "float32"), job.aggregate, description)
        acts = collect_in_memory(sweep, settings) if path is None else collect_to_disk(sweep, settings, path)
    if sweep.left_out:
        why = next(iter(sweep.left_out.values()))
        n = plural(len(sweep.left_out), "site")
        warnings.warn(
            f"cutaway: {n} matched by the pattern cannot be collected, see acts.left_out. {why}",
            UserWarning,
            stacklevel=2,
        )
    problems = acts.problems
    if problems:
        examples = "; ".join(f"item {problem.item}: {problem.what}" for problem in problems[:3])
        n = plural(len(problems), "problem")
        warnings.warn(
            f"cutaway: {n} while collecting, see acts.problems. {examples}",
            UserWarning,
            stacklevel=2,
        )
    return acts


def _check(model: Any, data: Any, at: Any, tokenizer: Any, aggregate: Any, options: CollectOptions) -> _Job:
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"collect() got a {type(model).__name__}: pass a torch.nn.Module.")
    unknown = set(options) - set(CollectOptions.__annotations__)
    if unknown:
        known = list(CollectOptions.__annotations__)
        name = sorted(unknown)[0]
        raise InputError(
            f"collect() got an unexpected option {name!r}.{hint(name, known)} Options: {', '.join(known)}."
        )
    for name in ("special", "max_length", "strict", "targets") if tokenizer is None else ("call", "samples"):
        if name in options:
            raise InputError(f"{name}= is for {'text with tokenizer=' if tokenizer is None else 'tensors'}.")
    check_dtype(options.get("dtype", "float32"))
    is_text = tokenizer is not None
    rows = options.get("rows", "words" if is_text else "items")
    if rows not in (("words", "items", "positions") if is_text else ("items", "positions")):
        raise InputError(f"rows={rows!r}: pass {'words, items' if is_text else 'items'} or positions.")
    aggregate = aggregate or ("last" if is_text else "average")
    if aggregate not in AGGREGATES:
        raise InputError(f"aggregate={aggregate!r}: pass one of {', '.join(AGGREGATES)}.")
    targets = options.get("targets")
    if isinstance(data, Sized) and isinstance(targets, Sized) and len(data) != len(targets):
        raise InputError(f"{plural(len(data), 'item')} and {plural(len(targets), 'target')}: each item needs one.")
    return _Job(model, SiteValues(model, at), data, tokenizer, aggregate, options, rows)


def _text_sweep(job: _Job, shard: Shard | None) -> tuple[Sweep, dict[str, Plain]]:
    data, options = job.data, job.options
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise InputTypeError(f"data is a {type(data).__name__}: pass a list of sentences, or another iterable of them.")
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
    items = _with_progress(items, data, "sentences collected")
    return TextSweep(job.values_at, encoder, call, settings, items, all_targets), {
        "tokenizer": provenance.describe_tokenizer(job.tokenizer),
        "special": row_settings.special,
        "max_length": row_settings.max_length,
        "corpus": _corpus(data, provenance.texts_digest([*first_items, *first_targets])),
    }


def _tensor_sweep(job: _Job, shard: Shard | None) -> tuple[Sweep, dict[str, Plain]]:
    if isinstance(job.data, str) or (isinstance(job.data, Sequence) and job.data and isinstance(job.data[0], str)):
        raise InputError("data is text: pass its tokenizer as tokenizer=.")
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
    """The longest input that both tokenizer and model allow."""
    config = getattr(job.values_at.model, "config", None)
    longest = getattr(config, "max_position_embeddings", None)
    for module in job.values_at.model.modules():  # positions of RoBERTa start after padding_idx
        if isinstance(module, nn.Embedding) and module.num_embeddings == longest and module.padding_idx is not None:
            longest -= module.padding_idx + 1
            break
    limits = [getattr(job.tokenizer, "model_max_length", None), longest]
    valid = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 24]
    return min(valid) if valid else None


def _peek(data: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first items, and an iterable over all of them."""
    items = iter(data)
    first_items = list(islice(items, _DIGEST_ITEMS))
    return first_items, chain(first_items, items)


def _with_progress(items: Iterable[Any], data: Any, what: str) -> Iterable[Any]:
    """Add a progress bar, if the number of items is known."""
    return progress(items, len(data), what) if isinstance(data, Sized) else items


def _corpus(data: Any, digest: str) -> Plain:
    return {"digest": digest, "n_items": len(data) if isinstance(data, Sized) else None}
