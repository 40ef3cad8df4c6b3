"""The demo's documents of compiled modules, which have docstrings and no source."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from owpc_ltr_demo.docstrings import split_docstring
from owpc_ltr_demo.sources import Described

MODULES = {
    "_collections": "collections",
    "_contextvars": "contextvars",
    "_csv": "csv",
    "_functools": "functools",
    "_io": "io",
    "_queue": "queue",
    "_random": "random",
    "_socket": "socket",
    "_struct": "struct",
    "_weakref": "weakref",
    "array": "array",
    "atexit": "atexit",
    "binascii": "binascii",
    "builtins": "builtins",
    "cmath": "cmath",
    "faulthandler": "faulthandler",
    "fcntl": "fcntl",
    "gc": "gc",
    "grp": "grp",
    "itertools": "itertools",
    "marshal": "marshal",
    "math": "math",
    "mmap": "mmap",
    "posix": "os",
    "pwd": "pwd",
    "resource": "resource",
    "select": "select",
    "sys": "sys",
    "syslog": "syslog",
    "termios": "termios",
    "time": "time",
    "unicodedata": "unicodedata",
    "zlib": "zlib",
}
"""Compiled modules whose import does nothing else, and where their objects are documented."""


def read_compiled() -> Iterator[Described]:
    """Every documented public object of the compiled modules that this Python has."""
    for name, public in MODULES.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if public == name and module.__doc__:
            yield Described(name, (), "module", "", 0, module.__doc__)
        yield from _objects(module, public)


def _objects(module: ModuleType, public: str) -> Iterator[Described]:
    homes = {module.__name__, public}
    content = vars(module)
    for name in sorted(content):
        # Hooks of sys may have been replaced by now; the original is kept beside them.
        thing = content.get(f"__{name}__", content[name])
        # Under another name, or from another module, it is documented elsewhere.
        if name.startswith("_") or getattr(thing, "__name__", None) != name:
            continue
        if getattr(thing, "__module__", None) not in homes:
            continue
        if inspect.isclass(thing):
            yield from _described(public, (name,), "class", thing)
            for inner, member in sorted(vars(thing).items()):
                if not inner.startswith("_") and (
                    inspect.isroutine(member) or inspect.isdatadescriptor(member)
                ):
                    yield from _described(public, (name, inner), "method", member)
        elif inspect.isroutine(thing):
            yield from _described(public, (name,), "function", thing)


def _described(module: str, path: tuple[str, ...], kind: str, thing: Any) -> Iterator[Described]:
    text = thing.__doc__
    if not isinstance(text, str) or not text.strip():
        return
    written = getattr(thing, "__text_signature__", None)
    if written:
        call = re.sub(r"\$(?:self|cls|type|module)(?:, /)?(?:, )?", "", written)
        signature = path[-1] + call
    else:
        signature = split_docstring(path[-1], text).signature or path[-1]
    yield Described(module, path, kind, signature, _parameters(signature), text)


def _parameters(signature: str) -> int:
    """How many names the first call of a signature takes."""
    inside = re.search(r"\(([^()]*)", signature)
    if inside is None:
        return 0
    return sum(1 for part in inside[1].split(",") if re.search(r"[A-Za-z]", part.partition("=")[0]))
