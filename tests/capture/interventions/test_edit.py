"""Edits equal hand-written changes: plain hooks, modified copies, explicit functions."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.oracles import is_tensor, random_states, same, tensors
from tests.zoo import RANDOM, ZOO
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import cutaway
from cutaway.capture import misuse
from cutaway.core.errors import EditError, InputError, InputTypeError, SiteError, UnitError
from cutaway.core.pytree import leaves, replace


class Fn(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def by_hand(model: nn.Sequential, change: Callable[[Tensor], Tensor], x: Tensor = X) -> Tensor:
    """The model with a change between its ReLU and its last layer, written out."""
    return model[2](change(model[1](model[0](x))))


# what a value is changed to


def with_unit(hidden: Tensor, unit: int, value: float) -> Tensor:
    hidden = hidden.clone()
    hidden[:, unit] = value
    return hidden


CHANGES: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
    "a constant": (0, torch.zeros_like),
    "another": (-1.5, lambda h: torch.full_like(h, -1.5)),
    "a tensor": (torch.arange(6.0), lambda h: torch.arange(6.0).expand_as(h)),
    "an array": (np.arange(6), lambda h: torch.arange(6.0).expand_as(h)),
    "scaled": (cutaway.edit.scale(3.0), lambda h: h * 3.0),
    "clamped": (cutaway.edit.clamp(0.1, 0.5), lambda h: h.clamp(0.1, 0.5)),
    "a function": (lambda h: h.flip(0), lambda h: h.flip(0)),
    "a function in place": (lambda h: h.mul_(2), lambda h: h * 2),
    "a function that returns nothing": (lambda h: [h.zero_(), None][1], torch.zeros_like),
    "another function": (cutaway.edit.swap(F.gelu), None),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("site", ["1", "2@in.0", "1/relu"])
def test_a_value_is_changed_to(name: str, site: str) -> None:
    to, hand = CHANGES[name]
    if hand is None and site == "2@in.0":
        pytest.skip("an input is made by no function of its own")
    model = net()
    plain = model(X)
    with cutaway.edit(model, at=site, to=to):
        found = model(X)
    expected = model[2](F.gelu(model[0](X))) if hand is None else by_hand(model, hand)
    assert same(found, expected)
    assert same(model(X), plain)


def test_noise_is_drawn_from_torchs_generator() -> None:
    model = net()
    torch.manual_seed(3)
    with cutaway.edit(model, at="1", to=cutaway.edit.noise(0.1)):
        found = model(X)
    torch.manual_seed(3)
    assert same(found, by_hand(model, lambda h: h + torch.randn_like(h) * 0.1))


def test_the_value_of_another_site_can_be_taken() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    with cutaway.edit(model, at="2", to="0"):
        found = model(X)
    assert same(found, model[0](X))
    with cutaway.edit(model, at="2", to="0/linear"):
        assert same(model(X), model[0](X))
    with pytest.raises(EditError, match="'2' runs after"), cutaway.edit(model, at="0", to="2"):
        model(X)


def test_values_come_from_another_trace_op_or_source() -> None:
    model, other = net(), torch.randn(5, 4)
    clean = cutaway.trace(model, other)
    for to in (clean, clean["1"], clean["relu_1"].value):
        with cutaway.edit(model, at="1", to=to):
            assert same(model(X), clean.returned)

    class Means:
        def value_at(self, site: str) -> Tensor:
            assert site == "1:1"
            return clean["1"].value.mean(0)

    with cutaway.edit(model, at="1", to=Means()):
        found = model(X)
    assert same(found, by_hand(model, lambda h: clean["1"].value.mean(0).expand_as(h).clone()))


def test_patching_takes_each_pass_from_the_same_pass() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> list[Tensor]:
            out = []
            for _ in range(3):
                x = self.cell(x)
                out.append(x)
            return out

    model = Loop()
    clean = cutaway.trace(model, torch.randn(2, 4))
    with cutaway.edit(model, at="cell", to=clean):
        found = model(torch.randn(2, 4))
    assert all(same(a, b) for a, b in zip(found, clean.returned, strict=True))
    with cutaway.edit(model, at="cell:2", to=0):
        found = model(X)
    assert not found[0].eq(0).all()
    assert found[1].eq(0).all()
    assert same(found[2], model.cell(torch.zeros(5, 4)))


# which part


def test_single_units_and_several() -> None:
    model = net()
    with cutaway.edit(model, at="1#3", to=7):
        assert same(model(X), by_hand(model, lambda h: with_unit(h, 3, 7)))
    expected = by_hand(model, lambda h: with_unit(with_unit(h, 3, 7), 5, 7))
    for at, part in ((["1#3", "1#5"], {}), ("1", {"units": [3, 5]}), ("1/relu", {"units": (3, 5)})):
        with cutaway.edit(model, at=at, to=7, **part):
            assert same(model(X), expected)


def test_units_of_a_convolution_are_its_channels() -> None:
    model, image = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    expected = model(image).detach().clone()
    expected[:, 2] = 0
    for site in (".#2", "./conv2d#2"):
        with cutaway.edit(model, at=site, to=0):
            assert same(model(image), expected)


def test_a_unit_is_the_same_to_an_edit_a_trace_and_a_replay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )
    image = torch.randn(2, 3, 8, 8)
    trace = cutaway.trace(model.eval(), image)
    for site in ("0", "1", "2", "3", "4", "5", "0/conv2d", "2/relu", "3/max_pool2d", "5/linear"):
        with cutaway.edit(model, at=f"{site}#2", to=7):
            found = cutaway.trace(model, image)
        assert found[site if "/" not in site else f"{site.partition('/')[0]}/edit"].value is not None
        assert same(found.returned, trace.replay(f"{site}#2", 7).returned), site
        with cutaway.edit(model, at=cutaway.Op(trace, trace[site].node, 2), to=7):
            assert same(model(image), found.returned), site


def test_a_pattern_over_all_ops_changes_each_once() -> None:
    model = nn.Sequential(nn.Identity(), nn.ReLU(), nn.Softmax(-1))
    with cutaway.edit(model, at="1/*", to=cutaway.edit.scale(2)):
        found = model(torch.ones(1, 3))
    with cutaway.edit(model, at="1/relu", to=cutaway.edit.scale(2)):
        assert same(model(torch.ones(1, 3)), found)
    assert same(found, F.softmax(torch.full((1, 3), 2.0), -1))


def test_scripted_and_sparse_parts_say_what_they_are() -> None:
    model = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.ReLU()))
    expected = (model[0](X) * 2).relu()
    with cutaway.edit(model, at="*", to=cutaway.edit.scale(2)):
        assert same(model(X), expected)
    with pytest.raises(InputError, match="is a ScriptModule"), cutaway.edit(model, at="1", to=0):
        pass
    sparse = Structured(lambda a, b: (a.to_sparse(),))
    with pytest.raises(EditError, match="sparse_coo"), cutaway.edit(sparse, at="inner", to=0):
        sparse(X)


def test_positions_samples_heads_and_any_index() -> None:
    model, x = nn.Linear(4, 6), torch.randn(2, 5, 4)
    plain = model(x).detach()
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"positions": 2}, np.s_[:, 2]),
        ({"positions": [0, 4]}, np.s_[:, [0, 4]]),
        ({"positions": slice(1, 3)}, np.s_[:, 1:3]),
        ({"samples": 1}, np.s_[1]),
        ({"samples": 1, "positions": 3, "units": 2}, np.s_[1, 3, 2]),
        ({"heads": 1, "n_heads": 3}, np.s_[..., 2:4]),
        ({"heads": [0, 2], "n_heads": 3}, np.s_[..., [0, 1, 4, 5]]),
        ({"index": np.s_[0, ::2]}, np.s_[0, ::2]),
        ({"index": (plain > 0)}, plain > 0),
    ]
    for part, index in cases:
        expected = plain.clone()
        expected[index] = 9
        with cutaway.edit(model, at=".", to=9, **part):
            assert same(model(x), expected), part


def test_heads_of_queries_are_their_second_dimension() -> None:
    class Attention(nn.Module):
        num_heads = 4

        def forward(self, x: Tensor) -> Tensor:
            q = x.view(2, 5, 4, 2).transpose(1, 2)
            return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(2, 5, 8)

    model, x = Attention(), torch.randn(2, 5, 8)
    expected = model(x).view(2, 5, 4, 2).clone()
    expected[:, :, 1] = 0
    with cutaway.edit(model, at="./scaled_dot_product_attention", to=0, heads=1, n_heads=4, unit_dim=(1, 3)):
        assert same(model(x), expected.view(2, 5, 8))
    with cutaway.edit(model, at=".", to=0, heads=1, unit_dim=2):  # the module says how many it has
        assert same(model(x), expected.view(2, 5, 8))


# parameters


def test_a_parameter_or_a_slice_of_it() -> None:
    model = net()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[2].weight[0] = 0
        other[0].bias.mul_(2)
    with cutaway.edit(model, at="2.weight", to=0, index=0), cutaway.edit(model, at="0.bias", to=cutaway.edit.scale(2)):
        assert same(model(X), other(X))
    assert all(same(p, before[name]) for name, p in model.named_parameters())


def test_a_parameter_comes_back_bit_equal_after_an_error_and_as_it_was_to_older_traces() -> None:
    model = net()
    older = cutaway.trace(model, X)
    before = model[2].weight.detach().clone()
    with pytest.raises(ZeroDivisionError), cutaway.edit(model, at="2.weight", to=0):
        1 / 0  # noqa: B018
    assert same(model[2].weight.detach(), before)
    assert same(older["2.weight"].value, before)
    assert older.validate()


def test_a_trace_from_inside_does_not_pass_a_restored_parameter_for_its_own() -> None:
    model = net()
    with cutaway.edit(model, at="2.weight", to=0):
        inside = cutaway.trace(model, X)
        assert inside["2.weight"].value.eq(0).all()
        assert inside.validate()
    with pytest.raises(cutaway.CutawayError, match="overwritten since"):
        inside["2.weight"].value  # noqa: B018


def test_what_is_trained_outside_the_slice_is_kept() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model[2].weight.detach().clone()
    with cutaway.edit(model, at="2.weight", to=0, index=0):
        model(X).sum().backward()
        optimizer.step()
    assert same(model[2].weight[0].detach(), before[0])
    assert not same(model[2].weight[1].detach(), before[1])


def test_buffers_can_be_edited() -> None:
    model = nn.BatchNorm1d(4).eval()
    with cutaway.edit(model, at="running_mean", to=1.0):
        found = model(X)
    assert same(found, F.batch_norm(X, torch.ones(4), model.running_var, model.weight, model.bias))
    assert model.running_mean.eq(0).all()


# composing


def test_edits_compose_from_the_outside_in() -> None:
    model = net()
    expected = by_hand(model, lambda h: (h * 2 + 1).clamp(0, 3))
    with (
        cutaway.edit(model, at="1", to=lambda h: h * 2),
        cutaway.edit(model, at="1", to=lambda h: h + 1),
        cutaway.edit(model, at="1", to=cutaway.edit.clamp(0, 3)),
    ):
        assert same(model(X), expected)
    with cutaway.edit(model, {"1/relu": lambda h: h * 2, "1": lambda h: h + 1, "2@in.0": cutaway.edit.clamp(0, 3)}):
        assert same(model(X), expected)


def test_patterns_selections_and_ops_name_places() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    trace = cutaway.trace(model, X)
    expected = X
    for layer in model:
        expected = layer(expected) * 0.5
    for at in ("*", trace.select(function="linear"), list(trace.ops), [f"{i}/linear" for i in range(4)], "*/linear"):
        with cutaway.edit(model, at=at, to=cutaway.edit.scale(0.5)):
            assert same(model(X), expected)


@dataclass
class Both:
    first: Tensor
    more: dict[str, Tensor]


class Structured(nn.Module):
    def __init__(self, make: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.inner = _Inner(make)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)


class _Inner(nn.Module):
    def __init__(self, make: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x, x + 1)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda a, b: (a, b), "1"),
        (lambda a, b: [a, (b,)], "1.0"),
        (lambda a, b: {"a": a, "b": b}, "b"),
        (lambda a, b: Both(a, {"b": b}), "more.b"),
        (lambda a, b: torch.topk(torch.cat([a, b]), 2, dim=0), "0"),
    ],
)
def test_one_tensor_of_a_structure_is_changed_and_the_rest_stays(make: Any, path: str) -> None:
    model = Structured(make)
    plain = tensors(model(X))
    with cutaway.edit(model, at=f"inner@out.{path}", to=0):
        result = model(X)
    found = tensors(result)
    assert type(result) is type(model(X))
    assert found.keys() == plain.keys()
    for name, value in found.items():
        assert value.eq(0).all() if name == path else same(value, plain[name])
    with pytest.raises(EditError, match=r"has 2 tensors there.*inner@out"), cutaway.edit(model, at="inner", to=0):
        model(X)


def test_inputs_by_position_and_by_name() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, *, by: Tensor) -> Tensor:
            return x * by

    model = nn.Module()
    model.inner = Scaled()
    model.forward = lambda x, by: model.inner(x, by=by)  # type: ignore[method-assign]
    with cutaway.edit(model, at="inner@in.by", to=3):
        assert same(model(X, torch.ones(4)), X * 3)
    with cutaway.edit(model, at="inner@in.0", to=2):
        assert same(model(X, torch.ones(4)), torch.full_like(X, 2))


def test_one_of_several_arguments_that_are_one_tensor() -> None:
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 5, 8)
    model = nn.Module()
    model.a = layer
    model.forward = lambda x: model.a(x, x, x)[1]  # type: ignore[method-assign]
    expected = layer(x, x, x * 0)[1]  # the weights: queries and keys alone decide them
    with cutaway.edit(model, at="a@in.2", to=0):
        assert torch.allclose(model(x), expected)
    assert not torch.allclose(layer(x * 0, x * 0, x * 0)[1], expected)
    twice = Structured(lambda a, b: (a, a))
    with cutaway.edit(twice, at="inner@out.0", to=0):
        first, second = twice(X)
    assert first.eq(0).all()
    assert same(second, X)


def test_a_value_that_is_taken_is_taken_as_it_was_edited_and_copied() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for first in ("0", "0/linear"):
        with cutaway.edit(model, {"2": first, first: 5}):
            found = model(X)
        assert found.eq(5).all()
        assert same(cutaway.trace(model, X).replay({first: 5, "2": first}).returned, found.detach())
    inplace = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    clean = cutaway.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), X)
    before = clean["0"].value.clone()
    with torch.no_grad(), cutaway.edit(inplace, at="0", to=clean):
        inplace(X)
    assert same(clean["0"].value, before)


@pytest.mark.parametrize(
    "mask", [[True, False, True], np.array([True, False, True]), torch.tensor([True, False, True])]
)
def test_units_may_be_a_mask(mask: Any) -> None:
    model = nn.Linear(4, 3)
    expected = model(X).detach().clone()
    expected[:, [0, 2]] = 9
    with cutaway.edit(model, at=".", to=9, units=mask):
        assert same(model(X), expected)
    with pytest.raises(InputError, match="is not an index"):
        cutaway.edit(model, at=".", to=0, units=[[1]])  # type: ignore[list-item]


def test_parameters_come_back_whoever_leaves_first() -> None:
    model = nn.Linear(4, 3)
    before, version = model.weight.detach().clone(), model.weight._version
    first, second = cutaway.edit(model, at="weight", to=1), cutaway.edit(model, at="weight", to=cutaway.edit.scale(3))
    first.__enter__()
    second.__enter__()
    assert model.weight.eq(3).all()
    first.__exit__(None, None, None)
    assert same(model.weight.detach(), before * 3)
    second.__exit__(None, None, None)
    assert same(model.weight.detach(), before)
    assert model.weight._version == version

    def often(value: float) -> None:
        for _ in range(100):
            with cutaway.edit(model, at="weight", to=value):
                pass

    threads = [threading.Thread(target=often, args=(value,)) for value in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(model.weight.detach(), before)


def test_a_copy_made_inside_the_block_is_not_edited() -> None:
    model = net()
    with cutaway.edit(model, at="1", to=0):
        model(X)
        twin = copy.deepcopy(model)
    assert same(twin(X), model(X))


# gradients


def test_gradients_flow_through_what_depends_on_the_value() -> None:
    model, hand = net(), net()
    with cutaway.edit(model, at="1", to=lambda h: h * h, units=[0, 1]):
        model(X).sum().backward()
    hidden = hand[1](hand[0](X))
    changed = torch.cat([hidden[:, :2] ** 2, hidden[:, 2:]], 1)
    hand[2](changed).sum().backward()
    for mine, theirs in zip(model.parameters(), hand.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad)


def test_a_constant_stops_the_gradient() -> None:
    model = net()
    with cutaway.edit(model, at="1", to=0):
        model(X).sum().backward()
    assert model[0].weight.grad is None
    assert model[2].bias.grad is not None


def test_a_given_tensor_gets_its_gradient() -> None:
    model, direction = net(), torch.zeros(6, requires_grad=True)
    with cutaway.edit(model, at="1", to=lambda h: h + direction):
        model(X).sum().backward()
    assert torch.allclose(direction.grad, model[2].weight.detach().sum(0) * 5)


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)]
)
def test_it_works_in_every_mode(context: Any) -> None:
    model = net()
    with context():
        with cutaway.edit(model, at="1", to=cutaway.edit.scale(2)):
            found = model(X)
        expected = by_hand(model, lambda h: h * 2)
    assert same(found, expected)


# inside the others


def test_a_trace_shows_the_edit_as_an_op_and_proves_it() -> None:
    model = net()
    with cutaway.edit(model, at="1", to=cutaway.edit.scale(2)):
        trace = cutaway.trace(model, X)
    assert [op.label for op in trace] == ["linear_1_1", "relu_1_2", "edit_1_3", "linear_2_4"]
    assert trace["edit_1"].parents == (trace["relu_1"],)
    assert trace["1"] == trace["edit_1"]
    assert same(trace["1"].value, trace["relu_1"].value * 2)
    report = trace.validate()
    assert report, repr(report)
    assert "an edit was active during the run" in report.notes[0]


def test_op_edits_inside_a_trace_keep_names_groups_and_lines() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1))
    plain = cutaway.trace(model, X)
    with cutaway.edit(model, at="1/softmax", to=cutaway.edit.scale(2)), cutaway.watch(model) as trace:
        model(X)
    for op in plain:
        assert trace[op.label.rpartition("_")[0]].groups == op.groups
        assert str(trace[op.label.rpartition("_")[0]].site) == op.site
    assert trace["softmax_1"].source.file == __file__  # type: ignore[union-attr]
    assert trace["edit_1"].source.file == __file__  # type: ignore[union-attr]
    assert trace.validate()


def test_edits_of_ops_count_as_a_trace_counts() -> None:
    """Every op of every kind is found under the very site that a trace gives it."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.GELU())

        def forward(self, x: Tensor) -> Tensor:
            x = F.softmax(x * 2, -1) + x.sin()
            x = self.inner(x) * 3
            values, _ = torch.topk(x, 3)
            x = F.layer_norm(values, (3,)) + F.max_pool1d(x.unsqueeze(0), 2).sum()
            x = x.clone().add_(1)
            return F.dropout(x, 0.5, training=False).cumsum(0) * 4

    model = Mixed()
    trace = cutaway.trace(model, X)
    for op in trace:
        if op.dtype != "float32" or op.is_identity:
            continue
        with cutaway.edit(model, at=op, to=lambda v: v + 100), cutaway.watch(model) as edited:
            model(X)
        (node,) = [found for found in edited if found.function == "edit"]
        assert node.parents[0].full_site == op.full_site, op


# leaving nothing behind


def test_nothing_is_left_behind_not_even_after_an_error() -> None:
    model = net()
    hooks = [dict(m._forward_hooks) | dict(m._forward_pre_hooks) for m in model.modules()]
    states = random_states()
    many = {"1": 0, "0/linear": 1, "2.weight": 2, "2@in.0": 3, "1/relu": cutaway.edit.swap(F.gelu)}
    with suppress(ZeroDivisionError), cutaway.edit(model, many):
        model(X)
        1 / 0  # noqa: B018
    assert [dict(m._forward_hooks) | dict(m._forward_pre_hooks) for m in model.modules()] == hooks
    assert torch._C._len_torch_function_stack() == 0
    assert "forward" not in vars(model[1])
    assert random_states() == states
    assert same(model(X), by_hand(model, lambda h: h))


def test_a_failing_change_leaves_nothing_behind() -> None:
    model = net()
    with pytest.raises(EditError, match=r"shape \[7\] does not fit one of shape \[5, 6\]"):
        with cutaway.edit(model, at="1", to=torch.ones(7)):
            model(X)
    with pytest.raises(EditError, match="does not fit"):
        with cutaway.edit(model, {"0.bias": 3, "2.weight": torch.ones(7)}):
            pass
    assert same(model(X), net()(X))


def test_other_threads_are_not_touched() -> None:
    model = net()
    plain, found = model(X), {}

    def run(name: str) -> None:
        found[name] = model(X)

    with cutaway.edit(model, {"1": 0, "0/linear": 5}):
        thread = threading.Thread(target=run, args=("other",))
        thread.start()
        thread.join()
        run("own")
    assert same(found["other"], plain)
    assert not same(found["own"], plain)


def test_two_threads_edit_one_model_each_for_itself() -> None:
    model, found, barrier = net(), {}, threading.Barrier(2)

    def run(factor: float) -> None:
        with cutaway.edit(model, at="1", to=cutaway.edit.scale(factor)):
            barrier.wait()
            found[factor] = [model(X) for _ in range(20)]
            barrier.wait()

    threads = [threading.Thread(target=run, args=(factor,)) for factor in (2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for factor, results in found.items():
        assert all(same(result, by_hand(model, lambda h, f=factor: h * f)) for result in results)


# language models


@pytest.fixture(scope="module")
def gpt2() -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=16, vocab_size=50, n_positions=32)
    return transformers.GPT2LMHeadModel(config).eval()


def hooked(model: nn.Module, address: str, hook: Any, run: Callable[[], Any]) -> Any:
    handle = model.get_submodule(address).register_forward_hook(hook)
    try:
        return run()
    finally:
        handle.remove()


def test_a_block_of_gpt2_is_silenced(gpt2: Any) -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        expected = hooked(gpt2, "transformer.h.1.mlp", lambda m, a, r: r * 0, lambda: gpt2(ids).logits)
        with cutaway.edit(gpt2, at="transformer.h.1.mlp", to=0):
            assert same(gpt2(ids).logits, expected)


def test_a_head_of_gpt2_is_silenced_where_heads_are_joined(gpt2: Any) -> None:
    ids = torch.tensor([[1, 2, 3, 4]])

    def without_head(module: nn.Module, args: Any) -> Any:
        joined = args[0].clone()
        joined[..., 8:12] = 0
        return (joined,)

    projection = gpt2.transformer.h[2].attn.c_proj
    with torch.no_grad():
        handle = projection.register_forward_pre_hook(without_head)
        expected = gpt2(ids).logits
        handle.remove()
        with cutaway.edit(gpt2, at="transformer.h.2.attn.c_proj@in.0", to=0, heads=2, n_heads=4):
            assert same(gpt2(ids).logits, expected)
        with cutaway.edit(gpt2, at="transformer.h.2.attn/scaled_dot_product_attention", to=0, heads=2, n_heads=4):
            assert same(gpt2(ids).logits, expected)


def test_generation_is_steered(gpt2: Any) -> None:
    ids, token = torch.tensor([[1, 2, 3]]), 7

    def prefer(logits: Tensor) -> None:
        logits[..., token] = 1e4

    with torch.no_grad(), cutaway.edit(gpt2, at="lm_head", to=prefer):
        found = gpt2.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert found[0, 3:].tolist() == [token] * 4


def test_one_position_is_patched_from_another_prompt(gpt2: Any) -> None:
    clean, corrupted = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 9, 3, 4]])
    with torch.no_grad():
        trace = cutaway.trace(gpt2, clean)
        kept = trace["transformer.h.0@out.0" if "transformer.h.0@out.0" in trace else "transformer.h.0"].value

        def patch(module: nn.Module, args: Any, result: Any) -> Any:
            hidden = (result[0] if isinstance(result, tuple) else result).clone()
            hidden[:, 1] = kept[:, 1]
            return (hidden, *result[1:]) if isinstance(result, tuple) else hidden

        expected = hooked(gpt2, "transformer.h.0", patch, lambda: gpt2(corrupted).logits)
        site = next(site for site in ("transformer.h.0@out.0", "transformer.h.0") if site in trace)
        with cutaway.edit(gpt2, at=site, to=trace, positions=1):
            assert same(gpt2(corrupted).logits, expected)


def test_the_fused_path_of_an_encoder_stays_open_for_edits_of_its_ops() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        trace = cutaway.trace(model, x)
        fused = next(op for op in trace if "encoder_layer" in op.function)
        with cutaway.edit(model, at=fused, to=0):
            found = cutaway.trace(model, x)
    assert [op.function for op in found if op.function != "edit"] == [op.function for op in trace]


# mistakes


def test_a_site_that_never_ran_is_told_when_the_block_ends() -> None:
    model = net()
    for at, why in (
        ("1:2", "did not run 2 times"),
        ("0/softmax", "the ops that ran there are 'linear'"),
        ("1", "did not run"),
    ):
        block = cutaway.edit(model, at=at, to=0)
        block.__enter__()
        if at != "1":
            model(X)
        with pytest.raises(SiteError, match=f"nothing was changed at '{at}'.*{why}"):
            block.__exit__(None, None, None)


def test_what_cannot_be_meant_is_said_at_once() -> None:
    model = net()
    with pytest.raises(SiteError, match=r"matches no module.*Nearest: '2.weight'"):
        cutaway.edit(model, at="2.wieght", to=0)
    with pytest.raises(SiteError, match=r"'relu_1' looks like a label.*trace\['relu_1'\].*relu module: '1'"):
        cutaway.edit(model, at="relu_1", to=0)
    with pytest.raises(SiteError, match=r"'9' looks like the position of an op.*trace\[9\].*3 modules: '0', '1', '2'"):
        cutaway.edit(model, at="9", to=0)
    with pytest.raises(InputTypeError, match=r"at=9: pass a site.*trace\[9\]"):
        cutaway.edit(model, at=9, to=0)  # type: ignore[arg-type]
    with pytest.raises(SiteError, match=r"at='encoder\.\*\.mlp' matches no module.*3 modules"):
        cutaway.edit(model, at="encoder.*.mlp", to=0)
    with pytest.raises(InputError, match=r"to= is missing for at='1': write cutaway\.edit\(model, '1', 0\)"):
        cutaway.edit(model, at="1")
    with pytest.raises(InputError, match=r"is a mapping.*leave out to=0"):
        cutaway.edit(model, {"1": 0}, 0)
    with pytest.raises(InputError, match=r"torch\.nn\.Module"):
        cutaway.edit(torch.relu, at="1", to=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the class ReLU: create an instance"):
        cutaway.edit(nn.ReLU, at="1", to=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'unit'"):
        cutaway.edit(model, at="1", to=0, unit=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="cannot be combined"):
        cutaway.edit(model, at="1", to=0, index=0, units=1)
    with pytest.raises(InputError, match="to=<object"):
        cutaway.edit(model, at="1", to=object())
    with pytest.raises(InputError, match="is empty"):
        cutaway.edit(model, at=[], to=0)
    block = cutaway.edit(model, at="1", to=0)
    with block:
        model(X)
    with pytest.raises(InputError, match="already used"), block:
        pass


def test_an_edit_without_with_warns_and_explains() -> None:
    model = net()
    with pytest.warns(UserWarning, match=r"cutaway\.edit was never entered.*`with cutaway\.edit\(model") as warned:
        cutaway.edit(model, at="1", to=0)
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="never entered"), pytest.raises(AttributeError, match="run the model inside"):
        cutaway.edit(model, at="1", to=0).value  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cutaway.edit(model, at="1", to=0):
            model(X)


def test_a_value_that_does_not_fit_is_refused_with_its_site() -> None:
    model = net()
    with (
        pytest.raises(EditError, match=r"edit at '1': a value of shape \[7\]"),
        cutaway.edit(model, "1", torch.ones(7)),
    ):
        model(X)
    with pytest.raises(EditError, match="edit at '1': the new value is a str"), cutaway.edit(model, "1", lambda v: "a"):
        model(X)
    with (
        pytest.raises(EditError, match=r"edit at '0\.weight': a value of shape"),
        cutaway.edit(model, "0.weight", X[0, :3]),
    ):
        pass
    with pytest.raises(UnitError, match="edit at '1': unit 99 is out of range"), cutaway.edit(model, "1#99", 0):
        model(X)


def test_a_misspelled_op_is_answered_with_the_ops_that_ran() -> None:
    model = net()
    with pytest.raises(SiteError, match="nothing was changed at '1/relo': the ops that ran there are 'relu'"):
        with cutaway.edit(model, "1/relo", 0):
            model(X)


def test_a_number_that_a_dtype_cannot_hold_is_told() -> None:
    model = Fn(lambda ids: ids * 2)
    with (
        pytest.raises(EditError, match=r"1\.5 cannot be represented in a value of dtype int64"),
        cutaway.edit(model, at=".", to=1.5),
    ):
        model(torch.arange(3))
    with (
        pytest.raises(EditError, match="does not support this edit"),
        cutaway.edit(model, at=".", to=cutaway.edit.noise(1)),
    ):
        model(torch.arange(3))
    with cutaway.edit(model, at=".", to=float("inf")):
        assert model(torch.ones(3)).isinf().all()


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"heads": 1}, "n_heads="),
        ({"heads": 1, "n_heads": 4}, "do not divide"),
    ],
)
def test_a_part_that_is_not_there_is_told(part: Any, said: str) -> None:
    model = net()
    with pytest.raises(EditError, match=said), cutaway.edit(model, at="1", to=0, **part):
        model(X)


def test_a_unit_that_is_not_there_is_told() -> None:
    model = net()
    with pytest.raises(UnitError, match="unit 6 is out of range: the value has 6 units, #0 to #5"):
        with cutaway.edit(model, at="1", to=0, units=6):
            model(X)


# the zoo


def change(value: Tensor) -> Tensor:
    return value * 0.5 + 0.25


def hookable(model: nn.Module, args: Any, kwargs: Any) -> tuple[str, str] | None:
    """A module and the path of a float tensor that it returned, the deepest that ran last; else the model itself."""
    with cutaway.watch(model, save=None) as trace:
        model(*args, **kwargs)
    known = {name or ".": module for name, module in model.named_modules()}
    found = [
        (call.address, path)
        for call in trace.calls
        for path, op in call.outputs.items()
        if op.dtype == "float32" and not isinstance(known.get(call.address), (torch.jit.ScriptModule, type(None)))
    ]
    below = [place for place in found if place[0] != "."]
    return (below or found or [None])[-1]


@pytest.mark.parametrize("name", ZOO)
def test_in_every_model_an_edited_module_is_a_module_with_a_hook(name: str) -> None:
    torch.manual_seed(0)
    model, args, kwargs = ZOO[name]()
    place = hookable(model, *_copies(args, kwargs))
    if place is None:
        pytest.skip("returns no tensor of floats")
    address, path = place
    outputs = []
    for way in ("hook", "edit"):
        torch.manual_seed(0)
        given, named = _copies(args, kwargs)
        fresh = copy.deepcopy(model)
        if way == "hook":
            module = fresh if address == "." else fresh.get_submodule(address)
            module.register_forward_hook(lambda _, a, result: changed_by_hand(result, path))
            torch.manual_seed(1)
            outputs.append(tensors(fresh(*given, **named)))
        else:
            torch.manual_seed(1)
            with cutaway.edit(fresh, at=f"{address}@out.{path}" if path else address, to=change):
                outputs.append(tensors(fresh(*given, **named)))
    assert outputs[0].keys() == outputs[1].keys()
    assert all(same(outputs[0][path], outputs[1][path]) for path in outputs[0])


def changed_by_hand(result: Any, path: str) -> Any:
    """The result with the tensor at one path changed, for the structures that the zoo returns."""
    name, _, rest = path.partition(".")
    if not path:
        return change(result)
    if isinstance(result, dict):
        made = copy.copy(result)
        made[name] = changed_by_hand(result[name], rest)
        return made
    if isinstance(result, (tuple, list)):
        place = result._fields.index(name) if hasattr(result, "_fields") and not name.isdecimal() else int(name)
        parts = list(result)
        parts[place] = changed_by_hand(parts[place], rest)
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    made = copy.copy(result)
    setattr(made, name, changed_by_hand(getattr(result, name), rest))
    return made


BUILTIN = ("builtin_function_or_method", "method_descriptor", "wrapper_descriptor")


class Nth(TorchFunctionMode):
    """Changes the result of the n-th call of one function: what an edit of an op does, in eight lines."""

    def __init__(self, function: Any, n: int) -> None:
        super().__init__()
        self.function, self.left = function, n

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func == self.function:
            self.left -= 1
            if self.left == 0:
                return change(result)
        return result


@pytest.mark.parametrize("name", [name for name in ZOO if name not in RANDOM])
def test_in_every_model_an_edited_op_is_a_function_with_another_result(name: str) -> None:
    torch.manual_seed(0)
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *_copies(args, kwargs)[0], **_copies(args, kwargs)[1])
    counts: dict[Any, int] = {}
    chosen = None
    for node in [node for node, kind in enumerate(trace.tables.nodes.kind) if kind == "op"]:
        op = cutaway.Op(trace, node)
        counts[op.callable] = counts.get(op.callable, 0) + 1
        is_odd = op.groups or op.output_path or op.is_inplace or op.is_opaque or op.is_identity or op.module is None
        is_builtin = type(op.callable).__name__ in BUILTIN
        if not is_odd and is_builtin and op.dtype == "float32" and op.distance_to_output is not None:
            chosen = (op, counts[op.callable])
    if chosen is None or name in ("attention_fast_path", "transformer_fast_path", "function_transforms", "jacobians"):
        pytest.skip("every op was opened from a function, or a mode changes the path that is taken")
    op, n = chosen
    same_elsewhere = [other for other in trace.ops if other.callable == op.callable and other.groups]
    if same_elsewhere:
        pytest.skip("the same function also runs inside others, where a plain mode does not see it")
    torch.manual_seed(1)
    with Nth(op.callable, n):
        expected = tensors(copy.deepcopy(model)(*_copies(args, kwargs)[0], **_copies(args, kwargs)[1]))
    fresh = copy.deepcopy(model)
    torch.manual_seed(1)
    with cutaway.edit(fresh, at=str(op.full_site), to=change):
        found = tensors(fresh(*_copies(args, kwargs)[0], **_copies(args, kwargs)[1]))
    assert found.keys() == expected.keys()
    assert all(same(found[path], expected[path]) for path in found)


def _copies(args: Any, kwargs: Any) -> Any:
    copied = {id(t): t.detach().clone().requires_grad_(t.requires_grad) for _, t in leaves((args, kwargs), is_tensor)}
    return replace((args, kwargs), lambda t: copied[id(t)], is_tensor)


def test_edits_that_end_in_any_order_leave_the_compiler_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    import torch._dynamo

    before = torch._dynamo.eval_frame._stance
    first, second = cutaway.edit(model, at="0", to=0), cutaway.edit(model, at="1", to=0)
    first.__enter__()
    second.__enter__()
    model(torch.ones(2, 4))
    first.__exit__(None, None, None)
    assert torch._dynamo.eval_frame._stance.stance == "force_eager"
    second.__exit__(None, None, None)
    assert torch._dynamo.eval_frame._stance == before


def test_what_users_hold_shows_only_what_is_public() -> None:
    with pytest.warns(UserWarning, match="never entered"):
        names = {name for name in dir(cutaway.edit(net(), at="0", to=0)) if not name.startswith("_")}
    assert names == {"clamp", "noise", "scale", "swap"}


def test_an_edit_that_was_never_entered_says_nothing_when_modules_are_torn_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reminder = misuse.EntryReminder("edit", "changed nothing")
    monkeypatch.setattr(misuse, "sys", None)  # as the interpreter does before the last objects are collected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reminder.__del__(lambda: True)
    reminder.is_entered = True
