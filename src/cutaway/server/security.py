"""Who may ask the viewer, and what its answers may do: the door in front of everything it serves.

A page from elsewhere can make a browser send requests to this machine, and a name that its owner points here (DNS
rebinding) can make such a page look like one of ours. So the name that was asked for must be this machine's, whatever
says where a request comes from must say "from here", and on any other interface than loopback a token is asked for.
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
"""On every answer: no script but ours runs, nothing is fetched from elsewhere, no other page may look in."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
_ANY: Final = ("0.0.0.0", "::", "")


class Guard:
    """Lets in who may come in, and writes the rules for browsers on every answer.

    Args:
        host: the name or number of the interface that is listened on.
        token: what has to be known by whoever asks; "" where nothing has.
    """

    def __init__(self, app: ASGIApp, *, host: str = "127.0.0.1", token: str = "") -> None:
        self._app = app
        self._host = host.lower()
        self._token = token
        digest = hashlib.sha256(token.encode()).hexdigest()
        self._cookie = f"cutaway-{digest[:12]}"  # ports share their cookies
        self._told = hashlib.sha256(f"{digest} {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # which closes a websocket

        async def ruled(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        connection = HTTPConnection(scope)
        answer = self._refused(connection) or self._untold(connection)
        await (answer or self._app)(scope, receive, ruled)

    def _refused(self, connection: HTTPConnection) -> Response | None:
        """The answer to who comes by a wrong name or from another page; None for others."""
        headers = connection.headers
        hosts = headers.getlist("host")
        asked = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_own(asked):
            said = f"this viewer does not answer to the name {asked!r}. Open the address that it printed"
            hint = "" if is_loopback(self._host) else ", or start it with --host and that name"
            return _refusal(f"{said}{hint}.", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{asked}", f"https://{asked}"):
            return _refusal("this viewer answers its own page only, and that question came from another one.", 403)
        came_from = headers.get("sec-fetch-site", "none")
        if came_from not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            return _refusal("this viewer answers its own page only, and that question came from another one.", 403)
        return None

    def _is_own(self, asked: str) -> bool:
        """Whether a Host is a name of this machine. Ports are not compared: tunnels (`ssh -L`) have others."""
        found = _HOST.fullmatch(asked)
        if found is None:
            return False
        name = found[1].strip("[]").rstrip(".")
        if is_loopback(name) or name == self._host:
            return True
        return self._host in _ANY and (_is_number(name) or name in _names())

    def _untold(self, connection: HTTPConnection) -> Response | None:
        """The answer to who does not know the token, or tells it in the address; None for others."""
        if not self._token or _equal(connection.cookies.get(self._cookie, ""), self._told):
            return None
        pairs = parse_qsl(connection.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if _equal(dict(pairs).get("token", ""), self._token):
            # Out of the address and the history at once; what stands behind # stays with the browser.
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            path = "/" + quote(connection.scope["path"].lstrip("/"))
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            answer.set_cookie(self._cookie, self._told, httponly=True, samesite="lax")
            return answer
        said = "this viewer asks for a token: open the whole address that `cutaway view` printed."
        if connection.scope["path"].startswith("/api/"):
            return _refusal(said, 401)
        return PlainTextResponse(said[0].upper() + said[1:], 401)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach an interface of this name.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _names() -> tuple[str, str]:
    own = socket.gethostname().lower()
    return own, own.partition(".")[0]


def _equal(told: str, expected: str) -> bool:
    return hmac.compare_digest(told.encode(errors="replace"), expected.encode())


def _refusal(said: str, status: int) -> Response:
    return JSONResponse({"error": said}, status)
