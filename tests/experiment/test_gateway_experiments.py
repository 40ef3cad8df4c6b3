"""The gateway with an experiment: one page of two rankers, and all else as without."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_experiment.status import ExperimentStatus, experiment_status
from owpc_ltr_serve.endpoint import MODEL_HEADER, STATUS_HEADER, Call
from owpc_ltr_serve.experiment_search import FIELD, HEADER, ImpressionLog
from owpc_ltr_serve.gateway import QUERY_HEADER, Gateway
from owpc_ltr_serve.model_search import PATH
from owpc_ltr_serve.rankers import Rankers

from owpc_ltr import connect
from owpc_ltr.engine.experiments import QUERY, STOPPED, Experiment
from owpc_ltr.evaluation.interleaving import interleave, leader
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.small_cluster import FEATURESET
from tests.serve.searched_engine import INDEX, MODEL, NAMES, SearchedEngine, features_of
from tests.serve.service import NotedMetrics

SEARCH = {"query": {"match": {"title": "title"}}}
PARAMS = {"keywords": "title"}
RECORD = f"/owpc-ltr-aliases/_doc/experiment%2F{'titles'}"
OTHER = LinearModel(NAMES, np.array([-1.0, 1.0, 0.5]), record={"featureset_hash": FEATURESET.hash})
STARTED = Experiment("titles", "model", "other", INDEX, "2026-01-01T00:00:00Z", alias="model")


@dataclass
class Served:
    """A gateway before a fake engine, whose record of the experiment a test may change."""

    engine: SearchedEngine
    fake: FakeEngine
    rankers: Rankers
    log: ImpressionLog
    noted: NotedMetrics = field(default_factory=NotedMetrics)

    def __post_init__(self) -> None:
        self.keep(STARTED)
        self.gateway = Gateway(self.rankers, self.noted, self.log)

    def keep(self, experiment: Experiment) -> None:
        """The record of the experiment from now on, for a new gateway."""
        document = {"experiment": {"format": 1, **experiment.as_dict()}}
        place = {"_seq_no": 1, "_primary_term": 1, "_source": document}
        self.fake.on("GET", RECORD, Reply(place))
        self.gateway = Gateway(self.rankers, self.noted, self.log)

    def search(
        self, client: Any = "c1", *, seconds: float = 10.0, own: Any = None, **body: Any
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and content of the gateway's answer."""
        user = {} if client is None else {"client_id": client}
        ext = {"owpc_ltr": {"experiment": "titles", "params": PARAMS, **(own or {})}, "ubi": user}
        content = json.dumps({**SEARCH, **body, "ext": ext}).encode()
        call = Call(PATH, content, time.monotonic() + seconds, {"index": INDEX})
        reply = self.gateway.answer(call)
        return reply.status, dict(reply.headers), json.loads(reply.body)

    def impressions(self, most: int = 0) -> list[dict[str, Any]]:
        """What was logged; waits for so many lines."""
        until = time.monotonic() + 20
        while len(lines := self.log.path.read_text().splitlines()) < most:
            assert time.monotonic() < until
            time.sleep(0.01)
        return [json.loads(line) for line in lines]


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    for name, model in (("model", MODEL), ("other", OTHER)):
        save_model(model, tmp_path / f"{name}.json")
    with FakeEngine() as fake:
        engine = SearchedEngine(plugin=getattr(request, "param", None) == "ltr-plugin")
        engine.scripts(fake)
        rankers = Rankers(connect(fake.url), [tmp_path / "model.json", tmp_path / "other.json"])
        yield Served(engine, fake, rankers, ImpressionLog(tmp_path / "shown.jsonl"))
        rankers.stop()


def ranked(model: LinearModel, window: int = 100, documents: int = 250) -> list[str]:
    """All documents, those of the window in the model's order."""
    rows = [[features_of(n).get(name, np.nan) for name in NAMES] for n in range(window)]
    order = np.argsort(-model.score(np.array(rows, np.float32)), kind="stable")
    return [f"d{n}" for n in [*order.tolist(), *range(window, documents)]]


def wanted(client: str, start: int = 0, size: int = 10, *, a: Any = None, b: Any = None) -> Any:
    """The page that the merge of both lists has."""
    lists = a or ranked(MODEL), b or ranked(OTHER)
    return interleave(
        *lists, experiment="titles", client=client, query="title", size=size, start=start
    )


def ids(answer: Any) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"]]


CLIENTS = [f"c{number}" for number in range(16)]


@pytest.mark.parametrize("served", ["plugin-free", "ltr-plugin"], indirect=True)
def test_the_page_is_the_merge_and_all_else_is_the_engines(served: Served) -> None:
    more: dict[str, Any] = {"aggs": {"sizes": {}}, "highlight": {"fields": {}}, "fields": ["year"]}
    for client in CLIENTS:
        before = len(served.engine.asked)
        status, headers, answer = served.search(client, size=7, **{"from": 3}, **more)
        page = wanted(client, 3, 7)
        assert (status, headers[STATUS_HEADER], ids(answer)) == (200, "interleaved", page.hits)
        leads = leader("titles", client, "title")
        assert headers[HEADER] == f"titles; leads={leads}"
        # Rankers of one feature set share one search.
        assert len(served.engine.asked) == before + 1
        own = json.loads(json.dumps(served.engine.search({**SEARCH, **more, "size": 250}, {})))
        by_id = {hit["_id"]: hit for hit in own["hits"].pop("hits")}
        for hit in answer["hits"].pop("hits"):
            assert hit["fields"].pop(FIELD) == [page.event_attributes[hit["_id"]]]
            assert {**hit, "_score": 0.0} == {**by_id[hit["_id"]], "_score": 0.0}
        for each in (answer, own):
            each["hits"].pop("max_score")
            del each["took"]
        assert answer == own
    assert not served.noted.degradations


def test_scores_are_those_of_the_ranker_that_leads(served: Served) -> None:
    seen = set()
    for client in CLIENTS:
        leads = leader("titles", client, "title")
        model = MODEL if leads == "a" else OTHER
        hits = served.search(client)[2]["hits"]
        numbers = [int(hit["_id"][1:]) for hit in hits["hits"]]
        rows = [[features_of(n).get(name, np.nan) for name in NAMES] for n in numbers]
        scores = model.score(np.array(rows, np.float32))
        assert [hit["_score"] for hit in hits["hits"]] == pytest.approx(scores.tolist())
        assert hits["max_score"] == pytest.approx(scores.max())
        seen.add(leads)
    assert seen == {"a", "b"}


@pytest.mark.parametrize("size", [7, 40])
def test_pages_show_every_document_once_down_to_the_last(served: Served, size: int) -> None:
    shown: list[str] = []
    for first in range(0, 250, size):
        shown += ids(served.search("c3", size=size, **{"from": first})[2])
    assert shown == wanted("c3", 0, 250).hits
    assert len(set(shown)) == 250
    assert ids(served.search("c3")[2]) == shown[:10]  # a reload


@pytest.mark.parametrize(("a", "b"), [(QUERY, "other"), ("model", QUERY)])
def test_an_arm_may_be_the_query_alone(served: Served, a: str, b: str) -> None:
    served.keep(replace(STARTED, a=a, b=b, alias=None))
    engine = [f"d{n}" for n in range(250)]
    lists: dict[str, Any] = {"a" if a == QUERY else "b": engine}
    for client in CLIENTS:
        _, headers, answer = served.search(client)
        assert headers[STATUS_HEADER] == "interleaved"
        assert ids(answer) == wanted(client, **lists).hits


def test_rankers_of_two_feature_sets_have_a_search_each(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = replace(FEATURESET, name="two", features=(*FEATURESET.features[:2], replace(
        FEATURESET.features[2], template={"match_all": {}})))  # fmt: skip
    assert two.hash != FEATURESET.hash
    arm = Rankers.arm

    def of_two(rankers: Rankers, name: str) -> Any:
        located = rankers.located(replace(arm(rankers, name), index=INDEX))
        return replace(located, featureset=two) if name == "other" else located

    monkeypatch.setattr(Rankers, "arm", of_two)
    for client in CLIENTS[:3]:
        served.engine.asked.clear()
        _, headers, answer = served.search(client, aggs={"sizes": {}})
        assert headers[STATUS_HEADER] == "interleaved"
        assert ids(answer) == wanted(client).hits
        assert "aggregations" in answer
        assert [("aggs" in request.body) for request in served.engine.asked].count(True) == 1
        assert len(served.engine.asked) == 2
        alone = next(request.body for request in served.engine.asked if "aggs" not in request.body)
        assert alone["_source"] is False


def test_a_hit_that_one_of_two_searches_lacks_is_last_in_its_list() -> None:
    from owpc_ltr_serve.experiment_search import _over_hits
    from owpc_ltr_serve.model_search import ScoredWindow

    def window(names: str, scores: list[float]) -> ScoredWindow:
        hits = [{"_id": name, "_score": 1.0} for name in names]
        answer = {"hits": {"hits": hits}}
        return ScoredWindow(None, answer, hits, np.array(scores), False, 0.0, 0.0)  # type: ignore[arg-type]

    shown, tried = window("abcd", [4, 3, 2, 1]), window("bxda", [1, 9, 3, 2])
    assert [("abcd"[place]) for place in _over_hits(tried, shown).order] == ["d", "a", "b", "c"]


def slow(rankers: Rankers, name: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a model score slowly, or fail."""
    served = rankers.get(name)

    def rerank(*_: Any, **__: Any) -> Any:
        if seconds < 0:
            raise ZeroDivisionError
        time.sleep(seconds)
        return np.zeros(100)

    monkeypatch.setattr(type(served.ranker), "rerank", _only(served.ranker, rerank))


def _only(ranker: Any, instead: Any) -> Any:
    own = type(ranker).rerank
    return lambda self, *given, **more: (instead if self is ranker else own.__get__(self))(
        *given, **more
    )


@pytest.mark.parametrize(("seconds", "why"), [(1.5, "B did not answer in time"), (-1, "B failed")])
def test_where_b_fails_or_is_late_the_page_is_as_and_does_not_count(
    served: Served, monkeypatch: pytest.MonkeyPatch, seconds: float, why: str
) -> None:
    slow(served.rankers, "other", seconds, monkeypatch)
    began = time.monotonic()
    status, headers, answer = served.search(seconds=1.0, size=5)
    assert time.monotonic() - began < 0.95
    assert (status, ids(answer)) == (200, ranked(MODEL)[:5])
    assert headers[STATUS_HEADER].startswith(f"degraded; experiment: {why}")
    assert HEADER not in headers
    # An application copies what a hit says into a click, whatever the page is.
    own = {"experiment": {"name": "titles", "failed": "experiment"}}
    assert [hit["fields"][FIELD] for hit in answer["hits"]["hits"]] == [[own]] * 5
    assert served.noted.degradations == [(PATH, "experiment")]
    (line,) = served.impressions()
    assert line["query_attributes"]["experiment"] == {"name": "titles", "failed": "experiment"}


def test_where_two_indices_have_a_document_of_one_id_the_page_is_as(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clicks do not say which of the two they mean."""
    hit = SearchedEngine._hit

    def of_two_indices(engine: Any, number: int, *more: Any) -> Any:
        twice = hit(engine, number, *more)
        return {**twice, "_id": "d0", "_index": "other"} if number == 1 else twice

    monkeypatch.setattr(SearchedEngine, "_hit", of_two_indices)
    status, headers, answer = served.search()
    assert (status, len(ids(answer))) == (200, 10)
    assert "degraded; experiment: the list of A has 'd0' at ranks" in headers[STATUS_HEADER]


def test_where_a_fails_the_page_is_the_engines(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(served.rankers, "model", 1.5, monkeypatch)
    _, headers, answer = served.search(seconds=1.0)
    assert headers[STATUS_HEADER] == "degraded; deadline: the model did not answer in time"
    assert ids(answer) == [f"d{n}" for n in range(10)]
    (line,) = served.impressions()
    assert line["query_attributes"]["experiment"] == {"name": "titles", "failed": "deadline"}


@pytest.mark.parametrize(
    ("change", "body", "failed"),
    [
        ({}, {"from": 150}, "not interleaved"),
        ({"shadow": True}, {}, "not interleaved"),
        ({"state": STOPPED}, {}, "not interleaved"),
        ({"state": STOPPED, "a": QUERY, "alias": None}, {}, "not interleaved"),
        ({"a": "nobody"}, {}, "model"),
    ],
    ids=["beyond the window", "shadow", "stopped", "stopped, the query", "no model"],
)
def test_every_hit_of_an_experiment_has_what_a_click_copies(
    served: Served, change: dict[str, Any], body: dict[str, Any], failed: str
) -> None:
    served.keep(replace(STARTED, **change))
    _, _, answer = served.search(**body)
    own = {"experiment": {"name": "titles", "failed": failed}}
    assert [hit["fields"][FIELD] for hit in answer["hits"]["hits"]] == [[own]] * 10


@pytest.mark.parametrize("client", [None, ""])
def test_a_search_without_a_client_shows_a_and_does_not_count(served: Served, client: Any) -> None:
    _, headers, answer = served.search(client)
    assert headers[STATUS_HEADER].startswith("degraded; client: ")
    assert ids(answer) == ranked(MODEL)[:10]
    (line,) = served.impressions()
    assert line["query_attributes"]["experiment"] == {"name": "titles", "failed": "client"}


def test_an_unknown_experiment_leaves_the_engines_order(served: Served) -> None:
    _, headers, answer = served.search(own={"experiment": "others"})
    assert "degraded; experiment: there is no experiment 'others'" in headers[STATUS_HEADER]
    assert ids(answer) == [f"d{n}" for n in range(10)]


def test_a_damaged_record_leaves_the_engines_order(served: Served) -> None:
    served.fake.on("GET", RECORD, Reply({"_seq_no": 1, "_primary_term": 1, "_source": {}}))
    assert "is damaged" in served.search()[1][STATUS_HEADER]


def test_an_experiment_that_is_stopped_leaves_the_alias_and_the_same_request(
    served: Served,
) -> None:
    served.keep(replace(STARTED, state=STOPPED, alias="other"))
    _, headers, answer = served.search()
    assert headers[STATUS_HEADER] == "ranked"
    assert headers[MODEL_HEADER].startswith("other@")
    assert ids(answer) == ranked(OTHER)[:10]
    served.keep(replace(STARTED, state=STOPPED, a=QUERY, alias=None))
    _, headers, answer = served.search()
    assert headers[STATUS_HEADER] == "engine; the experiment is stopped"
    assert ids(answer) == [f"d{n}" for n in range(10)]
    (first, second) = (line["query_attributes"] for line in served.impressions())
    assert "experiment" not in first
    assert "experiment" not in second


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"own": {"experiment": 3}}, "the experiment of 'ext.owpc_ltr' is a number"),
    ({"own": {"experiment": ""}}, "the experiment of 'ext.owpc_ltr'"),
    ({"own": {"experiment": None}}, "the experiment of 'ext.owpc_ltr'"),
    ({"own": {"experiment": "../_all"}}, "cannot name a search experiment"),
    ({"own": {"experiment": "x" * 5000}}, "cannot name a search experiment"),
    ({"own": {"model": "model"}}, "has a model and an experiment"),
    ({"own": {"leads": "b"}}, "has 'leads', which is not known here"),
    ({"client": ["c1"]}, "the client_id of 'ext.ubi' is a text or a whole number"),
    ({"client": True}, "the client_id of 'ext.ubi' is a text or a whole number"),
    ({"client": {"id": 1}}, "the client_id of 'ext.ubi' is a text or a whole number"),
    ({"client": "c" * 1001}, "is longer than 1000 characters"),
    ({"client": 10**1200}, "is longer than 1000 characters"),
]


@pytest.mark.parametrize(
    ("given", "complaint"), MALFORMED, ids=lambda parameter: str(parameter)[:40]
)
def test_what_no_experiment_can_be_is_refused(
    served: Served, given: dict[str, Any], complaint: str
) -> None:
    status, _, answer = served.search(**given)
    assert status == 400
    assert complaint in answer["error"]["reason"]
    assert len(answer["error"]["reason"]) < 6000
    assert not served.engine.asked


def test_an_impression_says_what_was_shown_and_who_led(served: Served) -> None:
    _, headers, _ = served.search("c2", size=4, **{"from": 4})
    (line,) = served.impressions()
    own = line["query_attributes"]["experiment"]
    assert 0 < own.pop("ms_a") < 10_000
    assert 0 < own.pop("ms_b") < 10_000
    assert own == {"name": "titles", "leads": leader("titles", "c2", "title")}
    assert line["query_response_hit_ids"] == wanted("c2", 0, 8).hits
    assert (line["client_id"], line["query_id"]) == ("c2", headers[QUERY_HEADER])
    assert line["query_attributes"]["status"] == "interleaved"


def test_a_search_that_finds_nothing_counts(served: Served) -> None:
    served.engine.documents = 0
    _, headers, answer = served.search()
    assert (headers[STATUS_HEADER], ids(answer)) == ("interleaved", [])
    (line,) = served.impressions()
    assert line["query_response_hit_ids"] == []


@pytest.mark.parametrize(("a", "b"), [("model", "other"), (QUERY, "other"), ("model", QUERY)])
def test_in_the_shadow_b_is_computed_and_a_is_shown(served: Served, a: str, b: str) -> None:
    served.keep(replace(STARTED, a=a, b=b, shadow=True))
    _, headers, answer = served.search(size=5)
    own = [f"d{n}" for n in range(250)] if a == QUERY else ranked(MODEL)
    assert ids(answer) == own[:5]
    assert HEADER not in headers
    (line,) = served.impressions(1)
    assert line["query_id"] == headers[QUERY_HEADER]
    assert line["query_response_hit_ids"] == own[:5]
    logged = line["query_attributes"]["experiment"]
    lists = [own, [f"d{n}" for n in range(250)] if b == QUERY else ranked(OTHER)]
    ranks = [np.argsort([int(name[1:]) for name in each[:100]]) for each in lists]
    from scipy.stats import kendalltau

    assert logged["tau"] == pytest.approx(kendalltau(*ranks).statistic)
    assert (logged["ms_a"] is None) == (a == QUERY)
    assert (logged["ms_b"] is None) == (b == QUERY)


def test_what_fails_in_the_shadow_is_logged_and_shown_to_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.keep(replace(STARTED, shadow=True))
    slow(served.rankers, "other", -1, monkeypatch)
    _, headers, answer = served.search(size=5)
    assert (headers[STATUS_HEADER], ids(answer)) == ("ranked", ranked(MODEL)[:5])
    (line,) = served.impressions(1)
    own = line["query_attributes"]["experiment"]
    assert own == {"name": "titles", "failed": "ZeroDivisionError"}


def test_more_shadows_than_can_wait_are_left_out_and_counted(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr_serve.experiment_search._WAITING", 2)
    served.keep(replace(STARTED, shadow=True))
    slow(served.rankers, "other", 0.5, monkeypatch)
    for _ in range(5):
        assert served.search()[1][STATUS_HEADER] == "ranked"
    failures = Counter(
        line["query_attributes"]["experiment"].get("failed") for line in served.impressions(5)
    )
    assert failures["busy"] == 3


def test_a_hundred_clients_at_once_each_have_their_own_page(served: Served) -> None:
    pages = {client: wanted(client).hits for client in (f"u{n}" for n in range(100))}
    wrong = []

    def look_at_pages(client: str) -> None:
        _, headers, answer = served.search(client, seconds=30)
        if headers[STATUS_HEADER] != "interleaved" or ids(answer) != pages[client]:
            wrong.append((client, headers))

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(look_at_pages, pages))
    assert not wrong
    assert len(served.impressions()) == 100
    # The record is read again every few seconds, not for each search.
    assert len(served.fake.asked("GET", RECORD)) < 40


def test_a_record_that_cannot_be_read_for_a_while_is_what_it_was(served: Served) -> None:
    experiments = served.gateway._experiments
    served.search()
    experiments._refresh = 0.0
    served.fake.on("GET", RECORD, Reply({"error": "busy"}, 500))
    assert served.search()[1][STATUS_HEADER] == "interleaved"
    served.fake.on("GET", RECORD, Reply({"found": False}, 404))
    assert served.search()[1][STATUS_HEADER].startswith("degraded; experiment: there is no")


def test_from_the_gateways_log_and_clicks_to_the_verdict(served: Served, tmp_path: Path) -> None:
    """Users want what B has on top: an application copies what the hit says into its click.

    One in ten clicks on what is first, whatever it is.
    """
    best = ranked(OTHER)[0]
    lines, rng = [], np.random.default_rng(1)
    for number in range(160):
        client = f"u{number}"
        _, headers, answer = served.search(client)
        shown = ids(answer)
        top = shown[0] if rng.random() < 0.1 else best
        hit = next((hit for hit in answer["hits"]["hits"] if hit["_id"] == top), None)
        if hit is not None and rng.random() < 1 / (shown.index(top) + 1):
            lines.append({
                "action_name": "click", "query_id": headers[QUERY_HEADER], "client_id": client,
                "timestamp": "2026-06-01T00:00:00Z",
                "event_attributes": {"object": {"object_id": top}, **hit["fields"][FIELD][0]},
            })  # fmt: skip
    clicks = tmp_path / "clicks.jsonl"
    clicks.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    status = status_of_log(served, [served.log.path, clicks])
    assert status.result is not None
    assert (status.result.n_clients, status.result.n_searches) == (160, 160)
    assert status.result.n_clicks == len(lines)
    assert str(status.result.verdict) == "better"
    assert status.by_leader["a"]["median ms of the list"]
    assert not status.unusable


def status_of_log(served: Served, paths: list[Path]) -> ExperimentStatus:
    return experiment_status(connect(served.fake.url), "titles", events=paths)


def test_no_thread_is_left_waiting_after_many_failures(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(served.rankers, "model", 0.3, monkeypatch)
    for _ in range(5):
        served.search(seconds=0.2)
    time.sleep(0.4)  # longer than the model takes
    names = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("owpc-ltr-arm") for name in names) <= 5
