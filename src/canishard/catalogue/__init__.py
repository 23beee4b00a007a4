"""Rows as their sources declare them, read without torch: their entries, their ids, and what decides them."""

from canishard.catalogue.entries import CHECKS, Entry, digest_of, load, workarounds
from canishard.catalogue.renamed import resolve

__all__ = ["CHECKS", "Entry", "digest_of", "load", "resolve", "workarounds"]
