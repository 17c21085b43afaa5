# Copyright The Hearth authors
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack.package import *


class Hearth(MakefilePackage):
    """Cooperative cache for parallel file systems: keeps the files of a parallel job
    in the memory of the nodes that use them, without a change of programs."""

    # A site names its copy of the repository: `spack develop --path CHECKOUT hearth@main`.
    version("main", branch="main")

    license("Apache-2.0 OR MIT")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("rust@1.90:", type="build")
    depends_on("binutils", type="build")
    depends_on("libfuse@3:", type="run")

    def build(self, spec, prefix):
        cargo = which("cargo")
        cargo("build", "--release", "--locked", "-p", "hearth", "-p", "hearth-preload", "-p", "hearth-mpiio")

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")
