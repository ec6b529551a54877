"""The kernel's tables in the index, and how to tell a database that has them from any other.

Strategies read the views ``kipu_files``, ``kipu_chunks`` and so on, a part of the contract
(`kipu.types.Index.connection`); the tables are not. SQLite flattens the views: they cost nothing.
"""

from __future__ import annotations

import uuid
from typing import Any

VERSION = 8
# "KIPU", stored in the header: https://www.sqlite.org/fileformat.html#application_id
APPLICATION_ID = 0x4B495055
TABLES = """
CREATE TABLE index_identity (id TEXT NOT NULL);
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
CREATE TABLE metadata (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    superseded_by TEXT,
    valid_until TEXT
);
CREATE INDEX metadata_by_successor ON metadata(superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE file_properties (
    file_id INTEGER NOT NULL REFERENCES files(id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key, value, file_id)
) WITHOUT ROWID;
CREATE INDEX file_properties_by_file ON file_properties(file_id, key);
CREATE TABLE metadata_properties (
    metadata_id INTEGER NOT NULL REFERENCES metadata(id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key, value, metadata_id)
) WITHOUT ROWID;
CREATE INDEX metadata_properties_by_metadata ON metadata_properties(metadata_id);
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
    metadata_id INTEGER REFERENCES metadata(id)
);
CREATE INDEX chunks_by_file ON chunks(file_id, position);
CREATE INDEX chunks_by_name ON chunks(chunk);
CREATE INDEX chunks_by_hash ON chunks(hash);
CREATE INDEX chunks_by_metadata ON chunks(metadata_id) WHERE metadata_id IS NOT NULL;
CREATE TABLE entries (
    file_id INTEGER NOT NULL REFERENCES files(id),
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    id TEXT NOT NULL,
    is_derived INTEGER NOT NULL,
    metadata_id INTEGER REFERENCES metadata(id),
    PRIMARY KEY (file_id, start_line)
) WITHOUT ROWID;
CREATE INDEX entries_by_id ON entries(id);
CREATE INDEX entries_by_metadata ON entries(metadata_id) WHERE metadata_id IS NOT NULL;
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
CREATE TABLE annotations (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    identity TEXT NOT NULL,
    annotation TEXT NOT NULL
);
CREATE TABLE strategies (
    name TEXT NOT NULL,
    space_id INTEGER NOT NULL,
    schema_version TEXT NOT NULL,
    PRIMARY KEY (name, space_id)
) WITHOUT ROWID;
CREATE VIEW kipu_files AS SELECT id, path, source, date, size FROM files;
CREATE VIEW kipu_chunks AS
    SELECT id, file_id, position, chunk, hash, start_line, end_line, heading, heading_level, text, context,
        coalesce((SELECT text FROM metadata WHERE metadata.id = metadata_id), '') AS metadata
    FROM chunks;
CREATE VIEW kipu_entries AS
    SELECT file_id, start_line, end_line, id,
        coalesce((SELECT text FROM metadata WHERE metadata.id = metadata_id), '') AS metadata
    FROM entries;
CREATE VIEW kipu_properties AS SELECT file_id, key, value FROM file_properties;
CREATE VIEW kipu_vectors AS
    SELECT embeddings.space_id, chunks.id AS chunk_id, chunks.file_id, embeddings.vector
    FROM chunks CROSS JOIN embeddings ON embeddings.hash = chunks.hash;
"""


class OtherSchemaError(Exception):
    """The tables are not those of this version: the index is set aside and rebuilt."""

    def __init__(self) -> None:
        super().__init__("another version of Kipu made it, or a table is missing")


class ForeignDatabaseError(Exception):
    """The file is a database of another program: nothing in it may be touched."""

    def __init__(self) -> None:
        super().__init__("it is a database of another program")


def is_current(connection: Any) -> bool:
    """Return whether the kernel's tables and views exist, each as this version makes it."""
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        return False
    have = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")}
    return all(statement in have for statement in _statements())


def check_current(connection: Any) -> None:
    """Raise `OtherSchemaError` unless the tables are those of this version."""
    if not is_current(connection):
        raise OtherSchemaError


def check_ownership(connection: Any) -> bool:
    """Return whether the database is empty, as a new file is.

    :raises ForeignDatabaseError: it is not empty, and not one of Kipu's.
    """
    is_empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if not is_empty and connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ForeignDatabaseError
    return is_empty


def create(connection: Any) -> None:
    """Create the tables and views in an empty database."""
    for statement in _statements():
        connection.execute(statement)
    connection.execute("INSERT INTO index_identity VALUES (?)", (uuid.uuid4().hex,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def kernel_tables() -> set[str]:
    """Return the names of the kernel's own tables."""
    return {statement.split()[2] for statement in _statements() if statement.startswith("CREATE TABLE")}


def _statements() -> list[str]:
    return [statement.strip() for statement in TABLES.split(";") if statement.strip()]
