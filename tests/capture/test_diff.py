"""`cutaway.diff` on traces: the typical uses, each with numbers computed by hand."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch
from tests.zoo import RANDOM, ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Trace
from cutaway.core.errors import InputError, OpenTraceError
from cutaway.core.formatting import type_text
from cutaway.results.diff import Compared, Diff

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def mlp(seed: int = 0, *more: nn.Module) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2), *more).eval()


def row(found: Diff, label: str, what: str = "value") -> Compared:
    (one,) = [row for row in found.values if row.label == label and row.what == what and row.kind != "output"]
    return one


def labels(rows: tuple[Compared, ...]) -> list[str]:
    return [row.label for row in rows]


def test_a_trace_does_not_differ_from_itself() -> None:
    trace = cutaway.trace(mlp(), X)
    found = cutaway.diff(trace, trace)
    assert not found
    assert (found.structure, found.first, found.notes) == ((), None, ())
    assert all(row.is_equal for row in found.values)
    assert len(found.values) == len(trace) + 1 + 4 + 1  # ops, input, parameters, output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(ZOO) - RANDOM))
def test_two_traces_of_one_case_of_the_zoo_do_not_differ(name: str) -> None:
    traces = []
    for _ in range(3):
        torch.manual_seed(0)
        model, args, kwargs = ZOO[name]()
        traces.append(cutaway.trace(model, *args, **kwargs))
    found = cutaway.diff(*traces[1:])  # the first may still make what torch keeps for later
    # What a module made in the forward holds before it is filled is arbitrary.
    undefined = {label for label in labels(found.different) if label.startswith("<")}
    assert not found.structure
    assert set(labels(found.different)) <= undefined, found
    json.dumps(found.to_dict(), allow_nan=False)


def test_two_inputs_differ_from_the_first_op_on() -> None:
    model = mlp()
    a, b = cutaway.trace(model, X), cutaway.trace(model, 2 * X)
    found = cutaway.diff(a, b)
    assert found
    assert not found.structure
    assert found.first is not None
    assert (found.first.label, found.first.different) == ("linear_1_1", ("input_1",))
    assert found.first.equal == ("0.weight", "0.bias")
    assert labels(found.origins) == ["input_1"]
    assert row(found, "input_1").distance.norm == pytest.approx(1)
    one, two = model(X).detach().double(), model(2 * X).detach().double()
    (output,) = found.outputs
    assert output.distance.norm == pytest.approx(float((one - two).norm() / one.norm()))
    assert output.distance.absolute == pytest.approx(float((one - two).abs().max()))


def test_training_differs_from_evaluation_where_dropout_is_born() -> None:
    model = mlp()
    a = cutaway.trace(model.eval(), X)
    b = cutaway.trace(model.train(), X)
    found = cutaway.diff(a, b)
    assert [(change.label, change.aspects) for change in found.structure] == [("dropout_1_3", ("arguments",))]
    assert found.first is not None
    assert (found.first.label, found.first.equal, found.first.different) == ("dropout_1_3", ("relu_1_2",), ())
    assert labels(found.origins) == ["dropout_1_3"]
    assert labels(found.different) == ["dropout_1_3", "linear_2_4", "linear_2_4"]  # the last is the output


def test_two_checkpoints_are_compared_parameter_by_parameter() -> None:
    one, two = mlp(0), mlp(1)
    found = cutaway.diff(cutaway.trace(one, X), cutaway.trace(two, X))
    assert labels(found.origins) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    for name, parameter in one.named_parameters():
        other = two.get_parameter(name)
        apart = ((parameter - other).norm() / parameter.norm()).item()
        assert row(found, name).distance.norm == pytest.approx(apart, rel=1e-5)


def test_the_first_difference_is_the_op_that_reads_the_changed_weight() -> None:
    model, other = mlp(), mlp()
    with torch.no_grad():
        other[3].weight[1] += 5
    found = cutaway.diff(cutaway.trace(model, X), cutaway.trace(other, X))
    assert labels(found.origins) == ["3.weight"]
    assert row(found, "3.weight").distance.n_different == 8
    assert row(found, "3.weight").distance.absolute == pytest.approx(5)
    assert found.first is not None
    assert (found.first.label, found.first.different) == ("linear_2_4", ("3.weight",))
    assert "test_diff.py" in found.first.source


def test_a_weight_changed_in_place_is_noted_as_overwritten() -> None:
    model = mlp()
    a = cutaway.trace(model, X)
    with torch.no_grad():
        model[3].weight.zero_()
    found = cutaway.diff(a, cutaway.trace(model, X))
    assert found.first is not None
    assert (found.first.label, found.first.unknown) == ("linear_2_4", ("3.weight",))
    assert any("1 value overwritten after tracing" in note and "3.weight" in note for note in found.notes)


def test_a_copy_kept_of_a_weight_is_compared_after_it_was_changed() -> None:
    model = mlp()
    with cutaway.watch(model, keep="copy") as a:
        model(X)
    with torch.no_grad():
        model[3].weight.add_(1)
    found = cutaway.diff(a, cutaway.trace(model, X))
    assert row(found, "3.weight").distance.absolute == pytest.approx(1)
    assert not found.notes


def test_bfloat16_changes_dtypes_and_values_are_still_compared() -> None:
    model = mlp()
    a = cutaway.trace(model, X)
    with torch.autocast("cpu", torch.bfloat16):
        b = cutaway.trace(model, X)
    found = cutaway.diff(a, b)
    assert {change.aspects for change in found.changed} == {("dtype",)}
    assert len(found.changed) == 4
    assert labels(found.origins) == ["linear_1_1"]
    wide = a["linear_1"].value.double(), b["linear_1"].value.double()
    assert row(found, "linear_1_1").distance.norm == pytest.approx(float((wide[0] - wide[1]).norm() / wide[0].norm()))
    assert 0 < (row(found, "linear_1_1").distance.norm or 0) < 0.01


def test_an_inserted_layer_is_new_and_all_others_are_compared() -> None:
    model = mlp()
    longer = nn.Sequential(*model[:2], nn.Linear(8, 8), nn.Tanh(), *model[2:]).eval()
    found = cutaway.diff(cutaway.trace(model, X), cutaway.trace(longer, X))
    assert [change.label for change in found.new] == ["linear_2_3", "tanh_1_4"]
    assert not found.removed + found.changed
    assert found.first is not None
    assert (found.first.label, found.first.different) == ("dropout_1_5", ("tanh_1_4",))
    assert row(found, "5.weight").is_equal
    assert row(found, "5.weight").was == "3.weight"
    assert found.n_ops == 4


class Fragile(nn.Module):
    def __init__(self, fails: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.fails = nn.Linear(4, 4), nn.Linear(4, 4), fails

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        if self.fails:
            raise RuntimeError("on purpose")
        return self.last(x)


def test_a_trace_that_broke_off_lacks_the_rest() -> None:
    with pytest.raises(RuntimeError, match="on purpose") as caught:
        cutaway.trace(Fragile(True), X)
    partial: Trace = caught.value.cutaway_trace  # type: ignore[attr-defined]
    found = cutaway.diff(partial, cutaway.trace(Fragile(False), X))
    assert [change.label for change in found.new] == ["linear_2_3"]
    assert not found.modules
    assert not found.different
    assert any("the first trace ended early with RuntimeError: on purpose" in note for note in found.notes)


def test_gradients_are_compared_pass_by_pass() -> None:
    def watched(factor: float) -> Trace:
        model = mlp()
        with cutaway.watch(model) as trace:
            (model(X).sum() * 1).backward()
            (model(X).sum() * factor).backward()
        return trace

    found = cutaway.diff(watched(1), watched(3))
    grads = [row for row in found.values if row.what == "grad" and row.label == "3.weight"]
    assert [row.backward for row in grads] == [0, 1]
    assert grads[0].is_equal
    assert grads[1].distance.norm == pytest.approx(2)


def test_gradients_of_one_trace_only_are_noted() -> None:
    model = mlp()
    with cutaway.watch(model) as a:
        model(X).sum().backward()
    found = cutaway.diff(a, cutaway.trace(model, X))
    assert any("1 backward passes in the first, 0 in the second" in note for note in found.notes)


def test_values_that_were_not_saved_are_counted() -> None:
    model = mlp()
    with cutaway.watch(model, save="1") as a:
        model(X)
    found = cutaway.diff(a, cutaway.trace(model, 2 * X))
    assert labels(found.values) == ["relu_1_2"]
    assert any("not saved in both" in note for note in found.notes)
    with cutaway.watch(model, save=None) as bare:
        model(X)
    assert not cutaway.diff(bare, bare)
    assert "no value compared" in repr(cutaway.diff(bare, bare))


def test_values_of_other_shapes_are_not_compared() -> None:
    model = mlp()
    found = cutaway.diff(cutaway.trace(model, X), cutaway.trace(model, X[:2]))
    assert labels(found.values) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert len(found.changed) == 4
    assert found.first is None
    assert not found.notes


def test_numbers_that_left_torch_are_compared() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.abs().max().item()

    model = Scaled()
    found = cutaway.diff(cutaway.trace(model, X), cutaway.trace(model, 2 * X))
    assert row(found, "item_1_3").distance.absolute == 2


def test_a_nan_that_comes_up_is_found_where_it_is_born() -> None:
    class Logs(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.log(x.relu() + 1e-3).exp() * 0

    inputs = torch.ones(4), torch.tensor([1.0, float("nan"), 1.0, 1.0])
    found = cutaway.diff(*(cutaway.trace(Logs(), x) for x in inputs))
    assert labels(found.origins) == ["input_1"]
    assert found.outputs[0].distance.n_nan == 1
    assert found.largest(1)[0].distance.n_nan == 1


def test_arbitrary_contents_are_no_difference() -> None:
    class Filled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.empty(3, 4).fill_(2) * x

    found = cutaway.diff(cutaway.trace(Filled(), X), cutaway.trace(Filled(), X))
    assert not found
    assert found.notes == ("1 value with undefined contents (empty_1_1)",)


def test_random_numbers_are_an_origin() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    model = Noisy()
    found = cutaway.diff(cutaway.trace(model, X), cutaway.trace(model, X))
    assert labels(found.origins) == ["rand_like_1_1"]


def test_transformed_values_are_compared_as_they_are() -> None:
    model = mlp()
    traces = []
    for x in (X, 2 * X):
        with cutaway.watch(model, transform=lambda value: value.mean()) as trace:
            model(x)
        traces.append(trace)
    found = cutaway.diff(*traces)
    assert row(found, "relu_1_2").distance.n_elements == 1
    assert any("transformed" in note for note in found.notes)


def test_other_outputs_are_new_and_removed() -> None:
    class Returns(nn.Module):
        def __init__(self, *names: str) -> None:
            super().__init__()
            self.names = names

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return dict.fromkeys(self.names, x * 2)

    found = cutaway.diff(cutaway.trace(Returns("a", "b"), X), cutaway.trace(Returns("b", "c"), X))
    outputs = [(change.how, change.site) for change in found.structure if change.kind == "output"]
    assert outputs == [("removed", ".@out.a"), ("new", ".@out.c")]
    assert [row.site for row in found.outputs] == [".@out.b"]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_traces_on_two_devices_are_compared_by_their_numbers() -> None:
    model = mlp()
    a = cutaway.trace(model, X)
    b = cutaway.trace(copy.deepcopy(model).cuda(), X.cuda())
    found = cutaway.diff(a, b)
    assert not found.structure
    assert row(found, "0.weight").is_equal
    assert (row(found, "linear_2_4").distance.norm or 0) < 1e-5
    assert "the first ran on cpu, the second on cuda:0" in found.notes
    assert not cutaway.diff(b, b)
    assert cutaway.diff(b, cutaway.trace(copy.deepcopy(model).cuda(), 2 * X.cuda())).first is not None


def test_comparing_changes_nothing() -> None:
    model = mlp()
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    cutaway.diff(cutaway.trace(model, X), cutaway.trace(model, 2 * X))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("thing", [mlp(), "trace", None, X], ids=["model", "text", "None", "tensor"])
def test_anything_but_a_trace_is_refused(thing: Any) -> None:
    trace = cutaway.trace(mlp(), X)
    with pytest.raises(InputError, match=f"the second argument is {type_text(thing)}: pass the result of"):
        cutaway.diff(trace, thing)
    with pytest.raises(InputError, match="the first argument"):
        cutaway.diff(thing, trace)


def test_an_open_trace_is_refused() -> None:
    model = mlp()
    with cutaway.watch(model) as trace:
        with pytest.raises(OpenTraceError):
            cutaway.diff(trace, trace)
