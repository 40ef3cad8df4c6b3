"""The feature sets of a cluster: pushed, read, listed, deleted; and a first one suggested."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as with_changes
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from owpc_ltr.data.blocks import Block, BlockResult, Table, text_table
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import NO_LIMIT, check_complete
from owpc_ltr.engine.index_fields import field_types, refuse_unmapped
from owpc_ltr.engine.options import OnlyIndex
from owpc_ltr.engine.stores import Store, naming_close_sets
from owpc_ltr.errors import BadInput, Refused, UsageError, give_warnings
from owpc_ltr.features.feature_set import (
    DERIVED,
    DOC_IDS,
    FeatureSet,
    Params,
    load_featureset,
    plain_params,
)
from owpc_ltr.files.output import write_output
from owpc_ltr.formats.stored_model import serving_profile
from owpc_ltr.host.commands import NO_STORE, CommandSummary
from owpc_ltr.signatures import NO_FEATURE_SET, Argument, Help, Reads, Writes, job
from owpc_ltr.text import ShortRepr, cut

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

MOST_TEXT_FIELDS = 8
"""An engine takes 1,024 clauses in one search; a field has up to four features."""

_TEXT = frozenset(("text", "match_only_text", "search_as_you_type", "annotated_text"))
_KEYWORD = frozenset(("keyword", "constant_keyword"))
_WHOLE = frozenset(("long", "integer", "short", "byte", "unsigned_long"))
_NUMBER = _WHOLE | {"double", "float", "half_float", "scaled_float"}
_DATE = frozenset(("date", "date_nanos"))
_IDS = ("id", "uuid", "guid", "sku", "url", "uri")
"""Last words of the names of texts and numbers that only identify a document."""
_VECTOR = frozenset(("knn_vector", "dense_vector", "sparse_vector", "rank_features"))
_TITLES = ("title", "name", "heading", "headline", "label", "subject")
"""Names of fields that say in a few words what a document is: they come first."""
_UNIQUE = 0.95
"""Keywords of which this share of documents has one of its own are ids; so many different numbers
are a popularity."""
_FEW = 20
"""With fewer documents, values that differ tell nothing."""
_DAY_MILLISECONDS = 86_400_000


@dataclass(frozen=True, repr=False)
class SuggestedFeature(ShortRepr):
    """A feature, and what it measures."""

    name: str
    description: str
    template: dict[str, Any] | str
    params: tuple[str, ...] = ()
    """Parameters beside `keywords`."""

    def to_body(self) -> dict[str, Any]:
        """The feature as `featureset push` reads it."""
        uses_text = "{{keywords}}" in json.dumps(self.template)
        return {
            "name": self.name,
            "description": self.description,
            "params": [*(["keywords"] if uses_text else []), *self.params],
            "template": self.template,
        }


@dataclass(frozen=True, repr=False)
class SuggestedFeatureSet(BlockResult):
    """A first feature set for an index, and the fields that it does not use, with the reason."""

    name: str
    index: str
    features: tuple[SuggestedFeature, ...]
    unused: Mapping[str, str]

    def to_body(self) -> dict[str, Any]:
        """The JSON that `featureset push` reads; a set with other params has no validation."""
        features = [feature.to_body() for feature in self.features]
        body = {"featureset": {"name": self.name, "features": features}}
        if any(feature.params for feature in self.features):
            return body
        return {**body, "validation": {"index": self.index, "params": {"keywords": "test"}}}

    def as_dict(self) -> dict[str, Any]:
        """The feature set, and the fields that it does not use."""
        return {**self.to_body(), "unused": dict(self.unused)}

    def _blocks(self) -> Iterator[Block]:
        yield f"{len(self.features)} features for '{self.index}', each tried on it"
        rows = [(feature.name, feature.description) for feature in self.features]
        yield Table(("FEATURE", "WHAT IT MEASURES"), rows)
        if self.unused:
            yield Table(("NOT USED", "REASON"), list(self.unused.items()))


@job
def suggest(
    cluster: Annotated[Cluster | FeatureSets, NO_STORE],
    *,
    index: OnlyIndex = None,
    out: Annotated[
        Path | str | None,
        Writes("The file of the feature set (JSON), for `featuresets.push()`.", required=True),
    ] = None,
    name: Annotated[
        str | None, Help("The feature set's name; default: the index's."), Argument.NAME
    ] = None,
    legs: Annotated[
        FeatureSet | Mapping[str, Any] | Path | str | None,
        Reads(
            "Also the legs of a hybrid search (see `fuse()`), each scoring every document.",
            flag="--leg",
            cli=Path,
            metavar="LEGS.json",
            absent=NO_FEATURE_SET,
        ),
    ] = None,
) -> SuggestedFeatureSet:
    """Write a first feature set for an index, from the types of its fields.

    Text fields give BM25, all words and the phrase, one by one and together; keywords give exact
    matches, numbers their logarithm, dates how recent they are. Each feature is tried on the index.
    Edit the file before you push it: you know which fields matter.

    Raises Refused for an index without a field that a feature can use.
    """
    from owpc_ltr.engine.staging_index import the_index

    where = the_index(cluster.engine, index)
    types = field_types(cluster.engine, where)
    fields = {field: kind for field, kind in types.items() if not _is_hidden(field, types)}
    statistics = _statistics(cluster.engine, where, fields)
    unused: dict[str, str] = {}
    features: list[SuggestedFeature] = []
    texts = _text_fields(fields, statistics)
    if legs is not None:
        from owpc_ltr.engine.legs import read_legs

        # `push` tries these, with a vector.
        for leg in read_legs(legs, cluster.engine, where).legs:
            what = "similarity, of every document" if leg.is_nearest else "score"
            params = tuple(param for param in leg.feature.params if param != "keywords")
            template = leg.feature.template
            features.append(SuggestedFeature(leg.name, f"the leg's {what}", template, params))
    of_legs = {feature.name for feature in features}
    path = f"/{quote(where, safe='')}/_search"
    for feature in [*_of_texts(texts), *_of_values(fields, statistics, unused)]:
        if feature.name in of_legs:
            continue
        query = json.loads(json.dumps(feature.template).replace("{{keywords}}", "test"))
        try:
            cluster.engine.request("POST", path, body={"query": query, "size": 0})
        except Refused as refusal:
            unused[feature.name] = str(refusal)
        else:
            features.append(feature)
    for field, kind in fields.items():
        if kind in _TEXT and field not in texts:
            too_many = f"more than {MOST_TEXT_FIELDS} text fields"
            reason = "its name is that of an id" if _is_id(field) else too_many
            unused[field] = statistics[field]["reason"] or reason
        elif kind in _VECTOR:
            unused[field] = f"{kind}: a query vector is needed; add a feature by hand"
    if not features:
        raise Refused(f"no field of '{where}' can be a feature: it has {len(types)} fields")
    suggested = SuggestedFeatureSet(name or where, where, tuple(features), unused)
    if out is not None:
        text = json.dumps(suggested.to_body(), indent=1, ensure_ascii=False) + "\n"
        write_output(out, text.encode())
    return suggested


def _is_hidden(field: str, types: Mapping[str, str]) -> bool:
    """Whether it is below a nested object, or another form of a keyword, number or text."""
    above = {types.get(field[:place]) for place, char in enumerate(field) if char == "."}
    if "nested" in above or field.endswith(("_index_prefix", "gram")):
        return True
    return types[field] not in _TEXT and bool(above - {"object", None})


def _text_fields(fields: Mapping[str, str], statistics: Mapping[str, Any]) -> list[str]:
    """The text fields with values: other forms of a field last, names of documents first."""

    def rank(field: str) -> tuple[bool, int]:
        return field.rpartition(".")[0] in fields, _title_rank(field)

    texts = (field for field, kind in fields.items() if kind in _TEXT and not _is_id(field))
    filled = (field for field in texts if statistics[field]["reason"] is None)
    return sorted(filled, key=rank)[:MOST_TEXT_FIELDS]


def _title_rank(field: str) -> int:
    """How likely it is that a field says in a few words what a document is: the least is best."""
    words = field.lower().split(".")[0].split("_")
    return next((place for place, name in enumerate(_TITLES) if name in words), len(_TITLES))


def title_field(types: Mapping[str, str]) -> str | None:
    """The text field whose name is that of a title, if one is."""
    texts = [field for field, kind in types.items() if kind in _TEXT and "." not in field]
    best = min(texts, key=_title_rank, default="")
    return best if _title_rank(best) < len(_TITLES) else None


def _is_id(field: str) -> bool:
    return field.lower().replace(".", "_").split("_")[-1] in _IDS


def _of_texts(texts: list[str]) -> Iterator[SuggestedFeature]:
    """Features of each text field, and of all together."""
    for place, field in enumerate(texts):
        called = field.replace(".", "_")
        yield SuggestedFeature(
            f"{called}_bm25", f"BM25 of {field}", {"match": {field: {"query": "{{keywords}}"}}}
        )
        yield SuggestedFeature(
            f"{called}_all",
            f"1 if {field} has all words of the query",
            _yes({"match": {field: {"query": "{{keywords}}", "operator": "and"}}}),
        )
        if place < 2:
            yield SuggestedFeature(
                f"{called}_phrase",
                f"BM25 of the words in {field} as a phrase",
                {"match_phrase": {field: {"query": "{{keywords}}"}}},
            )
    if len(texts) > 1:
        yield SuggestedFeature(
            "best_field",
            f"BM25 of the best field, {texts[0]} twice as heavy",
            _multi_match([f"{texts[0]}^2", *texts[1:]], type="best_fields", tie_breaker=0.3),
        )
        yield SuggestedFeature(
            "all_fields",
            "BM25 of all text fields read as one",
            _multi_match(texts, type="cross_fields"),
        )


def _of_values(
    fields: Mapping[str, str], statistics: Mapping[str, Any], unused: dict[str, str]
) -> Iterator[SuggestedFeature]:
    """Features of keywords, numbers, dates and flags; what is not used is put into `unused`."""
    for field, kind in fields.items():
        called, facts = field.replace(".", "_"), statistics.get(field, {})
        if kind == "boolean":
            yield SuggestedFeature(
                called, f"1 if {field} is true", _yes({"term": {field: {"value": True}}})
            )
        elif kind in _KEYWORD | _NUMBER | _DATE and facts.get("reason"):
            unused[field] = facts["reason"]
        elif kind in _WHOLE and _is_id(field):
            unused[field] = "its name is that of an id"
        elif kind in _KEYWORD:
            words = {
                "query": "{{keywords}}",
                "fields": [field],
                "flags": "WHITESPACE",
                "lenient": True,
            }
            yield SuggestedFeature(
                f"{called}_in_query",
                f"1 if a word of the query is a value of {field}",
                _yes({"simple_query_string": words}),
            )
        elif kind in _NUMBER:
            factor = {"field": field, "modifier": "ln1p", "missing": 0}
            yield SuggestedFeature(
                called,
                f"ln(1 + {field}); 0 where it is missing",
                _value({"match_all": {}}, field_value_factor=factor),
            )
        elif kind in _DATE:
            decay = {"origin": facts["newest"], "scale": f"{facts['days']}d"}
            yield SuggestedFeature(
                f"{called}_recency",
                f"how recent {field} is: 1 at {facts['newest'][:10]}, 0.5 {facts['days']} days "
                "before",
                _value({"exists": {"field": field}}, functions=[{"exp": {field: decay}}]),
            )


def _yes(query: dict[str, Any]) -> dict[str, Any]:
    return {"constant_score": {"filter": query}}


def _multi_match(fields: list[str], **how: object) -> dict[str, Any]:
    return {"multi_match": {"query": "{{keywords}}", "fields": fields, **how}}


def _value(query: dict[str, Any], **how: object) -> dict[str, Any]:
    return {"function_score": {"query": query, **how, "boost_mode": "replace"}}


def _statistics(engine: Engine, index: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """What the values of fields are like, or the reason not to use them."""
    aggregations: dict[str, Any] = {}
    for field, kind in fields.items():
        if kind in _KEYWORD | _NUMBER | _DATE:
            aggregations[f"{field}:values"] = {"cardinality": {"field": field}}
            aggregations[f"{field}:count"] = {"value_count": {"field": field}}
        if kind in _NUMBER | _DATE:
            aggregations[f"{field}:least"] = {"min": {"field": field}}
            aggregations[f"{field}:most"] = {"max": {"field": field}}
        if kind in _TEXT:
            aggregations[f"{field}:filled"] = {"filter": {"exists": {"field": field}}}
    if not aggregations:
        return {}
    body = {"size": 0, "aggs": aggregations, "terminate_after": NO_LIMIT}
    answer = engine.request("POST", f"/{quote(index, safe='')}/_search", body=body)
    check_complete(answer, body, f"statistics of '{index}'")

    def value(field: str, what: str, key: str = "value") -> Any:
        return answer["aggregations"].get(f"{field}:{what}", {}).get(key)

    return {field: _statistics_of(kind, partial(value, field)) for field, kind in fields.items()}


def _statistics_of(kind: str, value: Callable[..., Any]) -> dict[str, Any]:
    """What is used of a field by the `value` of its aggregations, or the reason not to use it."""
    values, count = value("values"), value("filled", "doc_count") or value("count")
    reason = None
    if not count:
        reason = "no document has a value"
    elif values == 1:
        reason = "every document has the same value"
    elif kind in _KEYWORD and count > _FEW and values and values > _UNIQUE * count:
        # The engine estimates how many values there are.
        reason = f"{min(values, count)} values in {count} documents: an id"
    elif kind in _NUMBER and value("least") < 0:
        reason = f"values below 0 (from {value('least'):g}): scores must not be negative"
    if reason is None and kind in _DATE:
        days = max(1, round((value("most") - value("least")) / _DAY_MILLISECONDS / 4))
        return {"newest": value("most", "value_as_string"), "days": days}
    return {"reason": reason}


_NO_JSON = re.compile(
    r"does not give JSON|as JSON: it must|unrecognized token|unexpected char", re.I
)
_OF_FEATURE = re.compile(r"feature '([^']+)'|feature \[([^\]]+)\]")
_FEATURES_TOLD = 5
_TEXT_PARAMS = frozenset(("keywords", "query", "text", "q"))
"""Names of parameters that are text in every feature set."""
_NAME = Help("The name of a feature set.")
Name = Annotated[str, _NAME, Argument.NAME]
_LONGEST = 100


def _pushed(featureset: FeatureSet) -> CommandSummary:
    """A feature set that was stored."""
    names, params = list(featureset.feature_names), list(featureset.params)
    tried_on = (featureset.validation or {})["index"]
    text = (
        f"stored feature set '{featureset.name}': {len(names)} features, all tried on "
        f"'{tried_on}'; params: {', '.join(params)}"
    )
    content = {"featureset": featureset.name, "features": names, "params": params}
    return CommandSummary(text, {**content, "hash": featureset.hash})


@job(shows=_pushed, changes_cluster=True)
def push(
    cluster: Cluster | FeatureSets,
    featureset: Annotated[
        FeatureSet | Path | str,
        Reads(
            "A feature set, in the LTR plugin's JSON.",
            cli=Path,
            metavar="FILE",
            absent=NO_FEATURE_SET,
        ),
        Argument.NAME,
    ],
    *,
    index: OnlyIndex = None,
    name: Annotated[
        str | None, Help("Its name in the cluster; default: the file's."), Argument.NAME
    ] = None,
    keywords: Annotated[
        str, Help("The query to try every feature with before it is stored.")
    ] = "test",
    params: Params = None,
    allow_unmapped: Annotated[
        bool, Help("Accept templates that name a field which the index does not have.")
    ] = False,
    replace: Annotated[bool, Help("Replace the feature set of this name.")] = False,
    force: Annotated[bool, Help("With `replace`: even if uploaded models use it.")] = False,
) -> FeatureSet:
    """Try every feature of a set on the index, then store the set.

    Parameters of the trial are those given, else those of the set's own validation, else the
    keywords. Warns about derived features, which not every model can use in the engine.

    Raises Refused if uploaded models use the set that is replaced, unless `force`; BadInput for a
    field that a template names and the index's mapping does not have, unless `allow_unmapped`: an
    engine would answer that nothing matches.
    """
    from owpc_ltr.engine.deployment.model_lifecycle import refuse_replacing
    from owpc_ltr.engine.staging_index import the_index

    if not isinstance(featureset, FeatureSet):
        featureset = load_featureset(Path(featureset), name)
    elif name is not None:
        featureset = with_changes(featureset, name=name)
    where = the_index(cluster.engine, index)
    tried = _trial_params(featureset, keywords, plain_params(params))
    if not allow_unmapped:
        refuse_unmapped(cluster.engine, featureset, where, tried.values)
    pushed = with_changes(featureset, validation={"index": where, "params": tried.values})
    if replace and not force:
        refuse_replacing(cluster.engine, cluster.store, pushed)
    _put_tried(cluster.store, pushed, tried, replace=replace)
    cautions = _derived_cautions(cluster.engine, cluster.store, pushed)
    give_warnings([*cautions, *_random_cautions(pushed)])
    return pushed


@dataclass(frozen=True)
class _TrialParams:
    """The parameters of a trial, and the names of those that are only guessed to be this text."""

    values: dict[str, Any]
    guessed: frozenset[str]
    text: str


def _trial_params(featureset: FeatureSet, text: str, given: Mapping[str, Any]) -> _TrialParams:
    """What is given, else what the set's own validation has, else `text`.

    Raises UsageError for a parameter that no template names.
    """
    for name in given:
        if name not in featureset.params:
            names = ", ".join(featureset.params) or "none"
            raise UsageError(
                f"'{name}' is not a parameter of the feature set '{featureset.name}': "
                f"it has {names}"
            )
    defaults = (featureset.validation or {}).get("params", {})
    guessed = frozenset(featureset.params) - defaults.keys() - given.keys()
    values = {**dict.fromkeys(featureset.params, text), **defaults, **given}
    if featureset.why_by_client:
        values[DOC_IDS] = []
    return _TrialParams(values, guessed, text)


def _put_tried(store: Store, featureset: FeatureSet, tried: _TrialParams, *, replace: bool) -> None:
    """Keep the set; where its trial fails because of a guess, the refusal says how to do better."""
    store.prepare()
    try:
        store.put_featureset(featureset, replace=replace)
    except (Refused, BadInput) as error:
        names = _suspects(str(error), featureset, tried)
        if not names:
            raise
        quoted = ", ".join(f"'{name}'" for name in names)
        kind = BadInput if isinstance(error, BadInput) else Refused
        raise kind(
            f"{error}; {quoted} was tried as the text '{tried.text}': if it is a number or a list, "
            f"give a value to try with, `params={{'{names[0]}': VALUE}}`"
        ) from error


def _derived_cautions(engine: Engine, store: Store, featureset: FeatureSet) -> list[str]:
    """What the derived features of a set mean for models, before anything is logged for one."""
    derived = [f"'{f.name}'" for f in featureset.features if f.template_language == DERIVED]
    if not derived:
        return []
    more = " …" if len(derived) > _FEATURES_TOLD else ""
    names = f"{', '.join(derived[:_FEATURES_TOLD])}{more} (derived)"
    if store.kind != "ltr-plugin":
        return [
            f"{names}: only the LTR plugin computes this inside a search, so that here the client "
            "must score a model that uses it: give `upload(client_scored=True)`, or leave it out"
        ]
    about = engine.about()
    if serving_profile(about.distribution, about.version).missing == "zero":
        return []
    return [
        f"{names}: where a feature that it is derived from does not match, it is logged as for 0, "
        "and trees in the engine take it for missing: train trees with `missing='zero'`, and let "
        "it be 0 there; linear models are not affected"
    ]


_UNSEEDED = re.compile(r'"random_score"\s*:\s*\{(?![^{}]*"seed")')


def _random_cautions(featureset: FeatureSet) -> list[str]:
    """The features with random numbers that are others in each search."""
    templates = {
        feature.name: text if isinstance(text := feature.template, str) else json.dumps(text)
        for feature in featureset.features
    }
    names = [f"'{name}'" for name, text in templates.items() if _UNSEEDED.search(text)]
    what = (
        f"{', '.join(names)}: random_score without a seed gives other values in each search, so "
        "that no model scores as on the values that were logged: give it a seed and a field, as "
        '{"seed": 1, "field": "_seq_no"}'
    )
    return [what] * bool(names)


def _suspects(message: str, featureset: FeatureSet, tried: _TrialParams) -> list[str]:
    """The guessed parameters that can be what a message complains of: it shows their text."""
    shows_text = re.search(rf"""["'\[=]\s*{re.escape(tried.text)}\s*["'\]]""", message)
    if not tried.guessed or not (shows_text or _NO_JSON.search(message)):
        return []
    match = _OF_FEATURE.search(message)
    name = (match[1] or match[2]) if match else None
    features = [feature for feature in featureset.features if feature.name == name]
    named = {param for feature in features or featureset.features for param in feature.params}
    guessed = sorted(named & tried.guessed)
    return [param for param in guessed if param not in _TEXT_PARAMS] or guessed


@job
def get(cluster: Cluster | FeatureSets, name: Name) -> FeatureSet:
    """The feature set of this name. Raises BadInput if there is none."""
    store = cluster.holding_set(name).store
    with naming_close_sets(store):
        return store.get_featureset(name)


@job
def names(cluster: Cluster | FeatureSets) -> list[str]:
    """The names of the feature sets of the store."""
    return cluster.store.list_featuresets()


@job
def show(
    cluster: Cluster | FeatureSets, name: Annotated[str | None, _NAME, Argument.NAME] = None
) -> CommandSummary:
    """List the feature sets of the cluster, or print the features of one.

    As JSON the features are printed as `push` accepts them.
    """
    if name is None:
        listed = names(cluster)
        return CommandSummary("\n".join(listed), {"featuresets": listed})
    featureset = get(cluster, name)
    rows = [
        (str(place), feature.name, ", ".join(feature.params), _shortened(feature.template))
        for place, feature in enumerate(featureset.features, 1)
    ]
    return CommandSummary(
        text_table(["#", "FEATURE", "PARAMS", "QUERY"], rows), featureset.to_body()
    )


@job(
    shows=lambda name: CommandSummary(f"deleted feature set '{name}'", {"deleted": name}),
    changes_cluster=True,
)
def delete(
    cluster: Cluster | FeatureSets,
    name: Name,
    *,
    force: Annotated[bool, Help("Delete it even if uploaded models use it.")] = False,
) -> str:
    """Delete a feature set that no uploaded model uses.

    With `force` also one that models use. They keep ranking with their own copy of it, but
    `verify()`, `explain()` and `log_features()` need it.

    Raises Refused if uploaded models use it, unless `force`.
    """
    from owpc_ltr.engine.deployment.model_lifecycle import refuse_in_use

    store = cluster.holding_set(name).store
    if not force:
        refuse_in_use(cluster.engine, store, name, "delete")
    with naming_close_sets(store):
        store.delete_featureset(name)
    return name


class FeatureSets:
    """The feature sets of a cluster's store."""

    def __init__(self, cluster: Cluster) -> None:
        """Use the store of this cluster."""
        self.engine, self._cluster = cluster.engine, cluster

    def __repr__(self) -> str:
        return f"FeatureSets({self.engine.settings.url!r})"

    @property
    def store(self) -> Store:
        """Where the feature sets are stored."""
        return self._cluster.store

    def holding_set(self, featureset: str) -> FeatureSets:
        """The feature sets of the store that has this one."""
        return FeatureSets(self._cluster.holding_set(featureset))

    suggest = suggest
    push = push
    get = get
    names = names
    delete = delete


def _shortened(template: Mapping[str, Any] | str) -> str:
    return cut(template if isinstance(template, str) else json.dumps(template), _LONGEST)
