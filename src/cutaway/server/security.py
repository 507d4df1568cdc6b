"""Middleware: Host, Origin and token checks, security headers.

A page from elsewhere can make a browser send requests to this machine, and with DNS rebinding it can look like our
own page. So the Host header must name this machine, Origin and Sec-Fetch-Site must say "same origin", and on any
interface other than loopback the client needs a token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every response: only our script runs, nothing loads from other servers, no other page may embed ours."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
_ALL_INTERFACES: Final = ("0.0.0.0", "::", "")


class SecurityMiddleware:
    """ASGI middleware that refuses foreign requests and adds security headers to every response.

    Args:
        host: the name or address of the interface that you serve on.
        token: the token that clients must send; "" for none.
    """

    def __init__(self, app: ASGIApp, *, host: str = "127.0.0.1", token: str = "") -> None:
        self._app = app
        self._host = host.lower()
        self._token = token
        digest = hashlib.sha256(token.encode()).hexdigest()
        self._cookie = f"cutaway-{digest[:12]}"  # the digest is in the name because cookies ignore ports
        self._cookie_value = hashlib.sha256(f"{digest} {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # closes a websocket

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        connection = HTTPConnection(scope)
        answer = self._check_origin(connection) or self._check_token(connection)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _check_origin(self, connection: HTTPConnection) -> Response | None:
        """The error response to a wrong Host or a request from another page; None if both are fine."""
        headers = connection.headers
        hosts = headers.getlist("host")
        # RFC 9112 allows one Host header. Of two, a proxy and this server could each believe another.
        asked = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_our_host(asked):
            message = f"this viewer does not answer to the host name {asked!r}. Open the URL that it printed"
            hint = "" if is_loopback(self._host) else ", or start it with --host and that name"
            return _refusal(f"{message}{hint}.", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{asked}", f"https://{asked}"):
            return _refusal("cross-origin request refused: this viewer answers its own page only.", 403)
        fetch_site = headers.get("sec-fetch-site", "none")
        # A link on another page may open the viewer, but its scripts may not read from it.
        if fetch_site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            return _refusal("cross-origin request refused: this viewer answers its own page only.", 403)
        return None

    def _is_our_host(self, asked: str) -> bool:
        """Whether a Host header names this machine. Ports are not compared: tunnels (`ssh -L`) change them."""
        match = _HOST.fullmatch(asked)
        if match is None:
            return False
        name = match[1].strip("[]").rstrip(".")
        if is_loopback(name) or name == self._host:
            return True
        return self._host in _ALL_INTERFACES and (_is_ip_address(name) or name in _host_names())

    def _check_token(self, connection: HTTPConnection) -> Response | None:
        """The response if the token is missing, or a redirect if it is in the URL; None if the cookie is valid."""
        if not self._token or _equal(connection.cookies.get(self._cookie, ""), self._cookie_value):
            return None
        pairs = parse_qsl(connection.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if _equal(dict(pairs).get("token", ""), self._token):
            # Remove the token from the URL and the history; the browser keeps the #fragment across the redirect.
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            # A single slash: a path such as `//example.org` would redirect to another host.
            path = "/" + quote(connection.scope["path"].lstrip("/"))
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            # Not `strict`: the cookie would be missing when a link on another page opens the viewer.
            answer.set_cookie(self._cookie, self._cookie_value, httponly=True, samesite="lax")
            return answer
        message = "this viewer needs a token. Open the complete URL that `cutaway view` printed."
        if connection.scope["path"].startswith("/api/"):
            return _refusal(message, 401)
        return PlainTextResponse(message[0].upper() + message[1:], 401)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the interface.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_names() -> tuple[str, str]:
    name = socket.gethostname().lower()
    return name, name.partition(".")[0]


def _equal(given: str, expected: str) -> bool:
    # Takes the same time for every wrong token, so that timing reveals nothing.
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _refusal(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)
