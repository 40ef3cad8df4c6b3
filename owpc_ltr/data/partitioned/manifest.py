"""The manifest of a partitioned dataset: its parts, by the bucket that decides their side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import BadInput, DiskFault, UsageError
from owpc_ltr.files.input import read_regular, shown
from owpc_ltr.files.output import disk_faults, write_atomically

BUCKETS = 20
"""Shares that are multiples of 1/20 are decided by whole buckets."""
MOST_BUCKETS = 1000
SALT = HashSplit.salt


def check_buckets(buckets: int) -> None:
    """Refuse a number of buckets that cannot be."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise UsageError(f"a dataset has 1 to {MOST_BUCKETS} buckets, not {buckets}")


def bucket_of(positions: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each query, from its number in [0, 1): equal shares of that, in order.

    >>> bucket_of(np.array([0.0, 0.19, 0.2, 0.999]), 20).tolist()
    [0, 3, 4, 19]
    """
    # A number next to 1 is rounded to it.
    return np.minimum((positions * buckets).astype(np.int64), buckets - 1)


def whole_side(split: HashSplit, positions: tuple[float, float]) -> str | None:
    """The side that all numbers between two are on; None where a border lies between them.

    Sides are intervals of those numbers, so that the two ends tell.
    """
    if split.salt != SALT:
        return None
    first, last = split.sides_at(np.array(positions)).tolist()
    return str(first) if first == last else None


FORMAT = 1
MANIFEST = "_manifest.json"
UNFINISHED = "_unfinished"
SIGNS = (MANIFEST, "_manifest-*-of-*.json", f"{UNFINISHED}*", "bucket=*")
"""What is in a folder of parts, finished or not."""
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Part:
    """One file of a folder; `positions` are the first and last number of its queries' hashes."""

    path: str
    bucket: int
    queries: int
    documents: int
    digest: str
    positions: tuple[float, float]


@dataclass(frozen=True)
class Share:
    """Which buckets one of several writers has: those whose number leaves `number` − 1 over."""

    number: int = 1
    of: int = 1

    def has(self, bucket: int) -> bool:
        """Whether a bucket is its own."""
        return bucket % self.of == self.number - 1

    def suffix(self) -> str:
        """What stands in the names of its files."""
        return "" if self.of == 1 else f"-{self.number}-of-{self.of}"


@dataclass
class DatasetFacts:
    """What is known of the data as a whole, once they are all written; see `Manifest`."""

    source: dict[str, Any] | None = None
    counts: dict[str, Any] | None = None


@dataclass(frozen=True)
class Manifest:
    """What a folder holds, or what one of several writers has put there.

    `columns` are the optional ones of all parts: `doc_ids`, `query_params` … `source` and
    `counts` are the manifest that a dataset of one file has: what is the same for all writers, and
    what adds up.
    """

    features: tuple[str, ...]
    columns: tuple[str, ...]
    featureset_hash: str | None
    buckets: int
    parts: tuple[Part, ...]
    source: dict[str, Any] | None = None
    counts: dict[str, Any] | None = None
    share: Share = Share()

    @property
    def whole_source(self) -> dict[str, Any] | None:
        """The manifest as a dataset of one file has it."""
        return self.source if self.counts is None else {**self.counts, **(self.source or {})}

    def save(self, folder: Path) -> None:
        """Write it, as the last file of the folder."""
        about = {**asdict(self), "format": FORMAT, "salt": SALT}
        text = json.dumps({**about, "sha256": _digest(about)}, indent=1, sort_keys=True)
        name = _name(self.share)
        with disk_faults(folder / name):
            write_atomically(folder / name, text.encode() + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """What a folder holds; of several writers' work, put together.

    Raises BadInput where it was not finished, is no such folder, or a part of it is missing.
    """
    manifest = _find(folder)
    for part in manifest.parts:
        _check_there(folder, part)
    return manifest


def _find(folder: Path) -> Manifest:
    if (folder / MANIFEST).exists():
        return _read(folder / MANIFEST)
    shares = [_read(path) for path in sorted(folder.glob("_manifest-*-of-*.json"))]
    if shares:
        return _together(folder, shares)
    if any(folder.glob(f"{UNFINISHED}*")):
        raise BadInput(
            f"cannot read {folder}: it is half-written; run the command that writes it again"
        )
    raise BadInput(
        f"cannot read {folder}: it is a folder without {MANIFEST}; name a dataset file, or make "
        "such a folder with owpc-ltr partition"
    )


def _together(folder: Path, shares: Sequence[Manifest]) -> Manifest:
    """The work of several writers as one. Raises BadInput where one's is not there."""
    first = shares[0]
    known = {manifest.share.number for manifest in shares}
    missing = [number for number in range(1, first.share.of + 1) if number not in known]
    for other in shares[1:]:
        for name in ("features", "columns", "featureset_hash", "buckets", "source"):
            if getattr(other, name) != getattr(first, name):
                raise BadInput(
                    f"cannot read {folder}: its parts {first.share.number} and "
                    f"{other.share.number} of {first.share.of} are of two datasets, with other "
                    f"{name.replace('_', ' ')}: write one of them again"
                )
        if other.share.of != first.share.of:
            raise BadInput(
                f"cannot read {folder}: it has a part of {first.share.of} and one of "
                f"{other.share.of}: write all of them as parts of one number"
            )
    if missing:
        told = ", ".join(f"{number}/{first.share.of}" for number in missing[:8])
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise BadInput(
            f"cannot read {folder}: it lacks {told}{more}: write it with --part {missing[0]}/"
            f"{first.share.of}"
        )
    parts = sorted((part for one in shares for part in one.parts), key=lambda part: part.path)
    ordered = sorted(parts, key=lambda part: part.bucket)
    counts = [one.counts for one in shares if one.counts is not None]
    together = _added(counts) if counts else None
    return replace(first, parts=tuple(ordered), counts=together, share=Share())


def _added(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Numbers by name, and numbers by name in these, added up."""
    names = dict.fromkeys(name for one in counts for name in one)
    there = {name: [one[name] for one in counts if name in one] for name in names}
    return {
        name: _added(values) if isinstance(values[0], dict) else sum(values)
        for name, values in there.items()
    }


def _read(path: Path) -> Manifest:
    try:
        about = json.loads(read_regular(path, _LARGEST, kind="a manifest"))
        version, digest = about["format"], about.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if version != FORMAT:
        raise BadInput(
            f"cannot read {path}: its format is {version!r}, and this version reads {FORMAT}: use "
            "the version that wrote it"
        )
    if digest != _digest(about):
        raise _damaged(path)
    try:
        return _parsed(about)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error


def _parsed(about: dict[str, Any]) -> Manifest:
    parts = []
    for one in about["parts"]:
        low, high = one.pop("positions")
        part = Part(**one, positions=(float(low), float(high)))
        inside = Path(part.path)
        if inside.is_absolute() or ".." in inside.parts or part.queries < 1:
            raise ValueError(part.path)
        parts.append(part)
    if about["salt"] != SALT or not 1 <= about["buckets"] <= MOST_BUCKETS:
        raise ValueError(about["salt"])
    return Manifest(
        tuple(about["features"]),
        tuple(about["columns"]),
        featureset_hash=about["featureset_hash"],
        buckets=about["buckets"],
        parts=tuple(parts),
        source=about["source"],
        counts=about["counts"],
        share=Share(**about["share"]),
    )


def _check_there(folder: Path, part: Part) -> None:
    try:
        (folder / part.path).stat()
    except FileNotFoundError as error:
        raise BadInput(
            f"cannot read {folder}: {shown(part.path)}, which its manifest names, is missing: "
            "fetch or write it again"
        ) from error
    except OSError as error:
        raise DiskFault(f"cannot read {folder / part.path}: {error.strerror}") from error


def _name(share: Share) -> str:
    return f"_manifest{share.suffix()}.json"


def _digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> BadInput:
    return BadInput(f"cannot read {path}: it is damaged: fetch or write the folder again")
