"""What is chosen by `at=`, which names and roles tensors get, and when steps are traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.recording.hooks.op_values import TracedStep
from cutaway.store.runs.run import Run


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.criterion = nn.MSELoss()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).tanh())


def recorded(path: Path, step: Any, **settings: Any) -> Run:
    model = Twice()
    with cutaway.record(path, model, **{"every": 1, "samples": 2, **settings}) as run:
        for _ in range(2):
            with run.step():
                step(model, run)
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found


def forward(model: nn.Module, run: Any) -> None:
    model(torch.ones(2, 4)).sum().backward()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("at", "sites"),
    [
        ("layer:2", {"layer:2"}),
        ("layer", {"layer:1", "layer:2"}),
        (["layer@in.0", "*.weight"], {"layer@in.0:1", "layer@in.0:2", "layer.weight"}),
        (".", {"."}),
        ("**/tanh", {"./tanh"}),
    ],
)
def test_sites_and_passes_choose(at: Any, sites: set[str], tmp_path: Path) -> None:
    assert {row.site for row in recorded(tmp_path / "run", forward, at=at).rows if row.of == "value"} == sites


def test_a_pattern_that_fits_nothing_is_said_once(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="at='layr' matches no site.*Nearest: 'layer'") as said:
        recorded(tmp_path / "run", forward, at=["layr", "layer"])
    assert len([one for one in said if "layr" in str(one.message)]) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_role_or_a_node_that_is_said_later_counts(tmp_path: Path) -> None:
    def step(model: Any, run: Any) -> None:
        x = torch.ones(2, 4)
        result = model(x)
        loss = model.criterion(result, x)
        run.log(loss=loss)
        run.tensor("aim", x, role="target")
        run.tensor("tokens", result, node="stream", part="tokens")
        run.tensor("heads", result * 2, node="stream", part="heads")
        loss.backward()

    found = recorded(tmp_path / "run", step)
    now = found.at(1)
    assert now["criterion"].role == now["$loss"].role == "loss"
    assert now["$aim"].site == ".@in.0"
    assert now["$tokens"].stats == now["layer:2"].stats
    rows = {row.site: row for row in found.rows if row.of == "value"}
    assert (rows["layer:2"].node, rows["layer:2"].part) == ("stream", "tokens")
    assert (rows["$heads"].node, rows["$heads"].part) == ("stream", "heads")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_tensor_that_stays_the_same_is_there_in_every_iteration(tmp_path: Path) -> None:
    def step(model: Any, run: Any) -> None:
        memory = torch.ones(2, 4)
        for _ in range(3):
            with run.iteration():
                run.tensor("memory", memory)

    found = recorded(tmp_path / "run", step)
    for number in (1, 2, 3):
        assert np.array_equal(found.at(0)["$memory"].other("value", iteration=number).value, np.ones((2, 4)))


def test_what_is_no_tensor_is_said(tmp_path: Path) -> None:
    def step(model: Any, run: Any) -> None:
        run.tensor("none", None)
        run.tensor("fine", torch.ones(2))
        run.tensor("odd", torch.ones(2), role="targets")

    with pytest.warns(RuntimeWarning) as said:
        found = recorded(tmp_path / "run", step)
    texts = [str(one.message) for one in said if one.category is RuntimeWarning]
    assert len(texts) == 2
    assert "run.tensor('none') got None" in texts[0]
    assert "role='targets'): pass one of input, target" in texts[1]
    assert "$fine" in found.sites


def test_a_wrong_link_is_said_and_the_graph_is_there(tmp_path: Path) -> None:
    def step(model: Any, run: Any) -> None:
        run.link("nowhere", "layer:1")
        model(torch.ones(2, 4))

    with pytest.warns(RuntimeWarning, match="'nowhere' is not recorded"):
        found = recorded(tmp_path / "run", step)
    assert any(name.startswith("structure/") for name in found.documents)
    assert found.at(0).about["structure"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("is_kept", [True, False])
def test_steps_whose_kind_shows_late_are_seldom_traced(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_traced = 0
    original = TracedStep.start

    def start(self: TracedStep) -> None:
        nonlocal n_traced
        n_traced += 1
        original(self)

    monkeypatch.setattr(TracedStep, "start", start)
    model = Twice()
    with cutaway.record(tmp_path / "run", model, every={"kept": 1}) as run:
        for number in range(40):
            with run.step(kind=None) as step:
                model(torch.ones(2, 4))
                step.kind = "kept" if is_kept or number == 32 else "dropped"
    found = cutaway.load(tmp_path / "run")
    assert n_traced == (1 if is_kept else 6)
    assert len(found) == (40 if is_kept else 1)
    if is_kept:
        assert found.at(39).about["structure"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_names_that_are_no_texts_and_numbers_of_other_types(tmp_path: Path) -> None:
    model = Twice()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step(kind=3, number=np.int64(5)):  # type: ignore[arg-type]
            run.tensor(7, torch.ones(2))  # type: ignore[arg-type]
            run.log({8: 1.0})  # type: ignore[dict-item]
            run.note(9)  # type: ignore[arg-type]
    found = cutaway.load(tmp_path / "run")
    assert (found.steps.tolist(), found.kinds, found.sites[0]) == ([5], ("3",), "$7")
    assert found.scalars["8"].values.tolist() == [1.0]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_fake_tensors_and_transforms_inside_a_step(tmp_path: Path) -> None:
    from torch._subclasses import FakeTensorMode
    from torch.func import functional_call, grad, vmap

    def step(model: Any, run: Any) -> None:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model(torch.ones(2, 4))
        parameters = dict(model.named_parameters())
        sums = grad(lambda given, x: functional_call(model, given, (x,)).sum())
        vmap(sums, (None, 0))(parameters, torch.randn(3, 1, 4))
        run.tensor("after", torch.ones(2))

    found = recorded(tmp_path / "run", step)
    assert len(found) == 2
    assert "$after" in found.sites
    (note,) = found.notes
    assert "inside a transform of torch.func" in note.text


def test_ops_are_recorded_in_a_program_that_has_compiled_something_else(tmp_path: Path) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    found = recorded(tmp_path / "run", forward, at=["layer", "./tanh"])
    assert {row.site for row in found.rows if row.of == "value"} == {"layer:1", "layer:2", "./tanh"}
    graph = next(content for name, content in found.documents.items() if name.startswith("structure/"))
    pairs = {(link["parent"], link["child"]) for link in graph["links"]}
    assert pairs == {("layer:1", "./tanh"), ("./tanh", "layer:2")}
