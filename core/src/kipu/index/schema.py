"""The kernel's tables in the index, and how a database that has them is told from any other."""

from __future__ import annotations

from typing import Any

__all__ = [
    "TABLES",
    "ForeignDatabaseError",
    "OtherSchemaError",
    "check_current",
    "check_ownership",
    "is_current",
    "is_empty",
    "kernel_tables",
    "make",
]

VERSION = 3
# "KIPU": what stands in a file at https://www.sqlite.org/fileformat.html#application_id
APPLICATION_ID = 0x4B495055
TABLES = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    date TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    hash TEXT NOT NULL,
    chunker TEXT NOT NULL,
    added INTEGER NOT NULL DEFAULT 0,
    problem TEXT
);
CREATE INDEX files_by_source ON files(source);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL REFERENCES files(id),
    position INTEGER NOT NULL,
    chunk TEXT NOT NULL,
    hash TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading TEXT NOT NULL,
    heading_level INTEGER NOT NULL,
    text TEXT NOT NULL,
    context TEXT NOT NULL,
    metadata TEXT NOT NULL,
    entry TEXT
);
CREATE INDEX chunks_by_file ON chunks(file_id, position);
CREATE INDEX chunks_by_name ON chunks(chunk);
CREATE INDEX chunks_by_hash ON chunks(hash);
CREATE INDEX chunks_by_entry ON chunks(entry) WHERE entry IS NOT NULL;
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    identity TEXT NOT NULL UNIQUE,
    dimension INTEGER NOT NULL,
    recipe TEXT NOT NULL
);
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY,
    space_id INTEGER NOT NULL REFERENCES spaces(id),
    hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    used INTEGER NOT NULL,
    UNIQUE (space_id, hash)
);
CREATE TABLE unembedded (
    space_id INTEGER NOT NULL REFERENCES spaces(id),
    chunk_id INTEGER NOT NULL,
    problem TEXT,
    PRIMARY KEY (space_id, chunk_id)
) WITHOUT ROWID;
CREATE TABLE strategies (
    name TEXT NOT NULL,
    space_id INTEGER NOT NULL,
    schema_version TEXT NOT NULL,
    PRIMARY KEY (name, space_id)
) WITHOUT ROWID;
"""


class OtherSchemaError(Exception):
    """The tables are not those of this version: to it, it is as if there was no index."""


class ForeignDatabaseError(Exception):
    """The file is a database, and none of Kipu's: nothing in it may be touched."""

    def __init__(self) -> None:
        super().__init__("it is a database of another program")


def is_empty(connection: Any) -> bool:
    """Whether the database has nothing in it, as a new file has."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def is_current(connection: Any) -> bool:
    """Whether the kernel's tables are there, each as this version makes it."""
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        return False
    have = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")}
    return all(statement in have for statement in _statements())


def check_current(connection: Any) -> None:
    """Raise `OtherSchemaError` unless the tables are those of this version."""
    if not is_current(connection):
        raise OtherSchemaError


def check_ownership(connection: Any) -> None:
    """Raise `ForeignDatabaseError` unless the database is one of Kipu's, or has nothing in it."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID and not is_empty(connection):
        raise ForeignDatabaseError


def make(connection: Any) -> None:
    """Make the tables, in place of all that there are."""
    _drop_all(connection)
    for statement in _statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def kernel_tables() -> set[str]:
    """The names of the kernel's own tables."""
    return {statement.split()[2] for statement in _statements() if statement.startswith("CREATE TABLE")}


def _statements() -> list[str]:
    return [statement.strip() for statement in TABLES.split(";") if statement.strip()]


def _drop_all(connection: Any) -> None:
    """Drop every table, virtual ones first: they drop those that belong to them."""
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    for name, sql in sorted(tables, key=lambda table: not _is_virtual(table[1])):
        if (
            name.startswith("sqlite_")
            or connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is None
        ):
            continue
        try:
            connection.execute(f'DROP TABLE "{name}"')
        except Exception as error:
            if not _is_virtual(sql) or "no such module" not in str(error):
                raise
            _forget_virtual(connection, name)


def _is_virtual(sql: str | None) -> bool:
    return (sql or "").upper().startswith("CREATE VIRTUAL")


def _forget_virtual(connection: Any, name: str) -> None:
    """Drop a virtual table whose module, an extension perhaps, is not here.

    It has no pages of its own, only an entry; the tables that it keeps its data in are dropped like any other.
    """
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("DELETE FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    connection.execute("PRAGMA writable_schema = RESET")
