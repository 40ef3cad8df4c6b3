"""`judge page`: one HTML file on which people grade a sheet, or the same page from a service.

A sheet is what `judge pool` writes. Columns that begin with `document:` show the document, in their
order. `information_need` is what the user wants to know; all other columns say nothing to a rater.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult
from owpc_ltr.data.judgment_tables import SHOWN, find_roles, header_delimiter, table_rows
from owpc_ltr.data.judgments import JudgmentLines, group_judgments
from owpc_ltr.data.options import Columns, checked_columns
from owpc_ltr.engine.live_results.judge_pool import names_between_commas
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused, UsageError
from owpc_ltr.files.input import read_text, shown, why_no_id
from owpc_ltr.files.output import digest_of, disk_faults, open_to_append, write_output
from owpc_ltr.files.strict_json import json_text, read_json_value
from owpc_ltr.signatures import Help, Reads, Writes, job
from owpc_ltr_rating.ratings import rating_of, read_ratings, why_no_rater

if TYPE_CHECKING:
    from starlette.applications import Starlette


NEED = "information_need"

"""The column that says what the user of a query wants to know."""


@dataclass(frozen=True)
class Pair:
    """A query and a document to grade; `fields` are the document's, in the sheet's order."""

    query_id: str
    query: str
    doc_id: str
    fields: Mapping[str, str]
    need: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The ids of both."""
        return self.query_id, self.doc_id


@dataclass(frozen=True)
class Sheet:
    """The pairs of a sheet, each once; `graded` ones have a grade in the sheet already.

    The digest is that of the pairs: it is the same with grades in the sheet, and whichever fields
    are shown.
    """

    pairs: tuple[Pair, ...]
    graded: int

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of the pairs."""
        return digest_of([[*pair.key, pair.query] for pair in self.pairs])[:16]


SheetFile = Annotated[Path | str, Reads("The sheet that `judge_pool()` wrote (CSV).", cli=Path)]


def read_sheet(path: Path | str, columns: Mapping[str, str] | None = None) -> Sheet:
    """The pairs of a sheet (CSV or TSV), whose `columns` may be named where it has them.

    Raises BadInput, naming the line of what is wrong.
    """
    path = Path(path)
    text = read_text(path)
    if not text.strip():
        raise BadInput(f"cannot read {path}: it is empty; judge pool writes such a sheet")
    header, fields, lines, _ = table_rows(text, path, header_delimiter(text))
    rows = zip(*(fields[place :: len(header)] for place in range(len(header))), strict=True)
    named = {role: name for role, name in checked_columns(columns or {}).items() if name in header}
    roles = find_roles(header, path, with_topics=False, columns=named)
    shown_at = {
        name.removeprefix(SHOWN): place
        for place, name in enumerate(header)
        if name.startswith(SHOWN)
    }
    need = header.index(NEED) if NEED in header else None
    pairs_by_key: dict[tuple[str, str], Pair] = {}
    ids: dict[str, str] = {}
    graded = 0
    for line, row in zip(lines, rows, strict=True):
        query, document = row[roles["query"]], row[roles["doc_id"]]
        fields_of_row = {name: row[place] for name, place in shown_at.items()}
        query_id = row[roles.get("query_id", roles["query"])]
        pair = Pair(query_id, query, document, fields_of_row, "" if need is None else row[need])
        why = why_no_id(document) or why_no_id(pair.query_id, typed=pair.query_id == query)
        if why or not query.strip():
            raise BadInput(f"cannot read {path}, line {line}: an id {why or 'has no query text'}")
        if ids.setdefault(query, query_id) != query_id:
            raise BadInput(
                f"cannot read {path}, line {line}: the query {shown(query)} has the ids "
                f"{shown(ids[query])} and {shown(query_id)}: give it one"
            )
        if pair.key in pairs_by_key:
            raise BadInput(
                f"cannot read {path}, line {line}: document '{document}' of query "
                f"'{pair.query_id}' is in the sheet twice: leave one line out"
            )
        pairs_by_key[pair.key] = pair
        graded += bool(row[roles["grade"]].strip())
    if not pairs_by_key:
        raise BadInput(f"cannot read {path}: the sheet has no document to grade")
    pairs = tuple(pairs_by_key.values())
    texts = [pair.query for pair in pairs]
    # What judge merge would refuse is refused before anybody rates.
    group_judgments(
        JudgmentLines(
            path,
            lines,
            [pair.query_id for pair in pairs],
            [pair.doc_id for pair in pairs],
            grades=["0"] * len(pairs),
            params={"query": texts},
        )
    )
    return Sheet(pairs, graded)


REPEATED = 0.03

"""The share of a rater's pairs that are shown to the same rater again, for self-agreement."""

OVERLAP = 10

"""Of several raters each has own queries, and one pair in so many is graded by all."""

DEFAULT_PORT = 8910

_LARGEST = 1 << 16

"""Bytes of an answer."""

SCALES = {
    2: ("not relevant", "relevant"),
    3: ("not relevant", "partly relevant", "relevant"),
    4: ("not relevant", "related, no answer", "partly answers", "answers fully"),
    5: ("not relevant", "slightly relevant", "fairly relevant", "relevant", "perfect"),
}

"""What grades mean, by their number."""

GUIDELINES = """Read the query, and think of what most people who type it want to know or do.
Then judge the document alone, as if you had seen no other: how well does it serve them?
A document that has the words of the query and does not help is not relevant.
If two grades seem right, choose the lower one. Do not look the document up elsewhere."""


@dataclass(frozen=True, repr=False)
class RatingPage(BlockResult):
    """The page of a sheet: how many pairs it has, for whom, and the file that it was written to."""

    pairs: int
    queries: int
    graded: int
    raters: tuple[str, ...]
    digest: str
    out: str
    html: str
    policy: str
    """The Content-Security-Policy of the page, which is in it, too."""

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        names = ("pairs", "queries", "graded", "digest", "out")
        return {**{name: getattr(self, name) for name in names}, "raters": list(self.raters)}

    def _blocks(self) -> Iterator[Block]:
        left = f"; {self.graded:,} have a grade in the sheet already" if self.graded else ""
        yield (
            f"{self.pairs:,} pairs of {self.queries:,} queries to rate{left}. Open {self.out} in a "
            "browser; judge merge reads the exported answers"
        )


@job
def judge_page(
    sheet: SheetFile,
    *,
    out: Annotated[
        Path | str | None,
        Writes(
            "The page (HTML); with `serve` the file that answers are appended to (JSON lines).",
            required=True,
            standard_output="a page is opened in a browser: name a file, not -",
        ),
    ] = None,
    raters: Annotated[
        Sequence[str],
        Help(
            "Who rates, between commas: queries are shared out; default: whoever opens the page "
            "rates all.",
            cli=str,
            parse=names_between_commas,
        ),
    ] = (),
    overlap: Annotated[
        int, Help("Of several raters, one pair in so many is rated by all; 0: none.", min=0)
    ] = OVERLAP,
    grades: Annotated[int, Help("The best grade; 0 is the worst.", min=1, max=9)] = 3,
    guidelines: Annotated[
        Path | str | None, Reads("What raters are told (text); default: a page of advice.")
    ] = None,
    images: Annotated[
        Sequence[str],
        Help(
            "Fields whose addresses are shown as images, which tells their servers who rates.",
            cli=str,
            parse=names_between_commas,
        ),
    ] = (),
    serve: Annotated[
        bool, Help("Serve the page on this computer, and write answers as they are given.")
    ] = False,
    port: Annotated[int, Help("The port to serve on; 0: a free one.", min=0, max=65535)] = (
        DEFAULT_PORT
    ),
    columns: Columns = None,
) -> RatingPage:
    """Write a page on which people grade a sheet.

    The page is one file that works without a network: each rater opens it, grades by key (0 to 3),
    and exports the answers, which `judge_merge()` and `log_features()` read. The browser keeps
    every answer at once. No rank, ranker or earlier grade is shown; the order is random within a
    query; 3 % of the pairs are shown a second time, for `judge_agree()`.

    Raises UsageError for a field that the sheet does not show, BadInput for what is no sheet.
    """
    read = read_sheet(sheet, columns)
    names = tuple(dict.fromkeys(name.strip() for name in raters))
    if wrong := next(filter(None, map(why_no_rater, names)), None):
        raise UsageError(f"`raters`: {wrong}: rename it")
    fields = list(read.pairs[0].fields)
    if unknown := next((name for name in images if name not in fields), None):
        raise UsageError(
            f"`images`: the sheet shows no field '{unknown}': it shows "
            f"{', '.join(fields) or 'none'} (`judge_pool(fields=…)`)"
        )
    content = {
        "digest": read.digest,
        "pairs": [vars(pair) for pair in read.pairs],
        "raters": names,
        "overlap": overlap if len(names) > 1 else 0,
        "repeat": REPEATED,
        "scale": SCALES.get(grades + 1, [f"grade {grade}" for grade in range(grades + 1)]),
        "guidelines": GUIDELINES if guidelines is None else read_text(Path(guidelines)),
        "images": list(images),
        "served": serve,
    }
    html, policy = page_html(content)
    page = RatingPage(
        pairs=len(read.pairs),
        queries=len({pair.query_id for pair in read.pairs}),
        graded=read.graded,
        raters=names,
        digest=read.digest,
        out=str(out),
        html=html,
        policy=policy,
    )
    if out is not None and not serve:
        write_output(out, page.html.encode(), [sheet])
    if serve:
        _serve(page, read, out, port, grades)
    return page


def page_html(content: dict[str, Any]) -> tuple[str, str]:
    """The page of this content, and its policy.

    What texts contain is data: the policy allows the script of the page alone.
    """
    template, script = (
        files("owpc_ltr_rating").joinpath(name).read_text("utf-8")
        for name in ("rating.html", "rating.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "http: https:" if content["images"] else "'none'",
        "connect-src": "'self'" if content["served"] else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    data = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    policy = "; ".join(map(" ".join, rules.items()))
    page = template.replace("@POLICY@", policy)
    return page.replace("@SCRIPT@", script).replace("@DATA@", data), policy


def _serve(page: RatingPage, sheet: Sheet, out: Path | str | None, port: int, grades: int) -> None:
    """Serve the page on this computer until Ctrl-C."""
    if out is None:
        raise UsageError("`out` names the file of the answers: give it")
    try:
        from owpc_ltr.host.web_service import LOOPBACK, WebServer, listening

        app = create_app(page.html, sheet, Path(out), grades, page.raters)
        server = WebServer(app, LOOPBACK, policy=page.policy)
    except ModuleNotFoundError as error:
        raise UsageError("a page is served by starlette: pip install 'owpc-ltr[serve]'") from error
    with listening("127.0.0.1", port) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        message = f"rate at {address}; answers go to {out}; Ctrl-C ends it"
        print(message, file=sys.stderr, flush=True)
        server.run([listener])


def create_app(
    html: str, sheet: Sheet, out: Path, grades: int = 3, raters: Sequence[str] = ()
) -> Starlette:
    """The page of a sheet as a service: GET / is the page, POST /answers appends one answer.

    204 means that the answer has reached the disk, and that judge merge reads it. One of another
    sheet is refused (409), and a file that holds such answers, too.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route

    if out.exists() and out.stat().st_size:
        others = [
            rating.sheet for rating in read_ratings(out).values() if rating.sheet != sheet.digest
        ]
        if others:
            raise BadInput(f"{out} has answers to another sheet ({others[0]}): name another file")
    # The file can be written, and what a crash has left of an answer is cut off.
    with disk_faults(out), open_to_append(out):
        pass
    texts = {pair.key: pair.query for pair in sheet.pairs}

    def page(_request: Request) -> Response:
        return HTMLResponse(html, headers={"Cache-Control": "no-store"})

    async def answers(request: Request) -> Response:
        body = b""
        async for block in request.stream():
            body += block
            if len(body) > _LARGEST:
                return PlainTextResponse(f"an answer has at most {_LARGEST} bytes", 413)
        try:
            line = _answer_line(body, sheet, texts, grades, raters)
        except (ValueError, BadInput) as error:
            return PlainTextResponse(str(error), 400)
        except Refused as error:
            return PlainTextResponse(str(error), 409)
        try:
            with disk_faults(out), open_to_append(out) as file:
                file.append(line)
        except OwpcLtrError as error:
            return PlainTextResponse(str(error), 500)
        return Response(status_code=204)

    return Starlette(routes=[Route("/", page), Route("/answers", answers, methods=["POST"])])


def _answer_line(
    body: bytes,
    sheet: Sheet,
    texts: Mapping[tuple[str, str], str],
    grades: int,
    raters: Sequence[str],
) -> bytes:
    """The line of an answer. Raises ValueError or BadInput for what judge merge would not read.

    Raises Refused for an answer to another sheet.
    """
    rating, undone = rating_of(read_json_value(body.decode()), "the answer")
    if rating.sheet != sheet.digest:
        raise Refused("the answer is to another sheet: load the page again")
    if texts.get((rating.query_id, rating.doc_id)) != rating.query:
        raise BadInput(
            f"the sheet has no document {shown(rating.doc_id)} of query {shown(rating.query)}"
        )
    if rating.grade is not None and rating.grade not in range(grades + 1):
        raise BadInput(f"the grade {rating.grade:g} is not a whole number from 0 to {grades}")
    if raters and rating.judged_by not in raters:
        raise BadInput(f"{shown(rating.judged_by)} is not one of the raters: {', '.join(raters)}")
    if why := why_no_rater(rating.judged_by):
        raise BadInput(f"{why}: choose another name")
    entry = rating.as_dict() | ({"undone": True} if undone else {})
    return f"{json_text(entry)}\n".encode()
