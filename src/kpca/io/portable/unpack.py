"""A document to objects: only classes of the registry, only their declared fields, each checked before it is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import InvalidParameterError

from kpca._base.errors import InputError
from kpca.io.portable.pack import LARGEST_INT, NAN, NONE, SCALARS, TYPES, Document
from kpca.io.portable.registry import row_of_tag
from kpca.io.portable.spec import PLAIN, Built, Misfit, Row, Scope

AnyArray = NDArray[Any]
MOST_NODES = 10_000
# How deep objects may lie in one another, how deep values, and how many objects there are if shared ones are counted
# each time: what costs little to write must not cost much to use.
_DEEPEST, _DEEPEST_VALUE, _MOST_UNFOLDED = 40, 12, 100_000
# Bytes of an array of texts of the same width.
_WIDEST = 2**28
_ABSENT: dict[int, Any] = {NONE: None, NAN: math.nan}
_SEQUENCES: dict[str, Callable[[Iterable[Any]], Any]] = {"tuple": tuple, "list": list}


def unpacked(document: Document) -> Any:
    """Return the model of a document, or raise Misfit."""
    return _Unpacker(document).model()


class _Unpacker:
    def __init__(self, document: Document) -> None:
        if not isinstance(document.nodes, list) or not 0 < len(document.nodes) <= MOST_NODES:
            raise Misfit(f"the number of objects must be from 1 to {MOST_NODES}")
        self._nodes, self._arrays = document.nodes, document.arrays
        self._built: list[Built] = []
        self._by_id: dict[int, Built] = {}
        self._used: set[int] = set()
        self._used_arrays: set[str] = set()
        self._parts: list[Built] = []  # of the node that is being built
        self._readers: dict[str, Callable[[Any, int], Any]] = {
            "number": lambda value, depth: float(_one_of(value, ("nan", "inf", "-inf"))),
            "scalar": self._scalar,
            "dtype": lambda value, depth: np.dtype(_one_of(value, (*SCALARS, "O"))),
            "type": lambda value, depth: TYPES[_one_of(value, TYPES)],
            "tuple": lambda value, depth: tuple(self._items(value, depth)),
            "list": self._items,
            "dict": self._mapping,
            "array": lambda value, depth: self._array(value),
            "floats": lambda value, depth: self._floats(*_listed(value, 2)),
            "texts": lambda value, depth: self._texts(*_listed(value, 3)),
            "numbering": lambda value, depth: self._numbering(depth, *_listed(value, 3)),
            "csr": lambda value, depth: self._csr(*_listed(value, 5)),
            "node": lambda value, depth: self._reference(value),
        }

    def model(self) -> Any:
        for node in self._nodes:
            self._build(node)
        last = len(self._nodes) - 1
        if self._used != set(range(last)):
            raise Misfit("there are objects that nothing refers to")
        if self._used_arrays != set(self._arrays):
            raise Misfit("there are arrays that nothing refers to")
        return self._built[last].item

    def _build(self, node: Any) -> None:
        if not isinstance(node, dict) or set(node) != {"is", "has"} or not isinstance(node["has"], dict):
            raise Misfit("an object must have a class and fields")
        row = row_of_tag(node["is"])
        if row is None:
            raise Misfit(f"there is no class {_short(node['is'])}")
        self._parts = []
        values = {}
        for name, value in node["has"].items():
            try:
                values[name] = self._value(value, 0)
            except Misfit as misfit:
                raise Misfit(f"{row.name}.{_plain(name)}: {misfit}") from misfit
        scope = Scope(self._by_id)
        item = _made(row, values, scope)
        depth = 1 + max((part.depth for part in self._parts), default=0)
        size = 1 + sum(part.size for part in self._parts)
        if depth > _DEEPEST or size > _MOST_UNFOLDED:
            raise Misfit(f"{row.name} is made of too many objects")
        self._built.append(Built(item, row.roles, scope.lengths, depth, size))
        self._by_id[id(item)] = self._built[-1]

    def _value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | str | float):
            return value
        if isinstance(value, int):
            if abs(value) >= LARGEST_INT:
                raise Misfit("is too large a number")
            return value
        if depth > _DEEPEST_VALUE:
            raise Misfit("is nested too deeply")
        if not isinstance(value, dict) or len(value) != 1:
            raise Misfit("is nothing that a file can hold")
        [(kind, content)] = value.items()
        if kind not in self._readers:
            raise Misfit(f"is of an unknown kind, {_short(kind)}")
        return self._readers[kind](content, depth + 1)

    def _items(self, value: Any, depth: int) -> list[Any]:
        return [self._value(item, depth) for item in _listed(value)]

    def _mapping(self, value: Any, depth: int) -> dict[str, Any]:
        pairs = [_listed(pair, 2) for pair in _listed(value)]
        if not all(isinstance(key, str) for key, _ in pairs):
            raise Misfit("has a key that is no text")
        return _once([(key, self._value(item, depth)) for key, item in pairs])

    def _scalar(self, value: Any, depth: int) -> Any:
        kind, content = _listed(value, 2)
        dtype, number = np.dtype(_one_of(kind, SCALARS)), self._value(content, depth)
        wanted: Any = {"f": float, "i": int, "b": bool}[dtype.kind]
        if type(number) is not wanted or (
            dtype.kind == "i" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
        ):
            raise Misfit("is a number of another type than it says")
        return dtype.type(number)

    def _array(self, name: Any) -> AnyArray:
        if not isinstance(name, str) or name not in self._arrays:
            raise Misfit(f"there is no array {_short(name)}")
        self._used_arrays.add(name)
        return self._arrays[name]

    def _vector(self, name: Any, dtype: Any) -> AnyArray:
        array = self._array(name)
        if array.ndim != 1 or array.dtype != dtype:
            raise Misfit(f"must be a row of {np.dtype(dtype)}")
        return array

    def _floats(self, form: Any, name: Any) -> Any:
        items = self._vector(name, np.float64).tolist()
        return _SEQUENCES[_one_of(form, _SEQUENCES)](items)

    def _texts(self, form: Any, bytes_name: Any, lengths_name: Any) -> Any:
        _one_of(form, (*_SEQUENCES, "O", "U"))
        joined = self._vector(bytes_name, np.uint8).tobytes()
        lengths = self._vector(lengths_name, np.int64)
        if lengths.size and (lengths.min() < NAN or lengths.max(initial=0) > len(joined)):
            raise Misfit("has texts of impossible length")
        counted = np.maximum(lengths, 0)
        if int(counted.sum()) != len(joined):
            raise Misfit("has texts of another length than their bytes")
        items: list[Any] = []
        start = 0
        for length in lengths.tolist():
            try:
                text = joined[start : start + max(length, 0)].decode()
            except UnicodeDecodeError as error:
                raise Misfit("has texts that are not in Unicode") from error
            items.append(_ABSENT.get(length, text))
            start += max(length, 0)
        if form in _SEQUENCES:
            return _SEQUENCES[form](items)
        if form == "U":
            if len(joined) and 4 * int(counted.max()) * len(items) > _WIDEST:
                raise Misfit("has texts too long for an array")
            return np.array([str(item) for item in items], dtype=str)
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array

    def _numbering(self, depth: int, kind: Any, texts: Any, name: Any) -> dict[str, Any]:
        keys = self._value(texts, depth)
        numbers = self._vector(name, np.int64)
        if not isinstance(keys, list) or len(keys) != len(numbers) or not all(isinstance(key, str) for key in keys):
            raise Misfit("has another number of keys than of numbers")
        python = _one_of(kind, ("int", "int64")) == "int"
        return _once(list(zip(keys, numbers.tolist() if python else numbers, strict=True)))

    def _csr(self, form: Any, shape: Any, *names: Any) -> Any:
        _one_of(form, ("matrix", "array"))
        data, indices, pointers = (self._array(name) for name in names)
        rows, columns = _listed(shape, 2)
        whole = all(type(length) is int and 0 <= length < LARGEST_INT for length in (rows, columns))
        if not whole or any(part.ndim != 1 for part in (data, indices, pointers)):
            raise Misfit("is a sparse matrix of an impossible shape")
        if any(part.dtype.str[1:] not in ("i4", "i8") for part in (indices, pointers)):
            raise Misfit("is a sparse matrix whose places are no numbers")
        if len(pointers) != rows + 1 or len(indices) != len(data) or pointers[0] != 0 or pointers[-1] != len(data):
            raise Misfit("is a sparse matrix whose parts do not fit")
        if (np.diff(pointers) < 0).any() or (len(indices) and not 0 <= indices.min() <= indices.max() < columns):
            raise Misfit("is a sparse matrix with entries outside of it")
        made = (sparse.csr_matrix if form == "matrix" else sparse.csr_array)((rows, columns), dtype=data.dtype)
        made.data, made.indices, made.indptr = data, indices, pointers  # as they are: the constructor may convert
        return made

    def _reference(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self._built):
            raise Misfit(f"refers to the object {_short(number)}, which does not come before it")
        self._used.add(number)
        self._parts.append(self._built[number])
        return self._built[number].item


def _made(row: Row, values: dict[str, Any], scope: Scope) -> Any:
    """Return an object of checked values; refuse unknown and missing names."""
    whole = row.is_whole(values)
    needed = {name for name, required in row.arguments.items() if required}
    needed |= set(row.stored if row.kind == PLAIN else row.fitted if whole else ())
    if strange := sorted(set(values) - set(row.stored)):
        raise Misfit(f"{row.name} has no {_plain(strange[0])}")
    if lacking := sorted(needed - set(values)):
        raise Misfit(f"{row.name} lacks {lacking[0]}")
    for name, spec in row.stored.items():
        try:
            if name in values:
                spec.check(values[name], scope)
        except Misfit as misfit:
            raise Misfit(f"{row.name}.{name} {misfit}") from misfit
    try:
        given = {name: value for name, value in values.items() if name in row.arguments}
        item = object.__new__(row.cls) if row.kind == PLAIN else row.cls(**given)
        vars(item).update({name: value for name, value in values.items() if name not in given})
        if whole:
            vars(item).update({name: make() for name, make in row.fresh.items()})
            _check_whole(row, item)
    except InputError as error:  # in the words of the class itself
        raise Misfit(f"{row.name}: {str(error).rstrip('.')}") from error
    except Misfit as misfit:
        raise Misfit(f"{row.name} {misfit}") from misfit
    return item


def _check_whole(row: Row, item: Any) -> None:
    if row.tag.startswith("sklearn.") and hasattr(item, "_validate_params"):
        try:
            item._validate_params()
        except InvalidParameterError as error:
            raise Misfit(f"has a parameter that cannot be: {' '.join(str(error).split()).rstrip('.')[:200]}") from error
    if row.check is not None:
        row.check(item)


def _listed(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise Misfit("is not the list that belongs here")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Misfit("has a key twice")
    return made


def _one_of(value: Any, options: Container[str]) -> str:
    if not isinstance(value, str) or value not in options:
        raise Misfit(f"cannot be {_short(value)}")
    return value


def _short(value: Any) -> str:
    """Return a value for a message: one line, not long, nothing that a terminal would obey."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(name: str) -> str:
    return name if name.isidentifier() and len(name) <= 60 else _short(name)
