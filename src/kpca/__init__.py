"""Kernel PCA, exact without storing the kernel matrix.

The public names are loaded on first use: ``import kpca`` alone imports neither NumPy nor SciPy nor scikit-learn.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "IncrementalKernelPCA",
    "InputError",
    "KernelPCA",
    "KernelPCADetector",
    "Nystroem",
    "Plan",
    "RandomFeatures",
    "__version__",
    "compare",
    "compress",
    "config",
    "detector",
    "diagnostics",
    "explain",
    "get_config",
    "io",
    "kernels",
    "load",
    "plan",
    "plots",
    "preimage",
    "report",
    "save",
    "selection",
    "set_config",
    "write_scores",
]

# public name -> module of this package that holds it; a public module has its own name as home
_HOME = {
    "Cancelled": "_base.errors",
    "IncrementalKernelPCA": "estimators.incremental",
    "InputError": "_base.errors",
    "KernelPCA": "estimators.kernel_pca",
    "KernelPCADetector": "detector",
    "Nystroem": "features",
    "Plan": "estimators.plan",
    "RandomFeatures": "features",
    "compare": "comparison",
    "compress": "estimators.compress",
    "config": "_base.config",
    "detector": "detector",
    "diagnostics": "diagnostics",
    "explain": "explain",
    "get_config": "_base.config",
    "io": "io",
    "kernels": "kernels",
    "load": "io",
    "plan": "estimators.plan",
    "plots": "plots",
    "preimage": "preimage",
    "report": "report",
    "save": "io",
    "selection": "selection",
    "set_config": "_base.config",
    "write_scores": "io.results",
}

if TYPE_CHECKING:
    from kpca import detector, diagnostics, explain, io, kernels, plots, preimage, report, selection
    from kpca._base.config import config, get_config, set_config
    from kpca._base.errors import Cancelled, InputError
    from kpca.comparison import compare
    from kpca.detector import KernelPCADetector
    from kpca.estimators.compress import compress
    from kpca.estimators.incremental import IncrementalKernelPCA
    from kpca.estimators.kernel_pca import KernelPCA
    from kpca.estimators.plan import Plan, plan
    from kpca.features import Nystroem, RandomFeatures
    from kpca.io import load, save, write_scores
else:
    # Hidden from type checkers: they would take a module with __getattr__ to have every name.
    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            # name and obj let Python add "Did you mean: ...?"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        module = import_module(f"{__name__}.{home}")
        value = module if home == name else getattr(module, name)
        globals()[name] = value  # the next use does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
