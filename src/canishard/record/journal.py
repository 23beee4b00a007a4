"""What this machine has measured: outcomes appended as they come, so that a run that was cut goes on.

One file of JSON lines for all that was measured under the same conditions with ranks started in the same way, in the
state folder (``.canishard/``, ignored by git). The last line of a case wins. What a checkout measured whose files were
not committed as they were has a file of its own: a clean one does not know of it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from canishard import files
from canishard.errors import RecordError
from canishard.launch.outcome import Case, Outcome
from canishard.record.conditions import Conditions, answers


class Journal:
    """The outcomes of one set of conditions; writing appends, at once."""

    def __init__(
        self, state: Path, conditions: Conditions, start_method: str, *, is_dirty: bool = False
    ) -> None:
        """Read what is known; what of it cannot be read is in ``faults``."""
        name = f"{conditions.environment.name}-{conditions.key}-{start_method}"
        clean, dirty = (state / "journal" / f"{name}{suffix}.jsonl" for suffix in ("", "-dirty"))
        self.path = dirty if is_dirty else clean
        self.faults: list[str] = []
        """What could not be read, each with its file and line; it is left as it is, and measured again."""
        self._outcomes: dict[tuple[str, int], Outcome] = {}
        for path in (clean, dirty) if is_dirty else (clean,):
            self._read(path)
        self._is_mended = False

    def _read(self, path: Path) -> None:
        """Take every whole line of a file; a last one without an end was being written when the run was killed."""
        *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                outcome = files.decode(line, Outcome, f"{path}: line {number}")
            except RecordError as error:
                self.faults.append(f"{error}; what that line says is not known")
                continue
            self._outcomes[outcome.key] = outcome

    def known(self, case: Case) -> Outcome | None:
        """Return what was measured of a case, if it still answers for it."""
        outcome = self._outcomes.get(case.key)
        return outcome if outcome is not None and answers(outcome, case) else None

    def append(self, outcome: Outcome) -> None:
        """Write one outcome; it is on its way to the disk when this returns, whatever happens to the process."""
        self._outcomes[outcome.key] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+", buffering=0) as file:
            if not self._is_mended:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
                self._is_mended = True
            file.write(msgspec.json.encode(outcome) + b"\n")
