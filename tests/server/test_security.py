"""Who may ask the viewer: foreign names, foreign pages, tokens; and the rules on every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from cutaway.server.app import viewer
from cutaway.server.security import SecurityMiddleware, is_loopback

TOKEN = "a-long-enough-token"


def guarded(base: str = "http://127.0.0.1:8787", **options: Any) -> TestClient:
    async def hello(_: Request) -> Response:
        return PlainTextResponse("hello")

    routes = [Route("/", hello), Route("/api/thing", hello)]
    app = Starlette(routes=routes, middleware=[Middleware(SecurityMiddleware, **options)])
    return TestClient(app, base_url=base, follow_redirects=False)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8787", "localhost:8787", "LOCALHOST:8787", "[::1]:8787", "localhost", "127.0.0.1:9000"]
)
def test_this_machine_by_any_of_its_own_names_is_answered(host: str) -> None:
    assert guarded().get("/api/thing", headers={"host": host}).text == "hello"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5:8787"),
        *("", "127.0.0.1:8787@evil.example", "localhost/../", "localhost:8787 evil", "[::1", "0.0.0.0:8787"),
    ],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    answer = guarded().get("/api/thing", headers={"host": host})
    assert answer.status_code == 421
    assert "does not answer to the host name" in answer.json()["error"]


def test_two_hosts_are_refused() -> None:
    headers = [("host", "localhost:8787"), ("host", "evil.example")]
    assert guarded().get("/api/thing", headers=headers).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9000", "http://127.0.0.1"])
def test_a_foreign_origin_is_refused(origin: str) -> None:
    answer = guarded().get("/api/thing", headers={"origin": origin})
    assert answer.status_code == 403
    assert "its own page only" in answer.json()["error"]
    assert "access-control-allow-origin" not in answer.headers


def test_the_pages_own_origin_is_answered() -> None:
    assert guarded().get("/api/thing", headers={"origin": "http://127.0.0.1:8787"}).status_code == 200


def test_a_question_that_another_site_makes_a_browser_ask_is_refused_but_a_link_to_the_page_is_not() -> None:
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        assert guarded().get("/api/thing", headers=headers).status_code == 403
        assert guarded().get("/", headers={**headers, "sec-fetch-mode": "navigate"}).status_code == 200
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert guarded().get("/api/thing", headers=own).status_code == 200


def test_the_rules_stand_on_every_answer_also_on_refusals_and_on_what_is_not_there(recorded: Path) -> None:
    client = TestClient(viewer([str(recorded)]).app, base_url="http://localhost:8787")
    with client:
        for path, headers in (("/", {}), ("/api/runs", {}), ("/nothing", {}), ("/api/runs", {"host": "evil.example"})):
            answer = client.get(path, headers=headers)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy  # neither inline scripts nor eval
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"


# another interface


def on_network(**more: Any) -> TestClient:
    return guarded("http://192.168.1.5:8787", host="192.168.1.5", token=TOKEN, **more)


def test_on_another_interface_nobody_comes_in_without_the_token() -> None:
    client = on_network()
    answer = client.get("/api/thing")
    assert answer.status_code == 401
    assert "needs a token" in answer.json()["error"]
    assert client.get("/").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/?token=").status_code == 401
    assert client.get("/", headers={"cookie": "cutaway-000000000000=wrong"}).status_code == 401


@pytest.mark.parametrize("token", ["with blanks & more;=", "Schlüssel-Ω-鍵", '"quoted"'])
def test_a_token_of_any_letters_works(token: str) -> None:
    client = guarded("http://192.168.1.5:8787", host="192.168.1.5", token=token)
    assert client.get("/", params={"token": token}).status_code == 303
    assert client.get("/api/thing").text == "hello"


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address() -> None:
    client = on_network()
    answer = client.get(f"/?token={TOKEN}&step=3")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?step=3"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert client.get("/api/thing").text == "hello"


def test_the_way_back_from_the_token_never_leads_elsewhere() -> None:
    answer = on_network().get(f"//evil.example/%2e%2e?token={TOKEN}")
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith("//")


def test_who_knows_the_token_still_has_to_come_by_a_known_name() -> None:
    assert on_network().get(f"/?token={TOKEN}", headers={"host": "evil.example"}).status_code == 421


def test_on_all_interfaces_numbers_are_names_but_foreign_names_are_not() -> None:
    client = guarded("http://10.0.0.7:8787", host="0.0.0.0", token=TOKEN)
    assert client.get(f"/?token={TOKEN}").status_code == 303
    assert client.get(f"/?token={TOKEN}", headers={"host": "evil.example:8787"}).status_code == 421


def test_tokens_of_two_viewers_on_one_machine_do_not_disturb_each_other() -> None:
    first, second = (
        guarded("http://192.168.1.5", host="192.168.1.5", token=token).get(f"/?token={token}")
        for token in (TOKEN, "another-long-token")
    )
    names = {answer.headers["set-cookie"].partition("=")[0] for answer in (first, second)}
    assert len(names) == 2


def test_what_counts_as_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.3.2.1", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "example", "localhost.evil.example")))
