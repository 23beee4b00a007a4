"""What workflows do with branches, as a person can do it too; needs git, and gh where GitHub is asked.

``open BRANCH FOLDER``: check a branch of its own out into a folder; empty where there is no such branch yet.
``save BRANCH FOLDER``: commit what changed in that folder, and push it; what others pushed meanwhile is kept.
``propose BRANCH --title TITLE PATH...``: a pull request with what changed below the paths, if anything did.

A token is taken from GH_TOKEN for the one command that needs it, and written nowhere.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ABSENT = 2
"""The exit code of ``git ls-remote --exit-code`` where the remote answers and has no such branch."""

TRIES = 5
BOT = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")
"""Who commits in a workflow: GitHub's own name for it."""

BODY = "Made by a workflow, which writes this branch anew each time: what is committed on top of it is lost."
OURS = ".[] | select(.isCrossRepository | not) | .number"
"""Of the open pull requests from a branch of that name, those from this repository."""


class CommandFailedError(Exception):
    """A command that must succeed did not; the message is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; return 0, or 1 with one line on stderr."""
    said = _parser().parse_args(arguments)
    try:
        if said.command == "open":
            open_branch(said.branch, said.folder)
        elif said.command == "save":
            save_branch(said.branch, said.folder)
        else:
            propose(said.branch, said.title, said.paths)
    except CommandFailedError as error:
        print(f"branches: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="branches.py", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("open", "save"):
        command = commands.add_parser(name)
        command.add_argument("branch")
        command.add_argument("folder", type=Path)
    command = commands.add_parser("propose")
    command.add_argument("branch")
    command.add_argument("--title", required=True)
    command.add_argument("paths", nargs="+")
    return parser


def open_branch(branch: str, folder: Path) -> None:
    """Check the branch out into the folder, alone and without its history."""
    if folder.exists() and any(folder.iterdir()):
        msg = f"{folder}: expected no such folder, or an empty one"
        raise CommandFailedError(msg)
    url = git("remote", "get-url", "origin").strip()
    if has_branch(url, branch):
        git("clone", "--quiet", "--depth", "1", "--single-branch", "--branch", branch, url, str(folder))
        print(f"{branch}: checked out into {folder}")
    else:
        git("init", "--quiet", "--initial-branch", branch, str(folder))
        git("remote", "add", "origin", url, folder=folder)
        print(f"{branch}: no such branch yet; {folder} is empty")


def has_branch(url: str, branch: str) -> bool:
    """Tell whether the remote has the branch: a remote that does not answer is an error, not a no."""
    command = ["git", "ls-remote", "--exit-code", "--heads", url, f"refs/heads/{branch}"]
    done = _run(command)
    if done.returncode not in {0, ABSENT}:
        raise CommandFailedError(_failure(command, done))
    return done.returncode == 0


def save_branch(branch: str, folder: Path) -> None:
    """Commit all that changed in the folder and push it, on top of what the branch has by now."""
    git("add", "--all", folder=folder)
    if not git("status", "--porcelain", folder=folder):
        print(f"{branch}: nothing changed")
        return
    git("commit", "--quiet", "--message", _message(branch), folder=folder)
    for left in reversed(range(TRIES)):
        try:
            git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}", folder=folder)
            break
        except CommandFailedError:
            if not left:
                raise
        # Somebody else pushed first: another backend's night, most likely, which has a folder of its own.
        git("fetch", "--quiet", "origin", f"refs/heads/{branch}", folder=folder)
        git("rebase", "--quiet", "FETCH_HEAD", folder=folder)
    print(f"{branch}: saved")


def _message(branch: str) -> str:
    """Name the run that commits, where one does."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (os.environ.get(name, "") for name in names)
    return f"Save {branch}" + (f"\n\n{server}/{repository}/actions/runs/{run}" if run else "")


def propose(branch: str, title: str, paths: Sequence[str]) -> None:
    """Put what changed below the paths into a commit on the branch, and open a pull request unless one is open."""
    base = git("branch", "--show-current").strip()
    git("add", "--all", "--", *paths)
    if not git("diff", "--cached", "--name-only"):
        print(f"{branch}: nothing changed, nothing to propose")
        return
    git("switch", "--quiet", "--force-create", branch)
    git("commit", "--quiet", "--message", title)
    git("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
    asked = ["--head", branch, "--state", "open", "--json", "number,isCrossRepository", "--jq", OURS]
    if gh("pr", "list", *asked).strip():
        print(f"{branch}: its open pull request is up to date")
    else:
        onto = ["--base", base] if base else []
        print(gh("pr", "create", "--head", branch, *onto, "--title", title, "--body", BODY).strip())
    # What a workflow pushes starts no other workflow, so its verdict is asked for.
    gh("workflow", "run", "ci.yml", "--ref", branch)


def git(*arguments: str, folder: Path | None = None) -> str:
    """Run git; return what it prints."""
    return _checked(["git", *arguments], folder)


def gh(*arguments: str) -> str:
    """Run gh; return what it prints."""
    return _checked(["gh", *arguments], None)


def _checked(command: Sequence[str], folder: Path | None) -> str:
    done = _run(command, folder)
    if done.returncode:
        raise CommandFailedError(_failure(command, done))
    return done.stdout


def _run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **_settings(), "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        msg = f"{command[0]}: not found on PATH"
        raise CommandFailedError(msg) from None


def _settings() -> dict[str, str]:
    """Return git's settings for these commands alone: who commits in a workflow, and where a token is from.

    git asks gh, which knows GH_TOKEN: so the token stands in no configuration and on no command line.
    """
    settings: dict[str, str] = {}
    if os.environ.get("GITHUB_ACTIONS"):
        settings |= {"user.name": BOT[0], "user.email": BOT[1]}
    if os.environ.get("GH_TOKEN"):
        settings["credential.helper"] = "!gh auth git-credential"
    if not settings:
        return {}
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _failure(command: Sequence[str], done: subprocess.CompletedProcess[str]) -> str:
    """Say in one line which command failed and what it said last."""
    said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
    return f"{' '.join(command)}: exit code {done.returncode}: {said[-1]}"


if __name__ == "__main__":
    sys.exit(main())
