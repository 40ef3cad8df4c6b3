"""Both indices read, whole or on from where a run was stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.feature_log.lock import locked
from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_clicks.reading import EventBatch
from owpc_ltr_clicks.ubi.asked import Asked
from owpc_ltr_clicks.ubi.documents import EVENT_FIELDS, QUERY_FIELDS
from owpc_ltr_clicks.ubi.joined import joined
from owpc_ltr_clicks.ubi.kept import Kept
from owpc_ltr_clicks.ubi.reading import IndexReader, Show
from owpc_ltr_clicks.ubi.scan import Window


@dataclass(frozen=True)
class UbiOptions:
    """Which indices, and which time; without `until` it is when the run began.

    `slices` are read at once; without a number, as many as the index has shards.
    """

    queries: str = "ubi_queries"
    events: str = "ubi_events"
    since: str | None = None
    until: str | None = None
    slices: int | None = None


@contextmanager
def read_ubi(
    engine: Engine, folder: Path, options: UbiOptions, show: Show
) -> Iterator[Iterator[EventBatch]]:
    """The events, from a folder that is theirs while they are read.

    It is gone where the block ends well; after a stop the same call goes on with what is in it, to
    the same events. In it are ids of users until then, for its owner alone to read.
    """
    lock = locked(folder, folder)
    try:
        folder.chmod(0o700)
        asked = {name: said for name, said in asdict(options).items() if name != "slices"}
        kept = Kept(folder, asked)
        if kept.until is None:
            kept.decide(datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
        window = Window(options.since, str(kept.until))
        within = Asked(options.since, options.until, str(kept.until))
        reader = IndexReader(engine, kept, window, within, options.slices, show)
        try:
            reader.read(options.queries, QUERY_FIELDS)
            reader.read(options.events, EVENT_FIELDS)
        except EngineUnavailable as error:
            kept_in = f"what was read is kept in {folder}"
            raise EngineUnavailable(
                f"{error}; {kept_in}, and the same command goes on from there"
            ) from error
        yield _all(kept, options)
        kept.remove()
    finally:
        os.close(lock)


def _all(kept: Kept, options: UbiOptions) -> Iterator[EventBatch]:
    for index in (options.queries, options.events):
        yield EventBatch({}, lost=kept.lost(index))
    yield from joined(kept.tables(options.queries), kept.tables(options.events))
