"""`PromptRun`: a loaded model with the exact ids it read and the targets to explain; runs the model again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.token_positions import token_window
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.model.state import ModelState
from cutaway.capture.observe import Observation, check_single, no_value_error, observe
from cutaway.capture.units.live_units import LiveUnits
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.lm.model.anatomy import anatomy
from cutaway.lm.model.language_model import accepted_by, check_ids, check_length
from cutaway.lm.model.parts import Anatomy
from cutaway.results.lm.generation import Generation, GenerationKind
from cutaway.results.lm.tokens import Role

ValueFn = Callable[[Tensor], Tensor]
"""From the value at a site to its replacement."""


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """The result of one forward pass."""

    logits: Tensor
    """(sample, target, class): the logits of the row of each target."""
    values: dict[str, Tensor]
    """Site → value, samples first: (sample, position, unit) at most sites."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptRun:
    """A model with its inputs, the rows of the logits to explain, and the class chosen at each.

    A target is one generated token, one filled mask, or one label. All methods leave the model as it was: training
    mode, requires_grad flags, buffers, gradients and RNG state.
    """

    model: nn.Module
    """The eager module, also if the model was compiled."""
    kind: GenerationKind
    inputs: Mapping[str, Any]
    """Inputs of the model, one sample: `input_ids` (1, position); for an encoder–decoder those of the encoder, and
    `decoder_input_ids` (1, position)…"""
    rows: Tensor
    """(target,): the row of the logits that predicts each target; 0 for a sequence classifier."""
    classes: Tensor
    """(target,): the token or class of each target."""
    accepted: frozenset[str] = field(default_factory=frozenset)
    """The parameter names of the model's forward."""
    n_given: int | None = None
    """Number of prompt tokens; edits count negative positions from its end. None if unknown."""

    @staticmethod
    def of(gen: Generation, *, model: Any = None) -> PromptRun:
        """The run of a generation, with its own model unless you give another."""
        asked = gen.model if model is None else model
        core: nn.Module = getattr(asked, "_orig_mod", asked)
        if model is None:  # with_model may have attached any model
            check_ids(core, None, gen.token_ids.tolist(), "the generation")
            check_length(core, len(gen.read), what="the generation")
        device = device_of(core)
        given: dict[str, Any] = {"input_ids": _row(gen.token_ids, device)}
        if gen.source is not None:
            given = {"input_ids": _row(gen.source.ids, device), "decoder_input_ids": given["input_ids"]}
        given |= {name: _row(values, device) for name, values in gen.more_inputs.items()}
        return prompt_run(core, gen.kind, given, gen.rows, gen.target_ids)

    # structure

    @property
    def anatomy(self) -> Anatomy:
        """The parts of the model, found on first use."""
        return anatomy(self.model, self._arguments(self.inputs))

    @property
    def roles(self) -> tuple[Role, ...]:
        """("decoder",), or ("encoder", "decoder")."""
        return ("encoder", "decoder") if "decoder_input_ids" in self.inputs else ("decoder",)

    def ids(self, role: Role = "decoder") -> Tensor:
        """(position,): the ids that this stack reads."""
        is_decoder = role == "decoder" and "decoder_input_ids" in self.inputs
        numbers: Tensor = self.inputs["decoder_input_ids" if is_decoder else "input_ids"][0]
        return numbers

    @property
    def n_targets(self) -> int:
        return len(self.rows)

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @property
    def is_causal(self) -> bool:
        """Whether a row depends on no later position of its stack, so that one forward pass serves all targets."""
        return self.kind in ("causal", "encoder-decoder")

    def select_targets(self, chosen: Sequence[int]) -> PromptRun:
        """The run with some of the targets, without the positions that none of them can see."""
        indices = torch.tensor(list(chosen), device=self.device)
        rows, inputs = self.rows[indices], dict(self.inputs)
        if self.is_causal:
            n, length = int(rows.max()) + 1, len(self.ids())
            for name in ["decoder_input_ids"] if len(self.roles) > 1 else list(inputs):
                if isinstance(inputs[name], Tensor) and inputs[name].shape == (1, length):
                    inputs[name] = inputs[name][:, :n]
        return replace(self, inputs=inputs, rows=rows, classes=self.classes[indices])

    # forward passes

    def forward(
        self,
        sites: Sequence[str] = (),
        *,
        embeds: Mapping[Role, Tensor] | None = None,
        changes: Mapping[str, ValueFn] | None = None,
        inputs: Mapping[str, Any] | None = None,
        n: int | None = None,
        gradients: bool = False,
    ) -> ForwardResult:
        """One forward pass: the logits of all targets, and the values at some sites.

        Args:
            embeds: role → (sample, position, d): replaces the output of the embedding; other roles keep theirs. With
                `gradients`, leaves among them get gradients.
            changes: site → function from the value to its replacement.
            inputs: replace the inputs of the run, with one or more samples.
            n: how many copies of the sample run as a batch; by default as many as `embeds` has.
            gradients: whether the result is differentiable with respect to `embeds`; weights never get gradients.
        """
        given = self.inputs if inputs is None else inputs
        if n is None:
            n = max([len(each) for each in (embeds or {}).values()] or [len(given["input_ids"])])
        given = {name: value.expand(n, -1) if _is_batch(value, n) else value for name, value in given.items()}
        values: dict[str, Tensor] = {}
        changed = self._as_changes(embeds or {}, changes or {})

        def note(site: str, value: Tensor) -> None:
            values[site] = state.detached(value)

        with self.eval_mode(gradients=gradients) as state, edit(self.model, changed) if changed else nullcontext():
            with self.observe(sites, note):
                logits = state.detached(self._logits(given))
        return ForwardResult(logits, {site: self._split_batch(value, n) for site, value in values.items()})

    def logits(self) -> Tensor:
        """(target, class): the logits that predict each target."""
        return self.forward().logits[0]

    def logits_of(self, embeds: Mapping[Role, Tensor], **more: Any) -> Tensor:
        """(sample, target, class): the logits for these embeddings, differentiable with respect to them."""
        return self.forward(embeds=embeds, gradients=True, **more).logits

    def embeddings(self) -> dict[Role, Tensor]:
        """Role → (position, d): the output of the embedding, before position embeddings are added."""
        sites = {role: self.anatomy.part(role).embedding for role in self.roles}
        seen = self.forward([*sites.values()])
        return {role: seen.values[site][0] for role, site in sites.items()}

    def hidden(self, role: Role | None = None) -> Tensor:
        """(layer, position, d): the residual stream before the first block and after each, without the final norm."""
        stack = self.anatomy.stack if role is None else self.anatomy.part(role)
        seen = self.forward(stack.stream)
        return torch.stack([seen.values[site][0] for site in stack.stream])

    def values(self, sites: Sequence[str]) -> dict[str, Tensor]:
        """Site → value without the batch dimension: (position, d) where a site has positions."""
        return {site: value[0] for site, value in self.forward(sites).values.items()}

    def unit_rows(self, sites: Sequence[str]) -> dict[str, Tensor]:
        """Site → (position, unit), with units counted as in a trace."""
        units = LiveUnits(self.model, [Site.parse(site) for site in sites], needs_samples=True)
        rows: dict[str, Tensor] = {}

        def note(site: str, seen: Observation) -> None:
            value = seen.tensor.detach()
            layout = units.at(seen.site, value, seen.module).check(site)
            position = layout.position
            if position is None or value.numel() != layout.n_units * layout.sizes[position]:
                raise InputError(f"the value at {site!r} of shape {list(value.shape)} has no positions and units.")
            rows[site] = layout.rows(value).flatten(0, 1).clone()  # one sample: rows are positions

        with units, self.eval_mode(), self._observe_raw(sites, note):
            self._logits(self.inputs)
        return rows

    @contextmanager
    def observe(self, sites: Sequence[str], note: Callable[[str, Tensor], object]) -> Iterator[None]:
        """Context manager: calls `note(site, value)` for each site in one run of the model, after edits."""
        if not sites:
            yield
            return
        with self._observe_raw(sites, lambda site, seen: note(site, seen.tensor)):
            yield

    @contextmanager
    def _observe_raw(self, sites: Sequence[str], note: Callable[[str, Observation], object]) -> Iterator[None]:
        names = {Site.parse(site): site for site in sites}
        known: set[str] = set()

        def callback(observation: Observation) -> None:
            check_single(observation)
            for site in (names[asked] for asked in observation.requested):
                if site in known:
                    raise InputError(f"{site!r} ran more than once: choose a pass, '{site}:1'.")
                known.add(site)
                note(site, observation)

        with observe(self.model, list(names), callback) as observer:
            yield
        if observer.missing_sites:
            raise no_value_error(observer.missing_sites[0])

    @contextmanager
    def eval_mode(self, *, gradients: bool = False) -> Iterator[ModelState]:
        """Context manager: eval mode, weights without gradients; restores everything afterwards."""
        # With weights that require gradients, autograd would also save the inputs of every layer.
        asked = [weight for weight in self.model.parameters() if weight.requires_grad] if gradients else []
        with eval_mode(self.model, gradients=gradients) as state, token_window(self.n_given):
            try:
                for weight in asked:
                    weight.requires_grad_(False)
                with torch.set_grad_enabled(gradients):
                    yield state
            finally:
                for weight in asked:
                    weight.requires_grad_(True)

    def call(self, inputs: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The output of the model; does not switch to eval mode."""
        return self.model(**{**self._arguments(self.inputs if inputs is None else inputs), **more})

    def _split_batch(self, value: Tensor, n: int) -> Tensor:
        """The value with samples and positions in separate dimensions, if the model had merged them."""
        # OPT runs its feed-forward network on (sample · position, unit).
        lengths = {len(self.ids(role)) for role in self.roles}
        if value.dim() == 2 and len(value) != n and any(len(value) == n * length for length in lengths):
            return value.reshape(n, -1, value.shape[-1])
        return value

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"use_cache": False, "return_dict": True}
        return {**given, **{name: value for name, value in fixed.items() if name in self.accepted}}

    def _logits(self, given: Mapping[str, Any]) -> Tensor:
        """(sample, target, class); the head runs on the rows of the targets only, if the model supports it."""
        # The head is the largest matrix of many models, and most rows of its output would be thrown away.
        if "logits_to_keep" in self.accepted and self.rows.numel():
            return logits_of(self.call(given, logits_to_keep=self.rows), self.model)
        logits = logits_of(self.call(given), self.model)
        return logits[:, None].expand(-1, self.n_targets, -1) if logits.dim() == 2 else logits[:, self.rows]

    def _as_changes(self, embeds: Mapping[Role, Tensor], changes: Mapping[str, ValueFn]) -> dict[str, Change]:
        """Changes for `edit`."""
        given = {self.anatomy.part(role).embedding: value for role, value in embeds.items()}

        def change(site: str) -> Change:
            def make(value: Tensor) -> Tensor:
                if site in given:
                    value = given[site].to(value)
                return changes[site](value) if site in changes else value

            return Change(make)

        return {site: change(site) for site in dict.fromkeys([*given, *changes])}


def prompt_run(model: nn.Module, kind: GenerationKind, inputs: Mapping[str, Any], rows: Any, classes: Any) -> PromptRun:
    """A run from plain ids, rows and classes."""
    device = device_of(model)
    at, what = (_row(numbers, device)[0] for numbers in (rows, classes))
    n_given = int(at[0]) + 1 if kind == "causal" and at.numel() else inputs["input_ids"].shape[1]
    is_double = "decoder_input_ids" in inputs
    return PromptRun(model, kind, inputs, at, what, accepted_by(model), None if is_double else n_given)


def logits_of(output: Any, model: nn.Module) -> Tensor:
    """The logits in the output of a model: (sample, position, class), or (sample, class)."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        name = type(model).__name__
        raise InputError(
            f"{name} has no head: it returns no logits. Load the model with its head, such as "
            "AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSequenceClassification."
        )
    return logits


def _row(values: Any, device: torch.device) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.long, device=device)[None]


def _is_batch(value: Any, n: int) -> bool:
    return n > 1 and isinstance(value, Tensor) and value.dim() == 2 and len(value) == 1
