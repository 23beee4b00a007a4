"""The checks: a folder a family, whose name is the first part of its ids, in it a file a topic. This file imports nothing."""
