"""Models in notebooks: scikit-learn's diagram, and once fitted the spectrum with its certificate."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from kpca import IncrementalKernelPCA, KernelPCA, KernelPCADetector, Nystroem

X = np.random.default_rng(0).normal(size=(60, 3))


def figure(html: str) -> ET.Element:
    """The figure of a page, which must be well formed."""
    return ET.fromstring(html[html.index("<figure") : html.index("</figure>") + len("</figure>")])


FITTED: dict[str, Any] = {
    "exact": lambda: KernelPCA(3, kernel="rbf").fit(X),
    "one": lambda: KernelPCA(1).fit(X),
    "many": lambda: KernelPCA(kernel="rbf").fit(X),
    "landmarks": lambda: KernelPCA(3, kernel="rbf", approximation=Nystroem(20)).fit(X),
    "random": lambda: KernelPCA(3, kernel="rbf", approximation="rff").fit(X),
    "stream": lambda: IncrementalKernelPCA(2, kernel="rbf").fit(X),
    "linear stream": lambda: IncrementalKernelPCA(2).fit(X),
    "detector": lambda: KernelPCADetector().fit(X),
    "precomputed": lambda: KernelPCA(2, kernel="precomputed").fit(X @ X.T),
}


@pytest.mark.parametrize("name", FITTED)
def test_fitted_models_show_their_spectrum(name: str) -> None:
    model = FITTED[name]()
    html = model._repr_html_()
    assert "sk-top-container" in html
    found = figure(html)
    core = getattr(model, "model_", model)
    bars = found.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(bars) == min(core.n_components_, 30)
    heights = [float(bar.get("height", "nan")) for bar in bars]
    assert heights == sorted(heights, reverse=True) and max(heights) <= 150
    caption = found.findtext("figcaption") or ""
    assert f"{core.n_components_} component" in caption and "60 rows" in caption
    assert "largest" in caption
    assert "<script" not in html[html.index("<figure") :] and "http" not in caption
    assert model._repr_mimebundle_()["text/html"].count("<figure") == 1


def test_what_is_not_fitted_is_the_diagram_alone() -> None:
    waiting = IncrementalKernelPCA(2, kernel="rbf").partial_fit(X[:10])
    for model in (KernelPCA(2), IncrementalKernelPCA(2), KernelPCADetector(), waiting):
        assert "<figure" not in model._repr_html_()
        assert "<figure" not in model._repr_mimebundle_()["text/html"]


def test_nothing_to_show_is_no_picture() -> None:
    with pytest.warns(UserWarning, match="alike"):
        model = KernelPCA(2, kernel="rbf").fit(np.ones((5, 2)))
    assert "<rect" not in model._repr_html_()


def test_members_of_a_pipeline_are_scikit_learns() -> None:
    model = make_pipeline(StandardScaler(), KernelPCA(2)).fit(X)
    assert "KernelPCA" in model._repr_html_() and "<figure" not in model._repr_html_()
    assert "<figure" in model[-1]._repr_html_()
    assert "<figure" not in estimator_html_repr(model[-1])


def test_text_stays_text() -> None:
    with config_context(display="text"):
        model = KernelPCA(2).fit(X)
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    assert hasattr(model, "_repr_html_")


def test_what_a_model_says_is_escaped() -> None:
    model = KernelPCA(2, kernel="rbf").fit(X)
    model.solver_ = "<script>alert(1)</script>"
    html = model._repr_html_()
    assert "<script>alert" not in html[html.index("<figure") :]
    assert "<script>" in (figure(html).findtext("figcaption") or "")
