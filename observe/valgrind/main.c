/* SPDX-License-Identifier: GPL-2.0-only */
/* The Valgrind tool `heaptape`: options, and the functions that Valgrind's core calls.

   --mode=count|simulate|replay|accesses|calls, --out-file=F.json, --first=PID, --caches=BYTES:WAYS,...,
   --instruction-cache=BYTES:WAYS, --tlbs=ENTRIES:WAYS,..., --data-only=yes,
   --accesses=F.accesses, --filter=BYTES,
   --bursts=in|out, --burst-from=MARK, --burst-to=MARK, --functions=F */
#include "core/system/valgrind_requests.h"
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/objects.h"
#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/syscalls.h"
#include "observe/valgrind/common/tool.h"
#include "observe/valgrind/count.h"
#include "observe/valgrind/record/accesses.h"
#include "observe/valgrind/record/calls.h"
#include "observe/valgrind/record/rings.h"
#include "observe/valgrind/simulate/replay.h"
#include "observe/valgrind/simulate/simulate.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_options.h>
#include <pub_tool_threadstate.h>

static const HChar *const mode_names[] = {"count", "simulate", "replay", "accesses", "calls", NULL};
enum { MODE_COUNT, MODE_SIMULATE, MODE_REPLAY, MODE_ACCESSES, MODE_CALLS };

static Int mode;
static const HChar *out_file = "heaptape.json", *accesses, *functions;
static Int first_process;
static Long filter_bytes;
static UInt threads_started = 1;

static const HChar *const burst_starts[] = {"out", "in", NULL};

static void require(Bool good, const HChar *option) {
  if (!good)
    VG_(fmsg_bad_option)(option, "expected: CAPACITY:WAYS,... with a power of two of sets\n");
}

static Bool take_option(const HChar *option) {
  const HChar *text;
  Int in_burst;
  if VG_STRINDEX_CLO (option, "--mode", mode_names, mode) {
  } else if VG_STR_CLO (option, "--out-file", out_file) {
  } else if VG_BINT_CLO (option, "--first", first_process, 0, 1 << 30) {
  } else if VG_STR_CLO (option, "--caches", text) {
    require(simulate_set_caches(text), option);
  } else if VG_STR_CLO (option, "--instruction-cache", text) {
    require(simulate_set_instruction_cache(text), option);
  } else if VG_STR_CLO (option, "--tlbs", text) {
    require(simulate_set_tlbs(text), option);
  } else if VG_BOOL_CLO (option, "--data-only", simulate_data_only) {
  } else if VG_BINT_CLO (option, "--shift", simulate_shift_os_pages, 0, 1 << 20) {
  } else if VG_STR_CLO (option, "--accesses", accesses) {
  } else if VG_STR_CLO (option, "--functions", functions) {
  } else if VG_STRINDEX_CLO (option, "--bursts", burst_starts, in_burst) {
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

static void print_usage(void) {
  VG_(printf)
  ("    --mode=MODE                      count: instructions by kind of call; simulate: caches and TLBs too; replay:\n"
   "                                     those of a recorded program's accesses and of the allocator that this\n"
   "                                     process calls; accesses: none, accesses go to the recorder;\n"
   "                                     calls: none, a static program's calls go to the recorder [count]\n"
   "    --out-file=F.json                result [heaptape.json]; of other processes F.json.PID\n"
   "    --first=PID                      the process whose result has the plain name [any]\n"
   "    --caches=BYTES:WAYS,...          first-level data cache and outer caches\n"
   "    --instruction-cache=BYTES:WAYS   first-level instruction cache\n"
   "    --tlbs=ENTRIES:WAYS,...          first-level TLB and those behind it\n"
   "    --data-only=no|yes               no caches for instructions [no]; always in mode replay\n"
   "    --shift=PAGES                    mode simulate: map this many OS pages before the program's libraries [0]\n"
   "    --accesses=F.accesses            mode replay: the recorded program's accesses\n"
   "    --filter=BYTES                   mode accesses: the cache whose hits are left out; 0: none [4096]\n"
   "    --bursts=in|out                  mode accesses: accesses are recorded in bursts, the first of which begins with\n"
   "                                     the program (in), or not\n"
   "    --functions=F                    mode calls: the functions of the program's allocator\n"
   "    --burst-from=MARK, --burst-to=MARK   the marks at which a burst begins, and ends\n");
}

static void print_debug_usage(void) {}

/* Only the guest's stack pointer is kept up to date before each access, as in cachegrind: code becomes 6 % shorter. A
   handler of SIGSEGV may see an older instruction pointer. */
static void begin_accesses(void) {
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdSpAtMemAccess;
  VG_(clo_px_file_backed) = VexRegUpdSpAtMemAccess;
  accesses_begin();
}

/* VG_(fmsg_bad_option) ends the program only while options are read. */
static void refuse(const HChar *why) {
  VG_(umsg)("valgrind: %s\n", why);
  VG_(exit)(1);
}

static void begin(void) {
  /* So that superblocks begin where functions begin and calls return. Callgrind does the same. */
  VG_(clo_vex_control).guest_chase = False;
  if (mode == MODE_COUNT) {
    count_begin();
  } else {
    allocator_begin();
    if (mode == MODE_ACCESSES)
      begin_accesses();
    else if (mode != MODE_CALLS)
      simulate_begin();
  }
  if (mode == MODE_CALLS && (!functions || !calls_open(functions)))
    refuse("--functions: mode calls needs a list of functions that can be read");
  if (mode != MODE_REPLAY)
    return;
  simulate_data_only = True;
  if (!accesses || !replay_open(accesses))
    refuse("--accesses: mode replay needs a stream of accesses that can be read");
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word, IRType host_word) {
  (void)extents, (void)host, (void)guest_word, (void)host_word;
  struct translation translation = {layout, closure->readdr};
  if (mode == MODE_COUNT)
    return count_instrument(in, &translation);
  if (mode == MODE_ACCESSES)
    return accesses_instrument(in, &translation);
  if (mode == MODE_CALLS)
    return calls_instrument(in, &translation);
  return simulate_instrument(in, &translation, mode == MODE_REPLAY);
}

static void write_result(Bool before_exec) {
  if (mode == MODE_ACCESSES) {
    accesses_put_totals();
    return;
  }
  if (mode == MODE_CALLS)
    return;
  if (mode == MODE_REPLAY && !before_exec)
    replay_finish();
  struct output output = {out_file, first_process, mode_names[mode], before_exec};
  VgFile *file = output_begin(&output);
  if (!file)
    return;
  VG_(fprintf)(file, ", \"threads\": %u", threads_started);
  if (mode == MODE_COUNT)
    count_write(file);
  else
    simulate_write(file);
  if (mode == MODE_REPLAY)
    replay_write(file);
  output_end(file);
}

static void finish(Int status) {
  (void)status; /* Valgrind always passes 0 */
  write_result(False);
}

static void before_client_code(ThreadId thread, ULong blocks) {
  (void)blocks;
  if (mode == MODE_COUNT)
    count_switch_to(thread);
  else
    allocator_switch_to(thread);
  if (mode == MODE_ACCESSES)
    accesses_run(thread);
}

static void after_client_code(ThreadId thread, ULong blocks) {
  (void)thread, (void)blocks;
  if (mode == MODE_ACCESSES)
    accesses_run(VG_INVALID_THREADID);
}

static void before_thread(ThreadId parent, ThreadId thread) {
  (void)thread;
  threads_started += parent != VG_INVALID_THREADID;
}

static void after_thread(ThreadId thread) {
  if (mode == MODE_COUNT)
    count_thread_ends(thread);
  else
    allocator_thread_ends(thread);
  if (mode == MODE_CALLS)
    rings_thread_ends(thread);
}

static void in_fork_child(ThreadId thread) {
  (void)thread;
  threads_started = 1;
  if (mode == MODE_COUNT)
    count_reset();
  else if (mode == MODE_ACCESSES)
    accesses_reset();
  else if (mode == MODE_CALLS)
    rings_forget();
  else
    simulate_reset();
}

static void before_handler(ThreadId thread, Int signal, Bool alternate_stack) {
  (void)thread, (void)signal;
  allocator_signal_begins(alternate_stack);
}

static void after_handler(ThreadId thread, Int signal) {
  (void)thread, (void)signal;
  allocator_signal_ends();
}

static Bool take_request(ThreadId thread, UWord *arguments, UWord *answer) {
  (void)thread;
  switch (arguments[0] - VALGRIND_REQUEST_BASE) {
  case VALGRIND_REQUEST_CALLER:
    *answer = mode == MODE_COUNT && count_register_caller(arguments[1], arguments[2], arguments[3]);
    return True;
  case VALGRIND_REQUEST_EVENT:
    *answer = mode == MODE_ACCESSES && accesses_take_event(arguments + 1);
    return True;
  case VALGRIND_REQUEST_RECORDING:
    *answer = mode == MODE_CALLS ? arguments[1] == RECORDING_IS_POSSIBLE
                                 : mode == MODE_ACCESSES && accesses_set_recording(arguments + 1);
    return True;
  case VALGRIND_REQUEST_MARK:
    *answer = mode == MODE_ACCESSES && accesses_take_mark(arguments + 1);
    return True;
  case VALGRIND_REQUEST_BURST:
    *answer = mode == MODE_ACCESSES && accesses_take_burst(arguments + 1);
    return True;
  case VALGRIND_REQUEST_STARTED:
    *answer = (mode == MODE_COUNT && count_note_started()) || (mode == MODE_REPLAY && replay_note_started());
    return True;
  case VALGRIND_REQUEST_LOADED:
    *answer = mode == MODE_COUNT && count_note_loaded();
    return True;
  case VALGRIND_REQUEST_CALLS:
    *answer = mode == MODE_REPLAY && replay_register(arguments[1], arguments[2], arguments[3]);
    return True;
  default:
    return False;
  }
}

/* When exec returns, the process's old memory is gone. */
static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count) {
  (void)thread, (void)arguments, (void)count;
  if (mode == MODE_ACCESSES)
    accesses_note_syscall();
  else if (mode == MODE_COUNT)
    count_note_syscall(number);
  else
    simulate_note_syscall(number);
  if (syscalls_is_exec(number))
    write_result(True);
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count, SysRes result) {
  (void)thread, (void)count;
  if (syscalls_is_exec(number))
    output_forget_exec();
  if (mode != MODE_COUNT && !sr_isError(result) && syscalls_gives_back(number, arguments))
    simulate_give_back(arguments[0], arguments[1]);
}

static void after_unmapping(Addr address, SizeT bytes) {
  objects_forget(address, bytes);
  simulate_give_back(address, bytes);
}

static void after_mapping(Addr address, SizeT bytes, Bool read, Bool write, Bool execute, ULong handle) {
  (void)read, (void)write, (void)execute, (void)handle;
  after_unmapping(address, bytes);
}

static void after_growth(Addr address, SizeT bytes, ThreadId thread) {
  (void)thread;
  simulate_note_growth(address, bytes);
}

static void before_options(void) {
  VG_(details_name)("heaptape");
  VG_(details_version)(NULL);
  VG_(details_description)
  ("counts instructions by kind of call; simulates caches and TLBs, live and replayed; records data accesses");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the heaptape authors.");
  VG_(details_bug_reports_to)("heaptape's authors");
  VG_(basic_tool_funcs)(begin, instrument, finish);
  VG_(needs_command_line_options)(take_option, print_usage, print_debug_usage);
  VG_(needs_client_requests)(take_request);
  VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
  VG_(track_start_client_code)(before_client_code);
  VG_(track_stop_client_code)(after_client_code);
  VG_(track_pre_thread_ll_create)(before_thread);
  VG_(track_pre_thread_ll_exit)(after_thread);
  VG_(track_pre_deliver_signal)(before_handler);
  VG_(track_post_deliver_signal)(after_handler);
  VG_(track_new_mem_mmap)(after_mapping);
  VG_(track_die_mem_munmap)(after_unmapping);
  VG_(track_new_mem_brk)(after_growth);
  VG_(track_die_mem_brk)(simulate_give_back);
  VG_(track_copy_mem_remap)(simulate_move);
  VG_(atfork)(NULL, NULL, in_fork_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)

/* Replaces Valgrind's reader of line numbers: part.mk links each call of it to this function (--wrap). No mode needs
   lines, and at each start the reader unpacked and sorted those of the C library, half of the CPU time of a start.
   Whatever arguments a version of Valgrind passes, the caller cleans them up. Where a version has another name for its
   reader, nothing is wrapped, and lines are read. */

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void);

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void) {}
