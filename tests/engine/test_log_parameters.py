"""Parameters of the features: text as judged, and numbers only where something computes."""

from __future__ import annotations

from typing import Any

import pytest

from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.engine.feature_log.job import fingerprint, typed_params
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.engine.log_runs import GRADE, judged

TEXT = Feature("title", ("words",), {"match": {"title": "{{words}}"}})
EXPRESSION = Feature("age", ("year",), "year * 2", "derived_expression")
SCRIPT = Feature("old", ("year",), {"params": {"year": "year"}}, "script_feature")


def typed(*features: Feature, **params: Any) -> dict[str, object]:
    (found,) = typed_params(judged(**params), FeatureSet("movies", features))
    return found


@pytest.mark.parametrize(
    ("text", "number"),
    [("2001", 2001), ("-7", -7), ("+7", 7), (" 12 ", 12), ("1.5", 1.5), ("1e3", 1000.0)],
)
@pytest.mark.parametrize("feature", [EXPRESSION, SCRIPT], ids=lambda feature: feature.name)
def test_what_computes_gets_a_number_and_all_else_its_text(
    feature: Feature, text: str, number: float
) -> None:
    found = typed(TEXT, feature, year=text, more="3")
    assert found == {"words": "10", "year": number, "more": "3"}
    assert type(found["year"]) is type(number)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999", "new", ""])
def test_what_is_no_finite_number_stays_text_for_a_script_and_is_refused_for_an_expression(
    text: str,
) -> None:
    assert typed(TEXT, SCRIPT, year=text)["year"] == text
    for features in ([EXPRESSION], [EXPRESSION, SCRIPT], [SCRIPT, EXPRESSION]):
        with pytest.raises(BadInput) as caught:
            typed(*features, year=text)
        assert str(caught.value) == (
            f"query 'q7' has year='{text}', which a derived_expression of 'movies' needs as a "
            "number"
        )


@pytest.mark.parametrize("number", [2001, 1.5, 0])
def test_a_number_stays_one_for_templates_and_for_what_computes(number: float) -> None:
    for features in ([TEXT], [TEXT, EXPRESSION], [TEXT, SCRIPT]):
        assert typed(*features, year=number)["year"] is number


@pytest.mark.parametrize("value", [[1.5], {"a": 1}, True])
def test_what_is_no_number_is_refused_for_an_expression_by_its_value(value: Any) -> None:
    with pytest.raises(BadInput, match=r"^query 'q7' has year='.*', which a derived_expression"):
        typed(EXPRESSION, year=value)
    assert typed(SCRIPT, year=value)["year"] == value


def test_a_parameter_that_no_query_has_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="needs 'year', which the judgments do not have: they "):
        typed(TEXT, EXPRESSION)


def test_a_query_without_a_parameter_that_others_have_is_named() -> None:
    queries = [
        JudgedQuery("q1", {"words": "a", "year": "1"}, ["d"], GRADE),
        JudgedQuery("q2", {"words": "b"}, ["d"], GRADE),
    ]
    with pytest.raises(BadInput, match="query 'q2' has no 'year', which the feature set 'movies'"):
        typed_params(Judgments(queries), FeatureSet("movies", (TEXT, EXPRESSION)))


def test_a_number_and_its_text_make_two_logs() -> None:
    found = {fingerprint(judged(year=year)) for year in (1, "1", [1], True)}
    assert len(found) == 4
