"""`Lens`: what each layer would have predicted, the result of `gen.lens()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import hint, listed, plural
from cutaway.results.lm.token_names import readable
from cutaway.results.result import Result, make_read_only, target_index, to_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_SHOWN = 8
_MOST_LAYERS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """Ranks and probabilities of chosen tokens through the layers."""

    ids: Ints
    """(token,)."""
    pieces: tuple[str, ...]
    ranks: Ints
    """(layer, target, token): 1 + number of tokens with a greater logit."""
    logprobs: Floats
    """(layer, target, token)."""

    def __post_init__(self) -> None:
        make_read_only(self.ids, self.ranks, self.logprobs)

    def __len__(self) -> int:
        """Number of watched tokens."""
        return len(self.ids)

    @property
    def probs(self) -> Floats:
        """(layer, target, token)."""
        return np.asarray(np.exp(self.logprobs))


@dataclass(frozen=True, slots=True, eq=False)
class Lens(Result):
    """The logit lens: for every layer and target, what the model would have predicted from there.

    A target is one generated token, one filled mask, one label; or with `positions=True` every token that was read.
    """

    layers: tuple[str, ...]
    """Where the lens reads, in order: "embedding", then blocks by number, `3 attention` inside one. The last is the
    output of the model."""
    sites: tuple[str, ...]
    """(layer,): the site in the model."""
    targets: tuple[str, ...]
    """The text of each target."""
    target_ids: Ints
    """(target,)."""
    rows: Ints
    """(target,): the position that each was predicted from."""
    is_written: NDArray[np.bool_]
    """(target,): whether the model chose it; False for prompt tokens."""
    ranks: Ints
    """(layer, target): 1 + number of tokens with a strictly greater logit than the target."""
    logprobs: Floats
    """(layer, target): of the target."""
    entropies: Floats
    """(layer, target): entropy of the distribution, in nats."""
    kl: Floats
    """(layer, target): KL(output ‖ layer) in nats: how far the layer is from the model's output."""
    top_ids: Ints
    """(layer, target, k): the most likely tokens, best first."""
    top_logprobs: Floats
    """(layer, target, k)."""
    named_ids: Ints
    """(name,): ids among `top_ids`, ascending."""
    names: tuple[str, ...]
    """(name,): their readable texts."""
    norm: bool = True
    """Whether the final norm was applied at every layer; if not, only at the last one, as Ecco does."""
    n_classes: int = 0
    """Size of the vocabulary, or number of labels."""
    watched: Watched | None = None
    """The tokens given by `watch=`."""
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _again: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        make_read_only(self.target_ids, self.rows, self.is_written, self.ranks, self.logprobs, self.entropies, self.kl)
        make_read_only(self.top_ids, self.top_logprobs, self.named_ids)

    def __len__(self) -> int:
        """Number of layers."""
        return len(self.layers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(lens)` is `ranks`, which its repr shows: (layer, target)."""
        return to_array(self.ranks, dtype, copy)

    @property
    def k(self) -> int:
        """How many of the most likely tokens are stored."""
        return int(self.top_ids.shape[-1])

    @property
    def probs(self) -> Floats:
        """(layer, target): the probability of the target."""
        return np.asarray(np.exp(self.logprobs))

    @property
    def top_probs(self) -> Floats:
        """(layer, target, k)."""
        return np.asarray(np.exp(self.top_logprobs))

    @property
    def top_pieces(self) -> NDArray[np.object_]:
        """(layer, target, k): the readable texts of `top_ids`."""
        return np.asarray(np.array(self.names, object)[np.searchsorted(self.named_ids, self.top_ids)])

    @property
    def settled(self) -> Ints:
        """(target,): the first layer from which on the target stays the most likely; -1 if it never does."""
        is_first = self.ranks == 1
        later = np.logical_and.accumulate(is_first[::-1])[::-1]  # (layer, target)
        return np.where(later.any(axis=0), later.argmax(axis=0), -1).astype(np.int64)

    def layer(self, asked: int | str) -> int:
        """The index of a layer.

        Args:
            asked: its name, or its index; negative from the end.
        """
        if isinstance(asked, str):
            if asked not in self.layers:
                raise InputError(
                    f"there is no layer {asked!r} in this lens.{hint(asked, self.layers)} There are "
                    f"{len(self)}: {_quoted(self.layers)}."
                )
            return self.layers.index(asked)
        if not -len(self) <= asked < len(self):
            raise InputError(f"there is no layer {asked}: there are {len(self)}, counted from 0.")
        return int(asked) % len(self)

    def top(self, n: int = 5, *, target: int = 0) -> list[list[tuple[str, float]]]:
        """The most likely tokens of each layer in place of one target, with probabilities, best first.

        Args:
            n: how many tokens; at most the `k` of `gen.lens(k=…)`.
            target: index of the target; negative from the end.
        """
        target = target_index(target, len(self.targets))
        if n > self.k:
            raise InputError(f"n={n} is more than the {self.k} tokens stored per layer: use gen.lens(k={n}).")
        pieces, probs = self.top_pieces[:, target, :n].tolist(), self.top_probs[:, target, :n].tolist()
        return [list(zip(texts, shares, strict=True)) for texts, shares in zip(pieces, probs, strict=True)]

    def watch(self, tokens: str | int | Sequence[str | int]) -> Watched:
        """Ranks and probabilities of some tokens at every layer and target: `lens.watch([" is", " are"])`.

        Tokens given by `watch=` are stored, also after `cutaway.load`; for others the model runs again.

        Args:
            tokens: by text, as in the tokenizer (most words start with a space), or by id; labels by name.
        """
        asked = [tokens] if isinstance(tokens, str) or not isinstance(tokens, Iterable) else list(tokens)
        stored = self._from_watched(asked)
        if stored is not None:
            return stored
        if self._again is None:
            known = f"watched are {_quoted(self.watched.pieces)}" if self.watched is not None else "none are watched"
            raise InputError(
                f"this lens was read from disk and has no model to look up {_quoted(map(str, asked))}; {known}. "
                "Make it again: gen.with_model(model, tokenizer).lens(watch=[…])."
            )
        watched: Watched = self._again(asked)
        return watched

    def _from_watched(self, asked: Sequence[str | int]) -> Watched | None:
        watched = self.watched
        if watched is None or not asked:
            return None
        ids = watched.ids.tolist()
        places = [
            (watched.pieces.index(each) if each in watched.pieces else -1)
            if isinstance(each, str)
            else (ids.index(each) if each in ids else -1)
            for each in asked
        ]
        if -1 in places:
            return None
        taken = (watched.ids[places], watched.ranks[..., places], watched.logprobs[..., places])
        return Watched(taken[0], tuple(watched.pieces[i] for i in places), taken[1], taken[2])

    def table(self) -> Any:
        """One row per layer and target: a pandas DataFrame if pandas is installed, else a list of dicts."""
        pieces, top = self.top_pieces, self.top_probs
        return to_dataframe(
            {
                "layer": name,
                "target": target,
                "piece": piece,
                "rank": int(self.ranks[layer, target]),
                "prob": float(np.exp(self.logprobs[layer, target])),
                "entropy": float(self.entropies[layer, target]),
                "kl": float(self.kl[layer, target]),
                "top": pieces[layer, target, 0],
                "top_prob": float(top[layer, target, 0]),
            }
            for layer, name in enumerate(self.layers)
            for target, piece in enumerate(self.targets)
        )

    @property
    def title(self) -> str:
        """A title that tells results apart: names the watched tokens."""
        tokens = [] if self.watched is None else [readable(piece) for piece in self.watched.pieces[:_MOST_SHOWN]]
        return "Lens: what each layer would have written" + (f", watching {', '.join(tokens)}" if tokens else "")

    def __repr__(self) -> str:
        how = "" if self.norm else ", without the final norm"
        n = len(self.targets)
        lines = [f"Lens: {len(self)} layers × {plural(n, 'target')}{how}"]
        if n:
            pieces, shown = self.top_pieces, self.targets[:_MOST_SHOWN]
            wide = max(map(len, self.layers))
            lines[0] += f": ranks of {_quoted(self.targets)}"
            for layer, name in list(enumerate(self.layers))[-_MOST_LAYERS:]:
                ranks = " ".join(f"{rank:>6,}" for rank in self.ranks[layer, : len(shown)].tolist())
                lines.append(f"  {name:<{wide}} {ranks}  {pieces[layer, 0, 0]!r}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _quoted(texts: Iterable[str]) -> str:
    return listed(map(repr, texts), _MOST_SHOWN)
