"""The verb as a whole: the model stays as it was, a kill costs little, problems are told."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import warm_python
from tests.collecting import tiny
from torch import Tensor, nn

import cutaway
from cutaway.collecting import text_sweep
from cutaway.collecting.collect import collect
from cutaway.core.errors import ExistsError, InputError

SENTENCES = [f"the cat number {i} sat on the mat {'and again ' * (i % 5)}near Mauritians" for i in range(40)]
AT = ["encoder.layer.0", "encoder.layer.1.intermediate"]


class Noisy(nn.Module):
    """Draws random numbers, counts its calls in a buffer, normalizes by batch, and drops."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Linear(4, 4).eval()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.frozen(self.drop(self.norm(x + 0 * torch.rand(1))))

    def train(self, mode: bool = True) -> Noisy:
        raise AssertionError("a model's own train() may do more than set a flag")


def test_the_model_and_all_random_states_are_as_they_were() -> None:
    model = Noisy()
    model.norm.weight.requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = collect(model, torch.randn(5, 4, generator=torch.Generator()), at="frozen")
    assert torch.equal(torch.get_rng_state(), before)
    assert [module.training for module in model.modules()] == modes
    assert [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()] == hooks
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())
    again = collect(model, torch.randn(5, 4, generator=torch.Generator()), at="frozen")
    np.testing.assert_array_equal(first.array(), again.array())
    assert torch.is_grad_enabled()


def test_the_model_is_as_it_was_also_after_an_error() -> None:
    class Failing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) == 4:
                raise ZeroDivisionError
            return super().forward(x)

    model = nn.Sequential(Failing(3, 3))
    with pytest.raises(ZeroDivisionError):
        collect(model, torch.ones(4, 3), at="0")
    assert all(module.training for module in model.modules())
    assert not model[0]._forward_hooks


def test_what_is_on_disk_is_what_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    wanted = collect(model, SENTENCES, tokenizer=tokenizer, at=AT)
    monkeypatch.setattr("cutaway.collecting.text_sweep.WINDOW_BYTES", 1 << 12)
    monkeypatch.setattr("cutaway.collecting.text_sweep._ENCODE_BATCH", 8)
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at=AT, path=tmp_path / "acts")
    assert acts.path is not None
    assert acts.is_whole
    assert len(acts._source.starts) > 3, "several windows"
    loaded = cutaway.load(tmp_path / "acts")
    np.testing.assert_allclose(loaded.array(), wanted.array(), atol=1e-5)
    assert loaded.sentences == [sentence.split() for sentence in SENTENCES] == wanted.sentences
    assert loaded.items.tolist() == wanted.items.tolist()
    assert loaded.provenance["model"]["class"] == "BertModel"
    assert loaded.provenance["tokenizer"]["class"] == "BertTokenizer"
    assert loaded.provenance["max_length"] == 512
    assert loaded.aggregate == "last"


def test_float16_halves_the_disk_and_stays_near(tmp_path: Path) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    wide = collect(model, SENTENCES, tokenizer=tokenizer, at=AT)
    half = collect(model, SENTENCES, tokenizer=tokenizer, at=AT, dtype="float16", path=tmp_path / "half")
    assert half.dtype == np.float16
    assert collect(model, SENTENCES[:2], tokenizer=tokenizer, at=AT, dtype="float16").dtype == np.float16
    np.testing.assert_allclose(half.array(np.float32), wide.array(), atol=5e-3)
    for path in (None, tmp_path / "far"):
        with pytest.raises(InputError, match="overflow float16"):
            collect(nn.Linear(1, 1), torch.full((3, 1), 1e9), at=".", dtype="float16", path=path)


def test_the_same_call_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    monkeypatch.setattr(text_sweep, "WINDOW_BYTES", 1)
    monkeypatch.setattr(text_sweep, "_ENCODE_BATCH", 8)
    begun: list[int] = []
    filled = text_sweep.TextSweep._run_window

    def dying(self: Any, window: Any, first: int, dtype: Any) -> Any:
        begun.append(first)
        if len(begun) == 4:
            raise KeyboardInterrupt
        return filled(self, window, first, dtype)

    monkeypatch.setattr(text_sweep.TextSweep, "_run_window", dying)
    with pytest.raises(KeyboardInterrupt):
        collect(model, SENTENCES, tokenizer=tokenizer, at=AT, path=tmp_path / "acts")
    half = cutaway.load(tmp_path / "acts")
    assert (half.is_whole, half.n_items) == (False, 24)
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at=AT, path=tmp_path / "acts")
    assert begun == [0, 8, 16, 24, 24, 32], "what was there is not run again"
    wanted = collect(model, SENTENCES, tokenizer=tokenizer, at=AT)
    np.testing.assert_allclose(acts.array(), wanted.array(), atol=1e-5)
    assert acts.sentences == wanted.sentences
    del begun[:]
    assert len(collect(model, SENTENCES, tokenizer=tokenizer, at=AT, path=tmp_path / "acts")) == len(acts)
    assert begun == [], "it was whole"


KILLED = """
import os, sys, time, torch
from cutaway.collecting import tensor_sweep
from cutaway.collecting.collect import collect
tensor_sweep.WINDOW_BYTES = 1
model = torch.nn.Linear(4, 3)
torch.nn.init.constant_(model.weight, 0.5)
torch.nn.init.constant_(model.bias, 0.25)
n = 0
def call(model, batch):
    global n
    n += 1
    if n == 5 and len(sys.argv) > 2:
        time.sleep(1)  # what was handed in is on disk by now
        os._exit(9)
    return model(batch)
acts = collect(model, torch.arange(80.0).reshape(20, 4), at=".", batch_size=4, call=call, path=sys.argv[1])
print(n, len(acts), float(acts.array().sum()))
"""


def test_after_a_kill_the_same_program_goes_on(tmp_path: Path) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return warm_python.run(["-c", KILLED, str(tmp_path / "acts"), *more])

    died = run("kill")
    assert died.returncode == 9, died.stderr
    half = cutaway.load(tmp_path / "acts")
    assert (half.is_whole, half.n_items) == (False, 8)
    ended = run()
    assert ended.returncode == 0, ended.stderr
    total = 3 * (0.5 * sum(range(80)) + 0.25 * 20)
    assert ended.stdout.split() == ["5", "20", str(total)], "two small runs, and three batches of five"


def test_a_sweep_over_tensors_goes_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.collecting.tensor_sweep.WINDOW_BYTES", 1)
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3), torch.randn(20, 4)
    seen: list[int] = []

    def call(model: nn.Module, batch: Tensor) -> Tensor:
        seen.append(len(batch))
        if len(seen) == 5:
            raise KeyboardInterrupt
        result: Tensor = model(batch)
        return result

    with pytest.raises(KeyboardInterrupt):
        collect(model, data, at=".", batch_size=4, call=call, path=tmp_path / "acts")
    there = cutaway.load(tmp_path / "acts").n_items
    assert 0 < there < 20
    acts = collect(model, data, at=".", batch_size=3, path=tmp_path / "acts")
    np.testing.assert_allclose(acts.array(), model(data).detach().numpy(), atol=1e-6)
    assert acts.items.tolist() == list(range(20))


def test_another_model_corpus_or_manner_does_not_go_on_with_it(tmp_path: Path) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    path = tmp_path / "acts"
    collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layer.1", path=path)
    with pytest.raises(InputError, match="another corpus"):
        collect(model, SENTENCES[3:6], tokenizer=tokenizer, at="encoder.layer.1", path=path)
    with pytest.raises(InputError, match="another aggregate"):
        collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layer.1", path=path, aggregate="first")
    with pytest.raises(InputError, match="another sites"):
        collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layer.0", path=path)
    weight = model.encoder.layer[0].output.dense.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(1.1)
        with pytest.raises(InputError, match="another model"):
            collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layer.1", path=path)
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(ExistsError):
        collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layer.1", path=tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"


ODD = ["a cat", "", ["a", "\u00ad", "cat"], "far " * 600, "a dog"]


@pytest.mark.parametrize("on_disk", [False, True])
def test_problems_are_counted_named_and_no_row_is_zero(tmp_path: Path, on_disk: bool) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    path = tmp_path / "acts" if on_disk else None
    with pytest.warns(UserWarning, match=r"3 problems while collecting, see acts\.problems"):
        acts = collect(model, ODD, tokenizer=tokenizer, at="encoder.layer.1", path=path)
    assert [(problem.item, problem.what.split(":")[0]) for problem in acts.problems] == [
        (1, "has no words"),
        (2, "word 1 ('\\xad') has no token and therefore no row"),
        (3, "602 tokens exceed max_length=512"),
    ]
    assert [len(words) for words in acts.sentences] == [2, 0, 2, 510, 2]
    assert acts.word_index[acts.items == 2].tolist() == [0, 2]
    assert (np.abs(acts.array()).sum(1) > 0).all()
    assert acts.n_items == 5


def test_strict_makes_an_error_of_the_first_problem() -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    with pytest.raises(InputError, match=r"item 1: has no words\. Items 0 to \d+ have 3 problems"):
        collect(model, ODD, tokenizer=tokenizer, at="encoder.layer.1", strict=True)
    with pytest.raises(InputError, match="nothing to collect"), warnings.catch_warnings():
        collect(model, ["", "\u00ad"], tokenizer=tokenizer, at="encoder.layer.1")


def test_generators_are_read_once_and_the_callers_lists_stay() -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    given = [["a", "", "cat"], ["dogs"]]
    with pytest.warns(UserWarning, match="1 problem while collecting"):
        acts = collect(model, (words for words in given), tokenizer=tokenizer, at="encoder.layer.1")
    assert given == [["a", "", "cat"], ["dogs"]]
    assert acts.sentences == [["a", "cat"], ["dogs"]]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    capfd.readouterr()
    collect(model, SENTENCES[:4], tokenizer=tokenizer, at="encoder.layer.1")
    assert capfd.readouterr() == ("", "")


def test_wrong_arguments_are_told() -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    with pytest.raises(InputError, match="data is a single string: pass a list of sentences"):
        collect(model, "a cat", tokenizer=tokenizer, at="embeddings")
    for text in ("a cat", ["a cat"], [["a", "cat"]], [("a cat", "a dog")]):
        with pytest.raises(InputError, match=r"data is text: pass tokenizer=.*AutoTokenizer"):
            collect(model, text, at="embeddings")
    with pytest.raises(InputError, match="data is a Tensor, but tokenizer= is for text"):
        collect(model, torch.ones(2, 3), tokenizer=tokenizer, at="embeddings")
    with pytest.raises(InputError, match=r"tokenizer='minilm' is a string.*from_pretrained\('minilm'\)"):
        collect(model, ["a cat"], tokenizer="minilm", at="embeddings")
    with pytest.raises(InputError, match="pass a tokenizer of transformers"):
        collect(model, ["a cat"], tokenizer=str.split, at="embeddings")
    with pytest.raises(InputError, match=r"pass a torch\.nn\.Module"):
        collect(tokenizer, ["a cat"], tokenizer=tokenizer, at="embeddings")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch_size=0: must be a whole number of 1 or more"):
        collect(model, ["a cat"], tokenizer=tokenizer, at="embeddings", batch_size=0)
    with pytest.raises(InputError, match=r"aggregate='avg'.*Did you mean 'average'|aggregate='avg': pass one of last"):
        collect(model, ["a cat"], tokenizer=tokenizer, at="embeddings", aggregate="avg")  # type: ignore[arg-type]


def test_without_sites_the_message_lists_what_can_be_collected() -> None:
    listed = r"BertModel has 'embeddings', 'encoder'.*'encoder\.layer\.\*'.* … \(\d+ in all\)\. cutaway\.sites\(model, "
    with pytest.raises(InputError, match=rf"collect\(\) needs at=, the sites to collect\. {listed}"):
        collect(tiny.bert(), ["a cat"])
    with pytest.raises(InputError, match=r"Linear has no submodules; its own output is '\.'"):
        collect(nn.Linear(2, 2), torch.ones(3, 2))


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool", "bfloat16", "float64"])
def test_values_are_kept_in_float32_or_float16_also_in_memory(dtype: Any) -> None:
    with pytest.raises(InputError, match=f"must be 'float32' or 'float16', got '{dtype}'"):
        collect(nn.Linear(2, 2), torch.randn(3, 2), at=".", dtype=dtype)


def test_a_batch_with_a_name_that_the_model_does_not_take_says_call() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    batches = [{"x": torch.ones(2, 3), "label": torch.ones(2)}]
    with pytest.raises(InputError, match=r"a batch has 'x', 'label', but Model does not accept these by name.*call="):
        collect(Model(), iter(batches), at=".")
    found = collect(Model(), iter(batches), at=".", call=lambda model, batch: model(batch["x"]))
    assert found.shape == (2, 3)
