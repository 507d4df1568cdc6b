"""What of a model can be collected, with shapes and as JSON; and all of it can."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

import cutaway


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.rnn = nn.LSTM(4, 6, batch_first=True)
        self.head = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        seen, _ = self.rnn(self.conv(x).relu().flatten(2).mT)
        return self.head(self.head(seen))


def test_components_have_shapes_and_units() -> None:
    found = cutaway.sites(Net(), torch.ones(5, 3, 8, 8))
    assert isinstance(found, tuple)
    by_site = {component.site: component for component in found.components}
    assert by_site["conv"].shape == (5, 4, 6, 6)
    assert (by_site["conv"].unit_dims, by_site["conv"].sample_dims, by_site["conv"].n_units) == ((1,), (0,), 4)
    assert (by_site["conv"].kind, by_site["conv"].type) == ("module", "Conv2d")
    assert by_site["rnn@out.0"].shape == (5, 36, 6)
    assert by_site["./relu"].kind == "op"
    assert by_site["head"].n_passes == 2
    assert by_site[".@in.0"].kind == "input"
    assert not {"conv.weight", "head.bias"} & by_site.keys()


def test_json_is_the_same_list_and_can_be_chosen_from(tmp_path: Path) -> None:
    model, example = Net(), torch.randn(5, 3, 8, 8)
    found = cutaway.sites(model, example)
    text = found.to_json(tmp_path / "sites.json")
    rows = json.loads((tmp_path / "sites.json").read_text())
    assert rows == json.loads(text)
    assert [row["site"] for row in rows] == [component.site for component in found.components]
    chosen = [row["site"] for row in rows if row["kind"] == "module" and row["shape"][0] == 5]
    acts = cutaway.collect(model, example, at=chosen)
    assert {site.split(":")[0] for site in acts.sites} == set(chosen)
    for row in rows:
        if row["site"] in acts.sites:
            assert acts[row["site"]].n_units == row["n_units"]
