# SPDX-License-Identifier: MIT
"""Fixtures of this folder's tests."""

import pytest
from heaptape.features.fleet.test.fleets import ALLOCATORS, make_workloads, plan

from tests.support import call_heaptape


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
    """A store whose plan, of the module's PASSES (memory), was run by one worker, all at once. Read only."""
    store, passes = tmp_path_factory.mktemp("undisturbed") / "s", getattr(request.module, "PASSES", "memory")
    assert plan(store, *workloads, passes=passes).status == 0
    done = call_heaptape("fleet", "work", store)
    assert done.status == 0, done.stderr
    count = len(workloads) * len(ALLOCATORS) * len(passes.split(","))
    assert done.stdout.startswith(f"{count} cells done here, 0 were there, 0 failed.")
    return store
