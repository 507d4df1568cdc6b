"""Making a configuration small by the names of its settings.

Works on the nested dictionary of a configuration, so that what the configuration derives is derived anew. Three
strengths, to be tried in turn where one contradicts itself: "small" changes widths, heads, layers and images;
"narrow" keeps the layers; "shallow" leaves everything at its default but layers, vocabulary and experts.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from benchmarks.sweep.config_overrides import EXACT, OVERRIDES

Strength = Literal["small", "narrow", "shallow"]
STRENGTHS: tuple[Strength, ...] = ("small", "narrow", "shallow")

WIDTH, INNER, HEADS, HEAD, LAYERS, VOCABULARY, IMAGE = 64, 128, 4, 16, 2, 256, 64
BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [8, 16, 32, 64],
    "depths": [1, 1, 1, 1],
    "out_indices": [2, 3, 4],
}
"""Stands for the backbones that only another library can build."""
_FIRST_SPECIAL = 128
"""Token ids from here up are handed out to special tokens; inputs stay below."""

_LAYERS = re.compile(
    r"^(num_)?((hidden|encoder|decoder|block)_)?layers$|^n_layers?$|^depth$|_(hidden|encoder|decoder)_layers$|^(num_)?(encoder|decoder|transformer|text|vision|lstm)_.*layers$"
)
_HEADS = re.compile(r"^(num|n)_(.*_)?heads?$|^(.*_)?attention_heads$|^num_attention_heads.*$")
_HEAD = re.compile(r"^(.*_)?head_dim$|^d_kv$|^dim_head$|^kv_channels$|^(.*_)?head_size$|^mamba_d_head$")
_INNER = re.compile(
    r"intermediate_size|ffn_dim|^d_ff$|mlp_dim|ffn_hidden_size|d_inner|intermediate_dim|dim_feedforward|feed_forward_hidden"
)
_WIDTH = re.compile(
    r"hidden_size(?!_per)|^d_model$|^n_embd$|embed_dim|embedding_size|hidden_dim|projection_dim|^dim$|emb_dim|embedding_dim"
    r"|^d_embed$|^model_dim$|^decoder_dim$|fusion_hidden|^codebook_dim$|^d_proj$|proj_dim$|^latent_dim$"
)
_SPECIAL = re.compile(r"(token|_tok)_?(id|index|idx|ids)$|_token$|^(bos|eos|pad|sep|cls|mask|unk)_(index|id)$")


def shrunk(settings: dict[str, Any], strength: Strength) -> dict[str, Any]:
    """A copy of a configuration's dictionary with small values; nested configurations included."""
    return _Shrinking(strength).of(settings)


class _Shrinking:
    """One pass over one configuration; special tokens keep their identity across its parts."""

    def __init__(self, strength: Strength) -> None:
        self.strength = strength
        self.special: dict[int, int] = {}

    def of(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings = settings | OVERRIDES.get(str(settings.get("model_type")), {})
        deep = _depth(settings)
        kinds = _kinds(settings, deep) if self.strength != "narrow" else []
        taps = settings.get("out_indices") or ()
        layers = max(LAYERS, len(kinds), len(taps)) if self.strength != "narrow" else deep
        found: dict[str, Any] = {}
        for name, value in settings.items():
            if name in ("out_features", "stage_names", "_out_features", "_out_indices"):
                continue  # derived anew
            if name == "per_layer_config" and isinstance(value, dict):
                found[name] = self._by_layer(value, kinds or list(range(layers)))
            elif isinstance(value, dict):
                found[name] = self._part(name, value)
            elif not isinstance(name, str):
                found[name] = value
            elif isinstance(value, list):
                found[name] = self._list(name, value, deep, kinds, layers)
            elif isinstance(value, int) and not isinstance(value, bool):
                found[name] = self._number(name, value, settings, layers)
            else:
                found[name] = value
        return found | EXACT.get(str(settings.get("model_type")), {})

    def _by_layer(self, value: dict[str, Any], kept: list[int]) -> dict[str, Any]:
        """What differs in single layers, for those that are left, under their new numbers."""
        of = {int(number): self.of(settings) for number, settings in value.items()}
        return {str(new): of[old] for new, old in enumerate(kept) if old in of}

    def _part(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        if name.startswith(("id2", "label2")):
            return value
        if value.get("model_type") in ("timm_backbone", "timm_wrapper") and "backbone" in name:
            return dict(BACKBONE)
        return self.of(value)

    def _number(self, name: str, value: int, settings: dict[str, Any], layers: int) -> int:
        if _SPECIAL.search(name):
            return self._token(value)
        if _LAYERS.search(name) and "adapter" not in name and "feat_extract" not in name:
            return min(value, layers) if self.strength != "narrow" else value
        if name.endswith("vocab_size") or name in ("vocab_size_per_layer_input", "vocab_offset"):
            return min(value, VOCABULARY)
        if re.search(r"experts$", name):
            return min(value, 4)
        if re.search(r"top_?k$|experts_per_tok|^moe_k$", name):
            return min(value, 2)
        if name in ("n_group", "topk_group", "num_expert_group"):
            return 1
        if self.strength != "narrow" and name in ("first_k_dense_replace", "max_window_layers", "num_dense_layers"):
            return min(value, 1)
        if self.strength != "narrow" and name in ("num_kv_shared_layers", "num_nextn_predict_layers"):
            return 0
        return value if self.strength == "shallow" else _narrow(name, value, settings)

    def _list(self, name: str, value: list[Any], deep: int, kinds: list[int], layers: int) -> Any:
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return [value[i] for i in kinds] if kinds and len(value) == deep else value
        if _SPECIAL.search(name):
            return [self._token(item) for item in value]
        if len(value) == deep and kinds:
            return [value[i] for i in kinds]
        if name == "out_indices" and deep and self.strength != "narrow":
            return list(range(layers - len(value) + 1, layers + 1))
        if re.search(r"depths$|blocks_per_stage|num_blocks|block_repeats", name):
            return [min(item, 2) for item in value]
        return value if self.strength == "shallow" else _narrow_list(name, value)

    def _token(self, value: int) -> int:
        if value < _FIRST_SPECIAL:
            return value
        return self.special.setdefault(value, VOCABULARY - 1 - len(self.special))


def _depth(settings: dict[str, Any]) -> int:
    for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "depth"):
        if isinstance(settings.get(name), int):
            return int(settings[name])
    return 0


def _kinds(settings: dict[str, Any], deep: int) -> list[int]:
    """One layer of each kind that the configuration lists, the first of each; at least two layers."""
    lists = [v for v in settings.values() if isinstance(v, list) and len(v) == deep and deep > LAYERS]
    if not lists:
        return []
    firsts: dict[str, int] = {}
    for i in range(deep):
        firsts.setdefault(repr([row[i] for row in lists if isinstance(row[i], str)]), i)
    chosen = sorted(firsts.values())
    return chosen if len(chosen) >= LAYERS else [0, 1]


def _narrow(name: str, value: int, settings: dict[str, Any]) -> int:
    if name == "image_size" or name.endswith("_image_size"):
        return _image(settings)
    if name in ("num_key_value_heads", "num_kv_heads", "n_head_kv"):
        heads = next((settings[k] for k in ("num_attention_heads", "num_heads", "n_head") if k in settings), value)
        return HEADS if value == heads else min(value, 2)
    if name in ("qk_rope_head_dim", "rotary_dim") or (name == "head_dim" and value == settings.get("qk_rope_head_dim")):
        return HEAD // 2
    if name == "qk_head_dim":
        return HEAD + HEAD // 2
    if name in ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "block_size"):
        return min(value, 512)
    if name == "max_source_positions":
        return min(value, 64)
    if name in ("num_queries", "num_query_tokens"):
        return min(value, 8)
    if name.endswith("_lora_rank"):
        return min(value, HEAD)
    if _HEADS.search(name):
        return min(value, HEADS)
    if _HEAD.search(name):
        return min(value, HEAD)
    if _INNER.search(name):
        return min(value, INNER)
    if _WIDTH.search(name):
        return min(value, WIDTH)
    return value


def _narrow_list(name: str, value: list[int]) -> list[int]:
    if name == "mrope_section":
        return [2, 3, 3]
    if name.endswith("image_size") and len(value) == 2:
        return [IMAGE, IMAGE]
    if re.search(r"heads", name):
        return [item // math.gcd(*value) for item in value]
    if re.search(r"hidden_sizes|dims|channels|widths|embed_dim|_sizes$", name) and math.gcd(*value) > 8:
        return [item // math.gcd(*value) * 8 for item in value]
    return value


def _image(settings: dict[str, Any]) -> int:
    patch = settings.get("patch_size")
    if isinstance(patch, list):
        patch = patch[0] if patch else None
    if not isinstance(patch, int) or IMAGE % patch == 0:
        return IMAGE
    return patch * 4
