"""The tables of the index by words, and the statements that change and read them.

``keyword`` is an FTS5 table with a row for each chunk, whose columns hold *tokens* joined by spaces. It keeps what it
indexes, so that a chunk can be removed by its id alone, whatever has become of its file. ``keyword_chunks``,
``keyword_files`` and ``keyword_sources`` hold the lengths in tokens that the ranking needs; triggers keep the sums of
files and sources true.

The statistics of a search are those of the sources that it names, as if the index held no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import tokens
from .ranking import Corpus, Frequency

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    import aiosqlite

    from kipu.types import StoredChunk

    from .terms import Term

    Condition = tuple[str, Sequence[Any]]
    """An SQL condition on ``kipu_files``, and its parameters."""

__all__ = [
    "EVERYWHERE",
    "PARAMETERS",
    "add",
    "create",
    "measure_corpus",
    "measure_frequencies",
    "remove",
    "scrub",
    "terms_in_files",
    "within",
]

EVERYWHERE: Condition = ("1", ())
"""The condition of a search that names no source."""

_SCHEMA = (
    "DROP TABLE IF EXISTS keyword",
    "DROP TABLE IF EXISTS keyword_chunks",
    "DROP TABLE IF EXISTS keyword_files",
    "DROP TABLE IF EXISTS keyword_sources",
    # To the tokenizer "ascii", every character that is not ASCII is a part of a token: ours are split already.
    """CREATE VIRTUAL TABLE keyword USING fts5(
        path, heading, context, text, identifiers, tokenize = "ascii tokenchars '-_./:@\\+~#'"
    )""",
    # The tokens of a chunk are its length, its identifiers and forms: what FTS5 takes to be the length of its row.
    """CREATE TABLE keyword_sources(
        id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE,
        files INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0,
        text_length INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE keyword_files(
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, source INTEGER NOT NULL,
        chunks INTEGER NOT NULL DEFAULT 0, text_length INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE keyword_chunks(
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, source INTEGER NOT NULL,
        length INTEGER NOT NULL, text_length INTEGER NOT NULL, tokens INTEGER NOT NULL
    )""",
    """CREATE TRIGGER keyword_file_added AFTER INSERT ON keyword_files BEGIN
        UPDATE keyword_sources SET files = files + 1 WHERE id = new.source;
    END""",
    """CREATE TRIGGER keyword_file_removed AFTER DELETE ON keyword_files BEGIN
        UPDATE keyword_sources SET files = files - 1 WHERE id = old.source;
        DELETE FROM keyword_sources WHERE id = old.source AND files = 0;
    END""",
    """CREATE TRIGGER keyword_chunk_added AFTER INSERT ON keyword_chunks BEGIN
        UPDATE keyword_files SET chunks = chunks + 1, text_length = text_length + new.text_length WHERE id = new.file;
        UPDATE keyword_sources SET chunks = chunks + 1, length = length + new.length,
            text_length = text_length + new.text_length, tokens = tokens + new.tokens WHERE id = new.source;
    END""",
    """CREATE TRIGGER keyword_chunk_removed AFTER DELETE ON keyword_chunks BEGIN
        UPDATE keyword_sources SET chunks = chunks - 1, length = length - old.length,
            text_length = text_length - old.text_length, tokens = tokens - old.tokens WHERE id = old.source;
        UPDATE keyword_files SET chunks = chunks - 1, text_length = text_length - old.text_length WHERE id = old.file;
        DELETE FROM keyword_files WHERE id = old.file AND chunks = 0;
    END""",
)

_BATCH = 1000
_SAMPLE = 2000
PARAMETERS = 900
"""How many parameters a statement has at most: some builds of SQLite take no more than 999."""


async def create(connection: aiosqlite.Connection) -> None:
    """Create empty tables; drop existing ones first."""
    for statement in _SCHEMA:
        await connection.execute(statement)


async def add(connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
    """Index chunks; what was indexed under the same ids is replaced."""
    await remove(connection, [chunk.id for chunk in chunks])
    source_of = {chunk.path: chunk.source for chunk in chunks}
    await connection.executemany(
        "INSERT OR IGNORE INTO keyword_sources(source) VALUES (?)", [(source,) for source in {*source_of.values()}]
    )
    await connection.executemany(
        "INSERT OR IGNORE INTO keyword_files(path, source) SELECT ?, id FROM keyword_sources WHERE source = ?",
        source_of.items(),
    )
    for start in range(0, len(chunks), _BATCH):
        lengths: list[tuple[int, int, int, int, str]] = []
        # The rows are made in the connection's thread while it inserts them: the event loop goes on.
        rows = _rows(chunks[start : start + _BATCH], lengths)
        await connection.executemany(
            "INSERT INTO keyword(rowid, path, heading, context, text, identifiers) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        await connection.executemany(
            "INSERT INTO keyword_chunks(id, length, text_length, tokens, file, source) "
            "SELECT ?, ?, ?, ?, id, source FROM keyword_files WHERE path = ?",
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
    chunks: Iterable[StoredChunk], lengths: list[tuple[int, int, int, int, str]]
) -> Iterator[tuple[int, str, str, str, str, str]]:
    """Yield the row of each chunk, and append its id, its lengths and its path to ``lengths``."""
    for chunk in chunks:
        fields = [*map(tokens.normalise, (chunk.path, chunk.context, chunk.heading, chunk.text))]
        path, context, heading, text = map(tokens.strip_accents, fields)
        in_path = [*tokens.words(_distinctive(path)), *tokens.identifiers(path)]
        in_heading = tokens.words(heading)
        in_context = [word for word in tokens.words(context) if word not in tokens.STOP_WORDS]
        forms_in_context = tokens.forms(fields[1], context)
        in_text = tokens.words(text)
        literal = [
            *tokens.identifiers(f"{heading} {text}"),
            *tokens.forms(fields[2], heading),
            *tokens.forms(fields[3], text),
        ]
        join = " ".join
        around = join([*in_context, *forms_in_context])
        yield chunk.id, join(in_path), join(in_heading), around, join(in_text), join(literal)
        length = len(in_path) + len(in_heading) + len(in_context) + len(in_text)
        lengths.append((chunk.id, length, len(in_text), length + len(forms_in_context) + len(literal), chunk.path))


def _distinctive(path: str) -> str:
    """Return the part of a path that distinguishes files: without the first folder and the suffix."""
    folder, slash, rest = path.partition("/")
    return (rest if slash else folder).rpartition(".")[0]


# --- Statistics ----------------------------------------------------------------------------------------------------


async def measure_corpus(connection: aiosqlite.Connection, sources: Condition = EVERYWHERE) -> Corpus:
    """Return the size of the index, as far as these sources go."""
    condition, parameters = sources
    statement = (
        "SELECT total(chunks), total(files), total(length), total(text_length) "
        f"FROM keyword_sources AS kipu_files WHERE {condition}"
    )
    [row] = await connection.execute_fetchall(statement, parameters)
    return Corpus(*map(int, row))


async def measure_frequencies(
    connection: aiosqlite.Connection, expressions: Sequence[str], sources: Condition = EVERYWHERE
) -> list[Frequency]:
    """Return how many chunks and files of these sources match each of the FTS5 expressions.

    Numbers of files are estimated from the first 2,000 chunks: they hardly matter for a term that common.
    """
    found = [Frequency(0, 0, 0, 0)] * len(expressions)
    only, parameters = within(sources)
    joined = "keyword CROSS JOIN keyword_chunks ON keyword_chunks.id = keyword.rowid"

    async def measure(numbers: Sequence[int], *columns: str) -> list[tuple[int, ...]]:
        """Return for each number the chunks and the files that have its expression in each of the columns."""
        counts = [
            f"""(SELECT count(*) FROM {joined if only else "keyword"} WHERE keyword MATCH {each} {only}),
            (SELECT count(DISTINCT file) FROM (
                SELECT keyword_chunks.file AS file FROM {joined} WHERE keyword MATCH {each} {only} LIMIT {_SAMPLE}
            ))"""
            for each in (f"'{each} (' || expression || ')'" if each else "expression" for each in columns)
        ]
        values = ", ".join(f"({number}, ?)" for number in numbers)
        statement = f"WITH term(number, expression) AS (VALUES {values}) SELECT number, {', '.join(counts)} FROM term"
        given = [*(expressions[number] for number in numbers), *[*parameters] * 2 * len(columns)]
        return list(await connection.execute_fetchall(statement, given))  # type: ignore[arg-type]

    for number, rows, files, in_path, files_named in await measure(range(len(expressions)), "", "{path} :"):
        found[number] = Frequency(rows, _estimate(rows, files), _estimate(in_path, files_named), rows)
    named = [number for number, frequency in enumerate(found) if frequency.named]
    for number, chunks, _ in await measure(named, "- path :") if named else ():
        found[number] = found[number]._replace(chunks=chunks)
    return found


def _estimate(rows: int, files: int) -> int:
    """Return the number of files, from that among the first 2,000 rows."""
    return round(files * max(1.0, rows / _SAMPLE))


def within(sources: Condition) -> Condition:
    """Return what to add to a condition for the chunks of these sources, and its parameters; nothing for all."""
    condition, parameters = sources
    if condition == "1":
        return "", ()
    named = f"SELECT id FROM keyword_sources AS kipu_files WHERE {condition}"
    return f"AND keyword_chunks.source IN ({named})", parameters


async def terms_in_files(
    connection: aiosqlite.Connection, terms: Sequence[Term], paths: Sequence[str]
) -> dict[str, list[Term]]:
    """Return which of the terms each of the files has, in any field of any chunk; files not indexed are left out."""
    known: dict[int, str] = {}
    for start in range(0, len(paths), PARAMETERS):
        some = paths[start : start + PARAMETERS]
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
