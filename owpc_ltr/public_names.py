"""Public names of a module, each imported from its home when it is first used.

    _HOMES = homes(__name__)

    if TYPE_CHECKING:
        from owpc_ltr.training.train import train as train
    else:
        __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> Any:
        return public_name(name, globals(), _HOMES)

The imports for type checkers are the one list of names: `train as train` says that it is public.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def homes(module: str) -> dict[str, str]:
    """Each public name of a module, and the module that it is imported from: by its own source."""
    spec = sys.modules[module].__spec__ or find_spec(module)
    source = spec.loader.get_source(module)  # type: ignore[union-attr]
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname == alias.name
    }


def public_name(
    name: str,
    namespace: dict[str, Any],
    homes: Mapping[str, str],
    otherwise: Callable[[str], Any] | None = None,
) -> Any:
    """Import a public name into the namespace of its module, with the help of its parameters.

    `homes` has the module that each name is imported from; `otherwise` finds a name that is not
    there, or returns None. Raises AttributeError for an unknown name.
    """
    from importlib import import_module

    from owpc_ltr.python_help import with_help

    if name in homes:
        value = getattr(import_module(homes[name]), name)
    else:
        value = None if otherwise is None else otherwise(name)
    if value is None:
        raise AttributeError(f"module '{namespace['__name__']}' has no attribute '{name}'")
    namespace[name] = with_help(value)
    return value
