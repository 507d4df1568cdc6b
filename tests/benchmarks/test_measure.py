"""The measuring code on a small model; the figures themselves are left to `make bench`."""

from __future__ import annotations

import pytest
import torch
from benchmarks.capture.forward import FORWARD, LABELS, METADATA, of_case
from benchmarks.capture.models import chosen
from benchmarks.measure import CONTROL, paired, python_bytes, summarized, timed
from benchmarks.peers.torchlens import from_notes
from benchmarks.report import Figure, text


@pytest.fixture(autouse=True)
def one_thread():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def test_ratios_are_taken_within_a_pair():
    found = summarized([(1.0, 2.0), (10.0, 20.0), (2.0, 6.0)])
    assert found.ratio == 2.0
    assert found.plain == 2.0
    assert found.value == 6.0


def test_twice_the_work_costs_about_twice_and_the_control_about_once():
    x = torch.randn(64, 64)

    def work():
        for _ in range(200):
            x @ x

    found = paired(timed(work), {"twice": timed(lambda: (work(), work()))}, n_pairs=9)
    assert 1.3 < found["twice"].ratio < 3
    assert 0.6 < found[CONTROL].ratio < 1.6


def test_memory_counts_what_the_result_holds_and_nothing_that_is_gone():
    assert python_bytes(lambda: bytearray(100_000)) == pytest.approx(100_000, rel=0.1)
    assert python_bytes(lambda: len(bytearray(100_000))) < 10_000


def test_every_variant_of_tracing_is_measured_on_a_model():
    (mlp,) = chosen(["mlp"])
    found = list(of_case(mlp, from_notes("not asked"), n_pairs=3))
    assert [figure.work for figure in found] == [FORWARD, LABELS, METADATA]
    assert all(figure.value > 0 for figure in found)
    assert (found[1].peer, found[1].peer_note) == (341, "(notes)")


def test_a_figure_is_judged_by_its_aim_and_printed_with_it():
    missed = Figure("work", "model", 3.0, "×", aim=2.5, peer=300.0)
    assert missed.verdict == "missed"
    printed = text([missed], "about")
    assert "3.00 ×" in printed
    assert "≤ 2.5" in printed
    assert "0 of 1 aims met" in printed


def test_an_unknown_model_is_named_with_those_there_are():
    with pytest.raises(SystemExit, match=r"no case is called mpl; there are mlp, lstmcell"):
        chosen(["mpl"])
