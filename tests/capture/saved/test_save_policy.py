"""Which values are saved, where, and in what form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.oracles import same
from tests.zoo import ZOO, Fn
from torch import Tensor, nn

import cutaway
from cutaway.capture.saved import memory_guard
from cutaway.core.errors import InputError, InputTypeError, MemoryLimitError, NotSavedError, SiteError


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 2)
    )


X = torch.linspace(-1, 1, 12).view(3, 4)


def saved(model: nn.Module, save: object, **options: object) -> list[str]:
    with cutaway.watch(model, save=save, **options) as trace:
        model(X)
    return [op.label for op in trace.saved]


@pytest.mark.parametrize(
    ("save", "expected"),
    [
        ("**", ["linear_1_1", "relu_1_2", "linear_2_3", "relu_2_4", "linear_3_5"]),
        (None, []),
        ("0", ["relu_1_2"]),
        ("*", ["relu_1_2", "relu_2_4", "linear_3_5"]),
        ("*.0", ["linear_1_1", "linear_2_3"]),
        ("0.**", ["linear_1_1", "relu_1_2"]),
        ("**/relu", ["relu_1_2", "relu_2_4"]),
        ("1@in", ["relu_1_2"]),
        (".", ["linear_3_5"]),
        (["0.0/linear", "relu_2"], ["linear_1_1", "relu_2_4"]),
        ("relu_2_4", ["relu_2_4"]),
        (lambda op: op.function == "linear" and op.shape[-1] == 8, ["linear_1_1", "linear_2_3"]),
    ],
)
def test_what_is_asked_for_is_saved_and_nothing_else(model: nn.Module, save: object, expected: list[str]) -> None:
    assert saved(model, save) == expected


def test_the_workflow_of_the_paper(model: nn.Module) -> None:
    with cutaway.watch(model, save=None) as structure:
        model(X)
    chosen = [op for op in structure.ops if op.function == "relu" and op.parents[0].function == "linear"]
    with cutaway.watch(model, save=chosen) as trace:
        model(X)
    assert [op.label for op in trace.saved] == ["relu_1_2", "relu_2_4"]
    assert same(trace["relu_2"].value, cutaway.trace(model, X)["relu_2"].value)


def test_integers_count_the_saved_ops_when_only_some_were_saved(model: nn.Module) -> None:
    with cutaway.watch(model, save="**/relu") as trace:
        model(X)
    assert trace[0].label == "relu_1_2"
    assert trace[-1].label == "relu_2_4"


def test_a_name_that_is_both_a_module_and_a_label_saves_both() -> None:
    model = nn.Sequential()
    model.add_module("relu_2", nn.ReLU())
    model.add_module("a", nn.Tanh())
    model.add_module("b", nn.ReLU())
    assert saved(model, "relu_2") == ["relu_1_1", "relu_2_3"]


def test_one_pass_of_a_module_can_be_chosen() -> None:
    model, args, _ = ZOO["lstm_cell_loop"]()
    with cutaway.watch(model, save="cell@out.0:3") as trace:
        model(*args)
    assert len(trace.saved) == 1
    assert trace["cell@out.0:3"].is_saved


def test_a_value_not_saved_says_how_to_get_it(model: nn.Module) -> None:
    with cutaway.watch(model, save="0") as trace:
        model(X)
    with pytest.raises(NotSavedError, match=r"'linear_1_1' was not saved.*save='0.0/linear.1:1'"):
        _ = trace["linear_1"].value


def test_a_site_that_matches_nothing_is_an_error_with_the_nearest(model: nn.Module) -> None:
    with pytest.raises(SiteError, match=r"save='0.0/linaer' matches nothing.*Nearest: '0.0/linear'"):
        saved(model, "0.0/linaer")


def test_parameters_can_be_chosen_by_address(model: nn.Module) -> None:
    with cutaway.watch(model, save=["2.weight", "2"]) as trace:
        model(X).sum().backward()
    assert same(trace["2.weight"].value, model[2].weight)
    assert same(trace["2.weight"].grad, model[2].weight.grad)


@pytest.mark.parametrize("keep", ["copy", "cpu", "reference"])
def test_values_are_the_same_wherever_they_are_kept(model: nn.Module, keep: str) -> None:
    with cutaway.watch(model, keep=keep) as trace:
        model(X)
    for op, expected in zip(trace.ops, cutaway.trace(model, X).ops, strict=True):
        assert same(op.value, expected.value)


def test_values_on_disk_come_back_and_are_valid_safetensors(model: nn.Module, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    with cutaway.watch(model, keep=tmp_path / "values") as trace:
        model(X)
    for op, expected in zip(trace.ops, cutaway.trace(model, X).ops, strict=True):
        assert same(op.value, expected.value)
    for file in (tmp_path / "values").iterdir():
        assert safetensors.load_file(file)["value"] is not None


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]
)
def test_every_dtype_survives_the_disk(dtype: torch.dtype, tmp_path: Path) -> None:
    value = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    with cutaway.watch(keep=tmp_path, save=lambda op: op.function == "flip") as trace:
        flipped = value.flip(0)
        value[:0].flip(0)
    assert same(trace["flip_1"].value, flipped)
    assert trace["flip_2"].value.shape == (0, 3)


def test_a_folder_that_holds_values_is_not_overwritten(model: nn.Module, tmp_path: Path) -> None:
    saved(model, "0", keep=tmp_path)
    with pytest.raises(InputError, match="already contains values"):
        saved(model, "0", keep=tmp_path)


def test_a_sink_of_ones_own(model: nn.Module) -> None:
    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

        def load(self) -> Tensor:
            return self.tensor

    class Memory:
        def __init__(self) -> None:
            self.n, self.closed = 0, False

        def keep(self, index: int, tensor: Tensor) -> Kept:
            self.n += 1
            return Kept(tensor.clone())

        def close(self) -> None:
            self.closed = True

    sink = Memory()
    with cutaway.watch(model, save="**/relu", keep=sink) as trace:
        model(X)
    assert (sink.n, sink.closed) == (2, True)
    assert trace["relu_1"].value.shape == (3, 8)


def test_a_function_is_applied_before_saving(model: nn.Module) -> None:
    with cutaway.watch(model, save="**/relu", transform=lambda t: t.mean(0)) as trace:
        model(X)
    assert trace["relu_1"].value.shape == (8,)
    assert trace["relu_1"].shape == (3, 8)


def test_saved_references_survive_later_overwriting() -> None:
    def forward(self: Fn, x: Tensor) -> Tensor:
        h = self.part(x)
        self.part(x)
        h.zero_()
        return h + 1

    model = Fn(forward, part=nn.Linear(4, 4))
    with cutaway.watch(model, save="part:1") as trace:
        model(X)
    assert same(trace["part:1"].value, model.part(X))


def test_running_out_of_memory_is_an_error_before_it_happens(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_guard, "_EVERY_NS", 0)
    monkeypatch.setattr(memory_guard, "available_memory", lambda: (100 * 2**20, 16 * 2**30))
    with pytest.raises(
        MemoryLimitError, match=r"100.0 MB of memory on this machine.*modules have run, so all values.*save=None"
    ):
        cutaway.trace(model, X)
    with cutaway.watch(model, save=None) as trace:
        model(X)
    assert len(trace) == 5


def test_available_memory_is_plausible() -> None:
    free, total = memory_guard.available_memory()
    assert 0 < free <= total


def test_only_the_saved_values_stay_alive(model: nn.Module) -> None:
    import weakref

    alive: list[weakref.ref[Tensor]] = []
    model[0][1].register_forward_hook(lambda module, args, out: alive.append(weakref.ref(out)))
    with cutaway.watch(model, save=None), torch.no_grad():
        for _ in range(20):
            model(X)
        assert sum(ref() is not None for ref in alive) < 15  # at most 64 events wait to be looked at


def test_large_values_that_are_not_saved_are_let_go_at_once() -> None:
    import weakref

    alive: list[weakref.ref[Tensor]] = []
    with cutaway.watch(save=None):
        for _ in range(3):
            value = torch.zeros(5_000_000)
            alive.append(weakref.ref(value))
            del value
        assert [ref() for ref in alive] == [None, None, None]


# selections


@pytest.mark.parametrize("name", ZOO)
def test_a_selection_saves_its_own_ops_in_the_next_run(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    with cutaway.watch(model, save=None) as structure:
        model(*args, **kwargs)
    chosen = structure.ops[::3]
    model, args, kwargs = ZOO[name]()
    with cutaway.watch(model, save=chosen) as trace:
        model(*args, **kwargs)
    numbers = [op.full_site for op in chosen if op.device is None]  # they are kept in any case
    assert [op.full_site for op in trace.saved] == [op.full_site for op in chosen if op.full_site not in numbers]
    assert all(trace[str(site)].is_saved for site in numbers)


def test_a_selection_with_sources_saves_them_too(model: nn.Module) -> None:
    constant = torch.ones(8)

    def forward(self: Fn, x: Tensor) -> Tensor:
        return self.net[2](self.net[1](self.net[0](x) + constant)) * torch.tensor(2.0) * constant[:2]

    outer = Fn(forward, net=model)
    with cutaway.watch(outer, save=None) as structure:
        outer(X)
    above = structure.select("mul_2").ancestors - structure.select(["net.1.0.bias", "mul_1"])
    assert {op.kind for op in above} == {"op", "input", "parameter", "constant"}
    with cutaway.watch(outer, save=above) as trace:
        outer(X)
    for op in structure.select("mul_2").ancestors:
        assert trace[op.label].is_saved == (op in above), op
    assert same(trace["constant_1"].value, constant)


def test_many_ops_are_looked_up_by_their_place_and_never_matched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model, args, _ = ZOO["lstm_cell_loop"]()
    chosen = cutaway.trace(model, *args).ops[::2]
    monkeypatch.setattr("cutaway.core.sites.Site.matches", lambda *_: pytest.fail("a pattern was tried"))
    with cutaway.watch(model, save=chosen) as trace:
        model(*args)
    assert trace.saved.labels == chosen.labels


def test_an_op_that_never_comes_again_is_an_error_that_names_it(model: nn.Module) -> None:
    other = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 8)), nn.Linear(8, 2))
    chosen = cutaway.trace(model, X).ops
    with pytest.raises(SiteError, match=r"save='0.1/relu.1:1' matches nothing in this trace of Sequential"):
        saved(other, chosen)


@pytest.mark.parametrize("save", [[-1], [0], ["0", 3]])
def test_a_position_says_that_it_is_known_only_at_the_end(save: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with (
        pytest.raises(InputTypeError, match=r"shows only when the run has ended.*save=\[trace\[-?\d\]\]"),
        cutaway.watch(model, save=save),
    ):
        pass
    with cutaway.watch(model, save=None) as structure:
        model(torch.ones(1, 2))
    with cutaway.watch(model, save=[structure[-1]]) as trace:  # what the message says
        expected = model(torch.ones(1, 2))
    assert torch.equal(trace[-1].value, expected)


def test_what_expand_repeats_is_copied_once(tmp_path: Path) -> None:
    class Expands(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, None].expand(2, 1000)

    model, x = Expands(), torch.tensor([1.0, 2.0])
    for keep in ("copy", str(tmp_path / "values")):
        with cutaway.watch(model, keep=keep) as trace:
            expected = model(x)
        value = trace["expand_1"].value
        assert torch.equal(value, expected)
        assert value.untyped_storage().nbytes() < 1000
    assert all(file.stat().st_size < 1000 for file in (tmp_path / "values").iterdir())
