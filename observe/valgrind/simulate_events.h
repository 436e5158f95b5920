/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions that translated code calls in mode simulate: simulate.c defines them, instrument_simulate.c adds the
   calls. They are called in the order of execution; an instruction's fetch comes before its accesses. */
#pragma once

#include <pub_tool_basics.h>

enum { SIMULATED_LINE_BYTES = 64 };

/* A read, a write, or both in one. bytes: 1 to SIMULATED_LINE_BYTES. */
VG_REGPARM(2) void simulate_access(Addr address, UWord bytes);

/* Instructions were fetched from within that line; line: address / SIMULATED_LINE_BYTES. */
VG_REGPARM(1) void simulate_fetch_line(UWord line);

/* One instruction that crosses two lines was fetched. */
VG_REGPARM(2) void simulate_fetch_across(Addr address, UWord bytes);
