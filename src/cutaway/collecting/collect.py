"""`cutaway.collect`: run a model over a data set and store activations as rows × units."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from torch import Tensor, nn

from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.units.live_units import UnitDim
from cutaway.collecting import provenance, tensor_sweep, text_sweep
from cutaway.collecting.batches import Batches
from cutaway.collecting.model_call import ModelCall
from cutaway.collecting.pooling import AGGREGATES, Aggregate
from cutaway.collecting.sharding import Shard
from cutaway.collecting.site_values import SiteValues, some_sites
from cutaway.collecting.tensor_sweep import CallFunction, TensorSweep, default_call
from cutaway.collecting.text_sweep import TextSweep
from cutaway.collecting.tokenization import Encoder, RowKind, RowSettings
from cutaway.collecting.windows import CollectionSettings, Sweep, collect_in_memory, collect_to_disk
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, plural, type_text
from cutaway.core.progress import progress
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.writer import Dtype, check_dtype
from cutaway.store.format.frames import Plain

_DIGEST_ITEMS = 64
"""Number of items in the digest that identifies a corpus."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The validated arguments of `collect`, named like its keywords."""

    model: nn.Module
    data: Any
    values_at: SiteValues
    tokenizer: Any
    aggregate: Aggregate
    rows: RowKind
    special: bool
    max_length: int | None
    strict: bool
    targets: Iterable[Any] | None
    batch_size: int | None
    unit_dim: UnitDim | None
    samples: int | None
    call: CallFunction | None


def collect(
    model: nn.Module,
    data: Any,
    *,
    at: Any = None,
    tokenizer: Any = None,
    aggregate: Aggregate | None = None,
    path: str | os.PathLike[str] | None = None,
    rows: RowKind | None = None,
    dtype: Dtype = "float32",
    special: bool = False,
    max_length: int | None = None,
    strict: bool = False,
    targets: Iterable[Any] | None = None,
    batch_size: int | None = None,
    shard: tuple[int, int] | None = None,
    unit_dim: UnitDim | None = None,
    samples: int | None = None,
    call: CallFunction | None = None,
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
        at: sites and patterns: `encoder.layer.*`, `h.3.mlp@in.0`, `encoder.0/softmax`, `cell:2`. Required.
        tokenizer: a tokenizer of transformers, for text.
        aggregate: how to pool the tokens of a word, or the positions of an item, into one row: "last", "first",
            "average" or "max". Default: "last" for text, "average" for tensors.
        path: a folder to write to, for data larger than memory. Repeat the call to resume after an interruption.
            Under torchrun each process writes its shard below it; `cutaway.load(path)` reads all shards as one.
        rows: what a row is: "words", "items" or "positions" (tokens). Default: words for text, items for tensors.
        dtype: the stored dtype: "float32" or "float16".
        special: text: whether special tokens ([CLS], </s>) get rows, or count as part of an item.
        max_length: text: truncate items to this many tokens, special ones included. Default: what tokenizer and model
            allow.
        strict: text: whether to raise if a word gets no row. By default, `acts.problems` lists it.
        targets: text, encoder–decoder models: the decoder text of each item. Rows are its words.
        batch_size: items per batch. Default: as many as have a few thousand tokens; 32 for tensors.
        shard: (index, count), the part of the data that this process collects. With `path`, torchrun sets it.
        unit_dim: the unit dimension of all sites, or several in the order of the flat index `#k`, where the graph of
            the model does not determine it.
        samples: tensors: the sample dimension of the data, where the graph of the model does not determine it.
        call: tensors: how to call the model with a batch: `lambda model, batch: model(batch[0])`.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"collect() got {type_text(model)} as model: pass a torch.nn.Module, then the data.")
    if at is None:
        raise InputError(f"collect() needs at=, the sites to collect. {some_sites(model)}")
    is_text = tokenizer is not None
    _refuse_foreign_options(
        is_text,
        text={"special": special, "max_length": max_length, "strict": strict, "targets": targets},
        tensors={"call": call, "samples": samples},
    )
    check_dtype(dtype)
    _check_targets(data, targets)
    job = _Job(
        model=model,
        data=data,
        values_at=SiteValues(model, at),
        tokenizer=tokenizer,
        aggregate=_aggregate(aggregate, is_text),
        rows=_row_kind(rows, is_text),
        special=special,
        max_length=max_length,
        strict=strict,
        targets=targets,
        batch_size=_batch_size(batch_size),
        unit_dim=unit_dim,
        samples=samples,
        call=call,
    )
    process_shard = Shard.parse(shard, path)
    if process_shard is not None:
        path = None if path is None else process_shard.folder(path)
    with eval_mode(job.values_at.model), job.values_at.attached():
        sweep, sources = _text_sweep(job, process_shard) if is_text else _tensor_sweep(job, process_shard)
        description: dict[str, Plain] = {
            "model": provenance.describe_model(job.values_at.model),
            "rows": job.rows,
            **sources,
            **({} if process_shard is None else {"shard": [process_shard.number, process_shard.of]}),
            **({} if not sweep.left_out else {"left_out": dict(sweep.left_out)}),
            **provenance.describe_environment(),
        }
        settings = CollectionSettings(dtype, job.aggregate, description)
        acts = collect_in_memory(sweep, settings) if path is None else collect_to_disk(sweep, settings, path)
    _warn_of_gaps(sweep, acts)
    return acts


def _warn_of_gaps(sweep: Sweep, acts: Activations) -> None:
    """Warn of sites and words that were not collected."""
    if sweep.left_out:
        why = next(iter(sweep.left_out.values()))
        n = plural(len(sweep.left_out), "site")
        warnings.warn(
            f"cutaway: {n} matched by the pattern cannot be collected, see acts.left_out. {why}",
            UserWarning,
            stacklevel=3,
        )
    problems = acts.problems
    if problems:
        examples = "; ".join(f"item {problem.item}: {problem.what}" for problem in problems[:3])
        more = "; …" if len(problems) > 3 else ""
        n = plural(len(problems), "problem")
        warnings.warn(
            f"cutaway: {n} while collecting, see acts.problems. {examples}{more}",
            UserWarning,
            stacklevel=3,
        )


def _refuse_foreign_options(is_text: bool, *, text: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Raise if an option for text comes with tensors, or the other way round."""
    for name, value in (tensors if is_text else text).items():
        if value is not None and value is not False:
            raise InputError(f"{name}= is for {'tensors' if is_text else 'text with tokenizer='}.")


def _check_targets(data: Any, targets: Any) -> None:
    if isinstance(data, Sized) and isinstance(targets, Sized) and len(data) != len(targets):
        raise InputError(f"{plural(len(data), 'item')} and {plural(len(targets), 'target')}: each item needs one.")


def _aggregate(aggregate: Any, is_text: bool) -> Aggregate:
    chosen: Aggregate = aggregate or ("last" if is_text else "average")
    if chosen not in AGGREGATES:
        raise InputError(f"aggregate={chosen!r}: pass one of {', '.join(AGGREGATES)}.{hint(chosen, AGGREGATES)}")
    return chosen


def _row_kind(rows: Any, is_text: bool) -> RowKind:
    chosen: RowKind = rows or ("words" if is_text else "items")
    if chosen not in (("words", "items", "positions") if is_text else ("items", "positions")):
        raise InputError(f"rows={chosen!r}: pass {'words, items' if is_text else 'items'} or positions.")
    return chosen


def _batch_size(size: Any) -> int | None:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise InputError(f"batch_size={size!r}: must be a whole number of 1 or more.")
    return size


def _text_sweep(job: _Job, shard: Shard | None) -> tuple[Sweep, dict[str, Plain]]:
    data, targets = job.data, job.targets
    if isinstance(data, (str, bytes)):
        raise InputTypeError("data is a single string: pass a list of sentences, such as [text].")
    if not isinstance(data, Iterable) or isinstance(data, Tensor):
        raise InputTypeError(
            f"data is {type_text(data)}, but tokenizer= is for text: pass a list of sentences, or leave out tokenizer=."
        )
    if shard is not None:
        data = shard.slice_items(data, "items")
        targets = None if targets is None else shard.slice_items(targets, "targets")
    row_settings = RowSettings(job.rows, job.special, job.max_length or _max_tokens(job))
    device = device_of(job.values_at.model)
    call = ModelCall.of(job.values_at, job.tokenizer, device, has_targets=targets is not None)
    first_items, items = _peek(data)
    first_targets, all_targets = ([], None) if targets is None else _peek(targets)
    settings = text_sweep.SweepSettings(
        job.aggregate,
        skips_special=job.rows == "items" and not row_settings.special,
        is_strict=job.strict,
        batch_size=job.batch_size,
        rows=job.rows,
        unit_dim=job.unit_dim,
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
    if _is_text(job.data):
        raise InputError(
            "data is text: pass tokenizer=, such as transformers.AutoTokenizer.from_pretrained(…), or tensors of "
            "token ids."
        )
    batches = Batches(job.data, job.batch_size, shard)
    settings = tensor_sweep.SweepSettings(
        job.aggregate,
        by_position=job.rows == "positions",
        call=job.call or default_call,
        samples=job.samples,
        unit_dim=job.unit_dim,
    )
    sweep = TensorSweep(job.values_at, batches, settings, device_of(job.values_at.model))
    return sweep, {"corpus": {"digest": provenance.batch_digest(sweep.first_sample)}}


def _is_text(data: Any) -> bool:
    """Whether the data is a string, or a sequence of strings or of lists of words."""
    while isinstance(data, Sequence) and not isinstance(data, str) and data:
        data = data[0]
    return isinstance(data, str)


def _max_tokens(job: _Job) -> int | None:
    """The longest input that both tokenizer and model allow."""
    config = getattr(job.values_at.model, "config", None)
    longest = getattr(config, "max_position_embeddings", None)
    for module in job.values_at.model.modules():  # positions of RoBERTa start after padding_idx
        if isinstance(module, nn.Embedding) and module.num_embeddings == longest and module.padding_idx is not None:
            longest -= module.padding_idx + 1
            break
    limits = [getattr(job.tokenizer, "model_max_length", None), longest]
    # transformers writes 1e30 as model_max_length where there is no limit.
    valid = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 24]
    return min(valid) if valid else None


def _peek(data: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first items, and an iterable over all of them."""
    # The data may be a generator, which can be read only once.
    items = iter(data)
    first_items = list(islice(items, _DIGEST_ITEMS))
    return first_items, chain(first_items, items)


def _with_progress(items: Iterable[Any], data: Any, what: str) -> Iterable[Any]:
    """Add a progress bar, if the number of items is known."""
    return progress(items, len(data), what) if isinstance(data, Sized) else items


def _corpus(data: Any, digest: str) -> Plain:
    return {"digest": digest, "n_items": len(data) if isinstance(data, Sized) else None}
