"""The routes from a spike to its cause, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest
from tests.server.served import serving
from tests.server.spiking import BAD, SPIKES
from tests.server.spiking import spiking as spiking

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def base(spiking: Path) -> Iterator[str]:
    with serving(spiking) as served:
        items = json.load(urlopen(f"{served.url}/api/runs"))
        yield f"{served.url}/api/run/{next(item['id'] for item in items if item['name'] == 'reader')}"


def test_spikes_and_what_changed(base: str) -> None:
    spikes = json.load(urlopen(f"{base}/spikes?name=loss"))
    assert [spike["step"] for spike in spikes["spikes"]] == list(SPIKES)
    view = json.load(urlopen(f"{base}/what_changed?name=loss&step={SPIKES[0]}&filter={quote('label >= 0')}"))
    assert view["samples"][0]["item"]["id"] == BAD
    row = view["tensors"][0]["row"]
    of_row = json.load(urlopen(f"{base}/spikes?row={row}&stat=std"))
    assert [spike["step"] for spike in of_row["spikes"]] == list(SPIKES)


def test_filters(base: str) -> None:
    text = quote(f"id = {BAD}\nkind = train\n")
    view = json.load(urlopen(f"{base}/filter?filter={text}"))
    assert view["steps"] == list(SPIKES)
    assert [term["text"] for term in view["terms"]] == [f"id = {BAD}", "kind = train"]


def test_tables_carry_the_scores_of_their_outliers(base: str) -> None:
    view = json.load(urlopen(f"{base}/what_changed?name=loss&step={SPIKES[0]}"))
    with urlopen(f"{base}/samples_table?row={view['tensors'][0]['row']}&step={SPIKES[0]}") as response:
        n, across = map(int, response.headers["x-shape"].split(","))
        numbers = np.frombuffer(response.read(), "<f4").reshape(2, n, across)
        assert across == 4
    assert np.flatnonzero(np.isfinite(numbers[1]).any(axis=1)).tolist() == [view["samples"][0]["position"]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/spikes", 400),
        ("/spikes?name=nothing", 404),
        ("/spikes?row=2", 400),
        ("/spikes?row=99999&stat=std", 404),
        ("/what_changed?name=loss", 400),
        (f"/filter?filter={quote(chr(10).join(['step > 1'] * 40))}", 400),
    ],
)
def test_wrong_questions_are_refused(base: str, path: str, status: int) -> None:
    with pytest.raises(HTTPError) as error:
        urlopen(base + path)
    assert error.value.code == status
    assert json.load(error.value)["error"]
