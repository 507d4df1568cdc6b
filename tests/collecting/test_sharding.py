"""Each process of a job collects its share, and all shares are the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.collecting import tiny
from torch import nn

import cutaway
from cutaway.collecting.collect import collect
from cutaway.core.errors import InputError

SENTENCES = ["a house", "the \u00ad cat sat", "reading and writing", "play", "a good day", "sport", "the mat"]


def test_shares_under_torchrun_are_the_whole_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    asked: dict[str, Any] = {"tokenizer": tokenizer, "at": "encoder.layer.*"}
    with pytest.warns(UserWarning, match="1 problem"):
        whole = collect(model, SENTENCES, **asked)
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        if rank == 0:
            with pytest.warns(UserWarning, match="1 problem"):
                collect(model, SENTENCES, **asked, path=tmp_path / "acts")
        else:
            collect(model, SENTENCES, **asked, path=tmp_path / "acts")
    with pytest.warns(UserWarning, match="1 problem"):
        assert len(collect(model, SENTENCES, **asked)) == len(whole), "in memory each process has all"
    acts = cutaway.load(tmp_path / "acts")
    np.testing.assert_allclose(acts.array(), whole.array(), atol=1e-5)
    assert acts.sentences == whole.sentences
    assert acts.items.tolist() == whole.items.tolist()
    assert acts.problems == whole.problems
    assert "shard" not in acts.provenance


def test_a_share_can_be_asked_for(tmp_path: Path) -> None:
    model, x = nn.Linear(3, 2), torch.randn(7, 3)
    whole = collect(model, x, at=".").array()
    halves = [collect(model, (x,), at=".", shard=(i, 2)) for i in range(2)]
    assert [len(half) for half in halves] == [3, 4]
    np.testing.assert_allclose(cutaway.Activations.join(halves).array(), whole, atol=1e-6)
    collect(model, x, at=".", shard=(0, 1), path=tmp_path / "plain")
    assert cutaway.load(tmp_path / "plain").n_items == 7


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), 3, (0,), (0.0, 2)])
def test_a_share_that_is_none_is_refused(shard: Any) -> None:
    with pytest.raises(InputError, match="pass \\(index, count\\)"):
        collect(nn.Linear(3, 2), torch.ones(4, 3), at=".", shard=shard)


def test_what_cannot_be_parted_is_refused() -> None:
    model, tokenizer = tiny.bert(), tiny.minilm()[1]
    with pytest.raises(InputError, match="7 items cannot be divided among 8 processes"):
        collect(model, SENTENCES, tokenizer=tokenizer, at="embeddings", shard=(0, 8))
    with pytest.raises(InputError, match="generator without a length"):
        collect(model, (one for one in SENTENCES), tokenizer=tokenizer, at="embeddings", shard=(0, 2))
    loader = torch.utils.data.DataLoader(torch.ones(4, 3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="DataLoader makes its own batches"):
        collect(nn.Linear(3, 2), loader, at=".", shard=(0, 2))
