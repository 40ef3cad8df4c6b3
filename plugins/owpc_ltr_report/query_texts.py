"""The texts of a dataset's queries, as far as the data know them."""

from __future__ import annotations

import json
from typing import Any

from owpc_ltr.data.judgments.topics import query_text


def texts_of(data: Any) -> tuple[str, ...]:
    """The text of each query of a dataset; nothing where it does not keep parameters."""
    params = getattr(data, "query_params", None)
    if params is None:
        return ()
    return tuple(_text(json.loads(one)) if one else "" for one in params.to_pylist())


def _text(content: Any) -> str:
    """Nothing where the parameters are no object."""
    return query_text(content) if isinstance(content, dict) else ""
