"""Data sets and published figures of reproductions."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_papers.folders import Collection, find_collections, rotation
from owpc_ltr_papers.reproduce import PROTOCOLS, figures, published, sources

from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import BadInput
from tests.datasets import PARTS, part, write_folds, write_parts

LETOR_SUMS = {
    "Fold1": ("S1 S2 S3", "S4", "S5"),
    "Fold2": ("S2 S3 S4", "S5", "S1"),
    "Fold3": ("S3 S4 S5", "S1", "S2"),
    "Fold4": ("S4 S5 S1", "S2", "S3"),
    "Fold5": ("S5 S1 S2", "S3", "S4"),
}


def only(folder: Path) -> Collection:
    (collection,) = find_collections(folder)[0]
    return collection


def fingerprints(collection: Collection) -> list[tuple[str, ...]]:
    folds = [files.read() for files in collection.folds]
    return [
        tuple(side.fingerprint for side in (fold.training, fold.validation, fold.test))
        for fold in folds
    ]


def test_parts_rotate_as_letor_says() -> None:
    parts = {f"S{k}": Path(f"S{k}") for k in PARTS}
    names_by_fold = {
        fold.name: tuple(
            " ".join(path.name for path in side)
            for side in (fold.training, fold.validation, fold.test)
        )
        for fold in rotation(parts)
    }
    assert names_by_fold == LETOR_SUMS


@pytest.mark.parametrize("ending", ["txt", "txt.gz", "txt.xz"])
@pytest.mark.parametrize(
    "names", [("train", "vali", "test"), ("trainingset", "validationset", "testset")]
)
def test_folds_are_the_same_however_they_are_laid_out(
    tmp_path: Path, ending: str, names: tuple[str, ...]
) -> None:
    parted = only(write_parts(tmp_path / "parts" / "MQ2008"))
    folded = only(write_folds(tmp_path / "folds" / "MQ2008" / "Data", ending, names))
    assert parted.whole
    assert folded.whole
    assert fingerprints(parted) == fingerprints(folded)


@given(st.sets(st.sampled_from(list(PARTS)), min_size=1, max_size=4))
def test_parts_that_are_missing_are_named_and_make_no_fold(there: set[int]) -> None:
    with TemporaryDirectory() as name:
        collection = only(write_parts(Path(name) / "NP2004", sorted(there)))
    assert collection.folds == ()
    assert not collection.whole
    assert len(collection.pieces) == len(there)
    (missing,) = collection.missing
    for number in PARTS:
        assert (f"S{number}" in missing) == (number not in there)


@given(
    st.sets(
        st.tuples(st.sampled_from(list(PARTS)), st.sampled_from(("train", "vali", "test"))),
        min_size=1,
        max_size=14,
    )
)
def test_files_of_folds_that_are_missing_are_named(gone: set[tuple[int, str]]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "TD2004"
        for k in PARTS:
            for side in ("train", "vali", "test"):
                if (k, side) not in gone:
                    (folder / f"Fold{k}").mkdir(parents=True, exist_ok=True)
                    (folder / f"Fold{k}" / f"{side}.txt").write_text("0 qid:1 1:0\n")
        collection = only(folder)
    missing = " ".join(collection.missing)
    hurt = {k for k, _ in gone}
    assert {fold.name for fold in collection.folds} == {f"Fold{k}" for k in PARTS if k not in hurt}
    assert not collection.whole
    for k in PARTS:
        assert (f"Fold{k}" in missing) == (k in hurt)


def test_what_can_be_made_of_one_part_is_called_so(tmp_path: Path) -> None:
    folder = tmp_path / "NP2004"
    folder.mkdir()
    write_letor(part(4, queries=20), folder / "S4.txt.xz")
    collection = only(folder)
    assert collection.label == "NP2004, within S4"
    assert not collection.whole
    tested = [
        query
        for read in collection.readers().values()
        for query in read().test.query_ids.to_pylist()
    ]
    assert sorted(tested) == sorted(part(4, queries=20).query_ids.to_pylist())


def test_some_folds_of_five_are_not_taken_for_all_and_parts_serve_instead(tmp_path: Path) -> None:
    folder = write_folds(tmp_path / "HP2003")
    assert only(folder).whole
    for path in (folder / "Fold3").iterdir():
        path.unlink()
    collection = only(folder)
    assert collection.label == "HP2003, Fold1, Fold2, Fold4, Fold5 only"
    assert not collection.whole
    assert only(write_parts(folder)).whole


@pytest.mark.parametrize(
    ("path", "features", "name"),
    [
        ("OHSUMED/Data", 25, "LETOR 2.0 OHSUMED"),
        ("letor3-ohsumed/QueryLevelNorm", 45, "LETOR 3.0 OHSUMED"),
        ("Gov/QueryLevelNorm/2003_td_dataset", 64, "LETOR 3.0 TD2003"),
        ("Gov/Data/TD2004", 44, "LETOR 2.0 TD2004"),
        ("MQ2008", 46, "LETOR 4.0 MQ2008"),
        ("MSLR-WEB10K", 136, "MSLR-WEB10K"),
        ("mine", 7, "mine"),
    ],
)
def test_data_sets_are_called_as_papers_call_them(
    tmp_path: Path, path: str, features: int, name: str
) -> None:
    folder = tmp_path / path
    folder.mkdir(parents=True)
    for number in PARTS:
        write_letor(part(number, features=features), folder / f"S{number}.txt")
    assert only(tmp_path).name == name


def test_of_two_copies_the_normalised_one_is_taken_and_the_other_named(tmp_path: Path) -> None:
    for variant in ("Feature-min", "QueryLevelNorm"):
        write_parts(tmp_path / "MQ2007" / variant)
    collections = find_collections(tmp_path)
    (collection,) = collections[0]
    assert collection.folder.name == "QueryLevelNorm"
    assert "Feature-min is left" in collections[1][0]


def test_links_are_followed_and_circles_end(tmp_path: Path) -> None:
    write_parts(tmp_path / "elsewhere" / "MQ2007")
    letor = tmp_path / "letor"
    letor.mkdir()
    (letor / "MQ2007").symlink_to(tmp_path / "elsewhere" / "MQ2007")
    (letor / "again").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(letor)
    collections = find_collections(letor)
    assert [collection.name for collection in collections[0]] == ["MQ2007"]
    assert collections[1] == []


def test_a_folder_that_holds_no_whole_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no data set"):
        find_collections(tmp_path)
    with pytest.raises(BadInput, match="is not a folder"):
        find_collections(tmp_path / "nothing")
    small = tmp_path / "small" / "NP2004"
    small.mkdir(parents=True)
    write_letor(part(1, queries=4), small / "S1.txt")
    with pytest.raises(BadInput, match="has 4 queries of NP2004, too few"):
        only(small).readers()
    folder = write_folds(tmp_path / "twice" / "HP2004")
    write_letor(part(1), folder / "Fold1" / "train.txt.gz")
    with pytest.raises(BadInput, match=r"two training files, train\.txt and train\.txt\.gz"):
        find_collections(folder.parent)


def test_sides_that_leave_out_their_last_features_have_the_same_columns(tmp_path: Path) -> None:
    folder = tmp_path / "sparse" / "Fold1"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("1 qid:1 1:1 2:1\n0 qid:1 1:0 2:0\n")
    (folder / "vali.txt").write_text("1 qid:2 1:1\n0 qid:2 1:0\n")
    (folder / "test.txt").write_text("1 qid:3 1:1 3:1\n0 qid:3 1:0\n")
    assert {side.n_features for side in only(tmp_path).folds[0].read()} == {3}


GOV = [f"LETOR 3.0 {name}" for name in ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004")]
PLACE = re.compile(r"(Table|Tableau) \d, (p\. \d+|§ \d)|§ \d, p\. \d+|sheet \w+|\w+_results\.csv")
ALL = [figure for source in sources() for figure in figures(source)]


def test_every_protocol_has_figures_and_every_source_says_where_they_are_from() -> None:
    for name, protocol in PROTOCOLS.items():
        assert protocol().sources[0] == name
        assert figures(name)
    for source in sources().values():
        assert source.title
        assert source.authors
        assert source.published


def test_each_figure_stands_once_with_its_table_and_place_and_can_be_one() -> None:
    for figure in ALL:
        assert PLACE.fullmatch(figure.where), figure
        assert figure.cited == f"{figure.source}, {figure.where}"
        assert 0 < figure.value < 1 or figure.data_set == "worked example"
    keys = [(figure.source, figure.data_set, figure.method, figure.metric) for figure in ALL]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("owpc2009", 6 * (3 + 3 * 6)),
        ("inex2009", 5),
        ("lambdarank", 3),
        ("exchangeable2014", 6 * 2 * 4),
        ("letor3", 4 * 8 * 7),
        ("letor2", 7 * 6),
    ],
)
def test_the_tables_are_whole(source: str, count: int) -> None:
    assert len(figures(source)) == count


def disagreements(source: str, other: str, method: str, named: str, metric: str) -> list[str]:
    """Data sets on which two sources differ by more than rounding to three digits."""
    data_sets = []
    for data_set in GOV:
        a = published([source], data_set, metric).get(method)
        b = published([other], data_set, metric).get(named)
        if a is None or b is None or abs(a.value - b.value) > 0.00051:
            data_sets.append(data_set)
    return data_sets


@pytest.mark.parametrize(
    ("method", "named", "metric"),
    [
        ("RankSVM", "RankSVM", "map"),
        ("SVMmap", "SVMmap", "map"),
        ("AdaRank", "AdaRank-MAP", "map"),
        ("AdaRank", "AdaRank-NDCG", "ndcg-letor@3"),
        *((method, method, "ndcg-letor@3") for method in ("RankSVM", "SVMmap", "ListNet")),
    ],
)
def test_the_paper_s_baselines_are_letor_s(method: str, named: str, metric: str) -> None:
    """Two independent transcriptions: a wrong digit in either would be seen, as a wrong name is."""
    assert disagreements("owpc2009", "letor3", method, named, metric) == []
    other = {"RankSVM": "SVMmap"}.get(named, "RankSVM")
    assert disagreements("owpc2009", "letor3", method, other, metric) != []


def test_a_figure_that_nobody_published_is_none() -> None:
    assert "OWPC g_All" not in published(["owpc2009"], "LETOR 3.0 OHSUMED", "map")
