"""The SQLite index: its tables, its connections, and what is read from and written to it."""
