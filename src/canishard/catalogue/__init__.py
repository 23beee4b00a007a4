"""Rows as their sources declare them, read without torch: their entries, their ids, and what decides them."""

from canishard.catalogue.entries import CHECKS, Entry, digest_of, load, workarounds

__all__ = ["CHECKS", "Entry", "digest_of", "load", "workarounds"]
