"""Pages of the site that lie elsewhere in the repository, and links that suit both places.

README.md is the site's first page. Links work in the repository as they are written; on the site,
one to a page of it leads there, and one to anything else becomes text. A picture with a dark
version follows the colours that the reader chose on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
HOME = "index.md"
ELSEWHERE = {"README.md": HOME}
"""Files of the repository, and the pages that they are on the site."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_PICTURE = re.compile(
    r"""<picture>\s*<source[^>]*\ssrcset="docs/([^"]+)">\s*"""
    r"""<img\s+src="docs/([^"]+)"\s+alt="([^"]*)">\s*</picture>"""
)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages that lie outside docs/."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Let links lead to pages of the site; what is in the repository only is named."""
    here = page.file.src_uri
    if here == HOME:
        page.meta["hide"] = ["navigation"]
        markdown = _PICTURE.sub(_picture, markdown)
    source = next((old for old, new in ELSEWHERE.items() if new == here), f"docs/{here}")
    return _LINK.sub(lambda link: _link(link, source, here, files), markdown)


def _picture(found: re.Match[str]) -> str:
    """Two images, of which Material shows one."""
    dark, light, text = found.groups()
    return f'<img src="{light}#only-light" alt="{text}"><img src="{dark}#only-dark" alt="{text}">'


def _link(link: re.Match[str], source: str, here: str, files: Files) -> str:
    text, target = link.groups()
    path, hash_, anchor = target.partition("#")
    if not path or ":" in path:
        return link[0]
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / inside).exists():
        return link[0]  # mkdocs names it as broken
    page = _page(inside, files)
    if page is None:
        return text
    return f"[{text}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{hash_}{anchor})"


def _page(inside: str, files: Files) -> str | None:
    for name in (inside, f"{inside}/README.md"):
        page = ELSEWHERE.get(name, name.removeprefix("docs/"))
        known = files.get_file_from_path(page)
        if known is not None and known.inclusion.is_included():
            return page
    return None
