"""Release: which engine a local node is, in which version, under which licence, on which Java."""

from __future__ import annotations

from dataclasses import dataclass

from owpc_ltr.errors import UsageError

OPENSEARCH = "opensearch"
ELASTICSEARCH = "elasticsearch"
USUAL = {OPENSEARCH: "3.8.0", ELASTICSEARCH: "9.2.0"}
"""The engines that can be started, each with the version that is meant where none is named."""

VECTORS = "2.19.1"
"""The OpenSearch with k-NN and neural search, where no version is named."""

_TITLES = {OPENSEARCH: "OpenSearch", ELASTICSEARCH: "Elasticsearch"}
_OLDEST = {OPENSEARCH: (2, 13), ELASTICSEARCH: (8, 8)}
_NEWEST_MAJOR = {OPENSEARCH: 3, ELASTICSEARCH: 9}
_LICENCES = {
    OPENSEARCH: "the Apache License 2.0",
    ELASTICSEARCH: "Elastic's own licences (the Elastic License 2.0; some parts also SSPL 1.0 or "
    "AGPL 3.0): read LICENSE.txt and NOTICE.txt in its folder",
}


@dataclass(frozen=True)
class JavaRange:
    """The Java feature versions that an engine runs on; `newest` is None where none is too new."""

    oldest: int
    newest: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.oldest <= version and (self.newest is None or version <= self.newest)

    def __str__(self) -> str:
        return (
            f"{self.oldest} or later" if self.newest is None else f"{self.oldest} to {self.newest}"
        )


@dataclass(frozen=True)
class Release:
    """An engine in one version. Raises UsageError for one that cannot be put together."""

    engine: str = OPENSEARCH
    version: str = USUAL[OPENSEARCH]

    def __post_init__(self) -> None:
        if self.engine not in USUAL:
            raise UsageError(f"--engine {self.engine[:40]} is none of {', '.join(USUAL)}")
        parts = self.version.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise UsageError(
                f"--version {self.version} is not an {self.engine} version: write it as "
                f"{USUAL[self.engine]}"
            )
        newest = _NEWEST_MAJOR[self.engine]
        if self.numbers < _OLDEST[self.engine] or self.numbers[0] > newest:
            oldest = ".".join(map(str, _OLDEST[self.engine]))
            raise UsageError(
                f"--version {self.version} cannot be assembled: only {self.engine} {oldest} to "
                f"{newest} can; start another version yourself and name it with --url"
            )

    def __str__(self) -> str:
        return f"{self.engine} {self.version}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, for comparisons."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def title(self) -> str:
        """The engine's name and major version, as its makers write them."""
        return f"{_TITLES[self.engine]} {self.numbers[0]}"

    @property
    def licence(self) -> str:
        """Under what it may be used."""
        return _LICENCES[self.engine]

    @property
    def javas(self) -> JavaRange:
        """What it runs on: a security manager, which older releases set, ended with Java 24."""
        if self.engine == OPENSEARCH:
            return JavaRange(21) if self.numbers >= (3,) else JavaRange(17, 23)
        if self.numbers >= (9,):
            return JavaRange(21)
        return JavaRange(17) if self.numbers >= (8, 19) else JavaRange(17, 23)


def usual_release(
    engine: str = OPENSEARCH, version: str | None = None, *, with_vectors: bool = False
) -> Release:
    """The release asked for; of an engine alone, its usual version."""
    usual = VECTORS if with_vectors else USUAL.get(engine, "")
    return Release(engine, version or usual)
