"""Names of columns and rows reach every table: from arrays, pandas and polars frames, pipelines; extremes."""

import builtins
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, explain

NAMES = ["length", "width", "height", "weight"]
ALL = [explain.importance, explain.permutation_importance, explain.arrows]


def rows(n: int = 50) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 4)) * [3.0, 1.0, 2.0, 0.5]


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES, index=[f"row {i}" for i in range(len(X))]),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}


@pytest.mark.parametrize("explanation", ALL)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("kind", ["exact", "stream"])
def test_names_survive_from_frames_to_every_table(kind, frame, explanation):
    X = FRAMES[frame](rows())
    exact = kind == "exact"
    model = (KernelPCA if exact else IncrementalKernelPCA)(2, kernel="rbf", gamma=0.05).fit(X)
    found = explanation(model, X)
    assert found.names == tuple(NAMES)
    assert list(found.to_pandas().index) == NAMES
    lines = str(found).splitlines()
    assert {line.split()[0] for line in lines[4:]} == set(NAMES)
    assert found.top(1)[0][0] == lines[4].split()[0]
    if exact:  # and without the frame, from what the model remembers
        assert explanation(model).names == tuple(NAMES)


@pytest.mark.parametrize("explanation", ALL)
def test_names_of_a_frame_are_used_where_the_model_knows_none(explanation):
    model = KernelPCA(2).fit(rows())
    assert explanation(model, rows()).names == ("x0", "x1", "x2", "x3")
    with pytest.warns(UserWarning, match="feature names"):
        assert explanation(model, FRAMES["pandas"](rows())).names == tuple(NAMES)
    assert explanation(model, names=["a", "b", "c", "d"]).names == ("a", "b", "c", "d")
    assert explanation(KernelPCA(2).fit(FRAMES["pandas"](rows())), names=list("abcd")).names == tuple("abcd")


@pytest.mark.parametrize("explanation", ALL)
def test_rows_from_chunks_are_sampled(explanation, tmp_path):
    X = rows(200)
    np.save(tmp_path / "rows.npy", X)
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    found = explanation(model, tmp_path / "rows.npy", max_rows=30)
    assert len(found.names) == 4
    assert (found.positions.shape[0] if hasattr(found, "positions") else found.rows) == 30


@pytest.mark.parametrize("explanation", ALL)
def test_pipelines_are_explained_in_the_columns_of_their_last_step(explanation):
    frame = FRAMES["pandas"](rows())
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), KernelPCA(2, kernel="rbf"))
    pipeline.fit(frame)
    found = explanation(pipeline, frame)
    assert found.names[:6] == ("length", "width", "height", "weight", "length^2", "length width")
    assert explanation(pipeline).names == found.names
    transformed = pipeline[:-1].transform(frame)
    np.testing.assert_array_equal(found.to_pandas(), explanation(pipeline[-1], transformed).to_pandas())
    alone = make_pipeline(KernelPCA(2)).fit(frame)
    assert explanation(alone, frame).names == tuple(NAMES)


def test_pipelines_without_names_fall_back_to_numbers():
    X = rows()
    nameless = make_pipeline(FunctionTransformer(np.tanh), "passthrough", KernelPCA(2)).fit(X)
    assert explain.importance(nameless, X).names == ("x0", "x1", "x2", "x3")
    framed = make_pipeline(StandardScaler().set_output(transform="pandas"), KernelPCA(2)).fit(FRAMES["pandas"](X))
    assert explain.importance(framed, FRAMES["pandas"](X)).names == tuple(NAMES)
    with pytest.raises(InputError, match="got StandardScaler"):
        explain.importance(make_pipeline(StandardScaler()).fit(X), X)


def test_tables_say_what_they_leave_out():
    X = np.random.default_rng(0).standard_normal((60, 20))
    found = explain.importance(KernelPCA(8, kernel="rbf").fit(X))
    lines = str(found).splitlines()
    assert lines[-1] == "... and 5 more variables and 2 more components"
    assert "component 6" in lines[2] and "component 7" not in lines[2]
    assert len({len(line) for line in lines[2:-1]}) == 1
    assert found.to_pandas().shape == (20, 9)
    assert [name for name, _ in found.top(3)] == [f"x{column}" for column in found.order[:3]]
    values = [value for _, value in found.top(20)]
    assert values == sorted(values, reverse=True)


def test_results_are_frozen():
    found = explain.importance(KernelPCA(2).fit(rows()))
    with pytest.raises(FrozenInstanceError):
        found.values = None


def test_without_pandas_to_pandas_says_so_in_a_sentence(monkeypatch):
    found = explain.importance(KernelPCA(2).fit(rows()))
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="to_pandas needs pandas, which is not installed"):
        found.to_pandas()


# -- extremes ---------------------------------------------------------------------------------------------------------


def sorted_ends(scores: np.ndarray, n: int) -> tuple[list[int], list[int]]:
    by_score = sorted(range(len(scores)), key=lambda i: (scores[i], i))
    return by_score[:n], sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:n]


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_extremes_are_the_first_and_last_of_the_sorted_scores(kernel):
    X = rows()
    model = KernelPCA(3, kernel=kernel).fit(X)
    scores = model.transform(X)
    found = explain.extremes(model, X, n=4, components=[2, 0])
    for place, j in enumerate([2, 0]):
        lowest, highest = sorted_ends(scores[:, j], 4)
        assert found.lowest[place].tolist() == lowest
        assert found.highest[place].tolist() == highest
        np.testing.assert_array_equal(found.highest_scores[place], scores[highest, j])
        np.testing.assert_array_equal(found.lowest_scores[place], scores[lowest, j])
    kept = explain.extremes(model, n=4, components=[2, 0])
    np.testing.assert_array_equal(kept.highest, found.highest)
    assert explain.extremes(model, X[:3], n=9).highest.shape == (3, 3)


def test_extremes_of_rows_that_other_models_keep():
    X = rows()
    few = KernelPCA(2, kernel="rbf", approximation=Nystroem(rank=10), random_state=0).fit(X)
    assert explain.extremes(few).labels.tolist() == list(range(10))
    K = X @ X.T
    matrix = KernelPCA(2, kernel="precomputed").fit(K)
    np.testing.assert_array_equal(explain.extremes(matrix).highest, explain.extremes(matrix, K).highest)
    with pytest.raises(InputError, match="X must be given"):
        explain.extremes(IncrementalKernelPCA(2).fit(X))
    with pytest.raises(InputError, match="got ndarray"):
        explain.extremes(X)


def test_extremes_are_called_what_the_rows_are_called():
    X, frame = rows(), FRAMES["pandas"](rows())
    model = KernelPCA(2).fit(frame)
    numbers = explain.extremes(model, frame, n=2)
    label = f"row {numbers.highest[0, 0]}"
    assert numbers.top(1)[0] == ("component 1", label, pytest.approx(numbers.highest_scores[0, 0]))
    assert str(numbers).splitlines()[2].split()[2:4] == label.split()
    assert numbers.to_pandas()["row"][0] == label
    assert numbers.to_pandas().shape == (8, 5)
    ids = [(i, "x") for i in range(50)]
    assert explain.extremes(model, frame, n=1, ids=ids).top(1)[0][1] == (int(numbers.highest[0, 0]), "x")
    assert explain.extremes(KernelPCA(2).fit(X), FRAMES["polars"](X).to_numpy()).labels.tolist() == list(range(50))
    with pytest.raises(InputError, match="ids must be one for each of the 50 rows; got 3"):
        explain.extremes(model, frame, ids=[1, 2, 3])
    with pytest.raises(InputError, match="n must be a whole number from 1"):
        explain.extremes(model, frame, n=0)


def test_extremes_of_a_pipeline():
    frame = FRAMES["pandas"](rows())
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf")).fit(frame)
    found = explain.extremes(pipeline, frame, n=1)
    assert found.top(1)[0][1] == f"row {np.argmax(pipeline.transform(frame)[:, 0])}"
