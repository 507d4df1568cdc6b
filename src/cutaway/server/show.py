"""`show`: displays objects in a notebook, in the browser or as a file."""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.io import write
from cutaway.server.browser import open_in_browser
from cutaway.server.page import html
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import Runs
from cutaway.views.showable import ShowableGraph, ShowablePage, as_showable, static_html

if TYPE_CHECKING:
    from cutaway.server.widget import Picture

_LOG = logging.getLogger("cutaway")
_PATIENCE = 3.0
"""Seconds to collect details of ops for a view on screen; a file that you name gets all of them."""
_HINT = "Interactive views in notebooks need anywidget: pip install anywidget"


def show(*items: object, path: str | PathLike[str] | None = None) -> Shown:
    """Show traces, diffs, rankings, pages or views: below the cell in a notebook, otherwise in the browser.

    Outside notebooks, `show` writes a self-contained HTML file and opens it. If no browser can open (no display, or
    `CUTAWAY_BROWSER=none`), it still writes the file.

        cutaway.show(trace)
        cutaway.show(before, after, path="both.html")

    Args:
        items: what to show, one view each.
        path: where to write the file, with the details of all ops. By default the file goes to a temporary folder, and
            in a notebook there is none.
    """
    if not items:
        raise InputError("show() got nothing to show. Pass a Trace, a Diff, a Ranking, a Page or a GraphView.")
    ready = [as_showable(_check(item)) for item in items]
    kernel, in_marimo = _kernel(), _is_marimo()
    file = None if path is None else write(path, html(ready))
    if path is None and kernel is None and not in_marimo:
        file = write(_temporary(ready), html(ready, seconds=_PATIENCE))
    shown = Shown(ready, file)
    if kernel is not None:
        shown._display(kernel)
    elif not in_marimo:  # marimo displays the last value of a cell itself
        shown._open()
    return shown


def _check(item: object) -> object:
    """Refuse what needs one more call first, and say which."""
    if isinstance(item, (str, PathLike)):
        raise InputTypeError(
            f"show() got the path {str(item)!r}. Load it first: cutaway.show(cutaway.load({str(item)!r})). "
            f"For a run, use the viewer: `cutaway view {item}`."
        )
    if isinstance(item, (Run, Runs)):
        path = item.path if isinstance(item, Run) else "FOLDER"
        raise InputTypeError(f"show() cannot show a recorded run. Use the viewer: `cutaway view {path}`.")
    return item


class Shown:
    """Handle of a displayed view; displays itself again as the last value of a cell.

    Attributes:
        path: the HTML file; None in a notebook unless you gave a path.
    """

    def __init__(self, shown: Sequence[ShowableGraph | ShowablePage], path: Path | None) -> None:
        self.path = path
        self._shown, self._titles = tuple(shown), [each.view.title for each in shown]
        self._picture: Picture | None = None
        self._cell: int | None = None

    def close(self) -> None:
        """Release the displayed objects; until then a notebook keeps them alive to answer clicks."""
        self._shown = ()
        if self._picture is not None:
            self._picture.close()

    @property
    def widget(self) -> Picture | None:
        """The anywidget in a notebook; None if anywidget is not installed."""
        if self._picture is None and self._shown:
            try:
                from cutaway.server.widget import Picture
            except ModuleNotFoundError as error:
                if error.name not in ("anywidget", "traitlets", "ipywidgets"):
                    raise
                return None
            self._picture = Picture(self._shown)
        return self._picture

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, plus a static image for GitHub, exports and closed kernels."""
        data: dict[str, Any] = {"text/plain": repr(self)}
        metadata: dict[str, Any] = {}
        if _kernel() is None:  # IPython in a terminal
            return data, metadata
        widget = self.widget
        if widget is not None:
            data, metadata = widget._repr_mimebundle_(**kwargs) or (data, metadata)
            data = {**data, "text/plain": repr(self)}
        data["text/html"] = "\n".join(static_html(each.view) for each in self._shown)
        if widget is None:
            data["text/html"] += f'<p style="opacity: 0.7">{_HINT}</p>'
        return data, metadata

    def _ipython_display_(self) -> None:
        # `show` has displayed it already; without this, the notebook would display it twice as the last line of a cell.
        kernel = _kernel()
        if kernel is None or self._cell != kernel.execution_count:
            raise NotImplementedError("fall back to the mimebundle")
        self._cell = None

    def _display_(self) -> object:
        """Called by marimo."""
        return self.widget

    def _display(self, kernel: Any) -> None:
        data, metadata = self._repr_mimebundle_()
        kernel.display_pub.publish(data=data, metadata=metadata)
        self._cell = kernel.execution_count

    def _open(self) -> None:
        """Open the file in a browser; failure to open only logs a warning."""
        if self.path is None:
            return
        if not open_in_browser(self.path.absolute().as_uri()):
            _LOG.warning("no browser opened; the view is in %s", self.path)

    def __repr__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        return f"<Shown {', '.join(self._titles)}{where}>"


def _temporary(shown: Sequence[ShowableGraph | ShowablePage]) -> Path:
    words = "-".join(each.view.title for each in shown)
    name = re.sub(r"[^\w.-]+", "-", words).strip("-.")[:60] or "picture"
    # Never deleted here: the browser may read the file after the program has ended.
    return Path(tempfile.mkdtemp(prefix="cutaway-")) / f"{name}.html"


def _kernel() -> Any:
    """The IPython shell of a notebook; None outside notebooks, including IPython in a terminal."""
    # Not imported: a program outside a notebook should not load IPython.
    if "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


def _is_marimo() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())
