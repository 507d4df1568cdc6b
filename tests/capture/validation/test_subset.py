"""Validation of a trace with few saved values: a second trace with all of them proves what was saved."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway


def model_and_input() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(6), nn.Linear(6, 2))
    return model, torch.randn(5, 4)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_what_was_saved_is_proven_by_a_second_run_that_leaves_no_trace() -> None:
    model, x = model_and_input()
    with cutaway.watch(model, save=["1"]) as trace:
        model(x)
    before, rng = state_of(model), torch.get_rng_state()
    report = trace.validate()
    assert report
    # Independent: a trace of the same model with everything saved has so many ops.
    assert report.coverage.proven == len(cutaway.trace(model_and_input()[0], x)) == len(trace)
    assert f"1 of {len(trace)} values were saved" in " ".join(report.notes)
    assert report.outputs_compared == 1
    assert torch.equal(torch.get_rng_state(), rng)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_nothing_saved_is_proven_as_well() -> None:
    model, x = model_and_input()
    with cutaway.watch(model, save=None) as trace:
        model(x)
    assert trace.validate().coverage.proven == len(trace)


def test_a_wrong_value_is_found() -> None:
    model, x = model_and_input()
    with cutaway.watch(model, save="1/relu", keep="copy") as trace:
        model(x)
    trace["relu_1"].value.add_(1)
    trace.tables.nodes.version[trace["relu_1"].node] = None
    assert [failure.op for failure in trace.validate().failures] == ["relu_1_2"]


def test_a_model_that_cannot_run_again_is_noted_and_the_rest_is_checked() -> None:
    model, x = model_and_input()
    with cutaway.watch(model, save=["0/linear", "1/relu"], keep="copy") as trace:
        model(x)
    del model
    report = trace.validate()
    assert report.outcomes["relu_1_2"] == "exact"
    assert "not all values were saved, and the model cannot be traced again: the model no longer exists" in report.notes


def test_a_model_that_raises_on_a_later_run_is_noted() -> None:
    runs = []

    class Once(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            runs.append(1)
            if len(runs) > 1:
                raise RuntimeError("only once")
            return x.relu().exp()

    model = Once()
    with cutaway.watch(model, save="./exp") as trace:
        model(torch.ones(2))
    report = trace.validate()
    assert not report.failures
    assert any("only once" in note for note in report.notes)


def test_it_can_be_refused() -> None:
    runs: list[int] = []

    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            runs.append(1)
            return x.relu().exp()

    model = Counts()
    with cutaway.watch(model, save="./exp") as trace:
        model(torch.ones(2))
    trace.validate(forward=False)
    assert len(runs) == 1
    report = trace.validate(retrace=False)
    assert len(runs) == 2  # the untraced run that outputs are compared with
    assert report.coverage.not_saved == 2
    assert "trace.validate(retrace=True)" in report.notes[-1]


def test_a_buffer_that_the_run_wrote_to_must_have_been_saved() -> None:
    """Without the running statistics from before the run, the same run cannot be made again."""
    model, x = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), torch.randn(5, 4)
    with cutaway.watch(model, save=["0"]) as trace:
        model(x)
    assert any("the run changed '1.running_mean'" in note for note in trace.validate().notes)
    with cutaway.watch(model, save=["0", *(name for name, _ in model.named_buffers())]) as trace:
        model(x)
    assert trace.validate().coverage.proven == len(trace)
