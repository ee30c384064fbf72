"""Fitted models as ONNX files, which run without Python: rows in, scores out."""

from kpca.io.onnx._export import export

__all__ = ["export"]
