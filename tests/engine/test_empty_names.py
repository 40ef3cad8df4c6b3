"""An empty name is nothing's name, and never a default: exit 2, before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import owpc_ltr
from owpc_ltr.errors import UsageError
from tests.commands import commands_in

COMMANDS = [
    ["index", "DOCS", "--index", ""],
    ["index", "DOCS", "--index", "docs", "--id-field", ""],
    ["log-features", "--judgments", "DOCS", "--index", "", "--out", "OUT"],
    ["log-features", "--judgments", "DOCS", "--featureset", "", "--out", "OUT"],
    ["featureset", "push", "DOCS", "--name", ""],
    ["featureset", "push", "DOCS", "--index", ""],
    ["featureset", "list", "--store", ""],
    ["featureset", "list", "--store-kind", ""],
    ["featureset", "show", ""],
    ["featureset", "delete", ""],
    ["upload", "DOCS", "--name", ""],
    ["upload", "DOCS", "--index", ""],
    ["upload", "DOCS", "--featureset", ""],
    ["upload", "DOCS", "--store", ""],
    ["verify", ""],
    ["verify", "m", "--index", ""],
    ["models", "list", "--store", ""],
    ["models", "show", ""],
    ["models", "promote", ""],
    ["models", "rollback", ""],
    ["models", "delete", ""],
    ["models", "prune", ""],
    ["search", "words", "--model", ""],
    ["search", "words", "--index", ""],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_empty_name_is_an_error_of_use(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    documents = tmp_path / "docs.jsonl"
    documents.write_text("{}\n")
    places = {"DOCS": str(documents), "OUT": str(tmp_path / "out.parquet")}
    # Nobody listens there: what is asked first would end with 4.
    run = commands_in(tmp_path, monkeypatch, capsys)
    words = (places.get(word, word) for word in command)
    code, _, err = run(*words, "--url=http://127.0.0.1:1")
    assert code == 2, err
    assert "is empty" in err


def test_so_it_is_from_python() -> None:
    with pytest.raises(UsageError, match="a store needs a name"):
        owpc_ltr.connect("http://127.0.0.1:1", store="")
    cluster = owpc_ltr.connect("http://127.0.0.1:1")
    with pytest.raises(UsageError, match="index= is empty"):
        cluster.index("docs.jsonl", index="")
