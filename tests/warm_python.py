"""Python processes that start with torch already imported, for tests of programs that end, fork or are killed.

Starting Python and importing torch takes 2 to 5 seconds of CPU time; a fork of a process that has done so takes a
few milliseconds. `run` and `start` take what `subprocess.run` and `subprocess.Popen` take, and fork the program from
one server for each test process. The program has its own arguments, environment, folder, pipes and end; it differs
from a fresh process in what is already imported, so tests of imports need a fresh one. Its hash salt is that of the
server, which is never the salt of the tests.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import types
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, Any

from tests import ROOT

IMPORTS = (
    *("torch", "torch._dynamo", "torch.nn.parallel.distributed"),
    *("cutaway.recording.recorder", "cutaway.store.runs.run"),
)
"""What a training needs; torch imports the second when an optimizer is made, which takes a second."""
MOST = 1 << 20
"""Bytes of one request."""


class Program:
    """A running program, with the attributes and methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, server: Server, stdin: IO[str], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._server = server

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = 120) -> int:
        if self.returncode is None:
            self.returncode = self._server.wait(self.pid, timeout)
        return self.returncode

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        """Close its input, and return what it wrote to stdout and stderr."""
        errors: list[str] = []
        reader = Thread(target=lambda: errors.append(self.stderr.read()))
        with self.stdin, self.stdout, self.stderr:
            self.stdin.close()
            reader.start()
            output = self.stdout.read()
            reader.join()
        self.wait(timeout)
        return output, errors[0]

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        with self.stdin, self.stdout, self.stderr:
            self.wait()


class Server:
    """The process that forks programs, as its client sees it."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        command = [sys.executable, "-m", "tests.warm_python", str(there.fileno())]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        salt = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONHASHSEED": salt}
        # In a session of its own: Ctrl-C in a terminal is for the tests, and the end of the socket for the server.
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[there.fileno()], start_new_session=True
        )
        there.close()
        self._socket = here
        self._unread = b""
        self._ended: dict[int, int] = {}

    def start(self, request: dict[str, Any], pipes: list[int]) -> int:
        """Fork a program whose stdin, stdout and stderr are these pipes. Its process id."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], pipes)
        while (message := self._message(120)) and "ended" in message:
            self._ended[message["ended"]] = message["status"]
        return int(message["pid"])

    def wait(self, pid: int, timeout: float) -> int:
        """Wait for the end of a program. Its exit status, negative for a signal."""
        until = monotonic() + timeout
        while pid not in self._ended:
            message = self._message(until - monotonic())
            self._ended[message["ended"]] = message["status"]
        return self._ended.pop(pid)

    def _message(self, timeout: float) -> dict[str, int]:
        while b"\n" not in self._unread:
            if not select.select([self._socket], [], [], max(timeout, 0))[0]:
                raise TimeoutError("the program has not ended in time")
            received = self._socket.recv(4096)
            assert received, "the server of warm Python processes has ended"
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, int] = json.loads(line)
        return message

    def close(self) -> None:
        self._socket.close()
        self._process.wait(60)


@cache
def server() -> Server:
    """The server of this process."""
    made = Server()
    atexit.register(made.close)
    return made


def start(
    command: list[str],
    *,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
    imports: tuple[str, ...] = (),
    skips_teardown: bool = False,
) -> Program:
    """Start a program: the arguments of Python, as in `["-c", "print(1)"]`.

    Args:
        command: A script, `-c` and code, or `-m` and a module, followed by its arguments.
        cwd: Its folder.
        env: Its environment.
        imports: Modules that the server imports before it forks, and keeps for later programs.
        skips_teardown: Ends after the functions of `atexit`. Tearing down all modules takes 0.3 s; tests of how a
            program ends need that.
    """
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    theirs = [inputs[0], outputs[1], errors[1]]
    environment = dict(os.environ if env is None else env)
    request = {"command": command, "cwd": os.fspath(cwd or os.getcwd()), "env": environment, "imports": imports}
    request["skips_teardown"] = skips_teardown
    pid = server().start(request, theirs)
    for pipe in theirs:
        os.close(pipe)
    return Program(pid, server(), os.fdopen(inputs[1], "w"), os.fdopen(outputs[0]), os.fdopen(errors[0]))


def run(
    command: list[str],
    *,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
    imports: tuple[str, ...] = (),
    skips_teardown: bool = False,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; see `start`. With `check`, a failure raises `CalledProcessError`."""
    program = start(command, cwd=cwd, env=env, imports=imports, skips_teardown=skips_teardown)
    output, errors = program.communicate()
    done = subprocess.CompletedProcess(command, program.wait(), output, errors)
    if check and done.returncode:
        print(errors, file=sys.stderr)
        done.check_returncode()
    return done


# the server


@dataclass(frozen=True, slots=True)
class Request:
    """What a forked process becomes."""

    command: list[str]
    cwd: str
    env: dict[str, str]
    imports: list[str]
    skips_teardown: bool


def serve(control: socket.socket) -> tuple[Request, list[int]] | None:
    """Fork programs until the client has gone. Returns a request in each fork, and nothing in the server."""
    waker, wakened = socket.socketpair()
    wakened.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakened.fileno())
    while True:
        readable, _, _ = select.select([control, waker], [], [])
        if waker in readable:
            waker.recv(1024)
            report_ended(control)
        if control in readable:
            data, pipes, _, _ = socket.recv_fds(control, MOST, 3)
            if not data:
                return None
            request = Request(**json.loads(data))
            for name in request.imports:
                import_module(name)
            gc.freeze()
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for each in (control, waker, wakened):
                    each.close()
                return request, pipes
            for pipe in pipes:
                os.close(pipe)
            send(control, {"pid": pid})


def report_ended(control: socket.socket) -> None:
    """Tell the client which programs have ended, and how."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        send(control, {"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def send(control: socket.socket, message: dict[str, int]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def become_and_end(request: Request, pipes: list[int]) -> None:
    """The same, up to the point where Python would tear down its modules."""
    status = 0
    try:
        become(request, pipes)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else end.code is not None
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def become(request: Request, pipes: list[int]) -> None:
    """Run a program in this process, as `python` does with these arguments."""
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    first, *rest = request.command
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if first == "-c":
        code, *rest = rest
        sys.argv, sys.path[0] = ["-c", *rest], ""
        exec(compile(code, "<string>", "exec"), main.__dict__)
    elif first == "-m":
        name, *rest = rest
        sys.argv, sys.path[0] = [name, *rest], request.cwd
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [first, *rest], str(Path(first).resolve().parent)
        source = Path(first).read_text(encoding="utf-8")
        main.__file__ = first
        exec(compile(source, first, "exec"), main.__dict__)


if __name__ == "__main__":
    for module in IMPORTS:
        import_module(module)
    # Collectors of forked processes leave these objects alone; touching them would copy their pages (0.6 s a program).
    gc.freeze()
    forked = serve(socket.socket(fileno=int(sys.argv[1])))
    if forked is not None:
        (become_and_end if forked[0].skips_teardown else become)(*forked)
