"""Where our data files are, how they are read strictly (TOML: all faults in one error; JSON) and written whole."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from canishard.errors import ConfigurationError, RecordError

if sys.version_info >= (3, 11):
    import tomllib
else:  # The standard library reads TOML from Python 3.11 on.
    import tomli as tomllib

_Entry = TypeVar("_Entry", bound=msgspec.Struct)
_Decoded = TypeVar("_Decoded", bound=msgspec.Struct)
PACKAGE = Path(__file__).resolve().parent


def matrix_dir(package: Path = PACKAGE) -> Path:
    """Return the folder of the data files: the package's own copy, else the checkout's ``matrix``."""
    for folder in (package / "_matrix", package.parent.parent / "matrix"):
        if folder.is_dir():
            return folder
    msg = (
        "canishard's data files are missing: neither canishard/_matrix nor a checkout's matrix folder exists"
    )
    raise ConfigurationError(msg)


def checkout() -> Path:
    """Return the checkout that the package runs from; ConfigurationError where it is an installed one."""
    folder = matrix_dir()
    if folder.name != "matrix":
        msg = "this writes into a checkout of canishard, and the package that runs is an installed one"
        raise ConfigurationError(msg)
    return folder.parent


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's tables; ConfigurationError with its name where it cannot be read or parsed."""
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        msg = f"{path.name}: not UTF-8"
    except tomllib.TOMLDecodeError as error:
        msg = f"{path.name}: not TOML: {error}"
    else:
        return tables
    raise ConfigurationError(msg)


def unknown_keys(raw: Mapping[str, Any], allowed: Iterable[str], where: str = "") -> list[str]:
    """Return a fault for every key that is not allowed, with what is; ``where`` is the path to the table."""
    allowed = sorted(allowed)
    faults = []
    for key in sorted(set(raw) - set(allowed)):
        near = difflib.get_close_matches(key, allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        faults.append(f"{where}{key}: unknown key; {hint}allowed: {', '.join(allowed)}")
    return faults


def entries(raw: Mapping[str, Any], name: str, kind: type[_Entry], faults: list[str]) -> dict[str, _Entry]:
    """Return the good entries of an array of tables by the path to each, such as ``name[0]``.

    Every fault is added to ``faults``, with the path to it and what is allowed.
    """
    rows = raw.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        faults.append(f"{name}: expected an array of tables, [[{name}]]")
        return {}
    found = {
        f"{name}[{index}]": _entry(row, kind, f"{name}[{index}]", faults) for index, row in enumerate(rows)
    }
    return {where: entry for where, entry in found.items() if entry is not None}


def raise_faults(path: Path, faults: list[str]) -> None:
    """Raise one ConfigurationError for all faults of a file; return where there is none."""
    if faults:
        msg = "; ".join(f"{path.name}: {fault}" for fault in faults)
        raise ConfigurationError(msg)


def pattern_faults(pattern: str, where: str) -> list[str]:
    """Return a fault where a regular expression is none."""
    try:
        re.compile(pattern)
    except re.error as error:
        return [f"{where}: not a regular expression: {error}"]
    return []


def _entry(row: dict[str, Any], kind: type[_Entry], where: str, faults: list[str]) -> _Entry | None:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    before = len(faults)
    faults.extend(unknown_keys(row, fields, f"{where}."))
    faults.extend(f"{where}.{name}: missing" for name in fields if fields[name].required and name not in row)
    present = [(name, field.type) for name, field in fields.items() if name in row]
    faults.extend(
        fault for name, wanted in present for fault in _type_faults(row[name], wanted, f"{where}.{name}")
    )
    return msgspec.convert(row, kind) if len(faults) == before else None


def _type_faults(value: Any, wanted: Any, where: str) -> list[str]:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        return [f"{where}{at.rstrip('`')}: {text[:1].lower()}{text[1:]}"]
    return []


class _SchemaOnly(msgspec.Struct):
    schema: int


def decode(
    content: bytes,
    kind: type[_Decoded],
    name: str,
    *,
    schema: int | None = None,
    newer: str = "",
    older: str = "",
) -> _Decoded:
    """Return what JSON that a program wrote says; RecordError in one line: its name, the path to the fault, the fault.

    With ``schema`` no other number of the format is read; ``newer`` and ``older`` say what is to be done then.
    """
    try:
        number = schema if schema is None else msgspec.json.decode(content, type=_SchemaOnly).schema
        if number == schema:
            return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        msg = f"{name}: {at.strip('`.') or 'top'}: {text[:1].lower()}{text[1:]}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{name}: not JSON, or cut off: {error}"
    else:
        hint = newer if number is not None and schema is not None and number > schema else older
        msg = f"{name}: schema: is {number}, this canishard reads {schema} only{hint and f'; {hint}'}"
    raise RecordError(msg)


def replace(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it and rename it: a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)  # mkstemp lets only the owner read.
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
