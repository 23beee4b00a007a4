"""What was measured, under which conditions, and when it counts as known."""

from canishard.record.conditions import Conditions
from canishard.record.contents import CANARY, NEVER_STORED, Record, require_clean
from canishard.record.evidence import EVIDENCE_SUFFIX, cell, evidence_path
from canishard.record.files import SCHEMA_FILES, decode, encode, load, load_all, save, schemas
from canishard.record.suite import Suite

__all__ = [
    "CANARY",
    "EVIDENCE_SUFFIX",
    "NEVER_STORED",
    "SCHEMA_FILES",
    "Conditions",
    "Record",
    "Suite",
    "cell",
    "decode",
    "encode",
    "evidence_path",
    "load",
    "load_all",
    "require_clean",
    "save",
    "schemas",
]
