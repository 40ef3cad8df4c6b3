"""Duplicate queries: spellings of one request, and queries with mostly the same judged documents.

Results of such queries are correlated. A test that treats them as independent finds differences
that do not exist, and a split that separates them measures memorized queries. Every query
is in one cluster; most clusters are of one query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.text import normalised_text

Codes = NDArray[np.int64]

MOSTLY = 0.5
"""The share of the judged documents of two queries together that both have: above it, they have
mostly the same."""
_COMMON = 0.2
"""A document that a larger share of the queries has judged does not characterize a query."""
_MOST_QUERIES = 200
_NOT_BY_CHANCE = 5
"""With so many documents and the same grades, two queries whose texts differ in digits are equal
requests, and not alike by chance."""
_WORDS = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_LONGEST_ENDING = 4


def clusters_of(queries: Any) -> Codes:
    """The number of each query's cluster, which is that of its first query.

    `queries` are a dataset, or a list of judged queries. Texts that differ in case, plural, or the
    order of words are one cluster, if their other parameters are the same; so are those that differ
    in digits and share a judged document, and queries whose judged documents are mostly the same.
    Documents that very many queries have judged link those that give all of them the same grades,
    and differ in digits.
    Of a folder of parts, texts alone are compared.
    """
    if isinstance(queries, Sequence):
        requests = [(_text_and_others(query.params), query.query_id) for query in queries]
        documents = _numbers(list(chain.from_iterable(query.doc_ids for query in queries)))
        offsets = np.append(0, np.cumsum([len(query.doc_ids) for query in queries]))
        grades = np.concatenate([np.zeros(0), *(query.grades for query in queries)])
        return linked_queries([_key(*request) for request in requests], documents, offsets, grades)
    ids, params = queries.query_ids.to_pylist(), queries.query_params
    given = [{}] * len(ids) if params is None else [_object(text) for text in params.to_pylist()]
    keys = [
        _key(_text_and_others(params_of_query), name)
        for params_of_query, name in zip(given, ids, strict=True)
    ]
    names = getattr(queries, "doc_ids", None)
    if names is None:
        return linked_queries(keys)
    codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return linked_queries(keys, codes, queries.offsets, queries.labels)


def linked_queries(
    keys: Sequence[str],
    documents: Codes | None = None,
    offsets: Codes | None = None,
    grades: NDArray[Any] | None = None,
) -> Codes:
    """The clusters of queries with these keys (see `_key`), '' where nothing is known.

    `documents` are numbers of the judged documents, query by query, cut at `offsets`; `grades` are
    theirs.
    """
    n = len(keys)
    links = [_linked(keys)]
    if documents is not None and offsets is not None and len(documents):
        patterns = [_without_digits(key) for key in keys]
        links += _by_documents(patterns, documents, offsets)
        if grades is not None:
            links.append(_judged_alike(patterns, documents, offsets, grades))
    rows, columns = (np.concatenate(side) for side in zip(*links, strict=True))
    if not len(rows):
        return np.arange(n)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), np.bool_), (rows, columns)), shape=(n, n))
    _, component = connected_components(graph, directed=False)
    _, first, inverse = np.unique(component, return_index=True, return_inverse=True)
    numbers: Codes = first[inverse].astype(np.int64)
    return numbers


def _text_and_others(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The typed text, and the parameters that do not repeat it."""
    name = "keywords" if "keywords" in params else "query"
    text = params.get(name)
    if not isinstance(text, str):
        return "", params
    return text, {key: value for key, value in params.items() if value != text}


def _key(request: tuple[str, Mapping[str, Any]], query_id: str) -> str:
    """The words without case, plural and order, and the other parameters.

    '' where nothing is known, or the id of the query stands for its text.
    """
    text, others = request
    words = spelling(text)
    informative = (bool(words) and text != query_id) or bool(others)
    return f"{words}\n{json.dumps(others, sort_keys=True, default=str)}" if informative else ""


def _without_digits(key: str) -> str:
    """The key with 0 for each number among its words; the other parameters stay."""
    words, end, others = key.partition("\n")
    return f"{_DIGITS.sub('0', words)}{end}{others}"


def spelling(text: str) -> str:
    """The words of a text without case, plural and order.

    >>> spelling("Red  shoes"), spelling("shoe RED")
    ('red shoe', 'red shoe')
    """
    return " ".join(sorted(map(_singular, _WORDS.findall(normalised_text(text)))))


def _object(params: str | None) -> Mapping[str, Any]:
    """Parameters as an object; of other tools they may be anything."""
    value = json.loads(params or "null")
    return value if isinstance(value, dict) else {}


def _numbers(names: Sequence[str]) -> Codes:
    """A number for each name, the same for the same one."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _singular(word: str) -> str:
    """The word without a plural ending, of any English noun that is regular."""
    if len(word) < _LONGEST_ENDING or not word.isalpha() or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


def _linked(keys: Sequence[str]) -> tuple[Codes, Codes]:
    """Each query with the first one of its key; none where the key is empty."""
    first: dict[str, int] = {}
    pairs = [
        (number, earlier)
        for number, key in enumerate(keys)
        if key and (earlier := first.setdefault(key, number)) != number
    ]
    links = np.array(pairs, np.int64).reshape(-1, 2)
    return links[:, 0], links[:, 1]


def _judged_alike(
    patterns: Sequence[str], documents: Codes, offsets: Codes, grades: NDArray[Any]
) -> tuple[Codes, Codes]:
    """Queries that differ in digits alone and have the same documents and grades.

    However often these are judged; but a few may have the same grades by chance.
    """
    order = np.lexsort((documents, np.repeat(np.arange(len(patterns)), np.diff(offsets))))
    judged = np.stack([documents[order], grades[order]], axis=1).astype(np.float64)
    keys = [
        f"{judged[a:b].tobytes().hex()} {pattern}" if pattern and b - a >= _NOT_BY_CHANCE else ""
        for pattern, (a, b) in zip(patterns, pairwise(offsets.tolist()), strict=True)
    ]
    return _linked(keys)


def _by_documents(
    patterns: Sequence[str], documents: Codes, offsets: Codes
) -> list[tuple[Codes, Codes]]:
    """Pairs of queries with mostly the same documents, or one in common and other digits."""
    n, sizes = len(patterns), np.diff(offsets)
    of = np.repeat(np.arange(n), sizes)
    often = np.bincount(documents)[documents]
    informative = (often > 1) & (often <= max(2, min(_COMMON * n, _MOST_QUERIES)))
    if not informative.any():
        return []
    from scipy.sparse import csr_array, triu

    ones = np.ones(int(informative.sum()), np.int32)
    shape = (n, int(documents.max()) + 1)
    judged = csr_array((ones, (of[informative], documents[informative])), shape=shape)
    shared = triu(judged @ judged.T, k=1).tocoo()
    rows, columns = shared.row.astype(np.int64), shared.col.astype(np.int64)
    mostly = shared.data > MOSTLY * (sizes[rows] + sizes[columns] - shared.data)
    texts = np.array(patterns)
    linked = mostly | ((texts[rows] == texts[columns]) & (texts[rows] != ""))
    return [(rows[linked], columns[linked])]
