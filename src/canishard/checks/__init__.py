"""The checks: a module per family, whose name is the first part of its ids. This file imports nothing."""
