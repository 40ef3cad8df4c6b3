"""Bombs in the JSON of models are refused at once."""

from __future__ import annotations

import numpy as np
import pytest

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import parse_json
from owpc_ltr.models.linear import LinearModel, Normaliser


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 100_000, "nested deeper"),
        ('{"a": "' + "[" * 1000 + '"', "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("\ud800", "not valid JSON"),
        ('{"learner": 1, "learner": 2}', "'learner' occurs twice"),
        (" " * 50_000_001, "larger than 50000000 bytes"),
    ],
)
def test_bombs_are_refused_before_they_are_built(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_json(text, "it")


def test_a_text_that_only_quotes_brackets_is_not_deep() -> None:
    assert parse_json('{"a": "' + "[" * 1000 + '"}', "it") == {"a": "[" * 1000}


def test_a_weight_that_its_normaliser_makes_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match="larger than any number"):
        LinearModel(("a",), np.array([1e30]), {"a": Normaliser("standard", 0.0, 1e-300)})
