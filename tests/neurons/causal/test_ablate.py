"""Ablations change what they say, beside random ones, and leave the model as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.neurons.tiny_models import FAMILIES, assert_same, cnn, images, logits, state, tokens
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import InputError, UnitError
from cutaway.neurons.causal.ablate import ablate
from cutaway.results.neurons.ranking import ranked
from cutaway.views.pages.result_pages import page_of


def by_hand(model: nn.Module, batch: Any, site: str, units: list[int], values: Tensor, dimension: int) -> Tensor:
    """The logits with a plain hook of torch in the place of an edit."""

    def put(module: nn.Module, args: Any, result: Tensor) -> Tensor:
        moved = result.clone().movedim(dimension, -1)
        moved[..., units] = values
        return moved.movedim(-1, dimension)

    handle = model.get_submodule(site).register_forward_hook(put)
    try:
        with torch.no_grad():
            return logits(model, batch)
    finally:
        handle.remove()


@pytest.mark.parametrize("to", ["zero", "mean"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_best_units_are_gone_and_the_model_is_as_it_was(family: str, to: Any) -> None:
    make, inputs, site = FAMILIES[family]
    model, batch = make(), inputs()
    acts = cutaway.collect(model, batch, at=site, rows="positions")
    rng = np.random.default_rng(0)
    ranking = ranked("mine", rng.random(acts.n_units), names=acts.names)
    before = state(model)

    @torch.no_grad()
    def total() -> Tensor:
        return logits(model, batch).square().sum()

    found = ablate(model, ranking, {"total": total}, n=[1, 3], to=to, acts=acts, n_random=2)
    assert_same(before, state(model))
    units = [int(name.rpartition("#")[2]) for name in ranking.top(3)]
    dimension = 1 if family == "cnn" else -1
    for row, n in enumerate((1, 3)):
        values = torch.tensor(acts.array()[:, units[:n]].mean(0)) if to == "mean" else torch.zeros(n)
        expected = by_hand(model, batch, site, units[:n], values, dimension).square().sum()
        assert found.scores[row, 0] == pytest.approx(expected.item(), rel=1e-5)
    assert found.baseline[0] == total().item()
    assert found.metrics == ("total",)
    assert found.random.shape == (2, 2, 1)
    assert found.units == tuple(ranking.top(3))


def test_resampled_values_are_rows_of_the_activations() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Identity())
    x = torch.randn(50, 3)
    acts = cutaway.collect(model, x, at="0")
    seen: list[Tensor] = []

    @torch.no_grad()
    def see() -> float:
        seen.append(model(x))
        return float(seen[-1].sum())

    for _ in range(2):
        ablate(model, ["0#1", "0#3"], see, to="resample", acts=acts, n_random=0)
    plain, changed, _, again = seen
    assert torch.equal(plain[:, [0, 2]], changed[:, [0, 2]])
    rows = {tuple(row) for row in acts.array()[:, [1, 3]].tolist()}
    assert all(tuple(row) in rows for row in changed[:, [1, 3]].tolist())  # both of the same row
    assert not torch.equal(plain, changed)
    assert torch.equal(changed, again)  # one seed, one result


def test_a_row_for_a_whole_image_fills_all_its_pixels() -> None:
    model, x = cnn(), images()
    acts = cutaway.collect(model, x, at="0")
    seen: list[Tensor] = []
    handle = model[1].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    ablate(model, ["0#2"], lambda: model(x).sum(), to="resample", acts=acts, n_random=0)
    handle.remove()
    channel = seen[1][:, 2]
    assert torch.equal(channel, channel[:, :1, :1].expand_as(channel))


def test_random_units_come_from_the_same_sites_and_are_no_dead_ones() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 5))
    x = torch.randn(9, 3)
    names = [f"0#{i}" for i in range(6)] + [f"1#{i}" for i in range(5)]
    scores = np.arange(11)[::-1].copy()
    ranking = ranked("mine", scores, names=names, dead=[5])
    met: list[tuple[int, int]] = []

    @torch.no_grad()
    def count() -> float:
        hidden: list[Tensor] = []
        hook = model[1].register_forward_pre_hook(lambda module, args: hidden.append(args[0]))
        out = model(x)
        hook.remove()
        assert (hidden[0][:, 5] != 0).all()
        met.append((int((hidden[0] == 0).all(0).sum()), int((out == 0).all(0).sum())))
        return 0.0

    ablate(model, ranking, count, n=7, n_random=8)
    assert met[0] == (0, 0)
    assert met[1:] == [(5, 2)] * 9


def test_the_unit_that_matters_is_told_from_random_ones() -> None:
    torch.manual_seed(0)
    model = nn.Linear(40, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.01)
        model.weight[0, 7] = 10
    x = torch.ones(1, 40)
    found = ablate(model, [".@in.0#7"], lambda: {"main": model(x).item(), "side": 1}, n_random=19)
    assert found.metrics == ("main", "side")
    assert found.p[0, 0] <= 0.1
    assert found.p[0, 1] == 1.0
    assert found.effect[0].tolist() == pytest.approx([-10, 0])
    assert found.effects() == (("main", found.baseline[0], found.scores[0, 0]), ("side", 1.0, 1.0))
    assert "without 1: 0.39, random" in repr(found)
    page = page_of(found)
    assert page is not None
    assert [section.title for section in page.sections] == ["Summary", "main", "side"]
    assert "without the top units by given" in page.text()
    assert len(found.table()) == 2


def test_a_metric_that_draws_random_numbers_draws_the_same_each_time() -> None:
    model = nn.Linear(3, 3)
    torch.manual_seed(5)
    expected = torch.rand(1).item()
    torch.manual_seed(5)
    found = ablate(model, ["." + "#1"], lambda: model(torch.rand(1, 3)).sum() * 0 + torch.rand(1), n_random=2)
    assert len(np.unique(np.concatenate([found.baseline, found.scores.ravel(), found.random.ravel()]))) == 1
    assert torch.rand(1).item() == expected


@pytest.mark.parametrize(
    ("ranking", "options", "message"),
    [
        (ranked("mine", [1.0, 2.0]), {}, "has no unit names"),
        (["."], {}, "is not a unit"),
        (".#1", {}, "a non-empty list of unit sites"),
        ([".#1"], {"n": 2}, "must be between 1 and 1"),
        ([".#1"], {"to": "mean"}, "pass acts="),
        ([".#1"], {"to": "nothing"}, "use 'zero', 'mean' or 'resample'"),
        ([".#1"], {"metric": lambda: None}, "returned None"),
        ([".#1"], {"metric": lambda: [1, 2]}, r"shape \[2\]"),
        ([".#1"], {"metric": lambda: torch.ones(2)}, r"a Tensor of shape \[2\]: return a number, such as value.mean"),
        ([".#1"], {"metric": lambda: "good"}, "the metric returned a str: return a number"),
        (nn.Linear(3, 3), {}, "got a Linear"),
        ([".#1"], {"metric": 3}, "must be a function"),
    ],
)
def test_what_cannot_be_meant_is_said(ranking: Any, options: dict[str, Any], message: str) -> None:
    model = nn.Linear(3, 3)
    metric = options.pop("metric", lambda: model(torch.ones(1, 3)).sum())
    with pytest.raises(InputError, match=message):
        ablate(model, ranking, metric, **options)


def test_units_out_of_range_are_refused_before_the_first_ablation() -> None:
    model = nn.Linear(3, 3)
    calls = []

    def metric() -> float:
        calls.append(1)
        return float(model(torch.ones(1, 3)).sum())

    with pytest.raises(UnitError, match=r"unit 9 is out of range: '\.' has 3 units, #0 to #2"):
        ablate(model, [".#1", ".#9"], metric)
    assert len(calls) == 1
    with pytest.raises(InputError, match="got a Ranking as model"):
        ablate(ranked("mine", [1.0]), model, metric)  # type: ignore[arg-type]


def test_a_metric_that_trains_the_model_is_refused() -> None:
    model = cnn().train()

    def train() -> float:
        with torch.no_grad():
            model[0].weight.mul_(0.9)  # type: ignore[operator, union-attr]
        return 1.0

    with pytest.raises(InputError, match=r"the metric changed the parameter '0\.weight'"):
        ablate(model, ["0#1"], train)


def test_running_statistics_are_the_same_for_each_run_and_as_before_afterwards() -> None:
    model, x = cnn().train(), images()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert before
    met = []

    def metric() -> float:
        met.append([buffer.clone() for buffer in model.buffers()])
        return float(model(x).sum())

    ablate(model, ["0#1"], metric)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert len(met) > 2
    for each in met:
        assert all(map(torch.equal, each, before.values()))


def test_the_whole_corpus_of_a_ranking_goes_through_a_language_model() -> None:
    """Side effects: the loss of a causal model beside the probability of one token."""
    make, _, site = FAMILIES["gpt2"]
    model, batch = make(), tokens()
    acts = cutaway.collect(model, batch, at=site, rows="positions")
    ranking = cutaway.neurons.rank(acts, acts.array()[:, 3] > 0)

    @torch.no_grad()
    def both() -> dict[str, float]:
        out = model(**batch, labels=batch["input_ids"])
        return {"loss": out.loss.item(), "p": out.logits[:, -1].softmax(-1)[:, 7].mean().item()}

    found = ablate(model, ranking, both, n_random=1)
    assert found.n.tolist() == [1, 2, 5, 10, 20, 50]
    assert found.metrics == ("loss", "p")
    assert np.isfinite(found.scores).all()
    assert found.units[0] == f"{site}#3"


@pytest.mark.cuda
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gpu_collects_ranks_attributes_and_ablates_alike(family: str) -> None:
    make, inputs, site = FAMILIES[family]
    found = {}
    for device in ("cpu", "cuda"):
        model, batch = make().to(device), inputs()
        acts = cutaway.collect(model, batch, at=site, rows="positions")
        labels = np.arange(len(acts)) % 2
        ranking = cutaway.neurons.rank(acts, labels)
        moved = {name: part.to(device) for name, part in batch.items()} if isinstance(batch, dict) else batch.to(device)
        attribute_batches = cutaway.neurons.attribute(
            model, batch, at=site, target=lambda output, batch: getattr(output, "logits", output).flatten(1)[:, 0]
        )

        @torch.no_grad()
        def total(model: nn.Module = model, batch: Any = moved) -> Tensor:
            return logits(model, batch).square().sum()

        units = list(acts.names[:3])
        ablation = ablate(model, units, {"total": total}, to="mean", acts=acts, n_random=2)
        found[device] = acts.array(), ranking.scores, attribute_batches.scores, ablation.scores, ablation.random
    for ours, theirs in zip(found["cpu"], found["cuda"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)
