"""Tensors through models: images, sequences, tables, and tokens that were made elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.collecting import tiny
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from cutaway.collecting.collect import collect
from cutaway.core.errors import InputError


class Net(nn.Module):
    """Convolutions whose results are overwritten in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.act = nn.ReLU(inplace=True)
        self.second = nn.Conv2d(4, 5, 3, stride=2)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.act(self.first(x))).mean((2, 3)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


IMAGES = torch.randn(7, 3, 9, 9, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("batch_size", [1, 2, 3, None])
def test_channels_of_convolutions_are_units_pooled_over_the_image(net: Net, batch_size: int | None) -> None:
    how: Any = {} if batch_size is None else {"batch_size": batch_size}
    acts = collect(net, IMAGES, at=["first", "second", "head"], **how)
    assert dict(zip(acts.sites, acts.widths, strict=True)) == {"first": 4, "second": 5, "head": 2}
    with torch.no_grad():
        first = nn.functional.conv2d(IMAGES, net.first.weight, net.first.bias)
    np.testing.assert_allclose(acts["first"].array(), first.mean((2, 3)).numpy(), atol=1e-6)
    assert acts["first"].array().min() < 0, "what came out, not what was made of it in place"
    np.testing.assert_allclose(acts["head"].array(), net(IMAGES).detach().numpy(), atol=1e-6)
    most = collect(net, IMAGES, at="first", aggregate="max", **how)
    np.testing.assert_allclose(most.array(), first.amax((2, 3)).numpy(), atol=1e-6)


def test_positions_of_an_image_are_rows_where_they_are_asked_for(net: Net) -> None:
    acts = collect(net, IMAGES, at="second", rows="positions", batch_size=3)
    with torch.no_grad():
        wanted = net.second(net.first(IMAGES).relu()).permute(0, 2, 3, 1).reshape(-1, 5)
    np.testing.assert_allclose(acts.array(), wanted.numpy(), atol=1e-6)
    assert acts.items.tolist() == np.repeat(np.arange(7), 9).tolist()
    assert acts.word_index[:10].tolist() == [*range(9), 0]
    with pytest.raises(InputError, match="different numbers of positions"):
        collect(net, IMAGES, at=["first", "second"], rows="positions")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_dimension_of_samples_is_found_wherever_it_is(n: int) -> None:
    """The states of an LSTM have it second; here there are as many layers as samples."""
    torch.manual_seed(0)
    model = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    data = torch.randn(n, 6, 3)
    acts = collect(model, data, at=[".@out.0", ".@out.1.0"], aggregate="last", batch_size=2)
    output, (h, _) = model(data)
    np.testing.assert_allclose(acts[".@out.0"].array(), output[:, -1].detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(acts[".@out.1.0"].array(), h[-1].detach().numpy(), atol=1e-6)


def test_loaders_mappings_and_tuples_are_called_as_the_model_wants(net: Net) -> None:
    wanted = collect(net, IMAGES, at="second").array()
    pairs = DataLoader(TensorDataset(IMAGES, torch.arange(7)), batch_size=3)
    acts = collect(net, pairs, at="second", call=lambda model, batch: model(batch[0]))
    np.testing.assert_allclose(acts.array(), wanted, atol=1e-6)
    np.testing.assert_allclose(collect(net, (IMAGES,), at="second").array(), wanted, atol=1e-6)
    np.testing.assert_allclose(collect(net, {"x": IMAGES.numpy()}, at="second").array(), wanted, atol=1e-6)
    np.testing.assert_allclose(collect(net, iter(IMAGES.split(4)), at="second").array(), wanted, atol=1e-6)
    with pytest.raises(InputError, match=r"list of 2, but Net does not accept as many.*call=lambda model, batch"):
        collect(net, pairs, at="second")


def test_masked_positions_of_tokens_made_elsewhere_do_not_count() -> None:
    model, tokenizer = tiny.minilm()
    sentences = ["a cat", "Mauritians play every day"]
    encoded = dict(tokenizer(sentences, padding=True, return_tensors="pt"))
    acts = collect(model, encoded, at="encoder.layer.1", aggregate="average")
    for i, sentence in enumerate(sentences):
        alone = dict(tokenizer(sentence, return_tensors="pt"))
        with torch.no_grad():
            state = model(**alone, output_hidden_states=True).hidden_states[2][0]
        np.testing.assert_allclose(acts.array()[i], state.mean(0).numpy(), atol=1e-5)
    rows = collect(model, encoded, at="encoder.layer.1", rows="positions")
    assert len(rows) == int(encoded["attention_mask"].sum())


@pytest.mark.parametrize("data", [[IMAGES[0]], 3, "text", [], ["a b"]])
def test_what_is_no_data_is_refused(net: Net, data: Any) -> None:
    with pytest.raises(InputError, match="data is "):
        collect(net, data, at="second")


def test_tensors_of_different_lengths_and_empty_data_are_refused(net: Net) -> None:
    with pytest.raises(InputError, match="7 and 3 samples"):
        collect(net, (IMAGES, IMAGES[:3]), at="second")
    with pytest.raises(InputError, match="the data is empty"):
        collect(net, IMAGES[:0], at="second")


def test_text_options_do_not_fit_tensors(net: Net) -> None:
    with pytest.raises(InputError, match="special= is for text"):
        collect(net, IMAGES, at="second", special=True)
    with pytest.raises(InputError, match="rows='words': pass items or positions"):
        collect(net, IMAGES, at="second", rows="words")
    with pytest.raises(InputError, match="aggregate='sum': pass one of last, first, average, max"):
        collect(net, IMAGES, at="second", aggregate="sum")  # type: ignore[arg-type]
