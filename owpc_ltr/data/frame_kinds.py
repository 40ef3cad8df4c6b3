"""What is a data frame, told without its library: models are asked, whatever they are given."""

from __future__ import annotations

import sys
from typing import Any


def is_frame(values: Any) -> bool:
    """Whether the values are a table with named columns."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.Series):
        return False
    return (
        is_pandas(values)
        or hasattr(values, "column_names")
        or (hasattr(values, "__arrow_c_stream__") and hasattr(values, "columns"))
    )


def is_pandas(values: Any) -> bool:
    """Whether the values are a data frame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.DataFrame)
