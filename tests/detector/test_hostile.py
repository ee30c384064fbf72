"""The detector against data and settings that nobody had in mind."""

import numpy as np
import pytest

from kpca import KernelPCADetector


def normal(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["wide", "median"])
@pytest.mark.parametrize("stream", [False, True])
def test_false_alarms_of_many_columns_are_as_many_as_asked_for(gamma, stream):
    """Models of fewer rows overrate the variance of their last component, by which the SPE is divided."""
    beyond = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.random(size=(800, 60))
        detector = KernelPCADetector(gamma=gamma)
        if stream:
            for batch in np.array_split(X, 2):
                detector.partial_fit(batch)
        else:
            detector.fit(X)
        beyond.append(np.mean(detector.predict(rng.random(size=(2000, 60))) == -1))
    assert 0.01 < np.mean(beyond) < 0.07
