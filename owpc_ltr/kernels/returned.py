"""What a loss written in Python returns for its first query, looked at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.errors import PluginError


def check_price(name: str, returned: Any, documents: int) -> None:
    """Refuse what is no value and gradient. Raises PluginError: the loss, and what it returned."""
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        raise PluginError(
            f"loss '{name}' returned {_shown(returned)} for a query of {documents} documents: "
            "return (value, gradient)"
        )
    value, gradient = returned
    if not (_is_numeric(value) and np.ndim(value) == 0 and np.isfinite(value)):
        raise PluginError(
            f"loss '{name}' returned the value {_shown(value)} for a query of {documents} "
            "documents: return one finite number"
        )
    if not _is_numeric(gradient):
        raise PluginError(
            f"loss '{name}' returned the gradient {_shown(gradient)} for {documents} documents: "
            "return an array of one number a document"
        )
    if np.shape(gradient) != (documents,):
        raise PluginError(
            f"loss '{name}' gave a gradient of shape {np.shape(gradient)} for {documents} "
            "documents: return one entry a document"
        )
    if not np.isfinite(gradient).all():
        raise PluginError(
            f"loss '{name}' returned a gradient that is not finite for a query of {documents} "
            f"documents: {_shown(gradient)}"
        )


def _is_numeric(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:
        # Rows of several lengths.
        return False


def _shown(value: Any) -> str:
    """A value in one short line, with its type where its text does not tell."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}… ({type(value).__name__})"
