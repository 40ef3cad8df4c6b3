"""Derived features: arithmetic over the features before them, as the LTR plugin computes it.

The plugin compiles JavaScript expressions; the part of them that Python writes alike is computed
here: numbers, names, `+ - * /`, parentheses and the functions below, in double precision.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from owpc_ltr.errors import BadInput

Number = Callable[[Mapping[str, float]], Any]

_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "abs": (np.abs, 1),
    "ceil": (np.ceil, 1),
    "exp": (np.exp, 1),
    "floor": (np.floor, 1),
    "ln": (np.log, 1),
    "log10": (np.log10, 1),
    "logn": (lambda base, x: np.log(x) / np.log(base), 2),
    "max": (np.maximum, 2),
    "min": (np.minimum, 2),
    "pow": (np.power, 2),
    "sqrt": (np.sqrt, 1),
}
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_OTHER_FUNCTIONS = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "haversin"),
        *("haversinMeters", "sin", "sinh", "tan", "tanh"),
    )
)
"""What engines compute besides, and we do not."""
_CALL = re.compile(r"([A-Za-z_$][A-Za-z0-9_$.]*)\s*\(")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.]*(?!\s*\()(?![A-Za-z0-9_$.])")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_$.])[0-9][0-9.]*([eE][+-]?[0-9]+)?")
_LONGEST = 2_000


def expression_variables(text: str) -> set[str]:
    """The features and parameters that an expression names; of any expression, also others'.

    >>> sorted(expression_variables("title_bm25 * 2 + ln(1 + n) * 1e3"))
    ['n', 'title_bm25']
    """
    return set(_WORD.findall(_NUMBER.sub(" ", text)))


def check_expression(text: str) -> None:
    """Raise BadInput for what no engine compiles, of any expression, also others than ours.

    >>> check_expression("log(title)")
    Traceback (most recent call last):
    owpc_ltr.errors.BadInput: an engine knows no function 'log': 'ln', 'log10' and 'logn' are meant
    """
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            break
    if depth:
        raise BadInput(f"its parentheses do not close one another in '{text[:60]}'")
    for name in _CALL.findall(text):
        if name == "log":
            raise BadInput("an engine knows no function 'log': 'ln', 'log10' and 'logn' are meant")
        if name not in _FUNCTIONS and name not in _OTHER_FUNCTIONS:
            raise BadInput(f"an engine knows no function '{name[:60]}'")


def compile_expression(text: str) -> Callable[[Mapping[str, float]], float]:
    """A function from the values of features and parameters to the derived value, float32.

    What is undefined (0/0, the logarithm of a negative number) is NaN, as in Java. Raises
    BadInput where the expression is more than is computed here.

    >>> compile_expression("title * 2 + ln(1 + n)")({"title": 0.5, "n": 0})
    1.0
    """
    try:
        if len(text) > _LONGEST:
            raise BadInput("it is too long")
        compute = _compiled(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput("it is not arithmetic of + - * / ( ) and functions") from error

    def value(values: Mapping[str, float]) -> float:
        with np.errstate(all="ignore"):
            return float(np.float32(compute(values)))

    return value


def _compiled(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            constant = np.float64(number)
            return lambda _: constant
        case ast.Name(id=name):
            return lambda values: np.float64(values[name])
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            inner = _compiled(operand)
            return inner if isinstance(sign, ast.UAdd) else lambda values: -inner(values)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATIONS:
            combine = _OPERATIONS[type(operator)]
            first, second = _compiled(left), _compiled(right)
            return lambda values: combine(first(values), second(values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            function, count = _FUNCTIONS[name]
            if len(args) != count:
                raise BadInput(f"{name} takes {count} arguments, not {len(args)}")
            parts = [_compiled(part) for part in args]
            return lambda values: function(*(part(values) for part in parts))
    what = ast.unparse(node)[:40]
    raise BadInput(f"'{what}' is not supported: use + - * / and {', '.join(_FUNCTIONS)}")
