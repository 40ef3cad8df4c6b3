"""Judgment lists: read, checked and written; lines that nobody has graded."""

from __future__ import annotations

import contextlib
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from owpc_ltr_judgments.qrels import Qrels

from owpc_ltr import read_judgments
from owpc_ltr.data.judgment_tables import write_judgments
from owpc_ltr.data.judgments import JudgedQuery, JudgmentLines, Judgments, judged_lines
from owpc_ltr.data.options import Duplicates
from owpc_ltr.errors import BadInput, UsageError
from tests.judgment_writers import IDS, rows_of, table_bytes

TSV = (
    "query_id\tquery\tdoc_id\tgrade\tcity\n"
    "q1\trambo\tpark-yosemite\t0.75\tRome\n"
    "q2\trocky\ta/b c\t0\t\n"
    "q1\trambo\t7555\t1e-05\tRome\n"
)
TOPICS = """<top>
<num> Number: 301
<title> International
 Organized Crime
<desc> Description: who
</top>

<top>
<num>302</num>
<title>Topic: polio</title>
</top>
"""


def read(
    content: str | bytes,
    tmp_path: Path,
    topics: str | None = None,
    format: str | None = None,  # noqa: A002
    duplicates: Duplicates = "refuse",
) -> Judgments:
    path = tmp_path / "judgments"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if topics is not None:
        (tmp_path / "topics").write_text(topics)
    return read_judgments(
        path,
        format=format,
        topics=None if topics is None else tmp_path / "topics",
        duplicates=duplicates,
    )


def test_a_query_has_its_documents_grades_and_parameters(tmp_path: Path) -> None:
    judgments = read(TSV, tmp_path)
    first, second = judgments.queries
    assert first.query_id == "q1"
    assert first.params == {"keywords": "rambo", "query": "rambo", "city": "Rome"}
    assert first.doc_ids == ["park-yosemite", "7555"]
    assert first.grades.dtype == np.float32
    assert first.grades.tolist() == np.array([0.75, 1e-5], np.float32).tolist()
    assert second.params == {"keywords": "rocky", "query": "rocky"}
    assert second.doc_ids == ["a/b c"]
    assert judgments.n_judgments == 3
    assert judgments.notes == ()


@pytest.mark.parametrize(
    "content",
    [
        TSV.replace("\t", ","),
        TSV.replace("\t", ";"),
        TSV.replace("\n", "\r\n"),
        TSV.removesuffix("\n"),
        TSV.replace("\n", "\n\n"),
        "\ufeff" + TSV,
        TSV.replace("query_id\tquery\tdoc_id\tgrade", "QID\tKeywords\tdocId\tRating"),
        TSV.replace("query_id\tquery\tdoc_id\tgrade", "qid\tquery_text\tdocument_id\tlabel"),
        TSV.replace("rambo", '"rambo"'),
        gzip.compress(TSV.encode()),
        lzma.compress(TSV.encode()),
    ],
)
def test_the_dress_of_a_table_changes_nothing(content: str | bytes, tmp_path: Path) -> None:
    assert rows_of(read(content, tmp_path)) == rows_of(read(TSV, tmp_path))


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    shuffled = "grade,keywords,docId\n4,rambo,7555\n0,rambo,1370\n3,rocky,60375\n"
    assert rows_of(read(shuffled, tmp_path)) == [
        ("rambo", {"keywords": "rambo", "query": "rambo"}, {"7555": 4, "1370": 0}),
        ("rocky", {"keywords": "rocky", "query": "rocky"}, {"60375": 3}),
    ]


def test_quoted_fields_may_hold_anything(tmp_path: Path) -> None:
    content = 'query_id\tquery\tdoc_id\tgrade\nq\t"a\tb\n""c"""\td\t1\n\nr\t"x"\td\t2\n'
    judgments = read(content, tmp_path)
    assert [q.params["query"] for q in judgments.queries] == ['a\tb\n"c"', "x"]


def test_trec_judgments_take_their_texts_from_topics(tmp_path: Path) -> None:
    qrels = "302 0 d2 1\n301 0 FBIS3-10082 2\n301\tQ0\td1\t-2\n302 0 d3 -1\n"
    for topics in (TOPICS, "301\tInternational Organized Crime\n302\tpolio\n303\tunjudged\n"):
        judgments = read(qrels, tmp_path, topics)
        assert rows_of(judgments) == [
            ("302", {"keywords": "polio", "query": "polio"}, {"d2": 1, "d3": 0}),
            (
                "301",
                dict.fromkeys(("keywords", "query"), "International Organized Crime"),
                {"FBIS3-10082": 2, "d1": 0},
            ),
        ]
        assert judgments.notes[0] == "2 negative grades were read as 0"
    assert judgments.notes[1:] == ("1 topics have no judgment",)
    xml = '<topics><topic number="1"><query>covid</query></topic></topics>'
    assert rows_of(read("1 0 d 1\n", tmp_path, xml))[0][1]["query"] == "covid"


@pytest.mark.parametrize(
    "content",
    [
        "query_id,doc_id,grade\n302,7,1\n301,8,0\n",
        "1 qid:302 # 7 rambo\n0 qid:301 # 8\n",
        '{"qid": 302, "docid": 7, "label": 1}\n{"qid": 301, "docid": 8, "label": 0}\n',
        table_bytes({"qid": [302, 301], "docid": [7, 8], "label": [1, 0]}),
    ],
    ids=["table", "ranklib", "jsonl", "parquet"],
)
def test_lists_without_texts_take_them_from_topics(content: str | bytes, tmp_path: Path) -> None:
    judgments = read(content, tmp_path, "301\tcrime\n302\tpolio\n303\tunjudged\n")
    assert rows_of(judgments) == [
        ("302", {"keywords": "polio", "query": "polio"}, {"7": 1}),
        ("301", {"keywords": "crime", "query": "crime"}, {"8": 0}),
    ]
    assert judgments.notes == ("1 topics have no judgment",)


def test_ranklib_lists_are_read_with_or_without_features(tmp_path: Path) -> None:
    content = (
        "# qid:1: rambo*1\n# qid:2: rocky horror*2\n# qid:3: unjudged\n#\n# https://a.b/c\n"
        "4\tqid:1\t1:9.8\t2:12.3 # 7555\tRambo\n"
        "0.5 qid:2 # a/b Rocky\n"
        "3 qid:1 #docid = 1370\n"
    )
    judgments = read(content, tmp_path)
    assert rows_of(judgments) == [
        ("1", {"keywords": "rambo", "query": "rambo"}, {"7555": 4, "1370": 3}),
        ("2", {"keywords": "rocky horror", "query": "rocky horror"}, {"a/b": 0.5}),
    ]
    assert [query.importance for query in judgments.queries] == [1, 2]
    assert judgments.notes == (
        "1 lines have feature values, which were passed over",
        "1 queries have a text and no judgment",
    )


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    subtopics = "302 1 d2 1\n302 2 d3 0\n"
    with pytest.raises(BadInput, match="no column is called"):
        read(subtopics, tmp_path, TOPICS)
    assert read(subtopics, tmp_path, TOPICS, format="qrels").n_judgments == 2
    with pytest.raises(UsageError, match="there is no format 'json': use csv, tsv"):
        read(TSV, tmp_path, format="json")
    with pytest.raises(UsageError, match="unknown policy for duplicates 'last'"):
        read(TSV, tmp_path, duplicates="last")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "grades"),
    [("first", [1.0, 5.0]), ("max", [3.0, 5.0]), ("mean", [2.0, 5.0])],
)
def test_duplicates_are_settled_as_asked(
    policy: Duplicates, grades: list[float], tmp_path: Path
) -> None:
    content = "query,doc_id,grade\nq,a,1\nr,a,4\nq,b,5\nq,a,3\nq,a,2\n"
    judgments = read(content, tmp_path, duplicates=policy)
    assert judgments.queries[0].doc_ids == ["a", "b"]
    assert judgments.queries[0].grades.tolist() == grades
    assert judgments.queries[1].grades.tolist() == [4]
    assert judgments.notes == (f"2 duplicates were merged by '{policy}'",)


@given(order=st.permutations(["q,a,1", "q,a,3", "r,a,4", "q,b,5", "q,a,2", "r,a,4"]))
def test_max_and_mean_do_not_depend_on_the_order_of_lines(order: list[str], tmp_path: Path) -> None:
    content = "query,doc_id,grade\n" + "\n".join(order)
    for policy, grade in (("max", 3), ("mean", 2)):
        grades_by_query = {
            q: grades
            for q, _, grades in rows_of(
                read(content, tmp_path, None, None, policy)  # type: ignore[arg-type]
            )
        }
        assert grades_by_query == {"q": {"a": grade, "b": 5}, "r": {"a": 4}}


HEADER = "query_id,query,doc_id,grade\n"
HOSTILE: list[tuple[str, str | bytes, str]] = [
    ("empty", "", "it is empty"),
    ("blank", "\n \n", "it is empty"),
    ("header alone", HEADER, "it has a header, and no judgment"),
    ("no header", "q1,rambo,7555,4\n", "no column is called 'query' or 'doc_id' or 'grade': found"),
    ("no grade", "query_id,query,doc_id\nq,r,d\n", "called 'grade': found 'query_id', 'query', 'd"),
    ("no text", "query_id,doc_id,grade\nq,d,1\n", "no column is called 'query'"),
    ("column twice", "query,doc_id,grade,Grade\nr,d,1,2\n", "its header has two of 'grade'"),
    ("role twice", "query,doc_id,docid,grade\nr,d,d,1\n", "'doc_id' and 'docid' both name"),
    ("empty name", "query,doc_id,grade,\nr,d,1,\n", "its header has an empty name"),
    ("too few fields", HEADER + "q,r,d\n", "line 2: 3 fields where the header has 4: 'q,r,d'"),
    ("too many fields", HEADER + "q,r,d,1\nq,a, b,d,1\n", "line 3: 5 fields where the header"),
    ("cut last line", HEADER + "q,r,d,1\nq,r,e", "line 3: 3 fields where the header has 4"),
    ("grade is text", HEADER + "q,r,d,good\n", "line 2: the grade 'good' is not a number"),
    ("grade is empty", HEADER + "q,r,d,\n", "line 2: the grade '' is not a number"),
    ("grade is nan", HEADER + "q,r,d,1\nq,r,e,nan\n", "line 3: the grade 'nan' is not a number"),
    ("grade is inf", HEADER + "q,r,d,inf\n", "the grade 'inf' is not a number"),
    ("grade is 1e400", HEADER + "q,r,d,1e400\n", "the grade '1e400' is not a number that fits"),
    ("grade is 1e39", HEADER + "q,r,d,1e39\n", "the grade '1e39' is not a number that fits"),
    ("grade is 1_000", HEADER + "q,r,d,1_000\n", "the grade '1_000' is not a number"),
    ("grade is hex", HEADER + "q,r,d,0x1\n", "the grade '0x1' is not a number"),
    ("grade has a blank", HEADER + "q,r,d, 1\n", "the grade ' 1' is not a number"),
    ("negative grade", HEADER + "q,r,d,-1\n", "line 2: the grade '-1' is negative"),
    ("empty query id", HEADER + ",r,d,1\n", "line 2: the query id is empty"),
    ("empty document id", HEADER + "q,r,,1\n", "line 2: the document id is empty"),
    ("blank around an id", HEADER + "q,r, d,1\n", "the document id ' d' begins or ends with"),
    ("line end in an id", HEADER + 'q,r,"a\nb",1\n', "line 2: the document id 'a\\nb'"),
    ("empty text", HEADER + "q, ,d,1\n", "line 2: the query is empty of query id 'q'"),
    (
        "two texts",
        HEADER + "q,r,d,1\nq,s,e,1\n",
        "line 3: query 'q' has keywords 's', and 'r' on line 2",
    ),
    (
        "two values of a parameter",
        "query,doc_id,grade,city\nq,d,1,x\nq,e,1,y\nr,d,1,x\nr,e,1,x\n",
        "line 3: query 'q' has city 'y', and 'x' on line 2",
    ),
    ("duplicate", HEADER + "q,r,d,1\nq,r,e,1\nq,r,d,1.0\n", "is judged as 1.0, as on line 2"),
    ("conflict", HEADER + "q,r,d,1\nq,r,d,2\n", "line 3: document 'd' of query 'q' is judged as 2"),
    ("open quote", HEADER + 'q,"r,d,1\n', "line 2: unexpected end of data"),
    ("quote within", HEADER + 'q,"r" s,d,1\n', "line 2: ',' expected after '\"'"),
    ("swallowed", HEADER + 'q,"r,d,1\nq,r "x",e,1\n', "line 2: "),
    ("swallowed whole", HEADER + 'q,"r,d,1\nq,r",e,1\n', "line 2: a quote that opens there runs"),
    ("latin-1", HEADER.encode() + b"q,caf\xe9,d,1\n", "line 2: byte 0xe9 is not UTF-8"),
    ("latin-1 after mark", b"\xef\xbb\xbf" + HEADER.encode() + b"\xe9\n", "line 2: byte 0xe9"),
    ("NUL", HEADER + "q,r,d\0,1\n", "line 2: byte 0x00 is not UTF-8 text"),
    ("UTF-16", HEADER.encode("utf-16"), "UTF-16 text"),
    ("long field", HEADER + f"q,{'r' * 200_000},d,1\n", "line 2: field larger than field limit"),
    ("json", '{"query": "r"}\n', "no key is called 'doc_id' or 'grade': found"),
    ("qrels without topics", "301 0 d 1\n", "TREC judgments do not have the queries' texts"),
    ("run", "q1 Q0 d1 1 9.5 bm25\nq1 Q0 d2 2 9.1 bm25\n", "it is a TREC run, which has ranks"),
    ("run with tabs", "q1\tQ0\td1\t1\t9.5\tbm25\n", "it is a TREC run, which has ranks"),
    ("topics", TOPICS, "these are topics, which have no grades"),
    (
        "ranklib without text",
        "4 qid:1 # 7555\n",
        "line 1: query '1' has no text: write '# qid:1: k",
    ),
    ("ranklib without id", "# qid:1: r\n4 qid:1\n", "line 2: '4 qid:1' is not 'grade qid:ID # doc"),
    ("ranklib garbage", "# qid:1: r\n4 qid:1 # d\nhello\n", "line 3: 'hello' is not 'grade qid:ID"),
    ("ranklib grade", "# qid:1: r\nx qid:1 # d\n", "line 2: the grade 'x' is not a number"),
    ("ranklib negative", "# qid:1: r\n-1 qid:1 # d\n", "line 2: the grade '-1' is negative"),
    (
        "ranklib two texts",
        "# qid:1: r\n# qid:1: s\n4 qid:1 # d\n",
        "line 2: query '1' has the text 's', and 'r' on line 1",
    ),
    ("ranklib headers alone", "# qid:1: rambo\n", "it has no judgment"),
    ("cut gzip", gzip.compress(TSV.encode())[:-2], "the compressed file is cut or damaged"),
]


@pytest.mark.parametrize(
    ("content", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_bad_lists_are_named_by_file_line_and_value(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as raised:
        read(content, tmp_path)
    text = str(raised.value)
    assert text.startswith(f"cannot read {tmp_path / 'judgments'}")
    assert message in text
    assert len(text) < 400


@pytest.mark.parametrize(
    ("qrels", "topics", "message"),
    [
        ("301 0 d 1\n302 0 d\n", TOPICS, "line 2: '302 0 d' is not 'query 0 document grade'"),
        ("301 0 d x\n", TOPICS, "line 1: the grade 'x' is not a number"),
        ("301 0 d 1\n\n999 0 d 1\n", TOPICS, "line 3: the topics do not have query '999'"),
        ("301 0 d 1\n", "", "topics: it has no topics"),
        ("301 0 d 1\n", "301 crime\n", "line 1: '301 crime' is not an id, a tab and a text"),
        ("301 0 d 1\n", "301\tcrime\n301\tcrimes\n", "line 2: query '301' has a second text"),
        ("301 0 d 1\n", "<top>\n<num> 301\n</top>\n", "line 1: the topic has no title"),
        ("301 0 d 1\n", "\n<top><title> x\n</top>\n", "line 2: the topic has no number"),
        ("301 0 d 1\n", TOPICS[:-8], "a topic is not closed by </top>"),
    ],
)
def test_bad_qrels_and_topics_are_named(
    qrels: str, topics: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as raised:
        read(qrels, tmp_path, topics, format="qrels")
    assert message in str(raised.value)


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
grades = st.floats(0, 2**100, width=32)


@st.composite
def judgment_lists(draw: st.DrawFn) -> Judgments:
    queries = []
    for query_id in draw(st.lists(IDS, min_size=1, max_size=4, unique=True)):
        text = draw(words.filter(str.strip))
        documents = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
        further = draw(st.dictionaries(st.sampled_from(["city", "user age"]), words.filter(bool)))
        size = len(documents)
        queries.append(
            JudgedQuery(
                query_id,
                {"keywords": text, "query": text, **further},
                documents,
                np.array(draw(st.lists(grades, min_size=size, max_size=size)), np.float32),
            )
        )
    return Judgments(queries)


@given(judgments=judgment_lists())
def test_what_is_written_reads_back_equal(judgments: Judgments, tmp_path: Path) -> None:
    write_judgments(judgments, tmp_path / "a.tsv")
    again = read_judgments(tmp_path / "a.tsv")
    assert rows_of(again) == rows_of(judgments)
    assert [q.doc_ids for q in again.queries] == [q.doc_ids for q in judgments.queries]


@given(content=st.text(max_size=60) | st.binary(max_size=60))
@example(content="query\r,docid")
def test_any_content_is_a_list_or_one_line_of_error(content: str | bytes, tmp_path: Path) -> None:
    for head in ("", HEADER, "# qid:1: r\n"):
        raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        with contextlib.suppress(BadInput):
            read(head.encode() + raw, tmp_path)


def test_keywords_may_differ_from_the_query(tmp_path: Path) -> None:
    query = JudgedQuery("q", {"keywords": "a", "query": "b"}, ["d"], np.ones(1, np.float32))
    write_judgments(Judgments([query]), tmp_path / "a.tsv")
    assert read_judgments(tmp_path / "a.tsv").queries[0].params == query.params


def test_qrels_read_back_with_their_topics(tmp_path: Path) -> None:
    judgments = read("301 0 d1 2\n301 0 d2 0\n302 0 d1 1\n", tmp_path, TOPICS)
    (tmp_path / "again.qrels").write_bytes(Qrels().to_bytes(judgments))
    again = read_judgments(tmp_path / "again.qrels", topics=tmp_path / "topics")
    assert rows_of(again) == rows_of(judgments)


@pytest.mark.parametrize(
    ("query_id", "document", "grade", "message"),
    [
        ("q 1", "d", 1, "the id 'q 1'"),
        ("q", "a\tb", 1, r"the id 'a\\tb'"),
        ("q", "", 1, "the id ''"),
        ("q", "d", 0.5, "query 'q' grades document 'd' 0.5, and qrels hold whole grades"),
    ],
)
def test_what_qrels_cannot_hold_is_not_written(
    query_id: str, document: str, grade: float, message: str
) -> None:
    query = JudgedQuery(query_id, {"query": "x"}, [document], np.array([grade], np.float32))
    with pytest.raises(BadInput, match=message):
        Qrels().to_bytes(Judgments([query]))


@pytest.mark.parametrize(
    ("queries", "judged"),
    [(1000, 23_615), pytest.param(13_000, 307_208, marks=pytest.mark.thorough)],
)
def test_real_judgments_come_back_to_the_byte(
    queries: int, judged: int, shared_data: Path, tmp_path: Path
) -> None:
    packed = shared_data / "msrd-movies" / "movies-judgments.tsv.gz"
    text = b"".join(gzip.decompress(packed.read_bytes()).splitlines(keepends=True)[: judged + 1])
    path = tmp_path / "judgments.tsv.gz"
    path.write_bytes(gzip.compress(text, 1))
    judgments = read_judgments(path)
    assert len(judgments.queries) == queries
    assert judgments.n_judgments == judged
    assert judgments.queries[0].params["keywords"] == "fast in the furious"
    write_judgments(judgments, tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == text


def lines(*grades: str) -> JudgmentLines:
    n = len(grades)
    texts = [f"text {row}" for row in range(n)]
    return JudgmentLines(
        Path("sheet.csv"), list(range(2, n + 2)), [f"q{row}" for row in range(n)],
        [f"d{row}" for row in range(n)], grades, {"query": texts},
    )  # fmt: skip


def test_lines_without_a_grade_are_refused_or_left_out_where_that_is_asked_for() -> None:
    with pytest.raises(BadInput, match=r"line 3: .*2 of 4 lines have none: .*`skip_unjudged=True`"):
        judged_lines(lines("1", "", "0", " "), skip=False)
    kept, notes = judged_lines(lines("1", "", "0", ""), skip=True)
    assert list(kept.numbers) == [2, 4]
    assert kept.doc_ids.to_pylist() == ["d0", "d2"]
    assert kept.read_grades().tolist() == [1.0, 0.0]
    assert kept.params["query"].to_pylist() == ["text 0", "text 2"]
    assert notes == ["2 lines without a grade were left out"]
    whole = lines("1", "0")
    assert judged_lines(whole, skip=True) == (whole, [])
    with pytest.raises(BadInput, match="none of its 2 lines has a grade yet"):
        judged_lines(lines("", ""), skip=True)
