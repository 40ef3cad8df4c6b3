"""An index that is being filled, and the mark on it until it is whole.

The mark is an alias with a name of its own. Documents go in by it, and the one request that makes
the index whole takes it away, on the condition that it is there. So whoever has taken the mark away
decides: a run whose mark is gone can neither write nor finish, however late its requests arrive;
and what a killed run leaves behind is known by its mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.responses import Part, check_acknowledged
from owpc_ltr.errors import EngineUnavailable, Refused, give_warnings
from owpc_ltr.names import filling_mark, is_filling_mark

Aliases = dict[str, Any]
"""The aliases of an index by name, each with its filter, routing and other properties."""


class HalfFilled:
    """An index on its way. `mark` is the alias by which documents go in."""

    def __init__(self, engine: Engine, index: str, mark: str) -> None:
        self._engine = engine
        self.index, self.mark = index, mark

    def make(self, settings: dict[str, Any]) -> None:
        """Make the index, with the mark on it from its first moment."""
        body = {**settings, "aliases": {**settings.get("aliases", {}), self.mark: {}}}
        try:
            answer = self._engine.request("PUT", f"/{self.index}", body=body)
            check_acknowledged(answer, f"the new index '{self.index}'")
        except (EngineRefusal, EngineUnavailable):
            # Also where the answer to the first of two was lost: the mark is nobody else's.
            if self.mark not in self._aliases():
                raise

    def finish(self, *actions: dict[str, Any]) -> None:
        """Take the mark away, and do these actions on aliases in the same moment, or none."""
        words = f"the aliases of '{self.index}'"
        try:
            _change_aliases(self._engine, words, *actions, self._unmark())
        except (EngineRefusal, EngineUnavailable) as fault:
            if self._is_whole():
                return
            # With its mark changed it cannot become whole by a request that is still on its way.
            if self.claim():
                raise
            if not self._is_whole():
                raise self.taken() from fault

    def claim(self) -> bool:
        """Put another mark in the place of this one; whether this one was there."""
        mark = filling_mark(self.index)
        new = {"add": {"index": self.index, "alias": mark}}
        try:
            _change_aliases(self._engine, f"the mark of '{self.index}'", self._unmark(), new)
        except (EngineRefusal, EngineUnavailable):
            there = self._aliases()
            if self.mark in there:
                raise
            if mark not in there:
                return False
        self.mark = mark
        return True

    def give_up(self) -> None:
        """Take the index away, unless it is whole by now, or another run's."""
        try:
            if self.claim():
                # Sent once: a second one might take away what is made under this name later.
                path = f"/{self.index}"
                answer = self._engine.request("DELETE", path, idempotent=False)
                check_acknowledged(answer, f"the removal of '{self.index}'")
        except (EngineUnavailable, Refused) as error:
            give_warnings(
                [
                    f"the index '{self.index}' is not used, and stays behind until documents are "
                    f"indexed under its name again: {error}"
                ]
            )

    def taken(self) -> Refused:
        """The refusal where the mark is gone, so that documents do not go in any more."""
        return Refused(
            f"another run has begun to fill the same index since, and taken '{self.index}' from "
            "this one: wait for it"
        )

    def _unmark(self) -> dict[str, Any]:
        return {"remove": {"index": self.index, "alias": self.mark, "must_exist": True}}

    def _aliases(self) -> Aliases:
        return indices_behind(self._engine, self.index).get(self.index, {})

    def _is_whole(self) -> bool:
        there = indices_behind(self._engine, self.index)
        return self.index in there and mark_of(there[self.index]) is None


@contextmanager
def half_filled(engine: Engine, index: str, settings: dict[str, Any]) -> Iterator[HalfFilled]:
    """A new index, which is taken away again whatever stops the work, a signal included."""
    filling = HalfFilled(engine, index, filling_mark(index))
    try:
        filling.make(settings)
        yield filling
    except BaseException:
        filling.give_up()
        raise


def indices_behind(engine: Engine, name: str) -> dict[str, Aliases]:
    """The index of this name, or those behind the alias, and their aliases; none if neither is.

    An asterisk at the end, written as %2A, asks for all that begin so.
    """
    what = f"the aliases of '{name}'"
    try:
        answer = Part(engine.request("GET", f"/{name}/_alias"), what)
    except EngineRefusal as refusal:
        if refusal.status == 404:
            return {}
        raise
    return {index: answer[index]["aliases"].object for index in sorted(answer.object)}


def mark_of(aliases: Aliases) -> str | None:
    """The mark of an index that is not whole."""
    return next(filter(is_filling_mark, aliases), None)


def check_may_move(engine: Engine, index: str) -> None:
    """Raise, before any work, what the engine says to who may not change the index's aliases."""
    absent = {"remove": {"index": index, "alias": filling_mark(index), "must_exist": True}}
    try:
        _change_aliases(engine, f"the aliases of '{index}'", absent)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise


def _change_aliases(engine: Engine, what: str, *actions: dict[str, Any]) -> None:
    answer = engine.request("POST", "/_aliases", body={"actions": list(actions)})
    check_acknowledged(answer, what)
