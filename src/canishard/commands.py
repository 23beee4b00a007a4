"""The commands that answer from the data set: explain, diff, table, check and reproduce; and doctor, which measures.

A command's function takes the parsed options and what is left of the
command line, prints, and returns the exit code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from canishard import catalogue, files
from canishard.answers import needs, published
from canishard.answers.dataset import Dataset
from canishard.answers.needs import Holding
from canishard.errors import ChangedError, ConfigurationError
from canishard.facts import compare
from canishard.record import Record, merge
from canishard.report import formats, reproduce, terminal
from canishard.report.table import SYMBOLS, groups

Run = Callable[[argparse.Namespace, Sequence[str]], int]

BLOCKED = ChangedError.exit_code
"""What is asked of the table does not hold: the same code as where a measurement differs from it."""

_NEEDS = "ids, patterns with * and ?, families (fsdp2), subjects (fsdp2.train); commas between them"
_VERSION = "a release (2.8.0), a minor (2.8: its newest measured patch), or what torch.__version__ says"


def add(commands: Any) -> None:
    """Add the commands to a parser's; each leaves its function in ``handler``."""
    _add_explain(commands)
    _add_diff(commands)
    _add_table(commands)
    _add_check(commands)
    _add_reproduce(commands)
    _add_doctor(commands)
    _add_merge(commands)


def _command(commands: Any, name: str, words: str, handler: Run, **more: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=f"{words[0].upper()}{words[1:]}.", **more
    )
    parser.add_argument("--backend", default="gloo", help="as init_process_group takes it (default: gloo)")
    parser.add_argument("--device", default="cpu", help="device type of the tensors (default: cpu)")
    parser.set_defaults(handler=handler)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="a canishard.json to answer from (default: what canishard ships)",
    )


# ---- explain -------------------------------------------------------------------------------------


def _add_explain(commands: Any) -> None:
    words = "tell what a row does on a torch, since when, until when, and what mends it"
    parser = _command(commands, "explain", words, _explain)
    parser.add_argument("row", metavar="ROW", help="a row's id, such as 'fsdp2.gradients[reduce=default]'")
    parser.add_argument("--torch", required=True, metavar="VERSION", help=_VERSION)
    parser.add_argument("--world-size", type=int, metavar="N", help="number of ranks (default: all measured)")
    _add_data(parser)


def _explain(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    dataset = published.load(options.data)
    answer = published.answer(
        dataset,
        options.row,
        torch=options.torch,
        backend=options.backend,
        device=options.device,
        world_size=options.world_size,
    )
    _print(terminal.explain(dataset, answer))
    return 0


# ---- diff ----------------------------------------------------------------------------------------


def _add_diff(commands: Any) -> None:
    parser = _command(commands, "diff", "tell what changed from one release to another", _diff)
    parser.add_argument("old", metavar="OLD", help=_VERSION)
    parser.add_argument("new", metavar="NEW", help="likewise")
    parser.add_argument(
        "--family", action="append", default=[], help="only these rows; several times for several"
    )
    _add_data(parser)


def _diff(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    dataset = published.load(options.data)
    _require_families(dataset, options.family)
    old, new = _columns(dataset, [options.old, options.new], options)
    _print(
        terminal.diff(
            dataset, old, new, backend=options.backend, device=options.device, families=options.family
        )
    )
    return 0


def _columns(dataset: Dataset, versions: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Return the measured releases that versions stand for; ConfigurationError where one stands for none."""
    measured = published.measured_releases(dataset, options.backend, options.device)
    found = {version: published.release_of(published.version_of(version), measured) for version in versions}
    for version, release in found.items():
        if not release:
            where = f"{options.backend} on {options.device}"
            msg = (
                f"torch {version} was not measured with {where}; measured: {', '.join(measured) or 'nothing'}"
            )
            raise ConfigurationError(msg)
    return [found[version] for version in versions]


def _require_families(dataset: Dataset, families: Sequence[str]) -> None:
    known = list(dict.fromkeys(row.family for row in dataset.rows))
    for family in families:
        if family not in known:
            msg = f"--family {family}: no such family; {published.near(family, known)}allowed: {', '.join(known)}"
            raise ConfigurationError(msg)


# ---- table ---------------------------------------------------------------------------------------


def _add_table(commands: Any) -> None:
    parser = _command(commands, "table", "print the table, a column a release", _table)
    parser.add_argument(
        "--family", action="append", default=[], help="only these rows; several times for several"
    )
    parser.add_argument(
        "--torch", action="append", default=[], metavar="SPEC", help="only these releases, such as '>=2.8'"
    )
    parser.add_argument("--format", choices=formats.FORMATS, default="plain", help="(default: plain)")
    _add_data(parser)


def _table(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    dataset = published.load(options.data)
    _require_families(dataset, options.family)
    rows = [row.id for row in dataset.rows if not options.family or row.family in options.family]
    _print(
        formats.tables(_records(dataset, options), rows, options.format, symbols=_writes(SYMBOLS.values()))
    )
    return 0


def _records(dataset: Dataset, options: argparse.Namespace) -> list[Record]:
    """Return the records that the table shows; ConfigurationError where there is none."""
    places = [(record.environment.backend, record.environment.device) for record in dataset.records]
    own = [
        record
        for record, place in zip(dataset.records, places, strict=True)
        if place == (options.backend, options.device)
    ]
    if not own:
        known = ", ".join(f"{backend} on {device}" for backend, device in sorted(set(places)))
        msg = (
            f"nothing was measured with {options.backend} on {options.device}; measured: {known or 'nothing'}"
        )
        raise ConfigurationError(msg)
    if not options.torch:
        return own
    measured = published.measured_releases(dataset, options.backend, options.device)
    wanted = needs.select(
        dataset, options.torch, backend=options.backend, device=options.device, all_patches=True
    )
    # What a specifier matches and nobody measured has no column; a version that was asked for by itself must have.
    asked = [one for one in wanted if one in measured or one in options.torch]
    columns = _columns(dataset, asked, options)
    if not columns:
        msg = (
            f"--torch {' '.join(options.torch)}: none of these was measured; measured: {', '.join(measured)}"
        )
        raise ConfigurationError(msg)
    return [record for record in own if record.environment.channel in columns]


def _writes(texts: Iterable[str]) -> bool:
    """Tell whether stdout can write some characters."""
    try:
        "".join(texts).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# ---- check ---------------------------------------------------------------------------------------


def _add_check(commands: Any) -> None:
    words = "tell on which releases all that a project needs works, and what blocks the others"
    epilog = f"Exit code 0 where all of them hold, {BLOCKED} where one does not; unknown does not hold."
    parser = _command(commands, "check", words, _check, epilog=epilog)
    parser.add_argument("--needs", action="append", required=True, help=_NEEDS)
    parser.add_argument(
        "--torch",
        action="append",
        default=[],
        metavar="SPEC",
        help="such as '>=2.6', or a version (default: all)",
    )
    parser.add_argument("--world-size", type=int, metavar="N", help="number of ranks (default: all measured)")
    parser.add_argument("--all-patches", action="store_true", help="not only one patch of each minor")
    parser.add_argument(
        "--allow-unknown", action="store_true", help="what was not measured does not count as failing"
    )
    _add_data(parser)


def _check(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    dataset = published.load(options.data)
    rows = needs.resolve([need for text in options.needs for need in needs.split(text)], dataset)
    where = {"backend": options.backend, "device": options.device}
    releases = needs.select(dataset, options.torch, all_patches=options.all_patches, **where)
    findings = [
        needs.evaluate(dataset, rows, torch=release, world_size=options.world_size, **where)
        for release in releases
    ]
    _print(terminal.check(findings, rows))
    good = {Holding.HOLDS, Holding.UNKNOWN} if options.allow_unknown else {Holding.HOLDS}
    return 0 if all(finding.holding in good for finding in findings) else BLOCKED


# ---- reproduce -----------------------------------------------------------------------------------


def _add_reproduce(commands: Any) -> None:
    words = "print a row's check as one script that needs torch alone, with what was observed"
    parser = commands.add_parser("reproduce", help=words, description=f"{words[0].upper()}{words[1:]}.")
    parser.set_defaults(handler=_reproduce)
    parser.add_argument("row", metavar="ROW", help="a row's id; the script's --row runs another of its check")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it here, and say how to run it"
    )
    _add_data(parser)


def _reproduce(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    entries = catalogue.load()
    row, _ = catalogue.resolve(options.row, entries)
    if row not in entries:
        msg = f"{row}: no such row; {published.near(row, entries)}`canishard table` lists them"
        raise ConfigurationError(msg)
    entry = entries[row]
    seen = reproduce.observed(groups(published.load(options.data).records)).get(entry.id, [])
    text = reproduce.script(reproduce.rows_of(entry, entries), seen)
    if options.output is None:
        sys.stdout.write(text)
    else:
        write(options.output, text.encode(), "-o")
        _print(reproduce.command(entry, str(options.output)))
    return 0


def write(path: Path, content: bytes, option: str) -> None:
    """Write a file that an option names, all of it or nothing; ConfigurationError where that cannot be."""
    try:
        files.replace(path, content)
    except OSError as error:
        msg = f"{option} {path}: cannot be written: {error.strerror}"
        raise ConfigurationError(msg) from None


# ---- doctor --------------------------------------------------------------------------------------


def _add_doctor(commands: Any) -> None:
    words = "run the checks on the torch that is installed here, and tell where it differs from the table"
    epilog = "Every other option is handed to pytest: -k, --case, --world-size, -n, --help ..."
    _command(commands, "doctor", words, _doctor, epilog=epilog, allow_abbrev=False)


def _doctor(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from canishard.answers import doctor  # noqa: PLC0415 - it loads what runs checks

    return doctor.main(backend=options.backend, device=options.device, arguments=rest)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


# ---- merge ---------------------------------------------------------------------------------------


def _add_merge(commands: Any) -> None:
    words = "merge records that others measured, below a folder, into matrix/results/"
    parser = commands.add_parser("merge", help=words, description=f"{words[0].upper()}{words[1:]}.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where they lie, at any depth")
    parser.set_defaults(handler=_merge)


def _merge(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    for stored, merged in merge.adopt(options.folder, files.checkout() / "matrix" / "results"):
        found = compare.changes(stored, merged.record) if stored else []
        new = f"new, {len(merged.record.cells)} cells"
        what = f"{len(found)} cells changed" if stored else new
        lines = [f"{merged.record.name}: {what if merged.changed else 'the same'}"]
        _print("\n".join([*lines, *(f"  {change}" for change in found)]))
    return 0
