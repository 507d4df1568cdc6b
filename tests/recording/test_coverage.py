"""What a run does not show is said once, in the run: models that run unseen, forgotten steps, unregistered layers."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import cutaway
from cutaway.store.runs.run import Run

X, Y = torch.randn(4, 8), torch.tensor([0, 1, 2, 0])


class Net(nn.Module):
    """Returns (logits, loss), as nanoGPT does."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: Any, y: Any) -> Any:
        logits = self.head(self.body(x).tanh())
        return logits, cross_entropy(logits, y)


class AutoEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 3), nn.Linear(3, 8)

    def encode(self, x: Any) -> Any:
        return self.encoder(x)

    def decode(self, z: Any) -> Any:
        return self.decoder(z)


class OwnCall(AutoEncoder):
    """Overrides `__call__`, as the models of gpytorch do."""

    def __call__(self, x: Any) -> Any:
        return self.decode(self.encode(x))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train(path: Path, model: Any, step: Callable[[Any], object], n_steps: int = 2, **options: Any) -> Run:
    """A run of some steps. Checks that every warning stands in the run, and none is about a failure of the recorder."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with cutaway.record(path, model, **{"every": 1, **options}) as run:
            for _ in range(n_steps):
                step(run)
    recorded = cutaway.load(path)
    texts = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    assert [text for text in texts if "recording failed" in text] == []
    assert all(any(text.removeprefix("cutaway: ") in each for each in recorded.problems) for text in texts)
    return recorded


def n_with(run: Run, text: str) -> int:
    return sum(text in problem for problem in run.problems)


# a model that runs unseen


@pytest.mark.parametrize("passed", ["model", "compiled"])
def test_a_compiled_model_with_an_unused_output_is_recorded_and_says_what_is_inside(
    passed: str, tmp_path: Path
) -> None:
    torch._dynamo.reset()
    model = Net()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = sgd(model)

    def step(run: Any) -> None:
        with run.step():
            compiled(X, Y)[1].backward()
            optimizer.step()
            optimizer.zero_grad()

    try:
        run = train(tmp_path / "run", model if passed == "model" else compiled, step)
    finally:
        torch._dynamo.reset()
    assert n_with(run, "2 modules got gradients but have no recorded outputs ('body', 'head'): torch.compile runs") == 1
    assert {".@in.0", ".@out.0", ".@out.1", "body.weight"} <= set(run.sites)
    assert [*run["body.weight"].has] == ["value", "grad", "update"]
    assert [*run[".@out.0"].has] == ["value"]  # the loss does not use the logits


def test_a_model_that_trains_without_being_called_is_a_mistake_of_the_program(tmp_path: Path) -> None:
    model, optimizer = (made := Net()), sgd(made)
    skeleton = copy.deepcopy(model).to("meta")

    def step(run: Any) -> None:
        with run.step():
            torch.func.functional_call(skeleton, dict(model.named_parameters()), (X, Y))[1].backward()
            optimizer.step()
            optimizer.zero_grad()

    run = train(tmp_path / "run", model, step)
    assert n_with(run, "mistake in the program: parameters of the recorded model are trained, but no call") == 1
    assert n_with(run, "was never called") == 0
    assert [*run["head.weight"].has] == ["value", "grad", "update"]


def test_replaced_parameters_and_function_transforms_are_noted(tmp_path: Path) -> None:
    model = Net()
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}

    def loss(weights: Any) -> Any:
        return torch.func.functional_call(model, weights, (X, Y))[1]

    def step(run: Any) -> None:
        with run.step():
            torch.func.grad(loss)(weights)

    run = train(tmp_path / "run", model, step)
    assert n_with(run, "inside a transform of torch.func") == 1
    assert n_with(run, "another tensor in place of 'body.weight' (torch.func.functional_call)") == 1


def test_a_layer_that_is_used_without_its_call_is_noted(tmp_path: Path) -> None:
    class Direct(Net):
        def forward(self, x: Any, y: Any) -> Any:
            return cross_entropy(self.head.forward(self.body(x)), y)

    model = Direct()
    run = train(tmp_path / "run", model, lambda run: _backward(run, lambda: model(X, Y)))
    assert n_with(run, "1 module got gradients but has no recorded outputs ('head'): they were not called") == 1


def test_attention_reads_its_projection_itself(tmp_path: Path) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    run = train(tmp_path / "run", model, lambda run: _backward(run, lambda: model(X[None]).sum()))
    assert run.problems == ()


def _backward(run: Any, loss: Callable[[], Any]) -> None:
    with run.step():
        loss().backward()


# steps


def test_an_optimizer_outside_the_steps_is_a_mistake(tmp_path: Path) -> None:
    model, optimizer = (made := Net()), sgd(made)

    def step(run: Any) -> None:
        _backward(run, lambda: model(X, Y)[1])
        optimizer.step()
        optimizer.zero_grad()

    run = train(tmp_path / "run", model, step, 4, every=2)
    assert n_with(run, "mistake in the program: parameters changed between two steps") == 1
    assert n_with(run, "move optimizer.step() into `with run.step():`") == 1


def test_accumulating_gradients_over_steps_is_no_mistake(tmp_path: Path) -> None:
    model, optimizer = (made := Net()), sgd(made)
    numbers = iter(range(8))

    def step(run: Any) -> None:
        with run.step():
            model(X, Y)[1].backward()
            if next(numbers) % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    assert train(tmp_path / "run", model, step, 8).problems == ()


def test_a_forgotten_step_is_reported_while_the_training_runs(tmp_path: Path) -> None:
    model = nn.Linear(8, 3)
    run = cutaway.record(tmp_path / "run", model)  # without `with`
    for _ in range(300):
        with torch.no_grad():
            model(X)  # an evaluation before the training
    assert run.problems == ()
    with pytest.warns(RuntimeWarning, match="the model was called 300 times, but no step was begun"):
        _call(model, 301)
    assert len(run.problems) == 1
    assert "_compiled_call_impl" not in model.__dict__
    run.close()


@pytest.mark.parametrize("n", [0, 3])
def test_a_forgotten_step_is_reported_when_the_run_is_closed(n: int, tmp_path: Path) -> None:
    model = nn.Linear(8, 3)
    run = cutaway.record(tmp_path / "run", model)  # without `with`
    _call(model, n)
    with pytest.warns(RuntimeWarning, match="no step was recorded because none was begun") as caught:
        run.close()
    assert len(caught) == 1
    assert len(cutaway.load(tmp_path / "run").problems) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_program_that_failed_is_not_said_to_have_forgotten_its_steps(tmp_path: Path) -> None:
    run = cutaway.record(tmp_path / "run", nn.Linear(8, 3))

    def fail() -> None:
        try:
            raise OSError("no data")
        finally:
            run.close()

    with pytest.raises(OSError, match="no data"):
        fail()
    assert cutaway.load(tmp_path / "run").problems == ()


def _call(model: nn.Module, n: int) -> None:
    for _ in range(n):
        model(X)


def test_before_the_first_step_the_model_is_copied_scripted_and_compiled_as_ever(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.ReLU())
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        expected = model(X)
        assert torch.equal(copy.deepcopy(model)(X), expected)
        assert torch.equal(pickle.loads(pickle.dumps(model))(X), expected)
        assert torch.equal(torch.jit.script(model)(X), expected)
        assert torch.equal(torch.fx.symbolic_trace(model)(X), expected)
        assert "_compiled_call_impl" not in copy.deepcopy(model).__dict__
        with run.step():
            model(X)
    assert "_compiled_call_impl" not in model.__dict__


def test_a_step_that_is_called_like_that_of_a_profiler_is_a_mistake(tmp_path: Path) -> None:
    for name, n_steps in (("once", 1), ("often", 3)):
        run = train(tmp_path / name, nn.Linear(8, 3), lambda run: run.step(), n_steps)
        assert len(run.problems) == 1
        assert n_with(run, "It is a context manager, unlike the step() of a profiler") == 1


def test_a_step_inside_a_step_is_a_mistake(tmp_path: Path) -> None:
    def step(run: Any) -> None:
        with run.step(), run.step():
            pass

    run = train(tmp_path / "run", nn.Linear(8, 3), step)
    assert n_with(run, "mistake in the program: a step began inside another step") == 1


# a model that is not called itself


@pytest.mark.parametrize("way", ["forward", "methods", "own call"])
@pytest.mark.parametrize("graph", [True, False])
def test_the_first_module_gives_inputs_and_batch_size(way: str, graph: bool, tmp_path: Path) -> None:
    made = {"forward": Net, "methods": AutoEncoder, "own call": OwnCall}
    model: Any = made[way]()
    loss: dict[str, Callable[[], Any]] = {
        "forward": lambda: model.forward(X, Y)[1],
        "methods": lambda: model.decode(model.encode(X)).sum(),
        "own call": lambda: model(X).sum(),
    }
    run = train(tmp_path / "run", model, lambda run: _backward(run, loss[way]), samples=1, graph=graph)
    first = "body" if way == "forward" else "encoder"
    assert n_with(run, "the model was not called itself, but through its methods") == 1
    assert n_with(run, f"the inputs of {first!r}, its first module that ran") == 1
    step = run.at(1)
    assert step.about["batch_size"] == 4
    assert step[f"{first}@in.0"].role == "input"
    assert step[f"{first}@in.0"].value.tolist() == X[:1].tolist()
    assert all(step[site].value.shape[0] == 1 for site in run.sites if step[site].role == "value")


def test_layers_in_a_plain_list_are_a_mistake_and_a_hidden_teacher_is_not(tmp_path: Path) -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(8, 3)]
            self.teacher = (nn.Linear(8, 3).requires_grad_(False),)

        def forward(self, x: Any) -> Any:
            return self.layers[0](x)

    model = Listed()
    run = train(tmp_path / "run", model, lambda run: _backward(run, lambda: model(X).sum()))
    assert n_with(run, "mistake in the program: Listed.layers: these layers are in a plain Python list") == 1
    assert n_with(run, "Use nn.ModuleList") == 1


# samples of sequence-first models


class Tagger(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(9, 8), nn.LSTM(8, 6, **options), nn.Linear(6, 3)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.rnn(self.embed(tokens))[0])


def tag(path: Path, n_labels: int, batch_first: bool = False, **options: Any) -> Run:
    model = Tagger(batch_first=batch_first)
    tokens = torch.randint(9, (4, 12) if batch_first else (12, 4))

    def step(run: Any) -> None:
        with run.step():
            run.samples(label=list(range(n_labels)))
            model(tokens).sum().backward()

    return train(path, model, step, samples=2, **options)


def test_the_graph_of_a_sequence_first_model_tells_samples_from_time_steps(tmp_path: Path) -> None:
    run = tag(tmp_path / "run", 4)
    assert run.problems == ()
    step = run.at(1)
    assert step.about["batch_size"] == 4
    assert [step[site].value.shape for site in (".@in.0", "rnn@out.0", "rnn@out.1.0", "head")] == [
        (12, 2), (12, 2, 6), (1, 2, 6), (12, 2, 3)
    ]  # fmt: skip
    assert step.samples.label.tolist() == [0, 1]


def test_labels_of_time_steps_are_a_mistake(tmp_path: Path) -> None:
    run = tag(tmp_path / "run", 12)
    assert n_with(run, "mistake in the program: run.samples(label=) has 12 entries, but the batch has 4 samples") == 1
    assert run.at(1).samples.label is None


def test_without_a_graph_only_what_a_layer_states_is_taken_for_samples(tmp_path: Path) -> None:
    run = tag(tmp_path / "run", 4, graph=False)
    assert n_with(run, "Its layer 'rnn' takes time steps before samples (batch_first=False)") == 1
    assert n_with(run, "dimension 0") == 0
    step = run.at(1)
    assert step["rnn@out.0"].value.shape == (12, 2, 6)
    assert step["head"].value.shape == (12, 4, 3)  # unknown, so whole
    stated = tag(tmp_path / "stated", 4, graph=False, batch_dim=1).at(1)
    assert [stated[site].value.shape for site in (".@in.0", "rnn@out.0", "rnn@out.1.0", "head")] == [
        (12, 2), (12, 2, 6), (1, 2, 6), (12, 2, 3)
    ]  # fmt: skip
    first = tag(tmp_path / "first", 4, batch_first=True, graph=False).at(1)
    assert [first[site].value.shape for site in (".@in.0", "rnn@out.0", "rnn@out.1.0", "head")] == [
        (2, 12), (2, 12, 6), (1, 2, 6), (2, 12, 3)
    ]  # fmt: skip
