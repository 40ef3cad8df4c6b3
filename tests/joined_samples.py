"""Tables to join, written as files and given as frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.data.external_features.reading import read_external_features
from owpc_ltr.data.external_features.table import ExternalTable


def frame(columns: Mapping[str, Any]) -> pa.Table:
    return pa.table(dict(columns))


def written(path: Path, columns: Mapping[str, Any] | pa.Table, **how: Any) -> Path:
    table = columns if isinstance(columns, pa.Table) else frame(columns)
    pq.write_table(table, path, **how)
    return path


def table_of(columns: Mapping[str, Any]) -> ExternalTable:
    (table,) = read_external_features(frame(columns))
    return table
