"""Chooses the folder of a run: the path itself or, if it is taken, a numbered one that all ranks of a job agree on.

Rank 0 claims the folder. The other ranks learn its name from the store of the process group, which needs no collective
and therefore cannot hang a program in which only rank 0 records; or from the id of the job, which rank 0 writes into
`cutaway.json`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Literal

import torch

from cutaway.core.errors import ExistsError, InputError
from cutaway.core.formatting import hint, plural
from cutaway.store.writing.folders import claim_free_folder, find_folder_of_job

Resume = bool | Literal["never"]

_PATIENCE = 300.0
"""Seconds that a rank waits for rank 0 to claim a folder: it may load data before it begins to record."""
_QUIET = 10.0
"""Seconds until a rank says that it waits."""
_POLL = 0.05

_n_claims: Counter[str] = Counter()
"""How often this process has claimed a folder for a path: a job may record several runs under one name."""


def check_resume(resume: object) -> Resume:
    """The option `resume=` of `record`."""
    if resume is True or resume is False or resume == "never":
        return resume  # type: ignore[return-value]
    raise InputError(
        f"resume={resume!r} is not valid: pass False (a taken path gets a number), True (continue the run at the path) "
        f"or 'never' (a taken path is an error).{hint(resume, ['never'])}"
    )


def claim_run_folder(path: str, rank: int, world_size: int) -> str:
    """Claim a new folder for a run: `path`, or the first free of `path-2`, `path-3`, …

    Args:
        path: the folder that the program asked for.
        rank: the rank of this process.
        world_size: how many processes the job has.
    """
    _n_claims[path] += 1
    number = _n_claims[path]
    if world_size < 2:
        return _claim(path)
    if (store := _process_group_store()) is not None:
        return _agree_by_store(store, f"cutaway/run/{number}/{path}", path, rank)
    job = _job_id()
    if rank == 0:
        return _claim(path, job=f"{job}/{number}" if job else "")
    if not job:
        raise InputError(
            f"rank {rank} of {world_size} cannot know which folder rank 0 records to, because {path} may be taken. "
            "Call torch.distributed.init_process_group() before cutaway.record, start the job with torchrun "
            "--rdzv-id=NAME, or set the environment variable CUTAWAY_RUN_ID to the same new text on every rank. With "
            "resume='never' or resume=True, every rank uses exactly its path."
        )
    return _wait(lambda: find_folder_of_job(path, f"{job}/{number}", rank), path, rank)


def _claim(path: str, *, job: str = "") -> str:
    claimed = claim_free_folder(path, "run", job=job)
    if claimed != path:
        # Printed, not warned: this is what was asked for, and the name is needed to find the run.
        print(f"cutaway: {path} is taken, recording to {claimed}", flush=True)
    return claimed


def _agree_by_store(store: Any, key: str, path: str, rank: int) -> str:
    if rank == 0:
        try:
            claimed = _claim(path)
        except BaseException as error:
            store.set(key, f"!{error}")  # the others would wait in vain
            raise
        store.set(key, f"={claimed}")
        return claimed

    def ask() -> str | None:
        return store.get(key).decode() if store.check([key]) else None

    answer = _wait(ask, path, rank)
    if answer[0] == "!":
        raise ExistsError(f"rank 0 could not begin the run: {answer[1:]}")
    return answer[1:]


def _wait(ask: Callable[[], str | None], path: str, rank: int) -> str:
    began, is_told = monotonic(), False
    while (answer := ask()) is None:
        waited = monotonic() - began
        if waited > _PATIENCE:
            raise InputError(
                f"rank {rank} waited {plural(round(_PATIENCE), 'second')} for rank 0 to record to {path!r}, and it did "
                "not. Call cutaway.record with the same path on rank 0, too; or pass resume='never', with which every "
                "rank uses exactly its path."
            )
        if waited > _QUIET and not is_told:
            is_told = True
            print(f"cutaway: rank {rank} waits for rank 0 to record to {path}", file=sys.stderr, flush=True)
        sleep(_POLL)
    return answer


def _process_group_store() -> Any:
    """The key-value store of the default process group; None if there is none."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    try:
        return distributed.distributed_c10d._get_default_store()
    except Exception:  # private in torch 2.13, and a group of another library may have none
        return None


def _job_id() -> str:
    """An id that the ranks of this job share and other jobs lack; "" if there is none."""
    if own := os.environ.get("CUTAWAY_RUN_ID", ""):
        return own
    id_ = os.environ.get("TORCHELASTIC_RUN_ID", "")
    # torchrun without --rdzv-id or --standalone calls every job "none". A restart keeps the id and counts.
    return f"{id_}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}" if id_ not in ("", "none") else ""
