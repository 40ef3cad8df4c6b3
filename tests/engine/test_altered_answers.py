"""True answers, altered in one place: understood or refused in one line, whatever is altered.

Every act is run on a cluster in memory, and one part of one answer is left out, cut short, or
something else: a second answer shorter than the first among them.
"""

from __future__ import annotations

import copy
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import search_stored
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import OwpcLtrError, OwpcLtrWarning
from tests.engine.write_world import World, commands

EVERY = os.environ.get("OWPC_LTR_FAULTS") == "all"
ABSENT = object()
OTHERS: list[Any] = [ABSENT, None, [], {}, 7, "text", True, 10**400, 1e400, [None], {"a": 1}]


@dataclass
class Altered:
    """An engine whose answer to the n-th request is altered at a place of it."""

    engine: Any
    number: int
    alter: Callable[[Any], Any]
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def request(self, *asked: Any, **given: Any) -> Any:
        self.calls += 1
        answer = self.engine.request(*asked, **given)
        return self.alter(answer) if self.calls == self.number else answer


def places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be altered; of equal parts of a list, the first and the last."""
    yield above
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from places(part, (*above, key))
    elif isinstance(tree, list) and tree:
        for number in sorted({0, len(tree) - 1}):
            yield from places(tree[number], (*above, number))


def altered(answer: Any, place: tuple[Any, ...], other: Any) -> Any:
    if not place:
        return None if other is ABSENT else other
    changed = copy.deepcopy(answer)
    inside = changed
    try:
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]]
    except (KeyError, IndexError, TypeError):
        return answer  # which had another place, after an index of another name
    if other is ABSENT:
        del inside[place[-1]]
    else:
        inside[place[-1]] = other
    return changed


def acts(world: World) -> dict[str, Callable[[Engine], object]]:
    model = world.state()[1][0]

    def searched(engine: Engine) -> object:
        store = PluginFreeStore(engine)
        request = SearchRequest("small", {"match": {"title": "{{keywords}}"}}, {"keywords": "a"})
        return search_stored(engine, store, request, store.get_model(model))

    return {
        **commands(world),
        "verify": lambda e: verify_model(e, PluginFreeStore(e), model, tolerance=1e-5),
        "search": searched,
    }


NAMES = (
    "upload",
    "rollback",
    "promote",
    "delete",
    "prune",
    "recreate",
    "append",
    "verify",
    "search",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_true_answer_that_is_altered_anywhere_is_never_a_traceback(
    name: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    start = copy.deepcopy(world.cluster.indices)
    answers: list[Any] = []

    def keep(answer: Any) -> Any:
        answers.append(copy.deepcopy(answer))
        return answer

    class Recording(Altered):
        def request(self, *asked: Any, **given: Any) -> Any:
            return keep(self.engine.request(*asked, **given))

    acts(world)[name](cast(Engine, Recording(world.cluster, 0, keep)))
    cells = [
        (number, place, other)
        for number, answer in enumerate(answers, 1)
        for place in places(answer)
        for other in range(len(OTHERS))
    ]
    # Changing the seed gives other cells; a failure names its own.
    chosen = random.Random(name).sample(cells, min(len(cells), 3000 if EVERY else 60))  # noqa: S311
    for number, place, other in chosen:
        world.cluster.indices = copy.deepcopy(start)
        alter = partial(altered, place=place, other=OTHERS[other])
        engine = Altered(world.cluster, number, alter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OwpcLtrWarning)
            try:
                acts(world)[name](cast(Engine, engine))
            except OwpcLtrError as error:
                assert "\n" not in str(error), (number, place, other)  # noqa: PT017
            except Exception as error:
                raise AssertionError(f"{(number, place, OTHERS[other])}: {error!r}") from error
