"""A project's own functions on ranks, from any test or script.

The parent's side, and ``call``, which the ranks run; neither imports torch.
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from canishard.catalogue import ids
from canishard.errors import ConfigurationError, InfraError
from canishard.launch import processes, refusals
from canishard.launch.channel import MAX_TEXT
from canishard.launch.client import ServerLost
from canishard.launch.launcher import START_METHODS, Launcher
from canishard.launch.outcome import Case, Outcome, Status
from canishard.launch.server import MAX_FDS
from canishard.launch.watch import Where

Value = str | int | float | bool
Function = Callable[..., None]

# ---- functions on ranks --------------------------------------------------------------------------


class Ranks:
    """Runs functions on ranks; keeps a server with torch loaded from the first of them until it is closed.

    A context manager; one for a whole test session is a fixture of four lines. It may be used by several threads,
    whose functions then run one after the other.
    """

    def __init__(
        self,
        *,
        backend: str = "gloo",
        device: str = "cpu",
        backend_module: str = "",
        start_method: str = "auto",
    ) -> None:
        if start_method not in START_METHODS:
            msg = f"start_method={start_method!r}: allowed: {', '.join(START_METHODS)}"
            raise ConfigurationError(msg)
        self.where = Where(backend, device, backend_module)
        self.start_method = start_method
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None

    def __enter__(self) -> Ranks:  # noqa: PYI034 - typing.Self is 3.11's
        """Return it; the server starts with the first function."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server and everything below it."""
        self.close()

    def close(self) -> None:
        """End the server and everything below it; another function would start another one."""
        with self._lock:
            if self._launcher:
                self._launcher.close()
                self._launcher = None

    def run(
        self,
        function: Function,
        *,
        world_size: int = 2,
        deadline_s: float = 30.0,
        params: Mapping[str, Value] | None = None,
        confirm: bool = False,
        check: bool = False,
    ) -> Outcome:
        """Run ``function(context, **params)`` on every rank; see ``run_on_ranks``."""
        __tracebackhide__ = True  # pytest then shows the caller's line.
        case = _case(function, world_size, deadline_s, params or {})
        with self._lock:
            outcome = self._started().run(case, confirm=confirm)
        if check and outcome.status is not Status.PASS:
            raise RanksFailed(outcome)
        return outcome

    def _started(self) -> Launcher:
        if self._launcher is None:
            rules = refusals.load().rules
            launcher = Launcher(self.where, rules, start_method=self.start_method, modules=[__name__])
            try:
                self._launcher = launcher.__enter__()
            except ServerLost as error:
                raise InfraError(str(error)) from None
        return self._launcher


def run_on_ranks(
    function: Function,
    *,
    world_size: int = 2,
    backend: str = "gloo",
    device: str = "cpu",
    backend_module: str = "",
    start_method: str = "auto",
    deadline_s: float = 30.0,
    params: Mapping[str, Value] | None = None,
    confirm: bool = False,
    check: bool = False,
) -> Outcome:
    """Run ``function(context, **params)`` on every rank of a process group, in fresh processes; say what came of it.

    The function stands at the top level of a module or of a test's file, which the ranks import. It passes when no
    rank raises and nothing that it compared (``context.equal``) differs. After the deadline, counted from when all
    ranks have started, the ranks' stacks are in the outcome and no process is left. With ``check`` an outcome that is
    no pass raises RanksFailed, whose text is what every rank said and where it was. ``confirm`` repeats what did not
    pass, as a run of checks does, and tells what is flaky.

    The server that starts the ranks is kept for the next call and ends with this process; ``Ranks`` gives it another
    life. Raises ConfigurationError for a function that ranks cannot import, InfraError where torch cannot be.
    """
    __tracebackhide__ = True
    ranks = _shared(backend=backend, device=device, backend_module=backend_module, start_method=start_method)
    return ranks.run(
        function,
        world_size=world_size,
        deadline_s=deadline_s,
        params=params,
        confirm=confirm,
        check=check,
    )


_SHARED: dict[tuple[int, tuple[tuple[str, str], ...]], Ranks] = {}
"""By process, since a forked one must not use, nor end, its parent's server; then by what was asked for."""


def _shared(**asked: str) -> Ranks:
    if not _SHARED:
        atexit.register(_close_shared)
    return _SHARED.setdefault((os.getpid(), tuple(asked.items())), Ranks(**asked))


def _close_shared() -> None:
    for (pid, _), ranks in _SHARED.items():
        if pid == os.getpid():
            ranks.close()


# ---- what came of it -----------------------------------------------------------------------------


class RanksFailed(AssertionError):
    """A function that did not pass on all ranks; its text holds the evidence, ``outcome`` all of it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.id} on {outcome.world_size} ranks: {explain(outcome)}")
        self.outcome = outcome


def explain(outcome: Outcome) -> str:
    """Return an outcome and its evidence as lines for a terminal."""
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.kind}: {outcome.message}"
    tried = ", ".join(f"{attempt.start_method}: {attempt.kind}" for attempt in outcome.attempts)
    yield f"attempts: {tried or 'none'}"
    for rank in outcome.attempts[0].ranks if outcome.attempts else []:
        yield f"rank {rank.rank}: phase {rank.phase}{f', {rank.exit}' if rank.exit else ''}"
        for mismatch in rank.mismatches:
            yield f"  {mismatch['label']}: got {mismatch['got']}, wanted {mismatch['wanted']}"
        for text in (rank.traceback, rank.stacks, rank.output):
            yield from (f"  {line}" for line in text.splitlines())


# ---- how ranks find a function -------------------------------------------------------------------


def _case(function: Function, world_size: Any, deadline_s: Any, params: Mapping[str, Any]) -> Case:
    name, folder, file = _found(function)
    _require_call(function, params)
    _require_sizes(world_size, deadline_s)
    asked = {
        "module": name,
        "folder": str(folder),
        "file": str(file),
        "function": function.__name__,
        "params": dict(params),
        "path": import_path(),
    }
    family = name.rpartition(".")[2]
    return Case(
        id=ids.build(family, function.__name__, params),
        world_size=world_size,
        digest="",
        family=family,
        feature="",
        title=inspect.getdoc(function) or "",
        module=__name__,
        function=call.__name__,
        params={"asked": _told(function, asked)},
        stages=[("run", world_size, True)],
        deadline_s=deadline_s,
    )


def _told(function: Function, asked: Mapping[str, Any]) -> str:
    """Return what ranks are told, as JSON: one text, since a message cuts texts that are too long."""
    text = json.dumps(asked)
    if len(text) > MAX_TEXT:
        msg = f"{function.__name__}: params are too long for a message ({MAX_TEXT} characters); write them to a file"
        raise ConfigurationError(msg)
    return text


def _require_sizes(world_size: Any, deadline_s: Any) -> None:
    """Raise ConfigurationError unless these are a number of ranks, and seconds."""
    right = isinstance(world_size, int) and 0 < world_size <= MAX_FDS
    _require("world_size", world_size, right, f"a number of ranks, at most {MAX_FDS}")
    _require("deadline_s", deadline_s, isinstance(deadline_s, int | float) and deadline_s > 0, "seconds")


def _require_call(function: Function, params: Mapping[str, Any]) -> None:
    """Raise ConfigurationError unless the function takes a context and these parameters."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        msg = f"{function.__name__}: calling it runs nothing: it must be a plain function, neither async nor a generator"
        raise ConfigurationError(msg)
    try:
        inspect.signature(function).bind(None, **params)
    except TypeError as error:
        msg = f"{function.__name__}: is called as {function.__name__}(context, **params): {error}"
        raise ConfigurationError(msg) from None
    for key, value in params.items():
        right = isinstance(value, str | int | float | bool)
        _require(f"params[{key!r}]", value, right, "a text, number or boolean")


def _require(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        msg = f"{name}={value!r}: expected {expected}"
        raise ConfigurationError(msg)


def _found(function: Function) -> tuple[str, Path, Path]:
    """Return the name of a function's module, the folder that it is imported from, and its file."""
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.isfunction(function) or "." in name or function.__name__ == "<lambda>":
        msg = f"{name}: ranks import the function by its name: it must be a plain function at the top level of a file"
        raise ConfigurationError(msg)
    if processes.MARKER in os.environ:
        msg = f"{name}: a rank starts no ranks; in a script, call it below `if __name__ == '__main__':`"
        raise ConfigurationError(msg)
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if not file or not Path(file).is_file():
        msg = f"{name}: ranks import the function from its file, and module {function.__module__} has none"
        raise ConfigurationError(msg)
    path = Path(file).resolve()
    return *place(path), path


def place(file: Path) -> tuple[str, Path]:
    """Return what a source file is called when it is imported, and the folder above its packages."""
    parts, folder = [file.stem] if file.stem != "__init__" else [], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    odd = [part for part in parts if not part.isidentifier()]
    if odd:
        msg = f"{file}: {odd[0]} is no name by which Python imports; give it another name"
        raise ConfigurationError(msg)
    return ".".join(parts), folder


def import_path() -> list[str]:
    """Return the folders that this process imports from."""
    return list(dict.fromkeys(str(Path(entry).resolve()) for entry in sys.path))


def call(context: Any, asked: str) -> None:
    """Run a project's own function on a rank: import its file as the parent said, and call it."""
    own = json.loads(asked)
    # First, so that the function's own file is found; by now torch is loaded, so that nothing stands in for it.
    if own["folder"] not in sys.path:
        sys.path.insert(0, own["folder"])
    sys.path += [folder for folder in own["path"] if folder not in sys.path]
    module = importlib.import_module(own["module"])
    found = str(getattr(module, "__file__", ""))
    if Path(found).resolve() != Path(own["file"]):
        msg = f"the name {own['module']} stands for {found or 'another module'} on a rank; give {own['file']} another name"
        raise ImportError(msg)
    getattr(module, own["function"])(context, **own["params"])
    context.compared = context.compared or 1  # A function may as well assert.
