"""User Behavior Insights out of a cluster: its two indices, as they were, page by page.

- scan: the documents of an index in a window of time, pinned; slices: how many parts of it are read
  at once; documents: what they say
- kept: what was read so far, beside the output; reading: one index; read: both, gone on with after
  a stop
- searches, joined: events with the queries that they belong to, as batches
- named: documents that are named by another field than `_id`, found in their index
"""

from owpc_ltr_clicks.ubi.named import NamedDocuments
from owpc_ltr_clicks.ubi.read import UbiOptions, read_ubi

__all__ = ["NamedDocuments", "UbiOptions", "read_ubi"]
