"""What a kernel is: values for pairs of rows, and all that is known of it; and the algebra of kernels.

A kernel class declares everything that others ask: the names it goes by, its bandwidth, its formula in words and for
tracing back-ends, what to try when it is tuned, which random features it has. Nobody else keeps a table of kernels.
"""

from __future__ import annotations

import abc
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import reduce
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.kernels.arrays import FloatArray, Matrix, as_float64, each, float_dtype, non_negative
from kpca.kernels.profiles import Loop
from kpca.kernels.rounding import PROFILE, Lengths

# Of two rows: -||x - y||^2, x.y, -||x - y||_1, or -sum (x - y)^2 / (x + y).
Argument = Literal["distance", "dot", "l1", "chi2"]
# The name of a parameter, and which power of a distance it is.
Bandwidth: TypeAlias = tuple[str, Literal[1, -1, -2]]
# How a number is written in a formula.
Writer: TypeAlias = Callable[..., str]
plainly: Writer = "{:g}".format


class Kernel(abc.ABC):
    """A similarity k(x, y) of two rows. Concrete kernels are frozen dataclasses: compare, hash, print, never change."""

    name: ClassVar[str]
    # The names that `resolve` knows it by, each with the parameters that it stands for.
    names: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    # The parameter over which distances are taken.
    bandwidth: ClassVar[Bandwidth | None] = None
    # Which features `kpca.features.families` draws for it, and whether their directions may be orthogonal: only if
    # their law does not change under rotation.
    random_features: ClassVar[str | None] = None
    rotatable: ClassVar[bool] = True
    # k(x, y) in text, if it has no parameters; and what rows are alike, in a sentence.
    written: ClassVar[str] = ""
    alike: ClassVar[str] = "It says how alike two rows are."

    def __post_init__(self) -> None:
        for parameter in fields(self):  # type: ignore[arg-type]  # concrete kernels are dataclasses
            if check := parameter.metadata.get("check"):
                object.__setattr__(self, parameter.name, check(parameter.name, getattr(self, parameter.name)))

    @property
    @abc.abstractmethod
    def psd(self) -> bool:
        """True if every kernel matrix of admissible data is positive semidefinite; False if not, or not known."""

    def psd_in(self, columns: int) -> bool:
        """Return the same of rows with so many columns: some kernels are positive semidefinite on the line alone."""
        return self.psd

    @property
    def shift_invariant(self) -> bool:
        """True if adding a constant row to all the data changes no value."""
        return False

    @property
    def shared(self) -> tuple[Argument, float] | None:
        """What the value of a pair is a function of, beside parameters, and the factor that this is taken with.

        Kernels with the same argument can be evaluated from it one after the other: `value(factor * argument)`. None if
        it is not one number per pair, or not one that other kernels share.
        """
        return None

    @property
    def remedy(self) -> str:
        """What to do when values come out NaN or infinite."""
        return "scale the data, or choose other parameters of the kernel"

    def formula(self, number: Writer = plainly) -> str:
        """Return k(x, y) in text, with its parameters as numbers."""
        return self.written or repr(self)

    def meaning(self, number: Writer = plainly) -> str:
        """Return in a sentence what rows are alike."""
        return self.alike

    @classmethod
    def grid(cls, scale: float, count: int) -> dict[str, list[Any]]:
        """Return which parameters to try, where there is no bandwidth: `scale` is gamma by the rule of that name."""
        return {}

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        """Return the values from what a tracing back-end offers, such as `kpca.io.onnx`; minus f(0), if shifted."""
        raise NotImplementedError(f"kernel {self.name!r} has no formula")

    def check(self, X: Matrix) -> None:
        """Raise InputError if the kernel is not defined on X."""
        return None

    @abc.abstractmethod
    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return k(x_i, y_j) in the float dtype of X, computed plainly and accurately.  # shape: (n, m)"""

    @abc.abstractmethod
    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return k(x_i, x_i).  # shape: (n,)"""

    # Rounding, for certificates: see `kpca.kernels.rounding`.

    def most(self, X: Matrix) -> NDArray[np.float64]:
        """Return b(x)^2 for a b with |k(x, y)| <= b(x) b(y).  # shape: (n,)

        k(x, x), by Cauchy and Schwarz; of an indefinite kernel that does not say better, the largest one is taken.
        """
        own = np.abs(self.diagonal(X))
        return own if self.psd_in(X.shape[1]) else np.full(len(own), own.max(initial=0.0))

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        """Return what rounding may have done to K(X, X), of this norm, where `block` computes it.

        A function of somebody's own is taken at its word: its values count as right.
        """
        return PROFILE * norm

    # NumPy scalars on the left must leave the operation to __radd__ and __rmul__.
    __array_ufunc__ = None

    def __add__(self, other: Kernel | float) -> Kernel:
        """Return the sum, flat: a number adds a constant kernel, 0 nothing."""
        if not isinstance(other, (Kernel, Real)):
            return NotImplemented
        second = _as_kernel("a number added to a kernel", other)
        members = [member for kernel in (self, second) for member in _flat(kernel, Sum) if member != Constant(0.0)]
        if len(members) < 2:
            return members[0] if members else Constant(0.0)
        return Sum(tuple(members))

    def __mul__(self, other: Kernel | float) -> Kernel:
        """Return the product, flat: numbers and constant kernels are gathered in one factor in front."""
        if not isinstance(other, (Kernel, Real)):
            return NotImplemented
        (a, left), (b, right) = _split(self), _split(_as_kernel("a number times a kernel", other))
        kernels = left + right
        if not kernels:
            return Constant(a * b)
        product = Product(kernels) if len(kernels) > 1 else kernels[0]
        return product if a * b == 1 else Scaled(product, a * b)

    __radd__, __rmul__ = __add__, __mul__  # sum([k1, k2]) starts with 0 + k1


def checked(check: Callable[[str, Any], Any], default: Any = MISSING) -> Any:
    """Return a parameter of a kernel that is checked, and may be converted, by a function of its name and value."""
    return field(default=default, metadata={"check": check})


# All kernels of this package that are more than somebody else's function, in the order of their definition.
KERNELS: list[type[Kernel]] = []
K = TypeVar("K", bound=Kernel)


def registered(*names: str, **special: Mapping[str, Any]) -> Callable[[type[K]], type[K]]:
    """Make a kernel known to files and to all that reads what classes declare, and by names to `resolve`.

    Special names stand for some of its parameters.
    """

    def register(kind: type[K]) -> type[K]:
        kind.names = {**dict.fromkeys(names, MappingProxyType({})), **special}
        KERNELS.append(kind)
        return kind

    return register


class ProfileKernel(Kernel):
    """A kernel f(t) of one number per pair of prepared rows."""

    argument: ClassVar[Literal["dot", "radial"]]

    @property
    def singular_at_zero(self) -> bool:
        """True if f' is unbounded at t = 0: an error in a tiny distance then shows, and engines compute it exactly."""
        return False

    @abc.abstractmethod
    def prepare(self, X: Matrix) -> Matrix:
        """Return rows scaled so that f has no scale left: same dtype, CSR stays CSR; X itself if nothing is to do."""

    def loop(self, *, shifted: bool = False) -> Loop | None:
        """Return the compiled loop that is f, or f - f(0), if there is one for it."""
        return None

    @abc.abstractmethod
    def value(self, t: FloatArray) -> FloatArray:
        """Overwrite t by f(t) and return it."""

    @abc.abstractmethod
    def derivative(self, t: FloatArray) -> FloatArray:
        """Return f'(t), the derivative with respect to t, as a new array."""

    @abc.abstractmethod
    def curvature(self, t: FloatArray) -> FloatArray:
        """Return f''(t), the second derivative with respect to t, as a new array; infinite where f' has a pole or kink.

        Of the radial ones, that is t = 0 for Matern 1/2 (exponential) and 3/2.
        """

    @abc.abstractmethod
    def spread(self, t: Lengths, weights: FloatArray, norm: float, *, shifted: bool = False) -> float:
        """Return what rounding may have done to K(X, X), made of such t; its norm is infinite where it is not known."""

    @abc.abstractmethod
    def _arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        """Return t for all pairs of float64 rows, not yet prepared.  # shape: (n, m)"""

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return k(x_i, y_j), computed in float64 and rounded once to the dtype of X.  # shape: (n, m)"""
        return self.value(self._arguments(as_float64(X), as_float64(Y))).astype(float_dtype(X), copy=False)


# -- The algebra of kernels: sums, products and multiples, and the constant kernel ------------------------------------


@registered()
@dataclass(frozen=True)
class Constant(Kernel):
    """The same value for every pair of rows; centring removes it, multiplied in it is a weight."""

    constant: float = checked(non_negative, 1.0)
    name: ClassVar[str] = "constant"
    random_features = "flat"
    psd = True  # a non-negative multiple of 11'
    shift_invariant = True

    def formula(self, number: Writer = plainly) -> str:
        return number(self.constant)

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.constant(self.constant)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        return np.full((X.shape[0], Y.shape[0]), self.constant, dtype=float_dtype(X))

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.full(X.shape[0], self.constant)


class Composite(Kernel):
    """A kernel made of others (`members`); what is true of all of them is true of it."""

    members: tuple[Kernel, ...]

    @property
    def psd(self) -> bool:
        """Sums, non-negative multiples and (Schur) products of positive semidefinite kernels are that too."""
        return all(member.psd for member in self.members)

    def psd_in(self, columns: int) -> bool:
        return all(member.psd_in(columns) for member in self.members)

    @property
    def shift_invariant(self) -> bool:
        return all(member.shift_invariant for member in self.members)

    def check(self, X: Matrix) -> None:
        for member in self.members:
            member.check(X)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        # `Y is X` means something to some kernels (callables, white noise), so it must survive the conversion.
        X64 = as_float64(X)
        Y64 = X64 if Y is X else as_float64(Y)
        return np.asarray(self._combine([member.block(X64, Y64) for member in self.members]), dtype=float_dtype(X))

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.asarray(self._combine([member.diagonal(X) for member in self.members]), dtype=np.float64)

    def most(self, X: Matrix) -> NDArray[np.float64]:
        return np.asarray(self._combine([member.most(X) for member in self.members]), dtype=np.float64)

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        shifted = shifted and not isinstance(self, Product)  # whose values are products of whole ones
        return self._combine([pairs.values(member, shifted=shifted) for member in self.members])

    @abc.abstractmethod
    def _combine(self, values: Sequence[Any]) -> Any:
        """Return the values of the members as one: arrays, or what a tracing back-end has for them."""


@registered()
@dataclass(frozen=True)
class Sum(Composite):
    """k_1 + k_2 + ...: similar in one way or in another."""

    members: tuple[Kernel, ...] = checked(lambda name, members: _kernels("Sum", members))
    name: ClassVar[str] = "sum"
    random_features = "sum"

    def formula(self, number: Writer = plainly) -> str:
        return " + ".join(member.formula(number) for member in self.members)

    def _combine(self, values: Sequence[Any]) -> Any:
        return reduce(operator.add, values)


@registered()
@dataclass(frozen=True)
class Product(Composite):
    """k_1 k_2 ...: similar in one way and in another."""

    members: tuple[Kernel, ...] = checked(lambda name, members: _kernels("Product", members))
    name: ClassVar[str] = "product"

    def formula(self, number: Writer = plainly) -> str:
        return " · ".join(f"[{member.formula(number)}]" for member in self.members)

    def _combine(self, values: Sequence[Any]) -> Any:
        return reduce(operator.mul, values)


@registered()
@dataclass(frozen=True)
class Scaled(Composite):
    """factor times a kernel."""

    kernel: Kernel = checked(lambda name, kernel: _kernels("Scaled", (kernel,))[0])  # noqa: RUF009  # a field
    factor: float = checked(non_negative)
    name: ClassVar[str] = "scaled"
    random_features = "scaled"

    @property
    def members(self) -> tuple[Kernel, ...]:  # type: ignore[override]  # read only here, as everywhere: frozen
        return (self.kernel,)

    def formula(self, number: Writer = plainly) -> str:
        return f"{number(self.factor)} · [{self.kernel.formula(number)}]"

    def _combine(self, values: Sequence[Any]) -> Any:
        return values[0] * self.factor


def _as_kernel(what: str, given: Kernel | float) -> Kernel:
    return given if isinstance(given, Kernel) else Constant(non_negative(what, given))


def _split(kernel: Kernel) -> tuple[float, tuple[Kernel, ...]]:
    """Return the number in front of a kernel, and the factors behind it."""
    if isinstance(kernel, Constant):
        return kernel.constant, ()
    if isinstance(kernel, Scaled):
        factor, kernels = _split(kernel.kernel)
        return kernel.factor * factor, kernels
    return 1.0, _flat(kernel, Product)


def _flat(kernel: Kernel, kind: type[Sum] | type[Product]) -> tuple[Kernel, ...]:
    """Return the members of a sum in a sum (a product in a product), else the kernel alone."""
    return kernel.members if isinstance(kernel, kind) else (kernel,)


def _kernels(name: str, members: Iterable[object]) -> tuple[Kernel, ...]:
    """Return the members as a tuple, which must be kernels and at least one."""
    kernels = tuple(members)
    wrong = [member for member in kernels if not isinstance(member, Kernel)]
    if wrong or not kernels:
        arrived = f"{wrong[0]!r}" if wrong else "nothing"
        raise InputError(
            f"{name} must be made of kernels; got {arrived}: build one with kpca.kernels, such as RBF(1.0)."
        )
    return tuple(member for member in kernels if isinstance(member, Kernel))


# -- The same kernel with other bandwidths: what "too small" and "too large" are measured against ---------------------

# Decimal exponents of a parameter beyond which its square, and so a distance, could not be written.
_DECADES = 300


def has_bandwidth(kernel: Kernel) -> bool:
    """Return True if distances enter a kernel, or a member of it, over a bandwidth."""
    if isinstance(kernel, Composite):
        return any(has_bandwidth(member) for member in kernel.members)
    return kernel.bandwidth is not None


def widened(kernel: Kernel, factor: float) -> Kernel | None:
    """Return the kernel whose distances are divided by a factor; None if it has no bandwidth, or no number for it.

    Of a sum or product every member that has a bandwidth is widened. The distance of `Chi2` is that of additive chi2.
    """
    if isinstance(kernel, Composite):
        members = [widened(member, factor) for member in kernel.members]
        if not any(members):
            return None
        changed = tuple(new or old for new, old in zip(members, kernel.members, strict=True))
        return Scaled(changed[0], kernel.factor) if isinstance(kernel, Scaled) else type(kernel)(changed)  # type: ignore[call-arg]
    if kernel.bandwidth is None:
        return None
    name, power = kernel.bandwidth
    value = getattr(kernel, name)
    sizes = [math.log10(item) for item in (value if isinstance(value, tuple) else (value,))]
    if any(abs(size) + max(power, -power) * abs(math.log10(factor)) >= _DECADES for size in sizes):
        return None
    change: dict[int, Callable[[float], float]] = {
        1: lambda item: item * factor,
        -1: lambda item: item / factor,
        -2: lambda item: item * (1.0 / factor**2),
    }
    return replace(kernel, **{name: each(change[power], value)})  # type: ignore[type-var]  # all are dataclasses
