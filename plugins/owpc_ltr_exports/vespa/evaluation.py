"""The part of Vespa's ranking expressions that is written here, read and evaluated in float64.

sum := product (+ product)*    product := value (* value)*
value := number | name | if (condition, sum, sum) | sigmoid(sum)
condition := name < number | !(name >= number) | isNan(name)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import shown
from owpc_ltr.models.trees import logistic

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>>=|[-+*<!(),]))"
)
_DEEPEST = 200


def evaluate(expression: str, values: Mapping[str, Vector], rows: int) -> Vector:
    """One number a row; `values` has a column a name. Raises BadInput for another language."""
    reader = _Reader(_tokens(expression), values, rows)
    result = reader.sum(0)
    reader.end()
    return np.array(np.broadcast_to(result, (rows,)), dtype=np.float64)


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, place, text = [], 0, expression.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise BadInput(f"the expression has '{shown(text[place : place + 20])}', not a term")
        kind = found.lastgroup or ""
        tokens.append((kind, found[kind]))
        place = found.end()
    return tokens


@dataclass
class _Reader:
    """Reads from left to right; each part gives its value on every row at once."""

    tokens: list[tuple[str, str]]
    values: Mapping[str, Vector]
    rows: int
    place: int = 0

    def sum(self, depth: int) -> Vector:
        if depth > _DEEPEST:
            raise BadInput(f"the expression is nested deeper than {_DEEPEST} levels")
        total = self.product(depth)
        while self.taken("+"):
            total = total + self.product(depth)
        return total

    def product(self, depth: int) -> Vector:
        result = self.value(depth)
        while self.taken("*"):
            result = result * self.value(depth)
        return result

    def value(self, depth: int) -> Vector:
        kind, text = self.next()
        if kind == "number":
            return np.array(float(text))
        if text == "if":
            return self.choice(depth)
        if text == "sigmoid":
            self.expect("(")
            inner = self.sum(depth + 1)
            self.expect(")")
            return logistic(inner)
        return self.column(kind, text)

    def choice(self, depth: int) -> Vector:
        self.expect("(")
        holds = self.condition()
        self.expect(",")
        yes = self.sum(depth + 1)
        self.expect(",")
        no = self.sum(depth + 1)
        self.expect(")")
        return np.where(holds, yes, no)

    def condition(self) -> NDArray[np.bool_]:
        """A comparison with NaN does not hold, as in C."""
        if self.taken("!"):
            self.expect("(")
            values = self.column(*self.next())
            self.expect(">=")
            holds = ~np.asarray(values >= self.number())
            self.expect(")")
            return holds
        kind, text = self.next()
        if text == "isNan":
            self.expect("(")
            holds = np.isnan(self.column(*self.next()))
            self.expect(")")
            return holds
        values = self.column(kind, text)
        self.expect("<")
        return np.asarray(values < self.number())

    def column(self, kind: str, text: str) -> Vector:
        if kind != "name" or text not in self.values:
            raise BadInput(f"the expression has '{shown(text)}' where a function of its own goes")
        return self.values[text]

    def number(self) -> float:
        kind, text = self.next()
        if kind != "number":
            raise BadInput(f"the expression has '{shown(text)}' where a number goes")
        return float(text)

    def next(self) -> tuple[str, str]:
        if self.place == len(self.tokens):
            raise BadInput("the expression ends too early")
        self.place += 1
        return self.tokens[self.place - 1]

    def taken(self, mark: str) -> bool:
        """Whether the mark is next; then it is read."""
        here = self.place < len(self.tokens) and self.tokens[self.place] == ("mark", mark)
        self.place += here
        return here

    def expect(self, mark: str) -> None:
        if not self.taken(mark):
            _, text = self.tokens[self.place] if self.place < len(self.tokens) else ("", "the end")
            raise BadInput(f"the expression has '{shown(text)}' where {mark} goes")

    def end(self) -> None:
        if self.place < len(self.tokens):
            raise BadInput(f"the expression goes on after its end: '{self.tokens[self.place][1]}'")
