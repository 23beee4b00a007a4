"""Finding, reading and writing our data files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from canishard import files
from canishard.errors import ConfigurationError


class Entry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    sizes: list[int] = []


def read(path: Path, text: str) -> dict[str, Entry]:
    path.write_text(text, encoding="utf-8")
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["entry"])
    found = files.entries(raw, "entry", Entry, faults)
    files.raise_faults(path, faults)
    return found


def test_what_writes_needs_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (files.checkout() / "pyproject.toml").is_file()
    monkeypatch.setattr(files, "matrix_dir", lambda: tmp_path / "_matrix")
    with pytest.raises(ConfigurationError, match="installed one"):
        files.checkout()


def test_the_checkout_has_a_matrix_folder() -> None:
    assert files.matrix_dir().name in {"matrix", "_matrix"}


def test_the_packages_own_copy_comes_first(tmp_path: Path) -> None:
    package = tmp_path / "src" / "canishard"
    for folder in (package / "_matrix", tmp_path / "matrix"):
        folder.mkdir(parents=True)
    assert files.matrix_dir(package) == package / "_matrix"
    (package / "_matrix").rmdir()
    assert files.matrix_dir(package) == tmp_path / "matrix"
    (tmp_path / "matrix").rmdir()
    with pytest.raises(ConfigurationError, match=r"^canishard's data files are missing: neither "):
        files.matrix_dir(package)


def test_entries(tmp_path: Path) -> None:
    found = read(tmp_path / "x.toml", '[[entry]]\nname = "a"\nsizes = [2]\n[[entry]]\nname = "b"\n')
    assert found == {"entry[0]": Entry(name="a", sizes=[2]), "entry[1]": Entry(name="b")}
    assert read(tmp_path / "x.toml", "") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[[entry]]\nnane = "a"\n',
            (
                "x.toml: entry[0].nane: unknown key; did you mean name? allowed: name, sizes; "
                "x.toml: entry[0].name: missing"
            ),
        ),
        ("[[entry]]\nname = 1\n", "x.toml: entry[0].name: expected `str`, got `int`"),
        ('[[entry]]\nname = "a"\nsizes = [1, "2"]\n', "x.toml: entry[0].sizes[1]: expected `int`, got `str`"),
        ('[entry]\nname = "a"\n', "x.toml: entry: expected an array of tables, [[entry]]"),
        ("entry = [1]\n", "x.toml: entry: expected an array of tables, [[entry]]"),
        ("zzz = 1\n", "x.toml: zzz: unknown key; allowed: entry"),
        ("= 1\n", "x.toml: not TOML: Invalid statement (at line 1, column 1)"),
    ],
    ids=["key", "type", "path", "table", "array", "array's name", "syntax"],
)  # fmt: skip
def test_faults(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path / "x.toml", text)
    assert str(raised.value) == sentence


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    text = '[[entry]]\nname = 1\n[[entry]]\n[[entry]]\nname = "c"\nsize = 1\n'
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path / "x.toml", text)
    assert str(raised.value).split("; x.toml: ") == [
        "x.toml: entry[0].name: expected `str`, got `int`",
        "entry[1].name: missing",
        "entry[2].size: unknown key; did you mean sizes? allowed: name, sizes",
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^x\.toml: cannot be read: No such file or directory$"):
        files.read_toml(tmp_path / "x.toml")


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigurationError, match=r"^x\.toml: not UTF-8$"):
        files.read_toml(tmp_path / "x.toml")


def test_replace_writes_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "x"
    files.replace(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o644

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in path.parent.iterdir()] == ["x"]
