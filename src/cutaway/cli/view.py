"""`cutaway view`: serves the viewer and opens it in a browser."""

from __future__ import annotations

import argparse
import json
import secrets
import threading
from socket import gethostname, socket
from typing import Final
from urllib.parse import quote

from cutaway.cli.paths import holds_archives
from cutaway.core.errors import InputError, MissingExtraError

_ALL_INTERFACES: Final = ("0.0.0.0", "::", "")
"""Hosts that mean all network interfaces."""
_MIN_TOKEN_LENGTH: Final = 8
_NOTHING_YET: Final = "There are no runs, traces or results yet; they appear in the viewer when they are written."
_EPILOG = """examples:
  cutaway view runs/                         everything in a folder, including runs that start later
  cutaway view runs/base runs/other
  cutaway view runs/ --port 9000 --no-browser
  cutaway view runs/ --host 0.0.0.0          also from other machines, with the token it prints

Needs the viewer's packages: pip install 'cutaway[view]'.
On a remote machine, `ssh -L 8787:localhost:8787 machine` forwards the viewer to your local browser without
opening a port to others. Stop with Ctrl-C.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="archives, or folders of them")
    parser.add_argument(
        "--port",
        type=int,
        default=None,
        help="port to listen on, 0 for any free port (default: 8787, or the next free one)",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")
    parser.add_argument(
        "--host", default="127.0.0.1", help="network interface to listen on (default: this machine only)"
    )
    parser.add_argument(
        "--token", default="", help="access token for other machines (default: a random one if --host is not local)"
    )


def run(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port < 1 << 16:
        raise InputError(f"--port {args.port} is not a port. Give 1 to 65535, or 0 for any free port.")
    try:
        from cutaway.server.app import viewer
        from cutaway.server.browser import open_in_browser
        from cutaway.server.security import is_loopback
        from cutaway.server.serve import listening, serve
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        raise MissingExtraError(f"`cutaway view` needs {missing}: pip install 'cutaway[view]'") from error
    token = args.token or ("" if is_loopback(args.host) else secrets.token_urlsafe(24))
    if token and len(token) < _MIN_TOKEN_LENGTH:
        raise InputError(f"--token has {len(token)} characters and is easy to guess. Use at least {_MIN_TOKEN_LENGTH}.")
    app = viewer(args.paths, host=args.host, token=token)
    listener = listening(args.host, args.port)
    is_open = args.host in _ALL_INTERFACES
    address = _address("localhost" if is_open else args.host, listener, token)
    if args.json:
        print(json.dumps({"url": address}), flush=True)
    else:
        others = f"From other machines: {_address(gethostname(), listener, token)}\n" if is_open else ""
        nothing = "" if any(map(holds_archives, args.paths)) else f"{_NOTHING_YET}\n"
        print(f"Viewing {', '.join(args.paths)} at {address}\n{others}{nothing}Stop with Ctrl-C.", flush=True)
    if not args.no_browser and not args.json:
        # In a thread: `webbrowser.open` waits for some browsers, and the page needs the server meanwhile.
        threading.Thread(target=open_in_browser, args=(address,), daemon=True).start()
    try:
        serve(app, listener)
    except KeyboardInterrupt:
        pass  # the normal way to stop
    return 0


def _address(host: str, listener: socket, token: str) -> str:
    name = f"[{host}]" if ":" in host else host
    query = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{name}:{listener.getsockname()[1]}/{query}"
