"""Liars made of honest plugins, for the checks that must catch them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def lying(honest: type[Any], name: str, /, **members: Any) -> Any:
    """An instance of a class like an honest one, with other members.

    In place of a method stands a function of the honest answer and of what was asked.
    """
    return lying_class(honest, name, **members)()


def lying_class(honest: type[Any], name: str, /, **members: Any) -> type[Any]:
    """The class itself."""
    for member, other in members.items():
        method = getattr(honest, member, None)
        if callable(method) and not isinstance(method, type) and callable(other):
            members[member] = _answering(method, other)
    return type(name, (honest,), members)


def _answering(method: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    def answer(self: Any, *asked: Any, **more: Any) -> Any:
        return other(method(self, *asked, **more), *asked, **more)

    return answer


def named(value: object) -> str | None:
    """The name of a liar in a test's id."""
    made = value if isinstance(value, type) else type(value)
    return None if made.__module__ == "builtins" else made.__name__
