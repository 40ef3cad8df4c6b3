"""The outcome as one HTML page: no script, nothing fetched, at home on light and dark screens."""

from __future__ import annotations

from html import escape

from owpc_ltr.data.html import block, line
from owpc_ltr_papers.findings import Findings
from owpc_ltr_papers.tables import cells, headers

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font-family:system-ui,sans-serif;margin:2rem;line-height:1.4}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:bold;padding:.5em 0}"
    "th,td{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}"
    "thead th{border-bottom:1px solid;position:sticky;top:0;background:Canvas}"
    "tbody th{font-weight:normal}"
)


def as_html(found: Findings) -> str:
    """A whole document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(found.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(found.title)}</h1>\n{_tables(found)}\n"
        f"<h2>What must be known</h2>\n{_list(found.notes)}\n"
        f"<h2>Published figures</h2>\n{_list(found.citations)}\n</main>\n</body>\n</html>\n"
    )


def body(found: Findings) -> str:
    """The same for a notebook, which has a page of its own."""
    return block(found.title, _tables(found), *map(line, (*found.notes, *found.citations)))


def _tables(found: Findings) -> str:
    """One table a data set and metric, whose columns are told to those who do not see them."""
    names = headers(found.rows)
    groups: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        own = [
            f'<th scope="row">{escape(cell)}</th>'
            if name == "method"
            else f"<td>{escape(cell)}</td>"
            for name, cell in zip(names, cells(row, names), strict=True)
            if name not in _GROUPED
        ]
        groups.setdefault((row.data_set, row.metric), []).append(f"<tr>{''.join(own)}</tr>")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names if name not in _GROUPED)
    return "\n".join(
        f"<table>\n<caption>{escape(data_set)}, {escape(metric)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"
        for (data_set, metric), rows in groups.items()
    )


_GROUPED = ("data set", "metric")


def _list(texts: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"
