"""An ONNX graph written as formulas: `(1.0 + u) * exp(-u)` adds the nodes that compute it. The only import of onnx."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError

# What onnx 1.16 and onnxruntime 1.18, and all since 2022, know: the reductions used here are written as of this opset.
OPSET = 17
_IR_VERSION = 8
INPUT = "X"
# One message of protobuf; what is not the numbers themselves takes far less than the rest.
LARGEST = 2**31 - 2**24


def onnx() -> Any:
    """Return the library, or say what it is needed for."""
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise InputError("Exporting a model as ONNX needs onnx: pip install 'kpca[onnx]'.") from error
    return onnx


def _and(kind: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.graph.node(kind, self, other)


def _after(kind: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.graph.node(kind, other, self)


class Value:
    """What a node of a graph puts out; formulas of values add nodes, and numbers in them become constants."""

    __array_ufunc__ = None  # NumPy arrays on the left leave the operation to us

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    __add__, __sub__, __mul__, __truediv__, __matmul__ = map(_and, ("Add", "Sub", "Mul", "Div", "MatMul"))
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_after, ("Add", "Sub", "Mul", "Div"))

    def __neg__(self) -> Value:
        return self.graph.node("Neg", self)

    # Axis 1, not -1: of no rows at all, onnxruntime finds an axis only if it is counted from the front.
    def sums(self) -> Value:
        """Return the sum of each row.  # shape: (m, 1)"""
        return self.graph.node("ReduceSum", self, np.array([1], dtype=np.int64), keepdims=1)

    def largest(self) -> Value:
        """Return the largest entry of each row.  # shape: (m, 1)"""
        return self.graph.node("ReduceMax", self, axes=[1], keepdims=1)

    def flat(self) -> Value:
        """Return a single column as numbers in a row.  # shape: (m,)"""
        return self.graph.node("Squeeze", self, np.array([1], dtype=np.int64))

    def columns(self, which: NDArray[np.intp]) -> Value:
        """Return some of the columns, in that order."""
        return self.graph.node("Gather", self, np.asarray(which, dtype=np.int64), axis=1)


Operand = Value | float | NDArray[Any]


class Output(NamedTuple):
    """What a file puts out for each row: floats, or whole numbers (int64)."""

    value: Value
    shape: tuple[int, ...]  # behind the number of rows
    whole: bool = False


class Graph:
    """Nodes in the order in which they are computed; arithmetic is in float64 throughout."""

    def __init__(self) -> None:
        self._onnx = onnx()
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], tuple[str, Any]] = {}
        self._bytes = 0
        self._products: set[str] = set()  # what matrix products put out
        self._multiples: set[str] = set()  # and what is something times or over one number
        self._names = (f"v{number}" for number in itertools.count())

    def node(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        """Add a node with one output."""
        if kind in ("MatMul", "Mul", "Div"):
            inputs = self._kept_apart(kind, *inputs)
        names = [given.name if isinstance(given, Value) else self._constant(given) for given in inputs]
        out = next(self._names)
        self._nodes.append(self._onnx.helper.make_node(kind, names, [out], **attributes))
        if kind == "MatMul":
            self._products.add(out)
        elif kind in ("Mul", "Div") and any(_is_number(given) for given in inputs):
            self._multiples.add(out)
        return Value(self, out)

    def _kept_apart(self, kind: str, left: Operand, right: Operand) -> tuple[Operand, Operand]:
        """Return both factors, negated where a number would stand right before or after a matrix product.

        onnxruntime makes the number part of the product then, as a float32. With two signs changed, which costs no
        digit, they are no neighbours any more.
        """
        names = [given.name for given in (left, right) if isinstance(given, Value)]
        if kind == "MatMul":
            apart = self._multiples.isdisjoint(names)
        else:
            apart = not (_is_number(left) or _is_number(right)) or self._products.isdisjoint(names)
        if apart:
            return left, right
        return tuple(-given if isinstance(given, Value) else -np.asarray(given) for given in (left, right))  # type: ignore[return-value]

    def where(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """Return `yes` where the condition holds, else `no`."""
        return self.node("Where", condition, yes, no)

    def cast(self, value: Value, dtype: Any) -> Value:
        """Return a value in another dtype."""
        return self.node("Cast", value, to=self._type(dtype))

    def each_row(self, X: Value, d: int, formula: Callable[[Value], Value]) -> Value:
        """Return what a formula makes of each row of X alone, stacked: for what would be too large at once.

        The formula sees a row of shape (d,) and returns one of any length; it may use values from outside.
        """
        # one more row, taken off again, because onnxruntime has no loops over no rows
        X = self.node("Concat", X, np.ones((1, d)), axis=0)
        outer, self._nodes = self._nodes, []
        row = Value(self, next(self._names))
        result = formula(row)
        inner, self._nodes = self._nodes, outer
        double, info = self._type(np.float64), self._onnx.helper.make_tensor_value_info
        ends = [[info(end.name, double, None)] for end in (row, result)]
        body = self._onnx.helper.make_graph(inner, "row", *ends)
        found = self.node("Scan", X, body=body, num_scan_inputs=1)
        return self.node("Slice", found, *(np.array([number], dtype=np.int64) for number in (0, -1, 0)))

    def entry(self, dtype: np.dtype[Any]) -> Value:
        """Return the rows that are put in, in float64."""
        X = Value(self, INPUT)
        return X if dtype == np.float64 else self.cast(X, np.float64)

    def model(self, outputs: Mapping[str, Output], d: int, dtype: np.dtype[Any], about: dict[str, str]) -> bytes:
        """Return the file: rows (m, d) in, the outputs in this dtype out, the same bytes for the same model."""
        helper, described = self._onnx.helper, self._onnx.helper.make_tensor_value_info
        for name, output in outputs.items():
            exact = output.whole or dtype == np.float64
            out = output.value if exact else self.cast(output.value, dtype)
            self._nodes.append(helper.make_node("Identity", [out.name], [name]))
        kinds = {name: self._type(np.int64 if output.whole else dtype) for name, output in outputs.items()}
        graph = helper.make_graph(
            self._nodes,
            "kpca",
            [described(INPUT, self._type(dtype), ["batch", d])],
            [described(name, kinds[name], ["batch", *output.shape]) for name, output in outputs.items()],
            initializer=[tensor for _, tensor in self._constants.values()],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="kpca",
            producer_version=about.get("kpca_version", ""),
        )
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model)
        text: bytes = model.SerializeToString(deterministic=True)
        return text

    def _constant(self, number: float | NDArray[Any]) -> str:
        """Return the name of a number or an array, kept once however often it is used."""
        array = np.ascontiguousarray(number) if np.ndim(number) else np.asarray(number)
        if array.dtype.kind == "f":
            array = array.astype(np.float64, copy=False)
        key = (array.dtype.str, array.shape, hashlib.sha256(array.data).digest())
        if key not in self._constants:
            self.reserve(array.nbytes)
            self._bytes += array.nbytes
            name = f"c{len(self._constants)}"
            self._constants[key] = name, self._onnx.numpy_helper.from_array(array, name)
        return self._constants[key][0]

    def reserve(self, size: int) -> None:
        """Refuse what would make the file larger than protobuf can hold."""
        if self._bytes + size > LARGEST:
            raise InputError("An ONNX file must stay below 2 GiB: use kpca.compress or approximation='nystroem'.")

    def _type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _is_number(given: Operand) -> bool:
    return not isinstance(given, Value) and np.size(given) == 1


# -- Functions of values that ONNX or its runtime lack in float64, made of those they have ----------------------------


def _function(kind: str) -> Callable[..., Value]:
    return lambda x, *others: x.graph.node(kind, x, *others)


exp, log, sqrt, absolute = map(_function, ("Exp", "Log", "Sqrt", "Abs"))
sin, cos, tanh, sign = map(_function, ("Sin", "Cos", "Tanh", "Sign"))
maximum, minimum, below, equal = map(_function, ("Max", "Min", "Less", "Equal"))
at_most = _function("LessOrEqual")


def is_zero(x: Value) -> Value:
    """True where x is 0."""
    return equal(x, 0.0)


def expm1(x: Value) -> Value:
    """e^x - 1 without cancellation, for x <= 0: with h = tanh(x/2) it is 2h / (1 - h)."""
    half = tanh(0.5 * x)
    return 2.0 * half / (1.0 - half)


def log1p(x: Value) -> Value:
    """log(1 + x) without cancellation, for x >= 0: the rounding of w = 1 + x is the same in log w and in w - 1."""
    w = 1.0 + x
    gained = w - 1.0
    none = is_zero(gained)
    quotient = log(w) * x / x.graph.where(none, 1.0, gained)
    return x.graph.where(none, x, quotient)


def power(base: Value, exponent: int | float) -> Value:
    """A power, by squaring where the exponent is whole."""
    if not isinstance(exponent, int):
        return base.graph.node("Pow", base, float(exponent))
    if exponent == 0:
        return 0.0 * base + 1.0
    total = base
    for bit in bin(exponent)[3:]:  # the bits after the leading one, highest first
        total = total * total
        if bit == "1":
            total = total * base
    return total


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c_0 + c_1 x + c_2 x^2 + ... by Horner's rule."""
    total: Operand = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    assert isinstance(total, Value)
    return total


def angle(sine: Value, cosine: Value) -> Value:
    """The angle in [0, pi/2] whose sine and cosine, not both 0, have the given ratio; right to the last digits.

    Runtimes have the arc tangent in float32 only. From there one step is exact: sin(a - b) = sin a cos b - cos a sin b.
    """
    graph = sine.graph
    length = sqrt(sine * sine + cosine * cosine)
    sine, cosine = sine / length, cosine / length
    ratio = graph.cast(sine / cosine, np.float32)  # infinite for a right angle
    rough = graph.cast(graph.node("Atan", ratio), np.float64)
    return rough + (sine * cos(rough) - cosine * sin(rough))


def unit_rows(X: Value) -> tuple[Value, Value]:
    """Rows of length 1 (rows of zeros stay), and the lengths they had.  # shapes: (m, d), (m, 1)"""
    graph = X.graph
    peaks = absolute(X).largest()  # taken out first, so that squares neither overflow nor vanish
    divisors = graph.where(is_zero(peaks), 1.0, peaks)
    scaled = X / divisors
    lengths = sqrt((scaled * scaled).sums())
    return scaled / graph.where(is_zero(lengths), 1.0, lengths), lengths * peaks
