"""One index read into what is kept: all of its slices at once, as many as the engine bears."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pyarrow as pa

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.feature_log.pinned import Pinned
from owpc_ltr.errors import EngineUnavailable, Refused, give_warnings
from owpc_ltr_clicks.ubi.asked import Asked
from owpc_ltr_clicks.ubi.documents import table_of
from owpc_ltr_clicks.ubi.kept import Kept, Progress
from owpc_ltr_clicks.ubi.scan import Place, Slice, Window, count, moment, pages
from owpc_ltr_clicks.ubi.slices import layout_of, slices_of

Show = Callable[[str, float | None], None]


class IndexReader:
    """Reads an index in a window of time, and goes on where a run before was stopped.

    What has no time in the index may have one in itself, and be in the time that is `asked` for.
    """

    def __init__(
        self,
        engine: Engine,
        kept: Kept,
        window: Window,
        asked: Asked,
        slices: int | None,
        show: Show,
    ) -> None:
        self._engine, self._kept, self._window, self._asked = engine, kept, window, asked
        self._slices, self._show = slices, show
        self._elastic = engine.about().distribution == "elasticsearch"

    def read(self, index: str, fields: Mapping[str, str]) -> None:
        """Read what is not kept yet. Refused where the engine gives less than it says it has."""
        known = self._kept.progress(index)
        if known is not None and known.done:
            return
        with (
            ConcurrencyLimiter(self._slices or 8) as limiter,
            moment(self._engine.limited(limiter), index, elastic=self._elastic) as pinned,
        ):
            known = self._begun(pinned, index, known)
            run = _Run(self._kept, index, self._show)
            parts, names = self._parts(known.slices), sorted(fields.values())

            def work(number: int) -> None:
                part = parts[number]
                for documents, after in pages(pinned, index, names, part, known.after[number]):
                    table, lost = table_of(documents, fields), dict[str, int]()
                    if part.untimed:
                        table, lost = self._asked.keep(table)
                    run.add(number, table, len(documents), after, lost)
                run.end(number)

            waiting = [number for number, ended in enumerate(known.ended) if not ended]
            try:
                with RequestThreads(len(waiting)) as threads:
                    threads.map(work, waiting)
            finally:
                run.stop()
            # Another moment than that of the beginning may have other documents.
            if self._count(pinned, index) == known.there:
                self._check_whole(index, known)
        self._kept.finish(index)

    def _count(self, pinned: Pinned, index: str) -> int:
        return sum(count(pinned, index, part.query) for part in self._parts(1))

    def _check_whole(self, index: str, known: Progress) -> None:
        if known.documents != known.there:
            self._kept.forget(index)
            raise Refused(
                f"the engine gave {known.documents:,} of the {known.there:,} documents of "
                f"'{index}' that it counts: run the same command again, with --slices 1"
            )

    def _parts(self, slices: int) -> list[Slice]:
        return self._window.slices(slices, elastic=self._elastic)

    def _begun(self, pinned: Pinned, index: str, known: Progress | None) -> Progress:
        """How far it was read; else its beginning."""
        layout = layout_of(self._engine, index)
        if known is not None:
            if known.slices == 1 or (layout is not None and layout == known.layout):
                return known
            give_warnings([
                f"'{index}' is of other shards than when this run began: it is read again"
            ])  # fmt: skip
        slices = slices_of(pinned, index, self._window, layout, self._slices)
        lost = {why: count(pinned, index, query) for why, query in self._asked.lost().items()}
        runs = len(self._parts(slices))
        known = Progress(
            slices, runs, layout, self._count(pinned, index), {w: n for w, n in lost.items() if n}
        )
        self._kept.begin(index, known)
        return known


class _Run:
    """What threads bring, kept by one of them at a time, until the run is at its end."""

    def __init__(self, kept: Kept, index: str, show: Show) -> None:
        self._kept, self._index = kept, index
        self._show = show
        self._lock = threading.Lock()
        self._stopped = False

    def add(
        self, number: int, table: pa.Table, documents: int, after: Place, lost: Mapping[str, int]
    ) -> None:
        with self._lock:
            self._refuse_late()
            known = self._kept.add(self._index, number, table, documents, after, lost)
            self._show(f"reading {self._index}: {known:,}", None)

    def end(self, number: int) -> None:
        with self._lock:
            self._refuse_late()
            self._kept.end(self._index, number)

    def stop(self) -> None:
        """Keep nothing any more: what a thread still brings is read again by the next run."""
        with self._lock:
            self._stopped = True

    def _refuse_late(self) -> None:
        if self._stopped:
            raise EngineUnavailable("what this was read for has ended")
