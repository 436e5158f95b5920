/* SPDX-License-Identifier: GPL-2.0-only */
/* The modes simulate and replay: their options, and their places among the modes. */
#include "core/system/valgrind_requests.h"
#include "observe/valgrind/common/mode.h"
#include "observe/valgrind/simulate/replay.h"
#include "observe/valgrind/simulate/simulate.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_options.h>

static const HChar *accesses;

static void require(Bool good, const HChar *option) {
  if (!good)
    VG_(fmsg_bad_option)(option, "expected: CAPACITY:WAYS,... with a power of two of sets\n");
}

static Bool take_option(const HChar *option) {
  const HChar *text;
  if VG_STR_CLO (option, "--caches", text) {
    require(simulate_set_caches(text), option);
  } else if VG_STR_CLO (option, "--instruction-cache", text) {
    require(simulate_set_instruction_cache(text), option);
  } else if VG_STR_CLO (option, "--tlbs", text) {
    require(simulate_set_tlbs(text), option);
  } else if VG_BOOL_CLO (option, "--data-only", simulate_data_only) {
  } else if VG_BINT_CLO (option, "--shift", simulate_shift_os_pages, 0, 1 << 20) {
  } else {
    return VG_STR_CLO(option, "--accesses", accesses);
  }
  return True;
}

static const HChar *begin(void) {
  simulate_begin();
  return NULL;
}

static const HChar *begin_replay(void) {
  simulate_begin();
  simulate_data_only = True;
  return accesses && replay_open(accesses) ? NULL
                                           : "--accesses: mode replay needs a stream of accesses that can be read";
}

static IRSB *instrument(IRSB *in, const struct translation *translation) {
  return simulate_instrument(in, translation, False);
}

static IRSB *instrument_replay(IRSB *in, const struct translation *translation) {
  return simulate_instrument(in, translation, True);
}

static void end_replay(Bool before_exec) {
  if (!before_exec)
    replay_finish();
}

static void write_replay(VgFile *file) {
  simulate_write(file);
  replay_write(file);
}

static UWord answer(UWord request, const UWord *arguments) {
  if (request == VALGRIND_REQUEST_CALLS)
    return replay_register(arguments[0], arguments[1], arguments[2]);
  return request == VALGRIND_REQUEST_STARTED && replay_note_started();
}

static const struct mode mode_simulate = {
    .name = "simulate",
    .summary = "caches and TLBs too",
    .options = "    --caches=BYTES:WAYS,...          first-level data cache and outer caches\n"
               "    --instruction-cache=BYTES:WAYS   first-level instruction cache\n"
               "    --tlbs=ENTRIES:WAYS,...          first-level TLB and those behind it\n"
               "    --data-only=no|yes               no caches for instructions [no]; always in mode replay\n"
               "    --shift=PAGES                    mode simulate: map this many OS pages before the program's\n"
               "                                     libraries [0]\n",
    .take_option = take_option,
    .begin = begin,
    .instrument = instrument,
    .write = simulate_write,
    .in_fork_child = simulate_reset,
    .syscall = simulate_note_syscall,
    .gives_back = simulate_give_back,
    .grows = simulate_note_growth,
    .moves = simulate_move};
REGISTER_MODE(mode_simulate);

static const struct mode mode_replay = {
    .name = "replay",
    .summary = "those of a recorded program's accesses and of the allocator that this process calls",
    .options = "    --accesses=F.accesses            mode replay: the recorded program's accesses\n",
    .begin = begin_replay,
    .instrument = instrument_replay,
    .end = end_replay,
    .write = write_replay,
    .in_fork_child = simulate_reset,
    .answer = answer,
    .syscall = simulate_note_syscall,
    .gives_back = simulate_give_back,
    .grows = simulate_note_growth,
    .moves = simulate_move};
REGISTER_MODE(mode_replay);
