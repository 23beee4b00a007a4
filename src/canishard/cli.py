"""The command line: ``canishard run`` and ``report`` here, the others in ``commands``; all thin ways into modules.

What is the user's to mend becomes one line on stderr and the exit code of its class.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from canishard import __version__, commands, record
from canishard.answers import suite
from canishard.errors import CanishardError
from canishard.facts import steadiness
from canishard.report import Nightly

PROGRAM = "canishard"

HANDED_ON = frozenset({"run", "doctor"})
"""The commands that hand on to pytest what they do not know."""


PIPE_CLOSED = 141
"""What a shell makes of a program that the closed pipe's signal ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    options, rest = _parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # Not every terminal can write what torch says.
    try:
        code: int = options.handler(options, rest)
        sys.stdout.flush()
    except CanishardError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader has what it wanted. Python flushes once more at its end, which must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Measured compatibility of torch.distributed.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    runs = subparsers.add_parser(
        "run",
        help="run the checks on the torch that is installed here",
        description="Run the checks on the torch that is installed here.",
        epilog="Every other option is handed to pytest: -k, --case, --world-size, --checks, --record, -x, -n ...",
        allow_abbrev=False,
    )
    runs.set_defaults(handler=run)
    runs.add_argument("--backend", default="gloo", help="as init_process_group takes it (default: gloo)")
    runs.add_argument("--device", default="cpu", help="device type of the tensors (default: cpu)")
    runs.add_argument(
        "--json", metavar="FILE", help="write the record here; - is stdout, which then holds nothing else"
    )
    commands.add(subparsers)
    words = "write reports/ and the site, reports/site, from matrix/results/ and matrix/*.toml"
    reports = subparsers.add_parser("report", help=words)
    reports.set_defaults(handler=report)
    reports.add_argument(
        "--check", action="store_true", help="write nothing; fail where a committed file is stale"
    )
    reports.add_argument(
        "--nightly",
        type=Path,
        metavar="DIR",
        help="add to the site the columns of the nightly states below this folder",
    )
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command not in HANDED_ON:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options, rest


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    """Run the checks under pytest, and write the record as JSON where that is asked for."""
    chosen = ["--backend", options.backend, "--device", options.device, *rest]
    if options.json is None:
        return suite.run(chosen)
    with tempfile.TemporaryDirectory(prefix="canishard-run-") as folder:
        path = Path(folder) / "record.json"
        with _stdout_kept_clean():
            code = suite.run([*chosen, f"--record={path}"])
        content = path.read_bytes() if path.exists() else b""
    if options.json == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif content:
        commands.write(Path(options.json), content, "--json")
    return code


def report(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    """Write the generated files, or only compare them."""
    from canishard import files  # noqa: PLC0415 - `run` needs none of it
    from canishard import report as generated  # noqa: PLC0415 - `run` needs none of it

    root = files.checkout()
    if options.check:
        generated.check(root)
        return 0
    for path in generated.write(root):
        print(f"written: {path}")
    columns = _nightly(options.nightly) if options.nightly else []
    steady = steadiness.load(options.nightly / "flakes.json") if options.nightly else None
    written = generated.write_site(root, columns, steady)
    page = (root / generated.SITE / "index.html").as_uri()
    print(f"the site, {len(written)} files written: open {page}")
    return 0


def _nightly(folder: Path) -> list[Nightly]:
    """Return the columns of the nightly states below a folder; a first night leaves none yet."""
    from canishard.nightly import night, state  # noqa: PLC0415 - `run` needs none of it

    lanes = sorted(path.parent for path in folder.glob(f"*/{state.FILE}"))
    return [
        Nightly(record=found, stale=state.load(lane).stale_since)
        for lane in lanes
        for found in record.load_all(lane / night.CONFIRMED)
    ]


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Send what is printed meanwhile to stderr, at the descriptor: pytest's own output, and that of C++."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
