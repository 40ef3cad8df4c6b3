"""The figures of docs/results.md and of the notebook's page are those of the code."""

from __future__ import annotations

import contextlib
import io
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.training.cross_validation import Fold
from tests.benchmark_scripts import benchmark_script
from tests.datasets import PARTS, letor_folds

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebooks" / "ohsumed.py"
QUICK = "owpc generator=logarithmic by larank"
"""The row that every run fits again; the thorough tests fit all."""
_PATH = re.compile(r"'(passes|nonzero_duals)': \d+")
"""How the optimum was reached, which last digits decide: they differ between processors."""
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


Fit = tuple[str, dict[str, str], str, dict[str, str]]
ohsumed = benchmark_script("ohsumed")


def _shown(fit: Fit) -> str:
    loss, settings, optimizer, of_optimizer = fit
    named = [f"{name}={value}" for name, value in settings.items()]
    return " ".join([loss, *named, "by", optimizer, *of_optimizer.values()])


def _marks(fit: Fit) -> list[pytest.MarkDecorator]:
    """A process may take any row; `make test` has one of them."""
    marks = [pytest.mark.xdist_group(_shown(fit))]
    return marks if _shown(fit) == QUICK else [*marks, pytest.mark.thorough]


@pytest.fixture(scope="module")
def folds(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`Fold1` to `Fold5` of LETOR 3.0's OHSUMED."""
    folder = tmp_path_factory.mktemp("folds")
    parts = {k: shared_data / "letor3-ohsumed" / f"S{k}.txt.xz" for k in PARTS}
    texts = {k: lzma.decompress(path.read_bytes()) for k, path in parts.items()}
    for fold, *sides in letor_folds():
        own = folder / fold
        own.mkdir()
        for name, numbers in zip(("train", "vali", "test"), sides, strict=True):
            (own / f"{name}.txt").write_bytes(b"".join(texts[number] for number in numbers))
    return folder


@pytest.fixture(scope="module")
def read(folds: Path) -> list[Fold[RankingDataset]]:
    """The folds in memory."""
    return list(ohsumed.folds_in(folds))


@pytest.mark.parametrize(
    "fit", [pytest.param(fit, marks=_marks(fit), id=_shown(fit)) for fit in ohsumed.FITS]
)
def test_a_row_of_the_results_is_that_of_the_code(
    fit: Fit, read: list[Fold[RankingDataset]]
) -> None:
    made = ohsumed.line(ohsumed.row(read, *fit))
    named = made[: made.index("| 0")]
    page = (ROOT / "docs" / "results.md").read_text()
    (shown,) = [line for line in page.splitlines() if line.startswith(named)]
    assert _numbers(made) == pytest.approx(_numbers(shown), abs=0.003), shown


def test_the_page_of_the_notebook_has_its_code_and_words() -> None:
    page = NOTEBOOK.with_suffix(".md").read_text()
    code, prose = _cells()
    assert _blocks("python", page) == code
    around = re.sub(r"^```.*?^```$|^<!--.*?-->$", "", page, flags=re.M | re.S)
    assert around.split() == " ".join(prose).split()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:no value, or one and the same")
def test_the_page_of_the_notebook_shows_what_it_prints(
    folds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LETOR_FOLDS", str(folds))
    shown = _blocks("text", NOTEBOOK.with_suffix(".md").read_text())
    namespace: dict[str, Any] = {"__name__": "notebook"}
    for cell in _cells()[0]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(cell, namespace)  # noqa: S102 - our own notebook
        if printed.getvalue():
            expected, output = (_PATH.sub("", text) for text in (shown.pop(0), printed.getvalue()))
            assert _NUMBER.sub("#", output).split() == _NUMBER.sub("#", expected).split()
            assert _numbers(output) == pytest.approx(_numbers(expected), abs=0.003, rel=0.01)
    assert not shown


def _cells() -> tuple[list[str], list[str]]:
    """The cells of code and the prose of the notebook."""
    cells = re.split(r"^# %%", NOTEBOOK.read_text(), flags=re.M)[1:]
    code = [cell.strip() for cell in cells if not cell.startswith(" [markdown]")]
    prose = [re.sub("^# ?", "", cell[11:], flags=re.M) for cell in cells if cell.startswith(" [m")]
    return code, prose


def _blocks(kind: str, page: str) -> list[str]:
    return [block.strip() for block in re.findall(rf"^```{kind}\n(.*?)^```$", page, re.M | re.S)]


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]
