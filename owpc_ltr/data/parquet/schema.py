"""The schema of a dataset file: its version, metadata key and columns."""

import pyarrow as pa

FORMAT = 1
KEY = b"owpc_ltr"
COLUMNS = {
    "query_id": pa.string(),
    "document_id": pa.string(),
    "label": pa.float32(),
    "document_weight": pa.float32(),
    "query_weight": pa.float64(),
    "query_params": pa.string(),
    "comment": pa.string(),
}
NEEDED = ("query_id", "label")
PER_QUERY = ("query_id", "query_weight", "query_params")
LEARNABLE = ("query_id", "label", "document_weight", "query_weight")
