"""The public verbs `trace`, `watch` and `sites`, including wrong input."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from tests.oracles import same
from torch import nn

import cutaway
from cutaway.core.errors import InputError, OpenTraceError


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


X = torch.ones(3, 4)


def test_something_that_is_no_module_is_refused_with_a_way_out(model: nn.Module) -> None:
    with pytest.raises(InputError, match=r"must be a torch.nn.Module, got a function.*cutaway.watch"):
        cutaway.trace(lambda x: x, X)
    with pytest.raises(InputError, match=r"the class ReLU: create an instance first, ReLU\(…\)"):
        cutaway.trace(nn.ReLU, X)
    with pytest.raises(InputError, match="a Tensor"):
        with cutaway.watch(X):
            pass
    with pytest.raises(InputError, match=r"a Tensor, perhaps its output: .*cutaway\.trace\(model, x\)"):
        cutaway.trace(model(X))
    with pytest.raises(InputError, match=r"a dict, perhaps its output: .*cutaway\.sites\(model, x\)"):
        cutaway.sites({"logits": model(X)})
    with pytest.raises(InputError, match="got 'gpt2': load the model first"):
        cutaway.trace("gpt2", X)
    with pytest.raises(InputError, match="a Trace: pass the model"):
        cutaway.trace(cutaway.trace(model, X))


def test_arguments_that_do_not_fit_are_named(model: nn.Module) -> None:
    with pytest.raises(InputError, match=r"do not fit Sequential.forward\(input\): missing a required argument"):
        cutaway.trace(model)
    with pytest.raises(InputError, match=r"do not fit Linear.forward\(input\): .*'mask'"):
        cutaway.trace(model[0], X, mask=X)
    with pytest.raises(InputError, match=r"sites\(model, \.\.\.\) passes all arguments"):
        cutaway.sites(model)
    with pytest.raises(InputError, match=r"save= is an option of `with cutaway\.watch\(model, save=…\)"):
        cutaway.trace(model, X, save="0")


@pytest.mark.parametrize(
    ("x", "note"),
    [
        (X.double(), "input '0' is float64; the parameters are float32"),
        (X.long(), "input '0' is int64; the parameters are float32"),
        (X.to("meta"), "input '0' is on meta; the parameters are on cpu"),
    ],
)
def test_inputs_of_another_dtype_or_device_are_noted_on_the_models_own_error(
    model: nn.Module, x: torch.Tensor, note: str
) -> None:
    with pytest.raises(RuntimeError) as untraced:
        model(x)
    with pytest.raises(RuntimeError) as traced:
        cutaway.trace(model, x)
    assert str(traced.value) == str(untraced.value)
    assert note in traced.value.__notes__[0]


def test_an_error_that_is_not_about_dtypes_gets_no_note(model: nn.Module) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as raised:
        cutaway.trace(model, torch.ones(2, 5, dtype=torch.float32))
    assert not hasattr(raised.value, "__notes__")


def test_a_watch_without_with_warns_and_explains(model: nn.Module) -> None:
    with pytest.warns(UserWarning, match=r"cutaway\.watch was never entered, so it recorded nothing"):
        cutaway.watch(model)
    with (
        pytest.warns(UserWarning, match="never entered"),
        pytest.raises(AttributeError, match="the trace is what `with"),
    ):
        cutaway.watch(model).ops  # noqa: B018
    with pytest.raises(
        InputError, match=r"watch\(\) got 1 positional argument too many, a Tensor\. Run the model inside"
    ):
        cutaway.watch(model, X)
    with cutaway.watch(model) as trace:
        model(X)
    assert trace["1"].shape == (3, 8)


def test_a_watch_is_used_once(model: nn.Module) -> None:
    block = cutaway.watch(model)
    with block:
        model(X)
    with pytest.raises(InputError, match="already used"), block:
        pass


def test_validate_takes_no_model(model: nn.Module) -> None:
    trace = cutaway.trace(model, X)
    with pytest.raises(InputError, match=r"too many, a Sequential and a Tensor\. Write trace\.validate\(\)"):
        trace.validate(model, X)
    assert "forward" in inspect.signature(cutaway.Trace.validate).parameters


def test_other_wrong_input_is_named(model: nn.Module) -> None:
    trace = cutaway.trace(model, X)
    with pytest.raises(InputError, match="save=5: use sites"), cutaway.watch(model, save=5):
        pass
    with pytest.raises(InputError, match="use sites"), cutaway.watch(model, save=trace):
        pass
    with pytest.raises(InputError, match="seed='a' must be an integer"), cutaway.watch(model, seed="a"):
        pass
    with pytest.raises(InputError, match=r"got 1\.5"):
        trace[1.5]
    with pytest.raises(IndexError, match="position 99 is out of range: this trace has 3 ops"):
        trace[99]
    assert "a..b" not in trace


def test_a_trace_cannot_be_read_inside_its_own_block(model: nn.Module) -> None:
    with cutaway.watch(model) as trace:
        model(X)
        assert "still being made" in repr(trace)
        with pytest.raises(OpenTraceError, match="after its `with` block"):
            trace["0"]
        with pytest.raises(OpenTraceError):
            len(trace)


def test_bad_ways_of_saving_are_refused(model: nn.Module) -> None:
    with pytest.raises(InputError, match=r"save=\[3\] contains the position 3"), cutaway.watch(model, save=[3]):
        pass
    with pytest.raises(InputError, match=r"keep=5: use 'reference'"), cutaway.watch(model, keep=5):
        pass
    with pytest.raises(InputError, match=r"Did you mean 'copy'\? For a folder, write keep='\./copies'"):
        with cutaway.watch(model, keep="copies"):
            pass
    with pytest.raises(InputError, match="transform='mean': pass a function"):
        cutaway.watch(model, transform="mean")


def test_code_around_no_model_can_be_watched() -> None:
    with cutaway.watch() as trace:
        (X * 2).relu()
    assert [op.site for op in trace] == ["/mul", "/relu"]
    assert trace.model_name == "code"


def test_a_loss_beside_the_model_is_part_of_the_trace(model: nn.Module) -> None:
    loss_fn = nn.CrossEntropyLoss()
    with cutaway.watch(model) as trace:
        loss_fn(model(X), torch.tensor([0, 1, 1])).backward()
    assert trace["<CrossEntropyLoss>"].function == "cross_entropy_loss"
    assert trace["<CrossEntropyLoss>"].parents[0] == trace["2"]


def test_a_tensor_can_be_named(model: nn.Module) -> None:
    with cutaway.watch(model) as trace:
        h = model[1](model[0](X))
        trace.tensor("memory", h)
        model[2](h)
    assert trace["$memory"] == trace["relu_1"]
    with pytest.raises(OpenTraceError, match="only inside"):
        trace.tensor("late", X)


def test_a_named_tensor_can_be_chosen(model: nn.Module) -> None:
    for name in ("memory", "a/b", "a.b/c"):
        with cutaway.watch(model, save=f"${name}") as trace:
            h = model[0](X)
            trace.tensor(name, h)
            model[1](h)
        assert same(trace[f"${name}"].value, h)
        assert len(trace.saved) == 1


def test_a_model_can_run_several_times_in_one_block(model: nn.Module) -> None:
    with cutaway.watch(model) as trace:
        model(X)
        model(X * 2)
    assert [op.site for op in trace if op.function == "relu"] == ["1/relu:1", "1/relu:2"]
    assert len(trace.inputs) == 2


def test_sites_lists_what_can_be_asked_for(model: nn.Module) -> None:
    names = cutaway.sites(model, X)
    trace = cutaway.trace(model, X)
    assert names == trace.sites
    for name in names:
        assert trace[name] is not None


def test_keyword_arguments_named_like_options_go_to_the_model() -> None:
    class Named(nn.Module):
        def forward(self, save: torch.Tensor, seed: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
            return save + seed + model

    assert cutaway.trace(Named(), save=X, seed=X, model=X).input_paths == ("save", "seed", "model")


def test_an_option_of_watch_that_a_model_swallows_is_warned_about() -> None:
    class Any(nn.Module):
        def forward(self, x: torch.Tensor, **options: object) -> torch.Tensor:
            return x * 2

    with pytest.warns(UserWarning, match=r"save= was passed to Any\.forward.*with cutaway\.watch\(model, save=…\)"):
        cutaway.trace(Any(), X, save="0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cutaway.trace(Any(), X, mask=None)


def test_source_lines_lead_to_the_users_code(model: nn.Module) -> None:
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x)  # line of inner
            return nn.functional.softmax(y, dim=-1)  # line of softmax

    trace = cutaway.trace(Mine(), X)
    assert trace["linear_1"].source.text.endswith("# line of inner")
    assert trace["softmax_1"].source.text.endswith("# line of softmax")
    assert trace["linear_1"].stack[0].file.endswith("linear.py")
