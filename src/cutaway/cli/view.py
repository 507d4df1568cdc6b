"""`cutaway view`: look at what was recorded, collected or saved, in a browser."""

from __future__ import annotations

import argparse
import json
import secrets
import threading
from socket import gethostname, socket
from typing import Final
from urllib.parse import quote

from cutaway.core.errors import InputError, MissingExtraError

_ALL: Final = ("0.0.0.0", "::", "")
"""All interfaces of this machine."""
_SHORTEST_TOKEN: Final = 8
_EPILOG = """examples:
  cutaway view runs/                         all that lies below a folder, also what is to come
  cutaway view runs/base runs/other
  cutaway view runs/ --port 9000 --no-browser
  cutaway view runs/ --host 0.0.0.0          from other machines too, for who knows the token it prints

On a machine far away, `ssh -L 8787:localhost:8787 machine` brings the viewer to your own browser, and nothing
need be open to others. Ctrl-C ends it.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="whatever Cutaway wrote, folders of it")
    parser.add_argument(
        "--port",
        type=int,
        default=None,
        help="where to listen, 0 for any free port; else 8787, or the next free one",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--host", default="127.0.0.1", help="the interface to listen on; else this machine only")
    parser.add_argument(
        "--token", default="", help="what others have to know; else one is made up for other interfaces"
    )


def run(args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port < 1 << 16:
        raise InputError(f"--port {args.port} is no port: they go from 1 to 65535, and 0 is any that is free.")
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
    if token and len(token) < _SHORTEST_TOKEN:
        raise InputError(f"--token of {len(token)} letters is guessed too easily: take {_SHORTEST_TOKEN} or more.")
    made = viewer(args.paths, host=args.host, token=token)
    found = listening(args.host, args.port)
    is_open = args.host in _ALL
    address = _address("localhost" if is_open else args.host, found, token)
    if args.json:
        print(json.dumps({"url": address}), flush=True)
    else:
        others = f"From other machines: {_address(gethostname(), found, token)}\n" if is_open else ""
        print(f"Looking at {', '.join(args.paths)}: {address}\n{others}Ctrl-C ends it.", flush=True)
    if not args.no_browser and not args.json:
        threading.Thread(target=open_in_browser, args=(address,), daemon=True).start()
    try:
        serve(made, found)
    except KeyboardInterrupt:
        pass  # which is how it ends
    return 0


def _address(host: str, found: socket, token: str) -> str:
    name = f"[{host}]" if ":" in host else host
    query = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{name}:{found.getsockname()[1]}/{query}"
