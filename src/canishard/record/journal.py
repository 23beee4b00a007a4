"""What this machine has measured: outcomes appended as they come, so that a run that was cut goes on.

One file of JSON lines an environment and exact build, in the state folder (``.canishard/``, ignored by git).
An outcome counts as known when the case's digest is the same; the last line of a case wins.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from canishard.launch.outcome import Case, Outcome, Status
from canishard.record.environment import Environment, Variant

NEVER_REUSED = frozenset({Status.INFRA, Status.FLAKY})
"""What settles nothing is measured again."""


class Journal:
    """The outcomes of one environment and variant; writing appends, at once."""

    def __init__(self, state: Path, environment: Environment, variant: Variant, start_method: str) -> None:
        facts = msgspec.json.encode([variant, start_method], order="deterministic")
        stamp = hashlib.sha256(facts).hexdigest()[:12]
        self.path = state / "journal" / f"{environment.name}-{stamp}.jsonl"
        self._outcomes: dict[tuple[str, int], Outcome] = {}
        for line in self._lines():
            outcome = msgspec.json.decode(line, type=Outcome)
            self._outcomes[outcome.id, outcome.world_size] = outcome

    def _lines(self) -> list[bytes]:
        """Return the complete lines; cut off a last one that was being written when the run was killed."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        *lines, torn = data.split(b"\n")
        if torn:
            with self.path.open("rb+") as file:
                file.truncate(len(data) - len(torn))
        return [line for line in lines if line]

    def known(self, case: Case) -> Outcome | None:
        """Return what was measured of a case with the same digest, if it settles anything."""
        outcome = self._outcomes.get(case.key)
        if outcome is None or outcome.digest != case.digest or outcome.status in NEVER_REUSED:
            return None
        return outcome

    def append(self, outcome: Outcome) -> None:
        """Write one outcome; it is on its way to the disk when this returns, whatever happens to the process."""
        self._outcomes[outcome.id, outcome.world_size] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(outcome) + b"\n")
