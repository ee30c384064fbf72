"""Makes the golden files of the current version: `python tests/io/make_golden.py`.

Run it once for a new version of the format, and never for one that has been released: what it wrote then is what users
have.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, KernelPCA, KernelPCADetector, Nystroem, kernels
from kpca.io.models import read_about, save

FOLDER = Path(__file__).parent / "golden"


def rows(n: int, seed: int) -> np.ndarray:
    """Rows on a noisy ring, rounded so that they are the same on every machine."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = np.column_stack([np.cos(angle), np.sin(angle), 0.1 * rng.normal(size=n)])
    return np.round(ring, 3)


def models() -> dict[str, object]:
    """Small models of different kinds."""
    X = rows(24, 0)
    kernel = kernels.RBF(gamma=(0.5, 1.0, 2.0)) + 0.5 * kernels.Linear()
    return {
        "exact": KernelPCA(3, kernel="rbf", gamma=0.5, preimage="fixed-point").fit(X),
        "pipeline": make_pipeline(StandardScaler(), KernelPCA(2, kernel=kernel)).fit(X),
        "stream": IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(6), warm_up=10)
        .partial_fit(X[:12])
        .partial_fit(X[12:]),
        "detector": KernelPCADetector(n_components=3, lags=1).fit(X),
    }


def results(model: object) -> list[list[float]]:
    """What a model gives for rows that it has not seen."""
    method = getattr(model, "transform", None) or model.statistics  # type: ignore[attr-defined]
    found = method(rows(5, 1))
    if hasattr(found, "t2"):
        found = np.column_stack([found.t2, found.spe])
    return np.asarray(found).tolist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, model in models().items():
        path = FOLDER / f"{name}.kpca"
        save(model, path, about={"made": "from synthetic rows", "name": name})
        target = FOLDER / f"v{read_about(path).version}-{name}.kpca"
        path.rename(target)
        target.with_suffix(".json").write_text(json.dumps(results(model)) + "\n", encoding="utf-8")
