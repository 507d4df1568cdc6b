"""Attributions agree with captum and with finite differences, and the model is left alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.collecting.tiny import bert as text_bert
from tests.collecting.tiny import minilm
from tests.neurons.tiny_models import FAMILIES, assert_same, bert, cnn, gpt2, images, logits, state, tokens
from torch import Tensor, nn

import cutaway
from cutaway.core.errors import InputError, SiteError, UnitError
from cutaway.neurons.causal.attribute import attribute
from cutaway.neurons.causal.attribution import Plan, attribute_batches
from cutaway.neurons.ranking.rank import rank

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from captum.attr import LayerConductance, LayerGradientXActivation, LayerIntegratedGradients

CLASS = 2


def ours(model: nn.Module, data: Any, site: str, **plan: Any) -> np.ndarray:
    """(sample, position, unit)."""
    (found,) = attribute_batches(model, data, [site], Plan(**plan))
    return found.values[site]


def laid(tensor: Tensor, dimension: int = -1) -> np.ndarray:
    moved = tensor.detach().movedim(dimension, -1)
    return moved.reshape(len(moved), -1, moved.shape[-1]).numpy()


def mlp() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Softplus(), nn.Linear(6, 3)).double()


def last(output: Any, batch: Any) -> Tensor:
    return output.logits[:, -1, CLASS]


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_times_activation_is_captums(family: str) -> None:
    make, inputs, site = FAMILIES[family]
    model, data = make(), inputs()
    found = ours(model, data, site, method="gradient_x_activation", target=last if family == "gpt2" else CLASS)
    layer = LayerGradientXActivation(
        (lambda ids, mask: logits(model, {"input_ids": ids, "attention_mask": mask})) if family != "cnn" else model,
        model.get_submodule(site),
    )
    if family == "cnn":
        expected = laid(layer.attribute(data, target=CLASS), 1)
    else:
        given = (data["input_ids"], data["attention_mask"])
        expected = laid(layer.attribute(given[0], target=CLASS, additional_forward_args=given[1:]))
        expected = expected * data["attention_mask"][..., None].numpy()
    assert np.abs(expected).max() > 1e-6
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max(), rtol=1e-5)


@pytest.mark.parametrize("steps", [7, 50])
def test_integrated_gradients_are_captums(steps: int) -> None:
    model = cnn()
    x, x0 = images(), images().flip(0) * 0.3
    found = ours(model, x, "0", method="integrated_gradients", target=CLASS, steps=steps, baseline=x0)
    layer = LayerIntegratedGradients(model, model[0])
    expected = laid(layer.attribute(x, x0, target=CLASS, n_steps=steps), 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_integrated_gradients_of_embeddings_are_captums() -> None:
    model, data = bert(), tokens()
    data["attention_mask"][:] = 1
    site = "bert.embeddings"
    start = {name: value[:1].clone() for name, value in data.items()}
    start["input_ids"][:] = 0
    found = ours(model, data, site, method="integrated_gradients", target=CLASS, steps=20, baseline=start)
    layer = LayerIntegratedGradients(lambda ids: model(input_ids=ids).logits, model.bert.embeddings)
    zeros = torch.zeros_like(data["input_ids"])
    expected = laid(layer.attribute(data["input_ids"], zeros, target=CLASS, n_steps=20))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("family", ["mlp", "cnn"])
def test_conductance_is_captums_from_both_ends(family: str) -> None:
    """captum takes the gradient at the near end of each step; its way there and its way back make our mean of both."""
    model, x, site = (mlp(), torch.randn(4, 5).double(), "1") if family == "mlp" else (cnn(), images(), "3")
    x0 = x.flip(0) * 0.2
    dimension = 1 if family == "cnn" else -1
    found = ours(model, x, site, method="conductance", target=CLASS, steps=16, baseline=x0)
    layer = LayerConductance(model, model.get_submodule(site))
    options: dict[str, Any] = {"target": CLASS, "n_steps": 16, "method": "riemann_trapezoid"}
    there, back = layer.attribute(x, x0, **options), layer.attribute(x0, x, **options)
    np.testing.assert_allclose(found, laid((there - back) / 2, dimension), atol=1e-5)


def test_conductance_comes_to_captums_with_ever_more_steps() -> None:
    model, x = mlp(), torch.randn(4, 5).double()
    found = ours(model, x, "1", method="conductance", target=CLASS, steps=200)
    expected = laid(LayerConductance(model, model[1]).attribute(x, target=CLASS, n_steps=500))
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())


def test_gradients_are_finite_differences() -> None:
    model, x = mlp(), torch.randn(2, 5).double()
    found = ours(model, x, "1", method="gradient_x_activation", target=0)[:, 0]
    hidden = model[:2](x).detach()
    step = 1e-6
    for unit in range(8):
        move = torch.zeros(8).double()
        move[unit] = step
        slope = (model[2:](hidden + move) - model[2:](hidden - move))[:, 0] / (2 * step)
        np.testing.assert_allclose(found[:, unit], (slope * hidden[:, unit]).detach(), atol=1e-8)


@pytest.mark.parametrize("baseline", ["zero", "mean"])
def test_integrated_gradients_are_complete(baseline: str) -> None:
    model, x = mlp(), torch.randn(9, 5).double()
    found = attribute(
        model, x, at=["1", "3"], target=1, method="integrated_gradients", baseline=baseline, signed=True, batch_size=4
    )
    assert all(delta < 1e-9 for delta in found.about["delta"].values())
    hidden = model[:2](x)
    start = torch.zeros(8).double() if baseline == "zero" else hidden.mean(0)
    difference = (model(x) - model[2:](start))[:, 1].mean().item()
    assert found.about["difference"]["1"] == pytest.approx(difference)
    signed = found.scores * found.signs
    assert signed[:8].sum() == pytest.approx(difference)
    rough = attribute(model, x, at="1", target=1, method="integrated_gradients", steps=1)
    assert rough.about["delta"]["1"] > 1e-4


def test_conductance_is_complete_where_all_passes_through_a_site() -> None:
    model, x = mlp(), torch.randn(9, 5).double()
    found = attribute(model, x, at=["1", "2"], target=1, method="conductance", steps=300, signed=True)
    difference = (model(x) - model(x * 0))[:, 1].mean().item()
    assert found.about["difference"] == pytest.approx({"1": difference, "2": difference})
    assert max(found.about["delta"].values()) < 1e-4
    assert (found.scores * found.signs)[8:].sum() == pytest.approx(difference, abs=1e-4)


def test_the_embeddings_of_a_language_model_are_the_path_of_a_conductance() -> None:
    model, data = gpt2().double(), tokens()
    site = "transformer.wte"
    options: dict[str, Any] = {"target": last, "method": "conductance", "along": site, "steps": 60}
    found = attribute(model, data, at=["transformer.h.0.mlp.c_fc", site], signed=True, **options)
    assert found.n_units == 64 + 16
    # what moves is all that passes, so its own conductance is complete
    assert found.about["delta"][site] < 1e-2 * abs(found.about["difference"][site])


@pytest.mark.parametrize("method", ["gradient_x_activation", "integrated_gradients", "conductance"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_left_alone(family: str, method: Any) -> None:
    make, inputs, site = FAMILIES[family]
    model, data = make().train(), inputs()
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 0)
        parameter.grad = torch.full_like(parameter, 7.0) if number % 3 == 0 else None
    before, random = state(model), torch.random.get_rng_state()
    along = {"cnn": None, "bert": "bert.embeddings", "gpt2": "transformer.wte"}[family]
    how = {"along": along} if method == "conductance" and along else {}
    target = last if family == "gpt2" else None
    with torch.no_grad():
        attribute(model, data, at=site, target=target, method=method, steps=2, batch_size=4, **how)
    assert_same(before, state(model))
    assert torch.equal(random, torch.random.get_rng_state())
    with pytest.raises(InputError):
        attribute(model, data, at=site, target=lambda output, batch: torch.zeros(99), method=method)
    assert_same(before, state(model))


def test_names_are_fit_for_edit_and_for_ablate() -> None:
    model, x = cnn(), images()
    found = attribute(model, x, at=["0", "3"], target=CLASS, method="integrated_gradients", signed=True)
    assert len(found) == 9
    with torch.no_grad(), cutaway.edit(model, at=found.top(3), to=0):
        model(x)
    ablation = cutaway.neurons.ablate(model, found, lambda: model(x)[:, CLASS].mean(), n=1, n_random=0)
    assert ablation.units == (found.top(1)[0],)
    # of one unit alone the integral is what its ablation changes, as far as units do not work together
    assert np.sign(ablation.effect[0, 0]) == -found.signs[found.order[0]]


def test_sizes_and_signs_differ_where_positions_cancel() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Flatten(), nn.Linear(4, 1, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[2].weight.copy_(torch.tensor([[1.0, 1.0, -1.0, 2.0]]))
    x = torch.ones(1, 2, 2)  # two positions of two units
    sizes = attribute(model, x, at="0", target=0)
    signed = attribute(model, x, at="0", target=0, signed=True)
    assert sizes.scores.tolist() == [2.0, 3.0]
    assert signed.scores.tolist() == [0.0, 3.0]
    assert signed.signs.tolist() == [0, 1]


def test_batches_make_no_difference() -> None:
    model, x = mlp(), torch.randn(10, 5).double()
    targets = [0, 1, 2, 1, 0, 2, 2, 1, 0, 0]
    whole = attribute(model, x, at="*", target=targets, batch_size=10)
    parts = attribute(model, [x[:3], x[3:4], x[4:]], at="*", target=targets)
    np.testing.assert_allclose(whole.scores, parts.scores, rtol=1e-12)
    assert whole.order.tolist() == parts.order.tolist()
    some = attribute(model, x, at=["1#3", "1#0"], target=targets)
    assert list(some.names or ()) == ["1#3", "1#0"]
    np.testing.assert_allclose(some.scores, whole.scores[[8 + 3, 8 + 0]])


def test_the_prediction_is_the_one_at_the_end_of_the_path() -> None:
    model, x = mlp(), torch.randn(6, 5).double()
    own = model(x).argmax(1)
    a = attribute(model, x, at="1", method="integrated_gradients")
    b = attribute(model, x, at="1", method="integrated_gradients", target=own.tolist())
    np.testing.assert_array_equal(a.scores, b.scores)


def test_a_loss_may_be_explained() -> None:
    model, x = mlp(), torch.randn(6, 5).double()
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    each = attribute(
        model, (x,), at="1", target=lambda output, batch: nn.functional.cross_entropy(output, y, reduction="none")
    )
    total = attribute(
        model, (x,), at="1", target=lambda output, batch: nn.functional.cross_entropy(output, y, reduction="sum")
    )
    np.testing.assert_allclose(each.scores, total.scores)


def test_rank_by_gradient_has_a_ranking_for_each_label() -> None:
    model, x = mlp().float(), torch.randn(12, 5)
    y = ["a", "b", "b"] * 4
    acts = cutaway.collect(model, x, at=["1", "3"])
    found = rank(acts, y, "gradient", model=model, data=x, target=1)
    plain = attribute(model, x, at=["1", "3"], target=1)
    np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-5)
    only = attribute(model, x[[i for i, label in enumerate(y) if label == "b"]], at=["1", "3"], target=1)
    np.testing.assert_allclose(found.per_label["b"].scores, only.scores, rtol=1e-5)
    part = rank(acts, y, "gradient", units=["3#2", "1#0"], model=model, data=x, target=1)
    assert sorted(part.top(5)) == ["1#0", "3#2"]


def test_rank_by_gradient_reads_the_tokens_of_a_row() -> None:
    model, data = gpt2(), tokens()
    site = "transformer.h.0.mlp.c_fc"
    acts = cutaway.collect(model, data, at=site, rows="positions")
    at_two = acts.word_index == 2
    found = rank(acts, at_two, "gradient", model=model, data=data, target=last, signed=True)
    expected = ours(model, data, site, method="gradient_x_activation", target=last)[:, 2].mean(0)
    mine = found.per_label[True]
    np.testing.assert_allclose(mine.scores * mine.signs, expected, rtol=1e-4, atol=1e-7)


TEXTS = ["the dogs bark", "a very unbelievable cat sleeps today", "it rains", "reading and writing"]


def summed(output: Any, batch: Any) -> Tensor:
    return (output.last_hidden_state * batch["attention_mask"][..., None])[..., 0].sum(1)


def encoded(side: str, texts: list[str]) -> dict[str, Tensor]:
    """Padded on one side; each token has the position that it has without padding."""
    tokenizer = minilm()[1]
    tokenizer.padding_side = side
    found = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    tokenizer.padding_side = "right"
    return {**found, "position_ids": (found["attention_mask"].cumsum(1) - 1).clamp(min=0)}


@pytest.mark.parametrize("aggregate", ["last", "average"])
def test_rank_by_gradient_is_the_same_whichever_side_is_padded_and_by_a_tokenizer(aggregate: Any) -> None:
    model, tokenizer = text_bert().eval(), minilm()[1]
    acts = cutaway.collect(model, TEXTS, tokenizer=tokenizer, at="encoder.layer.0", aggregate=aggregate)
    labels = [word.endswith("s") for word in acts.words]
    right, left, texts = (
        rank(acts, labels, "gradient", model=model, target=summed, **given)
        for given in (
            {"data": encoded("right", TEXTS)},
            {"data": encoded("left", TEXTS)},
            {"data": TEXTS, "tokenizer": tokenizer},
        )
    )
    np.testing.assert_allclose(left.scores, right.scores, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(texts.scores, right.scores, rtol=1e-3, atol=1e-6)
    assert left.scores.max() > 0


def test_rank_by_gradient_refuses_inputs_that_are_not_those_collected() -> None:
    model = text_bert().eval()
    acts = cutaway.collect(model, TEXTS, tokenizer=minilm()[1], at="encoder.layer.0")
    labels = [word.endswith("s") for word in acts.words]
    others = {name: value[[1, 0, 2, 3]] for name, value in encoded("right", TEXTS).items()}
    with pytest.raises(InputError, match=r"row 0 \('the'\) of item 0 has other values at 'encoder.layer.0'"):
        rank(acts, labels, "gradient", model=model, data=others, target=summed)


def test_text_without_a_tokenizer_is_said() -> None:
    with pytest.raises(InputError, match="data is text: pass tokenizer="):
        attribute(text_bert(), TEXTS, at="encoder.layer.0", target=summed)
    with pytest.raises(InputError, match="without texts"):
        attribute(text_bert(), torch.ones(2, 3), at="encoder.layer.0", target=summed, tokenizer=minilm()[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "shap"}, "use 'gradient_x_activation'"),
        ({"steps": 0, "method": "conductance"}, "must be 1 or more"),
        ({"baseline": "median"}, "use 'zero', 'mean' or a batch"),
        ({"method": "conductance", "baseline": "mean"}, "along the inputs"),
        ({"along": "0"}, "only with conductance"),
        ({"target": 9}, "has 3 classes"),
        ({"target": [0]}, "one integer class per sample"),
        ({"target": lambda output, batch: output}, "return one float per sample"),
        ({"target": lambda output, batch: torch.zeros(4)}, "no gradient with respect to"),
        ({"target": "cat"}, "target='cat': pass an integer class"),
        ({"at": []}, "pass a site"),
        ({"data": "text"}, "pass a tensor of samples"),
        ({"data": []}, "is empty"),
        ({"method": "integrated_gradient"}, "Did you mean 'integrated_gradients'"),
    ],
)
def test_what_cannot_be_meant_is_said(options: dict[str, Any], message: str) -> None:
    given = {"data": torch.randn(4, 5).double(), "at": "1", "target": 0, **options}
    with pytest.raises(InputError, match=message):
        attribute(mlp(), given.pop("data"), **given)


def test_more_that_cannot_be_meant_is_said() -> None:
    with pytest.raises(UnitError, match="unit 99 is out of range: '1' has 8 units"):
        attribute(mlp(), torch.randn(4, 5).double(), at="1#99", target=0)
    with pytest.raises(SiteError, match=r"Nearest|matches no module"):
        attribute(mlp(), torch.ones(1, 5), at="encoder")
    with pytest.raises(InputError, match=r"shape \[6, 7, 50\].*pass target="):
        attribute(gpt2(), tokens(), at="transformer.h.0.mlp")
    with pytest.raises(InputError, match="pass along="):
        attribute(gpt2(), tokens(), at="transformer.h.0.mlp", method="conductance", target=last)
    x = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(InputError, match="pass model= and data="):
        rank(x, [0, 1] * 3, "gradient")
    with pytest.raises(InputError, match="needs activations with sites"):
        rank(x, [0, 1] * 3, "gradient", model=mlp(), data=x)
