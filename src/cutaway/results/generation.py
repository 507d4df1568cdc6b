"""`Generation`: a text that a language model generated, with everything needed to explain it."""

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
    """A named part of a text: a field of a template, or a chat message."""

    name: str
    start: int
    """First token."""
    end: int
    """After the last token."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Tokens as ids, as the tokenizer writes them, and as readable text."""

    ids: NDArray[np.int64]
    """(token,)."""
    tokens: tuple[str, ...]
    """As the tokenizer writes them: `Ġcat`, `▁cat`, `##s`."""
    pieces: tuple[str, ...]
    """Readable text: ` cat`; bytes that are not valid text alone as `\\xe2\\x82`."""
    words: NDArray[np.int64]
    """(token,): word number of each token, from 0; a special token is a word of its own."""
    is_special: NDArray[np.bool_]
    """(token,)."""
    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        _make_read_only(self.ids, self.words, self.is_special)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_texts(self) -> tuple[str, ...]:
        """The words, without surrounding spaces."""
        found: dict[int, str] = {}
        for word, piece in zip(self.words.tolist(), self.pieces, strict=True):
            found[word] = found.get(word, "") + piece
        return tuple(_BYTES.sub(_decode_bytes, text.strip() or text) for text in found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Scores of each step, from the model's logits before temperature, top-k and other processing."""

    logits: NDArray[np.float64]
    """(step,): the logit of the choice."""
    logprobs: NDArray[np.float64]
    """(step,)."""
    entropies: NDArray[np.float64]
    """(step,): entropy of the distribution, in nats."""
    ranks: NDArray[np.int64]
    """(step,): 1 + number of tokens with a greater logit."""
    candidates: NDArray[np.int64]
    """(step, candidate): ids of the most likely tokens, best first."""
    candidate_pieces: tuple[tuple[str, ...], ...]
    """(step, candidate): readable text."""
    candidate_logprobs: NDArray[np.float64]
    """(step, candidate)."""
    kept: NDArray[np.float64] | None = None
    """(step, candidate): sampling probability after temperature, top-k, top-p …; 0 for excluded tokens. None if the
    logits were not processed."""
    n_kept: NDArray[np.int64] | None = None
    """(step,): number of tokens that could be sampled."""
    drawn: NDArray[np.float64] | None = None
    """(step,): sampling probability of the choice."""

    def __post_init__(self) -> None:
        _make_read_only(
            self.logits, self.logprobs, self.entropies, self.ranks, self.candidates, self.candidate_logprobs
        )
        _make_read_only(self.kept, self.n_kept, self.drawn)

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def probs(self) -> NDArray[np.float64]:
        """(step,): the probability of the choice."""
        found: NDArray[np.float64] = np.exp(self.logprobs)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """Every beam of a beam search as a tree, one node per token."""

    ids: NDArray[np.int64]
    """(node,)."""
    pieces: tuple[str, ...]
    parents: NDArray[np.int64]
    """(node,): the previous node; -1 for the first token after the prompt."""
    steps: NDArray[np.int64]
    """(node,): step, from 0."""
    logprobs: NDArray[np.float64]
    """(node,): log-probability of this token in the search."""
    scores: NDArray[np.float64]
    """(node,): the sum up to this token."""
    is_best: NDArray[np.bool_]
    """(node,): whether it is part of the returned sequence."""

    def __post_init__(self) -> None:
        _make_read_only(self.ids, self.parents, self.steps, self.logprobs, self.scores, self.is_best)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A text that a model generated, filled in or classified. Made by `cutaway.generate`.

    A target is what is explained: one generated token, one filled mask, or one label.
    """

    kind: GenerationKind
    read: Tokens
    """The tokens the model read and generated; for an encoder–decoder those of its decoder; masks as masks."""
    n_prompt: int
    """How many of these belong to the prompt; the rest was generated."""
    rows: NDArray[np.int64]
    """(target,): the row of the logits that predicted each target: the previous position, or that of its mask."""
    targets: Tokens
    """The choice at each row: tokens, or labels."""
    steps: Steps
    """Scores of each target."""
    text: str
    """The generated text; for masks the whole text, filled in; for labels their names."""
    prompt: str | None = None
    """The prompt as text; None if ids were given."""
    source: Tokens | None = None
    """The tokens that the encoder of an encoder–decoder read."""
    beams: Beams | None = None
    decoding: Mapping[str, object] = field(default_factory=dict)
    """Decoding options: `do_sample`, `temperature`, … and `seed`."""
    more_inputs: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Other inputs of the model: `token_type_ids`."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Provenance: model, tokenizer, versions."""
    _model: Any = field(init=False, default=None, repr=False, compare=False)
    _tokenizer: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _make_read_only(self.rows)

    # tokens

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """(position,): prompt and generated tokens, exactly as the model read them."""
        return self.read.ids

    @property
    def target_ids(self) -> NDArray[np.int64]:
        """(target,): the chosen ids."""
        return self.targets.ids

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of `token_ids`, as the tokenizer writes them."""
        return self.read.tokens

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens of `token_ids`, as readable text."""
        return self.read.pieces

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.rows)

    # model

    @property
    def model(self) -> Any:
        """The model that generated it, held by weak reference."""
        return self._dereference(self._model, "model")

    @property
    def tokenizer(self) -> Any:
        return self._dereference(self._tokenizer, "tokenizer")

    def with_model(self, model: Any, tokenizer: Any = None) -> Generation:
        """The same generation with a model: after `cutaway.load`, or with another one that has the same tokens."""
        made = replace(self)
        given = tokenizer if tokenizer is not None else None if self._tokenizer is None else self._tokenizer()
        object.__setattr__(made, "_model", ref(model))
        object.__setattr__(made, "_tokenizer", None if given is None else ref(given))
        return made

    def _dereference(self, reference: Any, what: str) -> Any:
        referent = None if reference is None else reference()
        if referent is None:
            never = "it was read from disk" if what == "model" else "it was read from disk, or none was given"
            why = never if reference is None else f"the {what} no longer exists in this program"
            raise InputError(
                f"this generation has no {what}: {why}. Attach one: gen = gen.with_model(model, tokenizer)."
            )
        return referent

    # analyses

    def saliency(self, method: str = "grad_x_input", **options: Any) -> Any:
        """Saliency: a score of each earlier token for each target. Returns a `Saliency`.

        Options: `target`, `contrast`, `only`, `baseline`, `steps`, `limit`.
        """
        return late.call("Generation.saliency", self, method, **options)

    def lens(self, norm: bool = True, **options: Any) -> Any:
        """The logit lens: what each layer would have predicted. Returns a `Lens`.

        Args:
            norm: whether to apply the final norm at every layer; if not, only at the last one, as Ecco does.
            **options: `after=("attention", "block")` also reads inside blocks; `watch=[" is", " are"]` follows these
                tokens; `k=10` of the most likely are stored; `positions=True` uses every token that was read.
        """
        return late.call("Generation.lens", self, norm, **options)

    def factors(self, n: int = 5, **options: Any) -> Any:
        """Factors of its neurons, groups that are active together; see `cutaway.lm.factors` for the options."""
        return late.call("Generation.factors", self, n, **options)

    def attention(self, **options: Any) -> Any:
        """Attention weights by layer and head. Returns an `Attention`.

        Options: `role`, `cross`, `layers`, `rows`, `limit`.
        """
        return late.call("Generation.attention", self, **options)

    def logit_attribution(self, by: str = "component", **options: Any) -> Any:
        """Direct logit attribution: what each part adds to the logit of each target. Returns a `LogitAttribution`.

        Options: `contrast`, `only`, `limit`; `by` is "layer", "component", "head", "mlp" or "neuron".
        """
        return late.call("Generation.logit_attribution", self, by, **options)

    # display

    @property
    def title(self) -> str:
        """A title that tells results apart: the generated text, cut if it is long."""
        text = " ".join(self.text.split())
        cut = text if len(text) <= _MOST_TITLE else f"{text[: _MOST_TITLE - 1]}…"
        verb = {"masked": "Filled in", "classifier": "Label"}.get(self.kind, "Generated")
        return f"{verb}: {cut or '(no readable text)'}"

    def table(self) -> Any:
        """One row per target: a pandas DataFrame if pandas is installed, else a list of dicts.

        If tokens were sampled, `drawn` is the sampling probability and `n_kept` how many tokens could be sampled.
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
        """One row per candidate of each target, best first: the alternatives, and whether they were excluded.

        `kept` is the sampling probability after temperature, top-k, top-p …: 0 for excluded tokens.
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
        """Save it into a new folder; `cutaway.load(path)` reads it back, without torch and without the model.

        Never overwrites: raises `ExistsError` if the folder is not empty.
        """
        late.call("result.save", self, path)

    def page(self) -> Any:
        """The result as a page: `cutaway.show` displays it, `print` prints it, `.to_html(path)` saves it."""
        return late.call("result.page", self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Save the page as one self-contained HTML file; returns its path."""
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
        what = {"masked": "masks filled", "classifier": "labels"}.get(self.kind, "tokens generated")
        name = self.about.get("model", "")
        head = f"Generation ({self.kind}{f', {name}' if name else ''}): {len(self)} {what}: {self.text!r}"
        return "\n".join([head, *shown[:_MOST_SHOWN], *([f"  and {rest} more"] if rest > 0 else [])])


def _decode_bytes(escaped: re.Match[str]) -> str:
    """Decodes the bytes of tokens that are valid text only together."""
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode("utf-8", "backslashreplace")


def _make_read_only(*arrays: NDArray[Any] | None) -> None:
    for array in arrays:
        if array is not None:
            array.flags.writeable = False
