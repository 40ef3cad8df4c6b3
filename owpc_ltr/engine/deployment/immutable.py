"""Immutable names: a model's own name, made of the one that applications use and of its content."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.names import immutable, split_immutable


def immutable_name(name: str, stored: StoredModel) -> str:
    """`name-hash`: the same content always gets the same name, another content another."""
    return immutable(name, _digest(stored, stored.definition))


def is_named_by_content(stored: StoredModel) -> bool:
    """Whether a model in a store has the hash of its own content in its name.

    Nobody but an upload of owpc-ltr names models so: one in four billion would be so by chance.
    """
    parts = split_immutable(stored.name)
    if parts is None:
        return False
    # The LTR plugin may give as text what was sent to it as an object.
    definitions = [stored.definition]
    if isinstance(stored.definition, str):
        with suppress(ValueError, RecursionError):
            definitions.append(json.loads(stored.definition))
    return any(_digest(stored, each).startswith(parts[1]) for each in definitions)


def _digest(stored: StoredModel, definition: Any) -> str:
    content = [stored.type, definition, stored.feature_normalizers, stored.featureset.hash]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
