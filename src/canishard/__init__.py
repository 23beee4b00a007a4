"""Can I shard? Measured compatibility tables for torch.distributed.

``canishard.supports(...)`` says whether a row works on a torch, ``canishard.load()`` returns all that was measured.
Importing this package loads none of its modules: ranks import it too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canishard.answers.dataset import Dataset
    from canishard.answers.published import Answer, Verdict, load, supports

__version__ = "0.1.0"
__all__ = ["Answer", "Dataset", "Verdict", "load", "supports"]

_PLACES = {
    "Answer": "canishard.answers.published",
    "Dataset": "canishard.answers.dataset",
    "Verdict": "canishard.answers.published",
    "load": "canishard.answers.published",
    "supports": "canishard.answers.published",
}


if not TYPE_CHECKING:  # It would let every misspelt name pass.

    def __getattr__(name: str) -> Any:
        """Return a name of the public API, imported when it is first asked for."""
        if name not in _PLACES:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
