"""User Behavior Insights out of a cluster: its two indices, as they were, page by page.

- scan: the documents of an index in a window of time, pinned; documents: what they say
- kept: what was read so far, beside the output; read: all of it, gone on with after a stop
- joined: events with the queries that they belong to, as batches
"""

from owpc_ltr.engine.behaviour_log.read import UbiOptions, read_ubi

__all__ = ["UbiOptions", "read_ubi"]
