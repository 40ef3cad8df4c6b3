"""Charts as still pictures, for notebooks: SVG in the colours of a light page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from owpc_ltr_report.library import VEGA_LITE

_WIDTH = 620
_NAME = re.compile(r"var\((--[a-z]+)\)")


def svg_of(spec: Mapping[str, Any]) -> str:
    """A chart's specification as an SVG picture."""
    import vl_convert

    config = {"view": {"stroke": None}}
    text = json.dumps({**spec, "width": _WIDTH, "background": "white", "config": config})
    plain = _NAME.sub(lambda found: _colours()[found[1]], text)
    made: Any = vl_convert.vegalite_to_svg(json.loads(plain), vl_version=VEGA_LITE)
    return str(made)


@cache
def _colours() -> dict[str, str]:
    """The colours of the light page, by their names in its style sheet."""
    style = (files("owpc_ltr_report") / "page" / "page.css").read_text(encoding="utf-8")
    light = style[style.index("{") : style.index("}")]
    return dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6});", light))
