"""The ledger of attempts: the same queries are recognised, and p counts for all that was tried."""

from __future__ import annotations

import errno
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr.errors import BadInput, OwpcLtrWarning, Refused, UsageError
from owpc_ltr.evaluation.attempts import (
    AttemptsFile,
    Sketch,
    corrected_for,
    same_queries,
    sketch_of,
)
from owpc_ltr.evaluation.comparison import (
    MOST_RESAMPLES,
    compare_all,
    compare_results,
    with_finer_p,
)
from owpc_ltr.evaluation.measurement import (
    ComparedQueries,
    ComparisonPlan,
    Measured,
    PerQueryResults,
    RankerResults,
    Resampling,
)
from owpc_ltr.evaluation.significance import Outcome, sign_flips
from owpc_ltr.files.output import sealed_line
from owpc_ltr.metrics import parse_metric
from tests.commands import Run
from tests.faults.disk import full_after
from tests.proxy_labels import comparison
from tests.rankers import judged, linear

METRIC = parse_metric("map")
Array = np.ndarray[Any, np.dtype[np.float64]]
WORDS = st.text(st.sampled_from("abcdeß éＡİ１"), min_size=1, max_size=12).filter(str.strip)


def sketch(names: list[str]) -> Sketch:
    return sketch_of(pa.array(names, pa.string()))


@given(st.lists(WORDS, min_size=1, max_size=90), st.randoms())
def test_ids_order_case_and_white_space_change_no_sketch(texts: list[str], random: Any) -> None:
    ids = pa.array([f"q{n}" for n in range(len(texts))])
    expected = sketch_of(ids, pa.array(texts))
    other = [f"  {text.upper().replace(' ', '  ')}\t" for text in texts]
    random.shuffle(other)
    renamed = pa.array([f"id {n + 7}" for n in range(len(texts))])
    assert sketch_of(renamed, pa.array(other)) == expected
    assert json.loads(json.dumps(expected)) == expected
    assert not any(text in json.dumps(expected["sketch"]) for text in texts if len(text) > 8)
    assert same_queries(expected, expected)
    assert sketch_of(ids, pa.array([f"{text} other" for text in texts])) != expected


def test_a_query_without_a_text_is_known_by_its_id() -> None:
    ids = pa.array(["a", "b", "c"])
    assert sketch_of(ids, pa.array(["x", None, ""])) == sketch(["x", "b", "c"])


@given(st.integers(20, 300), st.floats(1.0, 3.0), st.sampled_from([0, 10, 90, 100]))
def test_queries_are_the_same_where_most_of_the_smaller_set_are_in_the_other(
    smaller: int, times: float, percent: int
) -> None:
    """A sketch of 64 hashes is sure but near the half."""
    shared, larger = smaller * percent // 100, int(smaller * times)
    smaller_sketch = sketch([f"q{n}" for n in range(smaller)])
    other = sketch([f"q{n + smaller - shared}" for n in range(larger)])
    assert (
        same_queries(smaller_sketch, other) == same_queries(other, smaller_sketch) == (percent > 50)
    )


def looks(names: list[str], rng: np.random.Generator) -> int:
    values = rng.random((2, len(names)))
    return AttemptsFile().count(sketch(names), "map", {("a", "b"): (values[0], values[1])})


def test_further_queries_are_another_look_and_other_queries_are_none(
    rng: np.random.Generator,
) -> None:
    ids = [f"q{n}" for n in range(150)]
    assert [looks(ids[:100], rng), looks(ids[:125], rng), looks(ids, rng)] == [0, 1, 2]
    assert looks([f"other {n}" for n in range(100)], rng) == 0
    file = AttemptsFile().path
    assert "q1" not in file.read_text().replace("sketch", "")


LATER = ("crlf", "changed byte", "NULs", "a line of something else", "a blank line")


@pytest.mark.parametrize("damage", LATER)
@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_line_that_was_changed_stops_everything_until_it_is_restored(
    damage: str, line: int, rng: np.random.Generator
) -> None:
    """It was skipped, so that fewer attempts counted: the next one began at the level .025."""
    ids = [f"q{n}" for n in range(30)]
    assert [looks(ids, rng) for _ in range(3)] == [0, 1, 2]
    path = AttemptsFile().path
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    text = lines[line - 1]
    places = rng.integers(len(text) - 1, size=20)
    damaged = {
        "crlf": [text[:-1] + b"\r\n"],
        "changed byte": [text[:n] + bytes([text[n] ^ 1]) + text[n + 1 :] for n in places],
        "NULs": [b"\0" * (len(text) - 1) + b"\n", text[:40] + b"\0" * 9 + text[49:]],
        "a line of something else": [b'{"n": 1}\n', b"[]\n", b"\xff\n", text[30:]],
        "a blank line": [b"\n" + text],
    }[damage]
    for damaged_line in damaged:
        path.write_bytes(b"".join([*lines[: line - 1], damaged_line, *lines[line:]]))
        with pytest.raises(BadInput, match=rf"attempts\.jsonl, line {line}: .*: restore it$"):
            looks(ids, rng)
    path.write_bytes(whole)
    assert looks(ids, rng) == 3


@pytest.mark.parametrize("torn", [b'{"n"', b"\0\0", b"{", b'{"n": 30, "sketch": ["0'])
def test_a_torn_last_line_is_an_attempt_for_good(torn: bytes, rng: np.random.Generator) -> None:
    ids = [f"q{n}" for n in range(30)]
    assert [looks(ids, rng) for _ in range(2)] == [0, 1]
    with AttemptsFile().path.open("ab") as file:
        file.write(torn)
    assert [looks(ids, rng) for _ in range(2)] == [3, 4]


def test_where_nothing_can_be_written_what_was_counted_counts(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """On a full disk, every comparison was the first."""
    ids = [f"q{n}" for n in range(30)]
    assert [looks(ids, rng) for _ in range(3)] == [0, 1, 2]
    size = AttemptsFile().path.stat().st_size
    with full_after(size + 100), pytest.warns(OwpcLtrWarning, match="this comparison is not count"):
        assert looks(ids, rng) == 3
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", Mock(side_effect=OSError(errno.EROFS, "read-only file system")))
        patch.setattr("owpc_ltr.files.input.os.open", os.open)
        with pytest.raises(BadInput, match="read-only"), pytest.warns(OwpcLtrWarning):
            looks(ids, rng)
    assert looks(ids, rng) == 3


def test_of_comparisons_at_the_same_time_one_alone_is_the_first(rng: np.random.Generator) -> None:
    seeds = [np.random.default_rng(n) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda own: looks(["a", "b", "c"], own), seeds))
    assert sorted(counts) == list(range(24))


def test_as_many_new_queries_as_the_line_says_start_anew() -> None:
    """With sets that sketches have whole, and one query fewer does not."""
    for n in (10, 11, 40):
        old, new = [f"q{i}" for i in range(n)], n // 2 + 1
        assert not same_queries(sketch(old), sketch([*old[new:], *(f"n{i}" for i in range(new))]))
        new -= 1
        assert same_queries(sketch(old), sketch([*old[new:], *(f"n{i}" for i in range(new))]))


def test_the_home_decides_where_and_what_cannot_be_written_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path / "home"))
    assert looks(["a", "b"], rng) == 0
    assert (tmp_path / "home" / "state" / "attempts.jsonl").exists()
    (tmp_path / "file").touch()
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path / "file"))
    with pytest.warns(OwpcLtrWarning, match=r"not counted: .*attempts\.jsonl: "):
        assert looks(["a", "b"], rng) == 0


def test_a_file_that_grows_too_long_forgets_the_oldest(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr("owpc_ltr.evaluation.attempts._LONGEST", 6)
    counts = [looks(["a", "b"], rng) for _ in range(8)]
    assert counts == [0, 1, 2, 3, 4, 5, 6, 3]


def test_a_comparison_that_is_made_again_says_the_same() -> None:
    data = judged(seed=8)

    def compared(**rankers: Any) -> Any:
        return ltr.compare(rankers, data=data, metrics="ndcg@5", resamples=500)

    new, old = linear(1.0, 0.1), linear(0.1, 1.0)
    first = compared(new=new, old=old)
    other = compared(a=linear(0.3, 1.0), b=old)
    assert other.earlier_comparisons == 1
    text = " ".join(str(other).split())
    assert "p corrected for 1 earlier comparison on these queries: it counts 3 times (" in text
    place = f"({AttemptsFile().path}; of 40 queries, 21 must be new to start anew)"
    assert place.replace(" ", "") in text.replace(" ", "")
    again = compared(renamed=new, other_name=old)
    assert again.earlier_comparisons == first.earlier_comparisons == 0
    assert again.pairs[0].p_holm == first.pairs[0].p_holm
    # New ids do not make new queries of the same texts, and a known pair hides no new one.
    params = pa.array([json.dumps({"keywords": f"word{n} shoes"}) for n in range(40)])
    data = replace(data, query_params=params)
    assert compared(new=new, old=old).earlier_comparisons == 0
    ids = pa.array([f"other {n}" for n in range(40)])
    data = replace(data, query_ids=ids)
    assert compared(new=new, old=old, third=linear(0.5, 0.4)).earlier_comparisons == 1


def results_of(a: Array, b: Array, **plan: Any) -> PerQueryResults:
    ids = pa.array([f"q{n}" for n in range(len(a))])
    how = ComparisonPlan((METRIC,), baseline="b", **plan)
    rankers = {"a": RankerResults([a]), "b": RankerResults([b])}
    return PerQueryResults(rankers, how, ComparedQueries(ids, None, None, "test"))


def test_a_comparison_that_fails_is_no_attempt(rng: np.random.Generator) -> None:
    a, b = rng.random((2, 40))
    with pytest.raises(Refused, match="1 of 40 queries count"):
        compare_results(results_of(np.where(np.arange(40) < 1, a, np.nan), b))
    assert not AttemptsFile().path.exists()
    compare_results(results_of(a, b, attempts=None))
    assert not AttemptsFile().path.exists()
    assert compare_results(results_of(a, b)).earlier_comparisons == 0
    assert AttemptsFile().path.exists()


class After:
    """So many attempts came before."""

    place = "nowhere"

    def __init__(self, earlier: int) -> None:
        self.earlier = earlier

    def count(self, *_: Any) -> int:
        return self.earlier


def clear_difference(n: int = 60) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    b = rng.random(n) * 0.5
    return b + 0.12 + 0.1 * rng.normal(size=n), b


@pytest.mark.parametrize(
    ("earlier", "outcome"),
    [(62, "better"), (200, "better"), (1000, "no significant difference")],
)
def test_a_clear_difference_is_found_after_many_attempts_and_not_after_any_number(
    earlier: int, outcome: str
) -> None:
    """With p floored at 1e-4, none was after 31 attempts: 32 · 33 / 2 is 528."""
    corrected = compare_results(results_of(*clear_difference(), attempts=After(earlier)))
    assert str(corrected.pairs[0].verdict.outcome) == outcome
    p = corrected.pairs[0].comparison.p_permutation
    assert corrected.pairs[0].p_holm == pytest.approx(min(1.0, p * corrected_for(earlier)))


def test_prediction_powered_figures_count_for_earlier_comparisons_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By human and proxy labels nothing was corrected, so that attempts were free."""
    first = comparison()
    monkeypatch.setattr(AttemptsFile, "count", lambda *_: 3)
    later = comparison()
    for before, after in zip(first.prediction_powered, later.prediction_powered, strict=True):
        p = before.prediction_powered.p_holm  # type: ignore[union-attr]
        assert after.prediction_powered.p_holm == pytest.approx(10 * p)  # type: ignore[union-attr]
    assert "3 earlier comparisons" in " ".join(str(later).split()).partition("human and proxy")[2]


def test_more_permutations_are_drawn_only_where_they_matter(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    drawn: list[int] = []

    def flips(terms: Any, resamples: int, coins: Any) -> Any:
        drawn.append(resamples)
        return sign_flips(terms, resamples, coins)

    monkeypatch.setattr("owpc_ltr.evaluation.comparison.sign_flips", flips)
    a, b = clear_difference()
    for earlier, expected in [(0, []), (20, []), (62, [806_400]), (500, [MOST_RESAMPLES])]:
        drawn.clear()
        compare_results(results_of(a, b, attempts=After(earlier)))
        assert drawn == expected
    # Noise is far from every level, and is not drawn again.
    drawn.clear()
    compare_results(results_of(b + rng.normal(size=60), b, attempts=After(1000)))
    assert drawn == []


def test_a_finer_p_is_that_of_the_same_test(rng: np.random.Generator) -> None:
    """Where the coarse p is not at its floor, the finer one is within its error."""
    b = rng.random(80)
    noise = rng.normal(size=80)
    a = b + 3.0 / 80**0.5 + (noise - noise.mean()) / noise.std()
    ranked = {
        name: (Measured(METRIC, np.nan, values, np.nan),)
        for name, values in zip("ab", (a, b), strict=True)
    }
    fine = compare_all(ranked, None, None, Resampling(resamples=400_000))
    p = fine.pairs[0].comparison.p_permutation
    assert 2e-4 < p < 0.02
    coarse = compare_all(ranked, None, None, Resampling(resamples=500))
    (finer,) = with_finer_p(coarse, 200.0, Resampling(resamples=500))
    assert finer.comparison.p_permutation == pytest.approx(p, rel=0.2)
    assert finer.p_holm == finer.comparison.p_permutation


def share_of_series(
    worlds: int, attempts: int, rng: np.random.Generator, gain: float = 0.0, count: bool = True
) -> float:
    """How many series of attempts of noise end in a false *better*."""
    claims = 0
    for world in range(worlds):
        b = rng.beta(0.7, 0.7, size=150)
        for attempt in range(attempts):
            a = b + gain + 0.12 * rng.standard_t(4, size=150) * (rng.random(150) < 0.6)
            how = {"attempts": After(attempt) if count else None}
            results = results_of(a, b, drawing=Resampling(world, 1000), **how)
            if compare_results(results).pairs[0].verdict.outcome is Outcome.BETTER:
                claims += 1
                break
    return claims / worlds


def test_a_series_of_attempts_rarely_finds_noise_better(rng: np.random.Generator) -> None:
    assert share_of_series(25, 10, rng) <= 0.12


@pytest.mark.thorough
def test_forty_attempts_of_noise_are_false_in_five_percent_of_worlds(
    rng: np.random.Generator,
) -> None:
    assert share_of_series(50, 40, rng) <= 0.05 + 2 * (0.05 * 0.95 / 50) ** 0.5
    # Who does not count is seen.
    assert share_of_series(20, 40, rng, count=False) > 0.2


@pytest.mark.thorough
def test_the_first_attempt_has_the_power_of_one_without_a_ledger(rng: np.random.Generator) -> None:
    state = rng.bit_generator.state
    counted = share_of_series(100, 1, rng, gain=0.025)
    rng.bit_generator.state = state
    assert counted == share_of_series(100, 1, rng, gain=0.025, count=False)
    assert counted > 0.3


def counted(**options: Any) -> dict[str, Any]:
    return ltr.compare(looks=True, **options).as_dict()


def test_looks_lists_what_counts_and_is_no_comparison_itself(run: Run) -> None:
    """The factor, p and what is left are those that the next comparison then has."""
    data = judged(seed=8)
    models = {f"m{n}": linear(1.0, 0.2 * n) for n in range(4)}
    assert counted() == {"counted_in": str(AttemptsFile().path), "queries": []}
    assert "no comparison is counted\n" in str(ltr.compare(looks=True))
    for name in ("m1", "m2"):
        ltr.compare(
            {"m0": models["m0"], name: models[name]}, data=data, metrics="ndcg@5", resamples=200
        )
    before = AttemptsFile().path.read_bytes()
    (of_data,) = counted(data=data)["queries"]
    assert counted()["queries"] == [of_data]
    listed = [(each["rankers"], each["metric"], each["counted"]) for each in of_data["comparisons"]]
    assert listed == [(["m0", "m1"], "ndcg@5", 1), (["m0", "m2"], "ndcg@5", 3)]
    assert of_data["counts"] == 6
    assert of_data["p_below"] == pytest.approx(0.05 / 6)
    assert (of_data["left"], of_data["new_queries"]) == (444, 21)
    assert AttemptsFile().path.read_bytes() == before
    status, text, _ = run("compare", "--looks")
    assert status == 0
    assert re.search(r"^20\d\d-\S+Z  m0 against m1  ndcg@5  1 ×$", text, re.MULTILINE)
    assert text.endswith("\nlive comparisons with an alias are counted in its cluster\n")
    assert "must be below 0.0083" in " ".join(text.split())
    third = ltr.compare(
        {"m0": models["m0"], "m3": models["m3"]}, data=data, metrics="ndcg@5", resamples=200
    )
    assert corrected_for(third.earlier_comparisons) == of_data["counts"]
    ids = pa.array([f"other {n}" for n in range(data.n_queries)])
    other = replace(data, query_ids=ids, query_params=None)
    (of_other,) = counted(data=other)["queries"]
    assert (of_other["counts"], of_other["left"], of_other["comparisons"]) == (1, 446, [])
    with pytest.raises(UsageError, match="`looks` lists comparisons and makes none: leave out"):
        counted(data=data, rankers=[models["m0"], models["m3"]])
    with pytest.raises(UsageError, match="one dataset is measured on"):
        counted(data=[data, other])
    with pytest.raises(UsageError, match="no judged queries are given: give `data`"):
        ltr.compare(["a.json", "b.json"])


def test_the_last_comparison_that_looks_allows_can_reach_its_p() -> None:
    """And one more cannot: the most permutations have no smaller p."""
    path = AttemptsFile().path
    path.parent.mkdir(parents=True)
    on = sketch(["a", "b"])
    for earlier in (445, 446):
        lines = [sealed_line({**on, "test": str(n), "earlier": n}) for n in range(earlier)]
        path.write_bytes(b"".join(lines))
        (of_all,) = counted()["queries"]
        assert of_all["left"] == 446 - earlier
        assert (of_all["p_below"] > 1 / (MOST_RESAMPLES + 1)) == (earlier == 445)
        assert of_all["comparisons"][0]["rankers"] == []
    assert "not recorded" in str(ltr.compare(looks=True))


def test_lines_have_names_without_secrets_and_sets_of_queries_stand_apart(
    rng: np.random.Generator,
) -> None:
    values = rng.random((2, 40))
    names = ("https://me:secret@host/x.json\n" + "x" * 200, "b")
    AttemptsFile().count(sketch(["a", "b"]), "map", {names: (values[0], values[1])})
    looks(["c", "d"], rng)
    with AttemptsFile().path.open("ab") as file:
        file.write(b"{")
    newest, oldest = counted()["queries"]
    assert [len(each["comparisons"]) for each in (newest, oldest)] == [2, 2]  # the torn line, too
    name = oldest["comparisons"][0]["rankers"][0]
    assert len(name) == 80
    assert "secret" not in name
    assert "\n" not in name
