"""The interactive view as an anywidget (JupyterLab, VS Code, Colab, marimo)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from cutaway.server import bundle
from cutaway.server.view_json import to_compressed_json, to_json
from cutaway.views.graph.op_details import OpDetails
from cutaway.views.showable import ShowableGraph, ShowablePage

_LOG = logging.getLogger("cutaway")


class Picture(anywidget.AnyWidget):
    """Draws views in the notebook; asks the kernel for the details of an op when you click it."""

    _esm = traitlets.Unicode().tag(sync=True)
    views = traitlets.Bytes().tag(sync=True)

    def __init__(self, shown: Sequence[ShowableGraph | ShowablePage]) -> None:
        self._shown = tuple(shown)
        super().__init__(_esm=bundle.script(), views=to_compressed_json([each.view for each in shown]))
        self.on_msg(self._answer)

    def _answer(self, _: object, question: Any, __: object) -> None:
        """Answer `{id, view, row}` with `{id, detail}`; the detail is null if it is not available, never an error."""
        if not isinstance(question, dict) or not {"id", "view", "row"} <= question.keys():
            return
        self.send(
            {"id": question["id"], "detail": json.loads(to_json(self._detail(question["view"], question["row"])))}
        )

    def _detail(self, view: Any, row: Any) -> OpDetails | None:
        if not isinstance(view, int) or not isinstance(row, int) or not 0 <= view < len(self._shown):
            return None
        try:
            return self._shown[view].detail(row)
        except Exception as error:  # a value that is no longer readable must not print a traceback in the notebook
            _LOG.warning("cannot read the details of op %d: %s", row, error)
            return None

    def close(self) -> None:
        """Release the displayed objects; the view stays on screen but no longer answers clicks."""
        self._shown = ()
        super().close()
