"""A lens reads every layer as the model itself reads its last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.lm.tiny_lms import CAUSAL, CLASSIFIERS, ENCODER_DECODER, LAYERS, MASKED, TINY, tiny, tokenizer
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm.lens import lens as lens_module
from cutaway.lm.lens.scores import split_by_target, top_k
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.head import head_logits
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.lens import Lens

PARALLEL = {"gpt_neox", "phi", "mamba"}


def explained(name: str, model: Any = None) -> Generation:
    own = tiny(name) if model is None else model
    if name in CLASSIFIERS:
        found: Generation = cutaway.lm.classify(own, tokenizer(), "the cat sat")
    elif name in MASKED:
        found = cutaway.lm.fill(own, tokenizer(), "the <mask> sat on <mask>")
    else:
        found = cutaway.generate(own, tokenizer(), "the cat sat", max_new_tokens=3)
    return found


def brute(logits: torch.Tensor, classes: Any) -> dict[str, np.ndarray]:
    """(layer, target, class) → the numbers of a lens, one cell at a time and in float64."""
    wide = logits.double()
    logprobs = wide.log_softmax(-1)
    n_layers, n_targets, _ = wide.shape
    found: dict[str, Any] = {"ranks": [], "logprobs": [], "entropies": [], "kl": []}
    for layer in range(n_layers):
        rows: dict[str, list[float]] = {name: [] for name in found}
        for target in range(n_targets):
            own, end = logprobs[layer, target], logprobs[-1, target]
            chosen = int(classes[target])
            rows["ranks"].append(
                1 + sum(bool(other > logits[layer, target, chosen]) for other in logits[layer, target])
            )
            rows["logprobs"].append(float(own[chosen]))
            rows["entropies"].append(float(-(own.exp() * own).sum()))
            rows["kl"].append(float(torch.nn.functional.kl_div(own, end, log_target=True, reduction="sum")))
        for name, row in rows.items():
            found[name].append(row)
    return {name: np.array(rows) for name, rows in found.items()}


def close(lens: Lens, expected: dict[str, np.ndarray]) -> None:
    assert (lens.ranks == expected["ranks"]).all()
    for name in ("logprobs", "entropies", "kl"):
        np.testing.assert_allclose(getattr(lens, name), expected[name], atol=2e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", TINY)
def test_every_number_is_that_of_the_logits_of_the_layer(name: str) -> None:
    gen = explained(name)
    lens = gen.lens()
    one = PromptRun.of(gen)
    logits = head_logits(one, one.hidden(), one.rows.tolist())
    if logits.shape[1] != len(gen):
        logits = logits.expand(-1, len(gen), -1)
    close(lens, brute(logits, gen.target_ids))
    assert lens.layers == ("embedding", *map(str, range(LAYERS)))
    assert lens.targets == gen.targets.pieces
    top = logits.double().log_softmax(-1).topk(lens.k)
    np.testing.assert_allclose(lens.top_logprobs, top.values.numpy(), atol=1e-5)
    assert (lens.top_ids == top.indices.numpy()).mean() > 0.99  # ties may stand either way


@pytest.mark.parametrize("name", TINY)
def test_the_last_row_is_what_the_model_said(name: str) -> None:
    gen = explained(name)
    for lens in (gen.lens(), gen.lens(norm=False), gen.lens(after=("attention", "mlp"))):
        assert (lens.ranks[-1] == gen.steps.ranks).all()
        np.testing.assert_allclose(lens.logprobs[-1], gen.steps.logprobs, atol=1e-5)
        np.testing.assert_allclose(lens.entropies[-1], gen.steps.entropies, atol=1e-5)
        assert (lens.kl[-1] == 0).all()
        assert (lens.kl >= 0).all()


@pytest.mark.parametrize(
    ("name", "norm", "head"), [("llama", "model.norm", "lm_head"), ("gpt2", "transformer.ln_f", "")]
)
def test_layers_are_the_models_hidden_states_behind_norm_and_head(name: str, norm: str, head: str) -> None:
    """The model's own `output_hidden_states`, and its modules by name."""
    gen = explained(name)
    model = tiny(name)
    modules = dict(model.named_modules())
    with torch.no_grad():
        states = model(torch.tensor(gen.token_ids)[None], output_hidden_states=True).hidden_states
        rows = torch.tensor(gen.rows)
        project = modules[head or "lm_head"]
        normed = [project(modules[norm](state[0, rows])) for state in states[:-1]]
        raw = [project(state[0, rows]) for state in states[:-1]]
        end = project(states[-1][0, rows])  # the last one has been normed already
    close(gen.lens(), brute(torch.stack([*normed, end]), gen.target_ids))
    close(gen.lens(norm=False), brute(torch.stack([*raw, end]), gen.target_ids))
    assert not (gen.lens().ranks == gen.lens(norm=False).ranks).all()


def test_a_model_without_a_final_norm_says_so() -> None:
    gen = explained("bert")
    plain, raw = gen.lens(), gen.lens(norm=False)
    assert (plain.logprobs == raw.logprobs).all()
    assert "no final norm" in raw.notes[0]
    assert not plain.notes


@pytest.mark.parametrize("name", TINY)
def test_places_inside_of_blocks_lie_between_their_ends(name: str) -> None:
    gen = explained(name)
    lens = gen.lens(after=("attention", "block"))
    if name in PARALLEL:
        assert len(lens) == LAYERS + 1
        assert "after attention" in lens.notes[0]
        return
    inner = ("attention", "cross-attention") if name in ENCODER_DECODER else ("attention",)
    expected = [f"{i}{f' {part}' if part else ''}" for i in range(LAYERS) for part in (*inner, "")]
    assert lens.layers == ("embedding", *expected)
    whole = gen.lens()
    places = [lens.layer(each) for each in whole.layers]
    np.testing.assert_allclose(lens.logprobs[places], whole.logprobs, atol=1e-5)
    others = sorted(set(range(len(lens))) - set(places))
    assert np.abs(lens.logprobs[others] - lens.logprobs[[i + 1 for i in others]]).max(axis=-1).min() > 1e-6


def test_the_place_after_attention_is_the_input_plus_the_attention() -> None:
    gen = explained("llama")
    model = tiny("llama")
    kept: dict[str, torch.Tensor] = {}
    layer = model.model.layers[1]
    handles = [
        layer.register_forward_pre_hook(lambda _, args, kwargs: kept.update(x=args[0]), with_kwargs=True),
        layer.self_attn.register_forward_hook(lambda _, args, result: kept.update(a=result[0])),
    ]
    with torch.no_grad():
        model(torch.tensor(gen.token_ids)[None])
        for handle in handles:
            handle.remove()
        logits = model.lm_head(model.model.norm((kept["x"] + kept["a"])[0, torch.tensor(gen.rows)]))
    lens = gen.lens(after="attention")
    assert lens.layers == ("embedding", "0 attention", "1 attention", "2 attention", "2")
    expected = logits.double().log_softmax(-1)[torch.arange(len(gen)), torch.tensor(gen.target_ids)]
    np.testing.assert_allclose(lens.logprobs[2], expected, atol=1e-5)


def test_where_norms_stand_in_the_stream_it_is_taken_behind_them() -> None:
    gen = explained("bert")
    model = tiny("bert")
    kept: list[torch.Tensor] = []
    handle = model.bert.encoder.layer[0].attention.register_forward_hook(lambda _, args, result: kept.append(result[0]))
    with torch.no_grad():
        model(torch.tensor(gen.token_ids)[None])
        handle.remove()
        logits = model.cls(kept[0][0, torch.tensor(gen.rows)])
    lens = gen.lens(after=("attention", "block"))
    expected = logits.double().log_softmax(-1)[torch.arange(len(gen)), torch.tensor(gen.target_ids)]
    np.testing.assert_allclose(lens.logprobs[1], expected, atol=1e-5)
    assert "after them" in lens.notes[0]


# tokens that are watched


def test_watched_tokens_have_the_ranks_and_probabilities_of_their_logits() -> None:
    gen = explained("llama")
    asked = [" cat", " sat", 200]
    lens = gen.lens(watch=asked)
    one = PromptRun.of(gen)
    logits = head_logits(one, one.hidden(), one.rows.tolist())
    found = lens.watch(asked)
    assert found.pieces[:2] == (" cat", " sat")
    for place, token in enumerate(found.ids.tolist()):
        expected = brute(logits, [token] * len(gen))
        assert (found.ranks[..., place] == expected["ranks"]).all()
        np.testing.assert_allclose(found.logprobs[..., place], expected["logprobs"], atol=1e-5)
    later = gen.lens().watch(asked)
    assert (later.ranks == found.ranks).all()
    assert (lens.watch(" sat").ranks[..., 0] == found.ranks[..., 1]).all()


def test_labels_are_watched_by_name() -> None:
    gen = explained("bert_classifier")
    both = gen.lens().watch(["LABEL_0", "LABEL_1"])
    np.testing.assert_allclose(gen.lens(watch=[0, 1, 2]).watched.probs.sum(-1), 1, atol=1e-6)
    assert both.ranks.shape == (LAYERS + 1, 1, 2)
    with pytest.raises(InputError, match=r"'GOOD' is not a label of this model\. It has 3, counted from 0: 'LABEL_0'"):
        gen.lens(watch="GOOD")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"watch": [" cat sat"]}, "' cat sat' is 2 tokens"),
        ({"watch": 9999}, "token 9999 is unknown"),
        ({"after": "heads"}, "give 'attention', 'mlp', 'block'"),
        ({"after": ()}, "or several of these"),
        ({"k": 0}, "1 or more"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        explained("llama").lens(**options)


# every position


@pytest.mark.parametrize("name", [*CAUSAL[:3], *ENCODER_DECODER[:1]])
def test_every_position_has_the_token_that_follows_it(name: str) -> None:
    gen = explained(name)
    lens = gen.lens(positions=True)
    assert lens.targets == gen.pieces[1:]
    assert lens.ranks.shape == (LAYERS + 1, len(gen.read) - 1)
    assert (lens.rows == np.arange(len(gen.read) - 1)).all()
    assert lens.is_written.sum() == len(gen)
    np.testing.assert_allclose(lens.logprobs[:, lens.is_written], gen.lens().logprobs, atol=1e-5)
    assert (lens.ranks[:, lens.is_written] == gen.lens().ranks).all()


def test_every_position_of_a_model_that_sees_both_sides_has_the_token_at_it() -> None:
    gen = explained("bert")
    lens = gen.lens(positions=True)
    assert lens.is_written.sum() == 2
    assert (lens.target_ids[lens.is_written] == gen.target_ids).all()
    assert (lens.target_ids[~lens.is_written] == gen.token_ids[~lens.is_written]).all()
    tags = explained("bert_tagger").lens(positions=True)
    assert (tags.ranks[-1] == 1).all()
    with pytest.raises(InputError, match="classifies whole texts"):
        explained("bert_classifier").lens(positions=True)


# how it is made


@pytest.mark.parametrize("name", ["llama", "t5", "bert"])
@pytest.mark.parametrize("norm", [True, False])
def test_small_pieces_give_the_same_as_one(name: str, norm: bool) -> None:
    gen = explained(name)
    whole = gen.lens(norm, positions=True)
    for limit in (1, 5 * 320 * 4, 40 * 320 * 4):
        found = gen.lens(norm, positions=True, limit=limit)
        assert (found.ranks == whole.ranks).all()
        np.testing.assert_allclose(found.kl, whole.kl, atol=1e-5)
        np.testing.assert_allclose(found.top_logprobs, whole.top_logprobs, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "albert", "t5", "llama_classifier", "bert_classifier"])
def test_nothing_of_the_model_is_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TINY[name]()
    gen = explained(name, model)
    with unchanged(model):
        gen.lens()
        gen.lens(norm=False, after=("attention", "block"))

        def fail(*_: Any) -> None:
            raise KeyError

        monkeypatch.setattr(lens_module, "_check_last_layer", fail)
        for norm in (True, False):
            with pytest.raises(KeyError):
                gen.lens(norm)
        for module in model.modules():
            assert "forward" not in module.__dict__


def test_a_last_row_that_is_not_the_models_is_an_error() -> None:
    model = TINY["gpt2"]()
    gen = explained("gpt2", model)
    own = type(model).forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = own(self, *args, **kwargs)
        result.logits = result.logits + self.transformer.h[0].mlp.c_fc.seen  # past the blocks
        return result

    fc = model.transformer.h[0].mlp.c_fc
    fc.seen = 0.0
    fc.register_forward_hook(lambda module, args, result: setattr(module, "seen", float(result.detach().std())))
    model.register_forward_pre_hook(lambda *_: setattr(fc, "seen", 0.0))
    model.__class__ = type("Leaky", (type(model),), {"forward": forward})
    with pytest.raises(InputError, match="the last layer of this lens differs from the output of Leaky"):
        gen.lens()


def test_half_precision_and_logits_that_are_cut_work() -> None:
    half = TINY["llama"]().bfloat16()
    gen = explained("llama", half)
    lens = gen.lens()
    assert (lens.ranks[-1] == gen.steps.ranks).all()
    model = TINY["gpt2"]()
    with torch.no_grad():
        model.lm_head = torch.nn.Linear(24, 320)
        model.lm_head.bias[:50] = -torch.inf
    cut = explained("gpt2", model).lens(watch=10)
    assert np.isfinite(cut.entropies).all()
    assert np.isfinite(cut.kl).all()
    assert (cut.watched.probs == 0).all()
    assert np.isfinite(cut.logprobs).all()


@given(st.integers(1, 900), st.integers(1, 12), st.integers(0, 3))
def test_the_likeliest_are_those_of_topk(n: int, k: int, seed: int) -> None:
    z = torch.randn(3, n, generator=torch.Generator().manual_seed(seed))
    values, places = top_k(z, k)
    expected = z.topk(min(k, n))
    assert torch.equal(values, expected.values)
    assert torch.equal(places, expected.indices)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 40))
def test_pieces_cover_every_cell_once(n_targets: int, n_layers: int, size: int) -> None:
    n = n_targets * n_layers
    seen = []
    for start in range(0, n, size):
        for target, layers, part in split_by_target(n_targets, n_layers, slice(start, min(n, start + size))):
            assert part.stop - part.start == len(layers)
            seen += [(target, layer) for layer in layers]
    assert seen == [(target, layer) for target in range(n_targets) for layer in range(n_layers - 1, -1, -1)]


# the result


def test_it_is_saved_with_what_was_watched_and_read_without_its_model(tmp_path: Path) -> None:
    gen = explained("llama")
    lens = gen.lens(watch=[" cat", " sat"], after=("attention", "block"))
    lens.save(tmp_path / "lens")
    found = cutaway.load(tmp_path / "lens")
    assert isinstance(found, Lens)
    assert (found.ranks == lens.ranks).all()
    assert (found.top_pieces == lens.top_pieces).all()
    assert found.layers == lens.layers
    assert (found.watch(" sat").ranks == lens.watch(" sat").ranks).all()
    with pytest.raises(InputError, match=r"no model to look up ' the'.*watched are ' cat', ' sat'"):
        found.watch([" the"])
    assert found.text() == lens.text()


def test_settled_is_the_layer_from_which_on_a_token_stays_first() -> None:
    lens = explained("gpt2").lens()
    for target, layer in enumerate(lens.settled.tolist()):
        first = [rank == 1 for rank in lens.ranks[:, target].tolist()]
        assert layer == (-1 if not first[-1] else next(i for i in range(len(first)) if all(first[i:])))


def test_top_gives_texts_and_probabilities_of_each_layer() -> None:
    gen = explained("gpt2")
    lens = gen.lens(k=4)
    rows = lens.top(3, target=1)
    assert len(rows) == len(lens)
    assert rows[-1][0] == (gen.targets.pieces[1], pytest.approx(float(gen.steps.probs[1]), abs=1e-6))
    with pytest.raises(InputError, match=r"gen.lens\(k=9\)"):
        lens.top(9)
    with pytest.raises(InputError, match="target 7"):
        lens.top(1, target=7)
    with pytest.raises(InputError, match="no layer '9'"):
        lens.layer("9")


def test_two_lenses_share_nothing_and_cannot_be_written_to() -> None:
    gen = explained("gpt2")
    one, other = gen.lens(), gen.lens()
    assert not np.shares_memory(one.ranks, other.ranks)
    with pytest.raises(ValueError, match="read-only"):
        one.ranks[0] = 1
    rows = one.table()
    assert len(rows) == len(one) * len(gen)
    assert "Lens: 4 layers × 3 targets" in repr(one)


def test_positions_are_all_or_those_that_were_written() -> None:
    gen = cutaway.generate(tiny("llama"), tokenizer(), "the cat", max_new_tokens=2)
    with pytest.raises(InputError, match="give True for every token that was read"):
        gen.lens(positions=[0, 1])


def test_a_block_that_is_compiled_is_looked_through() -> None:
    plain, model = tiny("llama"), TINY["llama"]()
    model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager")
    one, other = (cutaway.generate(each, tokenizer(), "the cat", text=" sat") for each in (plain, model))
    assert np.allclose(one.lens().logprobs, other.lens().logprobs, atol=1e-5)
    assert np.allclose(one.logit_attribution().values, other.logit_attribution().values, atol=1e-5)
