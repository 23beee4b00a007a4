"""The import rule of ARCHITECTURE.md: who may import torch, and that imports go one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import canishard

SOURCE = Path(canishard.__file__).parent


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


BESIDE_TORCH = {
    "check",
    "launch.inventory",
    *(name for name in modules() if name.startswith("checks.")),
}

LAYERS = [
    ["errors", "declare"],
    ["check"],
    ["checks"],
    ["files"],
    ["releases", "catalogue"],
    ["launch"],
    ["record"],
    ["facts"],
    ["answers"],
    ["report", "session", "walk"],
    ["nightly"],
    ["commands", "pytest_plugin"],
    ["cli"],
    ["__main__"],
]
"""Files and folders of the package, each list above the one that it may import."""


def imported(path: Path) -> set[str]:
    """Return what of canishard a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.removeprefix("canishard.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = f"{node.module}.".removeprefix("canishard.")
            names = {f"{module}{alias.name}" for alias in node.names}
            found.update(names & modules().keys() or {module.rstrip(".")})
    return found & modules().keys()


def layer(name: str) -> int:
    top = name.partition(".")[0]
    return next((number for number, names in enumerate(LAYERS) if top in names), -1)


def test_every_file_and_folder_has_a_layer() -> None:
    tops = {name.partition(".")[0] for name in modules()}
    assert sorted(tops) == sorted(name for names in LAYERS for name in names)


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_go_one_way(name: str) -> None:
    top = name.partition(".")[0]
    others = {other for other in imported(modules()[name]) if other.partition(".")[0] != top}
    assert {other for other in others if layer(other) >= layer(name)} == set()


CHECKS = sorted(name for name in modules() if name.startswith("checks."))


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_imports_torch_the_standard_library_and_what_checks_share(name: str) -> None:
    declaring = {other for other in CHECKS if "@check(" in modules()[other].read_text()}
    nodes = list(ast.walk(ast.parse(modules()[name].read_text())))
    roots = {
        alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    roots |= {(node.module or "").partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}

    assert roots <= {"torch", "canishard", "safetensors", *sys.stdlib_module_names}
    assert imported(modules()[name]) <= ({"check", *CHECKS} - declaring)


def test_a_check_stands_in_the_folder_of_its_family_in_a_file_of_its_topic() -> None:
    for name in CHECKS:
        text = modules()[name].read_text()
        assert len(text.splitlines()) <= 300, name
        assert "@check(" not in text or name.count(".") == 2, name


def test_nothing_else_imports_torch_at_all() -> None:
    block = "import sys; sys.modules['torch'] = None; import importlib\n"
    names = [f"canishard.{name}" for name in modules() if name not in BESIDE_TORCH | {"__main__"}]
    code = block + f"for name in {names}: importlib.import_module(name)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_what_all_checks_share_stays_small() -> None:
    assert all(len(modules()[name].read_text().splitlines()) <= 310 for name in ("check", "declare"))
