"""The file of every model: JSON with a digest and a record of the training, never pickled.

It carries parity samples: a few judged queries with their parameters, document ids, labels and
features, so that the engine's scores can be compared with local ones wherever the model goes,
without its training data.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Matrix, Vector, is_frame
from owpc_ltr.data.blocks import Bars, Block, html_of
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import read_regular, shown
from owpc_ltr.files.output import finite_json, write_output
from owpc_ltr.files.strict_json import (
    LARGEST_FILE,
    a_json,
    each_once,
    take_strings,
    why_no_json,
)
from owpc_ltr.protocols import Model, RankingModel
from owpc_ltr.signatures import Argument, public
from owpc_ltr.text import printable, shortened

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset

AnyRanker = TypeVar("AnyRanker", bound=RankingModel)

FORMAT = "owpc-ltr model"


REORDERING = "reordering"
"""The kind of a file that holds a base model and what reranks its lists: see `combined.py`."""

KINDS = {
    "additive": "owpc_ltr.models.linear:AdditiveModel",
    "average": "owpc_ltr.models.combined:AverageModel",
    "linear": "owpc_ltr.models.linear:LinearModel",
    "network": "owpc_ltr.models.networks:NetworkModel",
    "logistic-network": "owpc_ltr.models.networks:LogisticNetwork",
    "trees": "owpc_ltr.models.trees:TreeModel",
}
"""Each kind of model file and the class that reads it, imported when there is one to read."""


DAMAGES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What Python raises where a value is not of the kind that a reader takes for granted."""

PARITY_QUERIES = 20

PARITY_DOCUMENTS = 50


_LINE = re.compile(rb'^ "digest": "sha256:[0-9a-f]{64}",\n', re.MULTILINE)

_DATASET = re.compile(rb"PAR1|(#.*\n)*[^\n]* qid:")
"""How Parquet, and LETOR text, begins."""

_HEAD = 400
"""Bytes among which the line stands where we wrote it."""

_SHOWN = 30
"""Features that a table shows, the heaviest first."""

_PARTS = {
    "imported": dict,
    "source": dict,
    "certificate": dict,
    "probes": list,
    "featureset_hash": str,
    "fingerprint": str,
    "joined_tables": list,
    "folds": list,
}
"""What is read of a record, and what it must be where it is there."""

_WORDS = {dict: "JSON object", list: "list", str: "text"}


class SavedRanker:
    """What every kind of model can do: write its file, and show itself in a notebook."""

    def predict(self, features: ArrayLike) -> Vector:
        """The scores, under the name that scikit-learn has for them: `score`."""
        scoring: Any = self
        scores: Vector = scoring.score(features)
        return scores

    def save(self: RankingModel, path: str | Path) -> None:
        """Write the model's file: whole or not at all."""
        save_model(self, Path(path))

    def sizes(self) -> dict[str, object]:
        """What is shown of its size, by name."""
        return {}

    def feature_uses(self) -> dict[str, float]:
        """How much it makes of each feature, where that is one number."""
        return {}

    def __repr__(self) -> str:
        return shortened("\n".join(map(printable, self._facts())))

    def _repr_html_(self) -> str:
        heaviest = sorted(self.feature_uses().items(), key=lambda item: -abs(item[1]))
        blocks: list[Block] = [*self._facts(), Bars(("feature", "use"), heaviest[:_SHOWN])]
        if len(heaviest) > _SHOWN:
            blocks.append(f"and {len(heaviest) - _SHOWN} features more")
        return html_of(blocks)

    def _facts(self) -> list[str]:
        """Its kind and sizes, and what the record says of it, a line each."""
        about: Any = self
        sizes = "".join(f", {name}: {value}" for name, value in self.sizes().items())
        lines = [f"{type(self).__name__}: {len(about.feature_names)} features{sizes}"]
        lines += [f"  {name}: {value}" for name, value in _learned(about.record)]
        if isinstance(about.record.get("featureset_hash"), str):
            lines.append(f"  feature set hash: {about.record['featureset_hash'][:12]}")
        return lines


def with_record(model: Model, record: dict[str, Any]) -> Model:
    """The same model with another training record."""
    changed: Model = replace(model, record=record)  # type: ignore[type-var]
    return changed


@public
def save_model(model: Annotated[RankingModel, Argument.RANKER], path: Path | str) -> None:
    """Write a model file, with its digest: whole or not at all."""
    if isinstance(model, str | Path):
        raise UsageError(
            f"the model comes first, the file second: save_model(model, {str(model)!r})"
        )
    content = {"format": FORMAT, "version": 1, **content_of(model)}
    write_output(path, signed(content, after="version"))


def content_of(model: RankingModel) -> dict[str, Any]:
    """What a model file holds: the kind, the features, the model itself, its record.

    What a record has no finite number for is null in it; a model's own numbers must be finite.
    """
    return {
        "kind": model.kind,
        "feature_names": list(model.feature_names),
        **model.as_dict(),
        "record": finite_json(model.record),
    }


def load_scoring_model(path: Path | str) -> Model:
    """A model that scores single documents, from its file. Raises BadInput naming the file."""
    path = Path(path)
    return model_of(read_content(path), path)


def read_content(path: Path) -> dict[str, Any]:
    """The JSON object of a model file, of any kind. Raises BadInput naming the file."""
    raw = b""
    try:
        raw = read_regular(path, LARGEST_FILE, "cannot read the model", "a model file")
        content = json.loads(raw, object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        if _DATASET.match(raw):
            raise BadInput(f"{path} holds data, no model: give a file that train wrote") from error
        if not raw.strip():
            raise BadInput(f"{path} is not a model file, nor a run: it is empty") from error
        if raw.lstrip()[:1] not in {b"{", b"["}:
            raise BadInput(
                f"{path} is not a model file, nor a run ('query Q0 document rank score tag', or "
                "'query document rank'): give one of these"
            ) from error
        raise BadInput(f"{path} is not a model file: {why_no_json(raw, error)}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{path} is not a model file of owpc-ltr")
    return without_digest(content, raw, path)


def model_of(content: dict[str, Any], path: Path) -> Model:
    """The model that a file's content describes. Raises BadInput naming the file."""
    kind = content.get("kind")
    if kind == REORDERING:
        raise BadInput(
            f"{path} holds a reordering, which ranks whole lists and scores no single document: "
            "use it with evaluate, or `search(reranker=…)`"
        )
    if not isinstance(kind, str) or kind not in KINDS:
        text = shown(kind) if isinstance(kind, str) else a_json(kind)
        raise BadInput(f"{path} holds a model of kind {text}; known: {', '.join(KINDS)}")
    with damage_named(path):
        names = tuple(take_strings(content, "feature_names", "the file"))
        module, _, name = KINDS[kind].partition(":")
        reader = getattr(import_module(module), name)
        model: Model = reader.from_dict(content, names, checked_record(content))
    return model


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Raise BadInput, naming the file, for whatever a damaged model makes its readers raise."""
    try:
        yield
    except DAMAGES as error:
        what = f"{type(error).__name__} {error}"
        raise BadInput(f"{path} is a damaged model file: {what}") from error
    except BadInput as error:
        raise BadInput(f"{path} is a damaged model file: {error}") from error


def signed(content: dict[str, Any], after: str) -> bytes:
    """The JSON of a model file, with its digest on the line after that of the key `after`."""
    text = _text(content)
    begin = text.index(f'\n "{after}": '.encode()) + 1
    end = text.index(b"\n", begin) + 1
    return text[:end] + f' "digest": "{_digest(text)}",\n'.encode() + text[end:]


def without_digest(content: dict[str, Any], raw: bytes, path: Path) -> dict[str, Any]:
    """The content of a file without its digest, which fits. Raises BadInput where it does not."""
    if "digest" not in content:
        return content
    rest = {key: value for key, value in content.items() if key != "digest"}
    line = _LINE.search(raw, 0, _HEAD)
    as_written = "" if line is None else _digest(raw[: line.start()] + raw[line.end() :])
    if content["digest"] != as_written and content["digest"] != _laid_out_anew(rest):
        raise BadInput(
            f"{path} is not as it was written (its digest is another): fetch or write it again; "
            'if it was changed on purpose, take its line "digest" out'
        )
    return rest


def checked_record(content: dict[str, Any]) -> dict[str, Any]:
    """The record in a model file's content. Raises BadInput where a part is something else."""
    record = content.get("record", {})
    if not isinstance(record, dict):
        raise BadInput(f"its record is {a_json(record)}, not an object")
    for name, wanted in _PARTS.items():
        part = record.get(name)
        if part is not None and not isinstance(part, wanted):
            raise BadInput(f"'{name}' of its record is {a_json(part)}, not a {_WORDS[wanted]}")
    for fold in record.get("folds") or ():
        if not isinstance(fold, dict) or not isinstance(fold.get("record"), dict):
            raise BadInput(f"'folds' of its record has {a_json(fold)}, which is not a model")
    split = (record.get("source") or {}).get("split")
    if split is not None and not isinstance(split, dict):
        raise BadInput(f"'split' of its source is {a_json(split)}, not an object")
    return dict(record)


def warnings_of(record: Mapping[str, Any]) -> list[str]:
    """What training warned of."""
    warnings = record.get("warnings")
    return list(map(str, warnings)) if isinstance(warnings, list) else []


def with_warnings(model: AnyRanker, warnings: Iterable[str]) -> AnyRanker:
    """The same ranker, whose record has these warnings before its own, each once."""
    joint = list(dict.fromkeys([*warnings, *warnings_of(model.record)]))
    changed: AnyRanker = replace(model, record={**model.record, "warnings": joint})  # type: ignore[type-var]
    return changed


def model_matrix(model: RankingModel, features: Any) -> NDArray[Any]:
    """The features of a model as float32 or float64, one row a document; arrays of these as given.

    Of a dataset its features. Columns of a data frame are picked by name. Raises BadInput where it
    lacks one, where a value is no number, and where there are more or fewer columns than the model
    has features.
    """
    names = model.feature_names
    if hasattr(features, "n_queries"):
        features = features.features
    if isinstance(features, np.ndarray) and features.dtype.kind == "f":
        matrix: NDArray[Any] = features
    elif is_frame(features):
        from owpc_ltr.data.construction import numbers_of, table_of

        instead = "give the numbers that the model was trained on"
        return numbers_of(table_of(features), names, np.float64, instead)
    else:
        from owpc_ltr.data.construction import float_array

        matrix = float_array(features, "features")
    if matrix.ndim == 1 and len(matrix) == len(names):
        raise BadInput(
            f"the {len(names)} features of one document are a row: give rows × columns, [[…]] or "
            "X[None, :]"
        )
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise BadInput(
            f"the model scores {len(names)} features, the data has "
            f"{matrix.shape[-1] if matrix.ndim else 0}: use the data of the feature set it was "
            "trained on"
        )
    return matrix


def parity_samples_of(data: RankingDataset | PartitionedDataset) -> list[dict[str, Any]]:
    """Some queries, by hash: `query_id`, `params`, `doc_ids`, `labels`, `features` (packed).

    Empty where the dataset was not logged from an engine (no parameters, or no document ids).
    """
    from owpc_ltr.data.splits import query_positions

    if not {"query_params", "document_ids"} <= set(data.columns):
        return []
    first_by_hash = np.argsort(query_positions(data, "probes"), kind="stable")[:PARITY_QUERIES]
    data = data.select(np.sort(first_by_hash)).load()
    assert data.query_params is not None  # noqa: S101 - it has the columns
    assert data.doc_ids is not None  # noqa: S101
    samples = []
    for query in range(data.n_queries):
        first = int(data.offsets[query])
        last = min(int(data.offsets[query + 1]), first + PARITY_DOCUMENTS)
        samples.append(
            {
                "query_id": data.query_ids[query].as_py(),
                "params": json.loads(data.query_params[query].as_py()),
                "document_ids": data.doc_ids[first:last].to_pylist(),
                "labels": data.labels[first:last].tolist(),
                "features": packed(data.features[first:last]),
            }
        )
    return samples


def dataset_of(samples: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> RankingDataset:
    """The remembered documents of a model with these features, as judged queries."""
    from owpc_ltr.data.construction import make_dataset

    sizes = [len(sample["document_ids"]) for sample in samples]
    parts = [
        unpacked(sample["features"], size, len(names))
        for sample, size in zip(samples, sizes, strict=True)
    ]
    return make_dataset(
        np.concatenate(parts),
        np.concatenate([sample["labels"] for sample in samples]),
        np.repeat([str(sample["query_id"]) for sample in samples], sizes),
        feature_names=names,
    )


def packed(features: Matrix) -> str:
    """A matrix as a text: its float32 values row by row, little-endian, in base64.

    NaN stays NaN, which numbers in JSON cannot.
    """
    return base64.b64encode(np.ascontiguousarray(features, dtype="<f4").tobytes()).decode()


def unpacked(text: str, documents: int, features: int) -> Matrix:
    """The matrix that `packed` wrote. Raises BadInput where its size is another."""
    try:
        content = base64.b64decode(text, validate=True)
        return np.frombuffer(content, dtype="<f4").reshape(documents, features).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"the features of a sample are not {documents} rows of {features}: {error}"
        ) from error


def _laid_out_anew(content: dict[str, Any]) -> str:
    try:
        return _digest(_text(content))
    except ValueError:  # we write no NaN
        return ""


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def _digest(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def _learned(record: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What a record says in few words."""
    rows: list[tuple[str, object]] = [
        (part, _with_settings(record[part]))
        for part in ("loss", "optimizer", "reranker")
        if isinstance(record.get(part), Mapping)
    ]
    if isinstance(record.get("parts"), Mapping):
        rows.append(("sum of", ", ".join(map(str, record["parts"]))))
    if isinstance(record.get("imported"), Mapping):
        rows.append(("imported from", record["imported"].get("format", "another library")))
    if record.get("queries") is not None and record.get("documents") is not None:
        rows.append(("trained on", f"{record['queries']} queries, {record['documents']} documents"))
    if isinstance(record.get("validation"), float):
        rows.append((f"validation {record.get('select', '')}", f"{record['validation']:.4f}"))
    if record.get("average_of") is not None:
        rows.append(("average of", f"{record['average_of']} models"))
    if isinstance(record.get("warnings"), list):
        rows += [("warning", warning) for warning in record["warnings"]]
    return rows


def _with_settings(part: Mapping[str, Any]) -> str:
    settings = part.get("settings")
    if not isinstance(settings, Mapping) or not settings:
        return str(part.get("name"))
    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
    return f"{part.get('name')} ({shown})"
