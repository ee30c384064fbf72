"""Kernel PCA, exact without storing the kernel matrix.

The public names are loaded on first use: ``import kpca`` alone imports neither NumPy nor SciPy nor scikit-learn.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "InputError",
    "KernelPCA",
    "__version__",
    "config",
    "get_config",
    "kernels",
    "plots",
    "set_config",
]

# public name -> module of this package that holds it; a public module has its own name as home
_HOME = {
    "Cancelled": "errors",
    "InputError": "errors",
    "KernelPCA": "kernel_pca",
    "config": "settings",
    "get_config": "settings",
    "kernels": "kernels",
    "plots": "plots",
    "set_config": "settings",
}

if TYPE_CHECKING:
    from kpca import kernels, plots
    from kpca.errors import Cancelled, InputError
    from kpca.kernel_pca import KernelPCA
    from kpca.settings import config, get_config, set_config
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
