from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from catalogue.sources_of import Files, package


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """A made-up package in the place of canishard."""
    files = package(tmp_path, monkeypatch)
    yield files
    files.write()
