"""Pictures of fitted models, of what explains them, and of images, as matplotlib figures.

A notebook shows them; `plots.save(figure, "name.png")` saves them. Functions return figures; displays keep what they
show and draw it again, `display.plot(ax)`, as those of scikit-learn do. They are made without pyplot, so that nothing
depends on a screen and no global state is left behind.
"""

from typing import TYPE_CHECKING

from kpca.plots.arrows import biplot
from kpca.plots.axes import save
from kpca.plots.charts import ControlChartDisplay, control_chart
from kpca.plots.embedding import EmbeddingDisplay, scores
from kpca.plots.maps import ComponentMapDisplay, component_maps
from kpca.plots.methods import comparison, path
from kpca.plots.scree import SpectrumDisplay, overview, spectrum
from kpca.plots.variables import contributions, importance, interactions
from kpca.plots.walks import TraversalDisplay, gallery, traversal

if TYPE_CHECKING:
    from kpca.plots.axes import Figure as Figure

__all__ = [
    "ComponentMapDisplay",
    "ControlChartDisplay",
    "EmbeddingDisplay",
    "SpectrumDisplay",
    "TraversalDisplay",
    "biplot",
    "comparison",
    "component_maps",
    "contributions",
    "control_chart",
    "gallery",
    "importance",
    "interactions",
    "overview",
    "path",
    "save",
    "scores",
    "spectrum",
    "traversal",
]

# Where doctest looks for examples besides this file: the functions live in others.
__test__ = {name: globals()[name] for name in __all__}
