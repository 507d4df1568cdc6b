"""Which op is which: hand-written pairs of models, and random programs with one step more or less."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.call_count import count_calls
from tests.graph.random_models import tangle
from tests.zoo import ZOO, Fn
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.graph.diff import align as aligning
from cutaway.graph.diff.align import align
from cutaway.graph.diff.match import MISSING
from cutaway.graph.diff.structure import changes
from cutaway.results.diff import Change

X = torch.linspace(-2, 2, 8).reshape(2, 4)


def traced(function: Callable[..., Any], *args: Any, **modules: Any) -> Trace:
    torch.manual_seed(0)
    return cutaway.trace(Fn(function, **modules).eval(), *(args or (X,)))


def pairs(a: Trace, b: Trace) -> list[tuple[str, str]]:
    def label(trace: Trace, node: int) -> str:
        return "" if node == MISSING else Op(trace, node).label

    return [(label(a, mine), label(b, other)) for mine, other in align(a, b).ops]


def structure(a: Trace, b: Trace, kind: str = "op") -> list[tuple[str, str, tuple[str, ...]]]:
    rows: list[Change] = [row for row in changes(a, b, align(a, b)) if row.kind == kind]
    return [(row.how, row.label, row.aspects) for row in rows]


# one op more or less


def test_an_op_before_three_of_its_kind_is_one_new_op() -> None:
    a = traced(lambda self, x: ((x * 2) * 3) * 4)
    b = traced(lambda self, x: (((x * 9) * 2) * 3) * 4)
    assert pairs(a, b) == [("", "mul_1_1"), ("mul_1_1", "mul_2_2"), ("mul_2_2", "mul_3_3"), ("mul_3_3", "mul_4_4")]
    assert structure(a, b) == [("new", "mul_1_1", ())]
    assert structure(b, a) == [("removed", "mul_1_1", ())]


def test_another_function_in_the_same_place_is_a_change() -> None:
    a = traced(lambda self, x: torch.relu(x + 1) * 2)
    b = traced(lambda self, x: torch.nn.functional.gelu(x + 1) * 2)
    assert structure(a, b) == [("changed", "gelu_1_2", ("function",))]


def test_a_function_and_a_module_that_does_another_are_a_change() -> None:
    a = traced(lambda self, x: torch.relu(x + 1) * 2)
    b = traced(lambda self, x: self.act(x + 1) * 2, act=nn.GELU())
    assert structure(a, b) == [("changed", "gelu_1_2", ("function",))]
    assert structure(a, b, "module") == [("new", "act", ())]


def test_several_functions_in_the_place_of_as_many_are_changes() -> None:
    a = traced(lambda self, x: torch.relu(torch.tanh(x + 1)) * 2)
    b = traced(lambda self, x: torch.exp(torch.neg(x + 1)) * 2)
    assert structure(a, b) == [("changed", "neg_1_2", ("function",)), ("changed", "exp_1_3", ("function",))]


def test_one_function_in_the_place_of_several_is_not_taken_for_one_of_them() -> None:
    a = traced(lambda self, x: torch.relu(torch.tanh(x + 1)) * 2)
    b = traced(lambda self, x: torch.exp(x + 1) * 2)
    assert structure(a, b) == [("removed", "tanh_1_2", ()), ("removed", "relu_1_3", ()), ("new", "exp_1_2", ())]


def test_other_arguments_shapes_and_dtypes_are_told_apart() -> None:
    a = traced(lambda self, x: x.sum(0) * 2)
    b = traced(lambda self, x: x.sum(1) * 2)
    assert structure(a, b) == [("changed", "sum_1_1", ("shape", "arguments")), ("changed", "mul_1_2", ("shape",))]
    c = traced(lambda self, x: x.double().sum(0) * 2)
    assert structure(a, c)[1:] == [("changed", "sum_1_2", ("dtype",)), ("changed", "mul_1_3", ("dtype",))]


def test_an_op_that_takes_another_tensor_is_rewired() -> None:
    a = traced(lambda self, x: (x.relu() - x.tanh()) * x.relu())
    b = traced(lambda self, x: (x.tanh() - x.relu()) * x.relu())
    # Both compute relu and tanh once before the difference, in another order.
    assert {"sub"} <= {label.split("_")[0] for how, label, aspects in structure(a, b) if "inputs" in aspects}


def test_what_is_put_in_between_rewires_nothing() -> None:
    a = traced(lambda self, x: torch.relu(x) + x)
    b = traced(lambda self, x: torch.relu(x).neg() + x)
    assert structure(a, b) == [("new", "neg_1_2", ())]


def test_evaluation_and_training_differ_in_dropout_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())
    a, b = cutaway.trace(model.eval(), X), cutaway.trace(model.train(), X)
    assert structure(a, b) == [("changed", "dropout_1_2", ("arguments",))]


def test_another_batch_size_changes_shapes_only() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    a, b = cutaway.trace(model, X), cutaway.trace(model, torch.ones(5, 4))
    assert {aspects for _, _, aspects in structure(a, b)} == {("shape",)}
    assert len(structure(a, b)) == len(a)


def test_several_results_of_one_call_are_matched_by_their_path() -> None:
    a = traced(lambda self, x: torch.add(*x.split(2, 1)))
    b = traced(lambda self, x: torch.add(*x.relu().split(2, 1)))
    assert ("split_1_1", "split_1_2") in pairs(a, b)
    assert ("split_2_2", "split_2_3") in pairs(a, b)


def test_another_turn_of_a_loop_is_new_as_a_whole() -> None:
    def loop(self: Any, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = torch.tanh(self.cell(x))
        return x

    a = traced(loop, X, 3, cell=nn.Linear(4, 4))
    b = traced(loop, X, 5, cell=nn.Linear(4, 4))
    assert structure(a, b) == [("new", f"{kind}_{i}_{j}", ()) for i, j in ((4, 7), (5, 9)) for kind, j in
                               (("linear", j), ("tanh", j + 1))]  # fmt: skip


# modules


def mlp(*layers: nn.Module) -> Trace:
    torch.manual_seed(0)
    return cutaway.trace(nn.Sequential(*layers), X)


def test_a_layer_put_into_a_sequence_moves_those_behind_it() -> None:
    first, last = nn.Linear(4, 8), nn.Linear(8, 2)
    a, b = mlp(first, nn.ReLU(), last), mlp(first, nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), last)
    assert structure(a, b) == [("new", "linear_2_3", ()), ("new", "tanh_1_4", ())]
    assert structure(a, b, "module") == [("moved", "4", ()), ("new", "2", ()), ("new", "3", ())]
    assert structure(a, b, "parameter") == [("new", "2.weight", ()), ("new", "2.bias", ())]


def test_a_wider_layer_is_the_same_layer_reshaped() -> None:
    a, b = mlp(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), mlp(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2))
    assert not structure(a, b, "module")
    names = ["0.weight", "0.bias", "2.weight"]
    assert structure(a, b, "parameter") == [("changed", name, ("shape",)) for name in names]
    assert [how for how, _, _ in structure(a, b)] == ["changed", "changed"]


def test_a_deeper_model_has_new_layers_at_the_end() -> None:
    a, b = (mlp(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(n))) for n in (2, 5))
    new = [label for how, label, _ in structure(a, b, "module") if how == "new"]
    assert new == [f"{i}{inner}" for i in (2, 3, 4) for inner in ("", ".0", ".1")]
    assert {how for how, _, _ in structure(a, b)} == {"new"}


def test_a_model_inside_another_is_found_there() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    a, b = cutaway.trace(model, X), cutaway.trace(nn.Sequential(model, nn.Softmax(-1)), X)
    assert structure(a, b) == [("new", "softmax_1_4", ())]
    assert structure(b, a) == [("removed", "softmax_1_4", ())]
    assert structure(a, b, "module") == [("moved", "0", ()), ("new", ".", ()), ("new", "1", ())]
    assert not structure(a, b, "parameter")


def test_a_module_of_another_class_at_the_same_address_is_changed() -> None:
    a, b = mlp(nn.Linear(4, 4), nn.ReLU()), mlp(nn.Linear(4, 4), nn.GELU())
    assert structure(a, b, "module") == [("changed", "1", ("class",))]


def test_a_composite_module_and_a_plain_one_at_its_address_are_one_changed_module() -> None:
    class Swish(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(x)

    a, b = mlp(nn.Linear(4, 4), Swish(), nn.Tanh()), mlp(nn.Linear(4, 4), nn.ReLU(), nn.Tanh())
    assert structure(a, b, "module") == [("changed", "1", ("class",))]
    assert {how for how, _, _ in structure(a, b)} == {"new", "removed"}


def test_modules_that_only_share_an_address_are_not_one() -> None:
    first, last = nn.Linear(4, 8), nn.Linear(8, 2)
    a = mlp(first, nn.ReLU(), nn.Softmax(-1), last)
    b = mlp(first, nn.GELU(), nn.Linear(8, 8), nn.ReLU(), last)
    assert structure(a, b, "module") == [
        ("moved", "3", ()),
        ("removed", "2", ()),
        ("moved", "4", ()),
        ("new", "1", ()),
        ("new", "2", ()),
    ]


def test_models_that_have_nothing_in_common_are_removed_and_new() -> None:
    (cnn, images, _), (lstm, words, _) = ZOO["cnn"](), ZOO["lstm"]()
    a, b = cutaway.trace(cnn, *images), cutaway.trace(lstm, *words)
    rows = changes(a, b, align(a, b))
    assert {row.how for row in rows} >= {"new", "removed"}


# properties


def check_alignment(a: Trace, b: Trace) -> None:
    """Every op stands in exactly one pair, and those of the second trace in their order."""
    found = align(a, b).ops
    assert sorted(mine for mine, _ in found if mine != MISSING) == a.op_nodes
    assert [other for _, other in found if other != MISSING] == b.op_nodes


@pytest.mark.parametrize("name", ZOO)
def test_a_trace_of_the_zoo_is_like_itself(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    trace = cutaway.trace(model, *args, **kwargs)
    check_alignment(trace, trace)
    assert all(mine == other for mine, other in align(trace, trace).ops)
    assert not changes(trace, trace, align(trace, trace))


@pytest.mark.parametrize("seed", range(8))
def test_two_random_models_are_aligned_without_loss(seed: int) -> None:
    check_alignment(tangle(seed), tangle(seed + 100, 40))


@pytest.mark.parametrize("seed", range(8))
def test_sequences_too_long_for_weights_are_aligned_without_loss(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligning, "MOST_CELLS", 0)
    check_alignment(tangle(seed), tangle(seed + 100, 40))
    a, b = traced(lambda self, x: ((x * 2) * 3) * 4), traced(lambda self, x: (((x * 9) * 2) * 3) * 4)
    assert structure(a, b) == [("new", "mul_1_1", ())]


Step = tuple[int, str, tuple[int, ...]]
"""Name of the result, function, names of the arguments."""


class Program(nn.Module):
    """Runs the steps of a program that is data."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor) -> list[Tensor]:
        known = {0: x}
        for name, function, arguments in self.steps:
            known[name] = getattr(torch, function)(*(known[argument] for argument in arguments))
        return list(known.values())[1:]


def program(draw: random.Random, n: int) -> list[Step]:
    steps: list[Step] = []
    for name in range(1, n + 1):
        function = draw.choice(("tanh", "sigmoid", "neg", "add", "mul", "sub"))
        n_arguments = 2 if function in ("add", "mul", "sub") else 1
        steps.append((name, function, tuple(draw.randrange(max(0, name - 4), name) for _ in range(n_arguments))))
    return steps


@pytest.mark.parametrize("in_between", [False, True], ids=["beside", "in between"])
@pytest.mark.parametrize("seed", range(25))
def test_one_step_put_into_a_random_program_is_found(seed: int, in_between: bool) -> None:
    draw = random.Random(seed)
    steps = program(draw, 30)
    at = draw.randrange(1, 29)
    function = draw.choice(("relu", "tanh", "neg", "exp"))
    parent = steps[at - 1][0]
    names = {parent: 99} if in_between else {}
    behind = [(name, called, tuple(names.get(i, i) for i in arguments)) for name, called, arguments in steps[at:]]
    more = [*steps[:at], (99, function, (parent,)), *behind]
    a, b = cutaway.trace(Program(steps), X), cutaway.trace(Program(more), X)
    check_alignment(a, b)
    for rows, how in ((changes(a, b, align(a, b)), "new"), (changes(b, a, align(b, a)), "removed")):
        (found,) = [row for row in rows if row.kind == "op"]
        assert found.how == how
        assert found.label.startswith(function)
        if function in ("relu", "exp"):  # the only one of its kind: no other may be taken for it
            assert found.label.endswith(f"_{at + 1}")


@pytest.mark.parametrize("seed", range(25))
def test_one_step_of_a_random_program_that_does_something_else_is_changed(seed: int) -> None:
    draw = random.Random(seed)
    steps = program(draw, 30)
    at = draw.choice([i for i, (_, _, arguments) in enumerate(steps) if len(arguments) == 1])
    name, _, arguments = steps[at]
    other = [*steps[:at], (name, "exp", arguments), *steps[at + 1 :]]
    a, b = cutaway.trace(Program(steps), X), cutaway.trace(Program(other), X)
    assert structure(a, b) == [("changed", f"exp_1_{at + 1}", ("function",))]


@pytest.mark.parametrize("seed", range(25))
def test_one_step_of_a_random_program_that_takes_another_tensor_is_rewired(seed: int) -> None:
    draw = random.Random(seed)
    steps = program(draw, 30)
    at = draw.choice([i for i, (name, called, _) in enumerate(steps) if name > 8 and called in ("add", "sub")])
    name, called, arguments = steps[at]
    taken = draw.choice([i for i in range(1, name) if i not in arguments])
    other = [*steps[:at], (name, called, (taken, arguments[1])), *steps[at + 1 :]]
    a, b = cutaway.trace(Program(steps), X), cutaway.trace(Program(other), X)
    (found,) = changes(a, b, align(a, b))
    assert (found.how, found.aspects, found.label.split("_")[-1]) == ("changed", ("inputs",), str(at + 1))


def test_aligning_20_000_ops_in_one_call_takes_no_more_work_an_op_than_2_000() -> None:
    class Long(nn.Module):
        def __init__(self, n: int, extra: set[int]) -> None:
            super().__init__()
            self.n, self.extra = n, extra

        def forward(self, x: Tensor) -> Tensor:
            for i in range(self.n):
                x = torch.tanh(x * 1.5)
                if i in self.extra:
                    x = torch.relu(x)
            return x

    n_calls = []
    for n in (1_000, 10_000):
        a, b = cutaway.trace(Long(n, set()), X), cutaway.trace(Long(n, set(range(3, n, 100))), X)
        n_calls.append(count_calls(lambda a=a, b=b: align(a, b)))
    assert n_calls[1] < 15 * n_calls[0]
    found = align(a, b)
    assert [Op(b, other).function for mine, other in found.ops if mine == MISSING] == ["relu"] * 100
