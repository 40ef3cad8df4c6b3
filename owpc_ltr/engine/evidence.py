"""Evidence: what users have, compared with what they will have, as a document that a switch reads.

Users get the results of a search configuration: a model or none, a query template, its window, an
index. Evidence compares two of them, live or by what users did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from owpc_ltr.data.blocks import wrapped_text
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.output import digest_of, finite_json, write_output
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.host.settings import check_settings
from owpc_ltr.models.model_file import content_of
from owpc_ltr.protocols import RankingModel
from owpc_ltr.text import ShortRepr

LIVE, BY_USERS = "live results", "clicks of users"
QUERY_ALONE = "the query alone"
_FORMAT = 1


def now() -> str:
    """The time, in ISO 8601."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, repr=False)
class SearchConfiguration(ShortRepr):
    """What users get: a model or none, a query template, its window, an index.

    `model` and `query` are digests: of the model's content, None for the query alone, and of the
    template with its filters, None where it is not known. `window` is how many documents the model
    rescores, None without one. `name` is what the ranker is called. `uuids` are those of the index,
    or of all behind its name, when it was searched; None where users searched.
    """

    name: str
    index: str
    query: str | None
    model: str | None = None
    window: int | None = None
    uuids: str | None = None

    def differences(self, other: SearchConfiguration) -> list[str]:
        """In which parts it differs from another one."""
        windows = self.model is not None and self.window != other.window
        rebuilt = self.index == other.index and None not in (uuids := {self.uuids, other.uuids})
        parts = {
            "model": self.model != other.model,
            "query template": self.query != other.query,
            f"window ({self.window} and {other.window})": windows,
            f"index ('{self.index}' and '{other.index}')": self.index != other.index,
            f"index behind the name '{self.index}'": rebuilt and len(uuids) > 1,
        }
        return [part for part, differs in parts.items() if differs]


@dataclass(frozen=True, repr=False)
class Evidence(ShortRepr):
    """The comparison of two search configurations, as a document that a switch reads.

    `new` is what users will have, `old` what they have; `by` says what the verdict is of.
    `alias` is the one whose attempts the comparison is counted among, if it is.
    `verdict`, `figures` and `judges` are JSON: the outcome with its reasons, the difference with
    interval, p and corrections, and how many judgments each judge gave. `more` says how to get
    more evidence. `written` is its time (ISO 8601).
    """

    new: SearchConfiguration
    old: SearchConfiguration
    by: str
    verdict: Mapping[str, Any]
    figures: Mapping[str, Any]
    judges: Mapping[str, int] = field(default_factory=dict)
    more: Sequence[str] = ()
    alias: str | None = None
    written: str = field(default_factory=now)

    @property
    def reason(self) -> str:
        """The outcome, and why it cannot be told."""
        reasons = "; ".join(str(reason["message"]) for reason in self.verdict.get("reasons") or ())
        return f"{self.verdict.get('outcome')}{reasons and ': '}{reasons}"

    def as_dict(self) -> dict[str, Any]:
        """The evidence as JSON, with a digest that a change makes wrong."""
        content: dict[str, Any] = finite_json({"format": _FORMAT, **asdict(self)})
        content["more"] = list(self.more)
        return {**content, "digest": digest_of(content)}

    @property
    def digest(self) -> str:
        """What tells this evidence from any other."""
        return str(self.as_dict()["digest"])

    def write(self, path: Path | str) -> None:
        """Write the evidence to a file."""
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        write_output(Path(path), f"{text}\n".encode())

    def __str__(self) -> str:
        lines = [
            f"{self.reason} ({self.new.name} against {self.old.name}, by {self.by})",
            f"written {self.written}",
            *self.more,
        ]
        return "\n".join(map(wrapped_text, lines))


def read_evidence(path: Path | str) -> Evidence:
    """The evidence of a file. Raises BadInput for a file that is none, or was changed."""
    return parse_evidence(read_json_object(Path(path)), str(path))


def parse_evidence(content: dict[str, Any], place: str) -> Evidence:
    """The evidence of a JSON object. Raises BadInput, naming the place."""
    parts = {key: part for key, part in content.items() if key != "digest"}
    if content.get("format") != _FORMAT or "digest" not in content:
        raise BadInput(
            f"{place} is no evidence of this version: write it with `compare_live(out=…)` "
            "or `experiment_status(out=…)`"
        )
    if content["digest"] != digest_of(parts):
        raise BadInput(f"{place} was changed since it was written: compare again")
    try:
        given = {each.name: parts[each.name] for each in fields(Evidence)}
        new, old = (SearchConfiguration(**given.pop(side)) for side in ("new", "old"))
        evidence = Evidence(new, old, **given)
        check_settings(evidence)
        if datetime.fromisoformat(evidence.written).tzinfo is None:
            raise ValueError("written")
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error
    return evidence


def evidence_of(source: object) -> Evidence:
    """Evidence as it is given: a file, what was read, or a result that is evidence."""
    if isinstance(source, Path | str):
        return read_evidence(source)
    if isinstance(source, Evidence):
        return source
    make = getattr(source, "evidence", None)
    if make is None:
        raise UsageError(
            f"`require` is evidence: a file that compare-live or experiment status "
            f"wrote, or what these return in Python, not {type(source).__name__}; a comparison on "
            "judged documents is not evidence"
        )
    evidence: Evidence = make()
    return evidence


def model_digest(model: RankingModel) -> str:
    """A digest of what a model computes, and of the feature set that it was trained on."""
    content = content_of(model)
    return content_digest(content, content.pop("record"))


def content_digest(content: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """The same, of the content of a model file without its record, and of that."""
    return digest_of([content, record.get("featureset_hash")])
