"""Graph networks: sparse products, scatters, edges with features, attention over neighbors, trees."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sweep.small.registry import small

NODES, EDGES, WIDTH = 12, 40, 8


def _graph() -> tuple[Tensor, Tensor]:
    """Features of the nodes, and (from, to) of the edges."""
    return torch.randn(NODES, WIDTH), torch.randint(NODES, (2, EDGES))


class _GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, 16, bias=False), nn.Linear(16, 3, bias=False)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        n = len(x)
        edges = torch.cat([edges, torch.arange(n).expand(2, n)], dim=1)
        degree = torch.bincount(edges[1], minlength=n).float().rsqrt()
        weights = degree[edges[0]] * degree[edges[1]]
        adjacency = torch.sparse_coo_tensor(edges.flip(0), weights, (n, n), check_invariants=True).coalesce()
        for i, layer in enumerate(self.layers):
            x = torch.sparse.mm(adjacency, layer(x))
            x = x.relu() if i == 0 else x
        return x.log_softmax(-1)


@small
def gcn() -> tuple[Any, ...]:
    """Normalized sparse products, as the graph convolutional network."""
    return _GCN(), *_graph()


class _GAT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 2 * 8, bias=False)
        self.source, self.target = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.randn(2, 8))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = self.project(x).view(len(x), 2, 8)  # (node, head, unit)
        source, target = edges
        scores = F.leaky_relu((h * self.source).sum(-1)[source] + (h * self.target).sum(-1)[target], 0.2)
        where = target[:, None].expand_as(scores)
        highest = torch.full((len(x), 2), -torch.inf).scatter_reduce(0, where, scores, "amax")
        raised = (scores - highest[target]).exp()
        total = torch.zeros(len(x), 2).scatter_add_(0, where, raised)
        weights = raised / (total[target] + 1e-9)
        out = torch.zeros_like(h).index_add_(0, target, h[source] * weights[..., None])
        return F.elu(out.flatten(1))


@small
def gat() -> tuple[Any, ...]:
    """A softmax over each node's neighbors by scatters, as the graph attention network."""
    return _GAT(), *_graph()


class _SAGE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.others = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        count = torch.zeros(len(x)).index_add_(0, target, torch.ones(len(target))).clamp_(min=1)
        for own, others in zip(self.own, self.others, strict=True):
            mean = torch.zeros_like(x).index_add(0, target, x[source]) / count[:, None]
            x = F.normalize(F.relu(own(x) + others(mean)), dim=-1)
        return x


@small
def graph_sage() -> tuple[Any, ...]:
    """Means of the neighbors by index_add, as GraphSAGE."""
    return _SAGE(), *_graph()


class _Maximum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH))
        self.update = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor, n_rounds: int) -> Tensor:
        source, target = edges
        for _ in range(n_rounds):
            messages = self.message(torch.cat([x[source], x[target]], dim=-1))
            best = torch.zeros_like(x).index_reduce_(0, target, messages, "amax", include_self=False)
            x = self.update(best, x)
        return x.amax(0)


@small
def message_passing() -> tuple[Any, ...]:
    """Rounds of messages, their maximum by index_reduce, and a GRU."""
    return _Maximum(), *_graph(), 3


class _EdgeConditioned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, WIDTH * WIDTH))
        self.root = nn.Linear(WIDTH, WIDTH)
        self.pool = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, edges: Tensor, features: Tensor, graph: Tensor) -> Tensor:
        kernels = self.kernel(features).view(-1, WIDTH, WIDTH)
        messages = torch.bmm(x[edges[0]][:, None], kernels).squeeze(1)
        x = F.relu(self.root(x) + torch.zeros_like(x).index_add(0, edges[1], messages))
        gate = self.pool(x).sigmoid()
        return torch.segment_reduce(gate * x, "sum", lengths=torch.bincount(graph))


@small
def edge_conditioned() -> tuple[Any, ...]:
    """Weights made from the features of each edge, and a pooled vector for each graph of a batch."""
    return _EdgeConditioned(), *_graph(), torch.randn(EDGES, 4), torch.tensor([0] * 7 + [1] * 5)


class _GraphTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Linear(4, WIDTH)
        self.distance = nn.Embedding(6, 2)
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        n = len(x)
        adjacency = torch.zeros(n, n)
        adjacency[edges[0], edges[1]] = 1
        adjacency = torch.maximum(adjacency, adjacency.T)
        laplacian = torch.diag(adjacency.sum(1)) - adjacency
        _, vectors = torch.linalg.eigh(laplacian)
        hops, reached = torch.full((n, n), 5), torch.eye(n)
        for i in range(4, -1, -1):
            hops = torch.where(torch.matrix_power(reached + adjacency, i) > 0, i, hops)
        q, k, v = self.project(x + self.position(vectors[:, 1:5].abs())).view(n, 3, 2, -1).permute(1, 2, 0, 3)
        bias = self.distance(hops).permute(2, 0, 1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(0, 1).flatten(1))


@small
def graph_transformer() -> tuple[Any, ...]:
    """Attention with Laplacian positions and a bias by distance, as Graphormer."""
    return _GraphTransformer(), *_graph()


class _Equivariant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * WIDTH + 1, 16), nn.SiLU(), nn.Linear(16, WIDTH), nn.SiLU())
        self.shift = nn.Linear(WIDTH, 1, bias=False)
        self.node = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        source, target = edges
        for _ in range(2):
            difference = places[source] - places[target]
            length = difference.square().sum(-1, keepdim=True)
            messages = self.edge(torch.cat([x[source], x[target], length], -1))
            moved = difference / (length.sqrt() + 1) * self.shift(messages)
            places = places.scatter_add(0, target[:, None].expand(-1, 3), moved)
            x = x + self.node(torch.cat([x, torch.zeros_like(x).index_add(0, target, messages)], -1))
        return x, places


@small
def equivariant() -> tuple[Any, ...]:
    """Nodes that have a place in space, moved along their edges, as E(n)-GNN."""
    return _Equivariant(), *_graph(), torch.randn(NODES, 3)


class _Tree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.iou, self.forget = nn.Embedding(10, 6), nn.Linear(12, 18), nn.Linear(12, 6)

    def forward(self, tree: Any) -> tuple[Tensor, Tensor]:
        if isinstance(tree, int):
            x, children = self.embed(torch.tensor(tree)), []
        else:
            x, children = torch.zeros(6), [self(child) for child in tree]
        total = torch.stack([h for h, _ in children]).sum(0) if children else torch.zeros(6)
        i, o, u = self.iou(torch.cat([x, total])).chunk(3)
        c = i.sigmoid() * u.tanh()
        for h, child in children:
            c = c + self.forget(torch.cat([x, h])).sigmoid() * child
        return o.sigmoid() * c.tanh(), c


@small
def tree_lstm() -> tuple[Any, ...]:
    """A module that calls itself down a tree, as the child-sum Tree-LSTM."""
    return _Tree(), [[1, 2], 3, [4, [5, 6]]]
