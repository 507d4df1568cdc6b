"""What is generated is what the model's own `generate` writes, and is kept as it was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.lm.tiny_lms import (
    BOS,
    CAUSAL,
    CLASSIFIERS,
    CONTEXT,
    ENCODER_DECODER,
    EOS,
    MASKED,
    PAD,
    TINY,
    VOCAB,
    smol,
    tiny,
    tokenizer,
)
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm.generation.model_kind import kind_of
from cutaway.results.lm.generation import Generation

PROMPT = "1, 2, 3, the cat"
PROMPTS = ["1, 2, 3,", "the cat sat on the", "she", "1, 2, 3, 4, 5, 6,"]


def written(model: Any, prompt: str = PROMPT, **how: Any) -> list[int]:
    """What the model's own `generate` writes."""
    encoded = tokenizer()(prompt, return_tensors="pt")
    torch.manual_seed(how.pop("seed", 0))
    sequences = model.generate(**encoded, max_new_tokens=6, **{"do_sample": False, **how})[0].tolist()
    found: list[int] = sequences[1:] if model.config.is_encoder_decoder else sequences[encoded["input_ids"].shape[1] :]
    return found


def test_options_of_a_configuration_count_as_if_they_were_said() -> None:
    model = tiny("llama")
    sampled = transformers.GenerationConfig(do_sample=True, temperature=1.5, eos_token_id=EOS, pad_token_id=PAD)
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, generation_config=sampled, seed=3)
    assert gen.target_ids.tolist() == written(model, do_sample=True, temperature=1.5, seed=3)
    assert gen.steps.drawn is not None
    model = TINY["llama"]()
    model.generation_config.repetition_penalty = 5.0
    given = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, generation_config=sampled, seed=3)
    assert given.target_ids.tolist() == gen.target_ids.tolist()
    assert "repetition_penalty" not in given.decoding, "that of the model does not hold"
    wide = transformers.GenerationConfig(num_beams=3, eos_token_id=EOS, pad_token_id=PAD)
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, generation_config=wide)
    assert gen.beams is not None
    assert gen.target_ids.tolist() == written(model, num_beams=3)


def test_what_a_model_brings_along_is_told() -> None:
    model = TINY["llama"]()
    assert "repetition_penalty" not in cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6).decoding
    model.generation_config.repetition_penalty = 5.0
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6)
    assert gen.target_ids.tolist() == written(model)
    assert gen.decoding["repetition_penalty"] == 5.0
    assert gen.steps.kept is not None
    plain = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=6, use_cache=False)
    assert plain.steps.kept is None, "nothing was changed"


class Ban:
    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores[:, self.number] = -torch.inf
        return scores


@pytest.mark.parametrize("n_beams", [1, 3])
def test_processors_of_logits_hold_with_beams_too(n_beams: int) -> None:
    model = tiny("llama")
    banned = int(cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6).target_ids[0])
    processors = transformers.LogitsProcessorList([Ban(banned)])
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, num_beams=n_beams, logits_processor=processors)
    assert banned not in gen.target_ids
    assert gen.target_ids.tolist() == written(model, num_beams=n_beams, logits_processor=processors)


def test_prompts_that_are_drawn_for_are_drawn_for_as_if_alone() -> None:
    model = tiny("gpt2")
    for how in ({"do_sample": True}, {"temperature": 1.0}, {"top_p": 1.0}):
        together = cutaway.generate(model, tokenizer(), PROMPTS, max_new_tokens=2, seed=1, **how)
        alone = [cutaway.generate(model, tokenizer(), prompt, max_new_tokens=2, seed=1, **how) for prompt in PROMPTS]
        assert [gen.target_ids.tolist() for gen in together] == [gen.target_ids.tolist() for gen in alone]
        assert all(gen.steps.drawn is not None for gen in together)


def test_a_text_ends_at_a_string() -> None:
    model = tiny("llama")
    whole = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6)
    end = whole.targets.pieces[2].strip() or whole.targets.pieces[2]
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, stop_strings=[end])
    assert len(gen) < len(whole)
    assert end in gen.text


def test_the_kind_of_a_model_is_not_taken_from_an_edited_one() -> None:
    model = TINY["bert"]()
    text = "the <mask> sat"
    sites = [f"bert.encoder.layer.{i}.attention.output.dense" for i in range(3)]
    with cutaway.edit(model, at=sites, to=0):
        assert cutaway.lm.fill(model, tokenizer(), text).kind == "masked"
    assert cutaway.lm.fill(model, tokenizer(), text).kind == "masked"


def test_threads_that_ask_one_model_leave_it_as_it_was() -> None:
    model = TINY["llama"]().train()
    expected = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=4).target_ids.tolist()
    with ThreadPoolExecutor(3) as pool:
        found = list(
            pool.map(
                lambda _: cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=4).target_ids.tolist(), range(6)
            )
        )
    assert found == [expected] * 6
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_length": 8}, "max_length= is set by cutaway.generate: give max_new_tokens="),
        ({"attention_mask": 1}, "all tokens of a prompt are attended to"),
        ({"text": " cat", "temperature": 2.0}, "text= is given, so nothing is generated: leave out temperature="),
        ({"num_beams": 2, "on_token": print}, "use on_token= with num_beams=1 only"),
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        cutaway.generate(tiny("llama"), tokenizer(), PROMPT, **options)


def test_numbers_of_numpy_and_what_a_tokenizer_gave_are_taken() -> None:
    gen = cutaway.generate(tiny("llama"), tokenizer(), tokenizer()(PROMPT), max_new_tokens=np.int64(2))
    assert (
        gen.token_ids.tolist()
        == cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=2).token_ids.tolist()
    )


@pytest.mark.parametrize("name", [*CAUSAL, *ENCODER_DECODER])
def test_greedy_ids_are_the_models_own(name: str) -> None:
    gen = cutaway.generate(tiny(name), tokenizer(), PROMPT, max_new_tokens=6)
    assert gen.kind == ("causal" if name in CAUSAL else "encoder-decoder")
    assert gen.target_ids.tolist() == written(tiny(name))
    assert gen.token_ids[gen.n_prompt :].tolist() == gen.target_ids.tolist()
    read = tokenizer()(PROMPT)["input_ids"]
    if name in CAUSAL:
        assert gen.source is None
        assert gen.token_ids[: gen.n_prompt].tolist() == read
    else:
        assert gen.source is not None
        assert gen.source.ids.tolist() == read
        assert gen.token_ids[0] == (EOS if name == "bart" else PAD)
    assert gen.rows.tolist() == [gen.n_prompt - 1 + i for i in range(len(gen))]


@pytest.mark.parametrize("name", [*CAUSAL, *ENCODER_DECODER])
def test_step_scores_are_those_of_one_forward_per_prefix(name: str) -> None:
    model = tiny(name)
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=4)
    for step, target in enumerate(gen.target_ids.tolist()):
        prefix = torch.tensor(gen.token_ids[: gen.n_prompt + step])[None]
        given = {"input_ids": prefix}
        if gen.source is not None:
            given = {"input_ids": torch.tensor(gen.source.ids)[None], "decoder_input_ids": prefix}
        with torch.no_grad():
            logits = model(**given).logits[0, -1].double()
        probs = logits.softmax(-1)
        assert gen.steps.logits[step] == pytest.approx(float(logits[target]), abs=1e-4)
        assert gen.steps.probs[step] == pytest.approx(float(probs[target]), rel=1e-4)
        assert gen.steps.entropies[step] == pytest.approx(float(-(probs * probs.log()).sum()), rel=1e-4)
        assert gen.steps.ranks[step] == 1 + int((logits > logits[target]).sum())
        top = logits.topk(20)
        np.testing.assert_allclose(np.exp(gen.steps.candidate_logprobs[step]), probs[top.indices], rtol=1e-4)
    assert gen.steps.kept is None


def test_candidates_come_best_first_and_can_be_read() -> None:
    gen = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=2)
    assert gen.steps.candidates.shape == (2, 20)
    assert (np.diff(gen.steps.candidate_logprobs, axis=1) <= 0).all()
    assert gen.steps.candidates[:, 0].tolist() == gen.target_ids.tolist()
    assert gen.steps.candidate_pieces[0][0] == gen.targets.pieces[0]


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_sampling_draws_what_the_model_draws_with_that_seed(name: str) -> None:
    how = {"do_sample": True, "temperature": 0.7, "top_k": 12, "top_p": 0.8}
    gen = cutaway.generate(tiny(name), tokenizer(), PROMPT, max_new_tokens=6, seed=3, **how)
    assert gen.target_ids.tolist() == written(tiny(name), seed=3, **how)
    again = cutaway.generate(tiny(name), tokenizer(), PROMPT, max_new_tokens=6, seed=3, **how)
    assert again.target_ids.tolist() == gen.target_ids.tolist()
    others = [cutaway.generate(tiny(name), tokenizer(), PROMPT, max_new_tokens=6, seed=s, **how) for s in range(4)]
    assert len({tuple(each.target_ids.tolist()) for each in others}) > 1
    assert gen.decoding == {**how, "seed": 3}


def test_what_sampling_kept_is_told() -> None:
    how = {"temperature": 0.5, "top_k": 8, "top_p": 0.9}  # any of these means sampling
    gen = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=5, **how)
    steps = gen.steps
    assert steps.kept is not None
    assert steps.n_kept is not None
    assert steps.drawn is not None
    for step in range(len(gen)):
        logits = np.array([steps.candidate_logprobs[step]]) / 0.5
        kept = np.exp(logits - logits.max())[0, :8]
        kept /= kept.sum()
        n = int((np.cumsum(kept) - kept < 0.9).sum())
        expected = kept[:n] / kept[:n].sum()
        assert steps.n_kept[step] == n
        np.testing.assert_allclose(steps.kept[step][:n], expected, rtol=1e-4)
        assert (steps.kept[step][n:] == 0).all()
        place = steps.candidates[step].tolist().index(gen.target_ids[step])
        assert steps.drawn[step] == steps.kept[step][place] > 0


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_beams_are_the_models_own_and_their_tree_is_whole(name: str) -> None:
    model = tiny(name)
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, num_beams=3)
    own = written(model, num_beams=3)
    assert gen.target_ids.tolist() == own
    tree = gen.beams
    assert tree is not None
    assert tree.ids[tree.is_best].tolist() == own
    assert all(tree.steps[node] == (0 if p < 0 else tree.steps[p] + 1) for node, p in enumerate(tree.parents.tolist()))
    assert (np.bincount(tree.steps) <= 3).all()
    assert tree.scores[tree.is_best][-1] == pytest.approx(gen.steps.logprobs.sum(), abs=1e-4)
    for node, parent in enumerate(tree.parents.tolist()):
        before = tree.scores[parent] if parent >= 0 else 0.0
        assert tree.scores[node] == pytest.approx(before + tree.logprobs[node])


def test_beams_that_end_early_are_in_the_tree() -> None:
    model = tiny("gpt2")
    first = int(cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=1, num_beams=3).beams.ids[1])
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=5, num_beams=3, eos_token_id=first)
    tree = gen.beams
    ended = [node for node in range(len(tree)) if tree.ids[node] == first]
    assert ended
    assert not set(ended) & set(tree.parents.tolist())


@pytest.mark.parametrize("name", [*CAUSAL, "t5"])
def test_a_list_of_prompts_gives_what_each_gives_alone(name: str) -> None:
    together = cutaway.generate(tiny(name), tokenizer(), PROMPTS, max_new_tokens=5)
    for prompt, one in zip(PROMPTS, together, strict=True):
        alone = cutaway.generate(tiny(name), tokenizer(), prompt, max_new_tokens=5)
        assert one.token_ids.tolist() == alone.token_ids.tolist()
        np.testing.assert_array_equal(one.steps.logprobs, alone.steps.logprobs)
        assert (one.n_prompt, one.text, one.prompt) == (alone.n_prompt, alone.text, prompt)


def test_a_batch_is_one_call_and_ends_each_text_where_it_ended() -> None:
    model = tiny("llama")
    alone = [cutaway.generate(model, tokenizer(), prompt, max_new_tokens=5) for prompt in PROMPTS]
    end = int(alone[0].target_ids[2])
    calls = []
    original = model.generate
    model.generate = lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs)
    try:
        together = cutaway.generate(model, tokenizer(), PROMPTS, max_new_tokens=5, eos_token_id=end)
    finally:
        del model.generate
    assert len(calls) == 1
    assert together[0].target_ids.tolist() == alone[0].target_ids[:3].tolist()
    for one, other in zip(together, alone, strict=True):
        ids = other.target_ids.tolist()
        assert one.target_ids.tolist() == (ids[: ids.index(end) + 1] if end in ids else ids)


def test_sampling_with_a_list_draws_what_each_draws_alone() -> None:
    together = cutaway.generate(tiny("llama"), tokenizer(), PROMPTS[:2], max_new_tokens=5, do_sample=True, seed=5)
    alone = cutaway.generate(tiny("llama"), tokenizer(), PROMPTS[1], max_new_tokens=5, do_sample=True, seed=5)
    assert together[1].target_ids.tolist() == alone.target_ids.tolist()


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_a_given_text_is_taken_as_written(name: str) -> None:
    gen = cutaway.generate(tiny(name), tokenizer(), PROMPT, text=" sat on the mat")
    assert gen.target_ids.tolist() == tokenizer()(" sat on the mat")["input_ids"]
    assert gen.text == " sat on the mat"
    assert (gen.steps.ranks > 1).any()
    free = cutaway.generate(tiny(name), tokenizer(), PROMPT, max_new_tokens=4)
    forced = cutaway.generate(tiny(name), tokenizer(), PROMPT, text=free.target_ids)
    np.testing.assert_allclose(forced.steps.logprobs, free.steps.logprobs, rtol=1e-6)


def test_a_chat_goes_through_the_template_with_its_messages_as_segments() -> None:
    messages = [{"role": "system", "content": "the cat"}, {"role": "user", "content": "she likes 1, 2?"}]
    gen = cutaway.generate(tiny("llama"), tokenizer(), messages, max_new_tokens=2)
    text = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert gen.token_ids[: gen.n_prompt].tolist() == tokenizer()(text, add_special_tokens=False)["input_ids"]
    assert gen.token_ids[0] == BOS
    parts = {s.name: "".join(gen.pieces[s.start : s.end]).strip() for s in gen.read.segments}
    assert parts == {"system": "the cat", "user": "she likes 1, 2?"}


def test_a_template_has_its_fields_as_segments() -> None:
    prompt = cutaway.lm.Template("the {animal} sat on the {place}.", animal="cat", place="mat")
    gen = cutaway.generate(tiny("llama"), tokenizer(), prompt, max_new_tokens=2)
    assert gen.prompt == "the cat sat on the mat."
    parts = {s.name: "".join(gen.pieces[s.start : s.end]).strip() for s in gen.read.segments}
    assert parts == {"animal": "cat", "place": "mat"}


def test_ids_are_taken_as_they_are() -> None:
    ids = [5, 300, 12]
    for given in (ids, tuple(ids), np.array(ids), torch.tensor([ids])):
        gen = cutaway.generate(tiny("llama"), None, given, max_new_tokens=2)
        assert gen.token_ids[:3].tolist() == ids
        assert gen.prompt is None
        assert gen.tokens[0] == "<5>"


def test_tokens_are_told_as_they_are_written() -> None:
    told: list[tuple[str, int]] = []
    note = lambda piece, token: told.append((piece, token))  # noqa: E731
    gen = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=5, on_token=note)
    assert told == list(zip(gen.targets.pieces, gen.target_ids.tolist(), strict=True))
    told.clear()
    gen = cutaway.generate(tiny("t5"), tokenizer(), PROMPT, max_new_tokens=5, on_token=note)
    assert [token for _, token in told] == gen.target_ids.tolist()


def test_ids_that_form_no_text_are_explained_as_they_are() -> None:
    """Decoded and tokenized again, they would be others."""
    ids = tokenizer()("é")["input_ids"][:1]
    gen = cutaway.generate(tiny("gpt2"), tokenizer(), PROMPT, text=[*ids, *ids, 60])
    assert gen.target_ids.tolist() == [*ids, *ids, 60]
    assert gen.targets.pieces[0] == "\\xc3"
    assert tokenizer()(gen.text, add_special_tokens=False)["input_ids"] != gen.target_ids.tolist()


@pytest.mark.parametrize("name", TINY)
def test_the_kind_of_a_model_is_found(name: str) -> None:
    kinds = {"causal": CAUSAL, "encoder-decoder": ENCODER_DECODER, "masked": MASKED, "classifier": CLASSIFIERS}
    assert name in kinds[kind_of(tiny(name))]


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "t5", "albert"])
def test_nothing_of_the_model_is_changed(name: str) -> None:
    model = TINY[name]()
    prompt = "the <mask> sat" if name == "albert" else PROMPT
    with unchanged(model):
        gen = cutaway.generate(model, tokenizer(), prompt, max_new_tokens=3)
        if name != "albert":
            cutaway.generate(model, tokenizer(), prompt, max_new_tokens=3, do_sample=True, seed=1)
            cutaway.generate(model, tokenizer(), prompt, max_new_tokens=3, num_beams=2)
            cutaway.generate(model, tokenizer(), PROMPTS, max_new_tokens=2)
    assert gen.target_ids.tolist() == cutaway.generate(model, tokenizer(), prompt, max_new_tokens=3).target_ids.tolist()


def test_an_edit_changes_what_is_written() -> None:
    model = tiny("llama")
    plain = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=5)
    with cutaway.edit(model, at="model.layers.*.mlp.down_proj@in.0", to=0):
        changed = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=5)
    assert changed.steps.logits[0] != plain.steps.logits[0]
    assert (
        cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=5).target_ids.tolist() == plain.target_ids.tolist()
    )


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("", {}, "the prompt is empty: give at least one token"),
        ([], {}, "the list of prompts is empty"),
        ([1, -2], {}, "the prompt has token -2: ids count from 0"),
        (3.5, {}, "the prompt is of type float: give a text"),
        ("the " * 80, {}, f"but LlamaForCausalLM reads at most {CONTEXT}: shorten it"),
        ("the cat", {"max_new_tokens": 63}, "give max_new_tokens=62 or less"),
        ("the cat", {"max_new_tokens": 0}, "max_new_tokens=0: give a whole number"),
        ("the cat", {"text": ""}, "has no tokens"),
        ("the cat", {"num_return_sequences": 2}, "call it with several seeds"),
        (["a", "b"], {"text": ["c"]}, "1 texts were given for 2 prompts"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(prompt: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cutaway.generate(tiny("llama"), tokenizer(), prompt, **options)


def test_a_tokenizer_of_another_model_is_noticed() -> None:
    class Other:
        is_fast = False

        def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
            return {"input_ids": [5, VOCAB + 7], "attention_mask": [1, 1]}

    with pytest.raises(
        InputError, match=r"token 327, but LlamaForCausalLM has 320 tokens, so Other belongs to another"
    ):
        cutaway.generate(tiny("llama"), Other(), "the cat")


def test_beyond_the_context_of_learned_positions_is_one_sentence() -> None:
    with pytest.raises(InputError, match="RobertaForMaskedLM failed on 66 tokens, most likely because"):
        cutaway.generate(tiny("roberta"), tokenizer(), [4] * 66)


def test_a_chat_without_a_template_and_a_text_without_a_tokenizer_say_so() -> None:
    class Bare:
        def __call__(self, text: str) -> Any:
            raise AssertionError

    with pytest.raises(InputError, match="Bare has no chat template: give one text, or set"):
        cutaway.generate(tiny("llama"), Bare(), [{"role": "user", "content": "a"}])
    with pytest.raises(InputError, match="a text needs a tokenizer, and tokenizer=None"):
        cutaway.generate(tiny("llama"), None, "the cat")


def test_what_is_no_model_is_told_apart() -> None:
    with pytest.raises(InputError, match=r"the model is the text 'gpt2', but must be"):
        cutaway.generate("gpt2", tokenizer(), "the cat")
    with pytest.raises(InputError, match="Linear is not a language model: its forward takes input, not input_ids"):
        cutaway.generate(torch.nn.Linear(2, 2), tokenizer(), "the cat")


@pytest.mark.parametrize(
    ("name", "headless"),
    [
        ("gpt2", "GPT2Model"),
        ("llama", "LlamaModel"),
        ("bert", "BertModel"),
        ("t5", "T5Model"),
        ("bart", "BartModel"),
        ("t5", "T5EncoderModel"),
    ],
)
def test_a_model_without_a_head_is_told_how_to_be_loaded(name: str, headless: str) -> None:
    bare = getattr(transformers, headless)(deepcopy(tiny(name).config)).eval()
    for ask in (cutaway.generate, cutaway.lm.fill, cutaway.lm.classify):
        with pytest.raises(InputError, match=f"{headless} has no head: .* Load the model with its head, such as"):
            ask(bare, tokenizer(), "the cat")


@pytest.mark.parametrize("how", [{}, {"temperature": 0.7, "top_k": 12, "top_p": 0.8}, {"num_beams": 3}])
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_step_scores_are_the_transition_scores_of_transformers(name: str, how: dict[str, Any]) -> None:
    model = tiny(name)
    gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=6, seed=2, **how)
    torch.manual_seed(2)
    own = model.generate(
        **tokenizer()(PROMPT, return_tensors="pt"), max_new_tokens=6, do_sample="top_k" in how,
        return_dict_in_generate=True, output_scores=True, output_logits=True, **how,
    )  # fmt: skip
    if "num_beams" in how:
        expected = model.compute_transition_scores(own.sequences, own.scores, own.beam_indices)[0]
        tree = gen.beams
        found = tree.logprobs[tree.is_best]
    else:
        expected = model.compute_transition_scores(own.sequences, own.scores, normalize_logits=True)[0]
        found = gen.steps.logprobs if gen.steps.drawn is None else np.log(gen.steps.drawn)
        plain = model.compute_transition_scores(own.sequences, own.logits, normalize_logits=True)[0]
        np.testing.assert_allclose(gen.steps.logprobs, plain, atol=1e-4)
    np.testing.assert_allclose(found, expected[: len(gen)], atol=1e-4)


def test_options_that_are_no_plain_data_are_kept_as_they_say_themselves() -> None:
    class Nothing:
        def __call__(self, ids: Any, scores: Any) -> Any:
            return scores

        def __repr__(self) -> str:
            return "Nothing()"

    gen = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=2, logits_processor=[Nothing()])
    assert gen.decoding == {"logits_processor": ("Nothing()",), "seed": 0}


def test_two_generations_share_nothing() -> None:
    one = cutaway.generate(tiny("llama"), tokenizer(), PROMPT, max_new_tokens=3)
    before = one.token_ids.tolist(), one.steps.logprobs.tolist()
    cutaway.generate(tiny("llama"), tokenizer(), "she likes", max_new_tokens=3)
    assert (one.token_ids.tolist(), one.steps.logprobs.tolist()) == before
    with pytest.raises(ValueError, match="read-only"):
        one.steps.logprobs[0] = 0


@pytest.mark.slow
def test_a_real_model_counts_and_knows_a_capital() -> None:
    model, own = smol()
    gen: Generation = cutaway.generate(model, own, "1, 2, 3,", max_new_tokens=8)
    assert gen.text.startswith(" 4, 5")
    chat = cutaway.generate(model, own, [{"role": "user", "content": "What is the capital of France?"}])
    assert "Paris" in chat.text
    assert [segment.name for segment in chat.read.segments] == ["user"]


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "mixtral", "t5", "mamba"])
def test_a_gpu_writes_and_explains_alike(name: str) -> None:
    found = {}
    for device in ("cpu", "cuda"):
        model = deepcopy(tiny(name)).to(device)
        gen = cutaway.generate(model, tokenizer(), "a small text", max_new_tokens=4)
        saliency, lens = gen.saliency(), gen.lens()
        found[device] = [gen.target_ids, gen.steps.logprobs, saliency.scores, lens.logprobs]
        if name != "mamba":
            found[device] += [gen.attention().weights, gen.factors(2).weights]
        if name not in ("mamba", "t5"):
            found[device].append(gen.logit_attribution().total)
    for ours, theirs in zip(found["cpu"], found["cuda"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-3)
