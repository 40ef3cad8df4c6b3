"""Experiments as documents of the cluster: two frozen rankers, and what became of the comparison.

They stand beside the aliases. A change is refused where another one came first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.evidence import now
from owpc_ltr.engine.versioned_documents import INDEX, VersionedDocuments
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.host.settings import check_settings
from owpc_ltr.text import ShortRepr

QUERY = "query"
"""The arm that is the query alone, without a model."""
RUNNING, PROMOTING, STOPPED = "running", "promoting", "stopped"
_FORMAT = 1
_KEY = "experiment"


@dataclass(frozen=True, repr=False)
class Experiment(ShortRepr):
    """Two frozen rankers that are compared by the clicks of users.

    `a` is what users have, `b` what is tried: NAME-HASH, or `query`. `alias` was set to `a` when
    the experiment `started` (ISO 8601), if an alias was. `page` is how many results a page has.
    With `shadow`, `b` is computed and not shown. `state` is `running`, `promoting` (the alias is
    about to be switched) or `stopped`; `result` is that of the look that promoted `b`. `searches`
    has the digest of the query template and the window of each model at the start, where known.
    """

    name: str
    a: str
    b: str
    index: str
    started: str
    alias: str | None = None
    page: int = 10
    shadow: bool = False
    state: str = RUNNING
    result: Mapping[str, Any] | None = None
    stopped: str | None = None
    searches: Mapping[str, Any] | None = None

    @property
    def in_use(self) -> str:
        """The ranker that users have without the experiment: the alias, or the frozen `a`."""
        return self.alias or self.a

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        hidden = " (B is computed, not shown)" if self.shadow else ""
        lines = [
            f"experiment '{self.name}': {self.state}{hidden}",
            f"A: {self.a}" + (f" (of '{self.alias}')" if self.alias else ""),
            f"B: {self.b}",
            f"since {self.started}",
        ]
        if self.stopped:
            lines.append(f"stopped {self.stopped}")
        return "\n".join(lines)


class Experiments:
    """The experiments of a cluster."""

    def __init__(self, engine: Engine) -> None:
        """Use the cluster behind `engine`."""
        self._url = engine.settings.url
        look = "look at it (owpc-ltr experiment status {})"
        self._documents = VersionedDocuments(
            engine, "the experiment", f"{_KEY}/", named="search experiment", look=look
        )

    def find(self, name: str) -> Experiment | None:
        """The experiment of this name, if there is one."""
        stored = self._documents.read(name)
        return _experiment(name, stored.content) if stored else None

    def get(self, name: str) -> Experiment:
        """The experiment of this name. Raises BadInput if there is none."""
        experiment = self.find(name)
        if experiment is None:
            raise BadInput(
                f"there is no experiment '{name}' in {self._url}: check the name, "
                "or start it: owpc-ltr experiment start"
            )
        return experiment

    def start(self, experiment: Experiment) -> None:
        """Keep a new experiment. Raises Refused where one of its name runs."""
        name, stored = experiment.name, self._documents.read(experiment.name)
        running = _experiment(name, stored.content) if stored else None
        if running and running.state != STOPPED:
            raise Refused(
                f"the experiment '{name}' runs since {running.started} ({running.a} against "
                f"{running.b}): take another name, or stop it: owpc-ltr experiment stop {name}"
            )
        self._documents.replace(name, _content(experiment), stored)

    def change(self, before: Experiment, after: Experiment) -> None:
        """Replace an experiment as it was read. Raises Refused where it is another by now."""
        stored = self._documents.read(before.name)
        if stored is None or _experiment(before.name, stored.content) != before:
            raise self._documents.changed(before.name)
        self._documents.replace(after.name, _content(after), stored)

    def end(self, experiment: Experiment) -> Experiment:
        """Stop an experiment now. Raises Refused where it is another by now."""
        ended = replace(experiment, state=STOPPED, stopped=now())
        self.change(experiment, ended)
        return ended


def _content(experiment: Experiment) -> dict[str, Any]:
    """The document. It keeps the rankers from being deleted until the experiment is stopped."""
    content: dict[str, Any] = {_KEY: {"format": _FORMAT, **experiment.as_dict()}}
    if experiment.state == STOPPED:
        return content
    models = [model for model in (experiment.a, experiment.b) if model != QUERY]
    return {**content, "pinned": models, "pinned_by": f"the experiment '{experiment.name}'"}


def _experiment(name: str, source: Mapping[str, Any]) -> Experiment:
    place = f"the record of the experiment '{name}' in the index {INDEX}"
    content = source.get(_KEY)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise BadInput(f"{place} is damaged, or of a later version of owpc-ltr: use that one")
    names = {field.name for field in fields(Experiment)} & content.keys()
    try:
        experiment = Experiment(**{key: content[key] for key in names})
        check_settings(experiment)
    except (TypeError, UsageError) as error:
        raise BadInput(
            f"{place} is damaged ({error}): delete it, and start the experiment again"
        ) from error
    return experiment
