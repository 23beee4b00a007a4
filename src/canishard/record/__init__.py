"""What was measured, under which conditions, and when it counts as known."""

from canishard.record.files import (
    CANARY,
    EVIDENCE_SUFFIX,
    NEVER_STORED,
    SCHEMA_FILES,
    Record,
    Suite,
    cell,
    decode,
    encode,
    evidence_path,
    load,
    load_all,
    save,
    schemas,
)

__all__ = [
    "CANARY",
    "EVIDENCE_SUFFIX",
    "NEVER_STORED",
    "SCHEMA_FILES",
    "Record",
    "Suite",
    "cell",
    "decode",
    "encode",
    "evidence_path",
    "load",
    "load_all",
    "save",
    "schemas",
]
