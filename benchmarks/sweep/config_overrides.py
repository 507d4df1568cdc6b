"""What the rules of `reduction` cannot know, by model type."""

from __future__ import annotations

from typing import Any

_MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
_SERIES = {
    "prediction_length": 8,
    "context_length": 16,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 1,
    "feature_size": 6,
}
_LFM = {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]}

_HIERA = {
    "hidden_size": 16,
    "image_size": [64, 64],
    "embed_dim_per_stage": [16, 32, 64, 128],
    "num_attention_heads_per_stage": [1, 2, 4, 8],
    "blocks_per_stage": [1, 1, 2, 1],
    "window_size_per_stage": [4, 4, 2, 2],
    "global_attention_blocks": [3],
}
_WRAPPED = {
    "vision_config": {
        "model_type": "timm_wrapper",
        "architecture": "vit_pe_core_tiny_patch16_384",
        "model_args": {"img_size": 64, "depth": 2},
        "num_labels": 64,
    }
}
_HGNET = {
    "model_type": "hgnet_v2",
    "hidden_sizes": [32, 64, 128, 256],
    "stem_channels": [3, 8, 16],
    "stage_in_channels": [16, 32, 64, 128],
    "stage_mid_channels": [8, 8, 16, 16],
    "stage_out_channels": [32, 64, 128, 256],
    "stage_num_blocks": [1, 1, 1, 1],
    "stage_numb_of_layers": [2, 2, 2, 2],
    "out_indices": [2, 3, 4],
}
_EDGE = {
    "model_type": "timm_wrapper",
    "architecture": "repvit_m1",
    "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
    "num_classes": 2,
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
    "qwen2_vl_text": _MROPE,
    "qwen2_5_vl_text": _MROPE,
    "glm4v_text": _MROPE,
    "glm4v_moe_text": _MROPE,
    "glm_image_text": _MROPE,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "lfm2_moe": _LFM,
    "ministral": {"head_dim": 16},
    "deepseek_v2": {"topk_group": 1, "n_group": 1, "num_experts_per_tok": 2},
    "mamba2": {"hidden_size": 64, "expand": 2, "num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 16},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16},
}
"""Settings to begin with, before the rules; the rules make them small like any other."""

EXACT: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 160},
    "align_vision_model": {"width_coefficient": 0.5, "depth_coefficient": 0.5, "image_size": 64},
    "efficientnet": {"width_coefficient": 0.5, "depth_coefficient": 0.5, "hidden_dim": 640, "image_size": 64},
    "blt": {"encoder_hash_byte_group_vocab": 512, "num_hidden_layers": 2},
    "clap_audio_model": {"hidden_size": 128},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 1, "clip_qkv": 8.0}},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    "edgetam_vision_model": {
        "backbone_config": _EDGE,
        "backbone_channel_list": [384, 192, 96, 48],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": 64,
    },
    "edgetam_prompt_encoder": {"image_size": 64, "hidden_size": 64},
    "emu3_vqgan": {"base_channels": 32, "channel_multiplier": [1, 2], "num_res_blocks": 1},
    "eomt_dinov3": {"hidden_size": 64, "num_blocks": 1},
    "fast_vlm": {"vision_config": {"model_type": "timm_wrapper", "architecture": "fastvit_t8", "hidden_size": 384}},
    "lw_detr": {"projector_scale_factors": [1.0], "num_feature_levels": 1},
    "neucodec": {"quantization_dim": 128},
    "xcodec2": {"quantization_dim": 128},
    "omdet-turbo": {
        "apply_layernorm_after_vision_backbone": False,
        "encoder_in_channels": [16, 32, 64],
        "vision_features_channels": [32, 32, 32],
        "text_projection_in_dim": 64,
        "text_projection_out_dim": 64,
        "class_embed_dim": 64,
        "task_encoder_hidden_dim": 64,
        "decoder_hidden_dim": 32,
        "d_model": 32,
    },
    "pp_doclayout_v2": {
        "backbone_config": _HGNET,
        "encoder_in_channels": [64, 128, 256],
        "decoder_in_channels": [64, 64, 64],
        "class_thresholds": [0.5] * 2,
        "class_order": [0, 1],
        "num_labels": 2,
    },
    "bailing_hybrid": {"num_experts_per_token": 2},
    "kimi_linear": {"num_experts_per_token": 2},
    "bamba": {"num_hidden_layers": 2, "attn_layer_indices": [1]},
    "granitemoehybrid": {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"]},
    "blip-2": {"image_token_index": 250, "num_query_tokens": 8},
    "instructblip": {"image_token_index": 250, "num_query_tokens": 8},
    "instructblipvideo": {"video_token_index": 250, "num_query_tokens": 8},
    "chameleon": {"vocabulary_map": {"<image>": 250, "IMGIMGA": 251}},
    "emu3": {"vocabulary_map": {"<image>": 250, "<|extra_200|>": 249, "<|visual token 000000|>": 251}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "csm": {"num_codebooks": 4},
    "mimi": {"upsample_groups": 64},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2},
    "depth_pro": {"patch_size": 56, "intermediate_hook_ids": [1, 0]},
    "efficientloftr": {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8},
    "eomt": {"hidden_size": 64, "num_blocks": 1},
    "ernie4_5_vl_moe_text": {
        "head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]},
    },
    "gemma3n_vision": {"architecture": "mobilenetv5_base", "hidden_size": 64},
    "glm4v_moe_text": {"head_dim": 16, "partial_rotary_factor": 1.0},
    "glm5_next_text": {"index_topk": 16, "qk_rope_head_dim": 0, "head_dim": 0},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "1/2", "spatial_target_layers": [1]},
    "hunyuan_vl_text": {
        "head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 2, 2, 2]},
    },
    "inkling_text": {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2},
    "kosmos-2": {"latent_query_num": 8},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemotron": {"num_key_value_heads": 2},
    "pe_audio_video_encoder": _WRAPPED,
    "perceiver": {"num_latents": 16, "d_latents": 64},
    "pe_video_encoder": _WRAPPED,
    "perception_lm": {
        "vision_config": {
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_lang_large_patch14_448",
            "model_args": {"embed_dim": 64, "depth": 2, "num_heads": 4, "img_size": 56, "global_pool": ""},
        },
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
    },
    "qwen2_5_omni_text": _MROPE,
    "sam2_hiera_det_model": _HIERA,
    "sam2_vision_model": {
        "backbone_channel_list": [128, 64, 32, 16],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": 64,
    },
    "sam2_prompt_encoder": {"image_size": 64, "hidden_size": 64},
    "sam3_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]], "fpn_hidden_size": 64},
    "sam3_tracker_prompt_encoder": {"image_size": 56, "patch_size": 14, "hidden_size": 64},
    "seggpt": {"image_size": [128, 64]},
    "shieldgemma2": {"yes_token_index": 5, "no_token_index": 6, "mm_tokens_per_image": 4},
    "siglip2_text_model": {"projection_size": 64},
    "superglue": {
        "hidden_size": 256,
        "keypoint_encoder_sizes": [32, 64, 128, 256],
        "gnn_layers_types": ["self", "cross"],
        "sinkhorn_iterations": 10,
    },
    "superpoint": {"max_keypoints": 20},
    "uvdoc_backbone": {"out_indices": [1, 2, 3, 4, 5, 6]},
    "step3p5": {"sliding_window": 16},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "timm_backbone": {"backbone": "resnet10t"},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8, "num_frames": 4},
    "vivit": {"num_frames": 4, "image_size": 64},
    "xlstm": {"num_heads": 4, "num_blocks": 2, "qk_dim_factor": 1.0},
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
    },
    "zamba2": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "hybrid_layer_ids": [1, 2],
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "n_mamba_heads": 8,
        "mamba_headdim": 16,
    },
}
"""Settings that the rules do not touch, of the type or of a part of that type."""

CLASSES = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
"""The class to build, where the auto class names one for another configuration."""
