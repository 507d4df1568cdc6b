"""Which dimension of a live value counts its units: the channels of images and signals, else the last.

A trace follows a value back to the convolution it came from. While a model runs nobody keeps that account, so
here it is told from what made the value and from the channels that the model's convolutions have.
"""

from __future__ import annotations

from torch import Tensor, nn

from cutaway.core.sites import Site
from cutaway.graph.units import KEEP_LAYOUT, spatial_dimension

_CONVOLUTIONS = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)
_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)


class Layouts:
    """What a model's layers say of the values between them."""

    def __init__(self, model: nn.Module) -> None:
        self._channels: set[int] = set()
        self._widths: set[int] = set()
        for module in model.modules():
            if isinstance(module, _CONVOLUTIONS):
                for name in ("out_channels", "num_features", "num_channels"):
                    self._channels.add(int(getattr(module, name, -1)))
            elif isinstance(module, _LAST):
                shape = getattr(module, "normalized_shape", None)
                names = ("out_features", "embedding_dim", "embed_dim", "hidden_size")
                found = shape[-1:] if shape else [getattr(module, name, -1) for name in names]
                self._widths.update(int(width) for width in found)

    def at(self, site: Site, value: Tensor, module: nn.Module | None) -> int:
        """For the value at a site of a running model: what a module was given or returned, or what an op made."""
        return self.of_module(value, module) if site.op is None else self.of_op(value, site.op)

    def of_module(self, value: Tensor, module: nn.Module | None) -> int:
        """For what a module was given or returned."""
        last = max(value.dim() - 1, 0)
        if isinstance(module, _CONVOLUTIONS):
            return 1 if value.dim() > 1 else last
        if isinstance(module, _LAST):
            return last
        return self._guessed(value)

    def of_op(self, value: Tensor, kind: str) -> int:
        """For the result of a function."""
        known = spatial_dimension(kind, value.dim())
        if known is not None:
            return known
        return self._guessed(value) if kind in KEEP_LAYOUT else max(value.dim() - 1, 0)

    def _guessed(self, value: Tensor) -> int:
        """Channels, if the second dimension has as many as a convolution has and the last is no layer's width."""
        last = max(value.dim() - 1, 0)
        if value.dim() in (3, 4, 5) and value.shape[1] in self._channels and value.shape[-1] not in self._widths:
            return 1
        return last
