"""Every lesion equals the same change written by hand; what carries the answer is found; nothing is left behind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import same
from torch import Tensor, nn

import cutaway
from cutaway import studies
from cutaway.core.errors import InputError, SiteError, UnitError


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).eval()


X = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))


def by_hook(module: nn.Module, change: Callable[[Tensor], Tensor], run: Callable[[], Tensor]) -> Tensor:
    """What a run returns when a plain hook changes what a module returns."""
    handle = module.register_forward_hook(lambda _, args, result: change(result.clone()))
    try:
        return run()
    finally:
        handle.remove()


def filled(index: Any, to: float | Tensor) -> Callable[[Tensor], Tensor]:
    def change(value: Tensor) -> Tensor:
        value[index] = to
        return value

    return change


def array(value: Tensor) -> Any:
    return value.detach().double().numpy()


def test_each_unit_is_changed_as_a_hook_would() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X), at=["1", "3"], each="unit", to=0.5)
    assert found.names == tuple([f"1#{i}" for i in range(6)] + [f"3#{i}" for i in range(5)])
    assert np.array_equal(found.baseline, array(model(X)))
    for row, (site, unit) in enumerate(zip(found.sites, found.parts, strict=True)):
        want = by_hook(model[int(site)], filled(np.s_[:, unit], 0.5), lambda: model(X))
        assert np.array_equal(found.scores[row], array(want))
    assert np.array_equal(found.effect, found.scores - found.baseline)


def test_zeroing_a_unit_is_what_a_model_without_its_weights_does() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X).sum(), at="1", each="unit")
    for unit in range(6):
        without = copy.deepcopy(model)
        without[2].weight.data[:, unit] = 0
        assert float(found.scores[unit]) == pytest.approx(float(without(X).sum().detach()), abs=1e-6)


def test_each_site_is_changed_whole() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X), at="*")
    assert found.sites == ("0", "1", "2", "3", "4")
    assert found.parts.tolist() == [-1] * 5
    for row in range(5):
        want = by_hook(model[row], torch.zeros_like, lambda: model(X))
        assert np.array_equal(found.scores[row], array(want))


def test_ops_inputs_and_parameters_are_sites_too() -> None:
    model = mlp()
    ops = studies.lesion(model, lambda: model(X), at="**/relu", each="unit")
    modules = studies.lesion(model, lambda: model(X), at="1", each="unit")
    inputs = studies.lesion(model, lambda: model(X), at="2@in.0", each="unit")
    columns = studies.lesion(model, lambda: model(X), at="2.weight", each="unit", unit_dim=1)
    rows = studies.lesion(model, lambda: model(X), at="2.weight", each="unit")
    assert ops.names[0] == "1/relu.1#0"
    assert np.array_equal(ops.scores, modules.scores)
    assert np.array_equal(inputs.scores, modules.scores)
    assert np.allclose(columns.scores, modules.scores, atol=1e-6)
    for unit in range(model[2].out_features):
        with cutaway.edit(model, at="2", to=model[2].bias[unit].item(), units=unit):
            assert np.allclose(rows.scores[unit], model(X).detach().numpy(), atol=1e-6), "a weight's units are its rows"
    assert studies.lesion(model, lambda: model(X), at=["0.bias", "2.weight"]).sites == ("0.bias", "2.weight")


def test_a_selection_of_a_trace_is_taken() -> None:
    model = mlp()
    chosen = cutaway.trace(model, X).select(function="tanh")
    found = studies.lesion(model, lambda: model(X), at=chosen, each="unit")
    assert np.array_equal(found.scores, studies.lesion(model, lambda: model(X), at="3", each="unit").scores)


def test_channels_of_a_convolution_are_its_units() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2)).eval()
    x = torch.randn(2, 3, 8, 8)
    for to in (0, "mean"):
        found = studies.lesion(model, lambda: model(x), at="0", each="unit", to=to)
        assert len(found) == 4
        means = model[0](x).double().mean((0, 2, 3)).float()
        for unit in range(4):
            new = means[unit] if to == "mean" else 0
            want = by_hook(model[0], filled(np.s_[:, unit], new), lambda: model(x))
            assert np.allclose(found.scores[unit], array(want), atol=1e-6)


def test_the_mean_is_that_of_the_unedited_run_over_samples_and_batches() -> None:
    model = mlp()

    def metric() -> Tensor:
        return torch.cat([model(X[:5]), model(X[5:])])

    units = studies.lesion(model, metric, at="1", each="unit", to="mean")
    whole = studies.lesion(model, metric, at="1", to="mean")
    means = model[1](model[0](X)).double().mean(0).float()
    for unit in range(6):
        want = by_hook(model[1], filled(np.s_[:, unit], means[unit]), metric)
        assert np.allclose(units.scores[unit], array(want), atol=1e-6)
    want = by_hook(model[1], lambda value: means.expand_as(value), metric)
    assert np.allclose(whole.scores[0], array(want), atol=1e-6)
    assert units.to == "mean"


def test_any_change_that_edit_takes_is_taken() -> None:
    model = mlp()
    other = cutaway.trace(model, -X)
    for to in (cutaway.edit.scale(3), lambda value: value * 3):
        found = studies.lesion(model, lambda: model(X), at="1", to=to)
        assert np.array_equal(found.scores[0], array(by_hook(model[1], lambda v: v * 3, lambda: model(X))))
    from_trace = studies.lesion(model, lambda: model(X), at=["0", "1"], to=other)
    assert np.array_equal(from_trace.scores[1], array(other.returned))


class Planted(nn.Module):
    """Two layers of which one unit alone carries the answer."""

    def __init__(self, unit: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        with torch.no_grad():
            for i in range(8):
                if i != unit:
                    self.out.weight[:, i] = 0

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(self.second(self.first(x).tanh()).tanh())
        return result


@pytest.mark.parametrize("unit", [0, 5])
def test_the_unit_that_carries_the_answer_is_found(unit: int) -> None:
    model = Planted(unit).eval()
    found = studies.lesion(model, lambda: model(X).sum(), at="second", each="unit")
    assert found.top(1) == [f"second#{unit}"]
    assert np.count_nonzero(found.effect) == 1


def test_the_top_can_be_edited_at_once() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X), at=["1", "3"], each="unit")
    best = found.top(1)
    with cutaway.edit(model, at=best, to=0):
        assert np.array_equal(array(model(X)), found.scores[found.order[0]])


def test_an_entry_of_the_metric_has_its_own_order() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X).mean(0), at="3", each="unit")
    for label in range(3):
        effect = np.abs(found.effect[:, label])
        assert found.top(2, of=label) == [f"3#{i}" for i in np.argsort(-effect)[:2]]
    with pytest.raises(InputError, match=r"of=7 is out of range: the metric has shape \[3\]"):
        found.top(1, of=7)


# heads


@pytest.fixture(scope="module")
def gpt() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=12, n_layer=2, n_head=3)
    model: nn.Module = transformers.GPT2LMHeadModel(config).eval()
    return model


IDS = torch.tensor([[3, 1, 4, 1, 5]])


def test_each_head_is_changed_as_a_hook_would(gpt: nn.Module) -> None:
    def metric() -> Tensor:
        logits: Tensor = gpt(IDS).logits[0, -1]
        return logits

    site = "transformer.h.*.attn.c_proj@in.0"
    with torch.no_grad():
        found = studies.lesion(gpt, metric, at=site, each="head")
        assert found.names[:2] == (
            "transformer.h.0.attn.c_proj@in.0 head 0",
            "transformer.h.0.attn.c_proj@in.0 head 1",
        )
        assert found.parts.tolist() == [0, 1, 2] * 2
        assert found.widths.tolist() == [4] * 6
        for row in range(6):
            block, head = divmod(row, 3)

            def hook(_: nn.Module, args: Any, head: int = head) -> Any:
                value = args[0].clone()
                value[..., 4 * head : 4 * head + 4] = 0
                return (value,)

            handle = gpt.transformer.h[block].attn.c_proj.register_forward_pre_hook(hook)
            want = metric()
            handle.remove()
            assert np.array_equal(found.scores[row], array(want))
        with cutaway.edit(gpt, at=found.top(1), to=0):
            assert np.array_equal(array(metric()), found.scores[found.order[0]])


class Heads(nn.Module):
    """Values with a dimension of heads, of which the second alone counts."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)[:, 1]


def test_heads_may_be_a_dimension_of_their_own() -> None:
    model = Heads()
    x = torch.ones(2, 3, 4, 4)
    with pytest.raises(UnitError, match=r"'\./tanh\.1' has no known unit dimension.*unit_dim="):
        studies.lesion(model, lambda: model(x).sum(), at="./tanh", each="head", n_heads=3)
    found = studies.lesion(model, lambda: model(x).sum(), at="./tanh", each="head", n_heads=3, unit_dim=1)
    assert np.flatnonzero(found.effect).tolist() == [1]
    assert found.scores[1] == 0
    assert found.top(1) == ["./tanh.1#1"]


def test_heads_that_nobody_counts_are_an_error() -> None:
    model = mlp()
    with pytest.raises(InputError, match="defines the number of heads: set n_heads="):
        studies.lesion(model, lambda: model(X), at="1", each="head")
    with pytest.raises(InputError, match="4 heads do not divide the 6 units of '1'"):
        studies.lesion(model, lambda: model(X), at="1", each="head", n_heads=4)


# what is left behind


def test_the_model_and_the_random_numbers_are_as_before() -> None:
    model = mlp()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    want = model(X)
    studies.lesion(model, lambda: model(X + torch.randn(1)).sum() + np.random.rand(), at=["*", "**/tanh", "0.weight"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert same(model(X), want)


def test_chance_does_not_look_like_an_effect() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)).train()
    model[3].weight.data[:, 4] = 0  # this unit reaches nothing
    found = studies.lesion(model, lambda: model(X).sum() + torch.randn(()), at="1", each="unit")
    assert found.effect[4] == 0
    assert np.count_nonzero(found.effect) >= 3


def test_a_metric_that_raises_leaves_the_model_as_it_was() -> None:
    model = mlp()
    calls = []

    def metric() -> Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError
        result: Tensor = model(X).sum()
        return result

    with pytest.raises(ZeroDivisionError):
        studies.lesion(model, metric, at=["0.weight", "1", "3"])
    assert all(not module._forward_hooks for module in model.modules())
    assert same(model(X), mlp()(X))


def test_the_metric_is_called_once_a_lesion_and_once_without() -> None:
    model = mlp()
    calls = []

    def metric() -> float:
        calls.append(1)
        return float(model(X).sum().detach())

    studies.lesion(model, metric, at="1", each="unit")
    assert len(calls) == 7


# errors


def test_a_metric_that_measures_nothing_is_an_error() -> None:
    model = mlp()
    for returned, said in ((None, "None"), ("high", "a str"), ([1, [2, 3]], "a list"), ({}, "a dict")):
        with pytest.raises(InputError, match=f"the metric returned {said} without a lesion: return a number"):
            studies.lesion(model, lambda: (model(X), returned)[1], at="1")
    with pytest.raises(InputError, match="the metric returned an empty array without a lesion"):
        studies.lesion(model, lambda: model(X)[:0], at="1")
    with pytest.raises(InputError, match="pass a function that runs the model"):
        studies.lesion(model, 0.5, at="1")  # type: ignore[arg-type]


def test_a_metric_that_changes_its_shape_is_an_error() -> None:
    model = mlp()
    with pytest.raises(InputError, match=r"shape \[0\] with a lesion at '4', but \[7\] before"):
        studies.lesion(model, lambda: (y := model(X).sum(1))[y != 0], at="4")


def test_sites_that_name_nothing_are_an_error() -> None:
    model = mlp()
    with pytest.raises(SiteError, match="matches no module, parameter or buffer"):
        studies.lesion(model, lambda: model(X), at="encoder.*")
    with pytest.raises(SiteError, match="nothing ran at '1' when the study called its function"):
        studies.lesion(model, lambda: 1.0, at="1")
    with pytest.raises(SiteError, match="nothing ran at '1/gelu'"):
        studies.lesion(model, lambda: model(X), at=["3", "1/gelu"])


def test_units_that_cannot_be_counted_are_an_error() -> None:
    model = nn.Sequential(nn.Identity())
    with pytest.raises(UnitError, match="dimension 1 had 3 entries when its units were found and has 5 now"):
        studies.lesion(
            model, lambda: model(torch.ones(2, 3)).sum() + model(torch.ones(2, 5)).sum(), at="0", each="unit"
        )
    with pytest.raises(UnitError, match="'0' has no known unit dimension"):
        studies.lesion(model, lambda: model(torch.ones(())), at="0", each="unit")
    with pytest.raises(UnitError, match="unit 9 is out of range: '1' has 6 units"):
        studies.lesion(other := mlp(), lambda: other(X), at="1#9", each="unit")
    with pytest.raises(InputError, match='set each="unit"'):
        studies.lesion(other, lambda: other(X), at="1#2")
    with pytest.raises(InputError, match="each='layer': pass 'site', 'unit', 'head'"):
        studies.lesion(other, lambda: other(X), at="1", each="layer")  # type: ignore[arg-type]


def test_units_that_are_named_are_the_only_ones() -> None:
    model = mlp()
    found = studies.lesion(model, lambda: model(X), at=["1#4", "1#2"], each="unit")
    every = studies.lesion(model, lambda: model(X), at=["1", "1#2"], each="unit")
    assert found.names == ("1#4", "1#2")
    assert len(every) == 6
    assert np.array_equal(found.scores, every.scores[[4, 2]])


def test_a_metric_that_changes_the_model_is_an_error() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

    def train() -> Any:
        with torch.no_grad():
            model[0].weight.mul_(0.9)  # type: ignore[operator, union-attr]
        return model(X)

    with pytest.raises(InputError, match=r"the metric changed '0\.weight' of the model.* parameters and very large"):
        studies.lesion(model, train, at="0")


def test_running_statistics_are_the_same_for_each_run_and_as_before_afterwards() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    met = []

    def metric() -> Any:
        met.append([buffer.clone() for buffer in model.buffers()])
        return model(X)

    before = [buffer.clone() for buffer in model.buffers()]
    studies.lesion(model, metric, at="*")
    assert len(met) == 3
    for each in [*met, [*model.buffers()]]:
        assert all(map(torch.equal, each, before))


def test_several_results_have_to_be_told_apart() -> None:
    model = nn.Sequential(nn.LSTM(4, 3))
    with pytest.raises(InputError, match="choose one of"):
        studies.lesion(model, lambda: model(X)[0], at="0")
    found = studies.lesion(model, lambda: model(X)[0], at="0@out.0", each="unit")
    assert found.names == ("0@out.0#0", "0@out.0#1", "0@out.0#2")
