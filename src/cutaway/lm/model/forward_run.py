"""A reading: a loaded model, exactly the ids it read, and what is explained; run again as often as is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.new_values import Change
from cutaway.capture.interventions.token_positions import standing
from cutaway.capture.model.eval_mode import device_of, eval_mode
from cutaway.capture.model.state import ModelState
from cutaway.capture.observe import Observation, check_single, nothing_ran, observe
from cutaway.capture.units.live_units import LiveUnits
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.lm.model.anatomy import anatomy
from cutaway.lm.model.parts import Anatomy, Role
from cutaway.results.generation import Generation, GenerationKind

ValueFn = Callable[[Tensor], Tensor]
"""From the value at a site to the one that takes its place."""


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """What one forward gave."""

    logits: Tensor
    """(sample, target, class): of each target the logits of its row."""
    values: dict[str, Tensor]
    """Site → value with the samples first: (sample, position, unit) at most sites."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptRun:
    """What is explained: logits of a model at some rows, and the class that was chosen at each.

    One target is one generated token, one filled mask, or one label. All methods leave the model as it was: mode,
    flags, buffers, gradients, random states.
    """

    model: nn.Module
    """Its eager source, where it was compiled."""
    kind: GenerationKind
    inputs: Mapping[str, Any]
    """What the model is called with, one sample: `input_ids` (1, position), for an encoder–decoder those of the encoder
    and `decoder_input_ids` (1, position)…"""
    rows: Tensor
    """(target,): the row of the logits that made each target; 0 for a sequence classifier."""
    classes: Tensor
    """(target,): the token, or class, of each."""
    accepted: frozenset[str] = field(default_factory=frozenset)
    """The names of the model's inputs."""
    n_given: int | None = None
    """Tokens of the prompt: from its end an edit counts negative positions; None where that cannot be told."""

    @staticmethod
    def of(gen: Generation, *, model: Any = None) -> PromptRun:
        """The reading behind a generation; its own model is asked unless another is given."""
        asked = gen.model if model is None else model
        core: nn.Module = getattr(asked, "_orig_mod", asked)
        device = device_of(core)
        given: dict[str, Any] = {"input_ids": _row(gen.token_ids, device)}
        if gen.source is not None:
            given = {"input_ids": _row(gen.source.ids, device), "decoder_input_ids": given["input_ids"]}
        given |= {name: _row(values, device) for name, values in gen.more_inputs.items()}
        return prompt_run(core, gen.kind, given, gen.rows, gen.target_ids)

    # what it is made of

    @property
    def anatomy(self) -> Anatomy:
        """The parts of the model, found the first time they are asked for."""
        return anatomy(self.model, self._arguments(self.inputs))

    @property
    def roles(self) -> tuple[Role, ...]:
        """("decoder",), or ("encoder", "decoder")."""
        return ("encoder", "decoder") if "decoder_input_ids" in self.inputs else ("decoder",)

    def ids(self, role: Role = "decoder") -> Tensor:
        """(position,): what this stack reads."""
        is_decoder = role == "decoder" and "decoder_input_ids" in self.inputs
        found: Tensor = self.inputs["decoder_input_ids" if is_decoder else "input_ids"][0]
        return found

    @property
    def n_targets(self) -> int:
        return len(self.rows)

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @property
    def is_causal(self) -> bool:
        """Whether a row depends on no later position of its own stack: one forward then serves all targets."""
        return self.kind in ("causal", "encoder-decoder")

    def select_targets(self, chosen: Sequence[int]) -> PromptRun:
        """With these targets alone, and without the positions that none of them can see."""
        kept = torch.tensor(list(chosen), device=self.device)
        rows, inputs = self.rows[kept], dict(self.inputs)
        if self.is_causal:
            n, length = int(rows.max()) + 1, len(self.ids())
            for name in ["decoder_input_ids"] if len(self.roles) > 1 else list(inputs):
                if isinstance(inputs[name], Tensor) and inputs[name].shape == (1, length):
                    inputs[name] = inputs[name][:, :n]
        return replace(self, inputs=inputs, rows=rows, classes=self.classes[kept])

    # running it

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
        """One forward: the logits of all targets, and the values at these sites.

        Args:
            embeds: role → (sample, position, d): stands in the place of what the embedding gave; a role left out keeps
                its own. With `gradients`, a leaf among them gets one.
            changes: site → function from the value to the one that takes its place.
            inputs: in the place of the reading's own, with one or more samples.
            n: how many copies of the one sample run as a batch; as many as `embeds` has, if not given.
            gradients: whether the result can be differentiated by `embeds`; weights get no gradient in any case.
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
        """(target, class): the logits that made each target, as the model gives them."""
        return self.forward().logits[0]

    def logits_of(self, embeds: Mapping[Role, Tensor], **more: Any) -> Tensor:
        """(sample, target, class): the logits when the embeddings are these; differentiable by them."""
        return self.forward(embeds=embeds, gradients=True, **more).logits

    def embeddings(self) -> dict[Role, Tensor]:
        """Role → (position, d): what the embedding gave each token, before positions are added."""
        sites = {role: self.anatomy.part(role).embedding for role in self.roles}
        seen = self.forward([*sites.values()])
        return {role: seen.values[site][0] for role, site in sites.items()}

    def hidden(self, role: Role | None = None) -> Tensor:
        """(layer, position, d): the stream before the first block, and after each; the final norm is not applied."""
        stack = self.anatomy.stack if role is None else self.anatomy.part(role)
        seen = self.forward(stack.stream)
        return torch.stack([seen.values[site][0] for site in stack.stream])

    def values(self, sites: Sequence[str]) -> dict[str, Tensor]:
        """Site → the whole value without its batch: (position, d) where a site has positions."""
        return {site: value[0] for site, value in self.forward(sites).values.items()}

    def unit_rows(self, sites: Sequence[str]) -> dict[str, Tensor]:
        """Site → (position, unit), units as a trace counts them."""
        units = LiveUnits(self.model, [Site.parse(site) for site in sites], needs_samples=True)
        found: dict[str, Tensor] = {}

        def note(site: str, seen: Observation) -> None:
            value = seen.tensor.detach()
            layout = units.at(seen.site, value, seen.module).check(site)
            position = layout.position
            if position is None or value.numel() != layout.n_units * layout.sizes[position]:
                raise InputError(f"the value at {site!r} has no positions and units: its shape is {list(value.shape)}.")
            found[site] = layout.rows(value).flatten(0, 1).clone()  # one sample: rows are positions

        with units, self.eval_mode(), self._observe_raw(sites, note):
            self._logits(self.inputs)
        return found

    @contextmanager
    def observe(self, sites: Sequence[str], note: Callable[[str, Tensor], object]) -> Iterator[None]:
        """Inside the block one run of the model tells the value at each site, as edits leave it."""
        if not sites:
            yield
            return
        with self._observe_raw(sites, lambda site, seen: note(site, seen.tensor)):
            yield

    @contextmanager
    def _observe_raw(self, sites: Sequence[str], note: Callable[[str, Observation], object]) -> Iterator[None]:
        names = {Site.parse(site): site for site in sites}
        known: set[str] = set()

        def forward(seen: Observation) -> None:
            check_single(seen)
            for site in (names[asked] for asked in seen.asked):
                if site in known:
                    raise InputError(f"{site!r} ran more than once: name its pass, '{site}:1'.")
                known.add(site)
                note(site, seen)

        with observe(self.model, list(names), forward) as observer:
            yield
        if observer.missed:
            raise nothing_ran(observer.missed[0])

    @contextmanager
    def eval_mode(self, *, gradients: bool = False) -> Iterator[ModelState]:
        """Eval mode, weights without gradients; everything is as before afterwards."""
        asked = [weight for weight in self.model.parameters() if weight.requires_grad] if gradients else []
        with eval_mode(self.model, gradients=gradients) as state, standing(self.n_given):
            try:
                for weight in asked:
                    weight.requires_grad_(False)
                with torch.set_grad_enabled(gradients):
                    yield state
            finally:
                for weight in asked:
                    weight.requires_grad_(True)

    def call(self, inputs: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """What the model returns; nothing is put still around it."""
        return self.model(**{**self._arguments(self.inputs if inputs is None else inputs), **more})

    def _split_batch(self, value: Tensor, n: int) -> Tensor:
        """With samples and positions apart, where a model has put them into one dimension."""
        lengths = {len(self.ids(role)) for role in self.roles}
        if value.dim() == 2 and len(value) != n and any(len(value) == n * length for length in lengths):
            return value.reshape(n, -1, value.shape[-1])
        return value

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"use_cache": False, "return_dict": True}
        return {**given, **{name: value for name, value in fixed.items() if name in self.accepted}}

    def _logits(self, given: Mapping[str, Any]) -> Tensor:
        """(sample, target, class); the head runs on the rows that are asked for alone, where the model can do that."""
        if "logits_to_keep" in self.accepted and self.rows.numel():
            return logits_of(self.call(given, logits_to_keep=self.rows), self.model)
        found = logits_of(self.call(given), self.model)
        return found[:, None].expand(-1, self.n_targets, -1) if found.dim() == 2 else found[:, self.rows]

    def _as_changes(self, embeds: Mapping[Role, Tensor], changes: Mapping[str, ValueFn]) -> dict[str, Change]:
        """What `edit` is given."""
        given = {self.anatomy.part(role).embedding: value for role, value in embeds.items()}

        def change(site: str) -> Change:
            def make(value: Tensor) -> Tensor:
                if site in given:
                    value = given[site].to(value)
                return changes[site](value) if site in changes else value

            return Change(make)

        return {site: change(site) for site in dict.fromkeys([*given, *changes])}


def prompt_run(model: nn.Module, kind: GenerationKind, inputs: Mapping[str, Any], rows: Any, classes: Any) -> PromptRun:
    """A reading from plain numbers."""
    device = device_of(model)
    at, what = (_row(numbers, device)[0] for numbers in (rows, classes))
    n_given = int(at[0]) + 1 if kind == "causal" and at.numel() else inputs["input_ids"].shape[1]
    is_double = "decoder_input_ids" in inputs
    return PromptRun(model, kind, inputs, at, what, accepted_by(model), None if is_double else n_given)


def accepted_by(model: nn.Module) -> frozenset[str]:
    """The names of a model's inputs."""
    forward: Callable[..., Any] = model.forward
    try:
        return frozenset(inspect.signature(forward).parameters)
    except (TypeError, ValueError):
        return frozenset()


def logits_of(output: Any, model: nn.Module) -> Tensor:
    """The logits among what a model returned: (sample, position, class), or (sample, class)."""
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        name = type(model).__name__
        raise InputError(
            f"{name} has no head: it returns no logits. Load the model with its head, such as "
            "AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSequenceClassification."
        )
    return found


def _row(values: Any, device: torch.device) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.long, device=device)[None]


def _is_batch(value: Any, n: int) -> bool:
    return n > 1 and isinstance(value, Tensor) and value.dim() == 2 and len(value) == 1
