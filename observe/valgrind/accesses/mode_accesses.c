/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode accesses: its options, and its place among the modes. */
#include "core/system/valgrind_requests.h"
#include "observe/valgrind/accesses/accesses.h"
#include "observe/valgrind/common/mode.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_options.h>
#include <pub_tool_threadstate.h>

static Bool take_option(const HChar *option) {
  static const HChar *const burst_starts[] = {"out", "in", NULL};
  Int in_burst;
  Long filter_bytes;
  if VG_STRINDEX_CLO (option, "--bursts", burst_starts, in_burst) {
    accesses_set_bursts(in_burst);
  } else if VG_STR_CLO (option, "--burst-from", accesses_burst_from) {
  } else if VG_STR_CLO (option, "--burst-to", accesses_burst_to) {
  } else if VG_BINT_CLO (option, "--filter", filter_bytes, 0, 1 << 30) {
    if (!accesses_set_filter(filter_bytes))
      VG_(fmsg_bad_option)(option, "expected: 0, or a power of two of bytes from 64 on\n");
  } else {
    return False;
  }
  return True;
}

/* Only the guest's stack pointer is kept up to date before each access, as in cachegrind: code becomes 6 % shorter. A
   handler of SIGSEGV may see an older instruction pointer. */
static const HChar *begin(void) {
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdSpAtMemAccess;
  VG_(clo_px_file_backed) = VexRegUpdSpAtMemAccess;
  accesses_begin();
  return NULL;
}

static void put_totals(Bool before_exec) {
  (void)before_exec;
  accesses_put_totals();
}

static void stop(void) {
  accesses_run(VG_INVALID_THREADID);
}

static void note_syscall(UInt number) {
  (void)number;
  accesses_note_syscall();
}

static UWord answer(UWord request, const UWord *arguments) {
  switch (request) {
  case VALGRIND_REQUEST_EVENT:
    return accesses_take_event(arguments);
  case VALGRIND_REQUEST_RECORDING:
    return accesses_set_recording(arguments);
  case VALGRIND_REQUEST_MARK:
    return accesses_take_mark(arguments);
  case VALGRIND_REQUEST_BURST:
    return accesses_take_burst(arguments);
  default:
    return 0;
  }
}

static const struct mode mode_accesses = {
    .name = "accesses",
    .summary = "none, accesses go to the recorder",
    .options =
        "    --filter=BYTES                   mode accesses: the cache whose hits are left out; 0: none [4096]\n"
        "    --bursts=in|out                  mode accesses: accesses are recorded in bursts, the first of which\n"
        "                                     begins with the program (in), or not\n"
        "    --burst-from=MARK, --burst-to=MARK   the marks at which a burst begins, and ends\n",
    .take_option = take_option,
    .begin = begin,
    .instrument = accesses_instrument,
    .end = put_totals,
    .runs = accesses_run,
    .stops = stop,
    .in_fork_child = accesses_reset,
    .answer = answer,
    .syscall = note_syscall};
REGISTER_MODE(mode_accesses);
