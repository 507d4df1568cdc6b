"""Audio: waveforms, spectrograms, separation, transduction."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small


def _waves(batch: int = 2, length: int = 1600) -> Tensor:
    return torch.randn(batch, 1, length)


@small
def m5() -> tuple[Any, ...]:
    """A stack of strided convolutions on the waveform, as M5."""
    widths = [(1, 8, 40, 8), (8, 8, 3, 1), (8, 16, 3, 1)]
    blocks = [
        nn.Sequential(nn.Conv1d(i, o, k, s), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(4)) for i, o, k, s in widths
    ]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 5)), _waves()


class _Contrastive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        strides = [(1, 16, 10, 5), (16, 16, 3, 2), (16, 16, 3, 2)]
        self.convs = nn.ModuleList(nn.Conv1d(i, o, k, s, bias=False) for i, o, k, s in strides)
        self.norm = nn.GroupNorm(16, 16)
        self.position = nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 8, padding=4, groups=4), dim=2)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.codes = nn.Parameter(torch.randn(2, 8, 4))
        self.to_codes = nn.Linear(16, 16)
        self.masked = nn.Parameter(torch.randn(16))

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        x = wave
        for i, conv in enumerate(self.convs):
            x = F.gelu(self.norm(conv(x)) if i == 0 else conv(x))
        x = x.mT  # (batch, frame, unit)
        logits = self.to_codes(x).unflatten(-1, (2, 8))
        chosen = F.gumbel_softmax(logits, tau=0.5, hard=True, dim=-1)
        targets = torch.einsum("bfgc,gcd->bfgd", chosen, self.codes).flatten(2)
        x = torch.where(torch.rand(x.shape[:2])[..., None] < 0.3, self.masked, x)
        x = x + F.gelu(self.position(x.mT)[..., :-1]).mT
        return self.encoder(x), targets


@small
def wav2vec() -> tuple[Any, ...]:
    """Convolutions, quantized targets and a masked transformer, as wav2vec 2.0."""
    return _Contrastive(), _waves()


class _Separation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 16, 16, 8, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(16, 32, 1),
                nn.PReLU(),
                nn.GroupNorm(1, 32),
                nn.Conv1d(32, 32, 3, padding=2**i, dilation=2**i, groups=32),
                nn.PReLU(),
                nn.GroupNorm(1, 32),
                nn.Conv1d(32, 16, 1),
            )
            for i in range(3)
        )
        self.masks = nn.Conv1d(16, 2 * 16, 1)
        self.decoder = nn.ConvTranspose1d(16, 1, 16, 8, bias=False)

    def forward(self, wave: Tensor) -> Tensor:
        mixture = F.relu(self.encoder(wave))  # (batch, unit, frame)
        x = mixture
        for block in self.blocks:
            x = x + block(x)
        masks = self.masks(x).unflatten(1, (2, 16)).sigmoid()
        parts = masks * mixture[:, None]
        return self.decoder(parts.flatten(0, 1)).unflatten(0, (-1, 2)).squeeze(2)


@small
def conv_tasnet() -> tuple[Any, ...]:
    """Masks over a learned basis, with dilated depthwise convolutions, as Conv-TasNet."""
    return _Separation(), _waves()


class _Spectral(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", torch.rand(33, 12))
        self.net = nn.GRU(12, 16, batch_first=True, bidirectional=True)
        self.mask = nn.Linear(32, 33)

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.stft(wave[:, 0], 64, 32, window=self.window, return_complex=True)  # (batch, bin, frame)
        mel = torch.log1p(found.abs().pow(2).mT @ self.mel)
        mask = self.mask(self.net(mel)[0]).sigmoid().mT
        clean = torch.istft(found * mask, 64, 32, window=self.window, length=wave.shape[-1])
        return clean, found.angle()


@small
def spectral_mask() -> tuple[Any, ...]:
    """Short-time Fourier transform, mel features, a mask, and back."""
    return _Spectral(), _waves()


class _WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 12)
        self.gates = nn.ModuleList(nn.Conv1d(12, 24, 2, dilation=2**i) for i in range(4))
        self.skips = nn.ModuleList(nn.Conv1d(12, 12, 1) for _ in range(4))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(12, 32, 1))

    def forward(self, codes: Tensor, n_new: int) -> Tensor:
        for _ in range(n_new):
            x, skip = self.embed(codes).mT, torch.zeros(())
            for i, (gate, out) in enumerate(zip(self.gates, self.skips, strict=True)):
                a, b = gate(F.pad(x, (2**i, 0))).chunk(2, dim=1)
                found = out(torch.tanh(a) * torch.sigmoid(b))
                x, skip = x + found, skip + found
            probabilities = self.head(skip)[..., -1].softmax(-1)
            codes = torch.cat([codes, torch.multinomial(probabilities, 1)], dim=1)
        return codes


@small
def wavenet() -> tuple[Any, ...]:
    """Causal dilated convolutions with gates, sampling three codes, as WaveNet."""
    return _WaveNet(), torch.randint(32, (2, 20)), 3


class _Transducer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(12, 16, batch_first=True)
        self.embed = nn.Embedding(10, 16)
        self.predictor = nn.LSTMCell(16, 16)
        self.joint = nn.Linear(16, 10)

    def forward(self, features: Tensor) -> tuple[Tensor, list[int]]:
        heard, _ = self.encoder(features)
        state: Any = None
        token, found, scores = torch.zeros(1, dtype=torch.long), [], []
        for frame in heard[0]:
            for _ in range(2):
                h, c = self.predictor(self.embed(token), state)
                logits = self.joint(torch.tanh(frame + h))
                scores.append(logits.log_softmax(-1).max())
                best = logits.argmax(-1)
                if best.item() == 0:
                    break
                token, state = best, (h, c)
                found.append(int(best))
        return torch.stack(scores).sum(), found


@small
def transducer() -> tuple[Any, ...]:
    """Greedy decoding with an encoder, a predictor and a joint, as RNN-T."""
    return _Transducer(), torch.randn(1, 6, 12)


class _Listener(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, (2, 1), 1)
        self.lstm = nn.LSTM(32, 16, num_layers=2, bidirectional=True)
        self.head = nn.Linear(32, 10)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        x = F.hardtanh(self.conv(features[:, None]), 0, 20).flatten(1, 2).permute(2, 0, 1)  # (frame, batch, unit)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        x, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0])
        logits = self.head(x).log_softmax(-1)
        return F.ctc_loss(logits, torch.ones(2, 3, dtype=torch.long), lengths, torch.tensor([3, 2]))


@small
def deep_speech() -> tuple[Any, ...]:
    """Convolution, packed bidirectional LSTMs and the CTC loss, as Deep Speech 2."""
    return _Listener(), torch.randn(2, 16, 20), torch.tensor([20, 14])
