"""Every address of the viewer, its answers held against the store itself."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.recorded import HOSTILE, N_SAMPLES, WORDS

import cutaway
from cutaway.server.app import viewer
from cutaway.server.archives.folders import Folders
from cutaway.server.routes.tensors import as_csv
from cutaway.store.runs.run import Run


def client_of(folder: Path, **options: Any) -> TestClient:
    return TestClient(viewer([str(folder)], patience=60, **options).app, base_url="http://127.0.0.1:8787")


@pytest.fixture(scope="module")
def client(recorded: Path) -> Iterator[TestClient]:
    with client_of(recorded) as found:
        yield found


@pytest.fixture(scope="module")
def ids(client: TestClient) -> dict[str, str]:
    return {item["name"]: item["id"] for item in client.get("/api/runs").json()}


@pytest.fixture(scope="module")
def run(recorded: Path) -> Run:
    found = cutaway.load(recorded / "base")
    assert isinstance(found, Run)
    return found


@pytest.fixture(scope="module")
def view(client: TestClient, ids: dict[str, str]) -> Any:
    return client.get(f"/api/run/{ids['base']}").json()


def row_of(view: Any, site: str, of: str = "value", iteration: int = 0) -> int:
    wanted = [row["row"] for row in view["rows"] if (row["site"], row["of"], row["iteration"]) == (site, of, iteration)]
    assert len(wanted) == 1
    return int(wanted[0])


def numbers(answer: Any) -> np.ndarray[Any, Any]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    shape = [int(part) for part in answer.headers["x-shape"].split(",") if part]
    return np.frombuffer(answer.content, "<f4", count=math.prod(shape)).reshape(shape)


def curve(answer: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Steps, values, seconds."""
    assert answer.status_code == 200, answer.text
    n = int(np.frombuffer(answer.content[:4], "<i4")[0])
    assert len(answer.content) == 4 + 16 * n
    values, seconds = np.frombuffer(answer.content[4 + 8 * n :], "<f4").reshape(2, n)
    return np.frombuffer(answer.content[4 : 4 + 8 * n], "<i8"), values, seconds


# runs


def test_the_list_names_every_run_and_trace_below_the_folder(client: TestClient, recorded: Path) -> None:
    items = client.get("/api/runs").json()
    assert [(item["name"], item["kind"], item["state"]) for item in items] == [
        ("base", "run", "ended"),
        ("deep/other", "run", "ended"),
        ("net.trace", "trace", "ended"),
    ]
    assert all(item["id"].isalnum() for item in items)
    with client_of(recorded) as again:
        assert again.get("/api/runs").json() == items


def test_a_run_tells_its_steps_kinds_and_rows(view: Any, run: Run) -> None:
    assert view["steps"] == run.steps.tolist()
    assert [view["kinds"][kind] for kind in view["kind_of"]] == [step.kind for step in run]
    assert tuple(view["scalars"]) == tuple(run.scalars)
    assert len(view["notes"]) == len(run.notes)
    assert view["rows"][row_of(view, "blocks.1.up", iteration=2)]["role"] == "value"


def test_the_matrix_of_a_step_is_that_of_the_store_in_the_numbering_of_the_view(
    client: TestClient, ids: dict[str, str], view: Any, run: Run
) -> None:
    for step in view["steps"]:
        matrix = numbers(client.get(f"/api/run/{ids['base']}/matrix", params={"step": step}))
        assert matrix.shape == (len(view["rows"]), len(view["statistics"]))
        at = run.at(step)
        for number, row in enumerate(at.rows):
            if row.is_sample or row.of.startswith(("unit", "samples")):
                continue
            shown = matrix[row_of(view, row.site, row.of, row.iteration)]
            columns = [view["statistics"].index(name) for name in at.statistics]
            np.testing.assert_array_equal(shown[columns], at.matrix[number])


def test_the_marks_of_a_step_are_those_of_the_inspector(
    client: TestClient, ids: dict[str, str], view: Any, run: Run
) -> None:
    """Two pages that show the same number say the same of it."""
    base = f"/api/run/{ids['base']}"
    answer = client.get(f"{base}/matrix", params={"step": 12, "contents": 1})
    np.testing.assert_array_equal(numbers(answer), numbers(client.get(f"{base}/matrix", params={"step": 12})))
    contents = np.frombuffer(answer.content[-len(view["rows"]) :], np.uint8)
    marks = client.get(f"{base}/marks", params={"step": 12}).json()
    assert marks["help"].startswith("z: distance from the median in robust standard deviations (1.48 × MAD)")
    unusual = {(each["row"], each["statistic"]): each for each in marks["unusual"]}
    for row in view["rows"]:
        tensor = client.get(f"{base}/tensor", params={"step": 12, "row": row["row"]}).json()
        assert tensor["contents"] == contents[row["row"]] & 7
        for each in tensor["statistics"]:
            assert each["unusual"] == unusual.get((row["row"], each["name"]))


def test_limits_of_colors_belong_to_the_run_and_the_selection(client: TestClient, ids: dict[str, str]) -> None:
    asked = {"stat": "std", "of": "value", "kind": "short"}
    limits = client.get(f"/api/run/{ids['base']}/limits", params=asked).json()
    assert limits["scale"] == "log"
    assert 0 < limits["low"] < limits["high"]
    assert client.get(f"/api/run/{ids['base']}/limits", params={**asked, "kind": "nothing"}).json() is None
    assert client.get(f"/api/run/{ids['base']}/limits", params={**asked, "stat": "gone"}).status_code in (400, 404)


def test_a_column_is_one_of_the_matrix(client: TestClient, ids: dict[str, str], view: Any) -> None:
    base = f"/api/run/{ids['base']}"
    column = numbers(client.get(f"{base}/column", params={"step": 12, "stat": "std"}))
    matrix = numbers(client.get(f"{base}/matrix", params={"step": 12}))
    np.testing.assert_array_equal(column, matrix[:, view["statistics"].index("std")])


@pytest.mark.parametrize("kind", [None, "long", "short"])
def test_a_curve_is_that_of_the_store(
    client: TestClient, ids: dict[str, str], view: Any, run: Run, kind: str | None
) -> None:
    row = row_of(view, "blocks.0.up.weight", "grad/size")
    params = {"row": row, "stat": "norm"} | ({} if kind is None else {"kind": kind})
    steps, values, seconds = curve(client.get(f"/api/run/{ids['base']}/curve", params=params))
    expected = run["blocks.0.up.weight"].other("grad/size").curve("norm", kind=kind)
    np.testing.assert_array_equal(seconds, expected.elapsed.astype(np.float32))
    np.testing.assert_array_equal(steps, expected.steps)
    np.testing.assert_array_equal(values, expected.values.astype(np.float32))


def test_a_scalar_has_every_step_of_the_training(client: TestClient, ids: dict[str, str], run: Run) -> None:
    steps, values, _ = curve(client.get(f"/api/run/{ids['base']}/scalar", params={"name": "guess"}))
    assert len(steps) == 48
    np.testing.assert_array_equal(values, run.scalars["guess"].values.astype(np.float32))


def test_graph_and_network_are_those_of_the_run(client: TestClient, ids: dict[str, str], view: Any, run: Run) -> None:
    base = f"/api/run/{ids['base']}"
    graph = client.get(f"{base}/graph", params={"structure": view["structures"][0]["hash"]}).json()
    assert graph["structure"] == view["structures"][0]["hash"]
    assert any("blocks.0.up" in node["sites"] for node in graph["nodes"])
    assert client.get(f"{base}/graph").json()["structure"] == graph["structure"]
    network = client.get(f"{base}/network").json()
    assert network["n_parameters"] == sum(
        int(run.at(0)[row.site].stats["count"])
        for row in run.at(0).rows
        if (row.role, row.of) == ("parameter", "value")
    )


def test_the_samples_of_a_step_are_told(client: TestClient, ids: dict[str, str], run: Run) -> None:
    found = client.get(f"/api/run/{ids['base']}/samples", params={"step": 12}).json()
    assert [item["text"] for item in found["items"]] == run.at(12).samples.text
    assert [tuple(item["tokens"]) for item in found["items"]] == [tuple(row) for row in run.at(12).samples.tokens]


# tensors


def test_a_tensor_at_a_step_has_the_statistics_of_the_store(
    client: TestClient, ids: dict[str, str], view: Any, run: Run
) -> None:
    row = row_of(view, "blocks.1.up", iteration=1)
    found = client.get(f"/api/run/{ids['base']}/tensor", params={"row": row, "step": 24, "sample": 1}).json()
    at = run.at(24)
    moment = at["blocks.1.up"].other("value", iteration=1)
    assert moment is not None
    shown = {each["name"]: each["value"] for each in found["statistics"]}
    assert shown["std"] == pytest.approx(moment.stats["std"])
    assert found["sample"]["text"] == at.samples.text[1]
    assert found["picture"] is not None


def test_a_picture_is_painted_as_it_is_asked_for(client: TestClient, ids: dict[str, str], view: Any) -> None:
    address, row = f"/api/run/{ids['base']}/tensor", row_of(view, "blocks.1.up", iteration=1)

    def asked(**how: int) -> Any:
        return client.get(address, params={"row": row, "step": 24, **how}).json()["picture"]["image"]

    plain, alone = asked(), asked(tile=1, each=1)
    assert plain["axes"] == [-1, 1, 2]
    assert (alone["data"], alone["n_tiles_total"]) == (plain["data"], 0)  # a sequence has no channels to choose from
    assert asked(normalized=1)["data"] != plain["data"]
    assert client.get(address, params={"row": row, "step": 24, "tile": "x"}).status_code == 400


def test_values_come_as_numbers_as_npy_and_as_csv(client: TestClient, ids: dict[str, str], view: Any, run: Run) -> None:
    row = row_of(view, "blocks.1.up", iteration=2)
    moment = run.at(24)["blocks.1.up"].other("value", iteration=2)
    assert moment is not None
    address, asked = f"/api/run/{ids['base']}/values", {"row": row, "step": 24}
    np.testing.assert_array_equal(numbers(client.get(address, params=asked)), moment.value)

    answer = client.get(address, params=asked | {"format": "npy"})
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content), allow_pickle=False), moment.value)
    disposition = 'attachment; filename="base-step-24-blocks.1.up-value-iteration-2.npy"'
    assert answer.headers["content-disposition"] == disposition

    answer = client.get(address, params=asked | {"format": "csv"})
    head, *lines = csv.reader(io.StringIO(answer.text))
    assert head == ["i0", "i1", *map(str, range(16))]
    read = np.array([[float(cell) for cell in line[2:]] for line in lines], np.float32)
    np.testing.assert_array_equal(read.reshape(moment.value.shape), moment.value)

    one = numbers(client.get(address, params=asked | {"sample": 1}))
    np.testing.assert_array_equal(one, moment.value[1])


@pytest.mark.parametrize("shape", [(), (1,), (4,), (0, 3), (2, 0), (2, 3), (2, 1, 3), (2, 0, 3)])
def test_a_table_has_a_line_for_each_row_of_whatever_shape(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    head, *lines = csv.reader(io.StringIO(as_csv(array).decode()))
    n_places = max(array.ndim - 1, 0)
    assert head[:n_places] == [f"i{dimension}" for dimension in range(n_places)]
    assert len(lines) == int(np.prod(shape[:-1]))
    for line in lines:
        place = tuple(map(int, line[:n_places]))
        np.testing.assert_array_equal(np.array(line[n_places:], np.float32), np.atleast_1d(array)[place])


def test_whole_numbers_come_as_numbers_too(client: TestClient, ids: dict[str, str], view: Any, run: Run) -> None:
    answer = client.get(f"/api/run/{ids['base']}/values", params={"row": row_of(view, "$target"), "step": 0})
    np.testing.assert_array_equal(numbers(answer), run.at(0)["$target"].value)


def test_units_and_samples_come_as_tables(client: TestClient, ids: dict[str, str], view: Any, run: Run) -> None:
    base, row = f"/api/run/{ids['base']}", row_of(view, "blocks.1.up", iteration=1)
    asked = {"row": row, "step": 24}
    tensor = client.get(f"{base}/tensor", params=asked).json()
    units = numbers(client.get(f"{base}/units", params=asked))
    assert units.shape == (16, len(tensor["units"]["columns"]))
    unit = run.at(24)["blocks.1.up"].other("unit", iteration=1)
    assert unit is not None
    np.testing.assert_allclose(units[:, tensor["units"]["columns"].index("mean")], unit.value[0], rtol=1e-6)
    samples = numbers(client.get(f"{base}/samples_table", params=asked))
    assert samples.shape == (tensor["samples"]["n_rows"], len(tensor["samples"]["columns"]))
    assert len(samples) >= N_SAMPLES


# traces


def test_a_saved_trace_is_shown_with_what_its_ops_hold(client: TestClient, ids: dict[str, str], recorded: Path) -> None:
    graph = client.get(f"/api/trace/{ids['net.trace']}").json()
    trace = cutaway.load(recorded / "net.trace")
    rows = [row for row in graph["nodes"]["row"] if row >= 0]
    detail = client.get(f"/api/trace/{ids['net.trace']}/detail", params={"row": rows[-1]}).json()
    assert detail["row"] == rows[-1]
    assert detail["label"] in {op.label for op in trace}  # type: ignore[union-attr]
    assert client.get(f"/api/trace/{ids['net.trace']}/detail", params={"row": 10**6}).json() is None


def test_no_file_is_read_that_a_trace_names(
    client: TestClient, ids: dict[str, str], recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: str) -> None:
        raise AssertionError(f"{file} was read")

    monkeypatch.setattr("linecache.getlines", fail)
    trace = cutaway.load(recorded / "net.trace")
    row = trace[-1].node  # type: ignore[index]
    detail = client.get(f"/api/trace/{ids['net.trace']}/detail", params={"row": row}).json()
    assert detail["source"]["file"].endswith("recorded.py")
    assert detail["source"]["text"] == [trace[-1].source.text]  # type: ignore[index]


def test_a_run_is_no_trace_and_a_trace_no_run(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/trace/{ids['base']}")
    assert (answer.status_code, answer.json()["error"]) == (400, "'base' is a run, not a saved trace.")
    answer = client.get(f"/api/run/{ids['net.trace']}")
    assert (answer.status_code, answer.json()["error"]) == (400, "'net.trace' is a saved trace, not a run.")


# what has not changed


def test_what_the_browser_has_is_not_sent_again(client: TestClient, ids: dict[str, str], view: Any) -> None:
    base = f"/api/run/{ids['base']}"
    paths = ["", "/graph", "/network", "/samples?step=12", "/matrix?step=12", "/column?step=12&stat=std"]
    paths += ["/curve?row=3&stat=std", "/scalar?name=loss", "/tensor?row=3&step=12", "/units?row=3&step=12"]
    paths += ["/values?row=3&step=12", "/samples_table?row=3&step=12"]
    for address in [*(base + path for path in paths), f"/api/trace/{ids['net.trace']}"]:
        first = client.get(address)
        assert first.status_code == 200, address
        again = client.get(address, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b""), address
        assert client.get(address, headers={"if-none-match": '"other"'}).content == first.content


# text that would like to be more


def test_script_in_names_notes_and_samples_stays_text(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/run/{ids['base']}")
    assert answer.headers["content-type"] == "application/json"
    assert any(HOSTILE in note["text"] for note in answer.json()["notes"])
    assert answer.json()["config"]["name"] == HOSTILE
    samples = client.get(f"/api/run/{ids['base']}/samples", params={"step": 12})
    assert samples.headers["content-type"] == "application/json"
    assert any(WORDS[6] in item["tokens"] for item in samples.json()["items"]) or WORDS[6] not in samples.text
    page = client.get("/").text
    assert "alert" not in page


def test_a_run_with_script_for_a_name_is_listed_as_text(recorded: Path, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    shutil.copytree(recorded / "deep" / "other", tmp_path / name)
    with client_of(tmp_path) as client:
        answer = client.get("/api/runs")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()[0]["name"] == name
        run = client.get(f"/api/run/{answer.json()[0]['id']}").json()
        asked = {"row": run["rows"][0]["row"], "step": run["steps"][0], "format": "npy"}
        file = client.get(f"/api/run/{answer.json()[0]['id']}/values", params=asked)
        named = file.headers["content-disposition"].partition("filename=")[2]
        assert set('<>="').isdisjoint(named.strip('"'))


# what goes wrong is a sentence


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/matrix", 400, "needs step=, an integer"),
        ("/matrix?step=many", 400, "'many' is not an integer"),
        ("/matrix?step=5", 404, "run 'base' did not record step 5. Nearest: 0, 1, 7"),
        ("/matrix?step=99999999999999999999", 400, "not an integer"),
        ("/curve?row=3", 400, "needs stat="),
        ("/curve?row=100000&stat=std", 404, "has no row 100000"),
        ("/curve?row=-1&stat=std", 404, "has no row -1"),
        ("/curve?row=3&stat=stdd", 400, "has no statistic 'stdd'. Nearest: 'std'"),
        ("/curve?row=3&stat=std&kind=odd", 404, "no steps of kind 'odd'"),
        ("/scalar?name=los", 404, "no scalar 'los' was logged"),
        ("/values?row=3&step=12&format=pickle", 400, "'pickle' is not one of bin, npy, csv"),
        ("/graph?structure=nothing", 404, "nothing"),
        ("/other", 404, "no such path"),
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(
    client: TestClient, ids: dict[str, str], path: str, status: int, said: str
) -> None:
    answer = client.get(f"/api/run/{ids['base']}{path}")
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]


def test_values_that_were_not_kept_say_how_to_keep_them(client: TestClient, ids: dict[str, str], view: Any) -> None:
    asked = {"row": row_of(view, "blocks.0.up.weight"), "step": 12}
    answer = client.get(f"/api/run/{ids['base']}/values", params=asked)
    assert answer.status_code == 404
    assert "step 12 recorded only statistics" in answer.json()["error"]


def test_nothing_can_be_changed(client: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = client.request(method, "/api/runs")
        assert answer.status_code == 405
        assert "the viewer is read-only" in answer.json()["error"]


def test_a_fault_of_our_own_is_a_sentence_and_no_trace_back(
    client: TestClient, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("oh dear")

    monkeypatch.setattr("cutaway.server.routes.runs.as_numbers", fail)
    answer = client.get(f"/api/run/{ids['base']}/matrix?step=12")
    assert answer.status_code == 500
    assert "internal viewer error (RuntimeError: oh dear)" in answer.json()["error"]
    assert "Traceback" not in answer.text


# what lies outside


@pytest.mark.parametrize(
    "path",
    [
        "/api/run/..%2f..%2fetc%2fpasswd",
        "/api/run/%2e%2e/%2e%2e/etc/passwd",
        "/api/run/%2Fetc%2Fpasswd",
        "/api/run/../../etc/passwd",
        "/api/trace/..%2Fsecret",
        "/static/../../../etc/passwd",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
        "/static/%2e%2e/bundle.py",
        "/static/cutaway.js/../../bundle.py",
        "//etc/passwd",
        "/api/run/base",
        "/api/run/%00",
    ],
)
def test_tricks_with_paths_find_nothing(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 405), answer.text
    assert "root:" not in answer.text
    assert answer.json()["error"]


def test_links_that_lead_out_of_the_folder_are_not_followed(recorded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "out").symlink_to(recorded / "base", target_is_directory=True)
    (folder / "up").symlink_to(recorded.parent, target_is_directory=True)
    with client_of(folder) as client:
        assert client.get("/api/runs").json() == []


def test_a_run_that_is_replaced_by_a_link_is_not_followed(recorded_copy: Path, recorded: Path) -> None:
    with client_of(recorded_copy) as client:
        id_ = client.get("/api/runs").json()[0]["id"]
        shutil.rmtree(recorded_copy / "base")
        (recorded_copy / "base").symlink_to(recorded / "base", target_is_directory=True)
        answer = client.get(f"/api/run/{id_}")
        assert answer.status_code == 404
        assert "is a link to outside the served folder" in answer.json()["error"]


def test_files_that_are_links_out_of_a_run_are_not_read(recorded_copy: Path, recorded: Path) -> None:
    index = next((recorded_copy / "base" / "rank-0").glob("*.index"))
    index.unlink()
    index.symlink_to(recorded / "base" / "rank-0" / index.name)
    with client_of(recorded_copy) as client:
        item = client.get("/api/runs").json()[0]
        assert item["n_steps"] == 0
        assert item["damage"]


def test_a_link_that_was_named_on_the_command_line_is_what_was_meant(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(recorded, target_is_directory=True)
    with client_of(tmp_path / "link") as client:
        items = client.get("/api/runs").json()
        assert [item["name"] for item in items] == ["base", "deep/other", "net.trace"]
        assert client.get(f"/api/run/{items[0]['id']}").status_code == 200


# what is damaged or gone


def test_a_damaged_segment_is_a_sentence_and_all_else_is_shown(recorded_copy: Path) -> None:
    file = next((recorded_copy / "base" / "rank-0").glob("*-v*.safetensors"))
    data = file.read_bytes()
    kept = cutaway.load(recorded_copy / "base").at(43)["head"].other("value", iteration=2).value.tobytes()  # type: ignore[union-attr]
    assert data.count(kept) == 1
    file.write_bytes(data.replace(kept, bytes(len(kept))))
    with client_of(recorded_copy) as client:
        id_ = client.get("/api/runs").json()[0]["id"]
        view = client.get(f"/api/run/{id_}").json()
        asked = {"row": row_of(view, "head", iteration=2), "step": view["steps"][-1]}
        answer = client.get(f"/api/run/{id_}/values", params=asked)
        assert answer.status_code == 500
        assert "have a wrong checksum" in answer.json()["error"]
        tensor = client.get(f"/api/run/{id_}/tensor", params=asked).json()
        assert "have a wrong checksum" in tensor["why_missing"]
        assert tensor["statistics"]
        assert client.get(f"/api/run/{id_}/values", params=asked | {"step": view["steps"][0]}).status_code == 200


def test_damaged_statistics_are_a_sentence(recorded_copy: Path) -> None:
    file = next((recorded_copy / "base" / "rank-0").glob("*-s*.safetensors"))
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2] + bytes(len(good) - len(good) // 2))
    with client_of(recorded_copy) as client:
        view = client.get("/api/run/" + client.get("/api/runs").json()[0]["id"]).json()
        answer = client.get(f"/api/run/{view['item']['id']}/matrix", params={"step": view["steps"][-1]})
        assert answer.status_code == 500
        assert "have a wrong checksum" in answer.json()["error"]


def test_a_deleted_run_says_so_and_the_others_stay(recorded_copy: Path) -> None:
    with client_of(recorded_copy) as client:
        first, second, _ = client.get("/api/runs").json()
        assert client.get(f"/api/run/{first['id']}").status_code == 200
        shutil.rmtree(recorded_copy / "base")
        answer = client.get(f"/api/run/{first['id']}/matrix?step=0")
        assert answer.status_code == 404
        assert "'base' was deleted or moved" in answer.json()["error"]
        assert [item["name"] for item in client.get("/api/runs").json()] == ["deep/other", "net.trace"]
        answer = client.get(f"/api/run/{first['id']}")
        assert answer.status_code == 404
        assert "Archives there: 'deep/other', 'net.trace'" in answer.json()["error"]
        assert client.get(f"/api/run/{second['id']}").status_code == 200


def test_a_run_in_the_place_of_another_is_read_anew(recorded_copy: Path) -> None:
    with client_of(recorded_copy) as client:
        first = client.get("/api/runs").json()[0]
        before = client.get(f"/api/run/{first['id']}")
        shutil.rmtree(recorded_copy / "base")
        (recorded_copy / "deep" / "other").rename(recorded_copy / "base")
        after = client.get(f"/api/run/{first['id']}", headers={"if-none-match": before.headers["etag"]})
        assert len(after.json()["steps"]) == 5


def test_a_folder_that_is_no_run_any_more_is_listed_with_the_reason(recorded_copy: Path) -> None:
    (recorded_copy / "base" / "cutaway.json").write_text("{not json")
    shutil.rmtree(recorded_copy / "base" / "rank-0")
    with client_of(recorded_copy) as client:
        item = client.get("/api/runs").json()[0]
        assert (item["name"], item["state"]) == ("base", "unknown")
        assert item["damage"]


# the page


def test_the_page_loads_its_script_by_name_and_has_none_of_its_own(client: TestClient) -> None:
    page = client.get("/")
    assert '<div id="cutaway" data-viewer></div>' in page.text
    assert page.text.count("<script") == 1
    assert "></script>" in page.text
    source = page.text.partition('<script type="module" src="')[2].partition('"')[0]
    script = client.get(source)
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    again = client.get("/static/cutaway.js", headers={"if-none-match": script.headers["etag"]})
    assert again.status_code == 304
    assert client.get("/static/cutaway.js").headers["cache-control"] == "no-cache"
    assert "preact" in client.get("/static/licenses.txt").text.lower()


def test_a_page_without_a_bundle_says_what_to_do(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutaway.server.bundle.STATIC", tmp_path)
    for path in ("/", "/static/cutaway.js", "/static/licenses.txt"):
        answer = client.get(path)
        assert answer.status_code == 500
        assert "make venv" in json.loads(answer.text)["error"]


@pytest.mark.parametrize("path", ["matrix", "column", "samples", "tensor", "values", "units", "samples_table"])
def test_a_negative_step_is_refused_instead_of_counted_from_the_end(
    client: TestClient, ids: dict[str, str], path: str
) -> None:
    answer = client.get(f"/api/run/{ids['base']}/{path}?step=-1&row=0&stat=mean")
    assert (answer.status_code, "one of the run's `steps`" in answer.json()["error"]) == (400, True)


def test_archives_at_any_depth_are_listed_and_a_search_that_gave_up_says_where(recorded: Path, tmp_path: Path) -> None:
    deep = tmp_path / "runs" / Path(*"abcdefgh")
    deep.mkdir(parents=True)
    shutil.copytree(recorded / "base", deep / "base")
    (deep / "loop").symlink_to(tmp_path / "runs", target_is_directory=True)
    with client_of(tmp_path / "runs") as found:
        assert [item["name"] for item in found.get("/api/runs").json()] == ["a/b/c/d/e/f/g/h/base"]
        assert found.get("/api/folders").json() == {"paths": [str(tmp_path / "runs")], "stopped": []}
    folders = Folders([str(tmp_path / "runs")], most_folders=3)
    assert not folders.locations()
    [stopped] = folders.stopped
    assert "after 3 folders, at " + str(tmp_path / "runs" / "a" / "b" / "c") in stopped


def test_samples_without_fields_are_counted_and_can_be_asked_for(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    # Inputs are not recorded, so only the layout of the tensors tells how many samples there are.
    with cutaway.record(tmp_path / "plain", model, every=1, samples=2, at=["1"]) as recorder, recorder.step():
        model(torch.randn(5, 3)).sum().backward()
    with client_of(tmp_path) as found:
        [item] = found.get("/api/runs").json()
        view = found.get(f"/api/run/{item['id']}").json()
        samples = found.get(f"/api/run/{item['id']}/samples?step=0").json()
        assert (view["sample_fields"], view["has_values"], samples["n_kept"]) == ([], True, 2)
        assert samples["why_missing"].startswith("nothing was recorded about these samples")
        row = row_of(view, "1")
        tensor = found.get(f"/api/run/{item['id']}/tensor?row={row}&step=0&sample=1").json()
        assert (tensor["sample"]["number"], tensor["sample"]["text"], tensor["picture"]["shape"]) == (1, "", [4])
