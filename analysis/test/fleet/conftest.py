# SPDX-License-Identifier: MIT
"""Fixtures of this folder's tests."""

import pytest


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The folder of a cache for the module, so that files of other runs in the user's cache have no effect."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
