"""Factors of what a model wrote: of the neurons that were asked for, in the order of the model, text by text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from tests.lm.tiny_lms import CAUSAL, ENCODER_DECODER, LAYERS, MASKED, UNITS, _gpt2, smol, tiny, tokenizer
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm.model.parts import layer_indices
from cutaway.results.lm.factors import Factors
from cutaway.results.lm.generation import Generation

PROMPT = "the cat sat on 1, 2, 3,"
OTHER = "this house stands near"


def written(name: str, prompt: str = PROMPT, **more: Any) -> Generation:
    found: Generation = cutaway.generate(tiny(name), tokenizer(), prompt, **{"max_new_tokens": 5, **more})
    return found


def hooked(model: Any, modules: list[Any], **inputs: Any) -> list[NDArray[np.float32]]:
    """What entered these modules, by hooks of our own."""
    found: list[NDArray[np.float32]] = []
    handles = [m.register_forward_pre_hook(lambda _, args: found.append(args[0][0].numpy())) for m in modules]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    return found


def test_they_are_scikit_learns_of_what_enters_the_down_projections() -> None:
    gen = written("gpt2")
    model = tiny("gpt2")
    ids = torch.tensor(gen.token_ids[None, :-1])  # the last token was never read
    values = np.concatenate(hooked(model, [block.mlp.c_proj for block in model.transformer.h], input_ids=ids), axis=1)
    found = gen.factors(4, start="random", seed=3)
    theirs = NMF(4, init="random", random_state=3, max_iter=500)
    weights = theirs.fit_transform(np.maximum(values, 0))
    order = np.argsort(-weights.sum(axis=0) * theirs.components_.sum(axis=1))
    assert np.allclose(found.weights, weights.T[order], atol=1e-4)
    assert np.allclose(found.units, theirs.components_[order], atol=1e-4)
    assert found.layer_names == tuple(f"transformer.h.{i}.mlp.c_proj@in.0" for i in range(LAYERS))
    assert found.pieces == gen.pieces
    options = {"n": 4, "seed": 3, "start": "random", "layers": None, "at": None, "role": None}
    assert found.about == {"model": "GPT2LMHeadModel", **options}


EVERY = [*CAUSAL, *ENCODER_DECODER, *MASKED, "bert_classifier", "bert_tagger"]


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, "nmf") for name in EVERY), *((name, m) for name in ("llama", "bart", "bert") for m in ("pca", "kmeans"))],
)
def test_every_architecture_and_method(name: str, method: str) -> None:
    gen = cutaway.generate(tiny(name), tokenizer(), "the <mask> sat") if name in MASKED else None
    gen = gen or (cutaway.lm.classify(tiny(name), tokenizer(), PROMPT) if "bert" in name else written(name))
    at = {"at": "backbone.layers.*.mixer.out_proj@in.0"} if name == "mamba" else {}
    found = gen.factors(3, method=method, **at)
    n = len(gen.read) - (name in [*CAUSAL, *ENCODER_DECODER])
    n += len(gen.source) if gen.source is not None else 0
    assert found.weights.shape == (3, n)
    assert len(found.layer_names) == (2 * LAYERS if name in ENCODER_DECODER else LAYERS)
    assert 0 <= found.error < 1
    assert np.allclose(found.transform(gen), found.weights, atol=0.05 * np.abs(found.weights).max())


# defects 4 and 5: which layers, in which order


def test_twelve_layers_stand_in_true_order_and_are_chosen_by_number() -> None:
    model = _gpt2(n_layer=12)
    gen = cutaway.generate(model, tokenizer(), OTHER, max_new_tokens=3)
    ids = torch.tensor(gen.token_ids[None, :-1])
    values = hooked(model, [block.mlp.c_proj for block in model.transformer.h], input_ids=ids)
    choices: list[tuple[Any, list[int]]] = [
        (None, list(range(12))),
        (2, [2]),
        (-1, [11]),
        (slice(9, None), [9, 10, 11]),
        (slice(None, 2), [0, 1]),
        (slice(-2, None), [10, 11]),
        ([10, 2, -1], [2, 10, 11]),
        (range(1, 3), [1, 2]),
    ]
    for layers, expected in choices:
        found = gen.factors(2, layers=layers, method="kmeans")
        assert found.layer_names == tuple(f"transformer.h.{i}.mlp.c_proj@in.0" for i in expected)
        for place, layer in enumerate(expected):
            members = found.members[:, found.layers == place]  # (cluster, unit)
            for f in range(len(found)):
                inside = np.concatenate([values[i] for i in expected], axis=1)[:, found.members[f]]
                assert np.allclose(found.weights[f], inside.mean(axis=1), atol=1e-5)
            assert members.shape[1] == values[layer].shape[1]


@pytest.mark.parametrize("layers", [3, -4, [0, 3], slice(3, None), [], "1", True, 1.5])
def test_layers_that_are_not_there_say_so(layers: Any) -> None:
    with pytest.raises(InputError, match="counted from 0"):
        layer_indices(layers, LAYERS)


# defect 6: results are their own


def test_two_results_never_share_storage() -> None:
    model = tiny("gpt2")
    first = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=4)
    one = first.factors(2)
    before = one.weights.copy(), one.units.copy()
    second = cutaway.generate(model, tokenizer(), OTHER, max_new_tokens=4)
    two = second.factors(2)
    two.page().text(), one.page().text()
    moved = one.on(second)
    assert np.array_equal(one.weights, before[0])
    assert np.array_equal(one.units, before[1])
    assert not np.shares_memory(one.weights, two.weights)
    assert not np.shares_memory(one.of_text(0).weights, one.weights)
    assert not np.shares_memory(one.weights, moved.weights)
    with pytest.raises(ValueError, match="read-only"):
        one.weights[0, 0] = 1


# defect 7: several texts


def test_each_text_of_several_shows_its_own_factors() -> None:
    gens = cutaway.generate(tiny("llama"), tokenizer(), [PROMPT, OTHER, "1, 2,"], max_new_tokens=4)
    together = cutaway.lm.factors(gens, 3)
    assert [text.name for text in together.texts] == ["0", "1", "2"]
    assert together.n_positions == sum(len(gen.read) - 1 for gen in gens)
    for i, gen in enumerate(gens):
        own = together.of_text(i)
        assert own.pieces == gen.pieces
        assert own.n_positions == len(gen.read) - 1
        # the same factors, asked of this text alone
        assert np.allclose(own.weights, together.transform(gen), atol=0.03 * together.weights.max())
        start = sum(len(each.read) for each in gens[:i])
        there = together.shown[:, start : start + len(gen.read)]
        assert np.array_equal(there, own.shown, equal_nan=True)
    with pytest.raises(InputError, match="there is no text 3: there are 3"):
        together.of_text(3)


def test_batched_generations_have_the_factors_of_single_ones() -> None:
    batched = cutaway.generate(tiny("llama"), tokenizer(), [PROMPT, OTHER], max_new_tokens=4)
    for gen, prompt in zip(batched, [PROMPT, OTHER], strict=True):
        alone = written("llama", prompt, max_new_tokens=4)
        assert np.allclose(gen.factors(2).weights, alone.factors(2).weights, atol=1e-5)


# defect 11: encoder and decoder


@pytest.mark.parametrize("name", ENCODER_DECODER)
def test_neurons_of_encoder_and_decoder_are_both_there(name: str) -> None:
    gen = written(name)
    found = gen.factors(4)
    assert found.n_units == 2 * LAYERS * UNITS
    assert [text.name for text in found.texts] == ["encoder", "decoder"]
    encoder, decoder = found.texts
    assert gen.source is not None
    assert encoder.pieces == gen.source.pieces
    assert encoder.n_prompt is None
    assert decoder.pieces == gen.pieces
    assert decoder.n_prompt == gen.n_prompt
    assert (decoder.start, decoder.end) == (len(gen.source), len(gen.source) + len(gen.read) - 1)
    alone = gen.factors(2, role="decoder", layers=-1)
    assert alone.n_units == UNITS
    assert "decoder" in alone.layer_names[0]
    assert np.array_equal(alone.weights, gen.factors(2, role="decoder", layers=[LAYERS - 1]).weights)
    with pytest.raises(InputError, match="role='encoder': GPT2LMHeadModel has 'decoder'"):
        written("gpt2").factors(2, role="encoder")


# defect 16: what is not there


def test_what_cannot_be_taken_says_how_to_get_it(tmp_path: Path) -> None:
    gen = written("gpt2")
    with pytest.raises(InputError, match=r"at='backbone\.layers"):
        written("mamba").factors(2)
    with pytest.raises(InputError, match=r"cutaway\.lm\.factorize"):
        cutaway.lm.factors(np.ones((3, 4)), 2)  # type: ignore[arg-type]
    gen.save(tmp_path / "gen")
    again: Any = cutaway.load(tmp_path / "gen")
    with pytest.raises(InputError, match="with_model"):
        again.factors(2)
    with pytest.raises(InputError, match="leave out '#"):
        gen.factors(2, at="transformer.h.0.mlp.c_proj@in.0#3")
    with pytest.raises(InputError, match="use its model"):
        gen.factors(2).on(written("llama"))
    with pytest.raises(InputError, match=r"factors.transform\(values\)"):
        cutaway.lm.factorize(np.eye(3), 2).on(gen)


# what a factor says


def test_given_tokens_show_how_they_were_answered_and_written_ones_what_made_them() -> None:
    gen = written("gpt2")
    found = gen.factors(3)
    n = gen.n_prompt
    assert np.array_equal(found.shown[:, :n], found.weights[:, :n])
    assert np.array_equal(found.shown[:, n:], found.weights[:, gen.rows])  # the rows that made them
    assert np.array_equal(found.shown[:, n - 1], found.shown[:, n])
    assert np.isnan(found.responses[:, -1]).all()
    assert np.isnan(found.causes[:, 0]).all()
    assert found.is_written.tolist() == [False] * n + [True] * len(gen)
    for factor in range(3):
        token, value = found.top_written(factor, 1)[0]
        own = [found.causes[factor, n + t] for t, piece in enumerate(gen.targets.pieces) if piece == token]
        assert value == pytest.approx(np.mean(own))
        token, value = found.top_tokens(factor, 1)[0]
        own = [found.weights[factor, p] for p, piece in enumerate(gen.pieces[:-1]) if piece == token]
        assert value == pytest.approx(np.mean(own))
    assert not written("bert", "the <mask> sat", max_new_tokens=20).factors(2).is_written.any()


def test_the_strongest_factor_does_not_depend_on_where_nmf_puts_the_size() -> None:
    found = written("gpt2").factors(3)
    times = np.array([[1.0], [100.0], [0.01]])
    other = Factors(
        *("nmf", found.weights * times, found.units / times, found.layer_names, found.layers, found.indices),
        found.error,
    )
    assert np.array_equal(found.strongest, other.strongest)
    sizes = np.stack([np.outer(w, u) for w, u in zip(found.weights, found.units, strict=True)])
    assert np.array_equal(found.strongest, np.linalg.norm(sizes, axis=2).argmax(axis=0))


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "llama", "phi", "bloom", "opt"])
def test_top_neurons_are_sites_that_edit_takes_and_the_text_changes(name: str) -> None:
    gen = written(name)
    names = [unit for f in range(2) for unit, _ in gen.factors(2).top_units(f, 30)]
    with cutaway.edit(tiny(name), at=names, to=0):
        without = cutaway.generate(tiny(name), tokenizer(), PROMPT, text=gen.token_ids[gen.n_prompt :])
    assert not np.allclose(without.steps.logits, gen.steps.logits)


def test_the_same_factors_on_another_text() -> None:
    gen, other = written("gpt2"), written("gpt2", OTHER)
    found = gen.factors(3, layers=[0, 2], tolerance=1e-9, max_iter=5000)
    moved = found.on(other)
    assert np.array_equal(moved.units, found.units)
    assert moved.pieces == other.pieces
    assert np.array_equal(moved.weights, found.transform(other))
    assert moved.error >= other.factors(3, layers=[0, 2], tolerance=1e-9, max_iter=5000).error - 0.02
    both = found.on([gen, other])
    assert np.allclose(both.of_text(0).weights, found.weights, atol=0.01 * found.weights.max())
    assert np.allclose(both.of_text(1).weights, moved.weights, atol=1e-6)


@pytest.mark.parametrize("method", ["nmf", "pca", "kmeans"])
def test_they_are_saved_and_shown(method: Any, tmp_path: Path) -> None:
    gens = [written("t5"), written("t5", OTHER)]
    found = cutaway.lm.factors(gens, 3, method=method)
    found.save(tmp_path / "factors")
    again: Any = cutaway.load(tmp_path / "factors")
    assert np.array_equal(again.weights, found.weights)
    assert again.texts == found.texts
    assert again.text() == found.text()
    assert np.allclose(again.on(gens).weights, found.on(gens).weights)
    page = found.page()
    assert page.topic == "language"
    assert "1 decoder" in page.text(200)


def test_nothing_of_the_model_is_changed() -> None:
    model = _gpt2()
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=3)
    with unchanged(model):
        gen.factors(2)


@pytest.mark.slow
def test_factors_of_a_counting_model_tell_numbers_from_commas() -> None:
    model, words = smol()
    gen = cutaway.generate(model, words, " 1, 2, 3, 4, 5,", max_new_tokens=24)
    found = gen.factors(4)
    assert found.n_units == 30 * 1536
    is_comma = np.array([piece.strip() == "," for piece in gen.targets.pieces])
    causes = found.causes[:, gen.n_prompt :]
    apart = [causes[f, is_comma].mean() / causes[f].mean() for f in range(4)]
    assert max(apart) > 1.5  # one fires for commas
    assert min(apart) < 0.5  # one for what is none
