"""What a chunk says about names: where they are mentioned, how they are related, and which are the same."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

__all__ = ["Alias", "Extraction", "Mention", "Relation"]


@attrs.frozen
class Mention:
    """A name in a chunk.

    ``start`` and ``end`` are offsets into the chunk's text, where the name is written apart from white space; both are
    -1 for a name of its headings or of its path. ``via`` is the rule that found it.
    """

    name: str
    start: int
    end: int
    via: str
    weight: float = 1.0


@attrs.frozen
class Relation:
    """A statement: a source, a predicate and a target, with the sentence or line that makes it.

    ``target`` is a name if ``is_entity``, and any text otherwise. A statement that the text denies has the
    ``polarity`` -1. One that it does not make, but asks for, supposes or plans, or that it says has ended, has a
    ``modality``: ``question``, ``condition``, ``possible`` or ``past``. Dates are ISO 8601. ``via`` is the rule that
    found it.
    """

    source: str
    predicate: str
    target: str
    sentence: str
    via: str
    polarity: int = 1
    modality: str = ""
    confidence: float = 1.0
    valid_from: str | None = None
    valid_until: str | None = None
    is_entity: bool = True


@attrs.frozen
class Alias:
    """Two names that the text itself says are the same: ``alias`` is another way to write ``name``."""

    alias: str
    name: str


@attrs.frozen
class Extraction:
    """Everything that was found in one chunk, in the order of the text."""

    mentions: Sequence[Mention] = ()
    relations: Sequence[Relation] = ()
    aliases: Sequence[Alias] = ()
