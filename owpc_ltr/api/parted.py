"""Which part of a folder is logged, from text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.engine.feature_log import PartitionedOutput


def parted_of(buckets: int | None, part: str | None) -> PartitionedOutput | None:
    """A folder of so many buckets, and the part of it that is meant; None where none is.

    Raises UsageError for a text that is no part.

    >>> parted_of(None, "3/16").share
    Share(number=3, of=16)
    """
    from owpc_ltr.data.options import DEFAULT_BUCKETS
    from owpc_ltr.data.partitioned.manifest import Share
    from owpc_ltr.engine.feature_log import PartitionedOutput
    from owpc_ltr.errors import UsageError

    if buckets is None and part is None:
        return None
    share = Share()
    if part is not None:
        number, slash, of = part.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise UsageError(f"'{part[:40]}' is no part: write it as 3/16, the third of sixteen")
        share = Share(int(number), int(of))
    return PartitionedOutput(DEFAULT_BUCKETS if buckets is None else buckets, share)
