# SPDX-License-Identifier: MIT
"""The lines by which a program places a plan's call sites itself, for those who prefer to change the source."""

from heaptape.common.console import printable
from heaptape.features.place.plan import Plan

# For each kind: the lines that stand once for a region, and those in place of a call. {n}: the region.
KINDS = {
    "jemalloc": (
        (
            "static unsigned arena_{n};",
            'size_t size = sizeof arena_{n}; mallctl("arenas.create", &arena_{n}, &size, NULL, 0);  // once',
        ),
        ("p = mallocx(bytes, MALLOCX_ARENA(arena_{n}) | MALLOCX_TCACHE_NONE);  // calloc: | MALLOCX_ZERO",),
    ),
    "mimalloc": (
        ("static _Thread_local mi_heap_t *heap_{n};", "heap_{n} = mi_heap_new();  // once in each thread"),
        ("p = mi_heap_malloc(heap_{n}, bytes);  // calloc: mi_heap_zalloc",),
    ),
    "pmr": (
        ("static std::pmr::synchronized_pool_resource region_{n};",),
        ("p = region_{n}.allocate(bytes);", "region_{n}.deallocate(p, bytes);  // in place of free or delete"),
    ),
}


def lines(plan: Plan, kind: str) -> str:
    """Per region its declaration, and the lines for each call site. jemalloc and mimalloc free as before."""
    once, instead = KINDS[kind]
    text = []
    for region in sorted({site.region for site in plan.sites}):
        text += [line.replace("{n}", str(region)) for line in once]
        for where in dict.fromkeys(site.function or site.frames[0] for site in plan.sites if site.region == region):
            text += [f"{printable(where)}:", *(f"    {line.replace('{n}', str(region))}" for line in instead)]
    return "\n".join(text) + "\n"
