"""Component maps: contours are where the model says, and the pictures of the textbooks come out."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, InputError, KernelPCA, plots
from kpca.plots import ComponentMapDisplay

X, Y = make_moons(80, noise=0.05, random_state=0)
IRIS = load_iris().data


def fitted(k: int = 4) -> KernelPCA:
    return KernelPCA(k, kernel="rbf", gamma=4.0).fit(X)


def three_clusters() -> tuple[Any, Any]:
    """Bishop's figure 12.17: three clusters in the plane, k(x, x') = exp(-|x - x'|^2 / 0.1)."""
    rng = np.random.default_rng(0)
    middles = np.array([[-0.5, -0.2], [0.0, 0.6], [0.5, 0.0]])
    return np.concatenate([middle + 0.1 * rng.standard_normal((30, 2)) for middle in middles]), np.repeat(range(3), 30)


def test_contours_pass_where_the_model_has_their_value() -> None:
    model = fitted()
    display = ComponentMapDisplay.from_estimator(model, X, resolution=120)
    for component, contours in zip(display.components, display.contours_, strict=True):
        span = np.ptp(display.values[component])
        assert len(contours.levels) >= 6 and 0.0 in contours.levels
        for level, path in zip(contours.levels, contours.get_paths(), strict=True):
            found = model.transform(path.vertices)[:, component]
            assert np.abs(found - level).max() < 0.01 * span


def test_values_are_those_of_the_model() -> None:
    model = fitted()
    display = ComponentMapDisplay.from_estimator(model, X, resolution=9, components=[3, 1])
    for i, j in [(0, 0), (4, 7), (8, 2)]:
        expected = model.transform([[display.x[j], display.y[i]]])[0, [3, 1]]
        np.testing.assert_allclose(display.values[:, i, j], expected, rtol=1e-9, atol=1e-12)
    assert display.x[0] < X[:, 0].min() and display.x[-1] > X[:, 0].max()


def test_signs_are_seen_without_colour() -> None:
    display = ComponentMapDisplay.from_estimator(fitted(), X, resolution=40)
    for contours in display.contours_:
        for level, style in zip(contours.levels, contours.get_linestyle(), strict=True):
            assert (style[1] is not None) == (level < 0.0)  # dashes below 0


def test_titles_say_the_eigenvalues() -> None:
    model = fitted()
    display = ComponentMapDisplay.from_estimator(model, X, resolution=20)
    for number, axes in enumerate(display.axes_):
        share = 100 * model.explained_variance_ratio_[number]
        title = axes.get_title(loc="left")
        assert title.startswith(f"component {number + 1}, λ = {model.eigenvalues_[number]:#.3g}")
        assert title.endswith(f"{share:.1f} %")


def test_the_three_clusters_of_the_textbook() -> None:
    """Components 1 and 2 separate the clusters, 3 to 8 lie within them."""
    C, member = three_clusters()
    model = KernelPCA(8, kernel="rbf", gamma=10.0).fit(C)
    display = ComponentMapDisplay.from_estimator(model, C, member)
    assert len(display.axes_) == 8
    scores = model.transform(C)
    between = np.array([scores[member == c].mean(axis=0) for c in range(3)])[member]
    share = (between**2).sum(axis=0) / (scores**2).sum(axis=0)
    assert share[:2].min() > 0.9 and share[2:].max() < 0.1
    # the first two are of one sign on each cluster, the others change it within one
    signs = np.array([[np.ptp(np.sign(scores[member == c, j])) for c in range(3)] for j in range(8)])
    assert (signs[2:].max(axis=1) == 2).all()
    assert len(display.figure_.legends[0].get_texts()) == 3


def test_all_other_variables_are_at_their_medians() -> None:
    model = KernelPCA(2, kernel="rbf", gamma=0.3).fit(IRIS)
    display = ComponentMapDisplay.from_estimator(
        model, IRIS, features=(2, "sepal width"), names=["a", "sepal width", "c", "d"], resolution=8
    )
    row = np.median(IRIS, axis=0)
    row[[2, 1]] = display.x[3], display.y[5]
    np.testing.assert_allclose(display.values[:, 5, 3], model.transform(row[None])[0], rtol=1e-9)
    assert display.names == ("c", "sepal width")
    assert display.note.startswith("All other variables are at their medians: a = 5.80, d = 1.30.")
    assert display.figure_.get_suptitle() == display.note


@pytest.mark.parametrize("kind", ["pipeline", "frame", "polars", "sparse", "float32", "incremental", "list"])
def test_any_rows_and_models(kind: str, recwarn: Any) -> None:
    rows: Any = X
    model: Any = KernelPCA(3, kernel="rbf", gamma=2.0)
    if kind == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    elif kind in {"frame", "polars"}:
        rows = pytest.importorskip({"frame": "pandas", "polars": "polars"}[kind]).DataFrame(
            dict(zip("ab", X.T, strict=True))
        )
    elif kind == "sparse":
        rows = sparse.csr_array(X)
    elif kind == "float32":
        rows = X.astype(np.float32)
    elif kind == "incremental":
        model = IncrementalKernelPCA(3, kernel="rbf", gamma=2.0)
    elif kind == "list":
        rows = X.tolist()
    model.fit(rows)
    display = ComponentMapDisplay.from_estimator(model, rows, resolution=6)
    assert display.values.shape == (3, 6, 6)
    np.testing.assert_allclose(display.points, X, rtol=1e-6)
    assert display.names == (("a", "b") if kind in {"frame", "polars"} else ("x0", "x1"))
    assert not [one for one in recwarn if "feature names" in str(one.message)]


def test_medians_of_sparse_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a grid that is made in parts."""
    monkeypatch.setattr("kpca.plots.maps._NUMBERS", 70)
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(61, 30)) * (rng.random((61, 30)) < np.linspace(0.2, 1.0, 30))
    rows = sparse.csr_array(dense)
    model = KernelPCA(2, kernel="rbf", gamma=0.3).fit(rows)
    display = ComponentMapDisplay.from_estimator(model, rows, resolution=7)
    row = np.median(dense, axis=0)
    row[:2] = display.x[6], display.y[2]
    np.testing.assert_allclose(display.values[:, 2, 6], model.transform(row[None])[0], rtol=1e-6, atol=1e-9)


def test_drawn_twice_and_into_axes() -> None:
    display = ComponentMapDisplay.from_estimator(fitted(2), X, Y, resolution=20)
    first = display.figure_
    panels = Figure().subplots(1, 2)
    assert display.plot(ax=panels, levels=4, filled=False).figure_ is panels[0].figure is not first
    assert not display.fills_ and len(display.contours_) == 2
    assert panels[0].get_xlim() == (display.x[0], display.x[-1])
    assert len(plots.component_maps(fitted(1), X, resolution=5).axes) == 1


def test_many_rows_are_a_sample() -> None:
    rows = np.repeat(X, 100, axis=0) + 1e-3 * np.random.default_rng(0).normal(size=(8_000, 2))
    display = ComponentMapDisplay.from_estimator(fitted(1), rows, resolution=10)
    assert len(display.axes_[0].collections[-1].get_offsets()) == 3_000


@pytest.mark.parametrize("size", [1e-300, 1e200])
def test_extreme_sizes(size: float) -> None:
    x = np.linspace(-1.0, 1.0, 12)
    V = np.add.outer(x, x)[None]
    display = ComponentMapDisplay(x=x * size, y=x, values=V * size, components=[0], points=X * [size, 1.0]).plot()
    display.figure_.draw_without_rendering()
    assert "10^{" in display.axes_[0].get_xlabel() and "10^{" not in display.axes_[0].get_ylabel()
    assert len(display.contours_[0].levels) >= 6


def test_a_component_that_is_the_same_everywhere() -> None:
    display = ComponentMapDisplay(x=[0, 1], y=[0, 1], values=np.zeros((1, 2, 2)), components=[0], points=X).plot()
    display.figure_.draw_without_rendering()
    assert display.contours_ == [None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": (0, 0)}, "features must be two columns"),
        ({"features": (0, 2)}, r"number from 0 to 1; got \(0, 2\)"),
        ({"features": "ab"}, "features must be two columns"),
        ({"components": (0, 4)}, "at most 24 of 0 to 3"),
        ({"components": 0}, "how many maps to draw"),
        ({"resolution": 1}, "resolution must be"),
        ({"levels": 0}, "levels must be"),
        ({"ax": Figure().subplots()}, "ax must be 4 matplotlib axes"),
        ({"names": ["a"]}, "names must be one for each of the 2 columns"),
    ],
)
def test_what_cannot_be_mapped(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ComponentMapDisplay.from_estimator(fitted(), X, **{"resolution": 4, **arguments})


def test_rows_without_a_plane() -> None:
    with pytest.raises(InputError, match="precomputed kernel has none"):
        plots.component_maps(KernelPCA(2, kernel="precomputed").fit(X @ X.T), X @ X.T)
    with pytest.raises(InputError, match="2 columns or more"):
        plots.component_maps(KernelPCA(1).fit(X[:, :1]), X[:, :1])
