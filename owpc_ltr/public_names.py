"""Public names of a module, each imported from its home when it is first used.

_HOMES = {"train": "owpc_ltr.training.train"}

def __getattr__(name: str) -> Any:
return public_name(name, globals(), _HOMES)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


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
