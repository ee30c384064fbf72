"""The compiled part of kpca, which is optional: where it cannot be built, the package installs and works without it."""

from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildLoops(build_ext):
    """Builds with what lets loops be vectorised, and leaves fusing products and sums to the source."""

    def build_extensions(self) -> None:
        plain = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
        for extension in self.extensions:
            extension.extra_compile_args = ["/O2"] if self.compiler.compiler_type == "msvc" else plain
        super().build_extensions()


loops: dict[str, Any] = {"sources": ["src/kpca/kernels/_simd.c"], "optional": True, "py_limited_api": True}
setup(
    ext_modules=[Extension("kpca.kernels._simd", **loops)],
    cmdclass={"build_ext": BuildLoops},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
