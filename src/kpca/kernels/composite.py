"""Sums, products and multiples of kernels, and the constant kernel: whatever the members can do, blockwise."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.kernels.base import FloatArray, Kernel, Matrix, as_float64, float_dtype, non_negative


@dataclass(frozen=True)
class Constant(Kernel):
    """The same value for every pair of rows; centring removes it, multiplied in it is a weight."""

    constant: float = 1.0
    name: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", non_negative("constant", self.constant))

    @property
    def psd(self) -> bool:
        """A non-negative multiple of 11'."""
        return True

    @property
    def shift_invariant(self) -> bool:
        """The data does not enter."""
        return True

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the constant for every pair.  # shape: (n, m)"""
        return np.full((X.shape[0], Y.shape[0]), self.constant, dtype=float_dtype(X))

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return the constant for every row.  # shape: (n,)"""
        return np.full(X.shape[0], self.constant)


class Composite(Kernel):
    """A kernel made of others (`members`); what is true of all of them is true of it."""

    members: tuple[Kernel, ...]

    @property
    def psd(self) -> bool:
        """Sums, non-negative multiples and (Schur) products of positive semidefinite kernels are that too."""
        return all(member.psd for member in self.members)

    @property
    def shift_invariant(self) -> bool:
        """True if it holds for each member."""
        return all(member.shift_invariant for member in self.members)

    def check(self, X: Matrix) -> None:
        """Refuse what any member refuses."""
        for member in self.members:
            member.check(X)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the members' values combined in float64.  # shape: (n, m)"""
        # `Y is X` means something to some kernels (callables, white noise), so it must survive the conversion.
        X64 = as_float64(X)
        Y64 = X64 if Y is X else as_float64(Y)
        return self._combine(member.block(X64, Y64) for member in self.members).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return the members' diagonals combined.  # shape: (n,)"""
        return self._combine(member.diagonal(X) for member in self.members).astype(np.float64, copy=False)

    @abc.abstractmethod
    def _combine(self, values: Iterable[FloatArray]) -> FloatArray:
        """Return one array of the members' arrays, none of which may be overwritten."""


@dataclass(frozen=True)
class Sum(Composite):
    """k_1 + k_2 + ...: similar in one way or in another."""

    members: tuple[Kernel, ...]
    name: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _kernels("Sum", self.members))

    def _combine(self, values: Iterable[FloatArray]) -> FloatArray:
        first, *rest = values
        total = first.copy()
        for value in rest:
            total += value
        return total


@dataclass(frozen=True)
class Product(Composite):
    """k_1 k_2 ...: similar in one way and in another."""

    members: tuple[Kernel, ...]
    name: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _kernels("Product", self.members))

    def _combine(self, values: Iterable[FloatArray]) -> FloatArray:
        first, *rest = values
        total = first.copy()
        for value in rest:
            total *= value
        return total


@dataclass(frozen=True)
class Scaled(Composite):
    """factor times a kernel."""

    kernel: Kernel
    factor: float
    name: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        _kernels("Scaled", (self.kernel,))
        object.__setattr__(self, "factor", non_negative("factor", self.factor))

    @property
    def members(self) -> tuple[Kernel, ...]:  # type: ignore[override]  # read only here, as everywhere: frozen
        """The one kernel that is scaled."""
        return (self.kernel,)

    def _combine(self, values: Iterable[FloatArray]) -> FloatArray:
        (value,) = values
        scaled: FloatArray = value * self.factor
        return scaled


def add(first: Kernel, second: Kernel | float) -> Kernel:
    """Return first + second, flat: a number adds a constant kernel, 0 nothing."""
    if not isinstance(second, Kernel):
        second = Constant(non_negative("a number added to a kernel", second))
    members = [member for kernel in (first, second) for member in _flat(kernel, Sum) if member != Constant(0.0)]
    if len(members) < 2:
        return members[0] if members else Constant(0.0)
    return Sum(tuple(members))


def multiply(first: Kernel, second: Kernel | float) -> Kernel:
    """Return first * second, flat: numbers and constant kernels are gathered in one factor in front."""
    if not isinstance(second, Kernel):
        second = Constant(non_negative("a number times a kernel", second))
    (a, left), (b, right) = _split(first), _split(second)
    kernels = left + right
    if not kernels:
        return Constant(a * b)
    product = Product(kernels) if len(kernels) > 1 else kernels[0]
    return product if a * b == 1 else Scaled(product, a * b)


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
