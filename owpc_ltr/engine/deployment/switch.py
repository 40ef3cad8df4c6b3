"""The grounds for the switch of an alias: evidence, or a recorded reason to do without.

One function, `check_switch`, is called on every path to a switch, with the alias as it is stored at
that moment. An alias that has a model is switched only to a configuration that evidence found
better than the one that users have, or for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.evidence import (
    BY_USERS,
    Evidence,
    SearchConfiguration,
    content_digest,
    evidence_of,
)
from owpc_ltr.engine.search.request import query_digest
from owpc_ltr.engine.staging_index import index_uuids
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import Outcome

if TYPE_CHECKING:
    from owpc_ltr.engine.deployment.alias import Alias

MAX_AGE = timedelta(days=30)
"""How old evidence may be: users and the index change."""


@dataclass(frozen=True)
class SwitchGrounds:
    """Why an alias may be switched: evidence, or the reason to do without. Neither is the default.

    `typed_options` go with the command that makes the right evidence.
    """

    evidence: Evidence | None = None
    unproven: str | None = None
    typed_options: str = field(default="", compare=False)

    @classmethod
    def of(
        cls, require: object = None, unproven: str | None = None, typed_options: str = ""
    ) -> SwitchGrounds:
        """The grounds, with the evidence read. Raises UsageError for both, and an empty reason."""
        if unproven is not None and not unproven.strip():
            raise UsageError("`unproven` is empty: give the reason, which is recorded")
        if unproven is not None and require is not None:
            raise UsageError(
                "`require` and `unproven` do not go together: a "
                "switch has evidence, or a reason to do without"
            )
        return cls(None if require is None else evidence_of(require), unproven, typed_options)

    def as_dict(self, over: str | None) -> dict[str, Any] | None:
        """What a deployment record has of the switch; None where nothing was replaced."""
        if self.evidence is not None:
            return {"over": over, "evidence": self.evidence.as_dict()}
        return None if over is None else {"over": over, "unproven": self.unproven}


def configuration(
    name: str, index: str, model: str, search: Mapping[str, Any] | None, window: int | None = None
) -> SearchConfiguration:
    """That of a model of this digest; `search` is what a deployment record has of the search."""
    search = search or {}
    template = search.get("template")
    query = None if template is None else query_digest(template)
    return SearchConfiguration(name, index, query, model, search.get("window", window))


def deployed(record: DeploymentRecord) -> SearchConfiguration:
    """The configuration of an uploaded model, by its whole deployment record."""
    digest = content_digest(record.content, record.record)
    return configuration(record.model, record.index, digest, record.search)


def check_switch(
    records: DeploymentRecords,
    alias: Alias | None,
    new: SearchConfiguration,
    grounds: SwitchGrounds,
    *,
    name: str,
    file: Path | None = None,
) -> dict[str, Any] | None:
    """Refuse to switch an alias to a configuration that nothing shows to be better.

    `alias` is as it is stored at this moment, None where NAME has no model yet; `file` is the new
    model's, where it is not stored yet. Returns what the deployment record of the new model has of
    it. Raises Refused, with what is wrong and the command that makes the right evidence.
    """
    evidence = grounds.evidence
    if evidence is not None:
        new = replace(new, uuids=index_uuids(records.engine, new.index))
    if alias is None:
        if evidence is not None:
            alone = replace(evidence.old, model=None, index=new.index)
            _check(evidence, new, alone, name, _command(file, new, alone, "query", grounds))
        return grounds.as_dict(None)
    champion = None
    with suppress(BadInput):
        champion = records.find(alias.current)
    old = _unknown(alias.current, new) if champion is None else deployed(champion)
    changes = _changes(old, new)
    if not changes:
        return None if champion is None else champion.switch
    command = _command(file, new, old, name, grounds)
    if evidence is not None:
        _check(evidence, new, old, name, command, last_rollback=alias.last_rollback)
    elif grounds.unproven is None:
        known = ""
        if old.query is None:
            known = " upload that again with `query_template`, then"
        raise Refused(
            f"users of '{name}' have '{alias.current}', and would get another "
            f"{', '.join(changes)}: to replace it, show that it is better:{known} {command} and "
            "then "
            "`require='better.json'`; or say why without: `unproven='REASON'`"
        )
    return grounds.as_dict(alias.current)


def check_challenger(records: DeploymentRecords, alias: Alias, new: SearchConfiguration) -> None:
    """Refuse a challenger that changes what a rollback would bring back."""
    before = records.find(new.name) if new.name in alias.previous else None
    if before is not None and (changes := _changes(deployed(before), new)):
        raise Refused(
            f"'{new.name}' is an earlier model of '{alias.name}', and a rollback would bring it "
            f"back with another {', '.join(changes)} than users had: leave these as they were, or "
            f"upload it as champion with `require`"
        )


def _unknown(champion: str, new: SearchConfiguration) -> SearchConfiguration:
    """What users have by a model whose deployment record is lost; its upload makes it again."""
    model = new.model if champion == new.name else "unknown"
    return SearchConfiguration(champion, new.index, None, model)


def _changes(old: SearchConfiguration, new: SearchConfiguration) -> list[str]:
    """In what users would get something else. The first template of a model is no change."""
    if old.query is None:
        old = replace(old, query=new.query, window=new.window)
    return old.differences(new)


def _check(
    evidence: Evidence,
    new: SearchConfiguration,
    old: SearchConfiguration,
    name: str,
    command: str,
    *,
    last_rollback: str | None = None,
) -> None:
    faults = [*_faults(evidence, new, old, name, last_rollback)]
    if faults:
        more = "".join(f"; {advice}" for advice in evidence.more)
        better = evidence.verdict.get("outcome") == Outcome.BETTER
        instead = f": {command}" if better else more
        raise Refused(f"'{name}' is not switched: {'; '.join(faults)}{instead}")


def _faults(
    evidence: Evidence,
    new: SearchConfiguration,
    old: SearchConfiguration,
    name: str,
    last_rollback: str | None,
) -> Iterator[str]:
    """Why the evidence does not allow the switch."""
    is_known = old.query is not None or old.model is None
    if not is_known and evidence.by == BY_USERS:
        # Users had the application's own query, whatever it is, with both models.
        new = replace(new, query=evidence.new.query, window=evidence.new.window)
    if evidence.verdict.get("outcome") != Outcome.BETTER:
        yield f"the verdict of the evidence is '{evidence.reason}'"
    if parts := evidence.new.differences(new):
        yield (
            f"the evidence is of another {', '.join(parts)} than those of the switch "
            f"('{evidence.new.name}')"
        )
    if not is_known and evidence.by != BY_USERS:
        yield (
            f"what users have is not known, as '{old.name}' was uploaded without its query "
            f"template: upload it again with `query_template`, then compare"
        )
    elif parts := evidence.old.differences(old):
        yield (
            f"the evidence compares with {evidence.old.name}, and users have {old.name}, which is "
            f"another {', '.join(parts)}"
        )
    if evidence.by != BY_USERS and old.model is not None and evidence.alias != name:
        yield (
            f"the comparison was not counted among the attempts of '{name}': name the alias in it, "
            "and not a file or another alias"
        )
    written = datetime.fromisoformat(evidence.written)
    if last_rollback is not None and written <= datetime.fromisoformat(last_rollback):
        yield (
            f"the evidence is of {evidence.written}, and '{name}' was rolled back at "
            f"{last_rollback}: compare again"
        )
    age = datetime.now(UTC) - written
    if age > MAX_AGE or age < -timedelta(days=1):
        yield f"the evidence is of {evidence.written}, and must be of the last {MAX_AGE.days} days"


def _command(
    file: Path | None,
    new: SearchConfiguration,
    old: SearchConfiguration,
    over: str,
    grounds: SwitchGrounds,
) -> str:
    """The command that makes the right evidence."""
    template = "" if new.query == old.query else " --query-template FILE"
    is_same = old.window is None or new.window in {None, old.window}
    window = "" if is_same else f" --window {new.window}"
    return (
        f"owpc-ltr compare-live {file or new.name} {over} --judgments FILE{template}{window} "
        f"--out better.json{grounds.typed_options}"
    )


def switch_line(switch: Mapping[str, Any]) -> str:
    """What an alias was switched on, as its model's deployment record has it."""
    over, evidence = switch["over"], switch.get("evidence")
    if evidence is None:
        return f"replaced {over} without evidence: {switch['unproven']}"
    return (
        f"{evidence['verdict']['outcome']} than {over or evidence['old']['name']} by "
        f"{evidence['by']}, by evidence of {evidence['written']}"
    )
