"""Pages of collections, units and saved results, as the server tells them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server import shelf
from tests.server.served import serving
from tests.server.test_sse import asked, eventually, listening

from cutaway.neurons.exploration.pages import page as neuron_page
from cutaway.server.app import viewer
from cutaway.server.view_json import to_json
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.views.pages.model import Page
from cutaway.views.pages.result_pages import page_of


def client_of(folder: Path) -> TestClient:
    return TestClient(viewer([str(folder)], patience=60).app, base_url="http://127.0.0.1:8787")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf.fill(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(folder) as found:
        yield found


@pytest.fixture(scope="module")
def ids(client: TestClient) -> dict[str, str]:
    return {item["name"]: item["id"] for item in client.get("/api/runs").json()}


def plain(view: Any) -> Any:
    import json

    return json.loads(to_json(view))


def test_the_list_has_collections_and_results_with_what_they_are(client: TestClient) -> None:
    items = {item["name"]: item for item in client.get("/api/runs").json()}
    assert {name: (item["kind"], item["state"], item["page"]["type"]) for name, item in items.items()} == {
        "acts": ("activations", "ended", "Activations"),
        "ranks/mine": ("result", "ended", "Ranking"),
        "ranks/other": ("result", "ended", "Ranking"),
        "said": ("result", "ended", "Page"),
    }
    acts = items["acts"]["page"]
    assert (acts["n_rows"], acts["n_units"], acts["topic"]) == (shelf.N_ROWS, 12, "neurons")
    assert acts["sites"] == [{"site": "enc.0", "width": 8, "last": 7}, {"site": "enc.1", "width": 4, "last": 3}]


def test_a_result_is_shown_as_its_page_and_a_page_as_itself(client: TestClient, ids: dict[str, str]) -> None:
    found = client.get(f"/api/page/{ids['ranks/mine']}").json()
    assert found == {"page": plain(page_of(shelf.ranking())), "sites": []}
    said = client.get(f"/api/page/{ids['said']}").json()["page"]
    assert (said["title"], said["sections"][0]["blocks"][0]["text"]) == ("What <b>this</b> is", "Said.")


def test_a_collection_has_a_page_of_facts_and_its_sites(client: TestClient, ids: dict[str, str]) -> None:
    found = client.get(f"/api/page/{ids['acts']}").json()
    assert found["sites"] == [
        {"site": "enc.0", "width": 8, "units": []},
        {"site": "enc.1", "width": 4, "units": []},
    ]
    facts = {fact["name"]: fact["value"] for fact in found["page"]["sections"][0]["blocks"][0]["items"]}
    assert facts["rows"] == f"{shelf.N_ROWS:,}"


def test_a_unit_is_what_neurons_page_says_with_the_rankings_of_the_folder(
    client: TestClient, ids: dict[str, str]
) -> None:
    found = client.get(f"/api/page/{ids['acts']}/unit", params={"name": "enc.0#0"}).json()["page"]
    rankings = {"ranks/mine": shelf.ranking(), "ranks/other": shelf.ranking("other", seed=2)}
    assert found == plain(neuron_page(shelf.activations(), "enc.0#0", rankings=rankings))
    assert found["sections"][0]["blocks"][0]["rows"][0][0] == "cat"
    by_number = client.get(f"/api/page/{ids['acts']}/unit", params={"name": "9"}).json()["page"]
    assert by_number["title"] == "enc.1#1"


def test_a_unit_that_never_changes_has_a_page(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/page/{ids['acts']}/unit", params={"name": "enc.1#3"})
    assert answer.status_code == 200
    assert answer.json()["page"]["sections"][0]["blocks"][0]["rows"] == []


def test_what_was_answered_is_not_sent_again_until_a_ranking_comes(tmp_path: Path) -> None:
    shelf.fill(tmp_path)
    with client_of(tmp_path) as client:
        ids = {item["name"]: item["id"] for item in client.get("/api/runs").json()}
        address = f"/api/page/{ids['acts']}/unit?name=enc.0%230"
        first = client.get(address)
        again = {"if-none-match": first.headers["etag"]}
        assert client.get(address, headers=again).status_code == 304
        shelf.ranking("third").save(tmp_path / "third")
        client.get("/api/runs")
        later = client.get(address, headers=again)
        assert later.status_code == 200
        assert "third" in later.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("page/{acts}/unit?name=enc.0%2399", 404, "'enc.0' has no unit '99'"),
        ("page/{acts}/unit?name=nothing", 404, "no unit 'nothing'"),
        ("page/{acts}/unit", 400, "needs name="),
        ("page/{said}/unit?name=enc.0%230", 400, "is a saved result, which has no units"),
        ("run/{acts}", 400, "is activations, not a run"),
        ("trace/{said}", 400, "is a saved result, not a saved trace"),
        ("page/abc", 404, "no archive with id 'abc'"),
    ],
)
def test_what_cannot_be_shown_is_said(
    client: TestClient, ids: dict[str, str], path: str, status: int, said: str
) -> None:
    answer = client.get(f"/api/{path.format(**ids)}")
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_what_is_damaged_or_half_written_is_told_and_hides_nothing(tmp_path: Path) -> None:
    shelf.fill(tmp_path)
    shutil.copytree(tmp_path / "said", tmp_path / "broken")
    for file in (tmp_path / "broken" / "rank-0").iterdir():
        file.write_bytes(file.read_bytes()[:40])
    shutil.copytree(tmp_path / "acts", tmp_path / "lost")
    (segment,) = (tmp_path / "lost" / "rank-0").glob("*.safetensors")
    segment.unlink()
    shutil.copytree(tmp_path / "acts", tmp_path / "headless")
    (tmp_path / "headless" / "cutaway.json").unlink()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "cutaway.json").write_bytes((tmp_path / "acts" / "cutaway.json").read_bytes())
    with client_of(tmp_path) as client:
        items = {item["name"]: item for item in client.get("/api/runs").json()}
        assert len(items) == 8
        assert (items["broken"]["kind"], items["broken"]["page"]) == ("result", None)
        assert "not saved completely" in items["broken"]["damage"][0]
        assert (items["bare"]["kind"], items["bare"]["page"]) == ("activations", None)
        assert "killed before it wrote one" in items["bare"]["damage"][0]
        assert (items["headless"]["kind"], items["headless"]["page"]["n_units"]) == ("activations", 12)
        for name in ("broken", "bare"):
            answer = client.get(f"/api/page/{items[name]['id']}")
            assert (answer.status_code, "traceback" in answer.text.lower()) == (500, False)
            assert answer.json()["error"]
        assert client.get(f"/api/page/{items['lost']['id']}").status_code == 200
        unread = client.get(f"/api/page/{items['lost']['id']}/unit?name=enc.0%230")
        assert unread.status_code == 500
        assert ".safetensors" in unread.json()["error"]
        assert client.get(f"/api/page/{items['acts']['id']}/unit?name=enc.0%230").status_code == 200


def test_what_is_saved_while_somebody_looks_appears_and_a_collection_grows(tmp_path: Path) -> None:
    rows, words = Rows.of([0, 0], word=[0, 1]), ["a", "b"]
    with serving(tmp_path) as served, listening(served) as events:
        assert asked(served, "/api/runs") == []
        with ActivationsWriter(tmp_path / "acts", [CollectedSite("h", 2)]) as writer:
            writer.window({"h": np.eye(2)}, rows, words, n_items=1)
            events.until(lambda said: said.get("runs") is True)
            assert eventually(lambda: _n_rows(served) == ("live", 2))
            [item] = asked(served, "/api/runs")
            assert "rows so far" in to_json(asked(served, f"/api/page/{item['id']}"))
            writer.window({"h": np.eye(2)}, Rows.of([1, 1], word=[0, 1]), words, n_items=1)
            events.until(lambda said: said.get("runs") is True)
            assert eventually(lambda: _n_rows(served) == ("live", 4))
        events.until(lambda said: said.get("runs") is True)
        assert eventually(lambda: _n_rows(served) == ("ended", 4))
        [after] = asked(served, "/api/runs")
        assert after["page"]["edition"] != item["page"]["edition"]
        assert "rows so far" not in to_json(asked(served, f"/api/page/{item['id']}"))
        Page("Said", topic="language").save(tmp_path / "said")
        assert eventually(lambda: [each["name"] for each in asked(served, "/api/runs")] == ["acts", "said"])


def _n_rows(served: Any) -> tuple[str, int] | None:
    items = asked(served, "/api/runs")
    return (items[0]["state"], items[0]["page"]["n_rows"]) if items and items[0]["page"] else None


def test_no_torch_is_loaded_for_any_of_it(folder: Path) -> None:
    code = f"""
import sys
from starlette.testclient import TestClient
from cutaway.server.app import viewer
with TestClient(viewer([{str(folder)!r}], patience=60).app, base_url="http://127.0.0.1:8787") as client:
    for item in client.get("/api/runs").json():
        assert client.get(f"/api/page/{{item['id']}}").status_code == 200
        if item["kind"] == "activations":
            assert client.get(f"/api/page/{{item['id']}}/unit?name=enc.0%230").status_code == 200
assert not {{"torch", "sklearn", "pandas"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
