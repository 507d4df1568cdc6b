"""What was written once is read for ever: archives of each version of the format, to the last bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from struct import unpack_from
from typing import Any
from zlib import crc32

import msgpack
import numpy as np
import pytest
from tests.store.golden.make import shown

import cutaway
from cutaway import Activations, Run
from cutaway.core.errors import VersionError
from cutaway.results.lm.generation import Generation
from cutaway.results.neurons.ranking import Ranking
from cutaway.store.format import manifest
from cutaway.store.format.frames import MAGIC, encode, scan
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read_description
from cutaway.store.verification.verify import verify
from cutaway.store.writing.writer import Writer

GOLDEN = Path(__file__).parent / "golden" / "v1"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture
def run() -> Run:
    found = cutaway.load(GOLDEN / "run")
    assert isinstance(found, Run)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "run", tmp_path / "run"))


def rewrite_head(path: Path, changes: dict[str, Any]) -> None:
    """Change what `cutaway.json` says, its checksum too."""
    fields = json.loads((path / "cutaway.json").read_text()) | changes
    del fields["checksum"]
    fields["checksum"] = crc32(json.dumps(fields, sort_keys=True).encode())
    (path / "cutaway.json").write_text(json.dumps(fields))


def test_the_golden_archives_are_small_and_name_no_machine() -> None:
    files = [path for path in GOLDEN.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 80_000
    for sign in GOLDEN.rglob("*.lease"):
        assert json.loads(sign.read_text())["host"] == "elsewhere"


def test_it_holds_every_type_of_record() -> None:
    data = b"".join(path.read_bytes() for path in sorted((GOLDEN / "run").rglob("000[13].index")))
    types = {record["type"] for record in scan(data).records}
    assert types == {
        "session", "schema", "layout", "step", "block", "scalars", "note", "document", "seal", "lost", "end",
    }  # fmt: skip
    assert list(GOLDEN.rglob("*.part"))
    assert not list(GOLDEN.rglob("*.sealing"))


def test_every_step_is_read_as_it_was_written(run: Run) -> None:
    assert run.steps.tolist() == [int(step) for step in EXPECTED["steps"]]
    for number, about in EXPECTED["steps"].items():
        step = run.at(int(number))
        assert (step.session, step.kind, step.about) == (about["session"], about["kind"], about["about"])
        assert list(step.sites) == about["sites"]
        assert shown(step.matrix) == about["matrix"]
        assert (step.time, step.elapsed) == (1_700_000_000.0, 0.0)
        for site in ("embed", "encoder.0"):
            if site in about:
                assert step[site].value.tolist() == about[site]
        if "embed" in about:
            assert step["lm_head.weight"].dtype == "bfloat16"
            first = step["loop"].where(iteration=1)
            assert (first.value.shape, first.iteration, step["loop"].n_passes) == ((), 1, 2)
            assert int(first.value) == int(number)
        if "grad/aux" in about:
            aux = step["encoder.0"].other("grad/aux")
            assert aux is not None
            assert aux.value.tolist() == about["grad/aux"]
        if about.get("texts"):
            assert step.samples.text == about["texts"]


def test_what_lies_beside_the_steps_is_read_as_it_was_written(run: Run) -> None:
    assert list(run.kinds) == EXPECTED["kinds"]
    assert list(run.statistics) == EXPECTED["statistics"]
    assert list(run.sites) == EXPECTED["sites"]
    assert run.config == EXPECTED["config"]
    config = dict(run.session(1).config)
    config["nested"] = {**config["nested"], "raw": config["nested"]["raw"].hex()}
    assert config == EXPECTED["first config"]
    assert [[note.text, note.step, note.level, note.about] for note in run.notes] == EXPECTED["notes"]
    assert [[loss.what, list(loss.steps), loss.reason] for loss in run.losses] == EXPECTED["losses"]
    assert [run.scalars["loss"].steps.tolist(), run.scalars["loss"].values.tolist()] == EXPECTED["loss"]
    samples = {name: np.asarray(values).tolist() if name == "label" else values
               for name, values in run.at(0).samples.fields.items()}  # fmt: skip
    assert samples == EXPECTED["samples"]
    for key in ("std of encoder.0", "norm of encoder.1"):
        statistic, _, site = key.split(" ")
        curve = run[site].curve(statistic)
        assert [curve.steps.tolist(), *shown(curve.values[None])] == EXPECTED[key]
    block = run.archive.blocks["extra"]
    assert (block["a"].tolist(), block["b"].tolist(), block.about) == ([0, 1, 2], [[1], [2], [-2]], {"why": "because"})
    assert run.rank(1)["encoder.0"].stats("mean").tolist() == [0.5]
    assert (run.ranks, [index.number for index in run.sessions]) == ((0, 1), [1, 2, 3])


def test_a_session_that_was_killed_is_no_damage(run: Run) -> None:
    assert run.damage == ()
    assert [index.n_torn for index in run.sessions] == [0, 22, 0]
    assert [index.is_ended for index in run.sessions] == [True, False, True]
    assert run.session(1).steps.tolist() == [0, 10, 20, 30, 40]
    assert run.session(2).steps.tolist() == [30, 35, 40, 45]


def test_golden_activations_are_read_as_they_were_written() -> None:
    told = json.loads((GOLDEN / "activations.json").read_text())
    acts = cutaway.load(GOLDEN / "activations")
    assert isinstance(acts, Activations)
    assert (str(acts.dtype), acts.aggregate, acts.provenance) == (told["dtype"], told["aggregate"], told["provenance"])
    assert {site: acts.at(site).array().tolist() for site in acts.sites} == told["values"]
    assert list(acts.names) == told["names"]
    assert list(acts.words) == told["words"]
    assert (acts.items.tolist(), acts.word_index.tolist()) == (told["items"], told["word"])
    assert acts.tokens.tolist() == told["tokens"]
    assert [[one.item, one.what] for one in acts.problems] == told["problems"]
    assert (acts.n_items, acts.is_whole) == (told["n_items"], True)
    assert verify(GOLDEN / "activations")


def test_a_golden_result_is_read_as_it_was_written() -> None:
    told = json.loads((GOLDEN / "result.json").read_text())
    found = cutaway.load(GOLDEN / "result")
    assert isinstance(found, Ranking)
    assert [repr(label) for label in found.labels] == told["labels"]
    assert repr(found.about) == told["about"]
    for each in (found, *found.per_label.values()):
        assert shown(each.scores[None])[0] == told["scores"]
        assert (each.order.tolist(), each.signs.tolist(), each.dead.tolist()) == (told["order"], told["signs"], [2])
        assert (each.scores.dtype, each.order.dtype, each.signs.dtype) == (np.float64, np.int64, np.int8)
        assert each.names == told["names"]
    assert found.tiers is not None
    assert found.tiers.tolist() == [1, 3]
    about = read_description(Archive(GOLDEN / "result"))
    assert (about.type, about.topic, about.made, about.of) == (
        "Ranking", "neurons", 1_700_000_000.0, {"method": "probeless"}
    )  # fmt: skip
    assert verify(GOLDEN / "result")


def test_a_golden_generation_is_read_as_it_was_written() -> None:
    told = json.loads((GOLDEN / "generation.json").read_text())
    found = cutaway.load(GOLDEN / "generation")
    assert isinstance(found, Generation)
    assert (found.kind, found.text, found.prompt, found.n_prompt) == ("causal", "\ufffd", "the 🐈", 2)
    assert (found.token_ids.tolist(), list(found.pieces), found.rows.tolist()) == (told["ids"], told["pieces"], [1, 2])
    assert [[each.name, each.start, each.end] for each in found.read.segments] == told["segments"]
    assert found.read.is_special.tolist() == [False, False, False, True]
    assert (found.targets.ids.tolist(), found.targets.pieces) == ([0, 9], ("\\xe2", ""))
    steps, beams = found.steps, found.beams
    assert (steps.logits.tolist(), steps.ranks.tolist()) == ([1.5, -3.0], [1, 40_000])
    assert shown(steps.candidate_logprobs) == told["candidate_logprobs"]
    assert shown(steps.entropies[None])[0] == told["entropies"]
    assert steps.candidate_pieces == (("\\xe2", "the", " 🐈"), ("", "\\xe2", "a"))
    assert steps.kept is not None
    assert steps.n_kept is not None
    assert (steps.kept[0].tolist(), steps.n_kept.tolist()) == ([0.75, 0.25, 0.0], [2, 1])
    assert beams is not None
    tree = [beams.ids.tolist(), beams.parents.tolist(), beams.scores.tolist(), beams.is_best.tolist()]
    assert tree == told["beams"]
    assert (repr(found.decoding), found.about) == (told["decoding"], told["about"])
    assert found.more_inputs["token_type_ids"].tolist() == [0, 1, 1, 1]
    assert found.page().title == found.title
    about = read_description(Archive(GOLDEN / "generation"))
    assert (about.type, about.topic, about.made) == ("Generation", "language", 1_700_000_000.0)
    assert verify(GOLDEN / "generation")


def test_unknown_records_and_keys_are_passed_over(copy: Path) -> None:
    index = copy / "rank-0" / "0003.index"
    records = scan(index.read_bytes()).records
    added = [{**record, "of a later version": {"a": [1, None]}} for record in records]
    added.insert(1, {"type": "of a later version", "step": -1})
    index.write_bytes(b"".join(map(encode, added)))
    rewrite_head(copy, {"of a later version": 1})
    run = cutaway.load(copy)
    assert isinstance(run, Run)
    assert run.damage == ()
    assert run.at(-1).step == 45
    assert run.config == {"lr": 0.2}


def test_a_later_version_is_refused_and_says_to_upgrade(copy: Path) -> None:
    rewrite_head(copy, {"version": 2})
    with pytest.raises(VersionError, match=r"format version 2.* reads up to 1. Upgrade: pip install --upgrade cutaway"):
        cutaway.load(copy)


def test_a_session_of_a_later_version_is_refused_too(copy: Path) -> None:
    session = {"type": "session", "number": 4, "version": 2, "unheard of": True}
    (copy / "rank-0" / "0004.index").write_bytes(encode(session))
    with pytest.raises(VersionError, match="--upgrade"):
        cutaway.load(copy)


def test_a_version_that_never_was_is_refused(copy: Path) -> None:
    rewrite_head(copy, {"version": 0})
    with pytest.raises(VersionError, match="never published"):
        cutaway.load(copy)


def _as_version_0(path: Path, *, with_session: bool) -> None:
    """Write the run as an older Cutaway might have: each key another, of steps and of sessions."""
    rewrite_head(path, {"version": 0})
    for index in path.rglob("*.index"):
        older = b""
        for record in scan(index.read_bytes()).records:
            if record["type"] == "session":
                record = {**record, "version": 0, "size of world": record.pop("world_size")}
                if not with_session:
                    continue
            if record["type"] == "step":
                record = {"type": "step", "iteration": record.pop("step"), **record}
            older += encode(record)
        index.write_bytes(older)


def _migrate(record: dict[str, Any]) -> dict[str, Any]:
    if record["type"] == "session":
        return {**record, "world_size": record["size of world"]}
    return {**record, "step": record["iteration"]} if record["type"] == "step" else record


@pytest.mark.parametrize("with_session", [True, False])
def test_records_of_an_earlier_version_are_migrated_as_they_are_read(
    copy: Path, monkeypatch: pytest.MonkeyPatch, with_session: bool
) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    _as_version_0(copy, with_session=with_session)
    older = {path: path.read_bytes() for path in before}
    monkeypatch.setitem(manifest.MIGRATIONS, 0, _migrate)
    run = cutaway.load(copy)
    assert isinstance(run, Run)
    assert run.damage == ()
    test_every_step_is_read_as_it_was_written(run)
    test_what_lies_beside_the_steps_is_read_as_it_was_written(run)
    assert {path: path.read_bytes() for path in before} == older, "files are never rewritten"


def test_a_record_that_cannot_be_migrated_costs_itself_alone(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _as_version_0(copy, with_session=True)
    index = copy / "rank-0" / "0003.index"
    index.write_bytes(index.read_bytes() + encode({"type": "step", "neither": 1}))
    monkeypatch.setitem(manifest.MIGRATIONS, 0, _migrate)
    run = cutaway.load(copy)
    assert isinstance(run, Run)
    assert len(run.damage) == 1
    assert "cannot upgrade it from version 0" in run.damage[0]
    assert len(run) == len(EXPECTED["steps"])


def test_todays_writer_goes_on_with_it(copy: Path) -> None:
    lease = copy / "rank-0" / "0003.lease"
    assert json.loads(lease.read_text())["closed"]
    with Writer(copy, kind="run", resume=True) as writer:
        writer.step(100, schema=writer.schema([]), kind="late")
    run = cutaway.load(copy)
    assert isinstance(run, Run)
    assert run.steps.tolist() == [*map(int, EXPECTED["steps"]), 100]
    assert run.at(100).session == 4


def test_frames_are_what_the_format_says() -> None:
    """Read with struct and msgpack alone, as the description of the format has it."""
    data = (GOLDEN / "run" / "rank-0" / "0001.index").read_bytes()
    at, types = 0, []
    while at < len(data):
        magic, length, checksum = unpack_from("<4sII", data, at)
        payload = data[at + 12 : at + 12 + length]
        assert magic == MAGIC == b"CUT1"
        assert crc32(data[at + 4 : at + 8] + payload) == checksum
        types.append(msgpack.unpackb(payload)["type"])
        end = at + 12 + length
        at = end + -end % 8
        assert not any(data[end:at])
    assert (types[0], types[-1], len(types)) == ("session", "end", len(scan(data).records))
