"""What a recorder records, against plain torch; each numbered defect of its predecessor is a test here."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cutaway
from cutaway.core.errors import ExistsError, InputError, NotSavedError, SiteError
from cutaway.store.runs.run import Run

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def train(run: Any, model: nn.Module, n_steps: int = 3, n: int = 5) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    for _ in range(n_steps):
        with run.step():
            loss = model(torch.randn(n, 4)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)


def recorded(path: Path, model: nn.Module, n_steps: int = 3, **settings: Any) -> Run:
    with cutaway.record(path, model, **{"every": 1, "samples": 2, **settings}) as run:
        train(run, model, n_steps)
    found = cutaway.load(path)
    assert isinstance(found, Run)
    assert not found.damage
    assert [note.text for note in found.notes if note.level == "error"] == []
    return found


def test_module_results_parameters_gradients_and_updates_equal_plain_torch(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", mlp(), 1)
    model = mlp()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    x = torch.randn(5, 4)
    values = [x]
    for layer in model:
        values.append(layer(values[-1]))
        values[-1].retain_grad()
    loss = values[-1].pow(2).mean()
    loss.backward()
    optimizer.step()
    step = run.at(0)
    for site, value in zip((".@in.0", "0", "1", "2"), values, strict=True):
        assert np.array_equal(step[site].value, value.detach()[:2].numpy())
        close(step[site].stats, value)
        if value.grad is not None:
            assert np.array_equal(step[site].grad.value, value.grad[:2].numpy())
            close(step[site].grad.stats, value.grad)
    for name, parameter in model.named_parameters():
        close(step[name].stats, before[name])
        close(step[name].grad.stats, parameter.grad)
        close(step[name].update.stats, parameter.detach() - before[name])
        assert step[name].role == "parameter"
        assert not step[name].has_value
    assert step["$loss"].role == "loss"
    assert step["$loss"].stats["mean"] == pytest.approx(loss.item())
    assert step[".@in.0"].role == "input"
    assert step["."].site == "2"  # the very same tensor: kept once, under both names
    assert step.about["batch_size"] == 5


def raise_inside(model: nn.Module, error: BaseException) -> None:
    model(torch.randn(2, 4))
    raise error


def close(stats: Any, tensor: Tensor) -> None:
    exact = tensor.detach().double().numpy()
    assert stats["count"] == exact.size
    assert stats["mean"] == pytest.approx(exact.mean(), rel=1e-4, abs=1e-6)
    assert stats["std"] == pytest.approx(exact.std(), rel=1e-4, abs=1e-6)
    assert stats["abs_mean"] == pytest.approx(np.abs(exact).mean(), rel=1e-4, abs=1e-6)
    assert stats["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-4, abs=1e-6)
    assert (stats["min"], stats["max"]) == (np.float32(exact.min()), np.float32(exact.max()))


def test_scalars_are_kept_at_every_step(tmp_path: Path) -> None:  # 29
    run = recorded(tmp_path / "run", mlp(), 20, every=10)
    assert run.steps.tolist() == [0, 10]
    assert run.scalars["loss"].steps.tolist() == list(range(20))


def test_frozen_parameters_stay_frozen_and_do_not_move(tmp_path: Path) -> None:  # 1
    model = mlp()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    run = recorded(tmp_path / "run", model, 5)
    assert not model[0].weight.requires_grad
    assert torch.equal(model[0].weight, before)
    assert run.at(0)["0.weight"].grad is None
    assert run.at(0)["0.weight"].update is None or run.at(0)["0.weight"].update.stats["norm"] == 0


def test_with_recording_off_nothing_is_written_and_nothing_changed(tmp_path: Path) -> None:  # 2
    x = torch.ones(2, 4)
    with cutaway.record(tmp_path / "run", mlp(), enabled=False) as run:
        with run.step():
            run.tensor("x", x)
            run.samples(text=["a", "b"])
            run.log(loss=1.0)
            run.note("hello")
            assert not run.recording
            with run.iteration(), run.gradients("loss"):
                pass
        run.link("a", "b")
        run.arrange("a", hidden=True)
    assert not (tmp_path / "run").exists()
    assert not x.requires_grad


def test_the_gradient_of_a_persistent_input_does_not_grow(tmp_path: Path) -> None:  # 3
    model = mlp()
    x = torch.ones(2, 4, requires_grad=True)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for _ in range(3):
            with run.step():
                model(x).sum().backward()
                x.grad = None
    grads = cutaway.load(tmp_path / "run")[".@in.0"].grad.stats("norm")
    assert grads[0] == grads[1] == grads[2] > 0
    assert x.requires_grad
    assert not (x._backward_hooks)
    assert not (())


def test_an_in_place_op_afterwards_does_not_alter_what_was_recorded(tmp_path: Path) -> None:  # 4
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True))
    with cutaway.record(tmp_path / "run", model, every=1, samples=8) as run:
        x = torch.randn(3, 4)
        with run.step():
            model(x).mul_(100)
    step = cutaway.load(tmp_path / "run").at(0)
    exact = nn.functional.linear(x, model[0].weight, model[0].bias).detach()
    assert np.allclose(step["0"].value, exact.numpy())
    assert np.allclose(step["1"].value, exact.relu().numpy())
    close(step["0"].stats, exact)
    close(step["1"].stats, exact.relu())


def test_no_gradient_is_not_zero(tmp_path: Path) -> None:  # 5
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.zero = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x) + 0 * self.zero(x)

    run = recorded(tmp_path / "run", Unused(), 1)
    step = run.at(0)
    assert step["unused.weight"].grad is None
    assert step["zero.weight"].grad.stats["norm"] == 0
    assert step["used.weight"].grad.stats["norm"] > 0


def test_a_batch_of_one_has_no_nan_in_its_spread(tmp_path: Path) -> None:  # 6
    with cutaway.record(tmp_path / "run", mlp(), every=1, statistics="full") as run:
        with run.step():
            run_model = run._cycle.models.root
            run_model(torch.randn(1, 4))
    step = cutaway.load(tmp_path / "run").at(0)
    assert np.isfinite(step["0"].stats["std"])
    assert np.isfinite(step["0"].other("samples").value).all()


def test_tied_weights_keep_all_their_names(tmp_path: Path) -> None:  # 7
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    run = recorded(tmp_path / "run", model, 1)
    assert run["0.weight"].site == run["1.weight"].site
    assert run["1.weight"].grad.stats("norm")[0] > 0


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 2, 3, 4, 5), (2,), (), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_any_shape_and_dtype_can_be_recorded(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    # 8, 9
    tensor = torch.randint(0, 2, shape).to(dtype)
    for level in ("core", "full"):
        with cutaway.record(tmp_path / level, mlp(), every=1, samples=2, statistics=level) as run:
            with run.step(batch_size=2):
                run.tensor("t", tensor)
        found = cutaway.load(tmp_path / level)
        assert all("the unit dimension of '$t' is unknown" in note.text for note in found.notes)
        assert len(found.notes) <= (level == "full")
        kept = found.at(0)["$t"]
        assert kept.dtype == str(dtype).removeprefix("torch.")
        assert kept.stats["count"] == tensor.numel()
        as_numpy = tensor.float() if dtype is torch.bfloat16 else tensor
        assert np.array_equal(kept.value, as_numpy.numpy())


def test_no_grad_eval_and_inference_mode_are_recorded(tmp_path: Path) -> None:  # 10
    model = mlp().eval()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for context in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
            with run.step(kind="eval"), context:
                model(torch.randn(2, 4))
    found = cutaway.load(tmp_path / "run")
    assert len(found["0"].stats("std")) == 3
    assert not [note for note in found.notes if note.level == "error"]


def test_a_module_used_twice_gets_numbered_calls(tmp_path: Path) -> None:  # 11
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x).tanh())

    run = recorded(tmp_path / "run", Twice(), 1)
    assert ("layer" in run.sites, "layer:1" in run, "layer:2" in run, "layer:3" in run) == (True, True, True, False)
    assert run["layer"].passes.tolist() == [[(0, 1), (0, 2)]]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_modules_are_recorded_once_and_with_gradients(reentrant: bool, tmp_path: Path) -> None:  # 11
    class Checkpointed(nn.Module):
        def __init__(self, use: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.inner, self.use = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), use

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return checkpoint(self.inner, x, use_reentrant=reentrant) if self.use else self.inner(x)

    run = recorded(tmp_path / "a", Checkpointed(True), 1)
    plain = recorded(tmp_path / "b", Checkpointed(False), 1)
    assert set(run.sites) == set(plain.sites)
    for site in ("first", "inner.0", "inner.1", "inner.0.weight"):
        assert run[site].stats("norm") == pytest.approx(plain[site].stats("norm"), rel=1e-6)
        assert run[site].grad.stats("norm") == pytest.approx(plain[site].grad.stats("norm"), rel=1e-6)


def test_gradient_accumulation_records_what_the_optimizer_reads(tmp_path: Path) -> None:  # 12
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 4)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step():
            for part in x.split(2):
                (model(part).pow(2).sum() / 6).backward()
            whole = [p.grad.clone() for p in model.parameters()]
            optimizer.step()
            optimizer.zero_grad()
    step = cutaway.load(tmp_path / "run").at(0)
    for (name, _), grad in zip(model.named_parameters(), whole, strict=True):
        close(step[name].grad.stats, grad)
    assert step["0:1"].grad is not None
    assert step["0:3"].grad is not None


def test_gradients_are_those_after_clipping_and_unscaling(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step():
            scaler.scale(model(torch.randn(3, 4)).pow(2).mean() * 100).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    step = cutaway.load(tmp_path / "run").at(0)
    total = sum(step[name].grad.stats["norm"] ** 2 for name, _ in model.named_parameters()) ** 0.5
    assert total == pytest.approx(0.5, rel=1e-3)


def test_leaves_and_modules_that_nobody_announced_are_no_error(tmp_path: Path) -> None:  # 13
    model, stranger = mlp(), nn.Linear(3, 3)
    leaf = torch.ones(3, requires_grad=True)
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step():
            (stranger(model(torch.randn(2, 4))) * leaf).sum().backward()
    assert "2" in cutaway.load(tmp_path / "run").sites


def test_a_thousand_unnamed_ops_in_a_row(tmp_path: Path) -> None:  # 14
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with run.step():
            value = model(torch.randn(2, 4))
            for _ in range(1200):
                value = value + 0.001
            run.tensor("end", value)
            value.sum().backward()
    found = cutaway.load(tmp_path / "run")
    graph = next(content for name, content in found.documents.items() if name.startswith("structure/"))
    assert {"parent": "2", "child": "$end", "carries_gradient": True, "is_manual": False} in graph["links"]


def test_an_exception_in_a_step_leaves_the_recorder_usable(tmp_path: Path) -> None:  # 15
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        for error in (ValueError("mine"), KeyboardInterrupt()):
            step = run.step()
            with pytest.raises(type(error)), step:
                raise_inside(model, error)
            assert not run.recording
        train(run, model, 2)
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0, 1, 2, 3]
    assert found.at(0).about["error"] == "ValueError: mine"
    assert found.at(1)["0"].stats["std"] > 0
    assert "2.weight" in found.at(3)


def test_a_failure_of_ours_never_stops_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.recording.statistics.summary import Summary

    def broken(self: Summary, tensor: Tensor, **kwargs: Any) -> int:
        raise RuntimeError("broken on purpose")

    model, alone = mlp(), mlp()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with cutaway.record(tmp_path / "run", model, every=1) as run:
            train(run, model, 1)
            with monkeypatch.context() as patch:
                patch.setattr(Summary, "add", broken)
                train(run, model, 2)
            train(run, model, 1)
    for _ in (1, 2, 1):
        pass
    off = cutaway.record(tmp_path / "off", alone, enabled=False)
    train(off, alone, 1), train(off, alone, 2), train(off, alone, 1)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), alone.parameters(), strict=True))
    mine = [str(one.message) for one in said if "broken on purpose" in str(one.message)]
    assert len(mine) == 1
    assert "training continues" in mine[0]
    found = cutaway.load(tmp_path / "run")
    assert any("broken on purpose" in note.text for note in found.notes)
    assert {0, 3} <= set(found.steps.tolist())


def test_an_existing_run_is_never_deleted_and_resume_appends(tmp_path: Path) -> None:  # 17
    model = mlp()
    recorded(tmp_path / "run", model, 3)
    with pytest.raises(ExistsError, match="resume=True"):
        cutaway.record(tmp_path / "run", model, resume="never")
    found = recorded(tmp_path / "run", model, 3, resume=True)
    assert found.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert len(found.sessions) == 2


def test_steps_that_are_run_again_shadow_the_earlier_ones(tmp_path: Path) -> None:
    model = mlp()
    recorded(tmp_path / "run", model, 6)
    with cutaway.record(tmp_path / "run", model, every=1, resume=True) as run:
        with run.step(number=3):
            model(torch.zeros(2, 4))
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0, 1, 2, 3]
    assert found.at(3)[".@in.0"].stats["norm"] == 0
    assert found.session(1).steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_kinds_have_their_own_schedule(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every={"rare": 1, "*": 10}) as run:
        for number in range(40):
            with run.step(kind="rare" if number == 17 else "usual"):
                model(torch.randn(2, 4))
    found = cutaway.load(tmp_path / "run")
    assert found.steps_of("rare").tolist() == [17]
    assert found.steps_of("usual").tolist() == [0, 10, 21, 31]


def test_a_step_can_be_kept_or_dropped_when_its_kind_is_known(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every={"hard": 1}) as run:
        for number in range(6):
            with run.step(kind=None) as step:
                model(torch.randn(2, 4))
                if number % 3 == 0:
                    step.kind = "hard"
                if number == 3:
                    step.discard()
    found = cutaway.load(tmp_path / "run")
    assert found.steps.tolist() == [0]
    assert found.kinds == ("hard",)


def test_the_program_can_ask_whether_it_is_being_recorded(tmp_path: Path) -> None:
    model, told = mlp(), []
    with cutaway.record(tmp_path / "run", model, every=2) as run:
        for _ in range(4):
            with run.step():
                told.append(run.recording)
            assert not run.recording
    assert told == [True, False, True, False]


def test_iterations_are_kept_apart(tmp_path: Path) -> None:
    cell = nn.RNNCell(4, 4)
    with cutaway.record(tmp_path / "run", cell, every=1, samples=1) as run:
        hidden = torch.zeros(2, 4)
        states = []
        with run.step():
            for _ in range(3):
                with run.iteration():
                    hidden = cell(torch.ones(2, 4), hidden)
                    run.tensor("memory", hidden)
                    states.append(hidden.detach())
            hidden.sum().backward()
    found = cutaway.load(tmp_path / "run")
    for number, state in enumerate(states, 1):
        moment = found.at(0)["."].other("value", iteration=number)
        assert np.array_equal(moment.value, state[:1].numpy())
        assert moment.other("grad") is not None
    assert found["$memory"].site == found["."].site
    graph = next(content for name, content in found.documents.items() if name.startswith("structure/"))
    pairs = {(link["parent"], link["child"]) for link in graph["links"]}
    assert (".~1", ".~2") in pairs
    assert (".~2", ".~3") in pairs
    assert (".~1", ".~3") not in pairs


def test_gradients_of_several_losses_are_kept_apart(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        x = torch.randn(3, 4)
        with run.step():
            result = model(x)
            with run.gradients("size"):
                result.pow(2).sum().backward(retain_graph=True)
            size = model[0].weight.grad.clone()
            with run.gradients("sum"):
                result.sum().backward()
            both = model[0].weight.grad.clone()
    step = cutaway.load(tmp_path / "run").at(0)
    close(step["0.weight"].other("grad/size").stats, size)
    close(step["0.weight"].other("grad/sum").stats, both - size)
    close(step["0.weight"].grad.stats, both)
    close(step["2"].other("grad/sum").stats, torch.ones(3, 3))
    close(step["2"].other("grad/size").stats, 2 * result.detach())


def test_samples_can_be_found_by_what_they_are(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1, samples=[0, 2]) as run:
        with run.step():
            model(torch.randn(3, 4))
            run.samples(
                ids=[10, 11, 12], text=["a cat", "a dog", "Żółw"], tokens=[["a", " cat"], ["a"], []],
                label=torch.tensor([0, 1, 2]), image=torch.rand(3, 1, 2, 2),
            )  # fmt: skip
    samples = cutaway.load(tmp_path / "run").at(0).samples
    assert samples.ids.tolist() == [10, 12]
    assert samples.text == ["a cat", "Żółw"]
    assert samples.tokens == [["a", " cat"], []]
    assert samples.image.shape == (2, 1, 2, 2)
    assert samples.find("żółw") == [1]


def test_several_models_and_optimizers_in_one_run(tmp_path: Path) -> None:
    generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.SGD(critic.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", {"G": generator, "D": critic}, every=1) as run:
        for _ in range(2):
            with run.step():
                fake = generator(torch.randn(3, 2))
                critic(fake.detach()).mean().backward()
                second.step()
                second.zero_grad()
                (-critic(fake).mean()).backward()
                first.step()
                first.zero_grad()
                second.zero_grad()
    found = cutaway.load(tmp_path / "run")
    assert not [note.text for note in found.notes]
    assert {"G", "D", "G.weight", "D.bias"} <= set(found.sites)
    assert found["D"].n_passes == 2
    assert found["G.weight"].update.stats("norm")[0] > 0
    assert found["D.weight"].grad.stats("norm")[0] > 0


def test_sites_choose_what_is_recorded_ops_too(tmp_path: Path) -> None:
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    with cutaway.record(
        tmp_path / "run", encoder, every=1, at=["linear1", "linear1.weight", "./relu"], samples=1
    ) as run:
        x = torch.randn(2, 3, 8)
        with run.step():
            encoder(x).sum().backward()
    found = cutaway.load(tmp_path / "run")
    assert [note.text for note in found.notes] == []
    assert set(found.sites) == {"linear1", "linear1.weight", "./relu"}
    step = found.at(0)
    assert np.array_equal(step["./relu"].value, np.maximum(step["linear1"].value, 0))
    assert step["./relu"].grad.stats["norm"] > 0


def test_compiled_models_are_recorded_as_they_run(tmp_path: Path) -> None:
    compilations = []

    def backend(graph: Any, example: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
    with cutaway.record(tmp_path / "run", compiled, every=1, samples=1) as run:
        for _ in range(3):
            with run.step():
                x = torch.randn(2, 4)
                result = compiled(x)
                result.sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    assert len(compilations) == 1
    compiled(x)
    assert len(compilations) == 1
    found = cutaway.load(tmp_path / "run")
    note, unseen = found.notes
    assert "the dependency graph comes from autograd" in note.text
    assert "dimension 0" in note.text
    assert "1 module got gradients but has no recorded outputs ('0'): torch.compile runs" in unseen.text
    assert np.array_equal(found.at(2)["."].value, result.detach()[:1].numpy())
    assert found["0.weight"].grad.stats("norm").shape == (3,)
    graph = next(content for name, content in found.documents.items() if name.startswith("structure/"))
    pairs = {(link["parent"], link["child"]) for link in graph["links"]}
    assert {(".@in.0", "."), ("0.weight", "."), ("0.bias", ".")} <= pairs


def test_notes_configuration_modules_and_environment_stand_beside(tmp_path: Path) -> None:
    model = mlp()
    model[0].weight.requires_grad_(False)
    with cutaway.record(tmp_path / "run", model, every=1, config={"lr": 0.1, "model": model[1]}) as run:
        with run.step(number=7):
            model(torch.randn(2, 4))
            run.note("warming up")
    found = cutaway.load(tmp_path / "run")
    assert found.config == {"lr": 0.1, "model": "ReLU()"}
    assert found.environment["torch"] == torch.__version__
    assert [(note.text, note.step) for note in found.notes] == [("warming up", 7)]
    tree = found.documents["modules"]
    assert tree["address"] == [".", "0", "1", "2"]
    assert tree["parameters"] == [0, 40, 0, 27]
    assert tree["trainable"] == [0, 8, 0, 27]


def test_wrong_settings_say_what_works(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="statistics='all': pass 'core' or 'full'"):
        cutaway.record(tmp_path / "run", mlp(), statistics="all")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample'"):
        cutaway.record(tmp_path / "run", mlp(), sample=3)
    assert not (tmp_path / "run").exists()


def test_wrong_calls_inside_a_run_warn_and_go_on(tmp_path: Path) -> None:
    model = mlp()
    with cutaway.record(tmp_path / "run", model, every=1) as run:
        with pytest.warns(RuntimeWarning, match="a step began inside another"):
            with run.step(), run.step():
                model(torch.randn(2, 4))
        with pytest.warns(RuntimeWarning, match="log one number"):
            run.log(loss=torch.ones(3))
        other = cutaway.record(tmp_path / "other", model, every=1, samples=1)
        with pytest.warns(RuntimeWarning, match="one entry"):
            with other.step():
                other.samples(text=["a", "b"], label=[1, 2, 3][:0])
        other.close()
        with pytest.warns(RuntimeWarning, match="step numbers must increase"):
            with run.step(number=0):
                pass
    assert len(cutaway.load(tmp_path / "run")) == 2


def test_of_images_the_channels_are_the_units(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    x = torch.randn(5, 3, 6, 6)
    with cutaway.record(tmp_path / "run", model, every=1, statistics="full") as run:
        with run.step():
            model(x).sum().backward()
    step = cutaway.load(tmp_path / "run").at(0)
    value = model[0](x).detach().double().numpy()
    unit = step["0"].other("unit").value
    assert unit.shape == (5, 4)
    assert np.allclose(unit[0], value.mean((0, 2, 3)), atol=1e-5)
    assert np.allclose(unit[1], value.std((0, 2, 3)), atol=1e-5)
    assert step["2"].other("unit").value.shape == (5, 4)
    assert step["4"].other("unit").value.shape == (5, 2)
    assert step["0"].other("unit/grad").value.shape == (5, 4)
    assert step["0"].other("samples").value.shape == (4, 5)


def test_the_update_ratio_is_that_of_the_norms(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", mlp(), 4)
    weight = run["0.weight"]
    ratio = weight.update_ratio()
    assert ratio.steps.tolist() == [0, 1, 2, 3]
    assert np.allclose(ratio.values, weight.update.stats("norm") / weight.stats("norm"))
    with pytest.raises(SiteError, match="has no 'update'"):
        run["0"].update_ratio()


def test_who_forgets_the_steps_is_told(tmp_path: Path) -> None:
    model = mlp()
    with pytest.warns(RuntimeWarning, match="none was begun.*with run.step"):
        with cutaway.record(tmp_path / "run", model) as run:
            run.log(loss=model(torch.ones(2, 4)).sum())
    assert any("none was begun" in note.text for note in cutaway.load(tmp_path / "run").notes)


def test_who_asks_for_the_value_of_a_parameter_is_told_how(tmp_path: Path) -> None:
    step = recorded(tmp_path / "run", mlp(), 1).at(0)
    with pytest.raises(NotSavedError, match=r"step 0 recorded only statistics of .*run\.tensor\(name, tensor\)"):
        _ = step["0.weight"].value
