"""`cutaway view`, as a process of its own: it comes up, answers, and ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
from tests.cli.conftest import Ask


@contextmanager
def viewing(*arguments: object, browser: bool = False) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address it printed."""
    command = [sys.executable, "-m", "cutaway", "view", *map(str, arguments), *([] if browser else ["--no-browser"])]
    # A background job of a shell ignores SIGINT, and children inherit that: Ctrl-C would not reach the viewer.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + (process.stderr.read() if process.stderr and process.poll() is not None else "")
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def fetched(address: str, path: str = "/") -> tuple[int, bytes]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=120)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def ended(process: subprocess.Popen[str], with_: signal.Signals) -> tuple[int, str]:
    process.send_signal(with_)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def test_it_serves_the_page_and_the_runs_and_ends_cleanly_with_ctrl_c(base: Path) -> None:
    with viewing(base.parent) as (process, address):
        assert fetched(address)[0] == 200
        items = json.loads(fetched(address, "/api/runs")[1])
        assert base.name in [item["name"] for item in items]
        assert ended(process, signal.SIGINT) == (0, "")


def test_it_ends_with_ctrl_c_also_while_a_page_listens(base: Path) -> None:
    with viewing(base) as (process, address):
        connection = HTTPConnection(urlsplit(address).netloc, timeout=120)
        connection.request("GET", "/api/events")
        response = connection.getresponse()
        assert response.readline().startswith(b"retry")
        assert ended(process, signal.SIGINT) == (0, "")
        response.close()
        connection.close()


def test_it_opens_the_address_in_the_browser(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = tmp_path / "browser"
    # Renamed when complete: the test may look between the creation of the file and the write.
    browser.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/part\nmv {tmp_path}/part {tmp_path}/address\n")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("CUTAWAY_BROWSER", "")
    with viewing(base, browser=True) as (_, address):
        until = monotonic() + 120
        while not (tmp_path / "address").is_file() and monotonic() < until:
            sleep(0.05)
        assert (tmp_path / "address").read_text().strip() == address


def test_it_listens_to_this_machine_only(base: Path) -> None:
    with viewing(base) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        listening = {
            line.split()[1]
            for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
            if int(line.split()[1].partition(":")[2], 16) == urlsplit(address).port
        }
        assert all(local.startswith("0100007F:") for local in listening)
        assert listening


def test_a_port_in_use_is_passed_over_unless_it_was_asked_for(base: Path, ask: Ask) -> None:
    with viewing(base) as (_, first), viewing(base) as (_, second):
        assert first != second
        assert fetched(first)[0] == fetched(second)[0] == 200
        port = str(urlsplit(first).port)
        answer = ask("view", base, "--port", port)
        assert (answer.code, answer.out) == (2, "")
        assert f"port {port} is in use. Omit --port" in answer.err


def test_a_port_that_was_asked_for_is_taken(base: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with viewing(base, "--port", port) as (_, address):
        assert urlsplit(address).port == port


def test_port_0_is_any_that_is_free(base: Path) -> None:
    with viewing(base, "--port", 0) as (_, address):
        assert urlsplit(address).port not in range(8787, 8807)


def test_on_another_interface_it_prints_a_token_and_asks_for_it(base: Path) -> None:
    with viewing(base, "--host", "0.0.0.0") as (_, address):
        token = urlsplit(address).query
        assert re.fullmatch(r"token=[\w-]{32}", token)
        assert fetched(address, "/api/runs")[0] == 401
        assert fetched(address, f"/?{token}")[0] == 303


def test_a_token_can_be_given_but_not_a_short_one(base: Path, ask: Ask) -> None:
    with viewing(base, "--token", "my own & secret") as (_, address):
        assert address.endswith("?token=my%20own%20%26%20secret")
        assert fetched(address, "/api/runs")[0] == 401
        assert fetched(address, f"/?{urlsplit(address).query}")[0] == 303
    answer = ask("view", base, "--token", "short")
    assert (answer.code, answer.err) == (2, "cutaway: --token has 5 characters and is easy to guess. Use at least 8.\n")


def test_what_cannot_be_served_is_a_sentence(tmp_path: Path, ask: Ask) -> None:
    answer = ask("view", tmp_path / "nothing")
    assert answer.code == 2
    assert "it does not exist. Name a folder that holds runs." in answer.err
    assert "not a port" in ask("view", tmp_path, "--port", "70000").err
    assert "does not name an interface" in ask("view", tmp_path, "--host", "no.such.host.invalid").err


def test_a_file_that_is_no_archive_is_a_sentence(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "file.txt").write_text("text")
    answer = ask("view", tmp_path / "file.txt")
    assert (answer.code, answer.out) == (2, "")
    assert "file.txt: it is not a folder. Name a folder that holds runs." in answer.err


def test_an_empty_folder_is_served_and_the_output_says_so(tmp_path: Path) -> None:
    with viewing(tmp_path) as (process, address):
        assert fetched(address, "/api/runs") == (200, b"[]")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("There are no runs, traces or results yet; they appear")


def test_a_missing_extra_names_its_install(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("cutaway.server.app", "cutaway.server.security"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    answer = ask("view", tmp_path)
    assert answer.code == 2
    assert answer.err == "cutaway: `cutaway view` needs starlette: pip install 'cutaway[view]'\n"


def test_it_needs_no_torch(base: Path) -> None:
    code = (
        "import sys, cutaway.cli.view, cutaway.server.app, cutaway.server.serve;"
        "assert not {'torch', 'pandas', 'matplotlib', 'cutaway.views.showable'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
