"""`init`: what a cluster and a folder tell of a project, in a file that commands read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owpc_ltr import make_dataset
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.engine.project import init
from owpc_ltr.errors import UsageError
from owpc_ltr.host.project import PROJECT_FILE, project_text, read_project
from owpc_ltr.text import printable
from tests.cli.test_project_file import IN_FILE
from tests.commands import Run
from tests.engine.write_world import World, cluster_of


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with the indices docs and small, and an empty folder."""
    (tmp_path / "world").mkdir()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    return World(tmp_path / "world")


QUERY = {"query": {"match": {"title": "{{keywords}}"}}}


def test_a_file_has_what_the_cluster_and_the_folder_tell(world: World) -> None:
    fields = {name: {"type": "text"} for name in ("body", "subtitle", "title", "name")}
    world.engine.request("PUT", "/small/_mapping", body={"properties": fields})
    Path("judged.tsv").write_text("query\tdoc_id\tgrade\nq\td\t1\n")
    Path("query.json").write_text(json.dumps(QUERY))
    Path("request.json").write_text(json.dumps({**QUERY, "rescore": {}}))
    Path("settings.json").write_text('{"mappings": {}}')
    Path("broken.json").write_text("{")
    Path("notes.txt").write_text("grade the doc_id\n")
    draft = init(cluster_of(world.engine), index="small")
    assert read_project() == draft.as_dict()["values"]
    assert {key: value for key, value in read_project().items() if key != "url"} == {
        "index": "small",
        "featureset": "small",
        "alias": "m",
        "title_field": "title",
        "query_template": "query.json",
        "judgments": "judged.tsv",
        "data": "data.parquet",
        "model": "model.json",
    }
    assert draft.next == ("owpc-ltr log-features",)
    assert "wrote owpc-ltr.toml" in str(draft)


def test_a_feature_set_of_another_index_is_not_chosen(world: World) -> None:
    draft = init(cluster_of(world.engine), index="docs")
    assert draft.values["featureset"] == (None, "none is there yet")
    assert draft.next[:2] == (
        "owpc-ltr featureset suggest --out features.json",
        "owpc-ltr featureset push features.json",
    )


def test_of_several_none_is_chosen_and_what_is_lacking_is_the_next_command(world: World) -> None:
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("query,doc_id,grade\nq,d,1\n")
    with pytest.raises(UsageError, match=r"say which index is meant.* there are docs, small"):
        init(cluster_of(world.engine))
    assert not Path(PROJECT_FILE).exists()
    draft = init(cluster_of(world.engine), index="docs")
    values = draft.as_dict()["values"]
    assert "judgments" not in values
    assert draft.values["judgments"] == (None, "one of a.csv, b.csv")
    assert values["alias"] == "docs-ranker"
    assert "choose the judgments in owpc-ltr.toml" in draft.next
    assert "# judgments =" in Path(PROJECT_FILE).read_text()


def test_a_file_that_is_there_is_replaced_only_where_that_is_asked(world: World) -> None:
    for make in (lambda: Path(PROJECT_FILE).write_text("mine"), lambda: None):
        make()
        with pytest.raises(UsageError, match="is there: edit it, or give `replace`"):
            init(cluster_of(world.engine), index="small")
        assert Path(PROJECT_FILE).read_text() == "mine"
    init(cluster_of(world.engine), index="small", replace=True)
    assert read_project()["index"] == "small"


def test_a_dataset_is_known_by_its_content(world: World) -> None:
    save_dataset(make_dataset([[1.0], [0.0]], [1, 0], ["q", "q"]), "logged.parquet")
    Path("other.parquet").write_bytes(b"PAR1")
    assert init(cluster_of(world.engine), index="small").values["data"][0] == "logged.parquet"


@pytest.mark.parametrize("value", ['a"b', "a\\b", "é#", "x = [1", "'"])
def test_a_value_of_any_text_is_read_as_it_was_written(value: str, tmp_path: Path) -> None:
    path = tmp_path / PROJECT_FILE
    path.write_text(project_text({"index": (value, "a\nb"), "alias": (None, printable("c\nd"))}))
    assert read_project(path) == {"index": value}


def test_the_keys_of_a_new_file_are_keys_of_the_project(world: World) -> None:
    assert init(cluster_of(world.engine), index="small").values.keys() <= IN_FILE.keys()


def test_the_command_says_what_is_wrong(run: Run, tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).symlink_to("nowhere")
    err = run.refusal(2, "init", "--url", "http://127.0.0.1:9", "--no-project")
    assert "owpc-ltr.toml is there" in err
