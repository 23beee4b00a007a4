"""Distributed checkpoints."""
