"""Look first, then save: choose values by the structure of the graph, and keep those alone.

Three steps, after the workflow of the TorchLens paper:

1. watch the model without keeping a single value, to see its graph;
2. choose ops by where they stand in it: the poolings that follow a ReLU, the outputs of the top-level modules;
3. watch again and save exactly those.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cutaway
from cutaway import Trace


class SmallCNN(nn.Module):
    """Two convolution blocks with their poolings written as functions, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.classifier = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.first(images)), 2)  # (batch, 8, 8, 8)
        x = nn.functional.max_pool2d(torch.relu(self.second(x)), 2)  # (batch, 16, 4, 4)
        x = nn.functional.avg_pool2d(x, 4)  # (batch, 16, 1, 1)
        return self.classifier(x.flatten(1)).log_softmax(-1)


def main() -> None:
    torch.manual_seed(0)
    model = SmallCNN().eval()
    images = torch.randn(4, 3, 16, 16)

    with torch.no_grad(), cutaway.watch(model, save=None) as structure:
        model(images)
    print(f"1. Looked at the graph of {structure.model_name}: {n_saved(structure)}")
    for op in structure:
        print(f"     {op.label:<18} {op.site:<22} from {', '.join(parent.label for parent in op.parents)}")

    pools = structure.select(function="*pool*") & structure.select(function="relu").children
    tops = structure.select("*")
    print(f"2. Chose by structure: {', '.join(pools.labels)} (poolings after a ReLU)")
    print(f"     and {', '.join(tops.labels)} (outputs of top-level modules)")

    with torch.no_grad(), cutaway.watch(model, save=pools | tops) as trace:
        model(images)
    print(f"3. Watched again: {n_saved(trace)}")
    for op in trace.saved:
        print(f"     {op.label:<18} {op.value.shape!s:<26} mean {op.value.mean():+.4f}")

    everything, kept = structure.bytes, trace.saved.total.bytes
    print(f"   {kept:,} of {everything:,} bytes: {kept / everything:.0%} of what saving all would take.")


def n_saved(trace: Trace) -> str:
    return f"{len(trace.saved)} of {len(trace)} values saved."


if __name__ == "__main__":
    main()
