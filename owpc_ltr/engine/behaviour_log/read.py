"""Both indices read, whole or on from where a run was stopped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from owpc_ltr.behaviour.reading import EventBatch
from owpc_ltr.engine.behaviour_log.documents import EVENT_FIELDS, QUERY_FIELDS, table_of
from owpc_ltr.engine.behaviour_log.joined import joined
from owpc_ltr.engine.behaviour_log.kept import Kept
from owpc_ltr.engine.behaviour_log.scan import Window, pages
from owpc_ltr.engine.feature_log.lock import locked
from owpc_ltr.engine.http.client import Engine

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class UbiOptions:
    """Which indices, and which time; without `until` it is when the run began."""

    queries: str = "ubi_queries"
    events: str = "ubi_events"
    since: str | None = None
    until: str | None = None


@contextmanager
def read_ubi(
    engine: Engine, folder: Path, options: UbiOptions, progress: Progress
) -> Iterator[Iterator[EventBatch]]:
    """The events, from a folder that is theirs while they are read.

    It is gone where the block ends well; after a stop the same call goes on with what is in it, to
    the same events. In it are ids of users until then, for its owner alone to read.
    """
    lock = locked(folder, folder)
    try:
        folder.chmod(0o700)
        kept = Kept(folder, asdict(options))
        if kept.until is None:
            kept.decide(datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
        window = Window(options.since, str(kept.until))
        for index, fields in ((options.queries, QUERY_FIELDS), (options.events, EVENT_FIELDS)):
            _read(engine, kept, index, fields, window, progress)
        yield joined(kept.tables(options.queries), kept.tables(options.events))
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _read(
    engine: Engine,
    kept: Kept,
    index: str,
    fields: dict[str, str],
    window: Window,
    progress: Progress,
) -> None:
    if kept.is_done(index):
        return
    read = 0
    for documents, after in pages(
        engine, index, sorted(fields.values()), window, kept.after(index)
    ):
        kept.add(index, table_of(documents, fields), after)
        read += len(documents)
        progress(f"reading {index}: {read:,}", None)
    kept.finish(index)
