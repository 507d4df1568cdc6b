"""Unit layouts of live values are learned once, from any part of a model that runs, and leave nothing behind."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.capture.model.eval_mode import preserve_state
from cutaway.capture.observe import observe
from cutaway.capture.units.live_units import LiveUnits, SiteLayouts, trace_hidden_run
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout


class Output(OrderedDict[str, Any]):
    """A mapping that is read by number, as model outputs of transformers are."""

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)


class Double(nn.Module):
    """An encoder and a decoder that are called one by one, or together."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(3, 6, 1), nn.ReLU())
        self.decoder = nn.Sequential(nn.Conv1d(6, 4, 1), nn.ReLU())
        self.calls = 0

    def forward(self, x: Tensor | None = None, *, given: Output | None = None) -> Tensor:
        self.calls += 1
        hidden = self.encoder(x) if given is None else given[0]
        return self.decoder(hidden)


def seen_layouts(model: nn.Module, sites: list[str], run: Any) -> dict[str, UnitLayout]:
    found: dict[str, UnitLayout] = {}
    units = LiveUnits(model, [Site.parse(site) for site in sites], needs_samples=True)

    def note(seen: Any) -> None:
        found[str(seen.requested[0])] = units.at(seen.site, seen.tensor, seen.module)

    with observe(model, sites, note), units:
        run()
    return found


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())


X = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))


def test_parts_of_a_model_that_are_called_one_by_one_are_learned_one_by_one() -> None:
    torch.manual_seed(0)
    model = Double()

    def run() -> None:
        hidden = model.encoder(X)
        model(given=Output(hidden=hidden))

    found = seen_layouts(model, ["encoder.1", "decoder.1"], run)
    assert [(layout.units, layout.samples) for layout in found.values()] == [((1,), (0,))] * 2
    assert model.calls == 1
    assert hooks(model) == 0


def test_hooks_that_a_restored_state_brings_back_neither_learn_again_nor_stay() -> None:
    torch.manual_seed(0)
    model = Double()
    n_traced = 0

    class Counted(LiveUnits):
        def _learn(self, module: nn.Module, args: Any, kwargs: Any) -> None:
            nonlocal n_traced
            n_traced += 1
            super()._learn(module, args, kwargs)

    with Counted(model, [Site("decoder.1")]) as units:
        for n in (2, 2, 2):
            with preserve_state(model):  # as `generate` does around each run
                model(X[:n])
    assert n_traced == 1
    assert hooks(model) == 0
    assert units.at(Site("decoder.1"), torch.zeros(7, 4, 5), None).shape == (7, 4, 5)


def test_a_layout_of_one_sample_is_learned_again_for_several() -> None:
    class Folded(nn.Module):
        """Heads in one dimension with the samples."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.mid = nn.Linear(6, 6), nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            b, t, _ = x.shape
            return self.mid(self.q(x).view(b, t, 2, 3).transpose(1, 2).reshape(b * 2, t, 3))

    torch.manual_seed(0)
    model = Folded()
    for n in (1, 4):
        x = torch.randn(n, 5, 6)
        wanted = model(x).reshape(n, 2, 5, 3).clone()
        wanted[:, 1, :, 2] = 0
        with cutaway.edit(model, at="mid#5", to=0):
            torch.testing.assert_close(model(x), wanted.reshape(n * 2, 5, 3))
    with cutaway.edit(model, at="mid#5", to=0):
        model(x[:1])
        torch.testing.assert_close(model(x), wanted.reshape(n * 2, 5, 3))


@pytest.mark.parametrize("site", ["1", "1@out", "1/relu", "1/relu.1", "1:1"])
def test_a_given_layout_is_found_however_its_site_is_written(site: str) -> None:
    model = nn.Sequential(nn.Conv1d(3, 6, 1), nn.ReLU())
    given = UnitLayout(((2,), (6,), (5,)), units=(2,), samples=(0,))
    full = Site("1", "relu", 1, None, "", 1) if "/" in site else Site("1", None, None, "out", "", 1)
    with LiveUnits(model, [Site.parse(site)], given={Site.parse(site): given}) as units:
        assert units.at(full, model(X), model[1]).units == (2,)


def test_inputs_that_are_made_inside_the_traced_block_have_samples() -> None:
    model = nn.Sequential(nn.Conv1d(3, 6, 1), nn.ReLU())
    for run in (lambda: model(torch.ones(2, 3, 5)), lambda: model(X.double().float()), lambda: model(X)):
        layout = SiteLayouts(trace_hidden_run(model, run)).find(Site("1"))
        assert layout is not None
        assert (layout.units, layout.samples) == ((1,), (0,))
    layout = SiteLayouts(trace_hidden_run(model, lambda: model[1](model[0](X)))).find(Site("1"))
    assert layout is not None
    assert (layout.units, layout.samples) == ((1,), (0,))


class Flat(nn.Module):
    """Tokens of all samples in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(3, 5), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (batch, token, 3)
        flat: Tensor = self.act(self.up(x.reshape(-1, 3)))
        return flat.view(*x.shape[:2], 5)


def test_samples_and_positions_in_one_dimension_follow_the_batch() -> None:
    model = Flat()
    xs = [torch.randn(2, 6, 3), torch.randn(3, 4, 3), torch.randn(1, 5, 3)]  # the second has as many rows as the first
    for part, place in (({"samples": 0}, (0,)), ({"positions": 1}, (slice(None), 1))):
        with cutaway.edit(model, at="act", to=0, **part):
            for x in xs:
                changed = model(x)
                expected = model.up(x).detach().clone()
                expected[place] = 0
                assert torch.equal(changed, expected)
