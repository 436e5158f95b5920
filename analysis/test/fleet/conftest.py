# SPDX-License-Identifier: MIT
"""What the tests of this folder share."""

import pytest


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The folder of a cache of the module's own: what other runs left in the user's changes nothing."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
