"""The numbers of a query template: which are found, which are marked, and the template of each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from owpc_ltr_tune.clauses import searches_of
from owpc_ltr_tune.numbers import MULTIPLES, VALUES, tunable

from owpc_ltr.errors import BadInput

TEXT = "{{keywords}}"
MATCH = {"match": {"title": TEXT}}
PHRASE = {"match_phrase": {"title": {"query": TEXT, "slop": 3}}}


def names(query: dict[str, Any]) -> list[str]:
    return [number.name for number in tunable(query, "query.json").numbers]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            {"multi_match": {"query": TEXT, "fields": ["title^2", "body"]}},
            ["title boost", "body boost", "multi_match tie_breaker"],
        ),
        (
            {"multi_match": {"query": TEXT, "fields": ["title", "body"], "type": "cross_fields"}},
            ["title boost", "body boost"],
        ),
        (
            {"bool": {"must": MATCH, "should": [PHRASE], "filter": [MATCH], "must_not": MATCH}},
            ["match title boost", "match_phrase title boost", "match_phrase title slop"],
        ),
        # A single clause: its boost moves nothing.
        ({"bool": {"must": [PHRASE]}}, ["match_phrase title slop"]),
        (
            {"bool": {"should": [MATCH, MATCH], "minimum_should_match": 1}},
            ["match title boost", "match title boost (2)", "bool minimum_should_match"],
        ),
        (
            {"dis_max": {"queries": [MATCH, {"constant_score": {"filter": MATCH}}]}},
            ["match title boost", "constant_score boost", "dis_max tie_breaker"],
        ),
        (
            {
                "function_score": {
                    "query": MATCH,
                    "functions": [
                        {"weight": 2, "filter": MATCH},
                        {"field_value_factor": {"field": "size"}},
                    ],
                }
            },
            ["function 1 weight"],
        ),
        (
            {"boosting": {"positive": {"bool": {"should": [MATCH, PHRASE]}}, "negative": MATCH}},
            ["match title boost", "match_phrase title boost", "match_phrase title slop"],
        ),
        (
            {"query_string": {"query": TEXT, "fields": ["title", "body"]}},
            ["title boost", "body boost"],
        ),
    ],
)
def test_numbers_that_a_query_is_made_of_are_found(query: dict[str, Any], found: list[str]) -> None:
    assert names(query) == found


def test_values_are_multiples_of_a_boost_and_hold_what_is_there_now() -> None:
    query = {"multi_match": {"query": TEXT, "fields": ["title^10", "body"], "tie_breaker": 0.25}}
    title, body, tie = tunable(query, "query.json").numbers
    assert title.values == tuple(10 * multiple for multiple in MULTIPLES)
    assert (title.now, body.now, body.values) == (10.0, 1.0, MULTIPLES)
    assert tie.values == (0.25, *VALUES["tie_breaker"])


def test_a_setting_makes_a_template_and_a_field_without_a_boost_is_left_out() -> None:
    query = {"multi_match": {"query": TEXT, "fields": ["title^2", "body"]}}
    numbers = tunable(query, "query.json")
    whole = {"query": TEXT, "fields": ["title^2", "body^1"], "tie_breaker": 0.0}
    assert numbers.query(numbers.now) == {"multi_match": whole}
    without = numbers.query((0.0, 0.5, 0.3))["multi_match"]
    assert (without["fields"], without["tie_breaker"]) == (["body^0.5"], 0.3)
    assert query["multi_match"]["fields"] == ["title^2", "body"]
    assert numbers.is_complete((0.0, 0.5, 0.3))
    assert not numbers.is_complete((0.0, 0.0, 0.3))


def test_marked_numbers_alone_are_tuned() -> None:
    query = {
        "bool": {
            "must": {
                "multi_match": {
                    "query": TEXT,
                    "fields": ["title^{{tune 2 of 0, 1, 2, 4}}", "body^3"],
                    "minimum_should_match": "{{tune 50% of 1, 50%, 100%}}",
                }
            },
            "should": {"match": {"body": {"query": TEXT, "boost": "{{tune 1 of 0..1 step 0.25}}"}}},
        }
    }
    numbers = tunable(query, "query.json")
    assert [(number.name, number.now, number.values) for number in numbers.numbers] == [
        ("title boost", 2, (0, 1, 2, 4)),
        ("minimum_should_match", "50%", (1, "50%", "100%")),
        ("boost", 1, (0.0, 0.25, 0.5, 0.75, 1.0)),
    ]
    filled = numbers.query((0, 1, 0.5))["bool"]
    assert filled["must"]["multi_match"]["fields"] == ["body^3"]
    assert filled["must"]["multi_match"]["minimum_should_match"] == 1
    assert filled["should"]["match"]["body"] == {"query": TEXT, "boost": 0.5}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (MATCH, "no number to tune"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 2}}"}}}, "is no mark"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 2 of 2}}"}}}, "is no mark"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 1 of 0..1 step 0}}"}}}, "is no mark"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 1 of 0..9 step .01}}"}}}, "no mark"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 1 of -..1 step 1}}"}}}, "is no mark"),
        ({"match": {"title": {"query": TEXT, "boost": "{{tune 1 of 1..0 step 1}}"}}}, "is no mark"),
        ({"match": {"title": "{{tune 1 of 1, 2}} {{tune 1 of 1, 2}}"}}, "one in a text"),
    ],
)
def test_what_cannot_be_tuned_is_named(query: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=f"^query.json.*{why}"):
        tunable(query, "query.json")


def test_a_range_ends_at_the_last_step_within_it() -> None:
    query = {"match": {"title": {"query": TEXT, "boost": "{{tune 0.4 of 0..1 step 0.4}}"}}}
    assert tunable(query, "query.json").numbers[0].values == (0.0, 0.4, 0.8)


FILLED = "{{boost}}"


@pytest.mark.parametrize(
    "query",
    [
        {"multi_match": {"query": TEXT, "fields": [f"title^{FILLED}", "body^2"]}},
        {"multi_match": {"query": TEXT, "fields": ["title^", "body^-"], "tie_breaker": FILLED}},
        {"dis_max": {"queries": [MATCH, MATCH], "tie_breaker": FILLED}},
        {"dis_max": {"queries": {"match": {"title": TEXT}}, "tie_breaker": 0.1}},
        {"bool": {"should": [MATCH, "text", None], "must": 3, "minimum_should_match": FILLED}},
        {"bool": {"should": [MATCH, {"match": {"title": {"query": TEXT, "boost": FILLED}}}]}},
        {"function_score": {"query": MATCH, "functions": [{"weight": FILLED}, {"weight": 2}]}},
        {"function_score": {"query": MATCH, "functions": ["text", {"weight": 2}]}},
        {"function_score": {"query": "text", "functions": [{"weight": 2}], "boost": FILLED}},
        {"match": {"title": {"query": TEXT, "boost": "{{tune nan of nan, inf, 2}}"}}},
    ],
)
def test_what_only_the_application_fills_in_and_what_is_no_query_is_left_to_the_engine(
    query: dict[str, Any],
) -> None:
    numbers = tunable(query, "query.json")
    assert searches_of(numbers, taken_apart=True) >= 1
    assert FILLED not in json.dumps(query) or FILLED in json.dumps(numbers.query(numbers.now))
