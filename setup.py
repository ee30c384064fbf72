"""The compiled part of kpca, which is optional: where it cannot be built, the package installs and works without it."""

import sysconfig
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildLoops(build_ext):
    """Builds with what lets loops be vectorised, and leaves fusing products and sums to the source."""

    def build_extensions(self) -> None:
        plain = ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
        for extension in self.extensions:
            extension.extra_compile_args = ["/O2"] if self.compiler.compiler_type == "msvc" else plain
        super().build_extensions()


# One build serves every Python from 3.11 on; those without the global lock have no stable interface yet.
stable = not sysconfig.get_config_var("Py_GIL_DISABLED")
loops: dict[str, Any] = {"optional": True, "py_limited_api": stable}
if stable:
    loops["define_macros"] = [("STABLE_INTERFACE", "1")]
setup(
    ext_modules=[Extension("kpca.kernels._simd", ["src/kpca/kernels/_simd.c"], **loops)],
    cmdclass={"build_ext": BuildLoops},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if stable else {},
)
