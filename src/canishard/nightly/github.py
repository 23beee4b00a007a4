"""The thin edge to GitHub: does what ``actions`` decided, by ``gh``.

An issue is found by its label and the hidden line in its
text, never by a search, whose index lags. Every step can be done again: where one fails, the state is not saved, and
the next night finds what was filed already.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterable

import msgspec

from canishard.errors import InfraError
from canishard.nightly.actions import Action, Kind

LABEL = "canishard-nightly"
"""Only who may write to the repository can give it, so nobody else's issue is taken for ours."""

LIMIT = 5000
TIMEOUT_S = 120.0
_FORSAKEN = "**The nightly does not follow this any more:** what it remembered was lost. Whether it still holds is open."
_KEY = re.compile(r"<!-- canishard-cause: ([0-9a-z-]+) -->")


class Issue(msgspec.Struct, kw_only=True, frozen=True):
    """An issue that carries the label."""

    number: int
    state: str
    """``OPEN`` or ``CLOSED``."""
    body: str

    @property
    def is_open(self) -> bool:
        """Tell whether it is open."""
        return self.state.upper() == "OPEN"

    @property
    def key(self) -> str:
        """Return the key of the cause that it is about; empty where a person took the hidden line out."""
        found = _KEY.search(self.body)
        return found[1] if found else ""


class Done(msgspec.Struct, kw_only=True, frozen=True):
    """What was done about a cause's issue."""

    key: str
    number: int | None
    """None where there was nothing to close."""
    what: str
    """``filed``, ``updated``, ``reopened``, ``closed``, or why nothing was done."""

    def __str__(self) -> str:
        """Return it as ``#12 updated``."""
        return f"#{self.number} {self.what}" if self.number else f"{self.key}: {self.what}"


def apply(actions: Iterable[Action], repository: str = "") -> list[Done]:
    """Do what was decided, in order; ``repository`` as ``gh -R`` takes it, empty for the checkout's own.

    Raises InfraError in one line at the first step that fails. Save the state after this alone, with
    ``actions.with_issues(state, numbers(done))``.
    """
    actions = list(actions)
    if not actions:
        return []
    gh = Gh(repository)
    known = _by_key(gh.issues())
    return [_do(gh, action, known.get(action.key)) for action in actions]


def forsake(followed: Collection[str], lane: str, repository: str = "") -> list[Done]:
    """Say once, on each open issue of a lane that nothing follows any more, that it is so; a person has to look.

    Such a one is left where a state was lost, or could not be saved after its issue was filed. ``followed`` are the
    keys of those that should be open (``actions.followed``), ``lane`` how the keys begin that this state can know.
    """
    gh = Gh(repository)
    ours = [one for one in gh.issues() if one.is_open and one.key.startswith(lane)]
    left = [one for one in ours if one.key not in followed]
    new = [one for one in left if _FORSAKEN not in one.body]
    for issue in new:
        gh.comment(issue.number, _FORSAKEN)
        gh.edit(issue.number, f"{issue.body.rstrip()}\n\n{_FORSAKEN}\n")
    return [Done(key=one.key, number=one.number, what="is followed no more, and says so") for one in new]


def numbers(done: Iterable[Done]) -> dict[str, int]:
    """Return the issues' numbers by the causes' keys."""
    return {one.key: one.number for one in done if one.number is not None}


def _by_key(issues: Iterable[Issue]) -> dict[str, Issue]:
    """Return each key's issue: an open one before a closed one, the newest of the closed, the oldest of the open."""
    found: dict[str, Issue] = {}
    for issue in sorted(issues, key=lambda one: (one.is_open, -one.number if one.is_open else one.number)):
        found[issue.key] = issue
    found.pop("", None)
    return found


def _do(gh: Gh, action: Action, issue: Issue | None) -> Done:
    if issue is None:
        if action.kind is Kind.CLOSE:
            return Done(key=action.key, number=None, what="there is no issue to close")
        return Done(key=action.key, number=gh.create(action.title, action.body), what="filed")
    # The order matters where a step fails and all are done again: the text first, what notifies people last.
    gh.edit(issue.number, action.body, action.title)
    what = "updated"
    if action.kind is Kind.CLOSE and issue.is_open:
        gh.comment(issue.number, action.comment)
        gh.close(issue.number, is_completed=action.is_completed)
        what = "closed"
    elif action.kind in {Kind.OPEN, Kind.REOPEN} and not issue.is_open:
        gh.reopen(issue.number)
        gh.comment(issue.number, action.comment or "It is back: see the text above.")
        what = "reopened"
    elif action.kind in {Kind.UPDATE, Kind.REOPEN} and action.comment:
        gh.comment(issue.number, action.comment)
    return Done(key=action.key, number=issue.number, what=what)


class Gh:
    """The calls of ``gh``, each by its name; texts go by standard input, so that none is too long or is an option."""

    def __init__(self, repository: str = "") -> None:
        """Remember the repository."""
        self.repository = repository

    def issues(self) -> list[Issue]:
        """Return all issues with the label, open and closed."""
        output = self._run(
            "list", "--label", LABEL, "--state", "all", "--limit", str(LIMIT), "--json", "number,state,body"
        )
        try:
            return msgspec.json.decode(output, type=list[Issue])
        except msgspec.DecodeError as error:
            msg = f"gh issue list: not the JSON that was asked for: {error}"
            raise InfraError(msg) from None

    def create(self, title: str, body: str) -> int:
        """File an issue, with its label; return its number."""
        self._call("label", "create", LABEL, "--force", "--description", "Kept by canishard's nightly run")
        output = self._run("create", "--title", title, "--label", LABEL, "--body-file", "-", text=body)
        found = re.search(r"/issues/(\d+)\s*$", output)
        if not found:
            msg = "gh issue create: did not print the issue's address"
            raise InfraError(msg)
        return int(found[1])

    def edit(self, number: int, body: str, title: str = "") -> None:
        """Write the text anew, and the title where there is one."""
        named = ["--title", title] if title else []
        self._run("edit", str(number), *named, "--body-file", "-", text=body)

    def comment(self, number: int, text: str) -> None:
        """Comment on an issue."""
        self._run("comment", str(number), "--body-file", "-", text=text)

    def close(self, number: int, *, is_completed: bool) -> None:
        """Close an issue, as done or as nothing that can be done."""
        self._run("close", str(number), "--reason", "completed" if is_completed else "not planned")

    def reopen(self, number: int) -> None:
        """Open a closed issue again."""
        self._run("reopen", str(number))

    def _run(self, verb: str, *arguments: str, text: str = "") -> str:
        return self._call("issue", verb, *arguments, text=text)

    def _call(self, *arguments: str, text: str = "") -> str:
        """Run gh; InfraError says in one line what failed, and with which of its words."""
        where = ["-R", self.repository] if self.repository else []
        name = f"gh {arguments[0]} {arguments[1]}"
        try:
            done = subprocess.run(
                ["gh", *arguments, *where],
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            msg = f"{name}: there is no gh on the PATH; install GitHub's command line and log in, or set GH_TOKEN"
            raise InfraError(msg) from None
        except subprocess.TimeoutExpired:
            msg = f"{name}: no answer within {TIMEOUT_S:.0f} s"
            raise InfraError(msg) from None
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())[:300]
            msg = f"{name}: exit code {done.returncode}: {said or 'it said nothing'}"
            raise InfraError(msg)
        return done.stdout
