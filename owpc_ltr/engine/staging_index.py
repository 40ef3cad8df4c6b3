"""Indices: which there are; how one is made, removed, and swapped in the place of another.

A staging index has a mark: an alias with a unique name. Documents are written through the alias,
and the one request that completes the index removes it, on condition that it exists. A run whose
mark was removed by another can neither write nor finish, however late its requests arrive. The mark
also identifies what a killed run leaves behind.

An index swap is one request: it removes the old index, gives its name and its other aliases to the
new one, and removes the mark. The name always means an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import quote

from owpc_ltr.engine.client.engine import Engine, EngineLike, answer_if_found
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    check_acknowledged,
    check_refreshed,
)
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused, give_warning
from owpc_ltr.names import (
    base_index,
    check_index,
    did_you_mean,
    index_beside,
    is_staging_mark,
    only_one,
    staging_mark,
)
from owpc_ltr.signatures import Progress

_OURS = "owpc-ltr"

Aliases = dict[str, Any]
"""The aliases of an index by name, each with its filter, routing and other properties."""
MERGE_SECONDS = 600.0
"""Seconds for the merge of an index into one segment."""


def create_index(engine: Engine, index: str, settings: dict[str, Any] | None) -> None:
    """Make an index with these settings and mappings. Raises Refused where there is one."""
    name = check_index(index)
    only = {"filter_path": "*.aliases"}
    present = answer_if_found(engine, "GET", f"/{name}", f"the index '{name}'", params=only)
    if present is not None:
        raise existing_index(name)
    answer = engine.request("PUT", f"/{name}", body=settings or {}, idempotent=False)
    check_acknowledged(answer, f"the new index '{name}'")


def drop_index(engine: Engine, index: str) -> None:
    """Take an index away; harmless where there is none."""
    what = f"the removal of '{index}'"
    answer = answer_if_found(engine, "DELETE", f"/{check_index(index)}", what)
    if answer is not None:
        check_acknowledged(answer.value, what)


def existing_index(index: str) -> Refused:
    """The refusal of an index that is there, with what can be done."""
    return Refused(
        f"the index '{index}' exists: add to it with `append`, or start it anew with `recreate`"
    )


def refresh(engine: Engine, index: str) -> None:
    """Let searches see what was written."""
    answer = engine.request("POST", f"/{check_index(index)}/_refresh")
    check_refreshed(answer, f"the refresh of '{index}'")


def merge_segments(engine: Engine, index: str) -> None:
    """Merge a finished index into one segment: searches of many queries gain most by it."""
    answer = engine.request(
        "POST",
        f"/{check_index(index)}/_forcemerge",
        params={"max_num_segments": 1},
        deadline=MERGE_SECONDS,
    )
    check_refreshed(answer, f"the merge of '{index}'")


class StagingIndex:
    """An index that is being loaded. `mark` is the alias by which documents go in."""

    def __init__(self, engine: Engine, index: str, mark: str) -> None:
        self._engine = engine
        self.index, self.mark = index, mark
        self.actions: list[dict[str, Any]] = []
        """Changes to aliases that are made together with the index's completion."""

    def make(self, settings: dict[str, Any]) -> None:
        """Make the index with the mark on it, in one request."""
        body = {**settings, "aliases": {**settings.get("aliases", {}), self.mark: {}}}
        try:
            answer = self._engine.request("PUT", f"/{self.index}", body=body)
            check_acknowledged(answer, f"the new index '{self.index}'")
        except (EngineRefusal, EngineUnavailable):
            # Also where the answer to the first of two was lost: the mark is nobody else's.
            if self.mark not in self._aliases():
                raise

    def finish(self) -> None:
        """Remove the mark, and do the `actions` on aliases, in one atomic request."""
        words = f"the aliases of '{self.index}'"
        try:
            _change_aliases(self._engine, words, *self.actions, self._unmark())
        except (EngineRefusal, EngineUnavailable) as fault:
            if self._is_whole():
                return
            # With its mark changed it cannot become whole by a request that is still on its way.
            if self.claim():
                raise
            if not self._is_whole():
                raise Refused(
                    f"another run started to load the same index later and took "
                    f"'{self.index}' over: wait for it"
                ) from fault

    def claim(self) -> bool:
        """Put another mark in the place of this one; whether this one was there."""
        mark = staging_mark(self.index)
        new = {"add": {"index": self.index, "alias": mark}}
        try:
            _change_aliases(self._engine, f"the mark of '{self.index}'", self._unmark(), new)
        except (EngineRefusal, EngineUnavailable):
            aliases = self._aliases()
            if self.mark in aliases:
                raise
            if mark not in aliases:
                return False
        self.mark = mark
        return True

    def give_up(self) -> None:
        """Remove the index, unless it is complete by now, or another run's."""
        try:
            if self.claim():
                # Sent once: a second one might take away what is made under this name later.
                path = f"/{self.index}"
                answer = self._engine.request("DELETE", path, idempotent=False)
                check_acknowledged(answer, f"the removal of '{self.index}'")
        except (EngineUnavailable, Refused) as error:
            give_warning(
                f"the index '{self.index}' is not used, and stays behind until documents are "
                f"indexed under its name again: {error}"
            )

    def _unmark(self) -> dict[str, Any]:
        return {"remove": {"index": self.index, "alias": self.mark, "must_exist": True}}

    def _aliases(self) -> Aliases:
        return indices_behind(self._engine, self.index).get(self.index, {})

    def _is_whole(self) -> bool:
        indices = indices_behind(self._engine, self.index)
        return self.index in indices and mark_of(indices[self.index]) is None


@contextmanager
def staging_index(engine: Engine, index: str, settings: dict[str, Any]) -> Iterator[StagingIndex]:
    """A new index, which is removed again whatever stops the work, a signal included."""
    staging = StagingIndex(engine, index, staging_mark(index))
    try:
        staging.make(settings)
        yield staging
        staging.finish()
    except BaseException:
        staging.give_up()
        raise


@contextmanager
def index_swap(
    engine: Engine, name: str, settings: dict[str, Any], progress: Progress
) -> Iterator[StagingIndex]:
    """A staging index beside the one that `name` means now, which then takes its place."""
    old = replaceable(name, indices_behind(engine, name))
    _remove_left_over(engine, name, progress)
    # An alias on both would show every document twice meanwhile.
    with staging_index(engine, index_beside(name), {**settings, "aliases": {}}) as new:
        yield new
        progress(f"putting it in the place of '{name}'", None)
        old_aliases = indices_behind(engine, old).get(old, {})
        aliases = {name: {}, **old_aliases, **settings.get("aliases", {})}
        added = [
            {"add": {"index": new.index, "alias": alias, **properties}}
            for alias, properties in aliases.items()
            if alias == name or mark_of({alias: {}}) is None
        ]
        new.actions = [{"remove_index": {"index": old}}, *added]


def replaceable(name: str, indices: dict[str, Aliases]) -> str:
    """The index that a name means, if it is one, and the name is its own or was given to it here.

    Raises Refused for an alias of somebody else's index, or of several.
    """
    if [*indices] != [name] and [base_index(index) for index in indices] != [name]:
        raise Refused(
            f"'{name}' is an alias of {', '.join(indices)}, which cannot be recreated: name the "
            "index itself"
        )
    return next(iter(indices))


def _remove_left_over(engine: Engine, name: str, progress: Progress) -> None:
    """Remove staging indices that stopped runs have left beside an index; the latest run wins.

    A run that still goes on notices by its missing mark, and stops.
    """
    for index, aliases in indices_behind(engine, f"{name}-owpc-ltr-%2A").items():
        mark = mark_of(aliases)
        if base_index(index) == name and index != name and mark is not None:
            progress(f"removing the unfinished index '{index}'", None)
            StagingIndex(engine, index, mark).give_up()


def indices_behind(engine: Engine, name: str) -> dict[str, Aliases]:
    """The index of this name, or those behind the alias, and their aliases; none if neither is.

    An asterisk at the end, written as %2A, asks for all that begin so.
    """
    answer = answer_if_found(engine, "GET", f"/{name}/_alias", f"the aliases of '{name}'")
    if answer is None:
        return {}
    return {index: answer[index]["aliases"].object for index in sorted(answer.object)}


def the_index(engine: Engine, name: str | None) -> str:
    """The index of this name, or the only one of the cluster that is no store or system index."""
    if name is not None:
        return check_index(name)
    return only_one(index_names(engine), "index", "`index`", engine.settings.url)


def close_index(engine: EngineLike, name: str, otherwise: str = "") -> str:
    """The question whether the index of a name like this is meant, or else `otherwise`."""
    with suppress(OwpcLtrError):  # the list may need a right that the work does not
        return did_you_mean(name, index_names(cast("Engine", engine)), otherwise)
    return otherwise


def index_names(engine: Engine) -> list[str]:
    """The indices of a cluster, sorted, but for stores and system indices."""
    answer = engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    listed = AnswerPart(answer, "its list of indices")
    names = set()
    for name in (row["index"].text for row in listed):
        base = base_index(name)
        if name.startswith((".", _OURS)):
            continue
        # What was made anew has its alias's name; what is staged has none.
        if base == name or base in indices_behind(engine, name).get(name, {}):
            names.add(base)
    return sorted(names)


def index_uuids(engine: Engine, name: str) -> str:
    """What tells an index, or all behind an alias, from others of this name, here or elsewhere."""
    answer = AnswerPart(engine.request("GET", f"/{quote(name, safe='')}"), f"'{name}'")
    parts = (answer[index]["settings"]["index"]["uuid"].text for index in answer.object)
    return ",".join(sorted(parts))


def mark_of(aliases: Aliases) -> str | None:
    """The mark of an index that is not whole."""
    return next(filter(is_staging_mark, aliases), None)


def check_may_swap(engine: Engine, index: str) -> None:
    """Raise the engine's refusal, before any work, if the user may not change the aliases."""
    absent = {"remove": {"index": index, "alias": staging_mark(index), "must_exist": True}}
    try:
        _change_aliases(engine, f"the aliases of '{index}'", absent)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise


def _change_aliases(engine: Engine, what: str, *actions: dict[str, Any]) -> None:
    answer = engine.request("POST", "/_aliases", body={"actions": list(actions)})
    check_acknowledged(answer, what)
