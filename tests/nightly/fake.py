"""A ``gh`` that keeps issues in a file, put on the PATH: it refuses what the real one would."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from canishard.nightly import github
from canishard.nightly.notices import marker

FAKE = '''\
#!{python} -S
"""A gh that keeps issues in a file, and refuses what the real one would."""
import json, os, sys
from pathlib import Path

folder = Path(os.environ["FAKE_GH"])
issues = json.loads((folder / "issues.json").read_text())
labels = json.loads((folder / "labels.json").read_text())
arguments = sys.argv[1:]
with open(folder / "calls", "a") as stream:
    print(json.dumps(arguments), file=stream)
fault = folder / "fault"
if fault.exists() and " ".join(arguments).startswith(fault.read_text()):
    sys.exit("HTTP 502:\\nserver error")

def option(name):
    return arguments[arguments.index(name) + 1] if name in arguments else None

def find(number):
    return next(issue for issue in issues if issue["number"] == int(number))

noun, verb = arguments[:2]
body = sys.stdin.read() if option("--body-file") == "-" else None
if body is not None and len(body) > 65536:
    sys.exit("body is too long (maximum is 65536 characters)")
if (noun, verb) == ("label", "create"):
    assert "--force" in arguments
    labels.append(arguments[2])
elif verb == "list":
    wanted = [issue for issue in issues if option("--label") in issue["labels"]]
    assert option("--state") == "all"
    names = option("--json").split(",")
    print(json.dumps([{{name: issue[name] for name in names}} for issue in wanted[-int(option("--limit")):]]))
elif verb == "create":
    if option("--label") not in labels:
        sys.exit(f"could not add label: '{{option('--label')}}' not found")
    issue = dict(number=len(issues) + 1, title=option("--title"), body=body, state="OPEN", reason="", comments=[])
    issues.append(dict(issue, labels=[option("--label")]))
    print(f"https://github.com/someone/fork/issues/{{issue['number']}}")
elif verb == "edit":
    find(arguments[2]).update(title=option("--title") or find(arguments[2])["title"], body=body)
elif verb == "comment":
    if not body.strip():
        sys.exit("body cannot be blank")
    find(arguments[2])["comments"].append(body)
elif verb == "close":
    assert option("--reason") in ("completed", "not planned")
    find(arguments[2]).update(state="CLOSED", reason=option("--reason"))
elif verb == "reopen":
    find(arguments[2]).update(state="OPEN")
else:
    sys.exit(f"unknown command {{verb}}")
(folder / "issues.json").write_text(json.dumps(issues))
(folder / "labels.json").write_text(json.dumps(labels))
'''


class Fake:
    """The other side of the fake gh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "issues.json").write_text("[]")
        (folder / "labels.json").write_text("[]")
        gh = folder / "gh"
        gh.write_text(FAKE.format(python=sys.executable))
        gh.chmod(0o755)

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that put it on the PATH."""
        path = os.pathsep.join([str(self.folder), os.environ["PATH"]])
        return {"PATH": path, "FAKE_GH": str(self.folder)}

    @property
    def issues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "issues.json").read_text())
        return found

    def change(self, number: int, **fields: Any) -> None:
        issues = self.issues
        issues[number - 1].update(fields)
        (self.folder / "issues.json").write_text(json.dumps(issues))

    def add(self, key: str, state: str = "OPEN", label: str = github.LABEL) -> int:
        number = len(self.issues) + 1
        issue = {"number": number, "title": "T", "body": marker(key), "state": state, "labels": [label]}
        (self.folder / "issues.json").write_text(
            json.dumps([*self.issues, {**issue, "comments": [], "reason": ""}])
        )
        return number

    def fail(self, command: str) -> None:
        (self.folder / "fault").write_text(command)

    def mend(self) -> None:
        (self.folder / "fault").unlink()

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
