"""Plugins: finding, loading and registering them, building their components, and calling those."""
