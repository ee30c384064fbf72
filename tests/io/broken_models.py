"""Broken and hostile model files: each is one row of a table, with a word that its message must have."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, KernelPCA, KernelPCADetector, Nystroem, RandomFeatures
from kpca._base.container import write_container
from kpca.io.models import save

MAGIC = b"\x93kpca\r\n\x1a"
X = np.random.default_rng(0).normal(size=(30, 3))
Header = dict[str, Any]
Arrays = dict[str, Any]
Change = Callable[[Header, Arrays], Any]


def models() -> dict[str, Any]:
    """The models that are broken here."""
    return {
        "exact": KernelPCA(2, kernel="rbf", gamma=0.3, preimage="auto").fit(X),
        "ard": KernelPCA(2, kernel="rbf", gamma=[0.1, 0.2, 0.3]).fit(X),
        "linear": KernelPCA(2).fit(X),
        "landmarks": KernelPCA(2, kernel="rbf", approximation=Nystroem(8)).fit(X),
        "random": KernelPCA(2, kernel="rbf", approximation=RandomFeatures(9)).fit(X),
        "stream": IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(8), preimage="ridge").fit(X),
        "detector": KernelPCADetector(lags=1, n_components=3).fit(X),
        "pipeline": make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf")).fit(X),
        "sparse": KernelPCA(2, kernel="rbf").fit(_csr()),
        "unfitted": KernelPCA(2, kernel="rbf"),
    }


def _csr() -> Any:
    from scipy import sparse

    return sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))


# -- taking files apart and putting them together, by other code than the one that is tested --------------------------


def parts(content: bytes) -> tuple[Header, Arrays]:
    """The header and the arrays of a file."""
    (length,) = struct.unpack("<Q", content[8:16])
    header = json.loads(content[16 : 16 + length])
    start, arrays = 16 + length, {}
    for entry in header.pop("arrays"):
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=int))
        flat = np.frombuffer(content[start : start + size], dtype=dtype)
        arrays[entry["name"]] = flat.reshape(shape, order=entry["order"])
        start += size
    return header, arrays


def sealed(text: bytes, rest: bytes = b"", length: int | None = None) -> bytes:
    """A file of a header and bytes, with the checksum that belongs to it."""
    body = MAGIC + struct.pack("<Q", len(text) if length is None else length) + text + rest
    return body + hashlib.sha256(body).digest()


def joined(header: Header, arrays: Arrays, table: list[Any] | None = None) -> bytes:
    """A file of a header and arrays, with the checksum that belongs to it."""
    table = [entry(name, array) for name, array in arrays.items()] if table is None else table
    text = json.dumps({**header, "arrays": table}).encode()
    return sealed(text, b"".join(array.tobytes(order=order(array)) for array in arrays.values()))


def order(array: Any) -> Any:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def entry(name: str, array: Any) -> dict[str, Any]:
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "order": order(array)}


def node(header: Header, tag: str) -> dict[str, Any]:
    """The fields of the first object of a class."""
    found: dict[str, Any] = next(each["has"] for each in header["objects"] if each["is"].endswith(f":{tag}"))
    return found


# -- the table --------------------------------------------------------------------------------------------------------

# name -> (which model, change of its header and arrays, part of the message)
CHANGES: dict[str, tuple[str, Change, str]] = {}
# name -> (content of the file from that of a good one, part of the message)
CONTENTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {}
# name -> (what is put in the place of the file, part of the message)
PLACES: dict[str, tuple[Callable[[Path], Any], str]] = {}


def change(
    name: str, model: str = "exact", says: str = "must hold a model whose parts fit"
) -> Callable[[Change], Change]:
    def noted(work: Change) -> Change:
        CHANGES[name] = (model, work, says)
        return work

    return noted


def _set(tag: str, field: str, value: Any) -> Change:
    def work(header: Header, arrays: Arrays) -> None:
        node(header, tag)[field] = value

    return work


def _array(tag: str, field: str, make: Callable[[Any], Any]) -> Change:
    """Put another array in the place of one."""

    def work(header: Header, arrays: Arrays) -> None:
        name = str(len(arrays))
        fields = node(header, tag)
        old = fields[field]["array"]
        arrays[name] = make(arrays[old])
        fields[field] = {"array": name}
        if f'"array": "{old}"' not in json.dumps(header["objects"]):  # nothing else refers to it
            del arrays[old]

    return work


def _with_nan(array: Any) -> Any:
    array = array.copy()
    array.flat[0] = np.nan
    return array


FIT = "must hold a model whose parts fit"
for _tag, _model, _fields in (
    ("KernelPCA", "exact", ["eigenvalues_", "eigenvectors_", "explained_variance_", "residuals_", "X_fit_"]),
    ("KernelProjection", "exact", ["coefficients", "offset", "X"]),
    ("Centre", "exact", ["coefficients", "levels"]),
    ("Expansion", "exact", ["rows", "directions", "scores", "diagonal"]),
    ("Base", "exact", ["rows", "mean", "scale"]),
    ("RidgeMap", "exact", ["scores", "dual_coef"]),
    ("Trial", "exact", ["shares", "gaps"]),
    ("_Known", "exact", ["index", "rows", "norms"]),
    ("LinearProjection", "linear", ["components", "mean"]),
    ("NystroemMap", "landmarks", ["_points", "_whitening", "kept"]),
    ("FeatureProjection", "random", ["directions", "mean"]),
    ("DenseProjection", "random", ["weights", "origin"]),
    ("RandomMap", "random", ["origin"]),
    ("Scatter", "stream", ["mean", "matrix"]),
    ("Reservoir", "stream", ["rows", "keys"]),
    ("Measure", "detector", ["variances"]),
    ("Calibration", "detector", ["weights"]),
    ("KernelPCADetector", "detector", ["centre_", "_past", "_normal"]),
    ("StandardScaler", "pipeline", ["mean_", "scale_"]),
):
    for _field in _fields:
        CHANGES[f"{_tag}.{_field} too long"] = (
            _model,
            _array(_tag, _field, lambda array: np.concatenate([array, array], axis=array.ndim - 1)),
            FIT,
        )
for _tag, _field in (
    ("KernelPCA", "eigenvalues_"),
    ("KernelPCA", "eigenvectors_"),
    ("KernelPCA", "X_fit_"),
    ("KernelProjection", "coefficients"),
    ("Expansion", "levels"),
):
    CHANGES[f"{_tag}.{_field} with NaN"] = ("exact", _array(_tag, _field, _with_nan), "NaN")
    CHANGES[f"{_tag}.{_field} of whole numbers"] = (
        "exact",
        _array(_tag, _field, lambda array: array.astype(np.int64)),
        "array of int64",
    )
    CHANGES[f"{_tag}.{_field} complex"] = (
        "exact",
        _array(_tag, _field, lambda array: array.astype(complex)),
        "array of complex",
    )
    CHANGES[f"{_tag}.{_field} scalar"] = ("exact", _array(_tag, _field, lambda array: np.array(1.0)), FIT)
    CHANGES[f"{_tag}.{_field} empty"] = (
        "exact",
        _array(_tag, _field, lambda array: array[:0] if array.ndim == 2 else np.empty((0, 0))),
        FIT,
    )

for _name, _value in {
    "negative": -1.0,
    "zero": 0.0,
    "infinite": {"number": "inf"},
    "NaN": {"number": "nan"},
    "text": "1.0",
    "missing": None,
    "true": True,
    "list": {"list": [1.0]},
    "two": {"tuple": [1.0, 1.0]},
    "huge": 10**400,
    "raw list": [0.1, 0.2, 0.3],
    "unknown kind": {"eval": "1"},
    "two kinds": {"tuple": [], "list": []},
    "object": {"node": 10**6},
    "negative object": {"node": -1},
    "itself": {"node": 0},
    "no object": {"node": "0"},
    "true object": {"node": True},
    "no array": {"array": "999"},
    "numbered array": {"array": 0},
}.items():
    CHANGES[f"gamma {_name}"] = ("exact", _set("RBF", "gamma", _value), FIT)
CHANGES["gamma per feature of another number"] = ("ard", _set("RBF", "gamma", {"tuple": [0.1, 0.2]}), "where")
CHANGES["eigenvalues that grow"] = ("exact", _array("KernelPCA", "eigenvalues_", lambda a: a[::-1].copy()), "grow")
CHANGES["eigenvalues below 0"] = ("exact", _array("KernelPCA", "eigenvalues_", lambda a: -a[::-1]), "below 0")
CHANGES["weights below 0"] = ("detector", _array("Calibration", "weights", lambda a: -a), "below 0")
CHANGES["another number of columns"] = ("exact", _set("KernelPCA", "n_features_in_", 4), "where")
CHANGES["another number of components"] = ("exact", _set("KernelPCA", "n_components_", 3), "where")
CHANGES["components as a text"] = ("exact", _set("KernelPCA", "n_components_", "2"), "whole number")
CHANGES["threads as a text"] = ("exact", _set("KernelPCA", "n_jobs", "all"), FIT)
CHANGES["a text to obey"] = ("exact", _set("KernelPCA", "solver_", "\x1b[2Jdense"), "printed")
CHANGES["a kernel that is none"] = ("exact", _set("KernelProjection", "kernel", {"node": 0, "has": {}}), FIT)
CHANGES["lags of another number"] = (
    "detector",
    _set("KernelPCADetector", "_fitted_with", {"dict": [["lags", 2], ["statistic", "combined"]]}),
    "centre",
)
CHANGES["lags as a text"] = (
    "detector",
    _set("KernelPCADetector", "_fitted_with", {"dict": [["lags", "1"], ["statistic", "combined"]]}),
    FIT,
)
CHANGES["a key twice"] = (
    "detector",
    _set("KernelPCADetector", "_fitted_with", {"dict": [["lags", 1], ["lags", 1]]}),
    "twice",
)
CHANGES["more features than there are"] = ("random", _set("RandomMap", "rank", 10**9), FIT)
CHANGES["steps without names"] = ("pipeline", _set("Pipeline", "steps", {"list": []}), FIT)
CHANGES["a function in a pipeline"] = ("pipeline", _set("Pipeline", "memory", "cache"), FIT)
CHANGES["a neighbour too many"] = ("exact", _set("DistanceWay", "neighbours", 1000), "neighbours")

for _name in (
    "__class__",
    "__init__",
    "__dict__",
    "__reduce__",
    "transform",
    "fit",
    "_bands",
    "x",
    "",
    "\x1b[2J",
    "a" * 9999,
):
    CHANGES[f"field {ascii(_name)[:20]}"] = ("exact", _set("KernelPCA", _name, 1), "has no")
    CHANGES[f"kernel field {ascii(_name)[:20]}"] = ("exact", _set("RBF", _name, 1), "has no")
for _name in (
    "os:system",
    "builtins:eval",
    "builtins:exec",
    "subprocess:Popen",
    "numpy:load",
    "pickle:loads",
    "sklearn.ensemble:RandomForestClassifier",
    "kpca.kernels:VectorisedCallable",
    "KernelPCA",
    "",
    "\x1b]0;x\x07",
    "x" * 100_000,
    None,
    7,
    ["kpca:KernelPCA"],
):

    def _class(header: Header, arrays: Arrays, _name: Any = _name) -> None:
        header["objects"][0]["is"] = _name

    CHANGES[f"class {ascii(_name)[:40]}"] = ("exact", _class, "there is no class")


@change("a field is missing", says="lacks")
def _missing_field(header: Header, arrays: Arrays) -> None:
    del node(header, "KernelProjection")["shifted"]


@change("a fitted attribute is missing", says="lacks")
def _missing_attribute(header: Header, arrays: Arrays) -> None:
    node(header, "KernelPCA").pop("solver_")


@change("no objects")
def _no_objects(header: Header, arrays: Arrays) -> None:
    header["objects"] = []


@change("objects that are none")
def _not_objects(header: Header, arrays: Arrays) -> None:
    header["objects"][0] = ["kpca:KernelPCA", {}]


@change("more in an object than it has")
def _more(header: Header, arrays: Arrays) -> None:
    header["objects"][0]["do"] = "os.system"


@change("a kernel is the model", says="no model")
def _kernel_model(header: Header, arrays: Arrays) -> None:
    header["objects"] = [{"is": "kpca.kernels:Linear", "has": {}}]
    arrays.clear()


@change("an object too many", says="nothing refers to")
def _extra_object(header: Header, arrays: Arrays) -> None:
    header["objects"].insert(0, {"is": "kpca.kernels:Linear", "has": {}})
    for each in header["objects"]:
        each["has"] = json.loads(json.dumps(each["has"]), object_hook=_shifted)


def _shifted(value: dict[str, Any]) -> dict[str, Any]:
    return {"node": value["node"] + 1} if set(value) == {"node"} else value


@change("an array too many", says="nothing refers to")
def _extra_array(header: Header, arrays: Arrays) -> None:
    arrays["spare"] = np.zeros(3)


@change("objects that contain each other")
def _cycle(header: Header, arrays: Arrays) -> None:
    last = len(header["objects"]) - 1
    node(header, "KernelProjection")["kernel"] = {"node": last}


@change("too many objects", "unfitted", says="from 1 to 10000")
def _many(header: Header, arrays: Arrays) -> None:
    header["objects"] = [{"is": "kpca.kernels:Linear", "has": {}}] * 10_000 + header["objects"]


@change("kernels in kernels in kernels", "unfitted", says="too many objects")
def _tower(header: Header, arrays: Arrays) -> None:
    model = header["objects"].pop()
    header["objects"] = [{"is": "kpca.kernels:Linear", "has": {}}]
    for below in range(300):
        scaled = {"kernel": {"node": below}, "factor": 2.0}
        header["objects"].append({"is": "kpca.kernels:Scaled", "has": scaled})
    model["has"]["kernel"] = {"node": 300}
    header["objects"].append(model)


@change("kernels that double", "unfitted", says="too many objects")
def _doubling(header: Header, arrays: Arrays) -> None:
    model = header["objects"].pop()
    header["objects"] = [{"is": "kpca.kernels:Linear", "has": {}}]
    for below in range(30):
        twice = {"tuple": [{"node": below}, {"node": below}]}
        header["objects"].append({"is": "kpca.kernels:Sum", "has": {"members": twice}})
    model["has"]["kernel"] = {"node": 30}
    header["objects"].append(model)


@change("lists in lists", "unfitted", says="too deeply")
def _nested(header: Header, arrays: Arrays) -> None:
    value: Any = 1
    for _ in range(200):
        value = {"list": [value]}
    node(header, "KernelPCA")["kernel_params"] = value


@change("a later version", says="update kpca")
def _later(header: Header, arrays: Arrays) -> None:
    header["model version"] = 2


@change("a version that is none")
def _no_version(header: Header, arrays: Arrays) -> None:
    header["model version"] = "1"


@change("version 0")
def _version_0(header: Header, arrays: Arrays) -> None:
    header["model version"] = 0


@change("a summary of another model", says="summary")
def _summary(header: Header, arrays: Arrays) -> None:
    header["sizes"]["rows"] = 31


@change("classes of another model", says="summary")
def _classes(header: Header, arrays: Arrays) -> None:
    header["classes"] = ["kpca:IncrementalKernelPCA"]


@change("sizes that cannot be")
def _sizes(header: Header, arrays: Arrays) -> None:
    header["sizes"]["rows"] = -1


@change("more in the header than there is")
def _more_header(header: Header, arrays: Arrays) -> None:
    header["hook"] = "x"


@change("less in the header than there is")
def _less_header(header: Header, arrays: Arrays) -> None:
    del header["saved with"]


@change("about that is no dictionary")
def _about(header: Header, arrays: Arrays) -> None:
    header["about"] = [1]


@change("about that is deep")
def _deep_about(header: Header, arrays: Arrays) -> None:
    value: Any = {}
    for _ in range(100):
        value = {"a": value}
    header["about"] = value


@change("big endian numbers", says="big endian")
def _endian(header: Header, arrays: Arrays) -> None:
    for name, array in arrays.items():
        arrays[name] = array.astype(array.dtype.newbyteorder(">"))


@change("sparse rows outside of the matrix", "sparse", says="outside")
def _outside(header: Header, arrays: Arrays) -> None:
    indices = node(header, "KernelPCA")["X_fit_"]["csr"][3]
    arrays[indices] = arrays[indices] + 100


@change("sparse rows that end nowhere", "sparse", says="fit")
def _pointers(header: Header, arrays: Arrays) -> None:
    pointers = node(header, "KernelPCA")["X_fit_"]["csr"][4]
    arrays[pointers] = arrays[pointers] * 1000


@change("sparse rows that go back", "sparse")
def _back(header: Header, arrays: Arrays) -> None:
    pointers = node(header, "KernelPCA")["X_fit_"]["csr"][4]
    changed = arrays[pointers].copy()
    changed[3] = changed[-1]
    arrays[pointers] = changed


@change("a huge sparse matrix", "sparse")
def _huge(header: Header, arrays: Arrays) -> None:
    node(header, "KernelPCA")["X_fit_"]["csr"][1] = [2**62, 2**62]


# -- bytes ------------------------------------------------------------------------------------------------------------

DAMAGED = "damaged or cut short"
for _share in (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999):
    CONTENTS[f"cut at {_share}"] = (lambda good, _s=_share: good[: int(_s * len(good))], "")
CONTENTS["cut in the magic"] = (lambda good: good[:5], "another format")
CONTENTS["cut before the length"] = (lambda good: good[:8], DAMAGED)
CONTENTS["without the checksum"] = (lambda good: good[:-32], DAMAGED)
CONTENTS["one byte less"] = (lambda good: good[:-1], DAMAGED)
CONTENTS["one byte more"] = (lambda good: good + b"\0", DAMAGED)
CONTENTS["twice"] = (lambda good: good + good, DAMAGED)
for _place in (9, 20, 200, -200, -40, -1):

    def _flipped(good: bytes, _place: int = _place) -> bytes:
        changed = bytearray(good)
        changed[_place] ^= 0x41
        return bytes(changed)

    CONTENTS[f"a changed byte at {_place}"] = (_flipped, DAMAGED)


def _again(make: Callable[[Header, Arrays], bytes]) -> Callable[[bytes], bytes]:
    return lambda good: make(*parts(good))


def _table(edit: Callable[[list[Any]], Any]) -> Callable[[bytes], bytes]:
    """Another description of the arrays, with the checksum repaired."""

    def work(header: Header, arrays: Arrays) -> bytes:
        table = [entry(name, array) for name, array in arrays.items()]
        return joined(header, arrays, edit(table) or table)

    return _again(work)


CONTENTS["a header longer than the file"] = (lambda good: sealed(b"{}", length=10**6), DAMAGED)
CONTENTS["a header of 2^63 bytes"] = (lambda good: sealed(b"{}", length=2**63), DAMAGED)
CONTENTS["a header of -1 bytes"] = (lambda good: sealed(b"{}", length=2**64 - 1), DAMAGED)
CONTENTS["no header"] = (lambda good: sealed(b""), DAMAGED)
CONTENTS["a header that is no JSON"] = (lambda good: sealed(b"{'a': 1}"), DAMAGED)
CONTENTS["a header of nothing"] = (lambda good: sealed(b"{}"), DAMAGED)
CONTENTS["a header that is a list"] = (lambda good: sealed(b"[]"), DAMAGED)
CONTENTS["a header that is a number"] = (lambda good: sealed(b"1"), DAMAGED)
CONTENTS["a header that is not UTF-8"] = (lambda good: sealed(b'{"kind": "\xff"}'), DAMAGED)
CONTENTS["a header with NaN"] = (lambda good: sealed(good[16 : 16 + 20] + b'"x": NaN}'), DAMAGED)
CONTENTS["NaN in a good header"] = (
    _again(lambda header, arrays: joined({**header, "about": {"x": float("nan")}}, arrays)),
    DAMAGED,
)
CONTENTS["deep JSON"] = (lambda good: sealed(b"[" * 200_000 + b"]" * 200_000), DAMAGED)
CONTENTS["deep JSON objects"] = (lambda good: sealed(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), DAMAGED)
CONTENTS["many keys"] = (
    lambda good: sealed(json.dumps({f"{i}": i for i in range(10**5)}).encode()),
    DAMAGED,
)
# As long as a header may be: read, these would take half a gigabyte.
CONTENTS["millions of empty lists"] = (lambda good: sealed(b"[" + b"[]," * 5_500_000 + b"0]"), DAMAGED)
CONTENTS["millions of empty dictionaries"] = (lambda good: sealed(b"[" + b"{}," * 5_500_000 + b"0]"), DAMAGED)
CONTENTS["a number of a million digits"] = (lambda good: sealed(b'{"version": 1' + b"0" * 10**6 + b"}"), DAMAGED)
CONTENTS["a header of 20 MB"] = (lambda good: sealed(b" " * 20_000_000 + b"{}"), DAMAGED)
CONTENTS["a key twice in the header"] = (
    lambda good: sealed(b'{"format": "kpca", "version": 1, "kind": "model", "kind": "model", "arrays": []}'),
    DAMAGED,
)
CONTENTS["a kind that is a number"] = (
    lambda good: sealed(b'{"format": "kpca", "version": 1, "kind": 1, "arrays": []}'),
    DAMAGED,
)
CONTENTS["a kind to obey"] = (
    lambda good: sealed(b'{"format": "kpca", "version": 1, "kind": "\\u001b[2J", "arrays": []}'),
    "must hold a model",
)
CONTENTS["a later version of the container"] = (
    lambda good: sealed(b'{"format": "kpca", "version": 9, "kind": "model", "arrays": []}'),
    "update kpca",
)
CONTENTS["arrays that are no list"] = (_table(lambda table: {"a": 1}), DAMAGED)
CONTENTS["arrays without a name"] = (_table(lambda table: table[0].pop("name")), DAMAGED)
CONTENTS["the same array twice"] = (_table(lambda table: table.append(table[-1])), DAMAGED)
CONTENTS["two arrays of one name"] = (_table(lambda table: table[1].update(name=table[0]["name"])), DAMAGED)
for _name, _entry in {
    "objects": {"dtype": "|O8"},
    "objects without size": {"dtype": "|O"},
    "void": {"dtype": "|V8"},
    "texts": {"dtype": "<U8"},
    "bytes": {"dtype": "|S8"},
    "dates": {"dtype": "<M8[s]"},
    "records": {"dtype": "f8,f8"},
    "a type that is a list": {"dtype": ["<f8"]},
    "a type that is none": {"dtype": None},
    "long doubles": {"dtype": "<f16"},
    "a shape that is larger": {"shape": [10**6]},
    "a gigabyte": {"shape": [2**27]},
    "an exabyte": {"shape": [2**57]},
    "a shape beyond numbers": {"shape": [2**62, 2**62]},
    "a shape beyond numbers but empty": {"shape": [2**62, 2**62, 0]},
    "a negative shape": {"shape": [-1]},
    "a shape of truth": {"shape": [True]},
    "a shape of fractions": {"shape": [2.0]},
    "a shape that is a text": {"shape": "2"},
    "many dimensions": {"shape": [1] * 100},
    "an order that is none": {"order": "K"},
}.items():
    CONTENTS[f"an array of {_name}"] = (_table(lambda table, _e=_entry: table[0].update(_e)), DAMAGED)


class _Trap:
    """A pickle that would tell if it was loaded."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("unpickled",)


def _zip(good: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.kpca", good)
    return file.getvalue()


CONTENTS["empty"] = (lambda good: b"", "another format")
CONTENTS["a pickle"] = (lambda good: pickle.dumps(_Trap()), "another format")
CONTENTS["a pickle behind our magic"] = (lambda good: MAGIC + pickle.dumps(_Trap()), DAMAGED)
CONTENTS["a pickle in the header"] = (lambda good: sealed(pickle.dumps(_Trap())), DAMAGED)
CONTENTS["a zip"] = (_zip, "another format")
CONTENTS["a text"] = (lambda good: b"size,colour\n1,red\n" * 20, "another format")
CONTENTS["a NumPy file"] = (lambda good: b"\x93NUMPY\x01\x00v\x00" + b"x" * 99, "another format")
CONTENTS["zeros"] = (lambda good: bytes(1000), "another format")
CONTENTS["through a conversion of text"] = (lambda good: good.replace(b"\r\n", b"\n"), "another format")
CONTENTS["in capitals"] = (lambda good: good.upper(), "another format")


def _checkpoint(path: Path) -> None:
    write_container(path, {"kind": "stream"}, {"a": np.zeros(3)})


PLACES["a folder"] = (lambda path: path.mkdir(), "must be a file")
PLACES["nothing"] = (lambda path: None, "no such file")
PLACES["a link to nothing"] = (lambda path: path.symlink_to("nowhere"), "no such file")
PLACES["a link to itself"] = (lambda path: path.symlink_to(path.name), "must be readable")
PLACES["a pipe"] = (os.mkfifo, "must be a file")
PLACES["a device"] = (lambda path: path.symlink_to("/dev/zero"), "must be a file")
PLACES["a checkpoint"] = (_checkpoint, "must hold a model; it holds a stream")


def good_files(folder: Path) -> dict[str, bytes]:
    """The contents of good files."""
    files = {}
    for name, model in models().items():
        save(model, folder / "good.kpca", about={"name": name})
        files[name] = (folder / "good.kpca").read_bytes()
    return files
