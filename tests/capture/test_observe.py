"""`observe` shows values at sites of a running model and never changes them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway
from cutaway.capture import sessions
from cutaway.capture.interventions.targets import units_by_site
from cutaway.capture.observe import Observation, check_single, no_value_error, observe
from cutaway.core.errors import InputError, SiteError
from cutaway.core.pytree import escape
from cutaway.core.sites import Site


class Two(nn.Module):
    """A cell that runs twice, with ops of its own and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x: Tensor, *, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
        first = self.cell(x).relu()
        second = self.cell(first).relu()
        return first, second if scale is None else second * scale


def seen_at(model: nn.Module, sites: object, run: Callable[[], object]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    with observe(model, sites, lambda seen: found.update({str(seen.site): seen.tensor.clone()})):
        run()
    return found


def test_module_outputs_inputs_ops_and_passes_are_seen_in_order() -> None:
    model, x = Two(), torch.randn(2, 3)
    found = seen_at(model, ["cell", ".@in.0", "./relu.2", "cell@in:2"], lambda: model(x))
    first = model.cell(x)
    expected = {
        ".@in.0:1": x,
        "cell@out:1": first,
        "cell@in.0:2": first.relu(),
        "cell@out:2": model.cell(first.relu()),
        "./relu.2:1": model.cell(first.relu()).relu(),
    }
    assert list(found) == list(expected)
    for site, value in expected.items():
        assert torch.equal(found[site], value), site


def test_an_observation_says_where_it_stands() -> None:
    model, x = Two(), torch.randn(2, 3)
    found: list[Observation] = []
    with observe(model, ["cell", "*", ".", ".@in"], found.append):
        returned = model(x, scale=torch.ones(1))
    by_site = {str(seen.site): seen for seen in found}
    assert list(by_site) == [".@in.0:1", ".@in.scale:1", "cell@out:1", "cell@out:2", ".@out.0:1", ".@out.1:1"]
    cell = by_site["cell@out:2"]
    assert cell.module is model.cell
    assert cell.requested == (Site.parse("cell"), Site.parse("*"))  # told once, whatever covers it
    assert (cell.n_tensors, by_site[".@out.1:1"].n_tensors, by_site[".@in.0:1"].n_tensors) == (1, 2, 2)
    assert by_site[".@out.0:1"].whole is returned
    assert by_site[".@out.0:1"].tensor is returned[0]
    assert by_site[".@in.scale:1"].whole.keys() == {"0", "scale"}


@pytest.mark.parametrize("name", sorted(ZOO))
def test_in_every_model_it_sees_what_hooks_see_and_changes_nothing(name: str) -> None:
    model, args, kwargs = ZOO[name]()
    twin, twin_args, twin_kwargs = copy.deepcopy((model, args, kwargs))
    modules = {
        ".".join(map(escape, address.split("."))): module
        for address, module in twin.named_modules()
        if address and not isinstance(module, torch.jit.ScriptModule)
    }
    expected: dict[str, list[Tensor]] = {}
    for address, module in modules.items():

        def hook(module: nn.Module, args: Any, result: Any, address: str = address) -> None:
            if _is_plain(result):
                expected.setdefault(address, []).append(result.detach().clone())

        module.register_forward_hook(hook)
    torch.manual_seed(1)
    returned = twin(*twin_args, **twin_kwargs)
    found: dict[str, list[Tensor]] = {}

    def note(seen: Observation) -> None:
        if not seen.site.path and _is_plain(seen.tensor):
            found.setdefault(seen.site.address, []).append(seen.tensor.detach().clone())

    sites = [address for address in modules if address in expected and "*" not in address]
    if not sites:
        pytest.skip("no module inside it returns a tensor")
    torch.manual_seed(1)
    with observe(model, [Site(address) for address in sites], note):
        same = model(*args, **kwargs)
    for address, values in found.items():
        for value, other in zip(values, expected[address], strict=True):
            _assert_same(value, other)
    if isinstance(returned, Tensor):
        _assert_same(same, returned)


def _is_plain(value: object) -> bool:
    """Whether it is a tensor that can be looked at later: one inside vmap or grad cannot."""
    return isinstance(value, Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(value)


def _assert_same(value: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(value, other, rtol=0, atol=0, equal_nan=True)


def test_modules_alone_need_no_function_mode() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    depths: list[int] = []
    with observe(model, ["0", "1@in"], lambda seen: depths.append(torch._C._len_torch_function_stack())):
        assert not sessions.sessions
        model(torch.ones(1, 2))
    assert depths == [0, 0]


@pytest.mark.parametrize("site", ["0", "0@in.0", "0/linear"])
@pytest.mark.parametrize("fails", ["callback", "model", "nothing"])
def test_it_leaves_nothing_behind(site: str, fails: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    before = [{**module.__dict__} for module in model.modules()]
    hooks = nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_pre_hooks

    def callback(seen: Observation) -> None:
        if fails == "callback":
            raise ZeroDivisionError

    try:
        with observe(model, site, callback):
            model(torch.ones(1, 3 if fails == "model" else 2))
    except (ZeroDivisionError, RuntimeError):
        assert fails != "nothing"
    else:
        assert fails == "nothing"
    assert [{**module.__dict__} for module in model.modules()] == before
    assert not any(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    assert (len(hooks[0]), len(hooks[1])) == (0, 0)
    assert torch._C._len_torch_function_stack() == 0
    assert not sessions.sessions


def test_it_is_entered_again_and_counts_passes_anew() -> None:
    model, found = Two(), []
    observer = observe(model, ["cell", "./relu"], lambda seen: found.append(str(seen.site)))
    for _ in range(2):
        found.clear()
        with observer:
            model(torch.ones(1, 3))
        assert found == ["cell@out:1", "./relu.1:1", "cell@out:2", "./relu.2:1"]
    with observer, pytest.raises(InputError, match="already active"):
        observer.__enter__()
    with observer.attached():
        for _ in range(2):
            found.clear()
            with observer:
                model(torch.ones(1, 3))
            model(torch.ones(1, 3))  # between two blocks nothing is told
            assert found == ["cell@out:1", "./relu.1:1", "cell@out:2", "./relu.2:1"]
    assert not model.cell._forward_hooks
    with pytest.raises(ZeroDivisionError), observer:
        raise ZeroDivisionError
    with observer:
        model(torch.ones(1, 3))


@pytest.mark.parametrize("order", ["edit first", "observer first"])
@pytest.mark.parametrize("site", ["0", "0/linear"])
def test_values_are_seen_as_edits_leave_them(site: str, order: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    found: list[Tensor] = []
    blocks: list[Any] = [
        cutaway.edit(model, at=site, to=7.0),
        observe(model, site, lambda seen: found.append(seen.tensor.clone())),
    ]
    if order == "observer first" and site == "0":
        pytest.skip("hooks of a module run in the order in which they were registered")
    first, second = blocks if order == "edit first" else blocks[::-1]
    with first, second:
        result = model(torch.ones(1, 2))
    assert [value.tolist() for value in found] == [[[7.0, 7.0]]]
    assert result.tolist() == [[7.0, 7.0]]


def test_what_the_callback_computes_is_no_part_of_a_trace() -> None:
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)
    plain = [op.label for op in cutaway.trace(model, x)]
    for site in ("0", "0/linear"):
        with observe(model, site, lambda seen: seen.tensor.exp().sum()):
            assert [op.label for op in cutaway.trace(model, x)] == plain


def test_other_threads_are_not_seen() -> None:
    model, found = nn.Sequential(nn.Linear(2, 2)), []
    with observe(model, ["0", "0/linear"], found.append):
        thread = threading.Thread(target=lambda: model(torch.ones(1, 2)))
        thread.start()
        thread.join()
    assert not found


def test_a_copy_of_the_model_is_not_seen() -> None:
    model, found = nn.Sequential(nn.Linear(2, 2)), []
    with observe(model, "0", found.append):
        copy.deepcopy(model)(torch.ones(1, 2))
    assert not found


def test_what_was_not_reached_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with observe(model, ["0", "1:2", "1/tanh"], lambda seen: None) as observer:
        model(torch.ones(1, 2))
    assert list(map(str, observer.missing_sites)) == ["1:2", "1/tanh"]
    assert "no value at '1/tanh'" in str(no_value_error(observer.missing_sites[1]))


def test_sites_that_no_run_makes_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(SiteError, match="matches no module"):
        observe(model, "3", print)
    with pytest.raises(InputError, match="'0#1' is a single unit"):
        observe(model, "0#1", print)
    with pytest.raises(InputError, match=r"'0\.weight' is a parameter or buffer"):
        observe(model, "0.weight", print)
    scripted = nn.Sequential(torch.jit.script(nn.Linear(2, 2)))
    with pytest.raises(InputError, match="'0' is a ScriptModule"), observe(scripted, "0", print):
        pass
    with observe(scripted, "**", print):  # a pattern leaves it out
        pass


def test_a_site_of_several_tensors_can_be_refused() -> None:
    model, x = Two(), torch.ones(1, 3)
    with pytest.raises(InputError, match=r"'\.' has 2 tensors there: choose one of '\.@out\.0', '\.@out\.1'"):
        with observe(model, ".", check_single):
            model(x)
    with observe(model, ".@out.1", check_single):
        model(x)


def test_a_compiled_model_is_seen_in_its_eager_source() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = torch.compile(model, backend="eager")
    x = torch.ones(1, 2)
    found = seen_at(compiled, ["0", "1/relu"], lambda: compiled(x))
    assert torch.equal(found["0@out:1"], model[0](x))
    assert torch.equal(found["1/relu.1:1"], model(x))


def test_units_are_gathered_by_site() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert units_by_site(model, ["0#2", "0#1", "1"]) == {"0": [2, 1], "1": None}
    assert units_by_site(model, "*") == {"0": None, "1": None}
    with pytest.raises(SiteError, match="'3' matches no module"):
        units_by_site(model, "3")
    with pytest.raises(InputError, match="pass a site or several"):
        units_by_site(model, [])
