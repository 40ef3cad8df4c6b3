"""Parquet files that cannot be read, as one line: damaged, or on a disk that fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from owpc_ltr.errors import BadInput, DiskFault


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read in this block: BadInput, or DiskFault of the disk."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EIO:
            raise DiskFault(f"cannot read {path}: {os.strerror(errno.EIO)}") from error
        why = (str(error).splitlines() or [type(error).__name__])[0].split(".")[0].lower()
        raise BadInput(
            f"cannot read {path}: it is no whole Parquet file ({why}): write or fetch it again"
        ) from error
