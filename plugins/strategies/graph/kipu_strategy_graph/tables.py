"""The tables of the graph, and the statements that change them.

All rows of a chunk depend on that chunk alone, and go with it. ``chunk_id`` is the ``id`` of ``kipu_chunks``; a *key*
is a name as `extraction.key` folds it, a *phrase* as `extraction.phrase` does, with single spaces.

- ``graph_mentions(chunk_id, entity, phrase, name, start, stop, via, weight)``: a row for each name of a chunk: its key
  ``entity``, its phrase, the name as it is first written there and from where to where in the text (-1 for a name of
  the headings or of the path), the rule that found it and what it weighs.
- ``graph_relations(chunk_id, number, source, source_text, predicate, target, target_text, sentence, via, polarity,
  modality, confidence, valid_from, valid_until)``: a row for each statement, numbered in the order of the chunk.
  ``source`` and ``target`` are keys, ``source_text`` and ``target_text`` what is written; ``target`` is NULL if it is
  a text and no name. The rest is as in `extraction.Relation`.
- ``graph_aliases(chunk_id, alias, name, alias_text, name_text, alias_phrase, name_phrase)``: keys that a chunk says are
  of one entity, how they are written, and their phrases.
- ``graph_entities(key, name, kind, mentions)``: a view: all entities, with the number of chunks that name them.
- ``graph_words(rowid, words)``: the phrase of the title, the heading and the text of each chunk, in FTS5: phrases are
  looked up, and not listed, so that a chunk has a name whatever the others call a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .extraction import extract, key, phrase
from .extraction.model import with_annotation
from .extraction.pages import page_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import aiosqlite

    from kipu.types import StoredChunk

__all__ = ["add", "create", "remove", "scrub"]

_TABLES = ("graph_mentions", "graph_relations", "graph_aliases", "graph_words")
_SCHEMA = (
    "DROP VIEW IF EXISTS graph_entities",
    *(f"DROP TABLE IF EXISTS {table}" for table in _TABLES),
    """CREATE TABLE graph_mentions(
        chunk_id INTEGER NOT NULL, entity TEXT NOT NULL, phrase TEXT NOT NULL, name TEXT NOT NULL,
        start INTEGER NOT NULL, stop INTEGER NOT NULL, via TEXT NOT NULL, weight REAL NOT NULL,
        PRIMARY KEY(chunk_id, entity)
    ) WITHOUT ROWID""",
    "CREATE INDEX graph_mentions_entity ON graph_mentions(entity)",
    "CREATE INDEX graph_mentions_phrase ON graph_mentions(phrase)",
    """CREATE TABLE graph_relations(
        chunk_id INTEGER NOT NULL, number INTEGER NOT NULL, source TEXT NOT NULL, source_text TEXT NOT NULL,
        predicate TEXT NOT NULL, target TEXT, target_text TEXT NOT NULL, sentence TEXT NOT NULL, via TEXT NOT NULL,
        polarity INTEGER NOT NULL, modality TEXT NOT NULL, confidence REAL NOT NULL, valid_from TEXT, valid_until TEXT,
        PRIMARY KEY(chunk_id, number)
    ) WITHOUT ROWID""",
    "CREATE INDEX graph_relations_source ON graph_relations(source)",
    "CREATE INDEX graph_relations_target ON graph_relations(target)",
    """CREATE TABLE graph_aliases(
        chunk_id INTEGER NOT NULL, alias TEXT NOT NULL, name TEXT NOT NULL,
        alias_text TEXT NOT NULL, name_text TEXT NOT NULL, alias_phrase TEXT NOT NULL, name_phrase TEXT NOT NULL,
        PRIMARY KEY(chunk_id, alias, name)
    ) WITHOUT ROWID""",
    "CREATE INDEX graph_aliases_alias ON graph_aliases(alias)",
    "CREATE INDEX graph_aliases_name ON graph_aliases(name)",
    "CREATE INDEX graph_aliases_alias_phrase ON graph_aliases(alias_phrase)",
    "CREATE INDEX graph_aliases_name_phrase ON graph_aliases(name_phrase)",
    """CREATE VIEW graph_entities(key, name, kind, mentions) AS
        SELECT entity, min(name), min(via), count(*) FROM graph_mentions GROUP BY entity""",
    # To the tokenizer "ascii", every character that is not ASCII is a part of a token; the words are split already.
    """CREATE VIRTUAL TABLE graph_words USING fts5(words, tokenize = "ascii tokenchars '_'", columnsize = 0)""",
)
_BATCH = 1000


async def create(connection: aiosqlite.Connection) -> None:
    """Create empty tables; drop existing ones first."""
    for statement in _SCHEMA:
        await connection.execute(statement)


async def add(connection: aiosqlite.Connection, chunks: Sequence[StoredChunk], nlp: str = "") -> None:
    """Add what chunks say; rows under the same ids are replaced. ``nlp`` names a pipeline that reads them as well."""
    await remove(connection, [chunk.id for chunk in chunks])
    for start in range(0, len(chunks), _BATCH):
        mentions: list[tuple[Any, ...]] = []
        relations: list[tuple[Any, ...]] = []
        aliases: list[tuple[Any, ...]] = []
        # The rows are made in the connection's thread while it inserts them: the event loop goes on.
        words = _words(chunks[start : start + _BATCH], nlp, mentions, relations, aliases)
        await connection.executemany("INSERT INTO graph_words(rowid, words) VALUES (?, ?)", words)
        for table, rows in (("graph_mentions", mentions), ("graph_relations", relations), ("graph_aliases", aliases)):
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                await connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


async def remove(connection: aiosqlite.Connection, chunk_ids: Iterable[int]) -> None:
    """Remove all rows of chunks; ids without any are ignored."""
    ids = [(chunk_id,) for chunk_id in chunk_ids]
    for table in _TABLES:
        column = "rowid" if table == "graph_words" else "chunk_id"
        await connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)


async def scrub(connection: aiosqlite.Connection) -> None:
    """Rebuild the index of words without those of removed chunks, which FTS5 only marks as removed."""
    await connection.execute("INSERT INTO graph_words(graph_words) VALUES ('optimize')")


def _words(
    chunks: Iterable[StoredChunk],
    nlp: str,
    mentions: list[tuple[Any, ...]],
    relations: list[tuple[Any, ...]],
    aliases: list[tuple[Any, ...]],
) -> Iterator[tuple[int, str]]:
    """Yield the id and the phrase of each chunk, and append its other rows."""
    phrases: dict[str, str] = {}
    parser = None
    if nlp:
        from .extraction.nlp import load

        parser = load(nlp)
    for chunk in chunks:
        found = extract(chunk, parser)
        if chunk.annotation:
            found = with_annotation(chunk, found)
        for each in found.mentions:
            if (folded := phrases.get(each.name)) is None:
                folded = phrases[each.name] = " ".join(phrase(each.name))
            place = (each.name, each.start, each.end, each.via, each.weight)
            mentions.append((chunk.id, key(each.name), folded, *place))
        for number, said in enumerate(found.relations):
            ends = (key(said.source), said.source, said.predicate, key(said.target) if said.is_entity else None)
            rest = (said.target, said.sentence, said.via, said.polarity, said.modality, said.confidence)
            relations.append((chunk.id, number, *ends, *rest, said.valid_from, said.valid_until))
        for same in found.aliases:
            both = (" ".join(phrase(same.alias)), " ".join(phrase(same.name)))
            aliases.append((chunk.id, key(same.alias), key(same.name), same.alias, same.name, *both))
        title = page_title(chunk.path)
        titles = f"{title} . {chunk.heading} . " if title or chunk.heading else ""
        yield chunk.id, " ".join(phrase(titles + chunk.text))
