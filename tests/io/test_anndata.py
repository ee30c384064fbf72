"""The door for single cells: results in the AnnData object, in memory and on disk, in scverse's convention."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from kpca import InputError, KernelPCA, config
from kpca import kernels as k
from kpca.io.anndata import kpca


def cells(form: str = "dense", n: int = 60, d: int = 12) -> Any:
    """Counts of some genes, which have names, layers and an embedding."""
    X = np.random.default_rng(0).poisson(2.0, size=(n, d)).astype(np.float32)
    matrix = {"dense": X, "csr": sparse.csr_matrix(X), "csc": sparse.csc_matrix(X), "array": sparse.csr_array(X)}[form]
    adata = ad.AnnData(matrix)
    adata.var_names = [f"gene{number}" for number in range(d)]
    adata.obs_names = [f"cell{number}" for number in range(n)]
    adata.layers["logs"] = np.log1p(X)
    adata.obsm["X_pca"] = X[:, :4].astype(np.float64)
    adata.var["chosen"] = np.arange(d) % 2 == 0
    return adata


def scores(X: Any, count: int, **parameters: Any) -> Any:
    return KernelPCA(count, kernel="rbf", gamma="median", random_state=0, **parameters).fit_transform(X)


@pytest.mark.parametrize("form", ["dense", "csr", "csc", "array"])
def test_scores_are_those_of_kernel_pca(form: str) -> None:
    adata = cells(form)
    assert kpca(adata, 5) is None
    expected = sparse.csr_matrix(adata.X) if form != "dense" else adata.X
    np.testing.assert_array_equal(adata.obsm["X_kpca"], scores(expected, 5))
    found = adata.uns["kpca"]
    assert found["params"]["n_comps"] == 5 and found["params"]["kernel"] == "rbf"
    assert len(found["variance"]) == len(found["variance_ratio"]) == 5
    assert found["eigenvalue_bounds"].shape == (5, 2) and found["kernel"].startswith("RBF(gamma=")
    assert "KPCs" not in adata.varm


def test_layers_embeddings_and_genes() -> None:
    adata = cells()
    kpca(adata, 3, layer="logs")
    np.testing.assert_array_equal(adata.obsm["X_kpca"], scores(adata.layers["logs"], 3))
    kpca(adata, 3, use_rep="X_pca", key_added="of_pca")
    np.testing.assert_array_equal(adata.obsm["of_pca"], scores(adata.obsm["X_pca"], 3))
    assert adata.uns["of_pca"]["params"]["use_rep"] == "X_pca"
    kpca(adata, 3, mask_var="chosen", key_added="some")
    np.testing.assert_array_equal(adata.obsm["some"], scores(adata.X[:, ::2], 3))
    assert adata.uns["some"]["params"]["mask_var"] == "chosen"
    kpca(adata, 3, mask_var=np.arange(12) < 6, key_added="first")
    np.testing.assert_array_equal(adata.obsm["first"], scores(adata.X[:, :6], 3))
    adata.obsm["frame"] = pd.DataFrame(adata.obsm["X_pca"], index=adata.obs_names, columns=list("abcd"))
    kpca(adata, 3, use_rep="frame", key_added="of_frame")
    np.testing.assert_array_equal(adata.obsm["of_frame"], adata.obsm["of_pca"])


def test_highly_variable_genes_are_taken_where_they_are_marked() -> None:
    adata = cells()
    kpca(adata, 3, key_added="all")
    adata.var["highly_variable"] = adata.var["chosen"]
    kpca(adata, 3, key_added="marked")
    np.testing.assert_array_equal(adata.obsm["marked"], scores(adata.X[:, ::2], 3))
    for options in ({"use_highly_variable": False}, {"mask_var": None}):
        kpca(adata, 3, key_added="again", **options)
        np.testing.assert_array_equal(adata.obsm["again"], adata.obsm["all"])


def test_the_linear_kernel_has_loadings() -> None:
    adata = cells()
    kpca(adata, 3, kernel="linear", mask_var="chosen")
    loadings = adata.varm["KPCs"]
    assert loadings.shape == (12, 3) and not loadings[1::2].any()
    centred = adata.X - adata.X.mean(axis=0)
    np.testing.assert_allclose(centred @ loadings, adata.obsm["X_kpca"], atol=1e-4)


def test_a_copy_leaves_the_original() -> None:
    adata = cells()
    other = kpca(adata, 3, copy=True)
    assert "X_kpca" not in adata.obsm and not adata.uns and other.obsm["X_kpca"].shape == (60, 3)


def test_a_view_gets_its_own_results() -> None:
    adata = cells("csr")
    view = adata[10:50, 2:]
    assert view.is_view
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kpca(view, 3)
    np.testing.assert_array_equal(view.obsm["X_kpca"], scores(adata.X[10:50, 2:], 3))
    assert "X_kpca" not in adata.obsm


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_files_that_back_an_object(form: str, tmp_path: Path) -> None:
    expected, path = cells(form), tmp_path / "cells.h5ad"
    expected.write_h5ad(path)
    kpca(expected, 4, mask_var="chosen")
    backed = ad.read_h5ad(path, backed="r")
    kpca(backed, 4, mask_var="chosen")
    np.testing.assert_allclose(backed.obsm["X_kpca"], expected.obsm["X_kpca"], atol=1e-6)
    copied = kpca(backed, 4, copy=True)
    assert not copied.isbacked and copied.obsm["X_kpca"].shape == (60, 4)
    part = backed[:30]
    kpca(part, 2, copy=True)
    backed.file.close()


def test_approximations_of_a_backed_matrix_read_it_in_chunks(tmp_path: Path) -> None:
    adata = cells(n=3000, d=8)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    kpca(backed, 3, approximation="nystroem", key_added="landmarks")
    kpca(adata, 3, approximation="nystroem", key_added="landmarks")
    np.testing.assert_allclose(
        np.abs(backed.obsm["landmarks"]), np.abs(adata.obsm["landmarks"]), atol=1e-3 * adata.obsm["landmarks"].max()
    )
    backed.file.close()


@pytest.mark.filterwarnings("ignore:The bandwidth is so small")
def test_everything_stored_can_be_written_and_comes_back(tmp_path: Path) -> None:
    adata = cells()
    kpca(adata, 3, kernel="linear")
    kpca(adata, 0.9, kernel=k.RBF(0.1) + k.Linear(), key_added="sum", mask_var=np.arange(12) < 6)
    kpca(adata, 3, gamma=np.linspace(0.1, 0.5, 12), key_added="each", random_state=np.random.RandomState(0))
    kpca(adata, "auto", approximation="rff", key_added="auto", preimage=None, n_jobs=1, layer="logs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adata.write_h5ad(tmp_path / "out.h5ad")
    back = ad.read_h5ad(tmp_path / "out.h5ad")
    for key in ("X_kpca", "sum", "each", "auto"):
        np.testing.assert_array_equal(back.obsm[key], adata.obsm[key])
    for key in ("kpca", "sum", "each", "auto"):
        assert set(back.uns[key]) == set(adata.uns[key]) and set(back.uns[key]["params"]) == set(
            adata.uns[key]["params"]
        )
    np.testing.assert_array_equal(back.uns["each"]["gamma"], np.linspace(0.1, 0.5, 12))
    np.testing.assert_array_equal(back.varm["KPCs"], adata.varm["KPCs"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer": "lags"}, "did you mean 'logs'?"),
        ({"layer": "something"}, "'logs'"),
        ({"use_rep": "X_umap"}, "'X_pca'"),
        ({"use_rep": "X_pca", "layer": "logs"}, "Only one of layer and use_rep"),
        ({"use_rep": "X_pca", "mask_var": "chosen"}, "mask_var"),
        ({"mask_var": "choosen"}, "did you mean 'chosen'?"),
        ({"mask_var": np.ones(3, dtype=bool)}, "12 genes"),
        ({"mask_var": np.zeros(12, dtype=bool)}, "at least one gene"),
        ({"mask_var": np.ones(12)}, "truth value"),
        ({"mask_var": "chosen", "use_highly_variable": True}, "Only one"),
        ({"use_highly_variable": True}, "'highly_variable'"),
        ({"n_comps": 60}, "less than the number of cells, 60"),
        ({"n_comps": 0}, "n_components"),
        ({"n_components": 3}, "n_comps"),
        ({"kernal": "rbf"}, "did you mean 'kernel'?"),
        ({"kernel": "precomputed"}, "precomputed"),
        ({"kernel": "rbff"}, "Did you mean 'rbf'?"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(options: dict[str, Any], words: str) -> None:
    adata = cells()
    with pytest.raises(InputError) as caught:
        kpca(adata, **{"n_comps": 3, **options})
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert set(adata.obsm) == {"X_pca"} and not adata.uns


def test_missing_values_are_named_by_gene() -> None:
    adata = cells()
    adata.X[3, 7] = np.nan
    with pytest.raises(InputError, match="'gene7'"):
        kpca(adata, 3)
    adata.X = sparse.csr_matrix(adata.X)
    with pytest.raises(InputError, match="'gene7'"):
        kpca(adata, 3)


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match="ndarray"):
        kpca(np.ones((5, 3)), 2)
    with pytest.raises(InputError, match=r"adata\.X"):
        kpca(ad.AnnData(obs=pd.DataFrame(index=["a", "b", "c"])), 1)


def test_without_anndata_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(InputError, match=r"pip install 'kpca\[anndata\]'"):
        kpca(np.ones((5, 3)), 2)


def test_the_memory_limit_holds_for_a_backed_matrix(tmp_path: Path) -> None:
    adata = cells(n=4000, d=50)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with config(memory_limit="128MiB"):
        kpca(backed, 3, approximation="nystroem")
    assert backed.obsm["X_kpca"].shape == (4000, 3)
    backed.file.close()


def test_a_view_of_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    cells().write_h5ad(tmp_path / "cells.h5ad")
    backed = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(InputError, match=r"a view of an object on the disk is not: use copy=True"):
        kpca(backed[:30], 3)
    assert kpca(backed[:30], 3, copy=True).obsm["X_kpca"].shape == (30, 3)
    backed.file.close()


def test_truth_values_that_may_be_missing_choose_genes_if_none_is() -> None:
    adata = cells()
    adata.var["chosen"] = pd.array([True] * 5 + [False] * (adata.n_vars - 5), dtype="boolean")
    kpca(adata, 3, mask_var="chosen", kernel="linear")
    assert not adata.varm["KPCs"][5:].any()
    adata.var["chosen"] = pd.array([True] * 5 + [None] * (adata.n_vars - 5), dtype="boolean")
    with pytest.raises(InputError, match="mask_var must be one truth value for each"):
        kpca(adata, 3, mask_var="chosen")
