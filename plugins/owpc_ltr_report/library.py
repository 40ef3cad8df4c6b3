"""The chart library: Vega, Vega-Lite and Vega-Embed as one script, out of a Python package."""

from __future__ import annotations

import re
from functools import cache

VEGA_LITE = "6.4"
"""The version of Vega-Lite whose specifications the charts are."""
_WANTED = "window.vegaEmbed = vegaEmbed;"
_END = re.compile(r"</(?=script)|<!--", re.IGNORECASE)


@cache
def library() -> str:
    """The script, in a form that can stand inside <script>; nothing is fetched for it."""
    import vl_convert

    text = vl_convert.javascript_bundle(_WANTED, vl_version=VEGA_LITE)
    # In JavaScript both are only ever in strings, where a backslash before the sign changes none.
    return _END.sub(lambda found: f"\\x3c{found[0][1:]}", text).replace("\r\n", "\n")
