"""After an additional run, a model equals a twin that never ran."""

from __future__ import annotations

import copy
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.stateful import STATEFUL, Base, Cache
from torch import Tensor, nn

import cutaway
from cutaway.capture.model import state as model_state
from cutaway.capture.model.eval_mode import eval_mode, preserve_state
from cutaway.capture.model.state import ModelState
from cutaway.capture.tensors import copies

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
SHORT, LONG = X[:1, :2], torch.cat([X, X, X], 1)


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    return STATEFUL[name]()


def picture(value: Any, known: dict[int, Any] | None = None) -> Any:
    """What an object is made of: the objects themselves by identity, values by their numbers."""
    known = {} if known is None else known
    if id(value) in known or isinstance(value, type) or (callable(value) and not isinstance(value, nn.Module)):
        return "known", id(value)
    known[id(value)] = value
    if isinstance(value, torch.jit.ScriptModule):
        return value.n, value.sizes, value.training, value.total.tolist()
    if isinstance(value, nn.Module):
        return id(value), type(value), {name: picture(each, known) for name, each in value.__dict__.items()}
    if isinstance(value, nn.parameter.UninitializedTensorMixin):
        return id(value), type(value)
    if isinstance(value, Tensor):
        return id(value), type(value), tuple(value.shape), value.tolist(), value.requires_grad
    if isinstance(value, dict):
        return id(value), [(key, picture(each, known)) for key, each in value.items()]
    if isinstance(value, (list, tuple, set)) or type(value).__name__ == "deque":
        return id(value), [picture(each, known) for each in value]
    if isinstance(value, torch.Generator):
        return id(value), value.get_state().tolist()
    if isinstance(value, np.random.Generator):
        return id(value), str(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return id(value), str(value.get_state())
    if hasattr(value, "getstate"):
        return id(value), value.getstate()
    if isinstance(value, np.ndarray):
        return id(value), value.tolist()
    if hasattr(value, "__slots__"):
        names = [name for name in ("count", "later", "_Slotted__hidden") if hasattr(value, name)]
        return id(value), [(name, picture(getattr(value, name), known)) for name in names]
    if hasattr(value, "__dict__"):
        return id(value), {name: picture(each, known) for name, each in value.__dict__.items()}
    return value


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", STATEFUL)
def test_every_object_is_the_same_and_holds_what_it_held(name: str, fails: bool) -> None:
    model = built(name)
    before = picture(model)
    try:
        with eval_mode(model):
            for x in (SHORT, X, LONG):
                model(x)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert picture(model) == before


def collect(model: nn.Module) -> None:
    cutaway.collect(model, LONG, at="fc", rows="positions")


def attribute(model: nn.Module) -> None:
    cutaway.neurons.attribute(model, X, at="fc", target=lambda output, batch: output.sum((1, 2)))


def ablate(model: nn.Module) -> None:
    cutaway.neurons.ablate(model, ["fc#1"], lambda: float(model(LONG).detach().sum()), n_random=1)


def lesion(model: nn.Module) -> None:
    cutaway.studies.lesion(model, lambda: model(LONG).sum(), at="fc", each="unit")


def patch(model: nn.Module) -> None:
    cutaway.studies.patch(
        model, lambda out: out.detach().sum(), clean=lambda: model(LONG), corrupted=lambda: model(LONG * 2), at="fc"
    )


def sites(model: nn.Module) -> None:
    cutaway.sites(model, LONG)


VERBS: dict[str, Callable[[nn.Module], None]] = {
    each.__name__: each for each in (collect, attribute, ablate, lesion, patch, sites)
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", STATEFUL)
def test_through_every_verb_the_model_is_like_a_twin_that_was_never_touched(name: str, verb: str) -> None:
    if name == "IsLazy" and verb in ("ablate", "lesion", "patch", "attribute"):
        pytest.skip("a parameter without memory has no values to compare, and no gradient")
    model, twin = built(name), built(name)
    before, state = picture(model), torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VERBS[verb](model)
    assert torch.equal(torch.get_rng_state(), state)
    assert picture(model) == before
    for x in (SHORT, LONG, X):  # and goes on like it
        results = []
        for each in (model, twin):
            torch.manual_seed(1)
            results.append(each(x))
        assert torch.equal(*results)
    assert _values(model) == _values(twin)


def _values(model: nn.Module) -> Any:
    return {name: tensor.tolist() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("how", ["validate", "retrace"])
@pytest.mark.parametrize("name", [name for name in STATEFUL if name not in ("IsLazy", "ChangesItsType")])
def test_validating_changes_nothing_and_finds_no_fault(name: str, how: str) -> None:
    """The traced run is the user's, and its effects stay; those of the runs that prove it do not."""
    model, twin = built(name), built(name)
    torch.manual_seed(2)
    trace = cutaway.trace(model, X)
    torch.manual_seed(2)
    twin(X)
    before = picture(model)
    report = trace.validate(retrace=how == "retrace") if how == "validate" or _can_rerun(trace) else None
    assert report is None or report, report
    assert picture(model) == before
    assert torch.equal(_again(model), _again(twin))


def _can_rerun(trace: cutaway.Trace) -> bool:
    try:
        trace.validate(retrace=True)
    except cutaway.CutawayError:
        return False
    return True


def _again(model: nn.Module) -> Tensor:
    torch.manual_seed(3)
    found: Tensor = model(LONG)
    return found


def test_a_trace_is_a_run_of_the_users_own() -> None:
    model = built("CountsCalls")
    cutaway.trace(model, X)
    assert model.n_calls == 1


def test_blocks_inside_one_another_each_put_back_what_they_met() -> None:
    model: Any = built("CountsCalls")
    with preserve_state(model):
        model(X)
        with eval_mode(model):
            model(X)
            assert model.n_calls == 2
        assert model.n_calls == 1
        assert model.training
    assert model.n_calls == 0


def test_a_snapshot_is_restored_any_number_of_times() -> None:
    model: Any = built("AppendsToLists")
    state, before = ModelState(model), picture(model)
    for _ in range(3):
        with state.undo_changes():
            model(X)
        assert picture(model) == before


def test_what_is_too_large_to_copy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Writes(Base):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("small", torch.zeros(2))
            self.register_buffer("bank", torch.zeros(500))
            self.register_buffer("other_bank", torch.zeros(500))

        def note(self, x: Tensor) -> Any:
            self.small += 1
            self.bank += 1
            return 1.0

    monkeypatch.setattr(copies, "COPY_LIMIT", 1000)
    model = Writes()
    with pytest.warns(UserWarning, match="wrote to 'bank'; this is not undone, because it is too large to be copied"):
        cutaway.collect(model, X, at="fc")
    assert model.small.tolist() == [0, 0]
    monkeypatch.undo()
    bank = model.bank.clone()
    cutaway.collect(model, X, at="fc")
    assert torch.equal(model.bank, bank)


def test_a_parameter_that_a_run_writes_to_is_named() -> None:
    class Clamps(Base):
        def note(self, x: Tensor) -> Any:
            with torch.no_grad():
                self.fc.weight.clamp_(-0.1, 0.1)
            return 1.0

    with pytest.warns(UserWarning, match=r"wrote to 'fc\.weight'; this is not undone, because it is a parameter"):
        cutaway.collect(Clamps(), X, at="fc")


def test_more_values_than_are_looked_at_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("CountsCalls")
    model.vocabulary = {str(i): i for i in range(1000)}  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ModelState(model)
    monkeypatch.setattr(model_state, "MAX_VALUES", 900)
    with pytest.warns(UserWarning, match="hold more than 900 values"):
        ModelState(model)


def test_what_lives_beside_the_model_is_left_alone() -> None:
    class Logger:
        def __init__(self) -> None:
            self.lock, self.lines = threading.Lock(), []  # type: ignore[var-annotated]

    model: Any = built("CountsCalls")
    model.logger = Logger()
    with preserve_state(model):
        model.logger.lines.append("a line that was written meanwhile")
    assert len(model.logger.lines) == 1


def test_dicts_keep_their_order_and_their_class() -> None:
    class Named(OrderedDict):  # type: ignore[type-arg]
        pass

    model: Any = built("CountsCalls")
    model.names = names = Named(a=1, b=2)
    names.extra = [1]
    with preserve_state(model):
        names.move_to_end("a")
        names["c"] = 3
        names.extra.append(2)
    assert (list(names.items()), names.extra) == ([("a", 1), ("b", 2)], [1])
    assert model.names is names
    assert list(reversed(names)) == ["b", "a"]


def test_tensors_that_share_memory_and_those_of_inference_mode_are_restored() -> None:
    model: Any = built("CountsCalls")
    table = torch.arange(6.0)
    model.views = [table[:3], table[2:]]
    with torch.inference_mode():
        model.frozen = torch.zeros(2)
    with preserve_state(model):
        model.views[0].add_(1)
        model.views[1].mul_(3)
        with torch.inference_mode():
            model.frozen.add_(1)
    assert table.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.frozen.tolist() == [0, 0]


def test_a_value_that_lies_in_restored_memory_is_copied() -> None:
    model: Any = built("CachesByPosition")
    state = ModelState(model)
    inside, outside = model.table[:2], torch.ones(2)
    assert state.detached(inside).data_ptr() != inside.data_ptr()
    assert state.detached(outside) is outside


def test_a_cache_object_stays_the_same_object_with_its_old_contents() -> None:
    model: Any = built("HoldsObjects")
    cache: Cache = model.kv
    cutaway.collect(model, LONG, at="fc")
    assert model.kv is cache
    assert (cache.n, len(cache.layers), cache.layers[0].keys.tolist()) == (0, 1, [0, 0])


def test_a_model_of_meta_tensors_is_no_obstacle() -> None:
    model = nn.Sequential(nn.Linear(2, 2, device="meta"), nn.BatchNorm1d(2, device="meta"))
    with preserve_state(model):
        model(torch.ones(3, 2, device="meta"))


def test_copies_of_the_model_made_inside_are_not_tied_to_it() -> None:
    model: Any = built("AppendsToLists")
    with preserve_state(model):
        other = copy.deepcopy(model)
        model(X)
    other(X)
    assert model.lengths == [3]
    assert other.lengths == [3, 5]


def test_a_llama_whose_rotary_table_grows_with_the_text_is_as_before() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
        max_position_embeddings=16,
        rope_scaling={"rope_type": "dynamic", "factor": 2.0},
    )
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(transformers.LlamaForCausalLM(config).eval())
    model, twin = models
    ids = torch.arange(40)[None]
    cutaway.collect(model, {"input_ids": ids}, at="model.layers.*", rows="positions")
    with torch.no_grad():
        assert torch.equal(model(ids[:, :30]).logits, twin(ids[:, :30]).logits)
    assert cutaway.trace(model, ids[:, :35]).validate()
