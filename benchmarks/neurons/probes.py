"""What probes cost beside NeuroX: its training of a linear probe, and its search with a Gaussian one.

NeuroX pins packages of 2021, which do not go with current ones, so both are written anew from their formulae: the same
Adam steps, the same normal distributions in float64, candidate by candidate. Activations are drawn, with the
correlations and the unequal classes of a real layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import MultivariateNormal
from torch.nn import functional

from benchmarks.report import Figure, short
from cutaway.neurons.probes.gaussian.greedy import Greedy, scatter_of
from cutaway.probes import Gaussian, Linear

LINEAR = "elastic-net probe, beside NeuroX's training"
GAUSSIAN = "greedy Gaussian ranking, per candidate, beside NeuroX's"
_SHARES = (0.78, 0.13, 0.035, 0.03, 0.017, 0.008)
_N_SAMPLED = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    n_rows: int
    n_units: int
    n_rounds: int


FULL = Size(20_000, 384, 4)
QUICK = Size(4_000, 384, 2)


def figures(size: Size) -> list[Figure]:
    x, y = drawn(size.n_rows, size.n_units)
    return [*linear(x, y), *gaussian(x, y, size.n_rounds)]


def drawn(n_rows: int, n_units: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Activations of a spectrum that falls off, and six classes of unequal size, each with means of its own."""
    random = np.random.default_rng(0)
    y = random.choice(len(_SHARES), n_rows, p=np.array(_SHARES) / sum(_SHARES))
    spectrum = np.arange(1, n_units + 1) ** -0.5
    mixing = random.normal(size=(n_units, n_units)) * spectrum[:, None]
    means = random.normal(size=(len(_SHARES), n_units)) * 0.12
    x = (random.normal(size=(n_rows, n_units)) + means[y]) @ mixing
    return (x / x.std()).astype(np.float32), y


def linear(x: NDArray[Any], y: NDArray[Any]) -> Iterator[Figure]:
    """The same objective, NeuroX's, with its 10 passes of Adam and at its minimum; then ours."""
    on = f"{len(x):,} × {x.shape[1]}, {len(_SHARES)} classes"
    for strength in (1e-5, 1e-3):
        started = thread_time()
        theirs = neurox_training(torch.from_numpy(x), torch.from_numpy(y), strength)
        peer = thread_time() - started
        started = thread_time()
        probe = Linear(l1=strength, l2=strength, compat="neurox", solver="full").fit(x, y)
        spent = thread_time() - started
        ours = objective(probe.coef_, probe.intercept_, x, y, strength)
        reached = objective(theirs.weight.detach().numpy(), theirs.bias.detach().numpy(), x, y, strength)
        remark = f"its objective {ours:.4f}, NeuroX reaches {reached:.4f}"
        if ours > reached:
            remark = f"WORSE LOSS: {remark}"
        where = f"λ = {strength:g}, {on}"
        yield Figure(LINEAR, where, spent, "s", peer / 5, peer, remark=remark)
        started = thread_time()
        probe = Linear(l1=strength, l2=strength).fit(x, y)
        spent = thread_time() - started
        yield Figure(LINEAR, f"default, {where}", spent, "s", peer / 5, peer, remark=f"{probe.n_iter_} iterations")


def gaussian(x: NDArray[Any], y: NDArray[Any], n_rounds: int) -> Iterator[Figure]:
    """Rounds of the search, each beside some candidates of the same round done one by one."""
    values = torch.from_numpy((x - x.mean(0)) / x.std(0))
    parts = [(code, values[torch.from_numpy(y == code)]) for code in range(len(_SHARES))]
    greedy = Greedy(lambda: iter(parts), scatter_of(lambda: iter(parts), len(parts), x.shape[1]), n_all=x.shape[1])
    one_by_one = _OneByOne(values, torch.from_numpy(y))
    one_by_one.score([0])  # torch.distributions loads late
    for _ in range(n_rounds):
        started = thread_time()
        gains = greedy.gains()
        ours = (thread_time() - started) / x.shape[1]
        candidates = [unit for unit in range(_N_SAMPLED + n_rounds) if unit not in greedy.chosen][:_N_SAMPLED]
        started = thread_time()
        theirs = [one_by_one.score([*greedy.chosen, unit]) for unit in candidates]
        peer = (thread_time() - started) / len(candidates)
        apart = np.abs(gains[candidates] - theirs).max()
        on = f"unit {len(greedy.chosen) + 1}, {len(x):,} × {x.shape[1]}"
        yield Figure(GAUSSIAN, on, ours * 1e3, "ms", peer * 1e3 / 50, peer * 1e3, remark=f"{apart:.0e} bits apart")
        greedy.add(int(gains.argmax()))
    started = thread_time()
    probe = Gaussian(n_units=10).fit(x, y)
    spent = thread_time() - started
    told = f"{short(probe.mutual_information_[-1])} bits held out"
    yield Figure("Gaussian(n_units=10).fit, null included", f"{len(x):,} × {x.shape[1]}", spent, "s", remark=told)


def neurox_training(x: torch.Tensor, y: torch.Tensor, strength: float) -> torch.nn.Linear:
    """10 passes of Adam at 0.001 over batches of 32 in order, with Σ|W| and the norm of W in every batch's loss."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
    adam = torch.optim.Adam(layer.parameters(), lr=1e-3)
    for _ in range(10):
        for batch, labels in zip(x.split(32), y.split(32), strict=True):
            adam.zero_grad()
            weight = layer.weight
            loss = functional.cross_entropy(layer(batch), labels)
            loss = loss + strength * weight.abs().sum() + strength * weight.pow(2).sum().sqrt()
            loss.backward()
            adam.step()
    return layer


def objective(weights: Any, intercepts: Any, x: NDArray[Any], y: NDArray[Any], strength: float) -> float:
    """NeuroX's, over all rows."""
    outputs = x @ np.asarray(weights).T + np.asarray(intercepts)
    fit = float((np.logaddexp.reduce(outputs, axis=1) - outputs[np.arange(len(y)), y]).mean())
    return fit + strength * float(np.abs(weights).sum() + np.sqrt((weights**2).sum()))


class _OneByOne:
    """Mutual information of one set of units at a time, as NeuroX computes it: in float64, with the predictions."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self._x, self._y = x, y
        self._means, self._covariances, priors = [], [], []
        for code in range(int(y.max()) + 1):
            rows = x[y == code].double()
            centered = rows - rows.mean(0)
            self._means.append(rows.mean(0))
            scatter = torch.diag(rows.var(0)) + centered.T @ centered
            self._covariances.append(scatter / (len(rows) + 2 * x.shape[1] + 4))
            priors.append(len(rows) / len(x))
        self._priors = torch.tensor(priors, dtype=torch.float64)

    def score(self, units: list[int]) -> float:
        joint = torch.stack(
            [
                MultivariateNormal(mean[units], covariance[units][:, units]).log_prob(self._x[:, units])
                for mean, covariance in zip(self._means, self._covariances, strict=True)
            ],
            dim=1,
        )
        joint = joint + self._priors.log()
        posteriors = joint - joint.logsumexp(dim=1, keepdim=True)
        _ = (posteriors.argmax(dim=1) == self._y).double().mean()
        entropy = -(self._priors * self._priors.log()).sum()
        told = entropy + posteriors[torch.arange(len(self._y)), self._y].mean()
        return float(told / np.log(2))
