"""`Generation`: a text that a language model generated, with everything needed to explain it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.results.lm.attention import Attention
from cutaway.results.lm.lens import Lens
from cutaway.results.lm.logit_attribution import AttributedBy, LogitAttribution
from cutaway.results.lm.saliency import Saliency
from cutaway.results.lm.tokens import Beams, Role, Steps, Tokens
from cutaway.results.result import ResultPage, make_read_only

if TYPE_CHECKING:  # it imports this module: factors can be applied to a generation
    from cutaway.results.lm.factors import FactorMethod, Factors, NmfStart

GenerationKind = Literal["causal", "encoder-decoder", "masked", "classifier"]
LayerChoice = int | slice | Sequence[int] | None
"""Which blocks, counted from 0, negative from the end; None for all."""
Contrast = str | int | Sequence[str | int] | None
"""A token by text or id, or a label: one for all targets, or one per target."""
_MOST_SHOWN = 12
_MOST_TITLE = 40


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
        make_read_only(self.rows)

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
        """The same generation with a model: after `cutaway.load`, or with another one that has the same tokens.

        Args:
            model: a loaded model; it is held by weak reference, so keep it alive.
            tokenizer: its tokenizer; by default the one that the generation has.
        """
        if not callable(model) or not hasattr(model, "forward"):
            raise InputTypeError(
                f"model is {_described(model)}: give the loaded model, AutoModelForCausalLM.from_pretrained(…)."
            )
        if isinstance(tokenizer, str):
            raise InputTypeError(
                f"tokenizer is {_described(tokenizer)}: give the loaded tokenizer, AutoTokenizer.from_pretrained(…)."
            )
        attached = replace(self)
        if tokenizer is None and self._tokenizer is not None:
            tokenizer = self._tokenizer()
        # Weak: a generation that is kept in a notebook must not keep gigabytes of weights alive.
        object.__setattr__(attached, "_model", ref(model))
        object.__setattr__(attached, "_tokenizer", None if tokenizer is None else ref(tokenizer))
        return attached

    def _dereference(self, reference: Any, what: str) -> Any:
        referent = None if reference is None else reference()
        if referent is None:
            never = "it was read from disk" if what == "model" else "it was read from disk, or none was given"
            why = never if reference is None else f"the {what} was deleted, because no variable holds it"
            raise InputError(
                f"this generation has no {what}: {why}. Attach one: gen = gen.with_model(model, tokenizer)."
            )
        return referent

    # analyses

    def saliency(
        self,
        method: str = "grad_x_input",
        *,
        target: str | Callable[..., Any] = "logprob",
        contrast: Contrast = None,
        only: int | slice | Sequence[int] | None = None,
        baseline: Any = None,
        steps: int | None = None,
        limit: int = 4 * 2**30,
    ) -> Saliency:
        """Score how much each token that the model read mattered to each target.

            gen.saliency("integrated_gradients", contrast=" is", only=-1).top()

        Args:
            method: "gradient", "grad_x_input", "integrated_gradients", "occlusion", or "rollout" and "flow" of
                attention.
            target: the value to explain: "logprob", "logit", "probability", or a function of logits
                (sample, target, class) and classes (target,) that returns values (sample, target).
            contrast: explain why the target rather than this token: by text or id, or a label; one for all targets, or
                one per target.
            only: which targets, counted from 0; all by default.
            baseline: for "integrated_gradients" and "occlusion": what replaces a token: "zero" (the default), "pad",
                "mask", a token id, or a vector; for "occlusion" also "unseen", which masks attention to the token.
            steps: for "integrated_gradients": points on the path from the baseline; 50 by default.
            limit: bytes that may be used in addition to the model.
        """
        result: Saliency = late.call(
            "Generation.saliency",
            self,
            method,
            target=target,
            contrast=contrast,
            only=only,
            baseline=baseline,
            steps=steps,
            limit=limit,
        )
        return result

    def lens(
        self,
        norm: bool = True,
        *,
        after: str | Sequence[str] = ("block",),
        watch: str | int | Sequence[str | int] | None = None,
        k: int = 10,
        positions: bool = False,
        limit: int = 256 * 2**20,
    ) -> Lens:
        """Apply the logit lens: what each layer would have predicted in place of each target.

            gen.lens(watch=[" is", " are"]).ranks

        Args:
            norm: whether to apply the final norm at every layer. If False, only at the last one, as Ecco does; layers
                are then not comparable.
            after: where to read: after each "block", "attention", "mlp", or several of these; embedding and output are
                always included.
            watch: tokens whose ranks and probabilities to store as well: by text or id, labels by name.
            k: how many of the most likely tokens to store per layer.
            positions: whether every token that was read is a target, not only generated ones.
            limit: bytes of logits computed at once.
        """
        result: Lens = late.call(
            "Generation.lens", self, norm, after=after, watch=watch, k=k, positions=positions, limit=limit
        )
        return result

    def factors(
        self,
        n: int = 5,
        *,
        layers: LayerChoice = None,
        method: FactorMethod = "nmf",
        seed: int = 0,
        at: Any = None,
        role: Role | None = None,
        start: NmfStart | None = None,
        max_iter: int | None = None,
        tolerance: float | None = None,
    ) -> Factors:
        """Factorize the activations of feed-forward neurons: groups of neurons that are active together.

            gen.factors(5, layers=slice(6, None)).top_tokens(0)

        `cutaway.lm.factors` factorizes several generations together.

        Args:
            n: how many factors.
            layers: blocks, counted from 0: `4`, `-1`, `[0, 1]`, `slice(6, None)`; all by default. In an
                encoder–decoder, of both stacks.
            method: "nmf", "pca" or "kmeans" (clusters of neurons).
            seed: seed for the initialization of NMF and k-means.
            at: other sites, for a model without feed-forward neurons: `"backbone.layers.*.mixer.out_proj@in.0"`.
            role: only "encoder" or "decoder"; by default both, if the model has both.
            start: for "nmf": initialization, "svd" (the default), or "random" as in Ecco.
            max_iter: for "nmf": most iterations; 500 by default.
            tolerance: for "nmf": when to stop; 1e-4 by default.
        """
        result: Factors = late.call(
            "Generation.factors",
            self,
            n,
            layers=layers,
            method=method,
            seed=seed,
            at=at,
            role=role,
            start=start,
            max_iter=max_iter,
            tolerance=tolerance,
        )
        return result

    def attention(
        self,
        *,
        role: Role | None = None,
        cross: bool = False,
        layers: LayerChoice = None,
        rows: Literal["all", "targets"] = "all",
        limit: int = 2**30,
    ) -> Attention:
        """Read the attention weights by layer and head, also where a fused kernel never materializes them.

            gen.attention(layers=-1).weights

        Args:
            role: "encoder" or "decoder" of an encoder–decoder; by default the stack that leads to the logits.
            cross: cross-attention of the decoder to the encoder, instead of self-attention.
            layers: which layers, counted from 0 or from the end, or a slice; all by default.
            rows: "all" queries, or only those that the "targets" were predicted at.
            limit: bytes of weights that may be stored. If float32 does not fit, they are stored as float16.
        """
        result: Attention = late.call(
            "Generation.attention", self, role=role, cross=cross, layers=layers, rows=rows, limit=limit
        )
        return result

    def logit_attribution(
        self,
        by: AttributedBy = "component",
        *,
        contrast: Contrast = None,
        only: int | slice | Sequence[int] | None = None,
        limit: int = 2**30,
    ) -> LogitAttribution:
        """Attribute the logit of each target to the parts of the model: direct logit attribution.

            gen.logit_attribution("head", only=-1).top()

        Args:
            by: "layer"; "component": each attention and feed-forward network; "head"; "mlp": each feed-forward
                network, with all attention together; "neuron".
            contrast: explain the difference to the logit of this token: by text or id, one for all targets or one each.
            only: which targets, counted from 0; all by default.
            limit: bytes of contributions that may be stored.
        """
        result: LogitAttribution = late.call(
            "Generation.logit_attribution", self, by, contrast=contrast, only=only, limit=limit
        )
        return result

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

        Args:
            path: a folder that does not exist yet or is empty.
        """
        late.call("result.save", self, path)

    def page(self) -> ResultPage:
        """The result as a page: `cutaway.show` displays it, `print` prints it, `.to_html(path)` saves it."""
        page: ResultPage = late.call("result.page", self)
        return page

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Save the page as one self-contained HTML file; returns its path.

        Args:
            path: the file to write.
        """
        written: Path = self.page().to_html(path)
        return written

    def _repr_html_(self) -> str:
        html: str = late.call("result._repr_html_", self)
        return html

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


def _described(value: object) -> str:
    return f"the text {value!r}" if isinstance(value, str) else f"{type_text(value)}"
