"""Densities, codes and dynamics: flows, autoencoders, differential equations, attractors, spikes, splines."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.func import functional_call, jacrev, stack_module_state, vmap

from benchmarks.sweep.small.registry import small


class _Coupling(nn.Module):
    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fixed = x * self.mask
        scale, shift = self.net(fixed).chunk(2, dim=-1)
        scale = scale.tanh() * (1 - self.mask)
        return fixed + (1 - self.mask) * (x * scale.exp() + shift), scale.sum(-1)

    def back(self, y: Tensor) -> Tensor:
        fixed = y * self.mask
        scale, shift = self.net(fixed).chunk(2, dim=-1)
        return fixed + (1 - self.mask) * (y - shift) * (-scale.tanh()).exp()


class _RealNVP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        masks = [torch.tensor([1.0, 0, 1, 0]), torch.tensor([0, 1.0, 0, 1])] * 2
        self.couplings = nn.ModuleList(_Coupling(mask) for mask in masks)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, volume = x, torch.zeros(len(x))
        for coupling in self.couplings:
            z, change = coupling(z)
            volume = volume + change
        back = torch.randn(3, 4)
        for coupling in reversed(self.couplings):
            back = coupling.back(back)
        return Normal(0.0, 1.0).log_prob(z).sum(-1) + volume, back


@small
def real_nvp() -> tuple[Any, ...]:
    """Coupling layers forwards for the density and backwards for samples, as RealNVP."""
    return _RealNVP(), torch.randn(5, 4)


class _VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 2 * 4), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        mean, spread = self.encoder(x).chunk(2, -1)
        posterior = Normal(mean, F.softplus(spread) + 1e-4)
        z = posterior.rsample()
        made = self.decoder(z)
        prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
        kl = kl_divergence(posterior, prior).sum(-1)
        loss = F.binary_cross_entropy_with_logits(made, x.sigmoid(), reduction="none").sum(-1)
        return {"z": z, "made": made.sigmoid(), "loss": (loss + kl).mean()}


@small
def vae() -> tuple[Any, ...]:
    """A sampled code, its divergence from the prior, and the loss, as the variational autoencoder."""
    return _VAE(), torch.randn(3, 16)


class _VQVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 8, 4, 2, 1), nn.ConvTranspose1d(8, 1, 4, 2, 1)
        self.codes = nn.Parameter(torch.randn(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.encoder(x).mT
        index = torch.cdist(found, self.codes).argmin(-1)
        codes = F.embedding(index, self.codes)
        loss = F.mse_loss(codes, found.detach()) + 0.25 * F.mse_loss(found, codes.detach())
        codes = found + (codes - found).detach()
        return self.decoder(codes.mT), index, loss


@small
def vq_vae() -> tuple[Any, ...]:
    """The nearest code of a book, passed straight through, as VQ-VAE."""
    return _VQVAE(), torch.randn(2, 1, 16)


class _ODE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))

    def _slope(self, t: Tensor, y: Tensor) -> Tensor:
        return self.field(torch.cat([y, t.expand(len(y), 1)], -1))

    def forward(self, y: Tensor, times: Tensor) -> Tensor:
        path = [y]
        for t, then in itertools.pairwise(times):
            h = then - t
            k1 = self._slope(t, y)
            k2 = self._slope(t + h / 2, y + h * k1 / 2)
            k3 = self._slope(t + h / 2, y + h * k2 / 2)
            k4 = self._slope(then, y + h * k3)
            y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
            path.append(y)
        return torch.stack(path)


@small
def neural_ode() -> tuple[Any, ...]:
    """A learned field integrated by Runge and Kutta's rule."""
    return _ODE(), torch.randn(4, 2), torch.linspace(0, 1, 6)


class _Hamiltonian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, state: Tensor) -> Tensor:
        slopes = vmap(jacrev(lambda s: self.energy(s)[0]))(state)
        q, p = slopes.chunk(2, -1)
        return torch.cat([p, -q], -1)


@small
def hamiltonian() -> tuple[Any, ...]:
    """Motion from the gradient of a learned energy, by vmap and jacrev."""
    return _Hamiltonian(), torch.randn(5, 4)


class _Hopfield(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patterns = nn.Parameter(torch.randn(6, 8))

    def forward(self, state: Tensor, beta: float) -> tuple[Tensor, int]:
        for n in range(20):
            then = (beta * state @ self.patterns.T).softmax(-1) @ self.patterns
            if torch.dist(then, state) < 1e-3:
                return then, n
            state = then
        return state, 20


@small
def hopfield() -> tuple[Any, ...]:
    """Retrieval until nothing moves, as the modern Hopfield network."""
    return _Hopfield(), torch.randn(3, 8), 4.0


class _Equilibrium(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 8)
        self.inner.weight.data.mul_(0.3)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        for _ in range(30):
            before, z = z, torch.tanh(self.inner(z) + self.outer(x))
            if (z - before).norm().item() < 1e-4:
                break
        return z


@small
def deep_equilibrium() -> tuple[Any, ...]:
    """A layer repeated to its fixed point, as the deep equilibrium model."""
    return _Equilibrium(), torch.randn(3, 8)


class _Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(10, 16), nn.Linear(16, 4)

    def forward(self, rates: Tensor, n_steps: int) -> Tensor:
        u, v, out = torch.zeros(len(rates), 16), torch.zeros(len(rates), 4), torch.zeros(len(rates), 4)
        for _ in range(n_steps):
            u = 0.9 * u + self.first(torch.bernoulli(rates))
            spikes = (u > 1).float()
            u = u - spikes
            v = 0.9 * v + self.second(spikes)
            fired = (v > 0.5).float()
            v = v * (1 - fired)
            out += fired
        return out / n_steps


@small
def spiking() -> tuple[Any, ...]:
    """Leaky neurons that fire and reset, over steps, on random spike trains."""
    return _Spiking(), torch.rand(3, 10), 8


class _KAN(nn.Module):
    def __init__(self, i: int, o: int, n_knots: int = 8, order: int = 3) -> None:
        super().__init__()
        self.order = order
        step = 2.0 / (n_knots - order)
        self.register_buffer("knots", torch.arange(-order, n_knots + 1) * step - 1)
        self.base, self.spline = nn.Parameter(torch.randn(o, i)), nn.Parameter(torch.randn(o, i, n_knots) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        g, y = self.knots, x[..., None]
        bases = ((y >= g[:-1]) & (y < g[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (y - g[: -k - 1]) / (g[k:-1] - g[: -k - 1]) * bases[..., :-1]
            right = (g[k + 1 :] - y) / (g[k + 1 :] - g[1:-k]) * bases[..., 1:]
            bases = left + right
        return F.linear(F.silu(x), self.base) + torch.einsum("bik,oik->bo", bases, self.spline)


@small
def kan() -> tuple[Any, ...]:
    """Learned splines on the edges, as the Kolmogorov–Arnold network."""
    return nn.Sequential(_KAN(4, 6), _KAN(6, 2)), torch.rand(5, 4) * 2 - 1


class _Hyper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.make, self.target = nn.Linear(3, 8 * 4 + 8), nn.Linear(4, 8)

    def forward(self, task: Tensor, x: Tensor) -> Tensor:
        made = self.make(task)
        weights = {"weight": made[:32].view(8, 4), "bias": made[32:]}
        return functional_call(self.target, weights, (x,))


@small
def hypernetwork() -> tuple[Any, ...]:
    """A network whose weights another network makes."""
    return _Hyper(), torch.randn(3), torch.randn(5, 4)


class _Ensemble(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        parameters, buffers = stack_module_state(list(self.members))  # type: ignore[arg-type]
        base = copy.deepcopy(self.members[0]).to("meta")
        found = vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers)
        return found.mean(0), found.std(0)


@small
def ensemble() -> tuple[Any, ...]:
    """Three members in one batched call, by vmap."""
    return _Ensemble(), torch.randn(5, 4)


class _Learner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor, y: Tensor, query: Tensor) -> Tensor:
        weights = dict(self.net.named_parameters())
        with torch.enable_grad():
            for _ in range(2):
                loss = F.mse_loss(functional_call(self.net, weights, (x,)), y)
                slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
                weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), slopes, strict=True)}
        return functional_call(self.net, weights, (query,))


@small
def maml() -> tuple[Any, ...]:
    """Two steps of learning inside the forward, as model-agnostic meta-learning."""
    return _Learner(), torch.randn(6, 1), torch.randn(6, 1), torch.randn(3, 1)
