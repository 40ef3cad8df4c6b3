"""JSON that is nested deeper than can be worked on is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.features.loading import load_featureset
from owpc_ltr.files.json_lines import DocumentFile
from tests.engine.memory_cluster import MemoryCluster


def test_a_document_of_100_000_levels_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"n": 1}\n{"n": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(BadInput, match="line 2: nested too deep to be read"):
        DocumentFile(path).check(lambda *_: None)


@pytest.mark.parametrize("levels", [10, 30, 60, 100, 150, 200, 300, 1000, 30_000])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_template_of_any_depth_is_taken_or_refused_in_one_line(
    levels: int, as_text: bool, tmp_path: Path
) -> None:
    start, end = '{"bool": {"must": [' * levels, "]}}" * levels
    inner = start + '{"match": {"title": "{{keywords}}"}}' + end
    template = json.dumps(inner) if as_text else inner
    path = tmp_path / "set.json"
    path.write_text(
        '{"featureset": {"name": "deep", "features": [{"name": "f", "params": ["keywords"], '
        f'"template_language": "mustache", "template": {template}}}]}}}}'
    )
    store = PluginFreeStore(cast(Engine, MemoryCluster()))
    try:
        featureset = load_featureset(path)
        store.put_featureset(featureset)
        assert store.get_featureset("deep") == featureset
        store.log_search(featureset, {"keywords": "a"}, ["d1"])
    except OwpcLtrError as error:
        assert levels > 30, error  # noqa: PT017 - what people write is taken
        assert "\n" not in str(error)  # noqa: PT017
