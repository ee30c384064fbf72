"""UMAP, the one method that needs a library of its own (umap-learn)."""

from __future__ import annotations

from typing import Any

from kpca.comparison.measuring import heard

INSTALL = "pip install 'kpca[compare]'"
# From this many rows on umap-learn looks for neighbours in another way, which numba has to compile, too.
APPROXIMATE_FROM = 4096
FEWEST_NEIGHBOURS = 2


def missing() -> str | None:
    """Return why UMAP cannot be used and what to do, None if it can; loads the library."""
    try:
        with heard():  # that TensorFlow is not there, which one of its classes would need
            from umap import UMAP  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "umap":
            return f"not installed: {INSTALL}"
        return f"cannot be loaded ({error}): {INSTALL}"
    except ImportError as error:  # of another library of this name, or with a NumPy that numba does not know
        return f"cannot be loaded ({error}): {INSTALL}"
    return None


def build(**parameters: Any) -> Any:
    """Return an estimator that repeats: a seed leaves umap-learn one thread, which is what it is asked for here."""
    from umap import UMAP

    return UMAP(**parameters, n_jobs=1)
