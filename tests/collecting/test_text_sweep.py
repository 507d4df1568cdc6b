"""Text through models: what is collected is what transformers computes, whatever the batch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.collecting import tiny
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

import cutaway
from cutaway.collecting.collect import collect
from cutaway.core.errors import InputError, SiteError

SENTENCES = [
    "A  good-looking house stands near the river .",
    "Mauritians play [MASK] 😀 sport",
    "cats",
    "reading and writing , playing and singing every day on the mat near the river",
    "the cat sat",
    "sport qu' on aime",
]


@torch.no_grad()
def hidden_states(model: nn.Module, tokenizer: Any, sentence: str, **more: Any) -> tuple[Tensor, ...]:
    """One sentence alone, as transformers itself gives it."""
    encoded = tokenizer(sentence, return_tensors="pt")
    states = model(**encoded, output_hidden_states=True, **more).hidden_states
    return tuple(state[0] for state in states)


def last_tokens(tokenizer: Any, sentence: str) -> list[int]:
    """The last token of every word, by the characters it covers."""
    spans = tokenizer(sentence, return_offsets_mapping=True)["offset_mapping"]
    found, at = [], 0
    for word in sentence.split():
        at = sentence.index(word, at)
        end = at + len(word)
        found.append(max(i for i, (a, b) in enumerate(spans) if a < end and b > at and a < b))
        at = end
    return found


def test_hidden_states_of_minilm_are_those_of_transformers() -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at=["embeddings", "encoder.layer.*"], aggregate="last")
    assert acts.sites == ("embeddings", *(f"encoder.layer.{i}" for i in range(6)))
    assert acts.sentences == [sentence.split() for sentence in SENTENCES]
    for i, sentence in enumerate(SENTENCES):
        states = hidden_states(model, tokenizer, sentence)
        wanted = torch.cat(states, -1)[last_tokens(tokenizer, sentence)].numpy()
        np.testing.assert_allclose(acts.rows(acts.items == i).array(), wanted, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_and_order_do_not_matter(batch_size: int) -> None:
    model, tokenizer = tiny.minilm()
    at = ["encoder.layer.2", "encoder.layer.5.intermediate"]
    whole = collect(model, SENTENCES, tokenizer=tokenizer, at=at).array()
    some = collect(model, SENTENCES, tokenizer=tokenizer, at=at, batch_size=batch_size)
    np.testing.assert_allclose(some.array(), whole, atol=1e-5)
    back = collect(model, SENTENCES[::-1], tokenizer=tokenizer, at=at, batch_size=batch_size)
    rows = np.concatenate([np.flatnonzero(back.items == i) for i in reversed(range(len(SENTENCES)))])
    np.testing.assert_allclose(back.array()[rows], whole, atol=1e-5)


@pytest.mark.parametrize(
    ("aggregate", "pool"),
    [
        ("first", lambda x: x[0]),
        ("last", lambda x: x[-1]),
        ("average", lambda x: x.mean(0)),
        ("max", lambda x: x.amax(0)),
    ],
)
def test_tokens_of_a_word_become_one_row(aggregate: Any, pool: Any) -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(model, ["hello Mauritians"], tokenizer=tokenizer, at="encoder.layer.1", aggregate=aggregate)
    state = hidden_states(model, tokenizer, "hello Mauritians")[2]
    np.testing.assert_allclose(acts.array()[1], pool(state[2:6]).numpy(), atol=1e-5)
    assert acts.tokens.tolist() == [[1, 1], [2, 5]]
    items = collect(
        model,
        ["hello Mauritians", "cats"],
        tokenizer=tokenizer,
        at="encoder.layer.1",
        aggregate=aggregate,
        rows="items",
    )
    assert items.words[0] == "hello Mauritians"
    np.testing.assert_allclose(items.array()[0], pool(state[1:6]).numpy(), atol=1e-5)


def test_whole_pairs_leave_out_the_token_between() -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(
        model,
        [("a cat", "a dog"), "cats"],
        tokenizer=tokenizer,
        at="encoder.layer.1",
        aggregate="average",
        rows="items",
    )
    with torch.no_grad():
        encoded = tokenizer("a cat", "a dog", return_tensors="pt")
        state = model(**encoded, output_hidden_states=True).hidden_states[2][0]
    np.testing.assert_allclose(acts.array()[0], state[[1, 2, 4, 5]].mean(0).numpy(), atol=1e-5)


def test_words_of_pairs_are_rows_with_the_types_of_their_sentence() -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(model, [("a cat", ["a", "dog"])], tokenizer=tokenizer, at="encoder.layer.1")
    assert (list(acts.words), acts.word_index.tolist()) == (["a", "cat", "a", "dog"], [0, 1, 2, 3])
    with torch.no_grad():
        state = model(**tokenizer("a cat", "a dog", return_tensors="pt"), output_hidden_states=True).hidden_states[2][0]
    np.testing.assert_allclose(acts.array(), state[[1, 2, 4, 5]].numpy(), atol=1e-5)


def test_special_tokens_have_rows_where_they_are_asked_for() -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(model, ["a cat"], tokenizer=tokenizer, at="encoder.layer.1", special=True)
    assert list(acts.words) == ["[CLS]", "a", "cat", "[SEP]"]
    assert acts.word_index.tolist() == [-1, 0, 1, -1]
    np.testing.assert_allclose(acts.array(), hidden_states(model, tokenizer, "a cat")[2].numpy(), atol=1e-5)


def test_inputs_heads_and_ops_inside_modules_can_be_collected() -> None:
    model, tokenizer = tiny.minilm()
    layer = "encoder.layer.1"
    at = [
        f"{layer}.attention.output.dense@in.0",
        f"{layer}.attention.self",
        f"{layer}.intermediate.intermediate_act_fn/gelu",
        f"{layer}.intermediate",
    ]
    acts = collect(model, SENTENCES[:3], tokenizer=tokenizer, at=at)
    assert acts.sites == tuple(at), "in the order asked for"
    np.testing.assert_array_equal(acts[at[0]].array(), acts[at[1]].array())
    np.testing.assert_array_equal(acts[at[2]].array(), acts[at[3]].array())
    assert acts[at[3]].n_units == 1536
    with torch.no_grad(), cutaway.watch(model, save=at[3]) as trace:
        model(**tokenizer(SENTENCES[1], return_tensors="pt"))
    wanted = trace[at[3]].value[0, last_tokens(tokenizer, SENTENCES[1])]
    np.testing.assert_allclose(acts[at[3]].rows(acts.items == 1).array(), wanted.numpy(), atol=1e-5)


def test_a_collected_unit_can_be_edited_by_its_name() -> None:
    model, tokenizer = tiny.minilm()
    acts = collect(model, ["a cat"], tokenizer=tokenizer, at=[".", "encoder.layer.1"])
    for name in (acts.names[5], acts.names[384 + 5]):
        with cutaway.edit(model, at=name, to=7.0):
            edited = collect(model, ["a cat"], tokenizer=tokenizer, at=[".", "encoder.layer.1"])
        changed = edited.array()[:, list(acts.names).index(name)]
        np.testing.assert_array_equal(changed, 7.0)


def test_several_passes_of_one_module_are_several_sites() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(400, 6)
            self.cell = nn.Linear(6, 6)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.cell(self.cell(self.embed(input_ids)).relu())

    torch.manual_seed(0)
    model = Twice()
    acts = collect(model, SENTENCES, tokenizer=tiny.gpt2(), at=["cell", "./relu"])
    assert set(acts.sites) == {"cell:1", "cell:2", "./relu"}
    np.testing.assert_array_equal(acts["cell:1"].array().clip(0), acts["./relu"].array())
    assert collect(model, SENTENCES, tokenizer=tiny.gpt2(), at="cell:2").sites == ("cell:2",)


def tiny_gpt2() -> nn.Module:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=400, n_positions=128, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    return GPT2Model(config)


def test_causal_models_with_a_tokenizer_that_pads_left() -> None:
    model, tokenizer = tiny_gpt2(), tiny.gpt2()
    assert tokenizer.padding_side == "left"
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at=["h.0", "h.1.mlp.act"], batch_size=3)
    model.eval()
    for i, sentence in enumerate(SENTENCES):
        wanted = hidden_states(model, tokenizer, sentence)[1][last_tokens(tokenizer, sentence)]
        np.testing.assert_allclose(acts["h.0"].rows(acts.items == i).array(), wanted.numpy(), atol=1e-5)


def tiny_t5() -> Any:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=100, d_model=24, d_ff=32, d_kv=8, num_layers=2, num_heads=3, decoder_start_token_id=0, pad_token_id=0
    )
    return T5ForConditionalGeneration(config)


def test_the_encoder_of_an_encoder_decoder() -> None:
    model, tokenizer = tiny_t5(), tiny.sentencepiece()
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at="encoder.block.*", batch_size=4)
    assert acts.sites == ("encoder.block.0", "encoder.block.1") or acts.sites == (
        "encoder.block.0@out.0",
        "encoder.block.1@out.0",
    )
    model.eval()
    for i, sentence in enumerate(SENTENCES):
        wanted = hidden_states(model.get_encoder(), tokenizer, sentence)[1][last_tokens(tokenizer, sentence)]
        np.testing.assert_allclose(acts.at(acts.sites[0]).rows(acts.items == i).array(), wanted.numpy(), atol=1e-5)


def test_the_decoder_reads_the_targets() -> None:
    model, tokenizer = tiny_t5(), tiny.sentencepiece()
    targets = SENTENCES[::-1]
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at="decoder.block.0", targets=targets, batch_size=4)
    assert acts.sentences == [target.split() for target in targets]
    model.eval()
    for i, (source, target) in enumerate(zip(SENTENCES, targets, strict=True)):
        labels = tokenizer(target, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = model(
                **tokenizer(source, return_tensors="pt"),
                decoder_input_ids=model._shift_right(labels),
                output_hidden_states=True,
            ).decoder_hidden_states
        wanted = states[1][0, [at + 1 for at in last_tokens(tokenizer, target)]]
        np.testing.assert_allclose(acts.rows(acts.items == i).array(), wanted.numpy(), atol=1e-5)


def test_the_two_sides_are_not_mixed_up() -> None:
    model, tokenizer = tiny_t5(), tiny.sentencepiece()
    with pytest.raises(InputError, match=r"'decoder\.block\.0' is not in the encoder: pass .* targets="):
        collect(model, SENTENCES, tokenizer=tokenizer, at="decoder.block.0")
    with pytest.raises(InputError, match=r"'encoder\.block\.0' is in the encoder"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="encoder.block.0", targets=SENTENCES)
    with pytest.raises(InputError, match="6 items and 1 target"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="decoder.block.0", targets=["a"])
    with pytest.raises(InputError, match="item 2 has no target"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="decoder.block.0", targets=iter(["a", "b"]))
    with pytest.raises(InputError, match="more targets than items"):
        collect(model, iter(["a"]), tokenizer=tokenizer, at="decoder.block.0", targets=["a", "b"])
    with pytest.raises(InputError, match="encoder–decoder models, but GPT2Model is not one"):
        collect(tiny_gpt2(), SENTENCES, tokenizer=tiny.gpt2(), at="h.0", targets=SENTENCES)


def test_bart_and_models_that_return_attentions_too() -> None:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(
        vocab_size=100, d_model=16, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=64, pad_token_id=0,
        output_attentions=True, attn_implementation="eager", **sizes,
    )  # fmt: skip
    model, tokenizer = BartModel(config), tiny.sentencepiece()
    acts = collect(model, SENTENCES[:3], tokenizer=tokenizer, at="encoder.layers.0")
    assert acts.n_units == 16
    wanted = hidden_states(model.eval().get_encoder(), tokenizer, SENTENCES[1])[1][last_tokens(tokenizer, SENTENCES[1])]
    np.testing.assert_allclose(acts.rows(acts.items == 1).array(), wanted.numpy(), atol=1e-5)


def test_a_model_without_mask_is_given_sentences_of_one_length_only() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(400, 6)
            self.rnn = nn.LSTM(6, 5, bidirectional=True, batch_first=True)

        def forward(self, ids: Tensor) -> Tensor:
            return self.rnn(self.embed(ids))[0]

    torch.manual_seed(0)
    model, tokenizer = Tagger(), tiny.gpt2()
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at="rnn")
    assert acts.sites == ("rnn@out.0",)
    for i, sentence in enumerate(SENTENCES):
        with torch.no_grad():
            wanted = model(tokenizer(sentence, return_tensors="pt")["input_ids"])[0, last_tokens(tokenizer, sentence)]
        np.testing.assert_allclose(acts.rows(acts.items == i).array(), wanted.numpy(), atol=1e-5)


def test_attention_maps_are_no_rows_and_parts_of_heads_are_named() -> None:
    config = BertConfig(
        vocab_size=30522, hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=8,
        attn_implementation="eager",
    )  # fmt: skip
    model, tokenizer = BertModel(config), tiny.minilm()[1]
    with pytest.raises(InputError, match=r"has shape \[5, 3, \d, \d\] .* a row would not be a vector"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="encoder.layer.0.attention.self@out.1")
    with pytest.raises(InputError, match="'pooler' has no positions"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="pooler")
    assert collect(model, SENTENCES, tokenizer=tokenizer, at="pooler", rows="items").shape == (6, 24)


def test_torchs_own_encoder_with_padding_is_seen() -> None:
    class Encoding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(400, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)

    torch.manual_seed(0)
    model, tokenizer = Encoding(), tiny.gpt2()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of nested tensors
        acts = collect(model, SENTENCES, tokenizer=tokenizer, at=["encoder.layers.*", "encoder.layers.0.linear1"])
    model.eval()
    for i, sentence in enumerate(SENTENCES):
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            wanted = model.encoder(model.embed(ids))[0, last_tokens(tokenizer, sentence)]
        found = acts["encoder.layers.1"].rows(acts.items == i).array()
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def test_positions_behind_the_padding_are_not_counted() -> None:
    """RoBERTa's embeddings have two more rows than there are positions."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = RobertaModel(RobertaConfig(vocab_size=400, max_position_embeddings=22, pad_token_id=1, **sizes))
    with pytest.warns(UserWarning, match="exceed max_length=20"):
        collect(model, ["cats", "cat " * 30], tokenizer=tiny.gpt2(), at="encoder.layer.0")


def test_bfloat16_models_are_kept_as_float32() -> None:
    model, tokenizer = tiny_gpt2().to(torch.bfloat16), tiny.gpt2()
    acts = collect(model, SENTENCES, tokenizer=tokenizer, at="h.0", aggregate="average")
    assert acts.dtype == np.float32
    assert np.isfinite(acts.array()).all()


def test_sites_that_do_not_run_are_told_at_once() -> None:
    model, tokenizer = tiny.minilm()
    with pytest.raises(SiteError, match=r"matches no module, parameter or buffer of this model\. Nearest"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="encoder.layers.3")
    with pytest.raises(SiteError, match=r"nothing ran at 'encoder\.layer\.0/tanh'"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="encoder.layer.0/tanh")
    with pytest.raises(InputError, match="names a unit: collect the whole site 'embeddings'"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="embeddings#3")
    with pytest.raises(InputError, match="is a parameter or buffer"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="embeddings.word_embeddings.weight")
