"""Objects to a document: JSON values that refer to arrays, and to one another by number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from kpca._base.errors import InputError
from kpca.io.portable.registry import row_of, row_of_class
from kpca.io.portable.spec import ESTIMATOR, Row
from kpca.kernels import Kernel

AnyArray = NDArray[Any]
JSON = Any  # None, truth values, numbers, texts, lists and dictionaries of these
# Sequences longer than this are arrays, so that the JSON stays small whatever the data.
SHORT = 8
LARGEST_INT = 2**63
SCALARS = ("f4", "f8", "i4", "i8", "b1")
TYPES: dict[str, type] = {kind.__name__: kind for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_, float)}
# A missing text, and a NaN among texts, in the place of their length.
NONE, NAN = -1, -2
_AS_THEY_ARE = (type(None), bool, str)


@dataclass
class Document:
    """A model as it is written."""

    nodes: list[JSON] = field(default_factory=list)  # each refers to earlier ones only; the last is the model
    arrays: dict[str, AnyArray] = field(default_factory=dict)


def packed(model: Any) -> Document:
    """Return the document of a model, or raise InputError if it holds what cannot be in a file."""
    packer = _Packer()
    packer.value(model, type(model).__name__)
    return packer.document


class _Packer:
    def __init__(self) -> None:
        self.document = Document()
        self._nodes: dict[int, int] = {}  # object -> its number
        self._alive: list[Any] = []  # what the numbers of objects above are of
        self._open: set[int] = set()
        self._arrays: dict[Any, str] = {}
        self._writers: dict[type, Callable[[Any, str], JSON]] = {
            np.str_: lambda value, path: str(value),
            int: self._whole,
            float: lambda value, path: value if math.isfinite(value) else {"number": str(value)},
            type: self._class,
            **dict.fromkeys((tuple, list), self._sequence),
            dict: self._mapping,
            **dict.fromkeys((np.ndarray, np.memmap), self._array),
            **dict.fromkeys((sparse.csr_matrix, sparse.csr_array), self._sparse),
        }

    def value(self, value: Any, path: str) -> JSON:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind in self._writers:
            return self._writers[kind](value, path)
        if isinstance(value, np.generic) and value.dtype.str[1:] in SCALARS:
            return {"scalar": [value.dtype.str[1:], self.value(value.item(), path)]}
        if isinstance(value, np.dtype) and value.str[1:] in (*SCALARS, "O"):
            return {"dtype": value.str[1:]}
        return self._object(value, path)

    def _whole(self, value: int, path: str) -> JSON:
        if abs(value) >= LARGEST_INT:
            raise InputError(f"{path} must be a number of at most 63 bits to be saved; got {value:.3e}.")
        return value

    def _class(self, value: type, path: str) -> JSON:
        if TYPES.get(value.__name__) is not value:
            raise InputError(f"{path} must not be a class to be saved; it is {value.__name__}: give an object of it.")
        return {"type": value.__name__}

    def _sequence(self, items: Any, path: str) -> JSON:
        kind = type(items).__name__
        if len(items) > SHORT and all(type(item) is float for item in items):
            return {"floats": [kind, self._stored(np.array(items, dtype=np.float64))]}
        if len(items) > SHORT and all(type(item) is str for item in items):
            return self._texts(list(items), kind, path)
        return {kind: [self.value(item, f"{path}[{number}]") for number, item in enumerate(items)]}

    def _mapping(self, items: dict[Any, Any], path: str) -> JSON:
        if not all(type(key) is str for key in items):
            raise InputError(f"{path} must have texts as keys to be saved; it has others: change them.")
        if len(items) > SHORT and all(type(item) in (int, np.int64) for item in items.values()):
            places = np.array(list(items.values()), dtype=np.int64)
            python = all(type(item) is int for item in items.values())
            keys = self._texts(list(items), "list", path)
            return {"numbering": ["int" if python else "int64", keys, self._stored(places)]}
        return {"dict": [[key, self.value(item, f"{path}[{key!r}]")] for key, item in items.items()]}

    def _array(self, array: AnyArray, path: str) -> JSON:
        if array.dtype.kind in "biuf":
            return {"array": self._stored(array)}
        if array.dtype.kind in "OU" and array.ndim == 1:
            return self._texts(array.tolist(), array.dtype.kind, path)
        raise InputError(
            f"{path} must hold numbers or texts to be saved; got {array.dtype} of {array.ndim} dimensions."
        )

    def _texts(self, items: list[Any], form: str, path: str) -> JSON:
        """Texts end to end, as UTF-8, and the length of each."""
        pieces, lengths = [], []
        for item in items:
            if item is None or (isinstance(item, float) and math.isnan(item)):
                lengths.append(NONE if item is None else NAN)
                continue
            if not isinstance(item, str):
                raise InputError(f"{path} must hold texts only to be saved; it holds {type(item).__name__}.")
            try:
                pieces.append(item.encode())
            except UnicodeEncodeError as error:
                raise InputError(f"{path} must hold texts in Unicode to be saved; one is not: rename it.") from error
            lengths.append(len(pieces[-1]))
        joined = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        return {"texts": [form, self._stored(joined), self._stored(np.array(lengths, dtype=np.int64))]}

    def _sparse(self, matrix: Any, path: str) -> JSON:
        if matrix.data.dtype.kind not in "biuf" or matrix.ndim != 2:
            raise InputError(f"{path} must hold numbers to be saved; it holds {matrix.data.dtype}: change it.")
        parts = [self._stored(part) for part in (matrix.data, matrix.indices, matrix.indptr)]
        form = "matrix" if type(matrix) is sparse.csr_matrix else "array"
        return {"csr": [form, [int(length) for length in matrix.shape], *parts]}

    def _stored(self, array: AnyArray) -> str:
        """Return the name of an array; what lies in the same place of memory is stored once."""
        key: Any = (array.ctypes.data, array.shape, array.strides, array.dtype.str)
        if not array.size:
            key = len(self._arrays)
        if key not in self._arrays:
            self._alive.append(array)
            name = self._arrays[key] = str(len(self.document.arrays))
            # in the order of memory, on which the last bits of sums depend, also where there are gaps
            kept = np.asarray(array).copy(order="K") if not array.flags.forc else np.asarray(array)
            self.document.arrays[name] = kept.astype(kept.dtype.newbyteorder("<"), copy=False)
        return self._arrays[key]

    def _object(self, item: Any, path: str) -> JSON:
        if id(item) in self._nodes:
            return {"node": self._nodes[id(item)]}
        row = row_of(item)
        if row is None:
            raise InputError(_refusal(item, path))
        if id(item) in self._open:
            raise InputError(f"{path} must not be part of itself to be saved: give it a copy.")
        self._open.add(id(item))
        self._alive.append(item)
        has = {name: self.value(value, f"{path}.{name}") for name, value in _members(row, item, path).items()}
        node = {"is": row.tag, "has": has}
        self._open.discard(id(item))
        number = self._nodes[id(item)] = len(self.document.nodes)
        self.document.nodes.append(node)
        return {"node": number}


def _members(row: Row, item: Any, path: str) -> dict[str, Any]:
    """Return what is stored of an object, in the order of its declaration."""
    if row.kind != ESTIMATOR:
        return {name: getattr(item, name) for name in row.stored}
    if strange := sorted(set(vars(item)) - {*row.stored, *row.fresh, *row.left_out.split()}):
        raise InputError(f"{path} must have only what {row.name} has; it has {strange[0]!r} too: remove it.")
    return {name: vars(item)[name] for name in row.stored if name in vars(item)}


def _refusal(item: Any, path: str) -> str:
    """Return why an object cannot be in a file, and what to do."""
    kind = type(item)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(item, LinearOperator):
        return f"{path} must be numbers to be saved; it is a LinearOperator, which is code: fit to the matrix itself."
    if isinstance(item, np.random.RandomState | np.random.Generator):
        return (
            f"{path} must be None or a whole number to be saved; it is a {kind.__name__}, which goes on changing: "
            "set a seed."
        )
    known = next((row for base in kind.__mro__[1:] if (row := row_of_class(base)) is not None), None)
    if known is not None:
        return (
            f"{path} must be a {known.name} itself to be saved; it is {name}, a subclass whose code would not be in "
            f"the file: use {known.name}."
        )
    if isinstance(item, Kernel) or (callable(item) and not isinstance(item, BaseEstimator)):
        return (
            f"{path} must not be a function of your own to be saved, as files hold no code; it is "
            f"{getattr(item, '__name__', name)}: take a kernel of kpca.kernels, or the option by its name."
        )
    return f"{path} must be of a class that kpca can store; {name} is none: leave it out, or save it by other means."
