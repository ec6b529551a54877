"""The tables of the index by words, and the statements that change and read them.

``keyword`` is an FTS5 table with a row for each chunk, whose columns hold *tokens* joined by spaces. It keeps what it
indexes, so that a chunk can be removed by its id alone, whatever has become of its file. ``keyword_chunks`` and
``keyword_files`` hold what the ranking needs of whole files, lengths in tokens; triggers keep the files' sums true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import tokens
from .ranking import Candidate, Corpus, Frequency

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    import aiosqlite

    from kipu.types import StoredChunk

    from .terms import Term

__all__ = [
    "add",
    "best_matches",
    "create",
    "load",
    "measure_corpus",
    "measure_frequencies",
    "remove",
    "scrub",
    "terms_in_files",
]

_SCHEMA = (
    "DROP TABLE IF EXISTS keyword",
    "DROP TABLE IF EXISTS keyword_chunks",
    "DROP TABLE IF EXISTS keyword_files",
    # To the tokenizer "ascii", every character that is not ASCII is a part of a token: ours are split already.
    """CREATE VIRTUAL TABLE keyword USING fts5(
        path, heading, context, text, identifiers, tokenize = "ascii tokenchars '-_./:@\\+~#'"
    )""",
    """CREATE TABLE keyword_files(
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
        chunks INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0, text_length INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE keyword_chunks(
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, length INTEGER NOT NULL, text_length INTEGER NOT NULL
    )""",
    """CREATE TRIGGER keyword_chunk_added AFTER INSERT ON keyword_chunks BEGIN
        UPDATE keyword_files SET chunks = chunks + 1, length = length + new.length,
            text_length = text_length + new.text_length WHERE id = new.file;
    END""",
    """CREATE TRIGGER keyword_chunk_removed AFTER DELETE ON keyword_chunks BEGIN
        UPDATE keyword_files SET chunks = chunks - 1, length = length - old.length,
            text_length = text_length - old.text_length WHERE id = old.file;
        DELETE FROM keyword_files WHERE id = old.file AND chunks = 0;
    END""",
)

_CANDIDATES = """
    SELECT keyword.rowid, keyword_chunks.file, keyword_files.text_length,
        keyword.path, keyword.heading, keyword.context, keyword.text, keyword.identifiers
    FROM keyword
    CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid
    CROSS JOIN keyword_files ON keyword_files.id = keyword_chunks.file"""

_BATCH = 1000
_SAMPLE = 2000
_PARAMETERS = 900  # of one statement: some builds of SQLite take no more than 999


async def create(connection: aiosqlite.Connection) -> None:
    """Create empty tables; drop existing ones first."""
    for statement in _SCHEMA:
        await connection.execute(statement)


async def add(connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
    """Index chunks; what was indexed under the same ids is replaced."""
    await remove(connection, [chunk.id for chunk in chunks])
    paths = dict.fromkeys(chunk.path for chunk in chunks)
    await connection.executemany("INSERT OR IGNORE INTO keyword_files(path) VALUES (?)", ((path,) for path in paths))
    for start in range(0, len(chunks), _BATCH):
        lengths: list[tuple[int, int, int, str]] = []
        # The rows are made in the connection's thread while it inserts them: the event loop goes on.
        rows = _rows(chunks[start : start + _BATCH], lengths)
        await connection.executemany(
            "INSERT INTO keyword(rowid, path, heading, context, text, identifiers) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        await connection.executemany(
            "INSERT INTO keyword_chunks(id, length, text_length, file) "
            "SELECT ?, ?, ?, id FROM keyword_files WHERE path = ?",
            lengths,
        )


async def remove(connection: aiosqlite.Connection, chunk_ids: Iterable[int]) -> None:
    """Remove chunks; ids that are not indexed are ignored."""
    rows = [(chunk_id,) for chunk_id in chunk_ids]
    await connection.executemany("DELETE FROM keyword WHERE rowid = ?", rows)
    await connection.executemany("DELETE FROM keyword_chunks WHERE id = ?", rows)


async def scrub(connection: aiosqlite.Connection) -> None:
    """Rebuild the index of words without those of removed chunks, which FTS5 only marks as removed.

    https://www.sqlite.org/fts5.html#the_optimize_command
    """
    await connection.execute("INSERT INTO keyword(keyword) VALUES ('optimize')")


def _rows(
    chunks: Iterable[StoredChunk], lengths: list[tuple[int, int, int, str]]
) -> Iterator[tuple[int, str, str, str, str, str]]:
    """Yield the row of each chunk, and append its id, its lengths and its path to ``lengths``."""
    for chunk in chunks:
        path, heading, context, text = map(tokens.fold, (chunk.path, chunk.heading, chunk.context, chunk.text))
        in_path = tokens.words(_distinctive(path))
        in_heading = tokens.words(heading)
        in_context = [word for word in tokens.words(context) if word not in tokens.STOP_WORDS]
        in_text = tokens.words(text)
        literal = tokens.identifiers(f"{path} {heading} {text}")
        join = " ".join
        yield chunk.id, join(in_path), join(in_heading), join(in_context), join(in_text), join(literal)
        length = len(in_path) + len(in_heading) + len(in_context) + len(in_text)
        lengths.append((chunk.id, length, len(in_text), chunk.path))


def _distinctive(path: str) -> str:
    """Return the part of a path that distinguishes files: without the first folder and the suffix."""
    folder, slash, rest = path.partition("/")
    return (rest if slash else folder).rpartition(".")[0]


async def measure_corpus(connection: aiosqlite.Connection) -> Corpus:
    """Return the size of the whole index."""
    statement = "SELECT total(chunks), count(*), total(length), total(text_length) FROM keyword_files"
    [row] = await connection.execute_fetchall(statement)
    return Corpus(*map(int, row))


async def measure_frequencies(connection: aiosqlite.Connection, terms: Sequence[Term]) -> dict[Term, Frequency]:
    """Return how many chunks and files each of the terms is in, in any of their fields.

    The number of files is estimated from the first 2,000 chunks: it hardly matters for a term that common.
    """
    found: dict[Term, Frequency] = {}
    values = ", ".join(f"({number}, ?)" for number in range(len(terms)))
    statement = f"""
        WITH term(number, expression) AS (VALUES {values})
        SELECT number, (SELECT count(*) FROM keyword WHERE keyword MATCH expression), (
            SELECT count(DISTINCT file) FROM (
                SELECT keyword_chunks.file AS file
                FROM keyword CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid
                WHERE keyword MATCH expression LIMIT {_SAMPLE}
            )
        )
        FROM term"""
    for number, chunks, files in await connection.execute_fetchall(statement, [term.expression for term in terms]):
        found[terms[number]] = Frequency(chunks, round(files * max(1.0, chunks / _SAMPLE)))
    return found


async def terms_in_files(
    connection: aiosqlite.Connection, terms: Sequence[Term], paths: Sequence[str]
) -> dict[str, list[Term]]:
    """Return which of the terms each of the files has, in any field of any chunk; files not indexed are left out."""
    known: dict[int, str] = {}
    for start in range(0, len(paths), _PARAMETERS):
        some = paths[start : start + _PARAMETERS]
        statement = f"SELECT id, path FROM keyword_files WHERE path IN ({', '.join('?' * len(some))})"
        known.update(await connection.execute_fetchall(statement, some))  # type: ignore[arg-type]
    found: dict[str, list[Term]] = {path: [] for path in known.values()}
    # Every occurrence is visited: most files that are asked for have many chunks, and most terms few occurrences.
    statement = """
        SELECT DISTINCT keyword_chunks.file
        FROM keyword CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid
        WHERE keyword MATCH ?"""
    for term in terms:
        for (file,) in await connection.execute_fetchall(statement, (term.expression,)):
            if file in known:
                found[known[file]].append(term)
    return found


async def best_matches(
    connection: aiosqlite.Connection, expression: str, function: str, where: tuple[str, Sequence[Any]], limit: int
) -> list[Candidate]:
    """Return the chunks that match an FTS5 expression and pass the filter, best first by an FTS5 rank function."""
    condition, parameters = where
    # CROSS JOIN keeps SQLite from visiting the files first and asking FTS5 once for each of their chunks.
    filtered = (
        "CROSS JOIN kipu_chunks ON kipu_chunks.id = keyword.rowid "
        "CROSS JOIN kipu_files ON kipu_files.id = kipu_chunks.file_id"
    )
    statement = f"""
        {_CANDIDATES}
        {"" if condition == "1" else filtered}
        WHERE keyword MATCH ? AND rank MATCH ? AND ({condition}) ORDER BY rank LIMIT ?"""
    return await _candidates(connection, statement, [expression, function, *parameters, limit])


async def load(connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> list[Candidate]:
    """Return the chunks with these ids; those that are not indexed are left out."""
    found = []
    for start in range(0, len(chunk_ids), _PARAMETERS):
        some = chunk_ids[start : start + _PARAMETERS]
        statement = f"{_CANDIDATES} WHERE keyword.rowid IN ({', '.join('?' * len(some))})"
        found += await _candidates(connection, statement, some)
    return found


async def _candidates(connection: aiosqlite.Connection, statement: str, parameters: Sequence[Any]) -> list[Candidate]:
    rows = await connection.execute_fetchall(statement, parameters)
    return [
        Candidate(chunk, file, length, *(f" {field} " for field in fields)) for chunk, file, length, *fields in rows
    ]
