"""Bring the index up to date with the memory files."""
