"""Model cards: everything is in them, and nothing in them is markup that somebody else wrote."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import kpca
from kpca import InputError, KernelPCA, KernelPCADetector
from kpca.io.card import escaped, model_card
from tests.io.saved_models import CASES, UNFITTED, X


def card_of(model: Any, about: Any = None) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model_card(model, about)


@pytest.mark.parametrize("name", CASES)
def test_every_model_has_a_card(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, _ = CASES[name]()
    card = card_of(model)
    assert card.startswith("# Model card: ")
    for title in ("Parameters", "Intended use and limits", "How to load it", "Versions"):
        assert f"\n## {title}\n" in card
    assert_tables_are_whole(card)


@pytest.mark.parametrize("name", UNFITTED)
def test_unfitted_models_have_one_too(name: str) -> None:
    card = card_of(UNFITTED[name]())
    assert "It is not fitted." in card
    assert "## Spectrum" not in card
    assert_tables_are_whole(card)


def assert_tables_are_whole(card: str) -> None:
    """Every row of a table has as many cells as the row before it."""
    width = 0
    for line in card.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert cells in (0, width) or not width
        width = cells


def test_numbers_in_a_card_are_those_of_the_model() -> None:
    model = KernelPCA(2, kernel="rbf", gamma=0.2, preimage="ridge").fit(X)
    card = card_of(model, {"data": {"name": "a.csv", "rows": 60}, "seed": 7})
    for value, (low, high), share in zip(
        model.eigenvalues_, model.eigenvalue_bounds_, model.explained_variance_ratio_, strict=True
    ):
        assert f"| {value:.6g} | {low:.6g} to {high:.6g} | {share:.2%} |" in card
    assert "| data: name | a.csv |" in card and "| seed | 7 |" in card
    assert "RBF(gamma=0.2)" in card
    assert "By ridge: as asked for." in card
    assert f"| kpca | {kpca.__version__} |" in card
    assert "residuals are at most".capitalize() in card
    assert "holds rows of the data" in card


def test_approximations_and_limits_are_told() -> None:
    assert "20 landmarks: what they leave out is bounded" in card_of(CASES["landmarks"]()[0])
    assert "random features: eigenvalues are estimated" in card_of(CASES["random orthogonal"]()[0])
    assert "not reached" in card_of(_unreached())
    detector = KernelPCADetector().fit(X)
    assert f"| spe | {detector.limits_.spe:.6g} |" in card_of(detector)
    assert "None: scores cannot" in card_of(KernelPCA(2).fit(X))


def _unreached() -> KernelPCA:
    model = KernelPCA(2, kernel="rbf").fit(X)
    model.residuals_ = np.array([1e-3, 1e-3])
    return model


HOSTILE = "a|b\n# <script>alert(1)</script> [x](http://e.org) `code` **b** _i_ \x1b[2J @you www.e.org $x$ " + "z" * 500


def test_what_others_wrote_is_no_markup() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[HOSTILE, "|", "c"])
    model = KernelPCA(2, kernel="rbf", kernel_params={HOSTILE: HOSTILE}).fit(frame)
    card = card_of(model, {HOSTILE: {HOSTILE: [HOSTILE]}, "n": None})
    plain = card_of(KernelPCA(2, kernel="rbf").fit(X), {"a": {"b": [1]}, "n": None})
    assert "<" not in card and "\x1b" not in card and "http://" not in card and "@" not in card and "www." not in card
    assert not re.search(r"(?<!\\)[`*_\[\]]", card.replace("```", ""))
    assert [line for line in card.splitlines() if line.startswith("#")] == [
        line for line in plain.splitlines() if line.startswith("#")
    ]
    assert_tables_are_whole(card)
    assert max(map(len, card.splitlines())) < 2000
    assert escaped("a\\|b") == r"a\\\|b"


@pytest.mark.parametrize("model", [None, 3, KernelPCA, X])
def test_only_models_have_cards(model: Any) -> None:
    with pytest.raises(InputError, match="model_card needs a model"):
        model_card(model)
    with pytest.raises(InputError, match="about must"):
        model_card(KernelPCA(), about=[1])  # type: ignore[arg-type]


def test_without_centring_shares_are_not_of_the_variance() -> None:
    card = model_card(KernelPCA(2, kernel="rbf", center=False).fit(X))
    assert "share of the second moment" in card and "of the second moment; the rows have" in card
    assert "of the variance" not in card
