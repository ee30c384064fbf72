"""Kernel PCA in scverse's convention: results go into the AnnData object they belong to. And H5AD files as tables."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca import __version__
from kpca._base.errors import InputError
from kpca._base.validation import check_finite
from kpca.data.formats import digest_of
from kpca.data.h5ad import H5adReader, anndata
from kpca.data.opening import MatrixTable
from kpca.data.roles import roles_of
from kpca.data.rows import Table, hint, is_missing
from kpca.estimators.kernel_pca import KernelPCA

__all__ = ["kpca", "open_h5ad"]

FloatArray = NDArray[Any]
_KEY = "X_kpca"
_HIGHLY_VARIABLE = "highly_variable"


def open_h5ad(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    label: str | None = None,
    id: str | None = None,
    layer: str | None = None,
    use_rep: str | None = None,
) -> Table:
    """Open an H5AD file as a table: as `kpca.io.open_table` does, and of a layer or an embedding, too.

    Parameters
    ----------
    columns, drop : names of genes to take, or to leave out.
    label, id : names of annotations of the cells (columns of obs); ids are the names of the cells if None.
    layer, use_rep : take a layer, or an embedding such as "X_pca", instead of X.
    """
    name, beside = fspath(path), [column for column in (label, id) if column is not None]
    reader = H5adReader(name, beside=beside, layer=layer, use_rep=use_rep)
    return MatrixTable(name, reader, roles_of(columns, drop, label, id, None), partial(digest_of, name))


class _IfMarked:
    """The default of mask_var: the highly variable genes, where they are marked."""

    def __repr__(self) -> str:
        return f"adata.var.get({_HIGHLY_VARIABLE!r})"


_IF_MARKED = _IfMarked()


def kpca(
    adata: Any,
    n_comps: int | float | str | None = 50,
    *,
    kernel: Any = "rbf",
    gamma: Any = "median",
    use_rep: str | None = None,
    layer: str | None = None,
    mask_var: Any = _IF_MARKED,
    use_highly_variable: bool | None = None,
    key_added: str = _KEY,
    approximation: Any = "auto",
    random_state: Any = 0,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Find the kernel principal components of cells, and store them as scanpy stores those of PCA.

    Parameters
    ----------
    adata : AnnData, in memory (a view, too) or backed by a file.
    n_comps : the number of components, or what else `kpca.KernelPCA` takes as n_components.
    kernel, gamma, approximation, random_state, **parameters : of `kpca.KernelPCA`.
    use_rep, layer : take adata.obsm[use_rep] or adata.layers[layer] instead of adata.X.
    mask_var : a column of adata.var with truth values, or one truth value per gene: the genes that are taken. None
        takes all; by default the highly variable ones are, where they are marked.
    use_highly_variable : True demands that they are marked, False takes all genes.
    key_added : where the results go, see below.
    copy : return a copy with the results, and leave adata as it is.

    Returns
    -------
    None, or the copy. These are set:

    adata.obsm[key_added] : scores of the cells, (n_obs, n_comps).
    adata.uns["kpca"] : a dictionary with `params`, `variance`, `variance_ratio`, `eigenvalues`, and how certain they
        are: `eigenvalue_bounds`, `residuals`, `solver`.
    adata.varm["KPCs"] : loadings of the genes, for the linear kernel only; 0 for genes that were left out.

    With another key_added than "X_kpca", uns and varm have that key, too.
    """
    if not isinstance(adata, anndata("kpca.io.anndata").AnnData):
        raise InputError(f"adata must be an AnnData object; got {type(adata).__name__}: use kpca.KernelPCA for arrays.")
    if adata.isbacked and adata.is_view and not copy:
        raise InputError("adata must be able to hold results; a view of an object on the disk is not: use copy=True.")
    given = {"kernel": kernel, "gamma": gamma, "approximation": approximation, "random_state": random_state}
    model = _model(n_comps, {**given, **parameters})
    mask = told = None
    if layer is not None and use_rep is not None:
        raise InputError("Only one of layer and use_rep can be taken; got both: leave one out.")
    if use_rep is None or use_rep == "X":
        mask, told = _mask(adata, mask_var, use_highly_variable)
    elif not isinstance(mask_var, _IfMarked) and mask_var is not None:
        raise InputError("mask_var chooses genes; use_rep has none: leave one of them out.")
    X = _matrix(adata, layer, use_rep, mask)
    if isinstance(n_comps, int | np.integer) and not isinstance(n_comps, bool) and n_comps >= adata.n_obs:
        raise InputError(f"n_comps must be less than the number of cells, {adata.n_obs}; got {n_comps}.")
    scores = model.fit_transform(X)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    with warnings.catch_warnings():
        # A view becomes an object of its own when something is stored in it, which is what was asked for.
        warnings.simplefilter("ignore", anndata("").ImplicitModificationWarning)
        adata.obsm[key_added] = scores
        adata.uns["kpca" if key_added == _KEY else key_added] = _summary(
            model, {"layer": layer, "use_rep": use_rep, "mask_var": told}
        )
        if hasattr(model, "components_") and (use_rep is None or use_rep == "X"):
            taken = slice(None) if mask is None else mask
            loadings = np.zeros((adata.n_vars, scores.shape[1]), dtype=scores.dtype)
            loadings[taken] = model.components_.T
            adata.varm["KPCs" if key_added == _KEY else key_added] = loadings
    return adata if copy else None


def _model(n_comps: Any, parameters: dict[str, Any]) -> KernelPCA:
    known = list(KernelPCA().get_params(deep=False))
    for name in parameters:
        if name == "n_components":
            raise InputError("The number of components is called n_comps here; got n_components: rename it.")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise InputError(
                f"kpca must be given parameters of its own or of KernelPCA; got {name!r}"
                + (f": did you mean {close[0]!r}?" if close else ": leave it out.")
            )
    if isinstance(parameters["kernel"], str) and parameters["kernel"] == "precomputed":
        raise InputError("kernel must compare cells; 'precomputed' has none to compare: use kpca.KernelPCA directly.")
    return KernelPCA(n_comps, **parameters)


def _mask(adata: Any, mask_var: Any, use_highly_variable: bool | None) -> tuple[NDArray[np.bool_] | None, Any]:
    """Return which genes are taken, or None for all, and what to remember of the choice: the column, or the genes."""
    if use_highly_variable is not None:
        if not isinstance(mask_var, _IfMarked):
            raise InputError("Only one of mask_var and use_highly_variable can be given; got both: leave one out.")
        mask_var = _HIGHLY_VARIABLE if use_highly_variable else None
    if isinstance(mask_var, _IfMarked):
        mask_var = _HIGHLY_VARIABLE if _HIGHLY_VARIABLE in adata.var else None
    if mask_var is None:
        return None, None
    told = None
    if isinstance(mask_var, str):
        told = mask_var
        if mask_var not in adata.var:
            raise InputError(f"mask_var must be a column of adata.var; got {mask_var!r}{hint(mask_var, [*adata.var])}")
        mask_var = adata.var[mask_var]
    mask = np.asarray(mask_var)
    if str(getattr(mask_var, "dtype", "")) == "boolean" and not any(is_missing(one) for one in mask):
        mask = mask.astype(bool)  # the truth values of pandas that may be missing, and are not
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise InputError(f"mask_var must be one truth value for each of {adata.n_vars} genes; got shape {mask.shape}.")
    if not mask.any():
        raise InputError("mask_var must leave at least one gene; it leaves none: choose others, or mask_var=None.")
    return mask, mask if told is None else told


def _matrix(adata: Any, layer: str | None, use_rep: str | None, mask: NDArray[np.bool_] | None) -> Any:
    """Return the rows: an array or CSR in memory, or a dense matrix on the disk that is read in chunks."""
    where, key, known = ("X", None, None)
    if layer is not None:
        where, key, known = "layer", layer, adata.layers
    elif use_rep is not None and use_rep != "X":
        where, key, known = "use_rep", use_rep, adata.obsm
    if known is not None and key not in known:
        raise InputError(f"{where} must be one of those in adata; got {key!r}{hint(str(key), list(map(str, known)))}")
    X = adata.X if known is None else known[key]
    if X is None:
        raise InputError("adata.X must be there; it is None: choose a layer or use_rep.")
    names = adata.var_names if where != "use_rep" else None
    if hasattr(X, "to_memory"):  # sparse, on the disk: its entries are what has to be held anyway
        X = X.to_memory()
    if hasattr(X, "compute"):
        X = X.compute()
    if hasattr(X, "to_numpy"):  # a data frame in obsm
        names, X = X.columns, X.to_numpy()
    if sparse.issparse(X):
        X = sparse.csr_matrix(X)
    elif not hasattr(X, "chunks"):
        X = np.asarray(X)
    if X.dtype.kind not in "biuf":
        raise InputError(f"The matrix of adata must hold numbers; got {X.dtype}: convert it.")
    if hasattr(X, "chunks"):
        return X if mask is None else _SomeGenes(X, mask)
    if mask is not None:
        X, names = X[:, mask], adata.var_names[mask]
    check_finite(X, None if names is None else list(map(str, names)))
    return X


class _SomeGenes:
    """Columns of a matrix on the disk, read with its rows."""

    def __init__(self, X: Any, mask: NDArray[np.bool_]) -> None:
        self._X, self._columns = X, np.flatnonzero(mask)
        self.shape, self.dtype, self.chunks = (X.shape[0], len(self._columns)), X.dtype, X.chunks

    def __getitem__(self, rows: Any) -> FloatArray:
        part: FloatArray = self._X[rows][:, self._columns]
        return part


def _summary(model: KernelPCA, taken: dict[str, Any]) -> dict[str, Any]:
    """Return what uns holds of a fit: numbers, texts and arrays only, which H5AD can hold and None is not among."""
    given = {name: value for name, value in model.get_params(deep=False).items() if name != "n_components"}
    params = {
        "n_comps": model.n_components_,
        "version": __version__,
        **{name: _storable(value) for name, value in {**given, **taken}.items()},
    }
    return {
        "params": {name: value for name, value in params.items() if value is not None},
        "kernel": repr(model.kernel_),
        "gamma": float(model.gamma_) if np.ndim(model.gamma_) == 0 else np.asarray(model.gamma_, dtype=np.float64),
        "variance": model.explained_variance_,
        "variance_ratio": model.explained_variance_ratio_,
        "eigenvalues": model.eigenvalues_,
        "eigenvalue_bounds": model.eigenvalue_bounds_,
        "residuals": model.residuals_,
        "solver": model.solver_,
    }


def _storable(value: Any) -> Any:
    """Return a parameter as H5AD can hold it: what is no number, text or array as it is printed."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    return repr(value)
