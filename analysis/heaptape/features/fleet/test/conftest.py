# SPDX-License-Identifier: MIT
"""Fixtures of this folder's tests."""

import pytest
from heaptape.features.fleet.test.fleets import fleet_run, make_workloads


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The folder of a cache for the module, so that files of other runs in the user's cache have no effect."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def workloads(request, tmp_path_factory):
    """NUMBER workloads, as the module says."""
    return make_workloads(tmp_path_factory.mktemp("workloads"), request.module.NUMBER)


@pytest.fixture(scope="module")
def undisturbed(request, workloads, cache, tmp_path_factory):
    """A store whose plan, of the module's PASSES (memory), was run at once. Read only."""
    store = tmp_path_factory.mktemp("undisturbed") / "s"
    done = fleet_run(store, *workloads, passes=getattr(request.module, "PASSES", "memory"))
    assert done.status == 0, done.stderr
    return store
