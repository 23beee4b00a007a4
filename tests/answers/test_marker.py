"""The pytest marker as another project uses it: in a run of its own, beside a torch that must not be started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from canishard.answers import marker, needs, published
from canishard.errors import ConfigurationError

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
WRONG_ON_280 = "fsdp2.gradients[reduce=default]"
STARTED = "raise AssertionError('torch was started')\n"


class Project:
    """Another project's tests, beside a torch of some version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def torch(self, version: str) -> None:
        package = self.folder / "site" / "torch"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(STARTED)
        (package / "version.py").write_text(f"__version__ = {version!r}\n")

    def tests(self, *markers: str, body: str = "pass") -> None:
        """Write a test a marker: test_0, test_1, and so on."""
        text = "import pytest, sys\n"
        for number, line in enumerate(markers):
            text += f"\n\n{line and f'@pytest.mark.canishard({line})'}\ndef test_{number}():\n    {body}\n"
        (self.folder / "test_theirs.py").write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(self.folder / "site"), os.environ.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments],
            cwd=self.folder,
            env={**ENVIRONMENT, "PYTHONPATH": path, "COLUMNS": "2000"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path)
    found.torch("2.8.0+cu128")
    return found


def lines(done: subprocess.CompletedProcess[str], start: str) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(start)]


def test_a_run_without_the_marker_loads_nothing_of_ours(project: Project) -> None:
    body = "assert sorted(name for name in sys.modules if name.startswith('canishard')) == ['canishard', 'canishard.pytest_plugin']"
    project.tests("", body=body)

    done = project.run()

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_what_does_not_work_is_skipped_and_told_with_what_mends_it(
    project: Project, workers: list[str]
) -> None:
    project.tests(
        f"needs=['{WRONG_ON_280}']",
        "needs=['canary']",
        "['fsdp2.gradients+force_sum'], backend='gloo', world_size=2",
        f"['canary', '{WRONG_ON_280}'], backend='nccl', device='cuda'",
    )

    done = project.run("--strict-markers", "-W", "error", *workers)

    assert done.returncode == 0, done.stdout
    assert len(lines(done, "PASSED")) == 3, done.stdout
    (line,) = lines(done, "SKIPPED")
    assert (
        f"canishard: {WRONG_ON_280} with gloo on cpu: no: wrong (summed instead of averaged) on 2.8.0" in line
    )
    assert "fsdp2.gradients+force_sum passes there; Call `set_force_sum_reduction_for_comms(True)`" in line


def test_what_is_expected_to_fail_must_fail(project: Project) -> None:
    project.tests(f"['{WRONG_ON_280}'], on_fail='xfail'")
    passing = project.run()
    project.tests(f"['{WRONG_ON_280}'], on_fail='xfail'", body="assert False")
    failing = project.run()

    assert passing.returncode == 1
    (line,) = lines(passing, "[XPASS(strict)] canishard: fsdp2.gradients[reduce=default] with gloo")
    assert line.endswith("; if the test passes, the table may be out of date")
    assert failing.returncode == 0
    assert "fsdp2.gradients+force_sum passes there" in lines(failing, "XFAIL")[0]


@pytest.mark.parametrize("version", ["2.9.1", "2.8.0.dev20250601+cpu", "0.1", "mine"])
def test_what_works_or_is_not_known_runs(project: Project, version: str) -> None:
    project.torch(version)
    project.tests(f"['{WRONG_ON_280}']", f"['{WRONG_ON_280}'], on_fail='xfail'")

    done = project.run()

    assert (done.returncode, len(lines(done, "PASSED"))) == (0, 2), done.stdout


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_a_wrong_marker_is_an_error_of_the_collection_that_names_the_test(
    project: Project, workers: list[str]
) -> None:
    project.tests(
        "['fsdp2.gradient']", "['fsdp2.gradient']", "", "['canary'], on_fial='skip'", body="print('ran')"
    )

    done = project.run("-s", *workers)

    assert done.returncode != 0
    for number in (0, 1):
        name = f"test_theirs.py::test_{number}"
        assert lines(done, f"ERROR {name}"), done.stdout
        (line,) = lines(done, f"{name}: canishard marker: need fsdp2.gradient: stands for no row; ")
        assert "did you mean fsdp2.gradients" in line
    assert lines(
        done, "test_theirs.py::test_3: canishard marker: canishard() got an unexpected keyword argument"
    )
    assert lines(done, "PASSED") == (["PASSED test_theirs.py::test_2"] if workers else [])


def test_markers_of_a_class_and_of_a_conftest_count_and_deselected_tests_do_not(project: Project) -> None:
    project.tests("", "['nonsense']")
    with (project.folder / "test_theirs.py").open("a") as file:
        file.write(
            f"@pytest.mark.canishard(needs=['{WRONG_ON_280}'])\nclass TestThem:\n    def test_it(self): pass\n"
        )
    (project.folder / "conftest.py").write_text(
        "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
        f"        if item.name == 'test_0': item.add_marker(pytest.mark.canishard(['{WRONG_ON_280}']))\n"
    )

    done = project.run("-k", "test_0 or test_it")

    assert done.returncode == 0, done.stdout
    assert "2 skipped, 1 deselected" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"needs": []}, "needs=[]: expected at least one"),
        ({"needs": {"canary": 1}}, "needs={'canary': 1}: expected a list"),
        ({"needs": ["canary", 1]}, "needs=['canary', 1]: expected a list"),
        ({"needs": "canary", "on_fail": "xpass"}, "on_fail='xpass': expected 'skip' or 'xfail'"),
        ({"needs": "canary", "backend": ["gloo"]}, "backend=['gloo']: expected a text"),
        ({"needs": "canary", "world_size": "2"}, "world_size='2': expected a number of ranks"),
        ({"needs": "canary", "world_size": True}, "world_size=True: expected a number of ranks"),
        ({}, "missing 1 required positional argument: 'needs'"),
    ],
)
def test_an_argument_that_is_wrong_is_told(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        marker._read(pytest.Mark("canishard", (), arguments, _ispytest=True))

    assert words in str(raised.value)


def test_needs_may_be_one_text_with_commas() -> None:
    assert marker.canishard("fsdp2.train[a=1,b=2], canary").needs == ("fsdp2.train[a=1,b=2]", "canary")


def test_a_reason_spells_out_three_rows_and_the_same_advice_once() -> None:
    dataset = published.load()
    rows = needs.resolve(["collectives.reduce_scatter_tensor"], dataset)

    found = marker.reason(needs.evaluate(dataset, rows, torch="2.8.0"))

    assert found.count("with gloo on cpu: no: wrong (sum instead of ") == 3
    assert found.count("Ask for SUM and finish the reduction yourself") == 1
    assert found.endswith("; and 4 more of the rows that are needed")
    assert "\n" not in found


def test_expecting_a_failure_of_what_works_in_part_is_not_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    def effect(verdict: published.Verdict) -> dict[str, object]:
        answer = published.Answer(
            row="a.x",
            torch="2.8.0",
            backend="gloo",
            device="cpu",
            world_size=None,
            verdict=verdict,
            reason="so",
        )
        finding = needs.Finding(
            torch="2.8.0", release="2.8.0", holding=needs.Holding.BLOCKED, answers=[answer]
        )
        monkeypatch.setattr(needs, "evaluate", lambda *_, **__: finding)
        marker._effect.cache_clear()
        found = marker._effect(marker.canishard("canary", on_fail="xfail"))
        assert found is not None
        return dict(found.kwargs)

    monkeypatch.setattr(marker, "torch_version", lambda: "2.8.0")
    try:
        assert [
            effect(verdict)["strict"] for verdict in (published.Verdict.NO, published.Verdict.PARTIAL)
        ] == [
            True,
            False,
        ]
    finally:
        marker._effect.cache_clear()


def test_the_version_is_that_of_a_torch_that_is_loaded_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    monkeypatch.setattr(sys.modules["torch"], "__version__", "2.7.1+cpu", raising=False)

    assert marker.torch_version() == "2.7.1+cpu"


def test_without_a_torch_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert marker.torch_version() == ""

    (tmp_path / "torch-2.6.0.dist-info").mkdir()
    (tmp_path / "torch-2.6.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n"
    )
    assert marker.torch_version() == "2.6.0"
