"""IncrementalKernelPCA: batches equal the whole, streams, files, forgetting, drift, refusals."""

import joblib
import numpy as np
import pytest
import reference
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import check_estimator

import kpca
from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, RandomFeatures

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(size=(200, 5)), RNG.normal(size=(150, 5)) + 3.0, RNG.normal(size=(50, 5)) * 0.1 - 2.0])
X = X[RNG.permutation(len(X))]
NEW = RNG.normal(size=(30, 5))
POINTS = X[:60]
MODELS = {
    "linear": {"kernel": "linear"},
    "landmarks": {"kernel": "rbf", "gamma": 0.2, "approximation": Nystroem(60, landmarks=POINTS)},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.1, "approximation": Nystroem(60, landmarks=POINTS)},
    "random": {"kernel": "rbf", "gamma": 0.2, "approximation": RandomFeatures(128)},
}


def in_batches(model, rows, edges):
    for start, stop in zip([0, *edges], [*edges, len(rows)], strict=True):
        model.partial_fit(rows[start:stop])
    return model


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("edges", [[1, 2, 3], [100, 200, 300], [399]])
@pytest.mark.parametrize("name", ["linear", "landmarks", "poly"])
def test_batches_equal_one_fit_on_everything(name, edges, center):
    whole = IncrementalKernelPCA(4, center=center, **MODELS[name]).fit(X)
    parts = in_batches(IncrementalKernelPCA(4, center=center, **MODELS[name]), X, edges)
    np.testing.assert_allclose(parts.eigenvalues_, whole.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(np.abs(parts.transform(NEW)), np.abs(whole.transform(NEW)), atol=1e-8)
    assert parts.n_samples_seen_ == whole.n_samples_seen_ == len(X)
    assert parts.batches_seen_ == len(edges) + 1


def test_random_features_of_the_first_batch_serve_all_later_ones():
    parts = in_batches(IncrementalKernelPCA(3, random_state=1, **MODELS["random"]), X, [200])
    again = in_batches(IncrementalKernelPCA(3, random_state=1, **MODELS["random"]), X, [200, 300])
    np.testing.assert_allclose(parts.eigenvalues_, again.eigenvalues_, rtol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_linear_kernel_is_pca_of_all_rows(offset):
    rows = X * [5, 4, 3, 2, 1] + offset
    ours = in_batches(IncrementalKernelPCA(3), rows, [50, 51, 300])
    theirs = PCA(3, svd_solver="full").fit(rows)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(ours.transform(rows[:20]), theirs.transform(rows[:20]), atol=1e-6)
    assert ours.unexplained_ == 0.0


@pytest.mark.parametrize("kernel", ["rbf", "poly", "matern32", "laplacian"])
def test_all_rows_as_landmarks_give_exact_kernel_pca(kernel):
    rows = X[:120]
    K = reference.kernel_values(kernel, rows, rows, gamma=0.2)
    values, _ = reference.spectrum(reference.centred(K))
    model = IncrementalKernelPCA(
        5, kernel=kernel, gamma=0.2, approximation=Nystroem(120, landmarks=np.arange(120))
    ).fit(rows)
    np.testing.assert_allclose(model.eigenvalues_, values[:5], rtol=1e-7)
    expected = reference.scores(K, reference.kernel_values(kernel, NEW, rows, gamma=0.2), 5)
    np.testing.assert_allclose(np.abs(model.transform(NEW)), np.abs(expected), atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", ["rbf", "poly", "exponential"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bounds_contain_the_exact_eigenvalues(kernel, dtype):
    model = IncrementalKernelPCA(8, kernel=kernel, gamma=0.1, approximation=Nystroem(40), warm_up=100)
    model = in_batches(model, X.astype(dtype), [150, 250])
    K = reference.kernel_values(kernel, X.astype(dtype), X.astype(dtype), gamma=0.1)
    values = reference.spectrum(reference.centred(K))[0][:8]
    assert (model.eigenvalue_bounds_[:, 0] <= values).all()
    assert (values <= model.eigenvalue_bounds_[:, 1]).all()
    assert 0.0 < model.unexplained_ < 1.0


def test_landmarks_wait_for_enough_rows_and_results_are_there_meanwhile():
    model = IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(20), warm_up=150)
    for start in range(0, 400, 50):
        model.partial_fit(X[start : start + 50])
        assert model.n_samples_seen_ == start + 50
        assert model.transform(NEW).shape == (30, 2)
        if start + 50 >= 150:
            landmarks = model.feature_map_.landmarks
            assert (landmarks[:, None] == X[:150]).all(axis=2).any(axis=1).all()  # from the first 150 rows


def test_forgetting_equals_weights():
    faded = IncrementalKernelPCA(2, forgetting=0.5, **MODELS["landmarks"])
    in_batches(faded, X, [100, 200])
    weights = np.repeat([0.25, 0.5, 1.0], [100, 100, 200])
    weighted = IncrementalKernelPCA(2, **MODELS["landmarks"]).fit(X, sample_weight=weights)
    np.testing.assert_allclose(faded.eigenvalues_, weighted.eigenvalues_, rtol=1e-10)
    assert faded.mass_ == pytest.approx(weights.sum())


def test_drift_sees_a_change_and_not_a_repetition():
    steady = IncrementalKernelPCA(1, kernel="linear")
    assert np.isnan(steady.partial_fit(RNG.normal(size=(500, 3)) * [5, 1, 1]).drift_)
    same = steady.partial_fit(RNG.normal(size=(500, 3)) * [5, 1, 1]).drift_
    turned = steady.partial_fit(RNG.normal(size=(5000, 3)) * [1, 9, 1]).drift_
    assert same < 0.01
    assert turned > 0.9


def test_weights_and_sparse_rows():
    w = RNG.integers(0, 3, size=len(X))
    weighted = IncrementalKernelPCA(3, **MODELS["landmarks"]).fit(X, sample_weight=w)
    repeated = IncrementalKernelPCA(3, **MODELS["landmarks"]).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    S = sparse.random(300, 20, density=0.2, random_state=0, format="csr")
    ours = IncrementalKernelPCA(3, kernel="rbf", approximation=Nystroem(50, landmarks=np.arange(50)))
    dense = clone(ours).fit(S.toarray())
    np.testing.assert_allclose(ours.fit(S).eigenvalues_, dense.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(ours.transform(S[:9])), np.abs(dense.transform(S.toarray()[:9])), atol=1e-8)


def test_files_and_iterables_equal_arrays(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    model = IncrementalKernelPCA(3, **MODELS["landmarks"])
    expected = clone(model).fit(X).eigenvalues_
    chunks = [X[:100], X[100:250], X[250:]]
    for source in (tmp_path / "rows.npy", np.load(tmp_path / "rows.npy", mmap_mode="r"), chunks, iter(chunks)):
        np.testing.assert_allclose(clone(model).fit(source).eigenvalues_, expected, rtol=1e-10)


def test_a_generator_chooses_landmarks_from_its_first_rows():
    model = IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(20), warm_up=100)
    model.fit(X[start : start + 50] for start in range(0, 400, 50))
    assert model.n_samples_seen_ == 400
    assert model.feature_map_.rank <= 20


def test_a_refused_batch_changes_nothing():
    model = IncrementalKernelPCA(2, **MODELS["landmarks"]).partial_fit(X[:200])
    before, bad = model.eigenvalues_.copy(), X[200:].copy()
    bad[7, 3] = np.nan
    for batch, said in (
        (bad, "NaN first in column 3"),
        (X[:10, :4], "4 features"),
        (X[:0], "0 sample"),
        (X[:10].astype(np.float32), "float32"),
    ):
        with pytest.raises(InputError, match=said):
            model.partial_fit(batch)
        np.testing.assert_array_equal(model.eigenvalues_, before)
        assert model.n_samples_seen_ == 200
    with pytest.raises(InputError):
        model.fit(bad)
    np.testing.assert_array_equal(model.eigenvalues_, before)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": 9, "kernel": "rbf", "approximation": Nystroem(8)}, "at least as many features"),
        ({"forgetting": 0.0}, "forgetting must be"),
        ({"forgetting": 1.5}, "forgetting must be"),
        ({"warm_up": 0}, "warm_up must be"),
        ({"approximation": None}, "explicit features"),
        ({"approximation": "auto"}, "explicit features"),
        ({"approximation": "nystrom"}, "Did you mean 'nystroem'"),
        ({"kernel": "precomputed"}, "use KernelPCA"),
        ({"kernel": "rbf", "approximation": Nystroem(5, kernel="rbf")}, "kernel is that of the estimator"),
    ],
)
def test_bad_parameters_get_one_sentence(parameters, said):
    model = IncrementalKernelPCA(**parameters)
    with pytest.raises(InputError, match=said):
        _ = model.fit(X).eigenvalues_


def test_scikit_learn_contract(tmp_path):
    check_estimator(IncrementalKernelPCA(2))
    check_estimator(IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(10)))
    model = IncrementalKernelPCA(2, **MODELS["landmarks"]).fit(X)
    joblib.dump(model, tmp_path / "model")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model").transform(NEW), model.transform(NEW))
    assert list(model.set_output(transform="pandas").transform(NEW).columns) == [
        "incrementalkernelpca0",
        "incrementalkernelpca1",
    ]


def test_close_to_the_exact_model():
    rows = np.vstack([X, X + 0.1])
    exact = KernelPCA(3, kernel="rbf", gamma=0.1).fit(rows)
    model = IncrementalKernelPCA(3, kernel="rbf", gamma=0.1, approximation=Nystroem(200)).fit(rows)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-2)
    ours, theirs = model.transform(NEW), exact.transform(NEW)
    assert all(abs(np.corrcoef(ours[:, j], theirs[:, j])[0, 1]) > 0.99 for j in range(3))
    assert kpca.IncrementalKernelPCA is IncrementalKernelPCA


@pytest.mark.parametrize("name", ["linear", "landmarks"])
def test_progress_counts_rows_and_can_cancel(name, capsys):
    heard = []
    with kpca.config(progress=heard.append):
        IncrementalKernelPCA(2, **MODELS[name]).fit([X[:150], X[150:]])
        assert [state["rows"] for state in heard] == [150, 400]
        assert heard[-1]["of"] == 400 and heard[-1]["remaining"] == 0.0
        heard.clear()
        KernelPCA(2, **{**MODELS["landmarks"], "kernel": "rbf"}).fit(X)
        assert heard[-1]["rows"] == 400
    with kpca.config(progress=True):
        IncrementalKernelPCA(2, **MODELS[name]).fit(iter([X[:150], X[150:]]))
        IncrementalKernelPCA(2, **MODELS[name]).fit(X)
    assert "400 of 400 rows" in capsys.readouterr().err
    model = IncrementalKernelPCA(2, **MODELS[name]).fit(X[:200])
    before = model.eigenvalues_
    with kpca.config(progress=lambda state: False), pytest.raises(kpca.Cancelled, match="after 100 rows"):
        model.partial_fit(X[:100])
    np.testing.assert_array_equal(model.eigenvalues_, before)
    assert model.n_samples_seen_ == 200


# -- Batches that are refused, at any moment, and batches of another form ---------------------------------------------

GOOD = np.abs(RNG.normal(size=(240, 4)))
STREAMS = {
    "linear": {"kernel": "linear"},
    "landmarks": {"kernel": "rbf", "gamma": "median", "approximation": Nystroem(15), "warm_up": 150},
    "poly": {"kernel": "poly", "gamma": 0.3, "approximation": Nystroem(15), "warm_up": 150},
    "chi2": {"kernel": "chi2", "gamma": 0.3, "approximation": Nystroem(15), "warm_up": 150},
    "random": {"kernel": "rbf", "gamma": 0.3, "approximation": RandomFeatures(64)},
    "preimage": {"kernel": "rbf", "gamma": 0.3, "approximation": Nystroem(15), "warm_up": 150, "preimage": "ridge"},
}


def states(model, *, batches=True):
    """Return all that a stream shows, to the bit."""
    found = (model.eigenvalues_, model.eigenvalue_bounds_, model.mass_, model.n_samples_seen_, model.drift_)
    found += (model.transform(GOOD[:9]), model.batches_seen_ if batches else 0)
    return found if model.preimage is None else (*found, model.inverse_transform(model.transform(GOOD[:9])))


def refusals(name):
    """Return batches that a stream must refuse whenever they come, with their weights."""
    missing, ones, many = np.where(np.eye(30, 4), np.nan, GOOD[:30]), GOOD[:30], np.ones(30)
    yield from {
        "NaN": (missing, None),
        "infinity": (np.where(np.eye(30, 4), np.inf, ones), None),
        "texts": (np.array([["a"] * 4] * 3, dtype=object), None),
        "nothing": (ones[:0], None),
        "a vector": (ones[:, 0], None),
        "complex": (ones + 1j, None),
        "negative weights": (ones, -many),
        "weights of other rows": (ones, many[:-1]),
        "weights that overflow": (ones, 1e308 * many),
    }.items()
    if name in ("linear", "poly"):
        yield "numbers whose squares overflow", (ones * 1e80, None)
    if name == "chi2":
        yield "negative numbers", (-ones, None)
    if name in ("chi2", "preimage"):
        yield "sparse rows", (sparse.csr_matrix(ones), None)
    if name == "preimage":
        yield "rows too large to come back to", (ones * 1e80, None)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("name", STREAMS)
def test_a_refused_batch_leaves_the_bits_of_a_stream_that_never_saw_it(name, at):
    good = [GOOD[start : start + 60] for start in range(0, 240, 60)]
    untouched = IncrementalKernelPCA(3, **STREAMS[name], random_state=np.random.RandomState(0))
    for batch in good:
        untouched.partial_fit(batch)
    expected = states(untouched)
    for what, (rows, weights) in refusals(name):
        model = IncrementalKernelPCA(3, **STREAMS[name], random_state=np.random.RandomState(0))
        for number, batch in enumerate(good):
            if number == at:
                with pytest.raises(InputError):
                    model.partial_fit(rows, sample_weight=weights)
                assert hasattr(model, "n_features_in_") == (at > 0)
            model.partial_fit(batch)
        for ours, theirs in zip(states(model), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=what)


@pytest.mark.parametrize("first", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("name", ["linear", "landmarks", "poly", "random"])
def test_dense_and_sparse_batches_make_one_stream(name, at, first):
    other = sparse.csr_array if first is np.asarray else np.asarray
    mixed, dense = (IncrementalKernelPCA(3, **STREAMS[name]) for _ in range(2))
    for number in range(4):
        batch = GOOD[60 * number : 60 * (number + 1)]
        mixed.partial_fit((other if number == at else first)(batch))
        dense.partial_fit(batch)
        np.testing.assert_allclose(mixed.eigenvalues_, dense.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(mixed.transform(GOOD), dense.transform(GOOD), atol=1e-7 * np.abs(GOOD).max())


def test_a_batch_of_other_columns_is_refused_while_rows_are_waited_for():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GOOD, columns=list("abcd"))
    model = IncrementalKernelPCA(3, **STREAMS["landmarks"]).partial_fit(frame[:60])
    renamed, shuffled = frame[:60].rename(columns={"a": "e"}), frame[list("bacd")][:60]
    for batch in (renamed, shuffled, frame[["a", "b", "c"]], frame[:60].astype(np.float32)):
        with pytest.raises(InputError):
            model.partial_fit(batch)
    untouched = IncrementalKernelPCA(3, **STREAMS["landmarks"]).partial_fit(frame[:60]).partial_fit(frame[60:])
    np.testing.assert_array_equal(model.partial_fit(frame[60:]).transform(frame), untouched.transform(frame))


def test_errors_of_random_features_that_cannot_be_measured_are_no_errors_of_nan():
    rows = sparse.vstack([sparse.csr_array(GOOD[:30]), sparse.csr_array(GOOD[:30] * 1e160)])
    for model in (KernelPCA(3, kernel="rbf", approximation="rff"), IncrementalKernelPCA(3, **STREAMS["random"])):
        with pytest.raises(InputError, match="must be finite"):
            model.fit(rows)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("name", STREAMS)
def test_a_batch_of_weights_of_zero_is_one_without_rows(name, at, tmp_path):
    good = [GOOD[start : start + 60] for start in range(0, 240, 60)]
    untouched, model = (IncrementalKernelPCA(3, **STREAMS[name], forgetting=0.7) for _ in range(2))
    for number, batch in enumerate(good):
        if number == at:
            model.partial_fit(GOOD[:30], sample_weight=np.zeros(30))
            assert hasattr(model, "n_samples_seen_") == (at > 0)  # without rows it is not fitted
            kpca.save(model, tmp_path / "model.kpca")
            model = kpca.load(tmp_path / "model.kpca")
        model.partial_fit(batch)
        untouched.partial_fit(batch)
    assert (model.batches_seen_, untouched.batches_seen_) == (5, 4)
    for ours, theirs in zip(states(model, batches=False), states(untouched, batches=False), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["linear", "landmarks", "poly"])
def test_chunks_of_weights_of_zero_are_absent(name):
    model = IncrementalKernelPCA(3, **MODELS[name], forgetting=0.7)
    chunks, weights = [X[:100], X[100:250], X[250:]], np.repeat([1.0, 0.0, 2.0], [100, 150, 150])
    fitted = clone(model).fit(chunks, sample_weight=weights)
    without = clone(model).fit([X[:100], X[250:]], sample_weight=weights[weights > 0])
    np.testing.assert_array_equal(fitted.eigenvalues_, without.eigenvalues_)
    assert (fitted.n_samples_seen_, fitted.mass_) == (without.n_samples_seen_, without.mass_)
    with pytest.raises(InputError, match="zeros only"):
        model.fit(chunks, sample_weight=0.0 * weights)
