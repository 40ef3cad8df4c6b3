"""Runs the notebooks and writes their pages: code, and beneath it what it printed.

LETOR_FOLDS=FOLDER MSRD_MOVIES=FOLDER python docs/notebooks/run.py [NAME …]

The notebook on movies also needs a node with vectors (OWPC_LTR_URL, or the local one). Where the
folder of its data is not named, a page stays as it is.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import jupytext
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor, ExecutePreprocessor

FOLDER = Path(__file__).parent
NEEDS = {"movies-hybrid": "MSRD_MOVIES", "ohsumed": "LETOR_FOLDS"}
"""What a notebook cannot do without."""
NOTE = "<!-- Made by docs/notebooks/run.py from {name}; do not edit. -->\n\n"


def page_of(notebook: Path) -> str:
    """A notebook, run from its beginning, as Markdown. An error in a cell is raised."""
    content = jupytext.read(notebook, fmt="py:percent")
    content, _ = ExecutePreprocessor(timeout=1800, kernel_name="python3").preprocess(content)
    for cell in content.cells:
        # Warnings name temporary files of the kernel.
        cell["outputs"] = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
    content, _ = CoalesceStreamsPreprocessor(enabled=True).preprocess(content, {})
    text, _ = MarkdownExporter().from_notebook_node(content)
    return NOTE.format(name=notebook.name) + _fenced(text).strip() + "\n"


def _fenced(text: str) -> str:
    """Outputs, which come indented, as blocks that are said to be text."""
    pieces = re.split(r"(^```python\n.*?^```\n)", text, flags=re.M | re.S)
    return "".join(piece if piece.startswith("```") else _outputs(piece) for piece in pieces)


def _outputs(text: str) -> str:
    return re.sub(
        r"(?:^ {4}[^\n]*\n|^[ \t]*\n(?= {4}))+",
        lambda found: f"\n```text\n{_dedented(found[0])}\n```\n",
        text,
        flags=re.M,
    )


def _dedented(lines: str) -> str:
    return "\n".join(line.removeprefix("    ").rstrip() for line in lines.strip("\n").splitlines())


def main() -> int:
    """Write the page of each notebook, or of those that are named."""
    named = sys.argv[1:]
    for notebook in sorted(FOLDER.glob("*.py")):
        if named and notebook.stem not in named:
            continue
        needed = NEEDS.get(notebook.stem)
        if needed is not None and not os.environ.get(needed):
            print(f"{notebook.name} is left out: set {needed} to run it", file=sys.stderr)
        elif notebook != Path(__file__):
            notebook.with_suffix(".md").write_text(page_of(notebook))
    return 0


if __name__ == "__main__":
    sys.exit(main())
