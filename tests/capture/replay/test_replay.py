"""A replay equals a full edited run, but recomputes only what the change affects."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.oracles import same, tensors
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway import Op, Trace
from cutaway.core.errors import CannotReplayError, EditError, InputError, SiteError


class Fn(nn.Module):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def forward(self, *args: Any) -> Any:
        return self.body(*args)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)).train()


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def both(model: nn.Module, at: Any, to: Any, **part: Any) -> tuple[Trace, Trace, Trace]:
    """A trace, its replay with a change, and a full run with the same change and the same random numbers."""
    torch.manual_seed(7)
    trace = cutaway.trace(model, X)
    replayed = trace.replay(at, to, **part) if to is not None else trace.replay(at)
    torch.manual_seed(7)
    with cutaway.edit(model, at, to, **part) if to is not None else cutaway.edit(model, at):
        full = cutaway.trace(model, X)
    return trace, replayed, full


@pytest.mark.parametrize(
    ("at", "to", "part"),
    [
        ("1", 0, {}),
        ("1/relu", cutaway.edit.scale(2.0), {}),
        ("0#2", 7, {}),
        ("0", lambda v: v + 1, {"samples": 2}),
        ("3.weight", 0, {"index": 0}),
        ("1/relu", cutaway.edit.swap(F.gelu), {}),
        ({"0": 1, "2": cutaway.edit.clamp(0, 1)}, None, {}),
        ("2", "1", {}),
    ],
)
def test_a_replay_equals_a_full_edited_run(at: Any, to: Any, part: Any) -> None:
    trace, replayed, full = both(net(), at, to, **part)
    assert same(replayed.returned, full.returned)
    assert not same(replayed.returned, trace.returned)
    for address in ("0", "1", "2", "3", "."):  # what each module returned, edits included
        assert same(replayed[address].value, full[address].value), address


def test_only_what_the_change_reaches_is_computed_again() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(self.a(x).relu() + self.b(x).tanh())

    trace = cutaway.trace(Branches(), X)
    replayed = trace.replay("b", 0)
    assert replayed.recomputed.labels == ("linear_2_3", "tanh_1_4", "add_1_5", "linear_3_6")
    for label in ("linear_1_1", "relu_1_2"):
        assert replayed[label].value.data_ptr() == trace[label].value.data_ptr()


def test_what_comes_out_the_same_reaches_nobody() -> None:
    trace = cutaway.trace(Fn(lambda x: (x.relu() * 2).sum()), torch.tensor([-1.0, 2.0]))
    replayed = trace.replay(".@in.0", lambda v: torch.tensor([-5.0, 2.0]))
    assert replayed.recomputed.labels == ()
    assert same(replayed.returned, trace.returned)


def test_the_original_stays_as_it_was() -> None:
    model = net()
    trace = cutaway.trace(model, X)
    before = [op.value.clone() for op in trace.ops]
    trace.replay("0", 3)
    assert all(same(op.value, value) for op, value in zip(trace.ops, before, strict=True))
    assert trace.validate()


def test_a_replay_can_be_asked_and_replayed_again() -> None:
    model = net().eval()
    trace = cutaway.trace(model, X)
    once = trace.replay("0", lambda v: v * 2)
    twice = once.replay("1", lambda v: v + 1)
    assert same(twice.returned, model[3](model[1](model[0](X) * 2) + 1))
    assert [op.label for op in once["relu_1"].children] == [op.label for op in trace["relu_1"].children]
    assert len(once) == len(trace)


def test_values_come_from_another_trace() -> None:
    model = net().eval()
    other = cutaway.trace(model, torch.randn(5, 4))
    trace = cutaway.trace(model, X)
    assert same(trace.replay("1", other).returned, other.returned)
    assert same(trace.replay("1", other["1"]).returned, other.returned)


def test_inputs_can_be_changed() -> None:
    model = net().eval()
    new = torch.randn(5, 4)
    assert same(cutaway.trace(model, X).replay(".@in.0", new).returned, model(new).detach())


def test_a_pass_of_a_loop_can_be_changed() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(4):
                x = torch.tanh(self.cell(x))
            return x

    model = Loop()
    _, replayed, full = both(model, "cell:3", 0)
    assert same(replayed.returned, full.returned)
    _, replayed, full = both(model, "cell", cutaway.edit.scale(0.5))
    assert same(replayed.returned, full.returned)


# what cannot be replayed is reported


def test_a_number_that_would_steer_the_program_is_reported() -> None:
    def body(x: Tensor) -> Tensor:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    trace = cutaway.trace(Fn(body), torch.ones(3))
    assert same(trace.replay("mul_1", 5).returned, torch.full((3,), 6.0))
    with pytest.raises(CannotReplayError, match=r"affects bool_1_4 at .*False instead of True"):
        trace.replay("mul_1", -5)


def test_an_opaque_region_is_reported() -> None:
    model, args, kwargs = ZOO["scripted_parts"]()
    trace = cutaway.trace(model, *args, **kwargs)
    opaque = next(op for op in trace.ops if op.is_opaque)
    with pytest.raises(CannotReplayError, match="cannot be replayed alone"):
        trace.replay(opaque.parents[0], 0)


def test_missing_values_are_reported() -> None:
    model = net().eval()
    with cutaway.watch(model, save="1") as trace:
        model(X)
    with pytest.raises(CannotReplayError, match="was not saved"):
        trace.replay("1", 0)


def test_a_function_that_does_not_fit_is_reported() -> None:
    trace = cutaway.trace(net().eval(), X)
    with pytest.raises(EditError, match="cannot be called with the arguments of relu"):
        trace.replay("1/relu", cutaway.edit.swap(lambda: 0))


def test_mistakes_are_told() -> None:
    trace = cutaway.trace(net().eval(), X)
    with pytest.raises(SiteError):
        trace.replay("nowhere", 0)
    trace.tables.read_from = "runs/base"
    with pytest.raises(CannotReplayError, match="runs/base"):
        trace.replay("1", 0)


def writes_through_views(x: Tensor) -> Tensor:
    y = x * 2
    view = y.t()
    other = view[0]
    other.add_(1)
    return y + view.t()


@pytest.mark.parametrize("site", ["t_1", "getitem_1", "mul_1", "./t.2"])
@pytest.mark.parametrize("to", [5.0, cutaway.edit.scale(3.0), "another run"])
def test_a_write_through_an_edited_view_is_replayed_as_it_runs(site: str, to: Any) -> None:
    """After the edit, the program writes to the new tensor, which is no view: the model runs once more to see that."""
    model = Fn(writes_through_views)
    trace = cutaway.trace(model, X)
    to = cutaway.trace(model, X - 4) if to == "another run" else to
    with cutaway.edit(model, trace[site], to):
        expected = model(X)
    assert same(trace.replay(site, to).returned, expected)
    assert same(trace.replay(trace[site], to).returned, expected)
    assert same(trace.returned, model(X))


def test_a_write_through_an_edited_view_is_reported_if_the_model_cannot_run_again() -> None:
    model = Fn(writes_through_views)
    trace = cutaway.trace(model, X)
    model.eval()
    with pytest.raises(CannotReplayError, match=r"writes through a view that the change replaces.*in training mode"):
        trace.replay("t_1", 0)
    expected = X * 0 + 5
    expected[:, 0] += 1
    assert same(trace.replay("mul_1", 5).returned, 2 * expected)


class Around(nn.Module):
    """`h + b(h)`, with h = a(x)."""

    def __init__(self, b: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), b

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return h + self.b(h)


def test_an_op_that_returns_its_input_is_replayed_for_what_reads_its_result() -> None:
    model = Around(nn.Identity())
    assert same(cutaway.trace(model, X).replay("b", 0).returned, model.a(X).detach())
    model = Around(nn.Dropout().eval())
    trace, other = cutaway.trace(model, X), cutaway.trace(model, -X)
    h = model.a(X).detach()
    assert same(trace.replay("b/dropout", 7).returned, h + 7)
    assert same(trace.replay("b/dropout", other).returned, h + model.a(-X).detach())
    assert same(trace.patch_path("b/dropout", other, frozen="a").returned, h + model.a(-X).detach())
    trace = cutaway.trace(model, X)
    model.eval()
    with pytest.raises(CannotReplayError, match=r"returns its input tensor unchanged.*in training mode"):
        trace.replay("b/dropout", 0)
    alone = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with cutaway.edit(alone, at="1@in.0", to=0):
        expected = alone(X)
    assert same(cutaway.trace(alone, X).replay("1@in.0", 0).returned, expected.detach())


def test_another_shape_is_reported() -> None:
    def body(x: Tensor) -> Tensor:
        chosen = x[x > 0]
        return chosen.sum() / chosen.shape[0]

    trace = cutaway.trace(Fn(body), torch.tensor([1.0, 2.0, -3.0]))
    with pytest.raises(CannotReplayError, match=r"shape would be \[1\] instead of \[2\]"):
        trace.replay(".@in.0", torch.tensor([1.0, -2.0, -3.0]))


def test_several_results_have_to_be_told_apart() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x * 3

    model = nn.Module()
    model.two = Two()
    model.forward = lambda x: sum(model.two(x))  # type: ignore[method-assign]
    trace = cutaway.trace(model, X)
    with pytest.raises(EditError, match=r"choose one of 'two@out.0', 'two@out.1'"):
        trace.replay("two", 0)
    assert same(trace.replay("two@out.1", 0).returned, X * 2)


def test_a_replay_through_batch_norm_in_training_changes_nothing_of_the_trace() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(x) + self.b.running_mean + self.b.running_var

    trace, other = cutaway.trace(Norm().train(), X), torch.randn(5, 4)
    before = {name: op.value.clone() for name, op in trace.buffers.items()}
    with torch.no_grad():
        expected = Norm().train()(other)
    for _ in range(2):
        assert same(trace.replay(".@in.0", other).returned, expected)
    assert all(same(op.value, before[name]) for name, op in trace.buffers.items())
    assert trace.validate()
    assert trace.validate()


def test_a_replay_is_detached_and_says_that_nobody_saw_it() -> None:
    trace = cutaway.trace(net().eval(), X)
    replayed = trace.replay("1", 0)
    assert not replayed.returned.requires_grad
    with pytest.raises(cutaway.CutawayError, match="this is a replay"):
        replayed.validate()


# the zoo

REFUSED = ("gradient_inside_forward", "scalars_steer", "cond", "quantized")
"""Whatever is changed there steers the program, or ends in an opaque region."""


@pytest.mark.parametrize("name", [name for name in ZOO if name not in ("meta", "nested")])
def test_in_every_model_a_replay_equals_a_run_with_the_edit(name: str) -> None:
    """Every few ops are changed in turn; where the replay refuses, it says why."""
    torch.manual_seed(0)
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(1)
    trace = cutaway.trace(model, *args, **kwargs)
    state = {key: value.clone() for key, value in model.state_dict().items() if isinstance(value, Tensor)}
    candidates = [op for op in trace.ops if op.dtype == "float32" and _can_be_edited(op)]
    n_equal = 0
    for op in candidates[:: max(len(candidates) // 4, 1)]:
        try:
            replayed = trace.replay(op, _change)
        except CannotReplayError:
            continue
        torch.manual_seed(0)
        fresh, fresh_args, fresh_kwargs = ZOO[name]()
        torch.manual_seed(1)
        with cutaway.edit(fresh, at=str(op.full_site), to=_change):
            expected = tensors(fresh(*fresh_args, **fresh_kwargs))
        found = tensors(replayed.returned)
        assert found.keys() == expected.keys()
        for path, value in found.items():
            assert same(value, expected[path]) or torch.allclose(value, expected[path], equal_nan=True), (op, path)
        n_equal += 1
    assert n_equal or not candidates or name in REFUSED, name
    assert all(same(model.state_dict()[key], value) for key, value in state.items())


def _change(value: Tensor) -> Tensor:
    return value * 0.5 if value.layout != torch.strided else value * 0.5 + 0.25


def _can_be_edited(op: Op) -> bool:
    if not isinstance(op.value, Tensor):
        return False
    return not (op.is_opaque or op.is_alias_write or op.module is None or "<" in str(op.full_site))


def test_replay_takes_the_arguments_of_edit() -> None:
    edit = [*inspect.signature(cutaway.edit).parameters.values()]
    replay = [*inspect.signature(cutaway.Trace.replay).parameters.values()]
    assert replay[1:] == edit[1:]  # without the trace and the model: same names, types, kinds and defaults
    assert _argument_docs(cutaway.Trace.replay) == _argument_docs(cutaway.edit)[1:]


def _argument_docs(what: Any) -> list[str]:
    documented = inspect.getdoc(what).partition("Args:\n")[2]
    return re.split(r"\n {4}(?=\w)", documented.strip())


def test_replay_takes_no_model_and_needs_a_value() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    trace = cutaway.trace(model, torch.ones(2, 4))
    with pytest.raises(InputError, match=r"takes no model.*trace\.replay\(site, value\)"):
        trace.replay(model, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"to= is missing for at='1': write trace\.replay\('1', 0\)"):
        trace.replay("1")
    with pytest.raises(EditError, match=r"replay at 'relu_1_2': a value of shape \[7\]"):
        trace.replay("1", torch.ones(7))
