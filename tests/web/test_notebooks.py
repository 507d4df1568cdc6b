"""The picture in a real JupyterLab and a real marimo, with kernels that answer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

LAB = Path(sys.prefix) / "lab"
"""An environment of its own, made by `make lab`."""
CELLS = [
    "import torch, cutaway\n"
    "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())\n"
    "trace = cutaway.trace(model, torch.ones(2, 4))",
    "for _ in range(1):\n    shown = cutaway.show(trace)\nshown",
    "trace",
]
MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import torch, cutaway
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    cutaway.show(cutaway.trace(model, torch.ones(2, 4)))
    return


if __name__ == "__main__":
    app.run()
"""


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[str]:
    """Run a notebook server of the environment of its own; gives its address. `{port}` in the command is its port."""
    if not (LAB / ".ready").exists():
        pytest.fail("the notebooks are not installed: `make lab`", pytrace=False)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The kernel finds torch and Cutaway where the tests do, beside its own packages.
    paths = [sysconfig.get_paths()["purelib"], str(ROOT / "src")]
    homes = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    homes |= {"IPYTHONDIR": "ipython", "XDG_CONFIG_HOME": "xdg", "XDG_STATE_HOME": "state"}
    environment = {**os.environ, **{name: str(folder / home) for name, home in homes.items()}}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    run = [str(LAB / "bin" / "python"), "-m", *(part.format(port=port) for part in command)]
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(run, cwd=folder, stdout=log, stderr=log, env=environment) as server,
    ):
        try:
            yield wait_for(f"http://127.0.0.1:{port}", folder / "log")
        finally:
            server.terminate()


def wait_for(address: str, log: Path) -> str:
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=1)
            return address
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(log.read_text())


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab with one notebook in it, and a kernel for that."""
    folder = tmp_path_factory.mktemp("lab")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "id": f"cell{i}", "source": text} for i, text in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "net.ipynb").write_text(json.dumps(notebook))
    options = ["jupyterlab", "--no-browser", "--allow-root", "--port={port}", "--ServerApp.ip=127.0.0.1"]
    options += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    options += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with serving(folder, *options) as address:
        # Without a session the notebook would ask which kernel is wanted.
        asked = {"path": "net.ipynb", "name": "net.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
        urllib.request.urlopen(urllib.request.Request(f"{address}/api/sessions", json.dumps(asked).encode()))
        yield address


@pytest.fixture
def notebook(lab: str, browser: Browser) -> Iterator[Page]:
    """The notebook with all its cells run."""
    from playwright.sync_api import TimeoutError

    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.goto(f"{lab}/lab/tree/net.ipynb?reset", wait_until="domcontentloaded")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    picture = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea-output img")
    for _ in range(5):  # what is run before the kernel listens is dropped without a word
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        with suppress(TimeoutError):
            picture.wait_for(timeout=20_000)
            break
        page.keyboard.press("Escape")
    yield page
    page.close()


def ask_for(page: Page, label: str) -> None:
    """Select an op by the search field of the picture."""
    field = page.get_by_role("textbox", name="Search")
    field.fill(label)
    field.press("Enter")


def test_jupyterlab_draws_one_picture_and_follows_its_theme(notebook: Page) -> None:
    picture = notebook.locator(".jp-CodeCell .cutaway")
    picture.locator("canvas").first.wait_for(timeout=30_000)
    assert picture.count() == 1, "`show` in the cell, and its value at the end, are one picture"
    assert picture.get_attribute("data-theme") == "light"
    notebook.evaluate("document.body.dataset.jpThemeLight = 'false'")
    notebook.locator(".cutaway[data-theme=dark]").wait_for()


def test_a_kernel_of_jupyterlab_tells_what_an_op_holds(notebook: Page) -> None:
    notebook.locator(".jp-CodeCell .cutaway canvas").first.wait_for(timeout=30_000)
    ask_for(notebook, "linear_1")
    notebook.locator(".cutaway").get_by_text("trace = cutaway.trace(model, torch.ones(2, 4))").wait_for()


def test_jupyterlab_shows_a_trace_as_a_still_picture(notebook: Page) -> None:
    image = notebook.locator(".jp-CodeCell").nth(2).locator("img[alt=Sequential]")
    assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 50


def test_marimo_draws_the_picture_and_its_kernel_answers(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MARIMO)
    with serving(tmp_path, "marimo", "run", "net.py", "--headless", "--no-token", "--port={port}") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(address, wait_until="domcontentloaded")
        page.locator(".cutaway canvas").first.wait_for(timeout=60_000)
        ask_for(page, "relu_1")
        page.locator(".cutaway").get_by_text("float32").first.wait_for()
        page.close()
