"""One meaning of a unit: every verb counts the same units, and they are those that plain indexing picks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cutaway
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from tests.agreement import CASES, Case


def build(name: str) -> tuple[Case, nn.Module, Tensor]:
    torch.manual_seed(0)
    case = CASES[name]
    return case, case.make().eval(), case.x()


def value_of(model: nn.Module, x: Tensor, site: str) -> Tensor:
    """The value at a module, by a plain hook of torch."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, args: Any, result: Any) -> None:
        seen.append((result[0] if isinstance(result, tuple) else result).detach().clone())

    handle = model.get_submodule(site).register_forward_hook(keep)
    with torch.no_grad():
        model(x)
    handle.remove()
    return seen[0]


def with_unit(model: nn.Module, x: Tensor, case: Case, unit: int, new: float | Tensor) -> Tensor:
    """What the model returns with one unit changed, by a plain hook that finds its places by indexing."""
    where = value_of(model, x, case.site)
    places = case.rows(torch.arange(where.numel()).reshape(where.shape))[..., unit].reshape(-1)

    def put(module: nn.Module, args: Any, result: Any) -> Any:
        value = result[0] if isinstance(result, tuple) else result
        flat = value.clone().reshape(-1)
        flat[places] = new
        changed = flat.reshape(value.shape)
        return (changed, *result[1:]) if isinstance(result, tuple) else changed

    handle = model.get_submodule(case.site).register_forward_hook(put)
    with torch.no_grad():
        found: Tensor = model(x)
    handle.remove()
    return found


def three(n: int) -> list[int]:
    return sorted(np.random.default_rng(0).choice(n, min(3, n), replace=False).tolist())


@pytest.mark.parametrize("name", CASES)
def test_trace_edit_and_collect_show_the_units_of_plain_indexing(name: str) -> None:
    case, model, x = build(name)
    rows = case.rows(value_of(model, x, case.site))  # (sample, position, unit)
    with torch.no_grad():
        trace = cutaway.trace(model, x)
    op = trace[case.site]
    layout = op.unit_layout
    assert layout.n_units == case.n_units == rows.shape[2]
    torch.testing.assert_close(layout.rows(op.value), rows)
    acts = cutaway.collect(model, x, at=case.site)
    assert acts.widths == (case.n_units,)
    np.testing.assert_allclose(acts.array(), rows.mean(1).numpy(), atol=1e-5)
    by_position = cutaway.collect(model, x, at=case.site, rows="positions", batch_size=2)
    np.testing.assert_allclose(by_position.array(), rows.flatten(0, 1).numpy(), atol=1e-5)
    assert acts.layouts[acts.sites[0]].is_like(layout)
    for unit in three(case.n_units):
        picked = trace[f"{case.site}#{unit}"].value
        np.testing.assert_allclose(picked.numpy().ravel().sum(), rows[..., unit].sum().item(), rtol=1e-4, atol=1e-4)
        wanted = with_unit(model, x, case, unit, 0.5)
        with torch.no_grad(), cutaway.edit(model, at=f"{case.site}#{unit}", to=0.5):
            torch.testing.assert_close(model(x), wanted)
        with torch.no_grad(), cutaway.edit(model, at=[acts.names[unit]], to=0.5):
            torch.testing.assert_close(model(x), wanted)


@pytest.mark.parametrize("name", CASES)
def test_lesions_ablations_and_attributions_meet_the_same_units(name: str) -> None:
    case, model, x = build(name)
    rows = case.rows(value_of(model, x, case.site))

    @torch.no_grad()
    def metric() -> Tensor:
        return model(x)

    @torch.no_grad()
    def total() -> float:
        return float(model(x).square().sum())

    zeroed = cutaway.studies.lesion(model, metric, at=case.site, each="unit")
    means = cutaway.studies.lesion(model, metric, at=case.site, each="unit", to="mean")
    assert len(zeroed) == len(means) == case.n_units
    acts = cutaway.collect(model, x, at=case.site, rows="positions")
    ranking = cutaway.neurons.attribute(model, x, at=case.site, target=1)
    assert len(ranking) == case.n_units
    for unit in three(case.n_units):
        gone = with_unit(model, x, case, unit, 0)
        np.testing.assert_allclose(zeroed.scores[unit], gone.numpy(), rtol=1e-4, atol=1e-5)
        mean = rows[..., unit].double().mean().float()
        np.testing.assert_allclose(
            means.scores[unit], with_unit(model, x, case, unit, mean).numpy(), rtol=1e-4, atol=1e-5
        )
        site = acts.sites[0]
        for to in ("zero", "mean"):
            found = cutaway.neurons.ablate(model, [f"{site}#{unit}"], total, to=to, acts=acts, n_random=0)
            wanted = with_unit(model, x, case, unit, 0 if to == "zero" else mean).square().sum().item()
            assert found.scores[0, 0] == pytest.approx(wanted, rel=1e-4)
        assert ranking.scores[unit] == pytest.approx(by_gradient(model, x, case)[unit], rel=1e-3, abs=1e-5)


def by_gradient(model: nn.Module, x: Tensor, case: Case) -> list[float]:
    """Gradient × activation of class 1 by autograd alone: the mean over samples of the sizes summed over positions."""
    kept: list[Tensor] = []

    def keep(module: nn.Module, args: Any, result: Any) -> Any:
        value = result[0] if isinstance(result, tuple) else result
        leaf = value.detach().requires_grad_()
        kept.append(leaf)
        return (leaf, *result[1:]) if isinstance(result, tuple) else leaf

    handle = model.get_submodule(case.site).register_forward_hook(keep)
    model(x)[:, 1].sum().backward()
    handle.remove()
    parts = case.rows(kept[0].detach() * kept[0].grad)  # type: ignore[operator]
    return (parts.abs().sum((0, 1)) / len(parts)).tolist()


def test_the_issue() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10)).eval()
    assert cutaway.collect(model, torch.randn(20, 3, 12, 12), at=["0", "1"]).widths == (8, 8)


def test_activations_hand_on_what_was_stated(tmp_path: Path) -> None:
    """Nobody can know which dimension of a bare function's value counts units; once stated, a ranking carries it."""

    class Bare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.tanh().sum((1, 2))

    model, x = Bare(), torch.randn(6, 4, 5)
    with pytest.raises(cutaway.CutawayError, match=r"'\./tanh' has no known unit dimension.*unit_dim="):
        cutaway.collect(model, x, at="./tanh")
    acts = cutaway.collect(model, x, at="./tanh", unit_dim=1, path=tmp_path / "acts")
    assert acts.widths == (4,)
    np.testing.assert_allclose(acts.array(), x.tanh().mean(2).numpy(), atol=1e-6)
    loaded = cutaway.load(tmp_path / "acts")
    assert loaded.layouts == acts.layouts
    ranking = cutaway.neurons.rank(loaded, ["a", "b"] * 3)
    ranking.save(tmp_path / "ranking")
    again = cutaway.load(tmp_path / "ranking")
    for top in (ranking.top(1), again.top(1), loaded.names[:1], acts.at("./tanh").names[:1]):
        unit = int(top[0].rpartition("#")[2])
        changed = x.tanh()
        changed[:, unit] = 0
        with cutaway.edit(model, at=top, to=0):
            torch.testing.assert_close(model(x), changed.sum((1, 2)))
    with pytest.raises(cutaway.CutawayError, match="unit_dim="), cutaway.edit(model, at=ranking.top(1)[0], to=0):
        model(x)


def test_a_pattern_leaves_out_what_cannot_be_counted() -> None:
    class Routed(nn.Module):
        """Rows are chosen by the data, so that no sample stands anywhere in particular."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.pick, self.rows, self.head = nn.Linear(4, 6), Top(), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            h = h.index_put((torch.arange(len(h)),), self.rows(h[h.sum(1) > -100]))
            return self.head(h) + self.pick(h).sum(1, keepdim=True)

    class Top(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return h.topk(2, 1).values

    torch.manual_seed(0)
    model, x = Routed().eval(), torch.randn(5, 4)
    with pytest.warns(UserWarning, match=r"2 sites matched by the pattern cannot be collected, see acts\.left_out"):
        acts = cutaway.collect(model, x, at="*")
    assert acts.sites == ("first", "head")
    assert set(acts.left_out) == {"pick", "rows"}
    assert "unit_dim=" in acts.left_out["pick"]
    assert "no sample dimension" in acts.left_out["rows"]
    assert "2 sites left out" in repr(acts)
    for site in ("pick", "rows"):
        with pytest.raises((cutaway.CutawayError), match=site):
            cutaway.collect(model, x, at=site)
    with pytest.warns(UserWarning, match=r"1 site matched by the pattern cannot be lesioned"):
        lesions = cutaway.studies.lesion(model, lambda: model(x), at="*", each="unit")
    assert set(lesions.sites) == {"first", "rows", "head"}
    assert set(lesions.left_out) == {"pick"}
    with pytest.warns(UserWarning, match=r"left out 1 matching site"):
        ranking = cutaway.neurons.attribute(model, x, at=["f*", "pi*"], target=0)
    assert {name.rpartition("#")[0] for name in ranking.names} == {"first"}
    assert set(ranking.about["left_out"]) == {"pick"}


def test_the_dimension_of_samples_can_be_stated() -> None:
    """A model without a layer never computes across any dimension: the first counts samples unless told otherwise."""

    class Pointwise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.tanh()

    x = torch.randn(3, 5)
    assert cutaway.collect(Pointwise(), x, at=".").shape == (3, 5)
    turned = cutaway.collect(Pointwise(), x, at=".", samples=1, unit_dim=0)
    np.testing.assert_allclose(turned.array(), x.tanh().T.numpy())


def test_a_layout_of_another_batch_size_is_the_same() -> None:
    layout = UnitLayout(((3,), (8,), (10,)), units=(1,), samples=(0,))
    assert layout.is_like(replace(layout, split=((5,), (8,), (2,))))
    assert not layout.is_like(replace(layout, split=((5,), (9,), (2,))))
    assert Site.parse("1#3").without_unit() == Site("1")
