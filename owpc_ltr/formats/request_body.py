"""The body of a request as the text of a file."""

from __future__ import annotations

import json
from typing import Any


def body_text(body: dict[str, Any]) -> str:
    """JSON that people can read, ending in a line break."""
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
