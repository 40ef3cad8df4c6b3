"""The scripts of plugin-free models: their source is constant, only their parameters vary.

An engine compiles each source once a node, and refuses to compile many in a short time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Query = dict[str, Any]

BIN = """\
List t = params.thresholds; int low = 0; int high = t.size();
while (low < high) {
  int middle = (low + high) / 2;
  if (_score >= (double)t.get(middle)) { low = middle + 1; } else { high = middle; }
}
return (low + 1) * params.step;"""
"""The number of a feature's bin (from 1, by its score) times the step of the code."""

TABLES = """\
int at(String s, int i, int width) {
  int x = 0;
  for (int j = i * width; j < (i + 1) * width; j++) { x = x * 64 + s.charAt(j) - 48; }
  return x;
}
int code = (int)_score; String n = params.sizes; int[] bin = new int[n.length() / 4];
for (int i = 0; i < bin.length; i++) {
  int size = at(n, i, 4); bin[i] = code % size; code = code / size;
}
String t = params.tables; String p = params.places; String v = params.values;
long sum = 0; int i = 0; int end = t.length() / 4;
while (i < end) {
  int columns = at(t, i, 4); int x = at(t, i + 1, 4); i += 2;
  for (int j = 0; j < columns; j++) { x += at(p, at(t, i + 1, 4) + bin[at(t, i, 4)], 4); i += 2; }
  sum += at(v, x, 5);
}
return sum * params.unit + params.floor;"""
"""The bins of a block's features out of their code; the sum of what its tables have for them.

`tables` has for each its number of columns and where its values start, then for each column which
of the block's it is and where in `places` the steps of its bins start.
"""

LOGISTIC = "return params.floor + 1.0 / (1.0 + Math.exp(params.middle - _score));"
"""The logistic function of a sum, which is 1/2 at `middle`."""


CURVE = """\
List t = params.knots; List v = params.values; double x = _score; int high = t.size() - 1;
if (x <= (double)t.get(0)) { return (double)v.get(0); }
if (x >= (double)t.get(high)) { return (double)v.get(high); }
int low = 0;
while (high - low > 1) {
  int middle = (low + high) / 2;
  if (x >= (double)t.get(middle)) { low = middle; } else { high = middle; }
}
double a = (double)t.get(low); double b = (double)t.get(high);
double from = (double)v.get(low); double to = (double)v.get(high);
return Math.max(0.0, from + (to - from) * ((x - a) / (b - a)));"""
"""What a curve of straight pieces gives for a feature's score; level beyond its knots."""

PRESENT = "return _score == 0 ? params.missing : Math.max(0.0, _score - params.span);"
"""What is above `span`; of a document that has nothing, what is for those."""


def scripted(query: Query, source: str, **params: Any) -> Query:
    """What a script makes of a query's scores, for the documents that match it."""
    return {"script_score": {"query": query, "script": {"source": source, "params": params}}}


def summed(queries: Sequence[Query]) -> Query:
    """The sum of the scores of queries, 0 where none matches: every document does."""
    return {"bool": {"filter": [{"match_all": {}}], "should": list(queries)}}


def lowest(score: float) -> Query:
    """The same score for every document."""
    return {"constant_score": {"filter": {"match_all": {}}, "boost": score}}
