"""A corpus of broken, odd and hostile files: each function writes one into a folder and returns its path.

`BROKEN` maps the name of a case to (how to build it, what the message must say, options of open_table).
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import zarr
from scipy import sparse

Build = Callable[[Path], Path]
BROKEN: dict[str, tuple[Build, str, dict[str, Any]]] = {}
ROWS = np.arange(60.0).reshape(20, 3) / 7


def broken(says: str, **options: Any) -> Callable[[Build], Build]:
    """Add a function to the corpus under its own name."""

    def add(build: Build) -> Build:
        BROKEN[build.__name__] = (build, says, options)
        return build

    return add


def text(name: str, content: bytes | str, says: str, file: str = "x.csv", **options: Any) -> None:
    """Add a file of this content to the corpus."""

    def build(folder: Path) -> Path:
        path = folder / file
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    BROKEN[name] = (build, says, options)


# --- text tables ------------------------------------------------------------------------------------------------------

NUMBERS = "a,b,c\n" + "".join(f"{i},{i / 4},{i * 2}\n" for i in range(200))

text("empty_file", b"", "empty file")
text("only_a_mark", b"\xef\xbb\xbf", "it is empty")
text("only_blanks", b"  \n \t\n\n   ", "it is empty")
text("only_comments", b"# one\n# two\n", "it is empty")
text("header_only", b"a,b,c\n", "header and nothing below")
text("header_without_line_end", b"a,b,c", "header and nothing below")
text("latin_1", "name,x\nM\u00fcller,1\nMeier,2\n".encode("latin-1"), "line 2 .* UTF-8")
text("windows_1252_far_down", NUMBERS.encode() + "1,2,\u20ac\n".encode("cp1252"), "line 202 .* UTF-8")
text("shift_jis", "\u540d\u524d,x\n\u592a\u90ce,1\n".encode("shift-jis"), "line 1 .* UTF-8")
text("utf_16_without_mark", "a,b\n1,2\n".encode("utf-16-le"), "line 1 has a NUL byte")
text("utf_16_cut_in_a_letter", "a,b\n1,2\n".encode("utf-16")[:-1], "UTF-16")
text("utf_16_lone_surrogate", b"\xff\xfe" + b"a\0,\0b\0\n\0" + b"\x00\xd8" + b"1\0,\x002\0\n\0", "UTF-16")
text("nul_bytes", NUMBERS.encode() + b"1,\0,3\n", "line 202 has a NUL byte")
text("overlong_utf_8", b"a,b\n1,\xc0\xaf\n", "line 2 .* 0xc0")
text("row_too_short", "a,b,c\n1,2,3\n4,5\n7,8,9\n", "line 3 has 2")
text("row_too_long", "a,b,c\n1,2,3\n4,5,6,7\n", "line 3 has 4")
text("rows_longer_than_header", "a,b\n" + "1,2,3\n" * 5, "line 2 has 3")
text("ragged_far_down", NUMBERS + "1,2\n", "line 202 has 2")
text("ragged_after_quoted_line_breaks", 'a,b\n1,"x\ny\nz"\n\n2,y\n3\n', "line 7 has 1")
text("unclosed_quote", 'a,b\n1,2\n3,"4\n5,6\n', "line 3 is not closed")
text("unclosed_quote_at_the_end", 'a,b\n1,2\n3,"', "line 3 is not closed")
text("quote_that_swallows_the_file", 'a,b\n1,"' + "2\n3,4\n" * 50_000, "line 2 is not closed")
text("duplicate_columns", "a,b,a\n1,2,3\n", "'a' is the name of columns 1, 3")
text("duplicate_columns_of_blanks", "a, a \n1,2\n", "'a' is the name of columns 1, 2")
text("text_early", NUMBERS.replace("3,0.75,6", "3,oops,6"), "Column 'b' .* line 5 holds 'oops'")
text("text_late", NUMBERS + "1,2,late\n", "Column 'c' .* line 202 holds 'late'")
text("text_after_the_first_block", NUMBERS + "1,2,3\n" * 800_000 + "1,far,3\n", "Column 'b' .* line 800202 holds 'far'")
text("thousands_separators", "a,b\n" + "1,2\n" * 30 + '"1,234",5\n', "line 32 holds '1,234'")
text("units", "a,b\n" + "1,2\n" * 30 + "5 kg,1\n", "line 32 holds '5 kg'")
text("hexadecimal", "a,b\n" + "1,2\n" * 30 + "0x10,1\n", "line 32 holds '0x10'")
text("truth_value_among_numbers", "a,b\n" + "1,2\n" * 30 + "true,1\n", "line 32 holds 'true'")
text("control_characters", "a,b\n" + "1,2\n" * 30 + "\x1b[31mred\x07,1\n", "line 32 holds .*red")
text("name_with_line_break", '"a\nb\x1b[2J",c\n1,2\n3,inf\n', "Column 'c'")
text("control_characters_in_a_name", '"a\x1b[2J",c\ninf,2\n3,1\n', "line 2 holds inf")
text("numbers_between_blanks", "1.0   2.5 3\n4 5  6\n", "line 2 separates 3 numbers by blanks")
text("numbers_between_blanks_below_names", "a b\n1.0 2.5\n4 5e-3\n", "line 2 separates 2 numbers by blanks")
text("infinity", "a,b\n1,2\n3,inf\n", "Column 'b' .* line 3 holds inf")
text("minus_infinity_far_down", NUMBERS + "1,2,-Infinity\n", "Column 'c' .* line 202 holds -inf")
text("overflow", "a,b\n1,2\n1e999,3\n", "Column 'a' .* line 3 holds inf")
text("unknown_column", NUMBERS, "did you mean 'b'", columns=["a", "B"])
text("unknown_label", NUMBERS, "it has no 'target': it has 'a', 'b', 'c'", label="target")
text("two_roles", NUMBERS, "'a' is the label and the id", label="a", id="a")
text("column_that_is_dropped", NUMBERS, "'a' is among the columns and dropped", columns=["a"], drop=["a"])
text("nothing_left", NUMBERS, "left to analyse", drop=["a", "b", "c"])
text("only_ids", "id\n1\n2\n", "left to analyse", id="id")
text("parquet_called_csv", b"PAR1" + bytes(100), "it is a Parquet file")
text("zip_called_csv", b"PK\x03\x04" + bytes(100), "it is a ZIP archive")
text("pickle_called_csv", pickle.dumps([1, 2, 3]), "it is a pickle")
text("png_called_csv", b"\x89PNG\r\n\x1a\n" + bytes(100), "it is a picture")
text("csv_called_parquet", NUMBERS, "first bytes are not", file="x.parquet")
text("csv_called_npy", NUMBERS, "first bytes are not", file="x.npy")
text("csv_called_npz", NUMBERS, "first bytes are not", file="x.npz")
text("csv_called_feather", NUMBERS, "first bytes are not", file="x.feather")
text("excel", b"PK\x03\x04" + bytes(100), "CSV", file="x.xlsx")
text("a_pickle", pickle.dumps([1, 2, 3]), "never read", file="x.pkl")
text("no_suffix", NUMBERS, "must end in", file="x")
text("unknown_suffix", NUMBERS, "must end in", file="x.dat7")
text("header_for_numpy", b"\x93NUMPY" + bytes(40), "header is for csv and tsv", file="x.npy", header=True)
text("gz_of_nothing_more", b"\x1f\x8b", "gzip", file="x.csv.gz")
text("gz_cut_short", gzip.compress(NUMBERS.encode() * 50)[:-30], "gzip", file="x.csv.gz")
text("gz_wrong_checksum", gzip.compress(NUMBERS.encode())[:-8] + bytes(8), "gzip", file="x.csv.gz")
text("gz_with_rubbish_inside", gzip.compress(NUMBERS.encode())[:40] + b"\xff" * 200, "gzip", file="x.csv.gz")
text("numpy_in_gz", gzip.compress(b"\x93NUMPY"), "unpack", file="x.npy.gz")


@broken("lines of at most 32 MiB")
def one_gigantic_line(folder: Path) -> Path:
    with open(folder / "x.csv", "wb") as file:
        file.write(b"a,b\n1,")
        file.truncate(1 << 33)  # a hole: 8 GiB of NUL bytes that take no room
        file.seek(6)
        file.write(b"7" * (40 << 20))
    return folder / "x.csv"


@broken("lines of at most 32 MiB; line 2")
def gz_bomb(folder: Path) -> Path:
    member = gzip.compress(b"1" * (8 << 20), 1)
    (folder / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n") + member * 1000)
    return folder / "x.csv.gz"


@broken("must be a file or folder")
def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "x.csv")
    return folder / "x.csv"


@broken("pipe or a device", format="csv")
def null_device(folder: Path) -> Path:
    (folder / "x.csv").symlink_to("/dev/null")
    return folder / "x.csv"


@broken("pipe or a device", format="csv")
def endless_device(folder: Path) -> Path:
    (folder / "x.csv").symlink_to("/dev/zero")
    return folder / "x.csv"


@broken("it is a folder")
def folder_called_csv(folder: Path) -> Path:
    (folder / "x.csv").mkdir()
    return folder / "x.csv"


@broken("it is empty")
def empty_folder(folder: Path) -> Path:
    (folder / "x").mkdir()
    return folder / "x"


@broken("a link to a file that is gone")
def dangling_link(folder: Path) -> Path:
    (folder / "x.csv").symlink_to(folder / "gone.csv")
    return folder / "x.csv"


@broken("the system says")
def link_to_itself(folder: Path) -> Path:
    (folder / "x.csv").symlink_to(folder / "x.csv")
    return folder / "x.csv"


@broken("File not found")
def no_file(folder: Path) -> Path:
    return folder / "x.csv"


@broken("the system says")
def name_too_long(folder: Path) -> Path:
    return folder / ("x" * 5000 + ".csv")


@broken("the system says")
def path_through_a_file(folder: Path) -> Path:
    (folder / "x.csv").write_text(NUMBERS)
    return folder / "x.csv" / "y.csv"


# --- NumPy ------------------------------------------------------------------------------------------------------------


def npy(name: str, rows: Any, says: str, **options: Any) -> None:
    def build(folder: Path) -> Path:
        np.save(folder / "x.npy", rows, allow_pickle=True)
        return folder / "x.npy"

    BROKEN[name] = (build, says, options)


class Explosive:
    """What would run code if it were unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


npy("npy_complex", ROWS + 1j, "real numbers")
npy("npy_texts", np.array([["a", "b"]]), "numbers only")
npy("npy_dates", np.array([["2020-01-01"]], dtype="datetime64[D]"), "numbers only")
npy("npy_structured", np.zeros(3, dtype=[("a", float), ("b", int)]), "has fields")
npy("npy_0_d", np.array(3.0), "2-D")
npy("npy_1_d", np.arange(4.0), "2-D")
npy("npy_3_d", np.zeros((2, 3, 4)), "2-D")
npy("npy_no_rows", np.zeros((0, 3)), "at least one row")
npy("npy_no_columns", np.zeros((3, 0)), "at least one row")
npy("npy_pickle", np.array([[Explosive()]], dtype=object), "Python objects")
npy("npy_infinity", np.array([[1.0, 2.0], [3.0, np.inf]]), "row 1 .* of column 'x1'")
npy("npy_unknown_column", ROWS, "it has no 'x3'", columns=["x3"])
npy("npy_text_role", ROWS, "texts", text="x1")
npy("npy_array_role", ROWS, "leave it out", array="X")


def npy_header(shape: str, descr: str = "'<f8'", data: bytes = bytes(64)) -> bytes:
    body = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    body += b" " * (-(len(body) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body + data


text("npy_negative_shape", npy_header("(-1, 3)"), "cannot be read", file="x.npy")
text("npy_huge_shape", npy_header("(1000000000000, 1000000)"), "cannot be read", file="x.npy")
text("npy_overflowing_shape", npy_header(f"({2**62}, {2**62})"), "cannot be read", file="x.npy")
text("npy_shape_of_text", npy_header("'many'"), "cannot be read", file="x.npy")
text("npy_code_in_header", npy_header("(__import__('os').mkdir('exploded'), 3)"), "cannot be read", file="x.npy")
text("npy_unknown_type", npy_header("(2, 3)", "'<q77'"), "cannot be read", file="x.npy")
text("npy_object_type", npy_header("(2, 3)", "'|O'", pickle.dumps(Explosive())), "Python objects", file="x.npy")
text("npy_cut_in_header", npy_header("(2, 3)")[:20], "cannot be read", file="x.npy")
text("npy_cut_in_rows", npy_header("(2, 30)"), "cannot be read", file="x.npy")
text("npy_version_9", b"\x93NUMPY\x09\x00" + npy_header("(2, 3)")[8:], "cannot be read", file="x.npy")
text("npy_endless_header", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"(" * 100, "cannot be read", file="x.npy")


def npz(name: str, says: str, arrays: dict[str, Any], **options: Any) -> None:
    def build(folder: Path) -> Path:
        np.savez(folder / "x.npz", **arrays)
        return folder / "x.npz"

    BROKEN[name] = (build, says, options)


CSR = sparse.csr_array(np.where(ROWS > 4, ROWS, 0))
PARTS = {
    "format": np.array(b"csr"),
    "shape": np.array(CSR.shape),
    "data": CSR.data,
    "indices": CSR.indices,
    "indptr": CSR.indptr,
}
npz("npz_pickle", "Python objects", {"X": np.array([[Explosive()]], dtype=object)})
npz("npz_pickled_label", "Python objects", {"X": ROWS, "y": np.array([Explosive()] * 20)}, label="y")
npz("npz_two_matrices", "name one by .*array=", {"a": ROWS, "b": ROWS})
npz("npz_no_matrix", "name one by .*array=", {"a": ROWS[0], "b": ROWS[1]})
npz("npz_unknown_array", "it has no 'c'", {"a": ROWS, "b": ROWS}, array="c")
npz("npz_label_of_other_length", "it has no 'y'", {"X": ROWS, "y": np.arange(19)}, label="y")
npz("npz_complex_label", "numbers, texts or dates", {"X": ROWS, "y": np.zeros(20, complex)}, label="y")
npz("npz_one_vector", "2-D", {"X": ROWS[0]})
npz("sparse_indices_out_of_range", "cannot be read", {**PARTS, "indices": CSR.indices + 1000})
npz("sparse_indices_negative", "cannot be read", {**PARTS, "indices": CSR.indices - 2})
npz("sparse_indptr_falls", "cannot be read", {**PARTS, "indptr": CSR.indptr[::-1].copy()})
npz("sparse_indptr_too_short", "cannot be read", {**PARTS, "indptr": CSR.indptr[:-3]})
npz("sparse_indptr_too_far", "cannot be read", {**PARTS, "indptr": CSR.indptr * 50})
npz("sparse_indices_of_floats", "cannot be read", {**PARTS, "indices": CSR.indices + 0.5})
npz("sparse_huge_shape", "cannot be read", {**PARTS, "shape": np.array([10**15, 3])})
npz("sparse_negative_shape", "cannot be read", {**PARTS, "shape": np.array([-20, 3])})
npz("sparse_many_columns", "columns", {**PARTS, "shape": np.array([20, 10**15])})
npz("sparse_huge_csc", "cannot be read", {**PARTS, "format": np.array(b"csc"), "shape": np.array([10**14, 20])})
npz("sparse_without_data", "data is not a file in the archive", {k: v for k, v in PARTS.items() if k != "data"})
npz("sparse_of_unknown_format", "Unknown format", {**PARTS, "format": np.array(b"xyz")})
npz(
    "sparse_infinity",
    "row 19 .* of column 'x2'",
    {**PARTS, "data": np.where(CSR.data == CSR.data.max(), np.inf, CSR.data)},
)
npz("sparse_complex", "real numbers", {**PARTS, "data": CSR.data * 1j})
npz("sparse_texts", "cannot be read|numbers only", {**PARTS, "data": CSR.data.astype(str)})
COO = {"format": np.array(b"coo"), "shape": np.array([20, 3]), "data": np.ones(2), "row": np.array([0, 25])}
npz("sparse_coo_out_of_range", "cannot be read .*exceeds", {**COO, "col": np.array([0, 1])})


def zipped(members: dict[str, bytes], folder: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(folder / "x.npz", "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return folder / "x.npz"


@broken("memory allowed")
def zip_bomb(folder: Path) -> Path:
    """400 kB that unpack to 400 MB, honestly declared."""
    with (
        zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        member.write(npy_header("(500, 100000)", data=b""))
        for _ in range(400):
            member.write(bytes(1_000_000))
    return folder / "x.npz"


@broken("cannot be read")
def zip_bomb_that_lies(folder: Path) -> Path:
    """A member whose header says 8 TB, and which holds next to nothing."""
    return zipped({"X.npy": npy_header("(1000000, 1000000)")}, folder)


@broken("memory allowed|cannot be read")
def zip_bomb_with_a_false_directory(folder: Path) -> Path:
    """The directory of the archive says 8 TB too."""
    member = npy_header("(1000000, 1000000)")
    path = zipped({"X.npy": member}, folder)
    content = path.read_bytes().replace(struct.pack("<I", len(member)), struct.pack("<I", 0xFFFFFFF0))
    path.write_bytes(content)
    return path


@broken("it holds none")
def npz_without_arrays(folder: Path) -> Path:
    return zipped({"readme.txt": b"nothing here"}, folder)


@broken("cannot be read")
def npz_with_rubbish_inside(folder: Path) -> Path:
    return zipped({"X.npy": b"this is no array" * 10}, folder)


@broken("cannot be read")
def npz_cut_short(folder: Path) -> Path:
    np.savez(folder / "x.npz", X=ROWS)
    os.truncate(folder / "x.npz", 300)
    return folder / "x.npz"


@broken("cannot be read")
def npz_wrong_checksum(folder: Path) -> Path:
    np.savez(folder / "x.npz", X=ROWS)
    content = bytearray((folder / "x.npz").read_bytes())
    content[250] ^= 0xFF
    (folder / "x.npz").write_bytes(content)
    return folder / "x.npz"


@broken("cannot be read")
def npz_broken_stream(folder: Path) -> Path:
    np.savez_compressed(folder / "x.npz", X=np.random.default_rng(0).normal(size=(200, 3)))
    content = bytearray((folder / "x.npz").read_bytes())
    content[1000:1100] = bytes(100)
    (folder / "x.npz").write_bytes(content)
    return folder / "x.npz"


@broken("cannot be read")
def npz_encrypted(folder: Path) -> Path:
    path = zipped({"X.npy": npy_header("(2, 3)")}, folder)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    return path


# --- Parquet and Arrow ------------------------------------------------------------------------------------------------


def arrow(name: str, says: str, columns: dict[str, Any], file: str = "x.parquet", **options: Any) -> None:
    def build(folder: Path) -> Path:
        table = pa.table(columns)
        if file.endswith("parquet"):
            pa.parquet.write_table(table, folder / file)
        else:
            with pa.ipc.new_file(folder / file, table.schema) as writer:
                writer.write_table(table)
        return folder / file

    BROKEN[name] = (build, says, options)


for FILE, WORD in (("x.parquet", "parquet"), ("x.feather", "feather")):
    arrow(f"{WORD}_lists", "type 'list<", {"a": [1.0], "b": [[1.0, 2.0]]}, FILE)
    arrow(f"{WORD}_structs", "type 'struct<", {"a": [1.0], "b": [{"c": 1}]}, FILE)
    arrow(f"{WORD}_binary", "type 'binary'", {"a": [1.0], "b": [b"x"]}, FILE)
    arrow(f"{WORD}_no_rows", "at least one row", {"a": pa.array([], pa.float64())}, FILE)
    arrow(f"{WORD}_infinity", "row 2 .* of column 'b'", {"a": [1.0, 2, 3], "b": [1.0, 2, -np.inf]}, FILE)
    arrow(f"{WORD}_unknown_column", "did you mean 'alpha'", {"alpha": [1.0], "b": [2.0]}, FILE, drop=["alpa"])
    arrow(f"{WORD}_list_as_id", "of type", {"a": [1.0], "b": [[1.0, 2.0]]}, FILE, id="b")


@broken("at least one column")
def feather_no_columns(folder: Path) -> Path:
    with pa.ipc.new_file(folder / "x.feather", pa.schema([])):
        pass
    return folder / "x.feather"


@broken("'a' is the name of columns 1, 2")
def feather_duplicate_columns(folder: Path) -> Path:
    schema = pa.schema([("a", pa.float64()), ("a", pa.float64())])
    with pa.ipc.new_file(folder / "x.feather", schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([1.0]), pa.array([2.0])], schema=schema))
    return folder / "x.feather"


def truncated(name: str, file: str, keep: float, says: str) -> None:
    def build(folder: Path) -> Path:
        table = pa.table({"a": np.arange(1000.0), "b": [str(i) for i in range(1000)]})
        if file.endswith("parquet"):
            pa.parquet.write_table(table, folder / file)
        elif file.endswith("arrow"):
            with pa.ipc.new_stream(folder / file, table.schema) as writer:
                writer.write_table(table)
        else:
            pa.feather.write_feather(table, folder / file)
        os.truncate(folder / file, int((folder / file).stat().st_size * keep))
        return folder / file

    BROKEN[name] = (build, says, {})


truncated("parquet_cut_short", "x.parquet", 0.9, "Parquet file")
truncated("parquet_cut_to_its_mark", "x.parquet", 0.001, "Parquet file|first bytes")
truncated("feather_cut_short", "x.feather", 0.9, "Arrow or Feather")
truncated("feather_cut_in_half", "x.feather", 0.5, "Arrow or Feather")
truncated("stream_cut_short", "x.arrow", 0.5, "Arrow or Feather")


@broken("Parquet file")
def parquet_damaged_rows(folder: Path) -> Path:
    pa.parquet.write_table(pa.table({"a": np.random.default_rng(0).normal(size=1000)}), folder / "x.parquet")
    content = bytearray((folder / "x.parquet").read_bytes())
    content[4:400] = bytes(396)
    (folder / "x.parquet").write_bytes(content)
    return folder / "x.parquet"


@broken("Parquet file")
def parquet_damaged_footer(folder: Path) -> Path:
    pa.parquet.write_table(pa.table({"a": np.arange(100.0)}), folder / "x.parquet")
    content = bytearray((folder / "x.parquet").read_bytes())
    content[-100:-10] = b"\xff" * 90
    (folder / "x.parquet").write_bytes(content)
    return folder / "x.parquet"


@broken("differs from")
def parquet_folder_of_two_kinds(folder: Path) -> Path:
    (folder / "x").mkdir()
    pa.parquet.write_table(pa.table({"a": [1.0]}), folder / "x" / "1.parquet")
    pa.parquet.write_table(pa.table({"b": [1.0]}), folder / "x" / "2.parquet")
    return folder / "x"


@broken("differs from")
def parquet_folder_of_two_types(folder: Path) -> Path:
    (folder / "x").mkdir()
    pa.parquet.write_table(pa.table({"a": [1.0]}), folder / "x" / "1.parquet")
    pa.parquet.write_table(pa.table({"a": ["x"]}), folder / "x" / "2.parquet")
    return folder / "x"


text("feather_version_1", b"FEA1" + bytes(100), "version 1", file="x.feather")
text("arrow_stream_of_rubbish", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(64), "Arrow or Feather", file="x.arrow")


# --- Zarr -------------------------------------------------------------------------------------------------------------


def saved_zarr(folder: Path, **changes: Any) -> Path:
    """A Zarr array whose metadata are then changed."""
    zarr.create_array(folder / "x.zarr", data=ROWS, chunks=(5, 3))
    about = folder / "x.zarr" / "zarr.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | changes))
    return folder / "x.zarr"


def zarr_case(name: str, says: str, **changes: Any) -> None:
    BROKEN[name] = (lambda folder: saved_zarr(folder, **changes), says, {})


def grid(*shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


zarr_case("zarr_huge_shape", "which is too much", shape=[10**14, 10**6])
zarr_case("zarr_huge_chunks", "which is too much", shape=[10**7, 10**4], chunk_grid=grid(10**7, 10**4))
zarr_case("zarr_negative_shape", "Zarr array", shape=[-4, 3])
zarr_case("zarr_texts_for_shape", "Zarr array", shape="many")
zarr_case("zarr_unknown_type", "Zarr array", data_type="quaternion")
zarr_case("zarr_unknown_codec", "Zarr array|must be readable", codecs=[{"name": "magic"}])
zarr_case("zarr_other_chunks", "must be readable", chunk_grid=grid(7, 3))
zarr_case("zarr_3_d", "2-D|name one", shape=[20, 3, 1], chunk_grid=grid(5, 3, 1))


@broken("Rows 5 to 9|Rows 0 to 19")
def zarr_broken_chunk(folder: Path) -> Path:
    path = saved_zarr(folder)
    (path / "c" / "1" / "0").write_bytes(b"not what it was")
    return path


@broken("Zarr array")
def zarr_without_metadata(folder: Path) -> Path:
    path = saved_zarr(folder)
    (path / "zarr.json").unlink()
    return path


@broken("Zarr array")
def zarr_damaged_metadata(folder: Path) -> Path:
    path = saved_zarr(folder)
    (path / "zarr.json").write_text('{"zarr_format": 3, ')
    return path


@broken("it is a file")
def zarr_that_is_a_file(folder: Path) -> Path:
    (folder / "x.zarr").write_text("no folder")
    return folder / "x.zarr"


@broken("name one by .*array=")
def zarr_of_two_matrices(folder: Path) -> Path:
    group = zarr.open_group(folder / "x.zarr", mode="w")
    group.create_array("a", data=ROWS)
    group.create_array("b", data=ROWS)
    return folder / "x.zarr"


@broken("it holds none")
def zarr_empty_group(folder: Path) -> Path:
    zarr.open_group(folder / "x.zarr", mode="w")
    return folder / "x.zarr"


@broken("numbers only")
def zarr_texts(folder: Path) -> Path:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(folder / "x.zarr", data=np.array([["a", "b"], ["c", "d"]]))
    return folder / "x.zarr"
