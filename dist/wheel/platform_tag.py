"""Names the platform in the wheel's tag: its files are programs, for one kind of machine and any Python."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['HEARTH_PLATFORM']}"
