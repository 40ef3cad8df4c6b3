"""The stamp of a compiled function: of its own code, and of all that it calls, in whatever file.

numba's stamp is that of the one file in which a function stands: callers in other files would keep
the code of before. What is frozen into compiled code is what it names: functions, the options that
they are compiled with, and constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

_OTHERS = ("builtins", "llvmlite", "math", "numba", "numpy")
"""Packages whose versions numba knows, or whose functions it compiles in its own way."""


def stamp_of(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """A digest that changes with anything that compiled code of the function depends on."""
    digest = hashlib.sha256(_constant(dict(options)).encode())
    for line in sorted(_lines(function, set())):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def _lines(function: Any, seen: set[int]) -> Iterator[str]:
    """What a function is made of, and then all that it names, each function once."""
    if id(function) in seen:
        return
    seen.add(id(function))
    where = f"{function.__module__}.{function.__qualname__}"
    yield f"{where} {_text(function.__code__)} {_constant(function.__defaults__)}"
    for name, value in _named(function):
        inner = plain_function(value)
        if inner is not None:
            if not inner.__module__.startswith(_OTHERS):
                yield f"{where} calls {name} {_constant(getattr(value, 'options', None))}"
                yield from _lines(inner, seen)
        elif isinstance(value, type):
            fields = getattr(value, "_fields", ())
            yield f"{where} {name} {value.__module__}.{value.__qualname__} {fields}"
        elif not isinstance(value, ModuleType) and not callable(value):
            yield f"{where} {name} = {_constant(value)}"


def plain_function(value: Any) -> Any:
    """The Python function within a compiled one or an intrinsic, ours or numba's; else None."""
    for name in ("function", "py_func", "definition", "_defn"):
        inner = getattr(value, name, None)
        if isinstance(inner, FunctionType):
            return inner
    return value if isinstance(value, FunctionType) else None


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, and those that it names in modules of ours."""
    names = _names(function.__code__)
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType) and not value.__name__.startswith(_OTHERS):
            inside = vars(value)
            yield from ((f"{name}.{inner}", inside[inner]) for inner in names & inside.keys())
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _text(code: CodeType) -> str:
    consts = [_text(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


def _constant(value: Any) -> str:
    """A constant as text that is the same in every process."""
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, dict):
        return _constant(sorted((key, _constant(one)) for key, one in value.items()))
    array = getattr(value, "tobytes", None)
    if array is not None:
        return f"{value.dtype} {value.shape} {hashlib.sha256(array()).hexdigest()}"
    return repr(value)
