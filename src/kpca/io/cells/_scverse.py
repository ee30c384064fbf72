"""The only file that imports anndata and h5py, which hold annotated matrices in memory and on disk."""

from __future__ import annotations

from typing import Any

from kpca.errors import InputError


def anndata(doing: str) -> Any:
    """Return anndata, or say what it is needed for."""
    try:
        import anndata
        import anndata.io
    except ImportError as error:
        raise InputError(f"{doing} needs anndata: pip install 'kpca[anndata]'.") from error
    return anndata


def h5py(doing: str) -> Any:
    """Return h5py, which comes with anndata, or say what it is needed for."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{doing} needs h5py: pip install 'kpca[anndata]'.") from error
    return h5py
