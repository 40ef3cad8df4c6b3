"""Clients that nobody here wrote, as docs/serve.md has them, and what engines make of its files.

The clients are in an environment of their own: `make test-clients` makes it, and runs them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_serve.endpoint import Call
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import rerank_endpoints

from owpc_ltr import connect
from owpc_ltr.models.model_file import save_model
from tests.engine.fake_engine import FakeEngine
from tests.pages import Block, blocks_of
from tests.serve.java import java_casts
from tests.serve.searched_engine import MODEL, SearchedEngine, model_scores
from tests.serve.service import Service, service

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
ADDRESS = "http://127.0.0.1:8900"
DOCUMENTS = ["d4", "d9", "d2"]
SCORES = model_scores([int(document[1:]) for document in DOCUMENTS])
PYTHON = "OWPC_LTR_TEST_CLIENTS"
CLIENTS = [block for block in blocks_of(PAGE) if block.language == "python"]
"""The blocks of the page that use a client."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    save_model(MODEL, folder / "movies-owpc.json")
    with FakeEngine() as fake:
        SearchedEngine().scripts(fake)
        with service(folder, fake.url, "movies-owpc.json", "--index", "movies") as running:
            yield running


@pytest.mark.parametrize("block", CLIENTS, ids=lambda block: block.remarks["runs where"])
def test_a_client_ranks_as_the_model_does(block: Block, served: Service) -> None:
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(f"{PYTHON} names no Python with the clients: make test-clients")
    assert ADDRESS in block.source
    source = block.source.replace(ADDRESS, f"http://{served.host}:{served.port}")
    ended = subprocess.run(
        [python, "-c", source], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines()]
    order = sorted(range(3), key=lambda number: -SCORES[number])
    assert [int(index) for index, _ in lines] == order
    assert [float(score) for _, score in lines] == pytest.approx([SCORES[i] for i in order])


def test_the_page_has_a_block_for_each_client() -> None:
    names = {block.remarks["runs where"].partition(".")[0] for block in CLIENTS}
    assert names == {"cohere", "langchain_cohere", "llama_index", "rerankers", "litellm"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The text of the answer to a body, by path."""
    folder = tmp_path_factory.mktemp("answers")
    save_model(MODEL, folder / "movies-owpc.json")
    with FakeEngine() as fake:
        SearchedEngine().scripts(fake)
        rankers = Rankers(connect(fake.url), [folder / "movies-owpc.json"], "movies")
        handlers = {
            endpoint.path: endpoint.handler
            for endpoint in rerank_endpoints(rankers, Metrics(rankers.states))
        }

        def answer(path: str, body: str) -> str:
            return handlers[path](Call(path, body.encode(), time.monotonic() + 20)).body.decode()

        yield answer


def test_the_first_request_of_the_page(answers: Any) -> None:
    (block,) = (
        each for each in blocks_of(PAGE) if "curl" in each.source and "rerank" in each.source
    )
    words = shlex.split(block.source.partition("$ ")[2])
    path = words[1].removeprefix(ADDRESS)
    answer = json.loads(answers(path, words[words.index("-d") + 1]))
    assert answer.keys() == {"id", "results", "meta"}
    assert sorted(result["index"] for result in answer["results"]) == [0, 1, 2]


def file_of(title: str) -> Any:
    (block,) = (each for each in blocks_of(PAGE) if each.title == title)
    return json.loads(block.source)


@pytest.mark.parametrize("documents", [DOCUMENTS, ['{"size": 1.5}', '{"size": 3.0}']])
def test_opensearch_casts_the_answer_to_its_connector(answers: Any, documents: list[str]) -> None:
    """The body as the connector fills it: texts escaped, lists as JSON, numbers as they are."""
    connector = file_of("connector.json")
    (action,) = connector["actions"]
    filled = {
        **connector["parameters"],
        "query": json.dumps('the "thing"')[1:-1],
        "documents": json.dumps(documents),
        "top_n": str(len(documents)),
    }
    body = re.sub(r"\$\{parameters\.(\w+)\}", lambda name: filled[name[1]], action["request_body"])
    assert action["url"].endswith("/v2/rerank")
    scores = java_casts(answers("/v2/rerank", body), len(documents))
    if documents is DOCUMENTS:
        assert scores == pytest.approx(SCORES)


def test_elasticsearch_finds_all_three_paths(answers: Any) -> None:
    settings = file_of("inference.json")["service_settings"]
    filled = {"query": json.dumps('the "thing"'), "input": json.dumps(DOCUMENTS)}
    body = re.sub(r"\$\{(\w+)\}", lambda name: filled[name[1]], settings["request"])
    results = json.loads(answers("/v2/rerank", body))["results"]
    paths = settings["response"]["json_parser"]
    values = {key: [at(result, path) for result in results] for key, path in paths.items()}
    assert sorted(values["reranked_index"]) == [0, 1, 2]
    assert values["document_text"] == [DOCUMENTS[index] for index in values["reranked_index"]]
    assert values["relevance_score"] == pytest.approx(sorted(SCORES, reverse=True))


def at(result: Any, path: str) -> Any:
    """What stands at a path of a result, `$.results[*].document.text`."""
    for key in path.removeprefix("$.results[*].").split("."):
        result = result[key]
    return result
