"""The journal of a reproduction: one whole file for each job on each fold, with its model.

A file is of one job: its settings are in its name. It counts as long as the data, the version and
the base that it was built on are the same; one that is stale, cut or changed is done again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import disk_faults, write_atomically
from owpc_ltr.files.regular_file import read_regular
from owpc_ltr.models.model_file import load_scoring_model, save_model
from owpc_ltr.protocols import Model
from owpc_ltr.version import VERSION
from owpc_ltr_papers.jobs import Done, Job, Result

_LARGEST = 1 << 28


class Journal:
    """Finished jobs in a folder, by data set and fold; without a folder nothing is kept.

    `stale` counts the files that were there and no longer count.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.stale = 0
        self.reused = 0

    def find(self, place: tuple[str, str], job: Job, inputs: Mapping[str, Any]) -> Done | None:
        """What was kept of a job, if it is of the same inputs."""
        path = self._path(place, job, inputs)
        if path is None or not path.exists():
            return None
        done = _read(path, job, _of_now(inputs))
        if done is None:
            self.stale += 1
        else:
            self.reused += 1
        return done

    def keep(self, place: tuple[str, str], job: Job, inputs: Mapping[str, Any], done: Done) -> Done:
        """Make it durable: the model first, whose digest the result has. Raises DiskFault.

        The result is given back as it will be read.
        """
        path = self._path(place, job, inputs)
        kept = replace(done, result=_from_json(_as_json(done.result)))
        if path is None:
            return kept
        with disk_faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if done.model is not None:
                save_model(done.model, _model_file(path))
            content: dict[str, Any] = {
                "job": job.name,
                "described": job.described(),
                "inputs": _of_now(inputs),
                "result": _as_json(done.result),
                "model": _digest_of(_model_file(path)),
            }
            content["sha256"] = _digest(content)
            write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
        return kept

    def _path(self, place: tuple[str, str], job: Job, inputs: Mapping[str, Any]) -> Path | None:
        if self.folder is None:
            return None
        settings = _digest({"described": job.described(), "seed": inputs["seed"]})
        data_set, fold = map(_slug, place)
        return self.folder / data_set / fold / f"{_slug(job.name)}-{settings[:8]}.json"


def model_digest(model: Model) -> str:
    """The digest of what a model computes, whatever its record."""
    return _digest(model.as_dict())


def _of_now(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {**inputs, "owpc-ltr": VERSION}


def _read(path: Path, job: Job, inputs: dict[str, Any]) -> Done | None:
    """A kept job; None where it is of other inputs, or not what was written."""
    try:
        content = json.loads(read_regular(path, _LARGEST, kind="a result"))
        digest = content.pop("sha256")
        if digest != _digest(content) or content["inputs"] != inputs:
            return None
        model = None
        if job.is_base:
            if content["model"] != _digest_of(_model_file(path)):
                return None
            model = load_scoring_model(_model_file(path))
        return Done(_from_json(content["result"]), model)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadInput):
        return None


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "settings": json.loads(json.dumps(dict(result.settings), default=str)),
        "validation": _number(result.validation),
        "values": {
            metric: [_number(value) for value in values.tolist()]
            for metric, values in result.values.items()
        },
        "notes": list(result.notes),
    }


def _from_json(content: dict[str, Any]) -> Result:
    return Result(
        content["settings"],
        _read_number(content["validation"]),
        {metric: _vector(values) for metric, values in content["values"].items()},
        tuple(content["notes"]),
    )


def _vector(values: list[float | None]) -> Vector:
    return np.array([_read_number(value) for value in values], dtype=np.float64)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _read_number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _model_file(path: Path) -> Path:
    return path.with_suffix(".model.json")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "it"
