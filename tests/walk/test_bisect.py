"""Where a row changed: the search itself, what is known without measuring, and what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from made_up import canaries, outcome, record

from canishard import catalogue, releases
from canishard import record as record_files
from canishard.launch.outcome import Status
from canishard.walk import bisect, nightlies

ROW = "pp.gpipe"
VERSIONS = [row.version for row in releases.load()]


@pytest.mark.parametrize("changed", range(1, 20))
def test_the_search_finds_the_change_in_few_steps(changed: int) -> None:
    asked: list[int] = []

    def is_as_first(index: int) -> bool:
        asked.append(index)
        return index < changed

    assert bisect.locate(20, is_as_first) == (changed - 1, changed)
    assert len(asked) <= 5
    assert len(asked) == len(set(asked))


def test_what_cannot_be_judged_widens_the_answer() -> None:
    assert bisect.locate(5, lambda index: None if index == 2 else index < 2) == (1, 3)
    assert bisect.locate(5, lambda index: None if index == 2 else index < 1) == (0, 1)
    assert bisect.locate(4, lambda _: None) == (0, 3)
    assert bisect.locate(2, lambda _: None) == (0, 1)


def digest_of(row: str) -> str:
    return catalogue.digest_of(catalogue.load()[row])


class Nox:
    """Measures as it was told: a status a release, builds of a flavour; None leaves no record."""

    def __init__(self, statuses: Mapping[str, str | None], flavours: Mapping[str, str] | None = None) -> None:
        self.statuses, self.flavours = statuses, flavours or {}
        self.digest = ""
        """Of the cells that it leaves, where it is not today's."""
        self.versions: list[str] = []
        self.environs: list[Mapping[str, str]] = []

    def __call__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
        version = command[command.index("-s") + 1].removeprefix("checks(").removesuffix(")")
        self.versions.append(version)
        self.environs.append(environ)
        if status := self.statuses[version]:
            cell = outcome(ROW, status=status, digest=self.digest or digest_of(ROW))
            flavour = self.flavours.get(version, "cuda-nodriver")
            found = record(*canaries(), cell, channel=version, flavour=flavour)
            record_files.save(found, log.parent / f"{found.name}.json")
        return 0


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANISHARD_TORCH_INDEX", "pypi")


def committed(root: Path, statuses: Mapping[str, str], **more: str) -> None:
    for version, status in statuses.items():
        cell = outcome(ROW, status=status, digest=more.get("digest", digest_of(ROW)))
        place = {name: more[name] for name in ("flavour", "python") if name in more}
        found = record(*canaries(), cell, channel=version, **place)
        record_files.save(found, root / "matrix" / "results" / f"{found.name}.json")


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_what_the_records_know_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    nox = Nox({"2.9.0": "crash"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"]
    lines = said(capsys)
    assert "pp.gpipe (2 ranks) changed in 2.9.0: pass -> crash; before it: 2.8.0" in lines
    assert "upstream: https://github.com/pytorch/pytorch/compare/a1b2c3...a1b2c3" in lines
    assert lines[-1] == "1 of 3 builds measured; all are cuda-nodriver linux x86_64"


def test_the_number_of_ranks_is_the_smallest_unless_said(tmp_path: Path) -> None:
    for version, statuses in (("2.9.0", ("pass", "pass")), ("2.9.1", ("pass", "crash"))):
        cells = [
            outcome(ROW, size, status, digest=digest_of(ROW))
            for size, status in zip((2, 4), statuses, strict=True)
        ]
        found = record(*canaries(), *cells, channel=version)
        record_files.save(found, tmp_path / "matrix" / "results" / f"{found.name}.json")
    search = [ROW, "--good", "2.9.0", "--bad", "2.9.1"]

    assert bisect.main(search, tmp_path, Nox({})) == 2
    assert bisect.main([*search, "--world-size", "4"], tmp_path, Nox({})) == 0


def test_another_digest_is_measured_again(tmp_path: Path) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"}, digest="0" * 16)
    nox = Nox({"2.8.0": "pass", "2.9.0": "pass", "2.9.1": "crash"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.8.0", "2.9.1", "2.9.0"]


def test_a_fix_is_found_with_good_and_bad_the_other_way_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.9.1": "crash", "2.10.0": "pass"})

    assert bisect.main([ROW, "--good", "2.10.0", "--bad", "2.9.1"], tmp_path, Nox({})) == 0
    assert "pp.gpipe (2 ranks) changed in 2.10.0: crash -> pass; before it: 2.9.1" in said(capsys)


def test_a_release_that_cannot_be_judged_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for status in (None, "flaky", "not_run"):
        root = tmp_path / str(status)
        committed(root, {"2.8.0": "pass", "2.9.1": "crash"})
        assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], root, Nox({"2.9.0": status})) == 0
        assert "could not be judged (flaky, not run, or not installed): 2.9.0" in said(capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            [ROW, "--good", "2.8.0", "--bad", "2.9.1"],
            2,
            "did not change: 2.8.0: pass, known; 2.9.1: pass, known",
        ),
        (
            ["pp.gpip", "--good", "2.8.0", "--bad", "2.9.1"],
            2,
            "no check declares this row; near it: pp.gpipe",
        ),
        ([ROW, "--good", "0.1", "--bad", "2.9.1"], 2, "--good 0.1: unknown release"),
        (
            [ROW, "--good", "2026-11-01", "--bad", "2.9.1"],
            2,
            "expected two releases, or two nightlies' dates",
        ),
        (
            [ROW, "--good", "2.8.0", "--bad", "installed"],
            2,
            "--bad installed: expected one release, pre-release or wheel's path, or a nightly's date",
        ),
        ([ROW, "--good", ">=2.8", "--bad", "2.9.1"], 2, "--good >=2.8: expected one release"),
        ([ROW, "--good", "==2.8.0", "--bad", "2.9.1"], 2, "--good ==2.8.0: expected one release"),
        ([ROW, "--good", "2.8.0", "--bad", "2.8.0"], 2, "one and the same build"),
        (
            [ROW, "--good", "2.8.0", "--bad", "torch-2.9.0-cp311-cp311-x.whl"],
            2,
            "--bad torch-2.9.0-cp311-cp311-x.whl: no such file",
        ),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    arguments: list[str], code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "pass"})

    assert bisect.main(arguments, tmp_path, Nox({})) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_what_was_measured_is_taken_again_under_the_same_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    nox = Nox({"2.9.0": "crash"})
    search = [ROW, "--good", "2.8.0", "--bad", "2.9.1"]

    for _ in range(2):
        assert bisect.main(search, tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"]

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert bisect.main(search, tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"] * 2


@pytest.mark.parametrize(("status", "digest"), [("flaky", ""), ("not_run", ""), ("crash", "0" * 16)], ids=str)
def test_what_settled_nothing_is_measured_again(tmp_path: Path, status: str, digest: str) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    nox = Nox({"2.9.0": status})
    nox.digest = digest
    search = [ROW, "--good", "2.8.0", "--bad", "2.9.1"]

    for _ in range(2):
        assert bisect.main(search, tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"] * 2


@pytest.mark.parametrize("status", ["flaky", "not_run"])
def test_an_end_from_which_nothing_follows_is_told(
    status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.8.0": "pass"})
    nox = Nox({"2.9.1": status})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 11
    error = capsys.readouterr().err
    assert f"2.9.1: {status}, measured: from this no change can be located" in error
    assert error.count("\n") == 1


def test_what_was_not_run_is_not_taken_as_known(tmp_path: Path) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.0": "not_run", "2.9.1": "crash"})
    nox = Nox({"2.9.0": "crash"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"]


def test_a_committed_record_of_another_build_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    committed(tmp_path, {"2.9.0": "crash"}, flavour="cpu")
    nox = Nox({"2.9.0": "pass"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"]
    assert "pp.gpipe (2 ranks) changed in 2.9.1: pass -> crash; before it: 2.9.0" in said(capsys)


def test_ends_of_different_builds_are_measured_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.0": "pass"})
    committed(tmp_path, {"2.9.1": "crash"}, flavour="cpu")
    nox = Nox({"2.9.1": "crash"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.1"]
    assert said(capsys)[-1] == "1 of 3 builds measured; all are cuda-nodriver linux x86_64"


@pytest.mark.parametrize(
    ("known", "measured", "kind"),
    [
        ((["2.8.0", "2.9.1"], ["2.8.0", "2.9.0"]), ["2.9.0"], "cuda-nodriver"),
        ((["2.8.0", "2.9.1"], ["2.9.0", "2.9.1"]), ["2.9.0"], "cuda-nodriver"),
        ((["2.8.0", "2.9.1"], ["2.8.0", "2.9.0", "2.9.1"]), [], "cpu"),
        ((["2.8.0", "2.9.0", "2.9.1"], ["2.8.0", "2.9.1"]), [], "cuda-nodriver"),
        ((["2.8.0"], ["2.9.0", "2.9.1"]), ["2.8.0"], "cpu"),
        (([], ["2.8.0"]), ["2.9.1", "2.9.0"], "cpu"),
        (([], []), ["2.8.0", "2.9.1", "2.9.0"], "cpu"),
    ],
)
def test_the_kind_of_build_is_one_that_leaves_little_to_measure(
    known: tuple[list[str], list[str]],
    measured: list[str],
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    does = {"2.8.0": "pass", "2.9.0": "crash", "2.9.1": "crash"}
    for versions, flavour in zip(known, ("cuda-nodriver", "cpu"), strict=True):
        committed(tmp_path, {version: does[version] for version in versions}, flavour=flavour)
    nox = Nox(does, dict.fromkeys(does, kind))

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == measured
    lines = said(capsys)
    assert "pp.gpipe (2 ranks) changed in 2.9.0: pass -> crash; before it: 2.8.0" in lines
    assert lines[-1] == f"{len(measured)} of 3 builds measured; all are {kind} linux x86_64"


def test_what_this_machine_installs_decides_what_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    builds = {"2.8.0": "pass", "2.9.0": "pass", "2.9.1": "crash"}
    nox = Nox(builds, dict.fromkeys(builds, "cpu"))

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.0", "2.8.0", "2.9.1"]
    lines = said(capsys)
    assert (
        "2.9.0 is a cpu linux x86_64 build here, and not cuda-nodriver linux x86_64: only builds as this one are "
        "compared from here on"
    ) in lines
    assert lines[-1] == "3 of 3 builds measured; all are cpu linux x86_64"


def test_ends_that_cannot_be_had_as_one_kind_of_build_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nox = Nox({"2.8.0": "pass", "2.9.1": "crash"}, {"2.8.0": "cpu", "2.9.1": "cuda"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 11
    assert nox.versions == ["2.8.0", "2.9.1"]
    assert capsys.readouterr().err == "2.8.0 is a cpu linux x86_64 build here, and not cuda linux x86_64\n"


def test_an_odd_build_between_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    committed(tmp_path, {"2.8.0": "pass"})
    nox = Nox({"2.9.0": "crash", "2.9.1": "crash"}, {"2.9.0": "cpu"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    lines = said(capsys)
    assert (
        "2.9.0: not judged: 2.9.0 is a cpu linux x86_64 build here, and not cuda-nodriver linux x86_64"
        in lines
    )
    assert "could not be judged (flaky, not run, or not installed): 2.9.0" in lines


def test_the_record_of_another_python_is_measured_again(tmp_path: Path) -> None:
    committed(tmp_path, {"2.8.0": "pass", "2.9.1": "crash"})
    committed(tmp_path, {"2.9.0": "crash"}, python="3.13")
    nox = Nox({"2.9.0": "pass"})

    assert bisect.main([ROW, "--good", "2.8.0", "--bad", "2.9.1"], tmp_path, nox) == 0
    assert nox.versions == ["2.9.0"]


@pytest.mark.parametrize("name", ["2.99.0rc1", "2.99.0.dev20261130"])
def test_a_pre_release_can_be_an_end(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = VERSIONS[-1]
    committed(tmp_path, {newest: "pass"})
    nox = Nox({name: "crash"})

    assert bisect.main([ROW, "--good", newest, "--bad", name], tmp_path, nox) == 0
    assert nox.environs[0]["CANISHARD_TORCH"] == name
    assert f"pp.gpipe (2 ranks) changed in {name}: pass -> crash; before it: {newest}" in said(capsys)


def test_a_wheel_is_an_end_and_not_the_release_that_it_is_called(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.9.1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    committed(tmp_path, {"2.9.0": "pass", "2.9.1": "pass"})
    nox = Nox({"2.9.1": "crash"})

    assert bisect.main([ROW, "--good", "2.9.0", "--bad", str(wheel)], tmp_path, nox) == 0
    assert nox.environs[0]["CANISHARD_TORCH"] == str(wheel)

    wheel.write_bytes(b"built anew")
    nox.statuses = {"2.9.1": "pass"}
    assert bisect.main([ROW, "--good", "2.9.0", "--bad", str(wheel)], tmp_path, nox) == 2
    assert nox.versions == ["2.9.1", "2.9.1"], "what the wheel was before is not what it is"


def test_nightlies_are_found_by_their_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = [f"2.16.0.dev202611{day}" for day in (10, 11, 12)]
    monkeypatch.setattr(nightlies, "listed", lambda _: versions)
    nox = Nox(dict(zip(versions, [Status.PASS, Status.CRASH, Status.CRASH], strict=True)))

    assert bisect.main([ROW, "--good", "2026-11-10", "--bad", "2026-11-12"], tmp_path, nox) == 0
    assert nox.environs[0]["CANISHARD_TORCH"] == versions[0]
    assert f"changed in {versions[1]}" in capsys.readouterr().out
