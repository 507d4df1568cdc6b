"""What a language model wrote, with everything that is needed to explain it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError

GenerationKind = Literal["causal", "encoder-decoder", "masked", "classifier"]
_MOST_SHOWN = 12
_MOST_TITLE = 40
_BYTES = re.compile(r"(?:\\x[89a-f][0-9a-f]){2,}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A named part of a text: a field of a template, or a message of a chat."""

    name: str
    start: int
    """Its first token."""
    end: int
    """Behind its last token."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Some tokens, as numbers, as the tokenizer writes them, and as they are read."""

    ids: NDArray[np.int64]
    """(token,)."""
    tokens: tuple[str, ...]
    """As the tokenizer writes them: `Ġcat`, `▁cat`, `##s`."""
    pieces: tuple[str, ...]
    """As they are read: ` cat`; bytes that are no text by themselves as `\\xe2\\x82`."""
    words: NDArray[np.int64]
    """(token,): the number of the word each belongs to, from 0; a special token is one by itself."""
    is_special: NDArray[np.bool_]
    """(token,)."""
    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        _locked(self.ids, self.words, self.is_special)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_texts(self) -> tuple[str, ...]:
        """The words, without the spaces around them."""
        found: dict[int, str] = {}
        for word, piece in zip(self.words.tolist(), self.pieces, strict=True):
            found[word] = found.get(word, "") + piece
        return tuple(_BYTES.sub(_joined, text.strip() or text) for text in found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """How sure the model was at each step, by its own logits before anything cut or scaled them."""

    logits: NDArray[np.float64]
    """(step,): the logit of what was chosen."""
    logprobs: NDArray[np.float64]
    """(step,)."""
    entropies: NDArray[np.float64]
    """(step,): of the whole distribution, in nats."""
    ranks: NDArray[np.int64]
    """(step,): 1 + how many others had a greater logit."""
    candidates: NDArray[np.int64]
    """(step, candidate): ids of the likeliest, best first."""
    candidate_pieces: tuple[tuple[str, ...], ...]
    """(step, candidate): as they are read."""
    candidate_logprobs: NDArray[np.float64]
    """(step, candidate)."""
    kept: NDArray[np.float64] | None = None
    """(step, candidate): the probability with which it could be drawn after temperature, top-k, top-p …; 0 where it was
    cut. None where nothing was changed before choosing."""
    n_kept: NDArray[np.int64] | None = None
    """(step,): how many tokens could be drawn."""
    drawn: NDArray[np.float64] | None = None
    """(step,): the probability with which the chosen one was drawn."""

    def __post_init__(self) -> None:
        _locked(self.logits, self.logprobs, self.entropies, self.ranks, self.candidates, self.candidate_logprobs)
        _locked(self.kept, self.n_kept, self.drawn)

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def probs(self) -> NDArray[np.float64]:
        """(step,): the probability of what was chosen."""
        found: NDArray[np.float64] = np.exp(self.logprobs)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """Every beam that was alive at some step, as a tree: one node a token."""

    ids: NDArray[np.int64]
    """(node,)."""
    pieces: tuple[str, ...]
    parents: NDArray[np.int64]
    """(node,): the node before; -1 behind the prompt."""
    steps: NDArray[np.int64]
    """(node,): from 0."""
    logprobs: NDArray[np.float64]
    """(node,): of this token, by what the search added up."""
    scores: NDArray[np.float64]
    """(node,): the sum up to here."""
    is_best: NDArray[np.bool_]
    """(node,): whether what was returned goes through it."""

    def __post_init__(self) -> None:
        _locked(self.ids, self.parents, self.steps, self.logprobs, self.scores, self.is_best)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A text that a model wrote, continued, filled in or judged. Made by `cutaway.generate`.

    A target is what is explained: one generated token, one filled mask, or one label.
    """

    kind: GenerationKind
    read: Tokens
    """What the model read, and wrote: for an encoder–decoder what its decoder did; masks as masks."""
    n_prompt: int
    """How many of these it was given; the rest it wrote."""
    rows: NDArray[np.int64]
    """(target,): the row of the logits that made each target: the position before it, or of its mask."""
    targets: Tokens
    """What was chosen at each row: tokens, or labels."""
    steps: Steps
    """How sure the model was of each target."""
    text: str
    """What was written; for masks the whole text, filled; for labels their names."""
    prompt: str | None = None
    """The prompt as text; None where ids were given."""
    source: Tokens | None = None
    """What the encoder of an encoder–decoder read."""
    beams: Beams | None = None
    decoding: Mapping[str, object] = field(default_factory=dict)
    """How tokens were chosen: `do_sample`, `temperature`, … and `seed`."""
    more_inputs: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """What the model read besides ids: `token_type_ids`."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Where it comes from: model, tokenizer, versions."""
    _model: Any = field(init=False, default=None, repr=False, compare=False)
    _tokenizer: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _locked(self.rows)

    # the tokens

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """(position,): prompt and generated tokens, exactly as the model read them."""
        return self.read.ids

    @property
    def target_ids(self) -> NDArray[np.int64]:
        """(target,): what was chosen."""
        return self.targets.ids

    @property
    def tokens(self) -> tuple[str, ...]:
        """Those of `token_ids`, as the tokenizer writes them."""
        return self.read.tokens

    @property
    def pieces(self) -> tuple[str, ...]:
        """Those of `token_ids`, as they are read."""
        return self.read.pieces

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.rows)

    # its model

    @property
    def model(self) -> Any:
        """The model that wrote it, as long as the program keeps it."""
        return self._companion(self._model, "model")

    @property
    def tokenizer(self) -> Any:
        return self._companion(self._tokenizer, "tokenizer")

    def with_model(self, model: Any, tokenizer: Any = None) -> Generation:
        """The same, with a model to ask: after `cutaway.load`, or with another one that reads the same tokens."""
        made = replace(self)
        given = tokenizer if tokenizer is not None else None if self._tokenizer is None else self._tokenizer()
        object.__setattr__(made, "_model", ref(model))
        object.__setattr__(made, "_tokenizer", None if given is None else ref(given))
        return made

    def _companion(self, kept: Any, what: str) -> Any:
        found = None if kept is None else kept()
        if found is None:
            never = "it was read from disk" if what == "model" else "it was read from disk, or none was given"
            why = never if kept is None else f"the program has let go of the {what}"
            raise InputError(
                f"this generation has no {what} to ask: {why}. Give it one: gen = gen.with_model(model, tokenizer)."
            )
        return found

    # questions

    def saliency(self, method: str = "grad_x_input", **options: Any) -> Any:
        """What each target was written because of: a score for each token before it.

        Options: `target`, `contrast`, `only`, `baseline`, `steps`, `limit`.
        """
        return late.call("Generation.saliency", self, method, **options)

    def lens(self, norm: bool = True, **options: Any) -> Any:
        """What each layer would have written, read by the model's own final norm and head: a `Lens`.

        Args:
            norm: whether the final norm is applied at every layer; if not, at the last one alone, as Ecco does.
            **options: `after=("attention", "block")` looks inside of blocks, too; `watch=[" is", " are"]` follows these
                tokens; `k=10` of the likeliest are kept; `positions=True` takes every token that was read.
        """
        return late.call("Generation.lens", self, norm, **options)

    def factors(self, n: int = 5, **options: Any) -> Any:
        """The activations of its neurons as a few patterns; `cutaway.lm.factors` says what can be chosen."""
        return late.call("Generation.factors", self, n, **options)

    def attention(self, **options: Any) -> Any:
        """Which token looked at which, by layer and head: an `Attention`.

        Options: `role`, `cross`, `layers`, `rows`, `limit`.
        """
        return late.call("Generation.attention", self, **options)

    def logit_attribution(self, by: str = "component", **options: Any) -> Any:
        """What each part of the model added to the logit of each target, summing to it: a `LogitAttribution`.

        Options: `contrast`, `only`, `limit`; `by` is "layer", "component", "head", "mlp" or "neuron".
        """
        return late.call("Generation.logit_attribution", self, by, **options)

    # showing

    @property
    def title(self) -> str:
        """What was written, cut where it is long: by this, several are told apart."""
        text = " ".join(self.text.split())
        cut = text if len(text) <= _MOST_TITLE else f"{text[: _MOST_TITLE - 1]}…"
        verb = {"masked": "Filled in", "classifier": "Said"}.get(self.kind, "Written")
        return f"{verb}: {cut or 'nothing that can be read'}"

    def table(self) -> Any:
        """One row a target: a pandas DataFrame where pandas is installed, else a list of dicts.

        Where tokens were drawn, `drawn` is the probability with which this one was, and `n_kept` how many could be.
        """
        steps = self.steps
        return to_dataframe(
            {
                "row": int(self.rows[i]),
                "id": int(self.target_ids[i]),
                "piece": self.targets.pieces[i],
                "prob": float(steps.probs[i]),
                "rank": int(steps.ranks[i]),
                "entropy": float(steps.entropies[i]),
                **({} if steps.drawn is None else {"drawn": float(steps.drawn[i])}),
                **({} if steps.n_kept is None else {"n_kept": int(steps.n_kept[i])}),
            }
            for i in range(len(self))
        )

    def candidates(self) -> Any:
        """One row a candidate of each target, best first: what else could have been chosen, and whether it was cut.

        `kept` is the probability that temperature, top-k, top-p … left it: 0 where it was cut.
        """
        steps = self.steps
        probs = np.exp(steps.candidate_logprobs)
        return to_dataframe(
            {
                "target": i,
                "rank": place + 1,
                "id": int(steps.candidates[i, place]),
                "piece": piece,
                "prob": float(probs[i, place]),
                **({} if steps.kept is None else {"kept": float(steps.kept[i, place])}),
                "is_chosen": bool(steps.candidates[i, place] == self.target_ids[i]),
            }
            for i, pieces in enumerate(steps.candidate_pieces)
            for place, piece in enumerate(pieces)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into a new folder; `cutaway.load(path)` reads it back, without torch and without its model.

        Nothing is overwritten: a folder that holds something is an `ExistsError`.
        """
        late.call("result.save", self, path)

    def page(self) -> Any:
        """All of it as a page: `cutaway.show` shows it, `print` prints it, `.to_html(path)` writes it."""
        return late.call("result.page", self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as one HTML file that needs nothing from outside; gives where it lies."""
        written: Path = self.page().to_html(path)
        return written

    def _repr_html_(self) -> str:
        found: str = late.call("result._repr_html_", self)
        return found

    def __repr__(self) -> str:
        shown = [
            f"  {piece!r} {prob:.3f}" + (f", rank {rank}" if rank > 1 else "")
            for piece, prob, rank in zip(self.targets.pieces, self.steps.probs, self.steps.ranks, strict=True)
        ]
        rest = len(shown) - _MOST_SHOWN
        what = {"masked": "masks filled", "classifier": "labels"}.get(self.kind, "tokens written")
        name = self.about.get("model", "")
        head = f"Generation ({self.kind}{f', {name}' if name else ''}): {len(self)} {what}: {self.text!r}"
        return "\n".join([head, *shown[:_MOST_SHOWN], *([f"  and {rest} more"] if rest > 0 else [])])


def _joined(escaped: re.Match[str]) -> str:
    """Bytes of tokens that were no text by themselves, together."""
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode("utf-8", "backslashreplace")


def _locked(*arrays: NDArray[Any] | None) -> None:
    for array in arrays:
        if array is not None:
            array.flags.writeable = False
