/* SPDX-License-Identifier: MIT */
#include "core/trace/accesses.h"

const char *const access_total_names[ACCESS_TOTAL_LIMIT] = {
    [ACCESS_TOTAL_PROGRAM_INSTRUCTIONS] = "program_instructions",
    [ACCESS_TOTAL_ALLOCATOR_INSTRUCTIONS] = "allocator_instructions",
    [ACCESS_TOTAL_PROGRAM_ACCESSES] = "program_accesses",
    [ACCESS_TOTAL_SYSCALLS] = "program_syscalls",
    [ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS] = "outside_program_instructions",
    [ACCESS_TOTAL_OUTSIDE_ALLOCATOR_INSTRUCTIONS] = "outside_allocator_instructions",
    [ACCESS_TOTAL_OUTSIDE_SYSCALLS] = "outside_program_syscalls",
    [ACCESS_TOTAL_STRING_INSTRUCTIONS] = "program_string_instructions",
    [ACCESS_TOTAL_STRING_BYTES] = "program_string_bytes",
};
