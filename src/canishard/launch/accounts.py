"""What a rank reports: what it compared and kept, and what it raised.

Standard library only. Ranks of the launcher use it, and a reproduction script has its text.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Any

_MISFIT = re.compile(
    r"unexpected keyword argument|missing \d+ required|takes .*arguments? but|takes no .*arguments"
)
"""What Python says where a call does not fit a function's signature."""
_WRAPPERS = frozenset({"wrapper", "inner", "wrapped"})
"""What torch calls the functions that it puts around its own."""


def report_of(
    context: Any, error: BaseException | None, source: str, fault: type[BaseException]
) -> dict[str, Any]:
    """Return what a rank reports; an error takes nothing away from what it had noted before.

    ``context`` is None where there was none yet, ``source`` the file of the check or the folder of all checks,
    ``fault`` what a check raises that is itself at fault.
    """
    parts = {"compared": 0, "mismatches": [], "measurements": {}, "notes": []}
    kept = {name: getattr(context, name, empty) for name, empty in parts.items()}
    return {**kept, "error": described(error, source, fault) if error else None}


def described(error: BaseException, source: str, fault: type[BaseException]) -> dict[str, Any]:
    """Describe what a check raised; ``call_rejected`` says that its own call did not fit a signature."""
    text = text_of(error)
    is_misfit = isinstance(error, TypeError) and bool(_MISFIT.search(text))
    return {
        "text": f"{type(error).__name__}: {text}",
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "call_rejected": is_misfit and is_made_by(source, error),
        "refused": isinstance(error, NotImplementedError),
        "fault": isinstance(error, fault),
    }


def is_made_by(source: str, error: BaseException) -> bool:
    """Tell whether the call that failed stands in a file, or below a folder; torch's wrappers around it aside."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name in _WRAPPERS:
        frames.pop()
    return bool(frames) and (frames[-1].filename == source or frames[-1].filename.startswith(source + os.sep))


def text_of(error: BaseException) -> str:
    """Return an error's text."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - what others write as __str__ may raise anything
        return f"<{type(error).__name__} whose str raises {type(broken).__name__}>"
