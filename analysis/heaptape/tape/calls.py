# SPDX-License-Identifier: MIT
"""The malloc-API calls by id: core/trace/calls.def as numpy tables. `test_call_table_is_that_of_calls_def` compares
the two.
"""

import numpy as np

NOTHING, RELEASES, TOUCHES = 0, 1, 2
NO_PARAM, COUNT, ALIGN, OPTION = 0, 1, 2, 3
ID_MASK, NULL_IN, NULL_OUT = 0x3F, 0x40, 0x80

# id: (name, acquires, effect on an object passed in, has a size, meaning of its parameter)
CALLS: dict[int, tuple[str, bool, int, bool, int]] = {
    0: ("malloc", True, NOTHING, True, NO_PARAM),
    1: ("free", False, RELEASES, False, NO_PARAM),
    2: ("calloc", True, NOTHING, True, COUNT),
    3: ("realloc", True, RELEASES, True, NO_PARAM),
    4: ("reallocarray", True, RELEASES, True, COUNT),
    5: ("posix_memalign", True, NOTHING, True, ALIGN),
    6: ("aligned_alloc", True, NOTHING, True, ALIGN),
    7: ("memalign", True, NOTHING, True, ALIGN),
    8: ("valloc", True, NOTHING, True, NO_PARAM),
    9: ("pvalloc", True, NOTHING, True, NO_PARAM),
    10: ("malloc_usable_size", False, TOUCHES, False, NO_PARAM),
    11: ("free_sized", False, RELEASES, True, NO_PARAM),
    12: ("free_aligned_sized", False, RELEASES, True, ALIGN),
    13: ("mallopt", False, NOTHING, True, OPTION),
    14: ("malloc_trim", False, NOTHING, True, NO_PARAM),
    15: ("mallinfo", False, NOTHING, False, NO_PARAM),
    16: ("operator new", True, NOTHING, True, NO_PARAM),
    17: ("operator new[]", True, NOTHING, True, NO_PARAM),
    18: ("operator new(nothrow)", True, NOTHING, True, NO_PARAM),
    19: ("operator new[](nothrow)", True, NOTHING, True, NO_PARAM),
    20: ("operator new(align)", True, NOTHING, True, ALIGN),
    21: ("operator new[](align)", True, NOTHING, True, ALIGN),
    22: ("operator new(align,nothrow)", True, NOTHING, True, ALIGN),
    23: ("operator new[](align,nothrow)", True, NOTHING, True, ALIGN),
    24: ("operator delete", False, RELEASES, False, NO_PARAM),
    25: ("operator delete[]", False, RELEASES, False, NO_PARAM),
    26: ("operator delete(nothrow)", False, RELEASES, False, NO_PARAM),
    27: ("operator delete[](nothrow)", False, RELEASES, False, NO_PARAM),
    28: ("operator delete(size)", False, RELEASES, True, NO_PARAM),
    29: ("operator delete[](size)", False, RELEASES, True, NO_PARAM),
    30: ("operator delete(align)", False, RELEASES, False, ALIGN),
    31: ("operator delete[](align)", False, RELEASES, False, ALIGN),
    32: ("operator delete(size,align)", False, RELEASES, True, ALIGN),
    33: ("operator delete[](size,align)", False, RELEASES, True, ALIGN),
    34: ("operator delete(align,nothrow)", False, RELEASES, False, ALIGN),
    35: ("operator delete[](align,nothrow)", False, RELEASES, False, ALIGN),
    36: ("mallinfo2", False, NOTHING, False, NO_PARAM),
    37: ("malloc_info", False, NOTHING, False, NO_PARAM),
    38: ("malloc_stats", False, NOTHING, False, NO_PARAM),
    39: ("tc_mallopt", False, NOTHING, True, OPTION),
    40: ("mi_collect", False, NOTHING, True, NO_PARAM),
    41: ("mi_option_set", False, NOTHING, True, OPTION),
    42: ("mi_option_set_default", False, NOTHING, True, OPTION),
    43: ("mi_option_set_enabled", False, NOTHING, True, OPTION),
    44: ("mi_option_set_enabled_default", False, NOTHING, True, OPTION),
    45: ("MallocExtension_ReleaseFreeMemory", False, NOTHING, False, NO_PARAM),
    46: ("MallocExtension_ReleaseToSystem", False, NOTHING, True, NO_PARAM),
    47: ("tc_mallinfo", False, NOTHING, False, NO_PARAM),
    48: ("scalable_allocation_mode", False, NOTHING, True, OPTION),
    49: ("scalable_allocation_command", False, NOTHING, False, OPTION),
    50: ("tc_malloc_stats", False, NOTHING, False, NO_PARAM),
    51: ("MallocExtension_SetNumericProperty", False, NOTHING, True, OPTION),
    52: ("MallocExtension_MarkThreadIdle", False, NOTHING, False, NO_PARAM),
    53: ("MallocExtension_MarkThreadTemporarilyIdle", False, NOTHING, False, NO_PARAM),
    54: ("MallocExtension_MarkThreadBusy", False, NOTHING, False, NO_PARAM),
    55: ("mallctl", False, NOTHING, True, OPTION),
    56: ("mallctlbymib", False, NOTHING, True, OPTION),
    57: ("MallocExtension::SetMemoryReleaseRate", False, NOTHING, True, NO_PARAM),
}


def _column(index: int, dtype: type) -> np.ndarray:
    table: np.ndarray = np.zeros(64, dtype)
    for number, row in CALLS.items():
        table[number] = row[index]
    return table


# Names in order of id, and the place of each id among them (-1: no such call).
NAMES = [row[0] for row in CALLS.values()]
PLACE = np.full(64, -1, np.int8)
PLACE[list(CALLS)] = range(len(CALLS))
ACQUIRES, RELEASE_KIND, HAS_SIZE, PARAM_KIND = (
    _column(1, bool),
    _column(2, np.uint8),
    _column(3, bool),
    _column(4, np.uint8),
)
