"""The table of rules: name of a function → rule that gives the factors of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from cutaway.core.units import carriers, indexing, layers, products, reductions, space
from cutaway.core.units.calls import Call
from cutaway.core.units.factors import Dims

Rule = Callable[[Call], Dims | Sequence[Dims | None]]
"""Returns the dimensions of the result, or of each of several; raises or returns None if they are unknown."""

CONSTRUCTORS = frozenset(
    [
        "arange",
        "bartlett_window",
        "blackman_window",
        "empty",
        "empty_strided",
        "eye",
        "full",
        "hamming_window",
        "hann_window",
        "kaiser_window",
        "linspace",
        "logspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "scalar_tensor",
        "tensor",
        "as_tensor",
        "from_numpy",
        "tril_indices",
        "triu_indices",
        "zeros",
        "new_empty",
        "new_full",
        "new_ones",
        "new_tensor",
        "new_zeros",
        "range",
        "complex_tensor",
        "asarray",
    ]
)
"""Functions whose results do not depend on the values of their arguments: constants."""

_BY_RULE: dict[Rule, str] = {
    layers.convolution: """
        conv1d conv2d conv3d quantized_conv1d quantized_conv2d quantized_conv3d conv1d_relu conv2d_relu
        conv3d_relu
    """,
    layers.transposed_convolution: "conv_transpose1d conv_transpose2d conv_transpose3d",
    layers.time_first_convolution: "conv_tbc",
    layers.any_convolution: "convolution",
    layers.linear: "linear linear_relu scaled_linear",
    layers.dynamic_linear: "linear_dynamic linear_relu_dynamic linear_dynamic_fp16 quantized_linear",
    layers.bilinear: "bilinear",
    layers.embedding: "embedding embedding_bag",
    layers.one_hot: "one_hot",
    layers.channel_norm: "batch_norm native_batch_norm instance_norm group_norm native_group_norm sync_batch_norm",
    layers.layer_norm: "layer_norm native_layer_norm rms_norm fused_rms_norm",
    layers.recurrent: "lstm gru rnn_tanh rnn_relu",
    layers.recurrent_cell: "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    layers.native_attention: "native_multi_head_attention",
    layers.encoder_layer: "transformer_encoder_layer_fwd",
    products.attention: """
        scaled_dot_product_attention scaled_dot_product_attention_math scaled_dot_product_flash_attention
        scaled_dot_product_flash_attention_for_cpu scaled_dot_product_efficient_attention
        scaled_dot_product_cudnn_attention
    """,
    products.matmul: "matmul linalg_matmul mm bmm mv dot vdot scaled_mm int_mm",
    products.reversed_matmul: "rmatmul",
    products.added_product: "addmm baddbmm addmv addr addbmm addmm_activation",
    products.inner: "inner",
    products.chain: "linalg_multi_dot chain_matmul",
    products.solve: "linalg_solve linalg_solve_triangular cholesky_solve",
    products.einsum: "einsum",
    products.tensordot: "tensordot",
    layers.grouped_matmul: "grouped_mm scaled_grouped_mm",
    products.pairwise: "cdist",
    products.outer: "outer ger",
    carriers.elementwise: """
        abs absolute acos arccos acosh arccosh add addcdiv addcmul and angle asin arcsin asinh arcsinh atan
        arctan atan2 arctan2 atanh arctanh bernoulli binary_cross_entropy_elementwise bitwise_and
        bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max
        clamp_min clip complex conj conj_physical copysign cos cosh deg2rad digamma div divide eq elu erf erfc
        erfinv exp exp2 expm1 fake_quantize fake_quantize_per_tensor_affine float_power floor floor_divide
        floordiv fmax fmin fmod frac frexp gcd ge gelu greater greater_equal gt hardshrink hardsigmoid
        hardswish hardtanh heaviside hypot i0 igamma igammac invert isclose isfinite isinf isnan isneginf
        isposinf isreal lcm ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_sigmoid
        logsigmoid logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lshift lt
        masked_fill maximum minimum mish mod mul multiply mvlgamma nan_to_num ne neg negative nextafter
        not_equal or polar polygamma positive pow prelu quantize_per_tensor rad2deg radd reciprocal relu relu6
        remainder rdiv rfloordiv rmul round rpow rrelu rshift rsqrt rsub rtruediv selu sgn sigmoid sign
        signbit silu sin sinc sinh softplus softshrink softsign special_airy_ai special_bessel_j0
        special_bessel_j1 special_bessel_y0 special_bessel_y1 special_entr special_erf special_erfc
        special_erfcx special_erfinv special_exp2 special_expit special_expm1 special_gammainc
        special_gammaincc special_gammaln special_i0 special_i0e special_i1 special_i1e special_log1p
        special_log_ndtr special_logit special_ndtr special_ndtri special_polygamma special_psi special_round
        special_sinc special_xlog1py special_xlogy special_zeta sqrt square sub subtract tan tanh tanhshrink
        threshold true_divide truediv trunc fix xlogy xor edit isin bucketize searchsorted poisson binomial
        autocast_to_full_precision autocast_to_reduced_precision special_digamma special_multigammaln
    """,
    carriers.first_only: """
        alias alpha_dropout bfloat16 bool byte cdouble celoss cfloat char clone contiguous cpu cuda data
        dequantize detach double dropout feature_alpha_dropout feature_dropout dropout1d dropout2d dropout3d
        native_dropout exponential fill cauchy geometric log_normal random uniform zero constant
        kaiming_uniform kaiming_normal xavier_uniform xavier_normal trunc_normal float half imag int int_repr
        long lift_fresh log_softmax softmax softmin gumbel_softmax special_softmax special_log_softmax
        normalize local_response_norm real requires_grad resolve_conj resolve_neg short to to_dense tril triu
        type type_as zeros_like ones_like empty_like full_like rand_like randn_like randint_like flip fliplr
        flipud roll to_mkldnn identity set_data masked_scatter alias_write bernoulli_p pin_memory share_memory
        fused_moving_avg_obs_fake_quant fake_quantize_per_channel_affine
        fake_quantize_learnable_per_tensor_affine spectral_norm weight_norm resize_as renorm fill_diagonal
        gradient index_fill quantize_per_channel
    """,
    carriers.normal: "normal",
    carriers.cross: "cross linalg_cross",
    carriers.scan: """
        cumsum cumprod cummax cummin logcumsumexp fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn
        fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft fft_hfft2 fft_ihfft2
        fft_hfftn fft_ihfftn cumulative_trapezoid
    """,
    carriers.permute: "permute",
    carriers.transpose: "transpose swapaxes swapdims",
    carriers.matrix_transpose: "mT mH adjoint t",
    carriers.full_transpose: "T H",
    carriers.rotate: "rot90",
    carriers.movedim: "movedim moveaxis",
    carriers.squeeze: "squeeze",
    carriers.unsqueeze: "unsqueeze",
    carriers.view: """
        view reshape flatten unflatten view_as reshape_as ravel unsafe_view atleast_1d atleast_2d atleast_3d
        resize reshape_alias
    """,
    carriers.view_as_real: "view_as_real",
    carriers.view_as_complex: "view_as_complex",
    carriers.expand: "expand expand_as broadcast_to broadcast_tensors",
    carriers.repeat: "repeat tile",
    carriers.repeat_interleave: "repeat_interleave",
    carriers.stack: "stack",
    carriers.cat: "cat concat concatenate",
    carriers.stack_variants: "hstack vstack row_stack dstack column_stack",
    carriers.meshgrid: "meshgrid",
    carriers.split: """
        split chunk tensor_split split_with_sizes unsafe_split unsafe_chunk unsafe_split_with_sizes hsplit
        vsplit dsplit
    """,
    carriers.resize_dims: """
        narrow glu pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d circular_pad slice diff fft_fftshift fft_ifftshift
    """,
    carriers.unbind: "unbind",
    carriers.select: "select",
    carriers.diagonal: "diagonal linalg_diagonal",
    carriers.diag_embed: "diag_embed",
    carriers.diag: "diag",
    carriers.unfold: "unfold",
    carriers.sort: "topk sort argsort msort kthvalue multinomial",
    reductions.reduce: """
        all amax amin aminmax any argmax argmin count_nonzero linalg_vector_norm logsumexp max mean median min
        mode nanmean nanmedian nansum norm prod quantile nanquantile std std_mean sum var var_mean
        special_logsumexp linalg_norm is_all_true trapezoid trapz
    """,
    reductions.where: "where",
    reductions.nonzero: "nonzero argwhere masked_select unique unique_consecutive unique2",
    reductions.segment_reduce: "segment_reduce",
    reductions.sum_to_size: "sum_to_size",
    reductions.distances: "cosine_similarity pairwise_distance linalg_vecdot",
    reductions.loss: """
        binary_cross_entropy binary_cross_entropy_with_logits cross_entropy cross_entropy_loss ctc_loss
        gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss
        multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss nll_loss2d nll_loss_nd
        poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss cosine_embedding_loss
        linear_cross_entropy
    """,
    space.pool: """
        max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
        fractional_max_pool2d fractional_max_pool3d max_unpool1d max_unpool2d max_unpool3d
        quantized_max_pool2d mkldnn_max_pool2d adaptive_max_pool1d_with_indices
        adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices fractional_max_pool2d_with_indices
        fractional_max_pool3d_with_indices
    """,
    space.interpolate: """
        interpolate upsample upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d
        upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d upsample_nearest_exact1d
        upsample_nearest_exact2d upsample_nearest_exact3d upsample_bilinear2d_aa upsample_bicubic2d_aa
        grid_sampler grid_sample grid_sampler_2d grid_sampler_3d
    """,
    space.stft: "stft",
    space.istft: "istft",
    space.affine_grid: "affine_grid_generator",
    space.im2col: "im2col",
    space.renumber_channels: "col2im fold pixel_shuffle pixel_unshuffle",
    space.channel_shuffle: "channel_shuffle native_channel_shuffle",
    space.packed_sequence: "pack_padded_sequence pad_packed_sequence",
    indexing.getitem: "getitem",
    indexing.index_select: "index_select",
    indexing.gather: "gather take_along_dim",
    indexing.scatter: """
        index_add index_copy index_reduce scatter scatter_add scatter_reduce copy slice_scatter select_scatter
        diagonal_scatter
    """,
    indexing.setitem: "setitem index_put",
}

RULES: dict[str, Rule] = {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
"""Name of a function without leading and trailing underscores → rule; `add_` is `add`."""


@cache
def is_constructor(function: str) -> bool:
    """Whether a function creates constants.

    >>> is_constructor("zeros"), is_constructor("zeros_like")
    (True, False)
    """
    return function.strip("_") in CONSTRUCTORS


@cache
def rule_of(function: str) -> Rule | None:
    """The rule of a function, by its name.

    >>> rule_of("add_") is rule_of("mul"), rule_of("as_strided")
    (True, None)
    """
    # `view_copy` and its like are torch's variants of views that return new memory.
    return None if is_constructor(function) else RULES.get(function.strip("_").removesuffix("_copy"))
