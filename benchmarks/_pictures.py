"""Pictures of pre-images: digits with noise and without, and faces along the first components."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from benchmarks._denoising import PCA_COMPONENTS
from benchmarks._race import log
from benchmarks._real import data_file
from benchmarks._usps import NOISES, SHAPE, Digits, FloatArray, digits, mse
from kpca import KernelPCA, plots, preimage

# Bandwidth and components of kernel PCA, for each noise: about what the table of errors finds best.
_KERNEL = {"Gaussian": (64.0, 1024), "speckle": (64.0, 256)}
_FACE = (64, 64)
_STEPS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)


def draw(folder: Path, *, quick: bool = False) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in (("digits", denoised_digits), ("faces", walked_faces), ("face", changed_face)):
        figure(quick).savefig(folder / f"{name}.png")
        log(f"written: {name}.png")


def psnr(rows: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the peak signal-to-noise ratio of each row in decibels; pixels go from -1 to 1.  # shape: (m,)"""
    ratio: FloatArray = 10.0 * np.log10(4.0 / np.square(rows - truth).mean(axis=1))
    return ratio


def denoised_digits(quick: bool) -> plots.Figure:
    """Return one digit of each class, clean, noisy, and denoised by PCA and by kernel PCA."""
    data = digits(train=30 if quick else 300)
    first = [int(np.flatnonzero(data.labels == digit)[0]) for digit in range(10)]
    lines, names, captions = [data.clean[first]], ["clean"], [[""] * 10]
    for noise in NOISES:
        noisy = data.noisy[noise][0]
        linear, count = best_pca(data, noise)
        c, components = _KERNEL[noise]
        model = KernelPCA(
            min(components, len(data.train) - 1), kernel="rbf", gamma=1.0 / c, preimage=preimage.Auto(box=(-1.0, 1.0))
        )
        kernel = model.fit(data.train).denoise(noisy)
        for name, rows in (
            (f"{noise} noise", noisy),
            (f"PCA,\n{count} components", linear),
            (f"kernel PCA,\n{model.n_components_} components", kernel),
        ):
            decibels = psnr(rows, data.clean)
            names.append(f"{name}\nmean {decibels.mean():.1f} dB")
            captions.append([f"{value:.1f} dB" for value in decibels[first]])
            lines.append(rows[first])
    title = "Digits denoised; under each its peak signal-to-noise ratio"
    return plots.gallery(lines, SHAPE, rows=names, captions=captions, limits=(-1.0, 1.0), inverted=True, title=title)


def best_pca(data: Digits, noise: str) -> tuple[FloatArray, int]:
    """Return the denoised rows of PCA with the number of components that suits these rows best, and that number.

    Both kinds of PCA know that pixels end at -1 and 1: it is what a user would tell them.
    """
    noisy = data.noisy[noise][0]
    model = PCA(max(PCA_COMPONENTS), svd_solver="full").fit(data.train)
    found = []
    for count in PCA_COMPONENTS:
        V = model.components_[:count]
        rows = np.clip((noisy - model.mean_) @ V.T @ V + model.mean_, -1.0, 1.0)
        found.append((mse(rows, data.clean), count, rows))
    _, count, rows = min(found, key=lambda item: item[0])
    return rows, count


def faces(quick: bool) -> FloatArray:
    """Return the faces of olivetti.npz, pixels from 0 to 1.  # shape: (400, 4096)"""
    with np.load(data_file("olivetti.npz"), allow_pickle=False) as file:
        return np.asarray(file["X"][:: 4 if quick else 1] / 255.0)


def walked_faces(quick: bool) -> plots.Figure:
    """Return faces along each of the first four components, from the mean in feature space.

    By fixed point: far from all scores a learned map mixes details of many faces.
    """
    model = KernelPCA(50, kernel="rbf", gamma="median", preimage="fixed-point").fit(faces(quick))
    return _walks(model, None, "Faces along the first components, from the mean")


def changed_face(quick: bool) -> plots.Figure:
    """Return one face moved along each of the first four components; what makes it this face is in the others."""
    X = faces(quick)
    model = KernelPCA(min(200, len(X) - 1), kernel="rbf", gamma="median", preimage="auto").fit(X)
    return _walks(model, X[15], "One face along the first components")


def _walks(model: KernelPCA, around: FloatArray | None, title: str) -> plots.Figure:
    lines = [preimage.traverse(model, component, np.array(_STEPS), around=around)[1] for component in range(4)]
    names = [
        f"component {number + 1}\n{100 * share:.1f} % of variance"
        for number, share in enumerate(model.explained_variance_ratio_[:4])
    ]
    middle = "mean" if around is None else "itself"
    columns = [f"{step:+.1f} sd" if step else middle for step in _STEPS]
    return plots.gallery(lines, _FACE, rows=names, columns=columns, title=title)
