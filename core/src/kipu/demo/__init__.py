"""The memory that `kipu demo` makes, and the searches that it runs.

The Markdown files below ``memory/`` were written for the demo: six weeks, from 2026-09-07 to 2026-10-18, of the team
that builds Tern, a booking service for ferries. Two agents, Atlas and Juno, keep dated notes; decisions, incidents and
a runbook stand beside them. Some of what the notes say was reversed later, so that "what is true now" is a real
question.
"""

from __future__ import annotations

import attrs

__all__ = ["SEARCHES", "DemoSearch"]


@attrs.frozen
class DemoSearch:
    """A search that shows what Kipu can do.

    ``options`` are options of ``kipu search`` by their long names without the dashes, such as ``{"source": "juno"}``.
    ``expected`` is the path of the memory file that holds the answer and must come first. ``why`` says in one line what
    the search shows.
    """

    query: str
    expected: str
    why: str
    options: dict[str, str] = attrs.field(factory=dict)


SEARCHES: tuple[DemoSearch, ...] = (
    DemoSearch(
        query="why did we leave Redis",
        expected="memory/decisions/0009-leave-redis-for-valkey.md",
        why="A question in plain words: many notes mention Redis, one gives the reasons.",
    ),
    DemoSearch(
        query="how quickly can we recover from a disaster",
        expected="memory/runbook.md",
        why="By meaning: the section on restoring a backup has none of these words.",
    ),
    DemoSearch(
        query="smartphone runs flat",
        expected="memory/juno/2026-09-17.md",
        why="By meaning too: the note says that the app empties phones.",
    ),
    DemoSearch(
        query="E_SEAT_LOCK",
        expected="memory/incidents/2026-09-24-seat-lock.md",
        why="An error code, found as a whole: the incident that explains it comes first.",
    ),
    DemoSearch(
        query="データベース",
        expected="memory/juno/2026-10-02.md",
        why="Japanese, which puts no spaces between words: the notes of a call with a ferry operator in Kagoshima.",
    ),
    DemoSearch(
        query="how long is a seat held",
        expected="memory/atlas/2026-10-05.md",
        why="Only what Atlas wrote since October: 420 seconds, where older notes say 600 and 300.",
        options={"source": "atlas", "since": "2026-10-01"},
    ),
    DemoSearch(
        query='how do I "replay the webhooks"',
        expected="memory/runbook.md",
        why="Words in quotation marks must stand together: the right section of a long runbook, by its lines.",
    ),
)
