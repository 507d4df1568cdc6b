"""The model families of torchaudio, each made small by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.sweep import packages
from benchmarks.sweep.attempts import first_that_runs
from benchmarks.sweep.families import Case

Maker = Callable[[Any], tuple[Any, ...]]


class Torchaudio:
    """One entry of `MODELS` each, with random weights."""

    def names(self) -> Sequence[str]:
        return list(MODELS)

    def make(self, name: str) -> Case:
        library = packages.of("torchaudio.models")
        made: list[Any] = []

        def build() -> Any:
            model, *made[:] = MODELS[name](library)
            return model

        return first_that_runs([("", build, lambda: tuple(made))])


_LAYERS = [(8, 10, 5), (8, 3, 2), (8, 3, 2)]
_ENCODER: dict[str, Any] = {
    "extractor_mode": "group_norm",
    "extractor_conv_layer_config": _LAYERS,
    "extractor_conv_bias": False,
    "encoder_embed_dim": 16,
    "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 8,
    "encoder_pos_conv_groups": 2,
    "encoder_num_layers": 2,
    "encoder_num_heads": 2,
    "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_features": 32,
    "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0,
    "encoder_layer_norm_first": False,
    "encoder_layer_drop": 0.0,
}


def _wave(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (2, 1600))


def _lengths(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def _transducer(m: Any) -> tuple[Any, ...]:
    model = m.emformer_rnnt_model(
        input_dim=8,
        encoding_dim=16,
        num_symbols=10,
        segment_length=4,
        right_context_length=2,
        time_reduction_input_dim=8,
        time_reduction_stride=2,
        transformer_num_heads=2,
        transformer_ffn_dim=32,
        transformer_num_layers=2,
        transformer_dropout=0.0,
        transformer_activation="gelu",
        transformer_left_context_length=4,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=8,
        num_lstm_layers=1,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.0,
    )
    return model, torch.randn(2, 18, 8), _lengths(18, 18), torch.randint(1, 10, (2, 5)).int(), _lengths(5, 4)


def _hubert(m: Any) -> tuple[Any, ...]:
    options = _ENCODER | {"extractor_conv_layer_config": _LAYERS, "encoder_layer_drop": 0.0}
    model = m.hubert_pretrain_model(
        **options,
        mask_prob=0.5,
        mask_selection="static",
        mask_other=0.0,
        mask_length=4,
        no_mask_overlap=False,
        mask_min_space=1,
        mask_channel_prob=0.0,
        mask_channel_selection="static",
        mask_channel_other=0.0,
        mask_channel_length=4,
        no_mask_channel_overlap=False,
        mask_channel_min_space=1,
        skip_masked=False,
        skip_nomask=False,
        num_classes=6,
        final_dim=8,
        feature_grad_mult=0.1,
    )
    return model, _wave(), torch.randint(6, (2, 79))


def _wavlm(m: Any) -> tuple[Any, ...]:
    options = _ENCODER | {"encoder_num_buckets": 16, "encoder_max_distance": 32}
    return m.wavlm_model(**options, aux_num_out=None), _wave()


def _squim(m: Any) -> tuple[Any, ...]:
    model = m.squim_objective_model(
        feat_dim=16, win_len=16, d_model=16, nhead=2, hidden_dim=16, num_blocks=1, rnn_type="LSTM", chunk_size=7
    )
    return model, _wave(1, 800)


MODELS: dict[str, Maker] = {
    "conformer": lambda m: (m.Conformer(8, 2, 16, 2, 3), torch.randn(2, 10, 8), _lengths(10, 7)),
    "conv_tasnet": lambda m: (m.ConvTasNet(2, 16, 16, 3, 16, 16, 2, 1), _wave(2, 1, 800)),
    "deep_speech": lambda m: (m.DeepSpeech(8, 16, 5), torch.randn(2, 1, 10, 8)),
    "emformer": lambda m: (m.Emformer(8, 2, 16, 2, 4, right_context_length=1), torch.randn(2, 9, 8), _lengths(9, 8)),
    "hdemucs": lambda m: (m.HDemucs(["a", "b"], channels=8, growth=2, nfft=1024, depth=5), torch.randn(1, 2, 12000)),
    "hubert_pretraining": _hubert,
    "rnnt_emformer": _transducer,
    "squim_objective": _squim,
    "tacotron2": lambda m: (
        m.Tacotron2(n_mels=8, n_symbol=20, symbol_embedding_dim=16, encoder_embedding_dim=16, postnet_embedding_dim=16),
        torch.randint(20, (2, 6)),
        _lengths(6, 5),
        torch.randn(2, 8, 10),
        _lengths(10, 7),
    ),
    "wav2letter": lambda m: (m.Wav2Letter(5, "mfcc", 8), torch.randn(1, 8, 60)),
    "wav2vec2": lambda m: (m.wav2vec2_model(**_ENCODER, aux_num_out=5), _wave(), _lengths(1600, 1200)),
    "wavlm": _wavlm,
    "wavernn": lambda m: (
        m.WaveRNN([2, 2, 2], 16, 8, n_res_block=2, n_rnn=16, n_fc=16, n_freq=8, n_hidden=16, n_output=16),
        _wave(1, 1, 32),
        torch.randn(1, 1, 8, 8),
    ),
}
"""Name → from the library, a model and its arguments."""
