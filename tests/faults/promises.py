"""What holds after any command, whatever went wrong: what a cell is checked against."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

from tests.faults.running import Ended
from tests.faults.stage import Clean, Stage, made
from tests.faults.world import State, World

_SIGNALLED = 128
SILENT = {_SIGNALLED + signal.SIGKILL}
OLD = b"what stood here before\n"
"""What is in the place of a published file before a command."""
_MARK = re.compile(r"-owpc-ltr-[0-9a-f]+-filling$")
"""The alias of an index that is not whole yet."""


def broken(
    stage: Stage,
    world: World,
    clean: Clean,
    ended: Ended,
    expected: str,
    *,
    cut_off: bool,
    published: bool = False,
    unsure: bool = False,
) -> list[str]:
    """The promises that a command has broken, in words.

    `cut_off` is whether the cluster could not be reached any more, so that nothing could be
    cleaned up or looked at; `published` whether the file may be in its place in spite of a fault;
    `unsure` whether the command may not know that its work is done.
    """
    state, printed, file = made(stage, world, ended)
    signalled = ended.code > _SIGNALLED and ended.code not in SILENT
    if signalled and not ended.err:
        # Before anything was begun, or between the result and the end, there is nothing to tell.
        done = not stage.out or file == clean.published
        begun = not _same(state, clean.before) or (bool(stage.out) and file != OLD)
        if begun:
            where = "ended without a word, and"
            problems = [] if done else [f"{where} another file"]
            return problems + _differences(where, state, clean.after)
        return []
    # What is ended by a signal that cannot be caught says nothing.
    problems = [] if ended.code in SILENT else ended.faults()
    if str(ended.code) not in expected.split("|"):
        problems.append(f"exit code {ended.code} in place of {expected}: {ended.line}")
    if ended.code == 0:
        problems += _differences("success, but", state, clean.after)
        if printed != clean.printed:
            problems.append(f"success, but it prints {printed!r} in place of {clean.printed!r}")
        if file != clean.published:
            problems.append("success, but another file")
    else:
        if stage.out and file != OLD and not (published and file == clean.published):
            problems.append("a failed command has replaced the file")
        problems += _between(clean, state, ended, cut_off=cut_off)
        finished = "after the work was complete" in ended.line
        if stage.once and _same(state, clean.after) and not (cut_off or unsure or finished):
            problems.append(f"it is done, and said to have failed: {ended.line}")
    return problems + list(_litter(stage, world, hidden=ended.code not in SILENT and not cut_off))


def broken_when_repeated(
    stage: Stage, world: World, clean: Clean, *, killed: bool = False
) -> list[str]:
    """The promises that the same command breaks when nothing goes wrong any more."""
    if is_done(stage, world, clean):
        return []
    ended = world.run(*stage.command(world))
    if ended.code:
        return [f"repeated: exit code {ended.code}: {ended.line}"]
    state, printed, published = made(stage, world, ended)
    problems = [f"repeated: {problem}" for problem in ended.faults()]
    problems += _differences("repeated:", state, clean.after)
    # What was done already is told in other words than what is done now.
    if stage.kind.value != "writes" and printed != clean.printed:
        problems.append(f"repeated: it prints {printed!r} in place of {clean.printed!r}")
    if published != clean.published:
        problems.append("repeated: another file")
    return problems + list(_litter(stage, world, hidden=not killed))


def is_done(stage: Stage, world: World, clean: Clean) -> bool:
    """Whether all is as the command makes it, and it is one that must not be given once more."""
    return stage.once and _same(world.state(), clean.after)


def _same(state: State, other: State) -> bool:
    return not _differences("", state, other)


def _documents(state: State) -> dict[str, Any]:
    """The documents of indices by the names by which they are searched, aliases included."""
    documents_by_index = {}
    for index, documents in state["indices"].items():
        names = [name for name in state["aliases"][index] if not _MARK.search(name)]
        for name in names or [index]:
            documents_by_index[name] = documents
    return documents_by_index


def _differences(where: str, state: State, wanted: State) -> list[str]:
    problems = []
    for what, now, then in (
        ("indices", _documents(state), _documents(wanted)),
        ("store", state["store"], wanted["store"]),
        ("names", state["names"], wanted["names"]),
    ):
        other = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
        if other:
            problems.append(f"{where} {what} differ: {', '.join(other)}")
    return problems


def half_done(clean: Clean, state: State) -> Iterator[str]:
    """What a killed command must not leave; an index that is not used yet it may."""
    yield from _half_names(clean, state)
    before, after = _documents(clean.before), _documents(clean.after)
    for name, now in _documents(state).items():
        if name in before and now not in (before[name], after.get(name)):
            yield from _unless_appended(name, before, now, after)


def _between(clean: Clean, state: State, ended: Ended, *, cut_off: bool) -> Iterator[str]:
    """What is neither as before nor as after."""
    yield from _half_indices(clean, state, ended, cut_off=cut_off)
    yield from _half_names(clean, state)


def _half_names(clean: Clean, state: State) -> Iterator[str]:
    for part in ("store", "names"):
        before, now, after = clean.before[part], state[part], clean.after[part]
        for name in sorted(now.keys() | before.keys() | after.keys()):
            if now.get(name) not in (before.get(name), after.get(name)):
                yield f"'{name}' in {part} is neither the old nor the new"
    models = {
        document["name"] for document in state["store"].values() if document.get("type") == "model"
    }
    for name, content in state["names"].items():
        used = {content.get("current"), content.get("challenger"), *content.get("previous", ())}
        gone = sorted(used - models - {None})
        if gone and not name.startswith("deployment_record"):
            yield f"the name '{name}' may lead to '{gone[0]}', which is not there"


def _half_indices(clean: Clean, state: State, ended: Ended, *, cut_off: bool) -> Iterator[str]:
    now = _documents(state)
    before, after = _documents(clean.before), _documents(clean.after)
    for name in sorted(before.keys() | after.keys()):
        if now.get(name) in (before.get(name), after.get(name)):
            continue
        # What cannot be taken away without a cluster is named.
        if not (cut_off and name not in before and _names(ended, name)):
            yield from _unless_appended(name, before, now.get(name, {}), after)
    for name in sorted(now.keys() - before.keys() - after.keys()):
        if not (cut_off and _names(ended, name)):
            yield f"the index '{name}' was left behind, and is not named"


def _names(ended: Ended, name: str) -> bool:
    """Whether a command that could say anything has named it."""
    return ended.code in SILENT or name in ended.err


def _unless_appended(
    name: str, before: dict[str, Any], now: dict[str, Any], after: dict[str, Any]
) -> Iterator[str]:
    """Documents are added one after the other; none is lost meanwhile."""
    old, new = before.get(name), after.get(name, {})
    if old is None or not _within(old, now) or not _within(now, new):
        yield f"the index '{name}' is neither the old nor the new"


def _within(some: dict[str, Any], all_: dict[str, Any]) -> bool:
    return all(key in all_ and all_[key] == value for key, value in some.items())


def _litter(stage: Stage, world: World, *, hidden: bool = True) -> Iterator[str]:
    """Files that nobody asked for; kept work is what the command says it keeps."""
    known = world.files | set(stage.keeps)
    if stage.out:
        known |= {stage.out, f"{stage.out}.run"}
    for path in sorted(world.folder.iterdir()):
        # What a killed command was writing stays, where it is not seen.
        if path.name not in known and (hidden or not path.name.startswith(".")):
            yield f"the file {path.name} was left behind"
