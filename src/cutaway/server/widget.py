"""The interactive picture in a notebook, as an anywidget: JupyterLab, VS Code, Colab and marimo take the same one."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from cutaway.server import bundle
from cutaway.server.view_json import packed, text
from cutaway.views.graph.op_details import Detail
from cutaway.views.showable import ShowableGraph, ShowablePage

_LOG = logging.getLogger("cutaway")


class Picture(anywidget.AnyWidget):
    """Views that are drawn in the notebook. What an op holds is asked of the kernel when it is clicked on."""

    _esm = traitlets.Unicode().tag(sync=True)
    views = traitlets.Bytes().tag(sync=True)

    def __init__(self, shown: Sequence[ShowableGraph | ShowablePage]) -> None:
        self._shown = tuple(shown)
        super().__init__(_esm=bundle.script(), views=packed([each.view for each in shown]))
        self.on_msg(self._answer)

    def _answer(self, _: object, question: Any, __: object) -> None:
        """Answer `{id, view, row}` with `{id, detail}`; what cannot be found is null, and never an error in a cell."""
        if not isinstance(question, dict) or not {"id", "view", "row"} <= question.keys():
            return
        self.send({"id": question["id"], "detail": json.loads(text(self._detail(question["view"], question["row"])))})

    def _detail(self, view: Any, row: Any) -> Detail | None:
        if not isinstance(view, int) or not isinstance(row, int) or not 0 <= view < len(self._shown):
            return None
        try:
            return self._shown[view].detail(row)
        except Exception as error:  # a value that cannot be read any more is no reason for a trace back in the notebook
            _LOG.warning("what op %d holds could not be read: %s", row, error)
            return None

    def close(self) -> None:
        """Let go of the things that are shown; the picture stays as it is, without answers."""
        self._shown = ()
        super().close()
