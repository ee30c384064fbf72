"""The script that draws the interactive pictures. Nothing else here imports plotly."""

from __future__ import annotations

import re

from kpca.errors import InputError


def plotly_script() -> str:
    """Return plotly.js as text that is safe between the tags of a script."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("A report needs plotly, which is not installed: pip install 'kpca[web]'.") from None
    source: str = get_plotlyjs()
    # within a text of JavaScript both spellings are the same; in HTML only the first ends the script
    return re.sub(r"<(?=/script|!--)", r"\\x3c", source, flags=re.IGNORECASE)
