"""Which statements hold: the quick answer is that of comparing all with all, whatever their order."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from kipu_strategy_graph.facts import Fact, Statement, conflicts, judge, plain

DAY = date(2026, 6, 1)
DAYS = [None, date(2026, 1, 1), date(2026, 2, 1), date(2027, 1, 1)]
FUNCTIONAL = ["lives in", "^owns"]


@st.composite
def statement(draw):
    source, target = draw(st.sampled_from("abc")), draw(st.sampled_from("xyz"))
    predicate = draw(st.sampled_from(["lives in", "Lives_in", "owns", "uses"]))
    fact = Fact(
        source,
        predicate,
        target,
        is_entity=True,
        sentence="",
        path=draw(st.sampled_from(["memory/1.md", "memory/2.md"])),
        start_line=draw(st.integers(1, 4)),
        end_line=9,
        chunk="",
        date=draw(st.sampled_from(DAYS)),
        denied=draw(st.integers(0, 3)) == 0,
        modality=draw(st.sampled_from(["", "", "question"])),
    )
    return Statement(fact, (source, plain(predicate), target), superseded=draw(st.sampled_from(["", "", "an id"])))


def is_newer(one, other):
    if one.date and other.date and one.date != other.date:
        return one.date > other.date
    return one.path == other.path and one.start_line > other.start_line


def is_rival(one, other):
    if one.edge == other.edge or one.edge[1] != other.edge[1]:
        return False
    return (
        one.edge[0] == other.edge[0]
        if one.edge[1] == "lives in"
        else one.edge[1:] == other.edge[1:] and one.edge[1] == "owns"
    )


def holds(each, statements):
    if each.superseded or each.fact.denied or each.fact.modality or (each.fact.date or DAY) > DAY:
        return False
    for other in statements:
        if other.fact.modality or (other.fact.date or DAY) > DAY or not is_newer(other.fact, each.fact):
            continue
        if (other.edge == each.edge) if other.fact.denied else is_rival(each, other):
            return False
    return True


@given(st.lists(statement(), max_size=12), st.randoms())
def test_what_holds_is_what_nothing_newer_has_ended(statements, random):
    facts = judge(statements, FUNCTIONAL, DAY)
    assert [fact.holds for fact in facts] == [holds(each, statements) for each in statements]
    mixed = random.sample(range(len(statements)), len(statements))
    again = judge([statements[place] for place in mixed], FUNCTIONAL, DAY)
    assert [fact.holds for fact in again] == [facts[place].holds for place in mixed]


@given(st.lists(statement(), max_size=12), st.randoms())
def test_conflicts_are_facts_that_hold_and_the_same_in_any_order(statements, random):
    found = conflicts(statements, FUNCTIONAL, DAY)
    for conflict in found:
        assert all(fact.holds or (fact.denied and not fact.outdated) for fact in conflict.facts)
        assert len({(fact.source, fact.target, fact.denied) for fact in conflict.facts}) > 1
    random.shuffle(statements)
    again = conflicts(statements, FUNCTIONAL, DAY)
    assert {(each.subject, plain(each.predicate), frozenset(each.facts)) for each in again} == {
        (each.subject, plain(each.predicate), frozenset(each.facts)) for each in found
    }


def test_many_values_of_one_subject_are_judged_in_linear_time():
    def lives(number):
        fact = Fact("Ravi", "lives in", f"Town {number}", True, "", "memory/a.md", number, number, "")
        return Statement(fact, ("ravi", "lives in", f"town {number}"))

    facts = judge([lives(number) for number in range(20_000)], FUNCTIONAL, DAY)
    assert [fact.target for fact in facts if fact.holds] == ["Town 19999"]
