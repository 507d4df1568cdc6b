"""Masks are filled and labels are given as the model itself does, for whichever label is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.lm.tiny_lms import MASK, MASKED, TINY, tiny, tokenizer
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError

TEXT = "the <mask> sat on <mask> mat"


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_filled_with_the_likeliest_token(name: str) -> None:
    gen = cutaway.generate(tiny(name), tokenizer(), TEXT)
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = tiny(name)(input_ids=ids).logits[0]
    rows = (ids[0] == MASK).nonzero()[:, 0].tolist()
    assert (gen.kind, gen.rows.tolist()) == ("masked", rows)
    assert gen.target_ids.tolist() == logits[rows].argmax(-1).tolist()
    assert gen.token_ids.tolist() == ids[0].tolist(), "what is explained is the text with its masks"
    np.testing.assert_allclose(gen.steps.probs, logits[rows].softmax(-1).amax(-1), rtol=1e-5)
    filled = ids[0].clone()
    filled[rows] = logits[rows].argmax(-1)
    assert gen.text == tokenizer().decode(filled, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_what_stands_in_the_masks_can_be_given() -> None:
    gen = cutaway.lm.fill(tiny("bert"), tokenizer(), "the <mask> sat", text=" cat")
    assert gen.text == "the  cat sat"
    assert gen.targets.pieces == (" cat",)


@pytest.mark.parametrize("name", ["bert_classifier", "llama_classifier"])
def test_a_sequence_gets_the_label_the_model_gives_it(name: str) -> None:
    gen = cutaway.lm.classify(tiny(name), tokenizer(), "the cat sat")
    with torch.no_grad():
        logits = tiny(name)(**tokenizer()("the cat sat", return_tensors="pt")).logits[0]
    assert (gen.kind, gen.rows.tolist()) == ("classifier", [0])
    assert gen.target_ids.tolist() == [int(logits.argmax())]
    assert gen.text == f"LABEL_{int(logits.argmax())}"
    asked = cutaway.lm.classify(tiny(name), tokenizer(), "the cat sat", target=["LABEL_2", 0])
    assert asked.targets.tokens == ("LABEL_2", "LABEL_0")
    np.testing.assert_allclose(asked.steps.logits, logits[[2, 0]], rtol=1e-4, atol=1e-5)
    assert asked.steps.candidate_pieces[0][0] == gen.text


def test_generate_labels_too() -> None:
    gen = cutaway.generate(tiny("bert_classifier"), tokenizer(), "the cat sat")
    assert gen.text == cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the cat sat").text


def test_tokens_get_labels_each() -> None:
    model = tiny("bert_tagger")
    gen = cutaway.lm.classify(model, tokenizer(), "<s>the cat sat</s>")
    ids = tokenizer()("<s>the cat sat</s>", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
    assert gen.rows.tolist() == list(range(1, ids.shape[1] - 1)), "special tokens are left out"
    assert gen.target_ids.tolist() == logits[1:-1].argmax(-1).tolist()
    chosen = cutaway.lm.classify(model, tokenizer(), "the cat sat", target=["LABEL_1", "LABEL_3"], positions=[1])
    assert chosen.rows.tolist() == [1, 1]
    assert chosen.target_ids.tolist() == [1, 3]


def test_several_texts_give_several_answers() -> None:
    texts = ["the cat", "she likes"]
    found = cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), texts)
    assert [gen.prompt for gen in found] == texts
    assert [len(gen) for gen in cutaway.lm.fill(tiny("bert"), tokenizer(), [TEXT, "<mask>"])] == [2, 1]


def test_a_pair_of_texts_is_told_apart() -> None:
    class Paired:
        """A tokenizer that gives types to tokens, as BERT's does."""

        is_fast = True
        all_special_ids = (1,)

        def __call__(self, one: str, other: str | None = None, **options: Any) -> Any:
            class Found(dict[str, list[int]]):
                def sequence_ids(self) -> list[int | None]:
                    return [None, 0, 0, None, 1]

            return Found(input_ids=[1, 60, 61, 1, 62], token_type_ids=[0, 0, 0, 0, 1])

        def __len__(self) -> int:
            return 320

        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return tokenizer().convert_ids_to_tokens(ids)  # type: ignore[no-any-return]

    own = Paired()
    model = tiny("bert_classifier")
    gen = cutaway.lm.classify(model, own, ("the cat", "sat"))
    with torch.no_grad():
        given = {"input_ids": [[1, 60, 61, 1, 62]], "token_type_ids": [[0, 0, 0, 0, 1]]}
        logits = model(**{name: torch.tensor(value) for name, value in given.items()}).logits[0]
    assert gen.steps.logits[0] == pytest.approx(float(logits.max()), abs=1e-5)
    assert {s.name: (s.start, s.end) for s in gen.read.segments} == {"first": (1, 3), "second": (4, 5)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cutaway.lm.fill(tiny("bert"), tokenizer(), "the cat"), "has no mask: write <mask> in place"),
        (lambda: cutaway.lm.fill(tiny("gpt2"), tokenizer(), TEXT), "GPT2LMHeadModel is not a masked language model"),
        (lambda: cutaway.lm.fill(tiny("bert"), tokenizer(), TEXT, text=" cat"), "has 1 tokens for 2 masks"),
        (lambda: cutaway.lm.fill(tiny("bert"), object(), TEXT), "has no mask token"),
        (lambda: cutaway.lm.classify(tiny("bert"), tokenizer(), "the"), "BertForMaskedLM is not a classifier"),
        (
            lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the", target="LABEL_9"),
            "not a label of this model. Did you mean 'LABEL_2'",
        ),
        (
            lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the", target=3),
            "It has 3, counted from 0",
        ),
        (lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the", positions=[0]), "whole texts"),
        (lambda: cutaway.lm.classify(tiny("bert_tagger"), tokenizer(), "the", positions=[9]), "the text has 1 tokens"),
        (
            lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), " the" * 80),
            "the prompt has 80 tokens, but BertForSequenceClassification reads at most 64: shorten it",
        ),
        (lambda: cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), ""), "the prompt is empty: give"),
        (lambda: cutaway.generate(tiny("bert"), tokenizer(), TEXT, do_sample=True), "does not generate step by step"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_nothing_of_the_model_is_changed() -> None:
    for name, text in (("bert", TEXT), ("bert_tagger", "the cat"), ("llama_classifier", "the cat")):
        model = TINY[name]()
        with unchanged(model):
            cutaway.generate(model, tokenizer(), text)


def test_texts_for_several_masks_and_positions_from_the_end() -> None:
    found = cutaway.lm.fill(tiny("bert"), tokenizer(), ["the <mask>", "<mask> sat"], text=[" cat", "the"])
    assert [gen.targets.pieces for gen in found] == [(" cat",), ("the",)]
    with pytest.raises(InputError, match="1 texts were given for 2 prompts"):
        cutaway.lm.fill(tiny("bert"), tokenizer(), ["the <mask>", "<mask> sat"], text=["the"])
    gen = cutaway.lm.classify(tiny("bert_tagger"), tokenizer(), "the cat sat", positions=[-1])
    assert gen.rows.tolist() == [len(gen.token_ids) - 1]


def test_labels_that_do_not_rule_each_other_out_are_judged_each_by_itself() -> None:
    model = TINY["bert_classifier"]()
    model.config.problem_type = "multi_label_classification"
    gen = cutaway.lm.classify(model, tokenizer(), "the cat sat", target=[0, 1, 2])
    with torch.no_grad():
        logits = model(**tokenizer()("the cat sat", return_tensors="pt")).logits[0].double()
    p = logits.sigmoid()
    np.testing.assert_allclose(gen.steps.probs, p, rtol=1e-5)
    entropy = -(p * p.log() + (1 - p) * (1 - p).log()).sum()
    np.testing.assert_allclose(gen.steps.entropies, [float(entropy)] * 3, rtol=1e-5)
    leaf = model.get_input_embeddings()(torch.tensor(gen.token_ids)[None]).detach().requires_grad_()
    value = torch.nn.functional.logsigmoid(model(inputs_embeds=leaf).logits[0, 1])
    (g,) = torch.autograd.grad(value, leaf)
    np.testing.assert_allclose(gen.saliency().signed[1], (g * leaf).sum(-1)[0].detach(), atol=1e-6)


def test_a_number_has_no_probability_and_is_explained_as_it_is() -> None:
    model = TINY["bert_classifier"]()
    model.classifier = torch.nn.Linear(model.classifier.in_features, 1)
    model.config.num_labels = model.num_labels = 1
    gen = cutaway.lm.classify(model, tokenizer(), "the cat sat")
    assert np.isnan(gen.steps.probs).all()
    found = gen.saliency()
    assert found.target == "logit"
    assert np.isfinite(found.scores).all()
    assert "nan" not in gen.page().text().replace("Provenance", "")
    with pytest.raises(InputError, match="is a regression model without probabilities"):
        gen.saliency(target="probability")


def test_a_text_beyond_the_positions_of_a_model_is_a_sentence() -> None:
    model = TINY["roberta"]()
    config = type(model.config).from_dict({**model.config.to_dict(), "num_labels": 2})
    judge = transformers.RobertaForSequenceClassification(config)
    with pytest.raises(InputError, match="shorten"):
        cutaway.lm.classify(judge, None, [5] * config.max_position_embeddings)
