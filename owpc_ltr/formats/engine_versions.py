"""Serving profiles: what each engine version does with a model, as read in its source.

The LTR plugin's own history: missing features were 0 up to OpenSearch 3.1, always went right from
3.2, and follow the model from 3.8; `rank:ndcg` and `rank:map` came to the dump parser with 3.2,
the raw parser with 2.19.2 (OpenSearch) and 8.15 (Elasticsearch), where it sent missing features
right until 9.0.8. BM25 lost its factor k1 + 1 with OpenSearch 3.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from owpc_ltr.errors import UsageError

LINEAR = "model/linear"
RANKLIB = "model/ranklib"
XGBOOST = "model/xgboost+json"
XGBOOST_RAW = "model/xgboost+json+raw"

MissingRule = Literal["zero", "right", "default"]
"""Where a missing feature goes: as 0 would, always right, or as each split says."""

_OLD_OBJECTIVES = frozenset(
    {"binary:logitraw", "rank:pairwise", "reg:linear", "binary:logistic", "reg:logistic"}
)
_OBJECTIVES = _OLD_OBJECTIVES | {"rank:ndcg", "rank:map"}
LEGACY_BM25 = 2.2
"""By how much the text scores of older Lucenes exceed those of today: k1 + 1 at k1 = 1.2."""

Version = tuple[int, ...]


@dataclass(frozen=True)
class ServingProfile:
    """What an engine of one version does with models.

    `missing` has each model format that the engine takes, and where its trees (or sum) send a
    missing feature. `objectives` are the XGBoost objectives that a format may name.
    `missing_as_zero`: whether XGBoost formats know the key of that name. `bm25_factor`: by how much
    text scores exceed those of today's Lucene.
    """

    engine: str
    version: Version
    missing: Mapping[str, MissingRule]
    objectives: Mapping[str, frozenset[str]]
    missing_as_zero: bool
    bm25_factor: float
    raw_by_number: bool = False

    @property
    def formats(self) -> tuple[str, ...]:
        """The model types that the engine takes."""
        return tuple(self.missing)

    def __str__(self) -> str:
        return f"{self.engine} {version_text(self.version)}"


def serving_profile(engine: str, version: str) -> ServingProfile:
    """The profile of `opensearch` or `elasticsearch` with the LTR plugin. Raises UsageError."""
    numbers = parse_version(version)
    if engine not in _PROFILES:
        raise UsageError(f"no profile of {engine[:40]!r}: choose from {', '.join(_PROFILES)}")
    return _PROFILES[engine](numbers)


def parse_version(text: str) -> Version:
    """The numbers of a version; what follows - or + does not count. Raises UsageError.

    >>> parse_version("3.8.0-SNAPSHOT")
    (3, 8, 0)
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6}){0,3})(?:[-+].*)?", text)
    if match is None:
        raise UsageError(f"{text[:40]!r} is not a version like 3.8.0")
    return tuple(int(part) for part in match[1].split("."))


def version_text(version: Version) -> str:
    """The numbers of a version as engines write them."""
    return ".".join(map(str, version))


def _opensearch(version: Version) -> ServingProfile:
    trees: MissingRule = "default" if version >= (3, 8) else "right"
    if version < (3, 2):
        trees = "zero"
    missing: dict[str, MissingRule] = {LINEAR: "zero", RANKLIB: "zero", XGBOOST: trees}
    if version >= (2, 19, 2):
        missing[XGBOOST_RAW] = trees
    dump = _OBJECTIVES if version >= (3, 2) else _OLD_OBJECTIVES
    return ServingProfile(
        "opensearch",
        version,
        missing,
        {XGBOOST: dump, XGBOOST_RAW: _OBJECTIVES},
        missing_as_zero=version >= (3, 8, 1) or (3, 6, 1) <= version < (3, 7),
        bm25_factor=1.0 if version >= (3,) else LEGACY_BM25,
    )


def _elasticsearch(version: Version) -> ServingProfile:
    recent = version >= (8, 11)
    missing: dict[str, MissingRule] = {
        LINEAR: "zero",
        RANKLIB: "zero",
        XGBOOST: "default" if recent else "zero",
    }
    if version >= (8, 15):
        missing[XGBOOST_RAW] = "default" if version >= (9, 0, 8) else "right"
    dump = _OBJECTIVES if recent else _OLD_OBJECTIVES
    return ServingProfile(
        "elasticsearch",
        version,
        missing,
        {XGBOOST: dump, XGBOOST_RAW: _OBJECTIVES},
        missing_as_zero=False,
        bm25_factor=LEGACY_BM25,
        raw_by_number=version < (8, 17, 2),
    )


_PROFILES = {"opensearch": _opensearch, "elasticsearch": _elasticsearch}
