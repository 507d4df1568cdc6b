"""Reinforcement learning: policies that sample, values, and a search."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal, TanhTransform, TransformedDistribution

from benchmarks.sweep.small.registry import small


class _ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        h = self.body(seen)
        chosen = Categorical(logits=self.policy(h))
        action = chosen.sample()
        return action, chosen.log_prob(action), chosen.entropy(), self.value(h).squeeze(-1)


@small
def actor_critic() -> tuple[Any, ...]:
    """A sampled action, its log-probability, the entropy and the value, as A2C."""
    return _ActorCritic(), torch.randn(5, 8)


class _Dueling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(4, 8, 4, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
        self.value, self.advantage = nn.Linear(200, 1), nn.Linear(200, 6)

    def forward(self, frames: Tensor, actions: Tensor, rewards: Tensor) -> tuple[Tensor, Tensor]:
        h = self.convs(frames / 255.0)
        advantage = self.advantage(h)
        q = self.value(h) + advantage - advantage.mean(-1, keepdim=True)
        explore = torch.rand(len(q)) < 0.1
        chosen = torch.where(explore, torch.randint(6, (len(q),)), q.argmax(-1))
        target = rewards + 0.99 * q.detach().max(-1).values
        return chosen, F.smooth_l1_loss(q.gather(1, actions[:, None]).squeeze(1), target)


@small
def dueling_dqn() -> tuple[Any, ...]:
    """Value and advantage from frames, a random action now and then, and the loss, as dueling DQN."""
    frames = torch.randint(256, (3, 4, 16, 16), dtype=torch.uint8)
    return _Dueling(), frames, torch.tensor([0, 3, 5]), torch.randn(3)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.policy, self.value = nn.GRUCell(6, 12), nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, seen: Tensor, ended: Tensor, old: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(seen.shape[1], 12)
        logs, values = [], []
        for x, end in zip(seen, ended, strict=True):
            h = self.cell(x, h * (1 - end[:, None]))
            chosen = Categorical(logits=self.policy(h))
            logs.append(chosen.log_prob(chosen.sample()))
            values.append(self.value(h)[:, 0])
        ratio = (torch.stack(logs) - old).exp()
        advantage, found = torch.zeros_like(values[0]), []
        for t in reversed(range(len(values) - 1)):
            advantage = 0.1 + 0.99 * values[t + 1] - values[t] + 0.95 * advantage
            found.insert(0, advantage)
        gain = torch.stack(found)
        return torch.min(ratio[:-1] * gain, ratio[:-1].clamp(0.8, 1.2) * gain).mean().neg(), h


@small
def recurrent_ppo() -> tuple[Any, ...]:
    """A GRU that is reset where episodes end, advantages backwards in time, the clipped loss, as PPO."""
    return _Recurrent(), torch.randn(7, 3, 6), torch.randint(2, (7, 3)).float(), torch.randn(7, 3) * 0.1 - 1


class _SoftActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.log_std = nn.Linear(6, 16), nn.Linear(16, 2), nn.Linear(16, 2)
        self.critics = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 1)) for _ in range(2)
        )
        self.log_alpha = nn.Parameter(torch.zeros(()))

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.body(seen))
        normal = Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp())
        policy = TransformedDistribution(Independent(normal, 1), [TanhTransform(cache_size=1)])
        action = policy.rsample()
        q = torch.stack([critic(torch.cat([seen, action], -1)) for critic in self.critics]).min(0).values
        return action, (self.log_alpha.exp() * policy.log_prob(action) - q.squeeze(-1)).mean()


@small
def soft_actor_critic() -> tuple[Any, ...]:
    """A squashed normal that gradients pass, and the lower of two critics, as SAC."""
    return _SoftActorCritic(), torch.randn(4, 6)


class _Planner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.dynamics = nn.Linear(6, 10), nn.Linear(10 + 3, 10)
        self.reward, self.policy, self.value = nn.Linear(10, 1), nn.Linear(10, 3), nn.Linear(10, 1)

    def forward(self, seen: Tensor, n_simulations: int) -> tuple[Tensor, Tensor]:
        root = torch.tanh(self.encode(seen))
        prior, visits, total = self.policy(root).softmax(-1), torch.zeros(3), torch.zeros(3)
        for _ in range(n_simulations):
            score = total / visits.clamp(min=1) + 1.25 * prior * visits.sum().sqrt() / (1 + visits)
            action, h, gain = int(score.argmax()), root, torch.zeros(())
            for depth in range(2):
                h = torch.tanh(self.dynamics(torch.cat([h, F.one_hot(torch.tensor(action), 3).float()])))
                gain = gain + 0.9**depth * self.reward(h)[0]
                action = int(self.policy(h).argmax())
            first = int(score.argmax())
            visits[first] += 1
            total[first] += gain + 0.81 * self.value(h)[0]
        return visits / visits.sum(), total


@small
def learned_planner() -> tuple[Any, ...]:
    """A few simulations in a learned model, counted in place, as MuZero."""
    return _Planner(), torch.randn(6), 5


class _WorldModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8 + 2, 12)
        self.prior, self.posterior = nn.Linear(12, 2 * 4), nn.Linear(12 + 5, 2 * 4)
        self.decode = nn.Linear(12 + 8, 5)

    def forward(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        h, z = torch.zeros(seen.shape[1], 12), torch.zeros(seen.shape[1], 8)
        losses, frames = [], []
        for x, a in zip(seen, actions, strict=True):
            h = self.cell(torch.cat([z, a], -1), h)
            prior = self.prior(h).unflatten(-1, (2, 4)).log_softmax(-1)
            posterior = self.posterior(torch.cat([h, x], -1)).unflatten(-1, (2, 4)).log_softmax(-1)
            drawn = F.one_hot(Categorical(logits=posterior).sample(), 4) + posterior.exp() - posterior.exp().detach()
            z = drawn.flatten(1)
            losses.append(F.kl_div(prior, posterior, log_target=True, reduction="batchmean"))
            frames.append(self.decode(torch.cat([h, z], -1)))
        return torch.stack(frames), torch.stack(losses).mean()


@small
def world_model() -> tuple[Any, ...]:
    """A recurrent state with discrete latents, prior against posterior, as Dreamer."""
    return _WorldModel(), torch.randn(4, 2, 5), torch.randn(4, 2, 2)
