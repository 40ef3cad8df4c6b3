"""Plain OpenSearch or Elasticsearch: trees as the rescorer of a search, by scripts over queries.

Nothing has to be installed or stored: the body of a search carries the whole model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import parse_json
from owpc_ltr.formats.plugin_free import (
    BIN,
    LOGISTIC,
    TABLES,
    CodedBlock,
    PluginFreeTrees,
    Query,
    trees_for_engine,
)
from owpc_ltr.formats.stored_model import body_text
from owpc_ltr.host.settings import check_settings
from owpc_ltr.names import check_name
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr.version import parse_version, version_text

_OLDEST = (1,)
_KEEP = 2.0**-100  # what is left of a score beyond the window: its order, below all others


@dataclass(frozen=True)
class PluginFreeTreesTarget:
    """OpenSearch, or Elasticsearch from 7.0 on, without a plugin: trees of small paths.

    The file has the `rescore` of a search, which goes beside the application's own query, with
    {{keywords}} where the user's words go. `window` is how many documents of a shard it rescores.
    """

    name: ClassVar[str] = "plugin-free-trees"
    versions: ClassVar[tuple[str, ...]] = ("1.0",)

    window: int = DEFAULT_WINDOW

    def __post_init__(self) -> None:
        check_settings(self)
        if not 1 <= self.window <= 10_000:
            raise ValueError(f"a window is 1 to 10000 documents, not {self.window}")

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The part of a search's body that rescores; its scores are the model's and a constant."""
        numbers = parse_version(version)
        if numbers < _OLDEST:
            raise UsageError(f"version {version_text(numbers)} is not known here: choose 1.0 on")
        check_name("model", name)
        if featureset is None:
            raise UsageError("a search asks for the features by their queries: give `featureset`")
        form = trees_for_engine(model, featureset)
        query = form.query(_templates(featureset, form.features))
        weights = {"query_weight": _KEEP, "rescore_query_weight": 1.0, "score_mode": "total"}
        clause = {"window_size": self.window, "query": {"rescore_query": query, **weights}}
        text = body_text({"rescore": [clause]})
        return ExportedFile(text, self.name, "POST /INDEX/_search", version_text(numbers))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """What the scripts give, rounded to float32 where the engine rounds."""
        where = "the request's body"
        content = parse_json(exported.text, where)
        try:
            form = read_query(content["rescore"][0]["query"]["rescore_query"])
            return form.score(feature_names, features)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise BadInput(
                f"{where} is not a rescoring by tables: {type(error).__name__} {error}"
            ) from error


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for plugin-free-trees`."""
    return [PluginFreeTreesTarget]


def read_query(query: Query) -> PluginFreeTrees:
    """The trees whose query this is. Raises what a lookup raises where it is none."""
    link, middle = "identity", 0.0
    source, inner, params = _script(query) if "script_score" in query else ("", query, {})
    if source == LOGISTIC:
        link, middle, query = "logistic", float(params["middle"]), inner
    blocks, unit = [], 1.0
    for part in _parts(query):
        source, inner, params = _script(part)
        if source != TABLES:
            raise ValueError("a script that is not known")
        unit = float(params["unit"])
        blocks.append(_block(inner, params))
    return PluginFreeTrees(tuple(blocks), unit, middle, link)


def _templates(featureset: FeatureSet, names: Sequence[str]) -> dict[str, Query]:
    """The queries of features, with {{…}} in them. Refused for text that is no object."""
    templates: dict[str, Any] = {feature.name: feature.template for feature in featureset.features}
    for name in names:
        if not isinstance(templates[name], dict):
            raise Refused(
                f"the feature '{name}' is mustache text, which a search cannot hold: write its "
                "template as an object"
            )
    return templates


def _parts(query: Query) -> list[Query]:
    """The blocks of a query; a constant score has none."""
    if "constant_score" in query:
        return []
    if "bool" in query:
        parts: list[Query] = query["bool"]["should"]
        return parts
    return [query]


def _block(query: Query, params: Mapping[str, Any]) -> CodedBlock:
    names, thresholds = [], []
    for part in query["bool"]["should"]:
        source, _, parameters = _script(part)
        if source != BIN:
            raise ValueError("a script that is not known")
        names.append(str(parameters["feature"]))
        thresholds.append(tuple(float(bound) for bound in parameters["thresholds"]))
    texts = {key: str(params[key]) for key in ("tables", "places", "values")}
    return CodedBlock(tuple(names), tuple(thresholds), **texts)


def _script(query: Query) -> tuple[str, Query, dict[str, Any]]:
    """The source of a script over a query, that query, and the parameters."""
    content = query["script_score"]
    return content["script"]["source"], content["query"], content["script"]["params"]
