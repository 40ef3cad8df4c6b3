"""JSON objects from files, read whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import read_text


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises BadInput naming the file and the place of the fault."""
    try:
        content = json.loads(read_text(path, largest=10_000_000))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no JSON object: it begins with {str(content)[:20]!r}")
    return content
