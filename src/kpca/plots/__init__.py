"""Pictures of fitted models, of what explains them, and of images, as matplotlib figures.

A notebook shows them; `figure.savefig("name.png")` saves them. They are made without pyplot, so that nothing depends on
a screen and no global state is left behind.
"""

from typing import TYPE_CHECKING

from kpca.plots.bandwidths import path
from kpca.plots.charts import control_chart
from kpca.plots.directions import biplot
from kpca.plots.images import gallery
from kpca.plots.methods import comparison
from kpca.plots.model import overview, scores, spectrum
from kpca.plots.shares import contributions
from kpca.plots.variables import importance, interactions

if TYPE_CHECKING:
    from kpca.plots._axes import Figure as Figure

__all__ = [
    "biplot",
    "comparison",
    "contributions",
    "control_chart",
    "gallery",
    "importance",
    "interactions",
    "overview",
    "path",
    "scores",
    "spectrum",
]

# Where doctest looks for examples besides this file: the functions live in others.
__test__ = {name: globals()[name] for name in __all__}
