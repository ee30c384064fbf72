"""Top eigenpairs of an operator, with certificates."""

from kpca.spectrum.dense import solve_dense
from kpca.spectrum.factored import solve_factored
from kpca.spectrum.krylov import solve_krylov
from kpca.spectrum.result import Keeper, Spectrum, State

__all__ = ["Keeper", "Spectrum", "State", "solve_dense", "solve_factored", "solve_krylov"]
