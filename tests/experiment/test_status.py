"""What counts of a log: each click once, each client as a whole; what is left out is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_experiment.experiment_log import (
    CountedSearches,
    ExperimentLog,
    LeftOut,
    count_searches,
    read_files,
    read_indices,
)
from owpc_ltr_experiment.status import (
    ExperimentStatus,
    client_totals,
    read_log,
    segment_losses,
    status_of,
)
from owpc_ltr_experiment.stop import _check_better
from owpc_ltr_experiment.verdict import ClickedPositions, adjusted_credit, debiased_credit

from owpc_ltr.engine.client.engine import open_engine
from owpc_ltr.engine.experiments import Experiment
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.interleaving import interleave
from owpc_ltr.evaluation.significance import Outcome
from tests.engine.ubi_indices import DYNAMIC, PLUGIN, ubi_indices
from tests.experiment.users import A, B, click_line, log_of_users, query_line

EXPERIMENT = Experiment("titles", "m-1", "m-2", "movies", "2026-01-01T00:00:00Z", alias="m")
PLACES = {"a": 3, "b": 1, "in_a": 2, "in_b": 1}


def attributes(leads: str = "a", **more: Any) -> dict[str, Any]:
    return {"experiment": {"name": "titles", "leads": leads, **more}}


def shown(search: str, client: str, leads: str = "a", **more: Any) -> dict[str, Any]:
    return query_line(search, client, attributes(leads, **more), ["d1", "d2"])


def clicked(search: str, client: str, document: str = "d1", leads: str = "a", **more: Any) -> Any:
    second = more.pop("second", 0.0)
    return click_line(search, client, document, attributes(leads, **{**PLACES, **more}), second)


def read(lines: list[Any], folder: Path, experiment: Experiment = EXPERIMENT) -> ExperimentLog:
    path = folder / "log.jsonl"
    texts = (line if isinstance(line, str) else f"{json.dumps(line)}\n" for line in lines)
    path.write_text("".join(texts))
    return read_files(experiment, [path])


def test_a_client_is_a_unit_with_all_of_its_searches(tmp_path: Path) -> None:
    lines = [shown("s1", "u1"), shown("s2", "u1", "b"), shown("s3", "u2"), shown("s4", "u3", "b")]
    lines += [clicked("s1", "u1"), clicked("s2", "u1", "d2", "b"), clicked("s4", "u3", leads="b")]
    behaviour = read(lines, tmp_path)
    counts = count_searches(behaviour, 100)
    totals = client_totals(counts, 10, 1.0)
    assert totals.searches.tolist() == [2, 1, 1]
    assert totals.clicks.tolist() == [2, 0, 1]
    assert totals.led_b.tolist() == [1, 0, 1]
    credit = debiased_credit(counts.positions, 1.0, 10)[0]
    # θ = 1/rank: (1 − 1/3) / (½ (1/2 + 1))
    assert credit == pytest.approx((1 - 1 / 3) / 0.75)
    # B leads two clicks of three, as predicted: nothing is adjusted but single clicks.
    assert totals.residual == pytest.approx([-1 / 3, 0, 1 / 3])
    assert totals.credit.sum() == pytest.approx(3 * credit)
    of_each = adjusted_credit(counts.positions, 1.0, 10)
    assert totals.credit == pytest.approx([of_each[:2].sum(), 0, of_each[2]])
    assert not counts.unusable


REASONS: list[tuple[list[Any], str]] = [
    ([clicked("s1", "u1"), clicked("s1", "u1", second=9)], "clicked again"),
    ([clicked("s9", "u1")], "a click whose search was not logged"),
    ([clicked("s1", "u1", leads="b")], "a click that its search contradicts"),
    ([clicked("s1", "u1", in_a=None, in_b=None)], "a click without positions"),
    ([clicked("s1", "u1", in_a="x", in_b=-2)], "a click without positions"),
    ([shown("s1", "u1")], "a search that was logged again"),
    ([query_line("s2", None, attributes(), [])], "a search without client or id"),  # type: ignore[arg-type]
    ([{**shown("s2", "u1"), "timestamp": "2025-12-31T23:59:59Z"}], "before the experiment began"),
    ([{**shown("s2", "u1"), "timestamp": "2999-01-01T00:00:00Z"}], "a time in the future"),
    ([{**clicked("s1", "u1"), "timestamp": "32503680000"}], "a time in the future"),
]


@pytest.mark.parametrize(("lines", "reason"), REASONS, ids=[why for _, why in REASONS])
def test_what_cannot_be_used_is_counted_by_its_reason(
    lines: list[Any], reason: str, tmp_path: Path
) -> None:
    behaviour = read([shown("s1", "u1"), *lines], tmp_path)
    counts = count_searches(behaviour, 100)
    assert dict(counts.unusable) == {reason: 1}
    assert counts.n_clients == 1
    assert f"left out: 1 × {reason}" in str(status_of(EXPERIMENT, behaviour))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1, 2]\n", "it is a list, not an object"),
        ('{"query_id": "s2", "client\n', "unterminated string"),
        ('{"query_id": "\\ud800"}\n', "half a surrogate pair"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_with_its_number(
    line: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=f"log.jsonl, line 2: {why}.* correct or delete the line"):
        read([shown("s1", "u1"), line], tmp_path)


@given(order=st.permutations(range(9)))
def test_the_order_of_the_log_does_not_matter(order: list[int], tmp_path_factory: Any) -> None:
    lines = [shown(f"s{n}", f"u{n % 2}", "ab"[n % 2]) for n in range(4)]
    lines += [clicked(f"s{n}", f"u{n % 2}", leads="ab"[n % 2]) for n in range(4)]
    lines.append(clicked("s1", "u1", leads="b"))
    folder = tmp_path_factory.mktemp("order")
    totals = client_totals(count_searches(read([lines[n] for n in order], folder), 100), 10, 1.0)
    clients = sorted(zip(totals.searches, totals.clicks, totals.credit.round(9), strict=True))
    # Each click is worth (1 - 1/3) / .75 = 8/9, adjusted by 3/4 of 8/9 times the residual.
    of_a, of_b = (2 * 8 / 9 * (1 - 0.75 * residual) for residual in (-2 / 3, 1 / 3))
    assert clients == [(2, 2, round(of_b, 9)), (2, 2, round(of_a, 9))]


def test_events_of_others_and_other_actions_are_not_read(tmp_path: Path) -> None:
    other = {"experiment": {"name": "other", "leads": "a", **PLACES}}
    lines = [
        shown("s1", "u1"), query_line("s2", "u2", {}, []), query_line("s3", "u2", other, []),
        click_line("s1", "u1", "d1", other), click_line("s1", "u1", "d1", {}),
        {**clicked("s1", "u1"), "action_name": "hover"},
    ]  # fmt: skip
    behaviour = read(lines, tmp_path)
    counts = count_searches(behaviour, 100)
    assert (counts.n_clients, len(counts.of_client)) == (1, 0)
    assert not counts.unusable


def test_names_with_dots_are_read_as_objects_are(tmp_path: Path) -> None:
    query = shown("s1", "u1")
    query |= {"query_attributes.experiment": query.pop("query_attributes")["experiment"]}
    click = clicked("s1", "u1")
    own = click.pop("event_attributes")["experiment"]
    click |= {f"event_attributes.experiment.{key}": part for key, part in own.items()}
    click["event_attributes.object.object_id"] = "d1"
    assert len(count_searches(read([query, click], tmp_path), 100).of_client) == 1


def test_clients_with_too_many_clicks_in_an_hour_are_dropped_with_all_they_did(
    tmp_path: Path,
) -> None:
    lines = [shown("s1", "bot"), shown("s2", "u1", "b"), shown("s3", "calm", "b")]
    lines += [clicked("s1", "bot", f"d{n}", second=n) for n in range(6)]
    lines += [clicked("s3", "calm", f"d{n}", leads="b", second=-3600 * n) for n in range(6)]
    lines += [clicked("s2", "u1", leads="b")]
    behaviour = read(lines, tmp_path)
    counts = count_searches(behaviour, 5)
    assert (counts.n_clients, counts.bots) == (2, 1)
    assert counts.of_client.tolist() == [1] * 6 + [0]
    assert counts.clicks.tolist() == [1, 6]
    assert counts.unusable["a click of a bot"] == 6
    assert "clients dropped as bots: 1" in str(status_of(EXPERIMENT, behaviour, 5))
    assert count_searches(read(lines, tmp_path), 0).bots == 0
    # A log of which each line came twice makes nobody a bot.
    calm = [line for line in lines if line["client_id"] != "bot"]
    twice = [shown("s4", "u4"), *(clicked("s4", "u4", f"d{n}", second=n) for n in range(4))]
    counts = count_searches(read([*calm, *twice, *twice], tmp_path), 5)
    assert (counts.bots, len(counts.of_client)) == (0, 11)
    logged_again = {"a click that was logged again": 4, "a search that was logged again": 1}
    assert counts.unusable == logged_again
    # Clicks on one document again and again are those of a bot.
    again = [clicked("s3", "calm", "d0", leads="b", second=n) for n in range(1, 7)]
    assert count_searches(read([*calm, *again], tmp_path), 5).bots == 1


def test_searches_that_showed_a_alone_do_not_count(tmp_path: Path) -> None:
    failed = {"experiment": {"name": "titles", "failed": "deadline"}}
    lines = [shown("s1", "u1"), query_line("s2", "u2", failed, ["d1"])]
    lines.append(click_line("s2", "u2", "d1", failed))
    counts = count_searches(read(lines, tmp_path), 100)
    assert (counts.n_clients, counts.failed, len(counts.of_client)) == (1, 1, 0)
    assert not counts.unusable


def test_a_log_without_the_experiment_says_what_to_log(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no search of the experiment 'titles' was logged"):
        count_searches(read([query_line("s1", "u1", {}, [])], tmp_path), 100)


def test_one_log_is_named_and_not_two() -> None:
    cluster: Any = None
    for files, indices in (([], None), (["x"], ("queries", "events"))):
        with pytest.raises(UsageError, match="name the log with `events`"):
            read_log(cluster, EXPERIMENT, files, indices)


def of_users(folder: Path, **how: Any) -> ExperimentStatus:
    path = log_of_users(EXPERIMENT, folder / "log.jsonl", np.random.default_rng(4), **how)
    return status_of(EXPERIMENT, read_files(EXPERIMENT, [path]))


def test_the_verdict_comes_first_and_fits_the_terminal(tmp_path: Path) -> None:
    status = of_users(tmp_path)
    lines = str(status).splitlines()
    assert lines[0].startswith("better")
    assert max(map(len, lines)) <= 80
    assert any("A LEADS" in line for line in lines)
    content = json.loads(json.dumps(status.as_dict()))
    assert content["result"]["verdict"]["outcome"] == "better"
    assert content["by_leader"]["a"]["searches"] + content["by_leader"]["b"]["searches"] == 400


def test_lists_that_users_do_not_tell_apart_have_no_better_one(tmp_path: Path) -> None:
    """d is fourth in both lists."""
    assert str(of_users(tmp_path, wanted="d").result.verdict) != "better"  # type: ignore[union-attr]


def test_more_searches_without_a_click_where_b_leads_are_warned_of(tmp_path: Path) -> None:
    lines = []
    for number in range(400):
        leads = "ab"[number % 2]
        lines.append(shown(f"s{number}", f"u{number}", leads, ms_a=10, ms_b=45))
        if leads == "a" or number % 3 == 0:
            lines.append(clicked(f"s{number}", f"u{number}", leads=leads))
    status = status_of(EXPERIMENT, read(lines, tmp_path))
    assert [each.check for each in status.warnings] == ["abandoned", "slow"]
    assert status.result is not None
    assert "abandoned" in [warning.check for warning in status.result.verdict.warnings]
    assert "66.5% of the searches that B leads end without a click" in str(status)
    assert max(map(len, str(status).splitlines())) <= 80
    alike = [query_line(f"s{n}", f"u{n}", attributes("ab"[n % 2]), []) for n in range(400)]
    assert not status_of(EXPERIMENT, read(alike, tmp_path)).warnings
    for line in alike[::2]:
        line["query_response_hit_ids"] = ["d"]
    (warning,) = status_of(EXPERIMENT, read(alike, tmp_path)).warnings
    assert warning.check == "empty"


def test_documents_that_never_get_a_click_are_told_by_leader_and_decide(tmp_path: Path) -> None:
    """A puts d9 first, whose clicks nobody logs; B puts it second, so that d1 gets more."""
    lines: list[Any] = []
    for number in range(400):
        leads, first = "ab"[number % 2], ("d9", "d1")[number % 2]
        page = [first, *({"d1", "d9"} - {first})]
        lines.append(query_line(f"s{number}", f"u{number}", attributes(leads), page))
        if leads == "b" or number % 4 == 0:
            click = clicked(f"s{number}", f"u{number}", leads=leads, a=2, b=1, in_a=2, in_b=1)
            lines.append(click)
    status = status_of(EXPERIMENT, read(lines, tmp_path))
    assert status.result is not None
    checks = [warning.check for warning in status.result.verdict.warnings]
    assert checks == ["never-clicked"]
    shares = [status.by_leader[side]["first never clicked"] for side in "ab"]
    assert shares == [1.0, 0.0]
    assert "documents that never get a click are first more often where A leads" in " ".join(
        str(status).split()
    )
    # One click shows that the page logs them.
    at_once = [shown("s999", "u999"), clicked("s999", "u999", "d9", a=1, b=2, in_a=1, in_b=2)]
    status = status_of(EXPERIMENT, read([*lines, *at_once], tmp_path))
    assert status.result is not None
    assert "never-clicked" not in [warning.check for warning in status.result.verdict.warnings]


def of_demoter(folder: Path, attraction: float, *, logged: bool = True, person: int = 0) -> Any:
    """A puts x first, B last, in 16 queries; users look at rank p with the chance 1/p.

    x attracts `attraction` of those who see it, the others .5. A `person` clicks on it that often
    in each query; what is clicked on x may not be logged.
    """
    rng, lines, clicks = np.random.default_rng(6), list[Any](), list[tuple[str, str, str, str]]()
    for n in range(1600):
        search, of, leads = f"s{n}", n % 16, "ab"[n // 16 % 2]
        page = ["x", "y", "z"] if leads == "a" else ["y", "x", "z"]
        shown_ids = [f"{document}{of}" for document in page]
        lines.append(query_line(search, f"u{n}", attributes(leads), shown_ids))
        for place, document in enumerate(page, 1):
            if rng.random() * place < (attraction if document == "x" else 0.5):
                clicks.append((search, f"u{n}", document, leads))
        if n < 16 * person:
            clicks.append((search, f"u{n}", "x", leads))
    places = {"x": (1, 3, 1, 2), "y": (2, 1, 2, 1), "z": (3, 2, 3, 3)}
    for search, client, document, leads in clicks:
        at = dict(zip(("a", "b", "in_a", "in_b"), places[document], strict=True))
        click = clicked(search, client, f"{document}{int(search[1:]) % 16}", leads, **at)
        lines += [click] * (logged or document != "x")
    status = status_of(EXPERIMENT, read(lines, folder))
    assert status.result is not None
    return status.result


def test_who_demotes_worthless_documents_is_better_and_untracked_ones_are_caught(
    tmp_path: Path,
) -> None:
    """Both are one log, where nobody ever clicks on them: until somebody does, as is advised."""
    assert of_demoter(tmp_path, 0.01).verdict.outcome == "better"
    liar, worthless = of_demoter(tmp_path, 0.6, logged=False), of_demoter(tmp_path, 0.0)
    for result in (liar, worthless):
        assert [warning.check for warning in result.verdict.warnings] == ["never-clicked"]
        assert "click on some in a search of the experiment (x0, x1, x2)" in " ".join(
            str(result).split()
        )
    assert of_demoter(tmp_path, 0.0, person=1).verdict.outcome == "better"
    still = of_demoter(tmp_path, 0.6, logged=False, person=1)
    assert [warning.check for warning in still.verdict.warnings] == ["never-clicked"]


@pytest.mark.parametrize(("clicked_on", "better"), [(2, False), (4, True)])
def test_seldom_clicked_documents_explain_as_many_that_are_never_clicked(
    clicked_on: int, *, better: bool
) -> None:
    """Eight documents that A puts first have none or one click of twenty; B's have all of these."""
    leads = np.arange(640) % 2 == 1
    first = np.arange(640) // 2 % 8
    seldom = ~leads & (first < clicked_on)
    none = np.zeros(0, np.int64)
    counts = CountedSearches(
        client=np.arange(640), query=np.zeros(640, np.int64), texts=("red shoe",),
        leads=leads, clicks=leads.astype(np.int64), on_first=leads,
        never_clicked=~leads & ~seldom, seldom_clicked=seldom,
        **dict.fromkeys(("empty", "late"), np.zeros(640, bool)),
        **dict.fromkeys(("ms_a", "ms_b", "tau"), np.full(640, np.nan)),
        positions=ClickedPositions(none, none, none, none, none > 0), of_search=none,
        untouched=(), n_clients=640, bots=0, failed=0, unusable=LeftOut(),
    )  # fmt: skip
    unlogged = client_totals(counts, 10, 1.0).unlogged.sum()
    assert unlogged == (0 if better else pytest.approx(-2 * 320 / 400 * (240 - 80)))


def test_the_last_third_by_time_is_what_novelty_is_seen_in(tmp_path: Path) -> None:
    """The log's order does not matter: early searches have all clicks, and stand last in it."""
    lines: list[Any] = []
    for number in reversed(range(300)):
        lines.append(shown(f"s{number}", f"u{number}"))
        lines[-1]["timestamp"] = f"2026-02-{1 + number // 20:02}T00:00:00Z"
        if number < 200:
            lines.append(clicked(f"s{number}", f"u{number}"))
    counts = count_searches(read(lines, tmp_path), 0)
    totals = client_totals(counts, 10, 1.0)
    assert (totals.credit != 0).sum() == 200
    assert not totals.late.any()


def test_the_shadow_has_agreement_and_latency_and_no_verdict(tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, shadow=True)
    lines = [
        query_line(f"s{n}", f"u{n}", {"experiment": {
            "name": "titles", "tau": 0.5 + n / 100, "ms_a": 5.0, "ms_b": 50.0,
        }}, ["d"])
        for n in range(10)
    ]  # fmt: skip
    lines.append(query_line("s99", "u1", {"experiment": {"name": "titles", "failed": "busy"}}, []))
    status = status_of(experiment, read(lines, tmp_path, experiment), 100)
    assert status.result is None
    assert status.tau == pytest.approx(0.545)
    assert [warning.check for warning in status.warnings] == ["slow"]
    text = str(status)
    assert text.startswith("no verdict: B is computed, and not shown")
    assert "(tau): 0.55" in text or "(tau): 0.54" in text
    assert status.failed == 1
    assert json.loads(json.dumps(status.as_dict()))["result"] is None


@pytest.mark.parametrize("mapping", [PLUGIN, DYNAMIC], ids=["plugin", "dynamic"])
def test_the_indices_say_the_same_as_the_file(node_url: str, mapping: Any, tmp_path: Path) -> None:
    path = log_of_users(EXPERIMENT, tmp_path / "log.jsonl", np.random.default_rng(5), clients=300)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["timestamp"] = "2026-06-01T12:00:00Z"
    queries = [line for line in lines if "action_name" not in line]
    events = [line for line in lines if "action_name" in line]
    engine = open_engine(node_url)
    with ubi_indices(engine, queries, events, mapping) as indices:
        behaviour = read_indices(engine, EXPERIMENT, *indices)
    other = read(lines, tmp_path)
    counts = [count_searches(source, 100) for source in (behaviour, other)]
    assert counts[0].unusable == counts[1].unusable == {}
    totals = [client_totals(counts_of_source, 10, 1.0) for counts_of_source in counts]
    for name in ("credit", "searches", "clicks", "led_b"):
        first, second = (np.sort(getattr(totals_of_source, name)) for totals_of_source in totals)
        np.testing.assert_allclose(first, second)
    assert len(totals[0].credit) == 300


def log_of_segments(
    rng: np.random.Generator, *, clients: int = 1200, tail_b: bool = False
) -> list[dict[str, Any]]:
    """Two of three clients ask one of three queries, on which B is better; others ask rare ones.

    On these A is better, or B as well (`tail_b`).
    """
    lines: list[dict[str, Any]] = []
    for number in range(clients):
        rare = number % 3 == 0
        lists = (A, B) if tail_b or not rare else (B, A)
        text = f"Rare{number}  shoe" if rare else f"shoe {rng.integers(3)}"
        client, search = f"u{number}", f"s{number}"
        page = interleave(*lists, experiment=EXPERIMENT.name, client=client, query=text)
        line = query_line(search, client, page.query_attributes, page.hits)
        lines.append({**line, "user_query": text})
        seen = page.hits[0] if rng.random() < 0.1 else "c"
        if rng.random() < 1 / (page.hits.index(seen) + 1):
            lines.append(click_line(search, client, seen, page.event_attributes[seen], number / 10))
    return lines


def test_b_that_loses_in_the_tail_is_not_better_by_clicks(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    log = read(log_of_segments(rng), tmp_path)
    status = status_of(EXPERIMENT, log)
    assert status.result is not None
    assert status.result.low > 0
    assert status.result.verdict.outcome is Outcome.CANNOT_TELL
    assert [warning.check for warning in status.warnings] == ["segment-loses"]
    reason = status.result.verdict.reason
    assert reason.startswith("B loses in the segment 'frequency: tail': -")
    assert "of 400 clients and 400 searches (corrected over 3 segments)" in reason
    with pytest.raises(Refused, match=r"is not promoted: cannot tell: .*'frequency: tail'"):
        _check_better(EXPERIMENT, status)
    for accept_loss in (["Frequency: tail"], "frequency: tail"):
        accepted = status_of(EXPERIMENT, log, accept_loss=accept_loss)
        assert accepted.result is not None
        assert str(accepted.result.verdict) == "better"
        assert not accepted.warnings
    with pytest.raises(UsageError, match=r"no segment is called 'tail': there are .*: tail"):
        status_of(EXPERIMENT, log, accept_loss=["tail"])
    better = status_of(EXPERIMENT, read(log_of_segments(rng, tail_b=True), tmp_path))
    assert better.result is not None
    assert str(better.result.verdict) == "better"


def test_without_texts_of_queries_there_are_no_segments(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    lines = log_of_segments(rng, clients=300)
    log = read([{**line, "user_query": None} for line in lines], tmp_path)
    assert not status_of(EXPERIMENT, log).warnings


class ManySearches:
    """Searches of many queries by clients of whom a few click often, as columns.

    `share` is how often B has the better list, by how frequent the query is (0 the most).
    """

    def __init__(self, rng: np.random.Generator, share: Any, n: int = 3000) -> None:
        self.query = np.minimum(rng.zipf(1.4, n), 2000) - 1
        self.client = rng.integers(0, n // 2, n)
        self.leads = rng.random(n) < 0.5
        often = 1 + (rng.random(n) < 0.1 * rng.pareto(1.5, n // 2)[self.client])
        of_search = np.repeat(np.arange(n), often)
        b_better = (rng.random(n) < share(self.query))[of_search]
        leads = self.leads[of_search]
        # Wanted is c: the first document of one list, the third of the other.
        place = np.where(b_better == leads, 1, np.where(rng.random(len(leads)) < 0.5, 2, 3))
        seen = rng.random(len(leads)) < 1 / place
        better, worse = np.ones(len(leads), np.int64), np.full(len(leads), 3)
        first, later = better, np.where(place > 1, place, 2)
        a, b = np.where(b_better, worse, better), np.where(b_better, better, worse)
        in_a, in_b = np.where(b_better, later, first), np.where(b_better, first, later)
        self.of_search = of_search[seen]
        self.columns: list[Any] = [column[seen] for column in (a, b, in_a, in_b, leads)]

    def until(self, n: int) -> CountedSearches:
        """What counts of the first searches."""
        clicked = self.of_search < n
        asked, query = np.unique(self.query[:n], return_inverse=True)
        clients, client = np.unique(self.client[:n], return_inverse=True)
        texts = (" ".join(f"t{each}w{n}" for n in range(1 + each % 6)) for each in asked.tolist())
        return CountedSearches(
            client=client, query=query, texts=tuple(texts), leads=self.leads[:n],
            **dict.fromkeys(
                ("empty", "late", "on_first", "never_clicked", "seldom_clicked"), np.zeros(n, bool)
            ),
            clicks=np.bincount(self.of_search[clicked], minlength=n),
            **dict.fromkeys(("ms_a", "ms_b", "tau"), np.full(n, np.nan)),
            positions=ClickedPositions(*(column[clicked] for column in self.columns)),
            of_search=self.of_search[clicked], untouched=(), n_clients=len(clients), bots=0,
            failed=0, unusable=LeftOut(),
        )  # fmt: skip


def alarmed(worlds: int, rng: np.random.Generator, share: Any) -> int:
    """In how many worlds B loses in a segment at one of ten looks."""
    return sum(
        any(
            any(True for _ in segment_losses(world.until(n), 10, 1.0))
            for n in range(300, 3001, 300)
        )
        for world in (ManySearches(rng, share) for _ in range(worlds))
    )


@pytest.mark.thorough
@pytest.mark.parametrize("gain", [0.0, 0.06])
def test_segments_in_which_b_does_not_lose_rarely_alarm_at_any_look(
    rng: np.random.Generator, gain: float
) -> None:
    assert alarmed(60, rng, lambda query: np.full(len(query), 0.5 + gain)) <= 4


@pytest.mark.thorough
def test_a_tail_in_which_b_loses_is_found(rng: np.random.Generator) -> None:
    assert alarmed(20, rng, lambda query: np.where(query > 8, 0.1, 0.9)) >= 18
