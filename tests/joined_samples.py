"""Tables to join, written as files and given as frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.data.external_features.reading import read_joined_tables
from owpc_ltr.data.external_features.table import JoinedTable


def frame(columns: Mapping[str, Any]) -> pa.Table:
    return pa.table(dict(columns))


def written(path: Path, columns: Mapping[str, Any] | pa.Table, **how: Any) -> Path:
    table = columns if isinstance(columns, pa.Table) else frame(columns)
    pq.write_table(table, path, **how)
    return path


def table_of(columns: Mapping[str, Any]) -> JoinedTable:
    (table,) = read_joined_tables(frame(columns))
    return table
