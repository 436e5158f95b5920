# SPDX-License-Identifier: MIT
"""How the command's process loads numpy and scipy: within the limits that it was given; and matplotlib: silently.

Their OpenBLAS starts a thread per processor, with 40 MiB of address space each. heaptape needs none of them, and where
a limit forbids them, OpenBLAS hangs, or raises SIGINT. The setting is in the environment only while a library is
loaded: recorded programs must not inherit it.
"""

import os
import resource
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType

THREADS = "OPENBLAS_NUM_THREADS"
LEAST_ADDRESS_SPACE = 320 << 20  # below it, OpenBLAS and numpy end the process in several ways


def load_within_limits() -> None:
    """From now on in this process. Loading raises MemoryError where the address space is too small."""
    create = ExtensionFileLoader.create_module

    def create_module(self: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
        library = spec.name.partition(".")[0]
        if library == "matplotlib":  # which warns where it can keep no fonts, as in a home that can't be written
            sys.modules["logging"].getLogger(library).setLevel("ERROR")
        if library not in ("numpy", "scipy"):
            return create(self, spec)
        if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_ADDRESS_SPACE:
            raise MemoryError
        before = os.environ.get(THREADS)
        os.environ[THREADS] = "1"
        try:
            return create(self, spec)
        finally:
            if before is None:
                del os.environ[THREADS]
            else:
                os.environ[THREADS] = before

    ExtensionFileLoader.create_module = create_module  # type: ignore[method-assign]
