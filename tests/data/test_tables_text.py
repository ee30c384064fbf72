"""Text tables: what is found out about them, compared with a slow reader and with what was written."""

import csv
import gzip
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import kpca
from kpca import InputError, KernelPCA
from kpca.data import text, text_blocks
from kpca.data import text_lines as lines
from kpca.data.opening import open_table
from kpca.data.rows import Rows, Table
from kpca.data.text_lines import MISSING, records


def opened(folder: Path, content: str | bytes, name: str = "x.csv", **options: Any) -> Table:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_table(path, **options)


def same(one: Any, other: Any) -> bool:
    """Whether two arrays, or None, are the same to the bit, in type as well."""
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype == object:
        return all(type(a) is type(b) and a == b for a, b in zip(one, other, strict=True))
    return one.tobytes() == other.tobytes()


def assert_same(one: Rows, other: Rows) -> None:
    assert one.layout == other.layout
    assert same(one.numbers, other.numbers)
    assert set(one.categories) == set(other.categories)
    assert all(same(one.categories[name], other.categories[name]) for name in one.categories)
    for part in ("documents", "ids", "labels"):
        assert same(getattr(one, part), getattr(other, part)), part


# --- the slow truth ---------------------------------------------------------------------------------------------------

CELLS = {
    "numbers": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(10**6), 10**6).map(str),
    "texts": st.text(
        st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs", "Cc"]), max_size=6
    ),
    "lines": st.sampled_from(["two\nlines", 'a "quote"', "x,y;z", "it's", ' "b"', "#c", 'five" pipe', "ü"]),
    "truths": st.sampled_from(["true", "False", "TRUE"]),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=2, max_size=5))
    rows = draw(st.integers(1, 18))
    columns = [
        draw(st.lists(CELLS[kind] | st.sampled_from(["", "NA"]), min_size=rows, max_size=rows)) for kind in kinds
    ]
    return [f"{kind} {place}" for place, kind in enumerate(kinds)], [list(row) for row in zip(*columns, strict=True)]


def truth(names: list[str], rows: list[list[str]]) -> dict[str, list[Any]]:
    """What each column should come as: floats if all entries are numbers or all are truth values, else texts."""

    def number(cell: str) -> float | None:
        try:
            return None if "_" in cell else float(cell)
        except ValueError:
            return None

    found: dict[str, list[Any]] = {}
    for place, name in enumerate(names):
        cells = [None if row[place].strip() in MISSING else row[place] for row in rows]
        there = [cell for cell in cells if cell is not None]
        if there and all(cell.strip().lower() in ("true", "false") for cell in there):
            found[name] = [math.nan if cell is None else float(cell.strip().lower() == "true") for cell in cells]
        elif all(number(cell) is not None for cell in there):
            found[name] = [math.nan if cell is None else number(cell) for cell in cells]
        else:
            found[name] = cells
    return found


@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    block=st.integers(1, 200),
    compressed=st.booleans(),
    wide=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_tables_come_as_the_slow_reader_says(
    tmp_path_factory: pytest.TempPathFactory,
    table: Any,
    delimiter: str,
    line_end: str,
    quoting: Any,
    block: int,
    compressed: bool,
    wide: bool,
) -> None:
    names, rows = table
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerows([names, *rows])
    content = written.getvalue().encode()
    path = tmp_path_factory.mktemp("text") / ("x.csv.gz" if compressed else "x.csv")
    path.write_bytes(gzip.compress(content) if compressed else content)
    expected = truth(names, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        patch.setattr(text, "_BYTES_PER_COLUMN", 1)
        patch.setattr(text_blocks, "_WIDE", 1 if wide else 1000)
        opened = open_table(path, delimiter=delimiter, header=True, encode="onehot")
        whole = opened.whole()
        pieces = list(opened.chunks(7))
    assert opened.n_rows == len(rows) == len(whole)
    for name, cells in expected.items():
        if name in opened.layout.numbers:
            column = whole.numbers[:, opened.layout.numbers.index(name)]
            assert same(column, np.array(cells, dtype=np.float64)), (name, column, cells)
        else:
            assert whole.categories[name].tolist() == cells
    assert [len(piece) for piece in pieces] == [7] * (len(rows) // 7) + [len(rows) % 7] * (len(rows) % 7 > 0)
    assert [piece.first for piece in pieces] == list(range(0, len(rows), 7))
    for piece in pieces:
        part = slice(piece.first, piece.first + len(piece))
        assert same(piece.numbers, whole.numbers[part])
        assert all(same(piece.categories[name], whole.categories[name][part]) for name in piece.categories)


@given(
    rows=st.lists(st.lists(st.text(st.sampled_from('a1",;\n x'), max_size=5), min_size=1, max_size=4), max_size=5),
    delimiter=st.sampled_from(",;"),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=150, deadline=None)
def test_records_are_those_that_were_written(rows: list[list[str]], delimiter: str, line_end: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator=line_end).writerows(rows)
    assert [fields for _, _, fields in records(written.getvalue(), delimiter)] == rows


# --- what is found out ------------------------------------------------------------------------------------------------

ONE = [[1.0, 2.5], [3.0, -4.0]]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a,b\n1,2.5\n3,-4\n", ("a", "b")),
        ("a;b\n1;2.5\n3;-4\n", ("a", "b")),
        ("a;b\n1;2,5\n3;-4,0\n", ("a", "b")),
        ("a\tb\n1\t2,5\n3\t-4\n", ("a", "b")),
        ("a|b\n1|2.5\n3|-4\n", ("a", "b")),
        ("1,2.5\n3,-4\n", ("x0", "x1")),
        ("1;2,5\n3;-4\n", ("x0", "x1")),
        ("\ufeffa,b\n1,2.5\n3,-4\n", ("a", "b")),
        ("a,b\r\n1,2.5\r\n3,-4\r\n", ("a", "b")),
        ("a,b\r1,2.5\r3,-4\r", ("a", "b")),
        ("a,b\n1,2.5\n3,-4", ("a", "b")),
        ('"a","b"\n"1","2.5"\n"3","-4"\n', ("a", "b")),
        (" a , b \n 1 , 2.5 \n 3 , -4 \n", ("a", "b")),
        ("# made today\n\na,b\n1,2.5\n\n# half way\n3,-4\n\n", ("a", "b")),
        ("# a,b\n1,2.5\n3,-4\n", ("a", "b")),
        ("# made by hand\n1,2.5\n3,-4\n", ("x0", "x1")),
        ("a,b\n1,2.5\n   \n3,-4\n,\n", ("a", "b")),
        ("a,b,\n1,2.5,\n3,-4,\n", ("a", "b")),
        (",a,b\n0,1,2.5\n1,3,-4\n", ("a", "b")),
        (",0,1\n0,1,2.5\n1,3,-4\n", ("0", "1")),
        ("id,2019\n1,2.5\n3,-4\n", ("id", "2019")),
        ("a,b\n1.0,25e-1\n+3,-4.\n", ("a", "b")),
        ('"a ""x""","b\nb"\n1,2.5\n3,-4\n', ('a "x"', "b\nb")),
    ],
)
def test_forms_of_the_same_table(content: str, names: tuple[str, ...], tmp_path: Path) -> None:
    if content.endswith(",\n") and "   \n" in content:  # a row of nothing but delimiters is a row, of missing entries
        table = opened(tmp_path, content)
        assert_array_equal(table.whole().numbers, [*ONE, [np.nan, np.nan]])
        return
    table = opened(tmp_path, content)
    assert table.layout.numbers == names
    assert table.layout.categories == ()
    assert_array_equal(table.whole().numbers, ONE)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_encodings_with_a_mark(encoding: str, tmp_path: Path) -> None:
    for compressed in (False, True):
        content = "größe,名前\n1,太郎\n2,花子\n".encode(encoding)
        table = opened(tmp_path, gzip.compress(content) if compressed else content)
        assert table.layout.numbers == ("größe",)
        assert table.whole().categories["名前"].tolist() == ["太郎", "花子"]


@pytest.mark.parametrize("spelled", [*MISSING, "#N/A", "<NA>", "n/a", "None", " ", " NA", "NA ", " ? "])
def test_missing_entries(spelled: str, tmp_path: Path) -> None:
    table = opened(tmp_path, f"a,b,c\n1,x,7\n{spelled},{spelled},{spelled}\n3,y,9\n")
    assert table.layout.numbers == ("a", "c")
    assert_array_equal(table.whole().numbers, [[1, 7], [np.nan, np.nan], [3, 9]])
    assert table.whole().categories["b"].tolist() == ["x", None, "y"]


@pytest.mark.parametrize("after", ["c,a\nx,1\n2,2\n", "c,a\n,1\n2,2\n", "c,a\n1,1\n", "c,a\n1,1\n2,x\n"])
def test_files_that_change_after_the_first_reading(after: str, tmp_path: Path) -> None:
    table = opened(tmp_path, "c,a\n1,1\n2,2\n", label="c")
    opened_file = next(tmp_path.iterdir())
    opened_file.write_text(after)
    with pytest.raises(InputError, match="must stay as it is while it is read"):
        table.whole()
    opened_file.unlink()
    with pytest.raises(InputError, match="must stay where it is while it is read"):
        table.whole()


def test_classes_called_none_or_minus_are_classes(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,c\n1,None\n2,-\n3,#N/A\n4,<NA>\n", label="c")
    assert table.whole().labels.tolist() == ["None", "-", None, None]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("said", ["sep=;", "SEP=;", '"sep=;"', "sep=;;", "\ufeffsep=;"])
def test_a_first_line_that_names_the_delimiter(said: str, line_end: str, tmp_path: Path) -> None:
    """Spreadsheets write it for each other; it is no header, and lines are counted with it."""
    lines = [said, "a;b", "1;2", "3;4"]
    table = opened(tmp_path, line_end.join(lines) + line_end)
    assert table.layout.numbers == ("a", "b")
    assert_array_equal(table.whole().numbers, [[1, 2], [3, 4]])
    with pytest.raises(InputError, match="line 4 has 3"):
        opened(tmp_path, line_end.join([*lines[:3], "3;4;5"]) + line_end)


def test_a_delimiter_at_the_end_of_the_rows_alone(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,b\n1,2,\n3,4,\n")
    assert table.layout.numbers == ("a", "b")
    assert_array_equal(table.whole().numbers, [[1, 2], [3, 4]])


@pytest.mark.parametrize("content", ["a,b\nr1,1,2\nr2,3,4\n", '"a","b"\n"1",1,2\n"2",3,4\n', "#\n\na,b\n1,1,2\n"])
def test_a_header_that_lacks_a_name(content: str, tmp_path: Path) -> None:
    """Which one is not for us to guess: R leaves out the first, a slip of the hand any."""
    with pytest.raises(
        InputError, match=r'its header has 2 names, and line . has 3 entries: add the one .* "" in front'
    ):
        opened(tmp_path, content)
    named = opened(tmp_path, content.replace("a,b", '"",a,b').replace('"a","b"', '"","a","b"'))
    assert named.layout.numbers == ("a", "b") and named.layout.id == "index"


def test_carriage_returns_between_rows_and_line_feeds_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As old spreadsheets wrote cells of several lines; the file is longer than a row may be."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 200)
    monkeypatch.setattr(text, "_BYTES_PER_COLUMN", 1)
    monkeypatch.setattr(lines, "LONGEST_RECORD", 1000)
    rows = [f'{i},"two\nlines {i}"' for i in range(300)]
    table = opened(tmp_path, "\r".join(["a,b", *rows]) + "\r", id="a")
    found = table.whole()
    assert found.ids is not None and found.ids.tolist() == list(range(300))
    assert found.categories["b"].tolist() == [f"two\nlines {i}" for i in range(300)]


def test_rows_that_begin_like_comments_are_not_lost(tmp_path: Path) -> None:
    assert opened(tmp_path, "id,a,b\n#1,1,2\n#2,3,4\n", id="id").n_rows == 2
    with pytest.raises(InputError, match="line 3 has 2"):
        opened(tmp_path, "id,a,b\n#1,1,2\n#2,3\n#4,5,6\n", id="id")


def test_a_column_that_is_called_sep(tmp_path: Path) -> None:
    assert opened(tmp_path, "sep=x,b\n1,2\n3,4\n").layout.numbers == ("sep=x", "b")


def test_truth_values_beside_padded_words(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,b\ntrue, NA \nfalse,1\n")
    assert_array_equal(table.whole().numbers, [[1, np.nan], [0, 1]])


def test_mark_of_the_encoding_inside_the_file(tmp_path: Path) -> None:
    """It is a letter there, if one that is not seen."""
    table = opened(tmp_path, "a,b\n\ufeffx,1\ny,2\n")
    assert table.whole().categories["a"].tolist() == ["\ufeffx", "y"]


def test_wide_tables_with_texts_among_the_numbers(tmp_path: Path) -> None:
    """They are read as a grid, and come as narrow ones do."""
    names = ["cell", *(f"g{i}" for i in range(1500)), "kind", "flag"]
    rows = [
        [f"c{r}", *(f"{r * i / 8}" if (r + i) % 7 else "NA" for i in range(1500)), "uv"[r % 2], "true"]
        for r in range(5)
    ]
    content = "\n".join(",".join(row) for row in [names, *rows])
    table = opened(tmp_path, content, id="cell", drop=["flag"])
    whole = table.whole()
    expected = [[r * i / 8 if (r + i) % 7 else np.nan for i in range(1500)] for r in range(5)]
    assert_array_equal(whole.numbers, expected)
    assert whole.categories["kind"].tolist() == ["u", "v", "u", "v", "u"]
    assert whole.ids is not None and whole.ids.tolist() == [f"c{r}" for r in range(5)]
    assert opened(tmp_path, content).layout.numbers[-1] == "flag"
    with pytest.raises(InputError, match=r"Column 'g3' .* line 4 holds inf"):
        opened(tmp_path, content.replace("c2,0.0,0.25,0.5,0.75", "c2,0.0,0.25,0.5,inf"), drop=["cell"])
    with pytest.raises(InputError, match="line 3 has 1502"):
        opened(tmp_path, content.replace("c1,", "", 1))


def test_column_of_nothing_is_one_of_missing_numbers(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,b\n1,\n2,NA\n")
    assert table.layout.numbers == ("a", "b")
    assert np.isnan(table.whole().numbers[:, 1]).all()


def test_dates_are_categories(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,when\n1,2020-01-01\n2,2020-02-01\n")
    assert table.layout.categories == ("when",)
    assert table.whole().categories["when"].tolist() == ["2020-01-01", "2020-02-01"]


def test_all_texts_have_a_header(tmp_path: Path) -> None:
    table = opened(tmp_path, "colour,size\nred,big\nblue,small\n")
    assert (table.layout.categories, table.n_rows) == (("colour", "size"), 2)
    assert opened(tmp_path, "red,big\nblue,small\n", header=False).layout.categories == ("x0", "x1")


def test_unnamed_columns(tmp_path: Path) -> None:
    """The first is an index as pandas writes it, the others are called after their place."""
    table = opened(tmp_path, ",a,,b\nr,1,2,3\ns,4,5,6\n")
    assert (table.layout.id, table.layout.numbers) == ("index", ("a", "unnamed_2", "b"))
    assert table.whole().ids is not None and table.whole().ids.tolist() == ["r", "s"]
    assert opened(tmp_path, ",a,b\nr,1,2\n", id="a").layout.numbers == ("b",)
    assert opened(tmp_path, ",a\n1,2\n", columns=["index", "a"]).layout.numbers == ("index", "a")
    assert opened(tmp_path, ",a\n1,2\n", drop=["index"]).layout.id is None


def test_columns_by_number_where_they_have_no_names(tmp_path: Path) -> None:
    content = "1,2,3\n4,5,6\n"
    assert opened(tmp_path, content, columns=[2, "0"]).layout.numbers == ("x2", "x0")
    assert_array_equal(opened(tmp_path, content, columns=[2, "0"]).whole().numbers, [[3, 1], [6, 4]])
    assert opened(tmp_path, content, drop=[1], label=0).layout.numbers == ("x2",)
    with pytest.raises(InputError, match="no '3'"):
        opened(tmp_path, content, drop=[3])
    with pytest.raises(InputError, match="no '0'"):
        opened(tmp_path, "a,b\n1,2\n", columns=[0])


def test_names_used_twice_matter_only_where_they_are_used(tmp_path: Path) -> None:
    content = "a,b,a\n1,2,3\n"
    assert opened(tmp_path, content, columns=["b"]).layout.numbers == ("b",)
    assert opened(tmp_path, content, drop=["a"]).layout.numbers == ("b",)


def test_roles(tmp_path: Path) -> None:
    content = "name,kind,words,x,y\np,u,a b c,1,2\nq,v,d e,3,4\n"
    rows = opened(tmp_path, content, id="name", label="kind", text="words").whole()
    assert rows.layout.numbers == ("x", "y") and rows.layout.categories == ()
    assert rows.ids is not None and rows.ids.tolist() == ["p", "q"]
    assert rows.labels is not None and rows.labels.tolist() == ["u", "v"]
    assert rows.documents is not None and rows.documents.tolist() == ["a b c", "d e"]
    only = opened(tmp_path, content, text="words", columns=[])
    assert only.layout.numbers == () and only.whole().numbers.shape == (2, 0)


@pytest.mark.parametrize(
    ("entries", "as_id", "as_label"),
    [
        (["1", "2", "3"], np.array([1, 2, 3]), np.array([1, 2, 3])),
        (["007", "8", "9"], ["007", "8", "9"], np.array([7.0, 8, 9])),
        (["1.5", "2", "-3"], ["1.5", "2", "-3"], np.array([1.5, 2, -3])),
        (["9223372036854775807", "1", "2"], np.array([2**63 - 1, 1, 2]), np.array([2**63 - 1, 1, 2])),
        (["9223372036854775808", "1", "2"], ["9223372036854775808", "1", "2"], np.array([2.0**63, 1, 2])),
        (["999999999999999999", "1", "2"], np.array([999999999999999999, 1, 2]), np.array([999999999999999999, 1, 2])),
        (["a", "NA", "-"], ["a", "NA", "-"], ["a", None, "-"]),
        (["+", "-", "+"], ["+", "-", "+"], ["+", "-", "+"]),
        (["1", "", "3"], [1, None, 3], [1, None, 3]),
        (["true", "false", "true"], np.array([True, False, True]), np.array([True, False, True])),
        (["true", "", "true"], [True, None, True], [True, None, True]),
        (["", "", ""], [None] * 3, [None] * 3),
        (["x", "2", "3"], ["x", "2", "3"], ["x", "2", "3"]),
    ],
)
def test_ids_and_labels_keep_what_they_are(entries: list[str], as_id: Any, as_label: Any, tmp_path: Path) -> None:
    content = "who,x\n" + "".join(f"{entry},1\n" for entry in entries)
    ids = opened(tmp_path, content, id="who").whole().ids
    labels = opened(tmp_path, content, label="who").whole().labels
    for found, expected in ((ids, as_id), (labels, as_label)):
        wanted = expected if isinstance(expected, np.ndarray) else np.array(expected, dtype=object)
        assert same(found, wanted), (found, wanted)


def test_whole_numbers_beyond_2_53_are_rounded_as_doubles(tmp_path: Path) -> None:
    table = opened(tmp_path, "a,b\n9007199254740993,1\n18446744073709551615,2\n")
    assert table.whole().numbers[:, 0].tolist() == [9007199254740992.0, 2.0**64]


# --- types of the whole file ------------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(text, "_BYTES_PER_COLUMN", 1)


@pytest.mark.usefixtures("small_blocks")
def test_types_are_those_of_the_whole_file(tmp_path: Path) -> None:
    head = "a,b,c,d\n" + "1,,2,3\n" * 100
    late = opened(tmp_path, head + "x,true,,4\n" * 90 + "y,false,,5\n", encode="onehot")
    assert (late.layout.numbers, late.layout.categories) == (("b", "c", "d"), ("a",))
    assert late.whole().categories["a"].tolist() == ["1"] * 100 + ["x"] * 90 + ["y"]
    assert np.nansum(late.whole().numbers[:, 0]) == 90
    mixed = opened(tmp_path, head + "x,true,,4\n" * 90 + "y,maybe,,5\n")
    assert mixed.layout.categories == ("a", "b")


@pytest.mark.usefixtures("small_blocks")
def test_slips_are_named_unless_they_will_be_encoded(tmp_path: Path) -> None:
    content = "a,b\n" + '1,"two\nlines"\n' * 50 + "\n# note\n1.5x,z\n" + "2,x\n" * 20 + "what,z\n"
    with pytest.raises(InputError, match=r"Column 'a' .* 70 of its entries are; line 104 holds '1.5x' and 1 other"):
        opened(tmp_path, content)
    assert opened(tmp_path, content, encode="onehot").layout.categories == ("a", "b")
    assert opened(tmp_path, content, drop=["a"]).layout.categories == ("b",)
    assert opened(tmp_path, content, label="a").layout.categories == ("b",)


@pytest.mark.usefixtures("small_blocks")
def test_decimal_commas_that_come_late(tmp_path: Path) -> None:
    table = opened(tmp_path, "a;b\n" + "1;2\n" * 3000 + "1,5;2\n" * 5)
    assert table.layout.numbers == ("a", "b")
    assert table.whole().numbers[-1, 0] == 1.5


@pytest.mark.usefixtures("small_blocks")
def test_infinity_counts_only_where_it_is_used(tmp_path: Path) -> None:
    content = "a,b\n" + "1,2\n" * 100 + "inf,3\n"
    with pytest.raises(InputError, match=r"Column 'a' .* line 102 holds inf"):
        opened(tmp_path, content)
    assert opened(tmp_path, content, drop=["a"]).n_rows == 101
    assert opened(tmp_path, content, label="a").n_rows == 101


def test_many_columns(tmp_path: Path) -> None:
    """10^5 of them, with names."""
    names = [f"gene{i}" for i in range(100_000)]
    rows = np.arange(300_000.0).reshape(3, -1) / 8
    content = "\n".join([",".join(names), *(",".join(map(repr, row)) for row in rows.tolist())])
    table = opened(tmp_path, content)
    assert table.layout.numbers == tuple(names)
    assert_array_equal(table.whole().numbers, rows)
    assert opened(tmp_path, content, columns=["gene7", "gene99999"]).whole().numbers.shape == (3, 2)


# --- as rows in chunks ------------------------------------------------------------------------------------------------


def test_kernel_pca_reads_text(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(80, 3))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b,c", fmt="%.17g")
    expected = KernelPCA(2, kernel="rbf", gamma=0.3).fit(X)
    found = KernelPCA(2, kernel="rbf", gamma=0.3).fit(str(tmp_path / "x.csv"))
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-12)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_rows_by_number_come_from_their_blocks(name: str, tmp_path: Path) -> None:
    X = np.arange(900.0).reshape(300, 3)
    content = ("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = kpca.data.sources.as_source(tmp_path / name)
    for wanted in ([0], [299], [5, 250, 17, 17], range(0, 300, 7)):
        assert_array_equal(source.rows(list(wanted)), X[list(wanted)])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b\n1,x\n2,y\n", r"x\.csv' must hold numbers only; column 1 \('b'\)"),
        ("a,b\n" + "1,2\n" * 20 + "1,y\n", r"line 22 holds 'y': correct it or drop the column"),
        ("a,a\n1,2\n", "different names"),
    ],
)
def test_text_that_is_no_matrix(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(InputError, match=says):
        kpca.data.sources.as_source(tmp_path / "x.csv")


# --- where records end ------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from('a",\n'), min_size=1, max_size=40), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_blocks_are_whole_records(tmp_path_factory: pytest.TempPathFactory, content: str, size: int) -> None:
    """However the file is cut, its blocks together are the file, and their records those of the whole."""
    path = tmp_path_factory.mktemp("blocks") / "x.csv"
    path.write_text(content, newline="")
    try:
        blocks = list(lines.TextFile(str(path)).blocks(",", size))
    except InputError as error:
        assert "is not closed" in str(error)
        return
    assert b"".join(block.data for block in blocks) == content.encode()
    apart = [(line, fields) for block in blocks for line, _, fields in records(block.data.decode(), ",", block.line)]
    assert apart == [(line, fields) for line, _, fields in records(content, ",")]


def test_ragged_row_is_counted_in_entries(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputError, match=r"must have 2 entries a row; line 3 has 1 \('3'\)"):
        open_table(tmp_path / "x.csv")
