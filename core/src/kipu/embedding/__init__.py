"""Embed texts and queries, and keep the vectors of the index up to date."""
