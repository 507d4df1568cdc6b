"""What the README says about installing is what the package declares."""

from __future__ import annotations

import re
import tomllib

from tests import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SAID_AS = {"starlette": "the viewer", "uvicorn": "the viewer", "anywidget": "the notebook widget"}


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=]", requirement)[0] for requirement in requirements}


def test_all_is_the_sum_of_the_extras() -> None:
    others = [requirement for name, requirements in EXTRAS.items() if name != "all" for requirement in requirements]
    assert set(EXTRAS["all"]) == set(others)


def test_the_readme_names_everything_that_all_installs() -> None:
    (line,) = re.findall(r'pip install "\.\[all\]" +# (.*)', README)
    named = {package for package in packages(EXTRAS["all"]) if SAID_AS.get(package, package) in line}
    assert named == packages(EXTRAS["all"])


def test_the_readme_names_the_extra_of_the_viewer_beside_its_command() -> None:
    assert re.search(r"`cutaway view runs/` \(`pip install 'cutaway\[view\]'`\)", README)


def test_every_figure_of_the_readme_is_in_the_figures() -> None:
    table = README[README.index("## Facts") : README.index("## Beside")]
    figures = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    for number in re.findall(r"\d+\.\d+(?= ×)|\de-\d|\d,\d{3}|\b996\b", table):
        assert number in figures, f"{number} is not in docs/figures.md"
