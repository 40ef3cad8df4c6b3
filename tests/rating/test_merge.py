"""Lists of several raters become one, and no vote is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_rating.agree import judge_agree
from owpc_ltr_rating.merge import judge_merge
from owpc_ltr_rating.page import judge_page, read_sheet
from owpc_ltr_rating.ratings import Rating, ratings_bytes

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, read_judgments
from owpc_ltr.data.judgment_tables import write_judgments, write_sheet
from owpc_ltr.data.judgments import (
    JudgedQuery,
    Judgments,
    is_machine,
    machines_among,
    raters_cell,
    votes_of,
)
from owpc_ltr.engine.live_queries import judged_queries, with_judge
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.rules import machine_labels, unnamed_judges
from tests.rating.grading_sheets import grading_sheet

RATERS = ("ann", "bob", "carl@a.org", "model:gpt", "clicks")
VOTES = st.dictionaries(
    st.tuples(st.sampled_from(("q1", "q2")), st.sampled_from(("d1", "d2", "d3"))),
    st.dictionaries(st.sampled_from(RATERS), st.integers(0, 4).map(float), min_size=1),
    min_size=1,
)


def rating_file(path: Path, rater: str, grades: dict[tuple[str, str], float | None]) -> Path:
    path.write_bytes(
        ratings_bytes(
            Rating("5ee7", rater, query, f"text of {query}", document, grade)
            for (query, document), grade in grades.items()
        )
    )
    return path


def grades_of(judgments: Judgments) -> dict[tuple[str, str], tuple[float, str]]:
    return {
        (query.query_id, document): (grade, by)
        for query in judgments.queries
        for document, grade, by in zip(
            query.doc_ids, query.grades.tolist(), query.judged_by or (), strict=True
        )
    }


@given(VOTES, st.permutations(RATERS))
def test_files_in_any_order_and_in_several_steps_give_the_same_grades(
    tmp_path_factory: pytest.TempPathFactory,
    votes: dict[tuple[str, str], dict[str, float]],
    order: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("lists")
    files = []
    for rater in RATERS:
        own = {key: grades[rater] for key, grades in votes.items() if rater in grades}
        if own:
            files.append(rating_file(folder / f"{RATERS.index(rater)}.jsonl", rater, dict(own)))
    whole = grades_of(judge_merge(files).judgments)
    for key, grades in votes.items():
        people = [grade for rater, grade in grades.items() if not is_machine(rater)]
        grade, by = whole[key]
        assert grade == np.float32(np.median(people or list(grades.values())))
        assert votes_of(by, grade, "nobody") == grades
    shuffled = sorted(files, key=lambda path: order.index(RATERS[int(path.stem)]))
    grown = folder / "0.tsv"
    judge_merge(shuffled[:1], out=grown)
    for number, path in enumerate(shuffled[1:], 1):
        before, grown = grown, folder / f"{number}.tsv"
        judge_merge([before, path], out=grown)
    assert grades_of(read_judgments(grown)) == whole


def test_a_machines_grade_gives_way_and_stays_named(tmp_path: Path) -> None:
    model = rating_file(tmp_path / "m.jsonl", "model:gpt", {("q", "a"): 3, ("q", "b"): 1})
    ann = rating_file(tmp_path / "a.jsonl", "ann", {("q", "a"): 0})
    merged = judge_merge([model, ann])
    assert merged.overruled == 1
    assert merged.conflicts == ()
    assert grades_of(merged.judgments) == {
        ("q", "a"): (0, "ann=0, model:gpt=3"),
        ("q", "b"): (1, "model:gpt"),
    }
    assert machines_among(merged.judgments.queries) == {"model:gpt": 0.5}


def test_conflicts_are_listed_and_settled_by_the_rule(tmp_path: Path) -> None:
    files = [
        rating_file(tmp_path / f"{rater}.jsonl", rater, {("q", "a"): grade, ("q", "b"): 2})
        for rater, grade in (("ann", 0), ("bob", 4), ("carl", 3))
    ]
    merged = judge_merge(files)
    (conflict,) = merged.conflicts
    assert (conflict.doc_id, conflict.grade) == ("a", 3)
    assert "1 conflicts, settled by median" in str(merged)
    assert judge_merge(files[:2]).conflicts[0].grade == 2.0
    assert judge_merge(files[::-1], conflicts="latest").conflicts[0].grade == 0
    with pytest.raises(Refused, match="first on 'a' of query 'q'"):
        judge_merge(files, conflicts="refuse")


def test_a_rater_corrects_their_own_grade_in_a_later_file(tmp_path: Path) -> None:
    first = rating_file(tmp_path / "1.jsonl", "ann", {("q", "a"): 0})
    second = rating_file(tmp_path / "2.jsonl", "ann", {("q", "a"): 2})
    merged = judge_merge([first, second])
    assert (merged.corrected, merged.conflicts) == (1, ())
    assert grades_of(merged.judgments) == {("q", "a"): (2, "ann")}


def test_lists_of_every_tool_are_merged_by_the_text_of_the_query(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    params = {"query": "red shoe", "keywords": "red shoe"}
    query = JudgedQuery("q1", params, ["a", "b", "c"], np.zeros(3, np.float32))
    write_sheet([query], ("title",), {}, sheet)
    sheet.write_text(sheet.read_text().replace(",\n", ",2\n", 1))
    (tmp_path / "case.csv").write_text("query,docid,rating\nred shoe,b,1\n")
    (tmp_path / "judges.csv").write_text(
        "query,docid,ann@a.org,bob@a.org\nred shoe,b,3,\nred shoe,c,0,4\n"
    )
    book = {
        "query_doc_pairs": [
            {
                "query_text": "red shoe",
                "doc_id": "a",
                "judgements": [
                    {"rating": 3.0, "user_email": "cleo@a.org"},
                    {"rating": None, "unrateable": True, "user_email": "dan@a.org"},
                ],
            }
        ]
    }
    (tmp_path / "book.json").write_text(json.dumps(book))
    entry: dict[str, Any] = {"query": "red shoe", "ratings": [{"docId": "a", "rating": "1.0"}]}
    workbench = {
        "type": "LLM_JUDGMENT",
        "status": "COMPLETED",
        "metadata": {"modelId": "m1"},
        "judgmentRatings": [entry | {"failures": [{"docId": "z"}]}],
    }
    (tmp_path / "list.json").write_text(json.dumps(workbench))
    names = ("sheet.csv", "case.csv", "judges.csv", "book.json", "list.json")
    with pytest.warns(OwpcLtrWarning) as caught:
        merged = judge_merge([tmp_path / name for name in names])
    assert grades_of(merged.judgments) == {
        ("q1", "a"): (2.5, "cleo@a.org=3, model:m1=1, unnamed:sheet=2"),
        ("q1", "b"): (2, "ann@a.org=3, unnamed:case=1"),
        ("q1", "c"): (2, "ann@a.org=0, bob@a.org=4"),
    }
    notes = " ".join(str(warning.message) for warning in caught)
    for words in ("2 lines without a grade", "1 judgements without a rating", "1 documents that"):
        assert words in notes


def test_what_nobody_vouches_for_is_not_vouched_for_by_a_merge(tmp_path: Path) -> None:
    """Clicks that lost their judge are not those of a rater who has the name of the file."""
    for name, grade in (("old", 1), ("new", 3)):
        lines = "".join(f"q{n},text {n},d{n},{grade}\n" for n in range(4))
        (tmp_path / f"{name}.csv").write_text(f"query_id,query,doc_id,grade\n{lines}")
    out = tmp_path / "merged.tsv"
    advice = r"\.csv: it does not name who judged: .* give `compare_live\(judged_by=…\)`"
    with pytest.warns(OwpcLtrWarning, match=advice):
        judge_merge([tmp_path / "old.csv", tmp_path / "new.csv"], out=out)
    # A merged list may be merged again: its raters keep their names.
    again = judge_merge([out]).judgments
    assert grades_of(again)["q0", "d0"] == (2, "unnamed:new=3, unnamed:old=1")
    for name in ("people", "clicks"):
        (warning,) = unnamed_judges(again.queries)
        assert warning.message.startswith("100% of the judgments do not say who gave them")
        vouched = with_judge(judged_queries(again), name)
        assert not list(unnamed_judges(vouched))
        assert bool(list(machine_labels(vouched))) == (name == "clicks")


def test_a_text_of_two_ids_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,query,doc_id,grade\nq1,red,d,1\n")
    (tmp_path / "b.csv").write_text("query_id,query,doc_id,grade\nq2,red,d,1\n")
    with pytest.raises(BadInput, match="the query 'red' has the ids 'q1' and 'q2'"):
        judge_merge([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_columns_of_other_names_are_named_for_the_lists_that_have_them(tmp_path: Path) -> None:
    own, columns = tmp_path / "own.csv", {"query": "q", "doc_id": "sku", "grade": "stars"}
    own.write_text("q,sku,stars\nred shoe,1,1\nred shoe,2,0\n")
    usual = tmp_path / "usual.csv"
    usual.write_text("query,doc_id,grade,judged_by\nred shoe,1,0,ann\nred shoe,3,1,ann\n")
    with pytest.raises(BadInput, match=r"own\.csv: no column is called 'query' or 'doc_id'"):
        judge_merge([own, usual])
    with pytest.warns(OwpcLtrWarning, match="does not name who judged"):
        merged = judge_merge([own, usual], columns=columns)
    with pytest.warns(OwpcLtrWarning, match="does not name who judged"):
        agreed = judge_agree([own, usual], columns=columns)
    assert {key[1]: grade for key, (grade, _) in grades_of(merged.judgments).items()} == {
        "1": 0.5,
        "2": 0,
        "3": 1,
    }
    assert [pair.pairs for pair in agreed.agreements] == [1]
    sheet = read_sheet(own, columns)
    assert [(pair.query, pair.doc_id) for pair in sheet.pairs] == [
        ("red shoe", "1"),
        ("red shoe", "2"),
    ]
    assert judge_page(own, columns=columns).pairs == 2
    # A list that has neither, and a format without columns, are errors in the words of the first.
    with pytest.raises(BadInput, match=r"own\.csv: no column is called 'stars5', .* as the grade"):
        judge_merge([own, usual], columns={**columns, "grade": "stars5"})
    with pytest.raises(BadInput, match="no column is called 'q', which is given as the query"):
        judge_merge([usual], columns=columns)
    rated = rating_file(tmp_path / "a.jsonl", "ann", {("q0", "d0-1"): 1})
    with pytest.raises(UsageError, match="of the format ratings, which has no columns to name"):
        judge_merge([rated], columns=columns)


def test_ratings_of_another_sheet_are_refused(tmp_path: Path) -> None:
    grading_sheet(tmp_path / "sheet.csv")
    digest = read_sheet(tmp_path / "sheet.csv").digest
    other = rating_file(tmp_path / "a.jsonl", "ann", {("q0", "d0-1"): 1})
    with pytest.raises(BadInput, match=r"a.jsonl rates another sheet \(5ee7\)"):
        judge_merge([other], sheet=tmp_path / "sheet.csv")
    other.write_text(other.read_text().replace("5ee7", digest))
    assert judge_merge([other], sheet=tmp_path / "sheet.csv").judgments.n_judgments == 1


def test_grades_in_a_sheet_do_not_change_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    grading_sheet(path)
    before = read_sheet(path)
    path.write_text(path.read_text().replace(",\n", ",3\n"))
    after = read_sheet(path)
    assert (after.digest, after.graded) == (before.digest, 30)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expecting property name"),
        ("[]", "line 2: it is a list, not an object"),
        ('{"sheet": "s", "judged_by": 3}', "line 2: its 'judged_by' is not text: '3'"),
        (
            '{"sheet":"s","judged_by":"a","query_id":"q","query":"t","doc_id":"d","grade":true}',
            "line 2: its 'grade' is not a number: 'True'",
        ),
        (
            '{"sheet":"s","judged_by":"a=b","query_id":"q","query":"t","doc_id":"d","grade":1}',
            "the rater 'a=b' has a comma",
        ),
    ],
)
def test_a_line_that_is_no_rating_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = rating_file(tmp_path / "a.jsonl", "ann", {("q", "a"): 0})
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(BadInput) as raised:
        judge_merge([path])
    assert message in str(raised.value)


def test_what_could_not_be_rated_is_taken_back_or_repeated_is_no_grade(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    said: dict[str, Any] = {"sheet": "s", "judged_by": "ann", "query_id": "q", "query": "t"}
    lines: list[dict[str, Any]] = [
        {"doc_id": "a", "grade": 1},
        {"doc_id": "a", "grade": 3, "repeat": True},
        {"doc_id": "b", "grade": None, "reason": "not shown"},
        {"doc_id": "c", "grade": 2},
        {"doc_id": "c", "grade": None, "undone": True},
        {"doc_id": "d", "grade": 2},
        {"doc_id": "d", "grade": 4},
    ]
    path.write_text("".join(f"{json.dumps(said | line)}\n" for line in lines))
    read = read_judgments(path)
    assert grades_of(read) == {("q", "a"): (1, "ann"), ("q", "d"): (4, "ann")}
    assert read.notes == (
        "1 pairs could not be rated: left out",
        "1 second ratings by the same rater: left out",
    )


@given(
    st.dictionaries(st.sampled_from(RATERS), st.integers(0, 40).map(lambda n: n / 8), min_size=1)
)
def test_the_cell_of_raters_says_what_each_said(grades: dict[str, float]) -> None:
    assert votes_of(raters_cell(grades), next(iter(grades.values())), "x") == grades


def test_pool_asks_only_for_what_a_merged_list_lacks(tmp_path: Path) -> None:
    path = rating_file(tmp_path / "a.jsonl", "ann", {("q", "a"): 0})
    judge_merge([path], out=tmp_path / "list.tsv")
    (query,) = ltr.read_judgments(tmp_path / "list.tsv").queries
    assert (query.doc_ids, query.judged_by) == (["a"], ["ann"])
    write_judgments(Judgments([query]), tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == (tmp_path / "list.tsv").read_bytes()


def test_raters_on_other_scales_or_without_common_pairs_are_warned_of(tmp_path: Path) -> None:
    """Lists of 0 to 3 and 1 to 4 that share nothing; common pairs tell who is stricter."""

    def sheet(name: str, first: int, low: int) -> Path:
        path = tmp_path / f"{name}.csv"
        rows = [f"q{n},text {n},d,{low + n % 4},{name}" for n in range(first, first + 30)]
        path.write_text("query_id,query,doc_id,grade,judged_by\n" + "\n".join(rows) + "\n")
        return path

    with pytest.warns(OwpcLtrWarning) as caught:
        judge_merge([sheet("ann", 0, 0), sheet("bob", 30, 1)])
    said = " ".join(str(warning.message) for warning in caught)
    assert "ann and bob graded no pair that another rater graded" in said
    assert "different scales (ann 0 to 3, bob 1 to 4)" in said
    judge_merge([sheet("ann", 0, 0), sheet("bob", 0, 0)])
