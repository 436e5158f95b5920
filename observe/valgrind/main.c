/* SPDX-License-Identifier: GPL-2.0-only */
/* The Valgrind tool `heaptape`: its options, and the functions that Valgrind's core calls.

   --mode=MODE, --out-file=F.json, --first=PID, and those of modes (common/mode.h). */
#include "core/system/valgrind_requests.h"
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/mode.h"
#include "observe/valgrind/common/objects.h"
#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/syscalls.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_options.h>
#include <pub_tool_threadstate.h>

extern const struct mode *const __start_tool_modes[], *const __stop_tool_modes[];

#define FOR_EACH_MODE(one) for (const struct mode *const *one = __start_tool_modes; one < __stop_tool_modes; one++)

/* Calls a function of the mode, if it has it. */
#define TELL(function, ...)                                                                                            \
  do {                                                                                                                 \
    if (mode->function)                                                                                                \
      mode->function(__VA_ARGS__);                                                                                     \
  } while (0)

static const struct mode *mode = &mode_count;
static const HChar *out_file = "heaptape.json";
static Int first_process;
static UInt threads_started = 1;

static void choose(const HChar *name, const HChar *option) {
  FOR_EACH_MODE(one) {
    if (VG_STREQ((*one)->name, name)) {
      mode = *one;
      return;
    }
  }
  VG_(fmsg_bad_option)(option, "Invalid string '%s' in '%s'\n", name, option);
}

static Bool take_option(const HChar *option) {
  const HChar *name;
  if VG_STR_CLO (option, "--mode", name) {
    choose(name, option);
    return True;
  }
  if (VG_STR_CLO(option, "--out-file", out_file) || VG_BINT_CLO(option, "--first", first_process, 0, 1 << 30))
    return True;
  FOR_EACH_MODE(one) {
    if ((*one)->take_option && (*one)->take_option(option))
      return True;
  }
  return False;
}

static void print_usage(void) {
  VG_(printf)("    --mode=MODE                      one of these [%s]\n", mode_count.name);
  FOR_EACH_MODE(one)
  VG_(printf)("                                     %s: %s\n", (*one)->name, (*one)->summary);
  VG_(printf)
  ("    --out-file=F.json                result [heaptape.json]; of other processes F.json.PID\n"
   "    --first=PID                      the process whose result has the plain name [any]\n");
  FOR_EACH_MODE(one)
  VG_(printf)("%s", (*one)->options ? (*one)->options : "");
}

static void print_debug_usage(void) {}

static void begin(void) {
  /* So that superblocks begin where functions begin and calls return. Callgrind does the same. */
  VG_(clo_vex_control).guest_chase = False;
  allocator_begin();
  const HChar *why = mode->begin ? mode->begin() : NULL;
  if (!why)
    return;
  /* VG_(fmsg_bad_option) ends the program only while options are read. */
  VG_(umsg)("valgrind: %s\n", why);
  VG_(exit)(1);
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word, IRType host_word) {
  (void)extents, (void)host, (void)guest_word, (void)host_word;
  struct translation translation = {layout, closure->readdr};
  return mode->instrument(in, &translation);
}

static void write_result(Bool before_exec) {
  TELL(end, before_exec);
  if (!mode->write)
    return;
  struct output output = {out_file, first_process, mode->name, before_exec};
  VgFile *file = output_begin(&output);
  if (!file)
    return;
  VG_(fprintf)(file, ", \"threads\": %u", threads_started);
  mode->write(file);
  output_end(file);
}

static void finish(Int status) {
  (void)status; /* Valgrind always passes 0 */
  write_result(False);
}

static void before_client_code(ThreadId thread, ULong blocks) {
  (void)blocks;
  allocator_switch_to(thread);
  TELL(runs, thread);
}

static void after_client_code(ThreadId thread, ULong blocks) {
  (void)thread, (void)blocks;
  TELL(stops);
}

static void before_thread(ThreadId parent, ThreadId thread) {
  (void)thread;
  threads_started += parent != VG_INVALID_THREADID;
}

static void after_thread(ThreadId thread) {
  allocator_thread_ends(thread);
  TELL(thread_ends, thread);
}

static void in_fork_child(ThreadId thread) {
  (void)thread;
  threads_started = 1;
  TELL(in_fork_child);
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
  UWord request = arguments[0] - VALGRIND_REQUEST_BASE;
  if (request == 0 || request > VALGRIND_REQUEST_BURST)
    return False;
  *answer = mode->answer ? mode->answer(request, arguments + 1) : 0;
  return True;
}

/* When exec returns, the process's old memory is gone. */
static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count) {
  (void)thread, (void)arguments, (void)count;
  TELL(syscall, number);
  if (syscalls_is_exec(number))
    write_result(True);
}

static void give_back(Addr address, SizeT bytes) {
  TELL(gives_back, address, bytes);
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count, SysRes result) {
  (void)thread, (void)count;
  if (syscalls_is_exec(number))
    output_forget_exec();
  if (!sr_isError(result) && syscalls_gives_back(number, arguments))
    give_back(arguments[0], arguments[1]);
}

static void after_unmapping(Addr address, SizeT bytes) {
  objects_forget(address, bytes);
  give_back(address, bytes);
}

static void after_mapping(Addr address, SizeT bytes, Bool read, Bool write, Bool execute, ULong handle) {
  (void)read, (void)write, (void)execute, (void)handle;
  after_unmapping(address, bytes);
}

static void after_growth(Addr address, SizeT bytes, ThreadId thread) {
  (void)thread;
  TELL(grows, address, bytes);
}

static void after_move(Addr from, Addr to, SizeT bytes) {
  TELL(moves, from, to, bytes);
}

static void before_options(void) {
  VG_(details_name)("heaptape");
  VG_(details_version)(NULL);
  VG_(details_description)
  ("counts, simulates or records what a program and its allocator do, by --mode");
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
  VG_(track_die_mem_brk)(give_back);
  VG_(track_copy_mem_remap)(after_move);
  VG_(atfork)(NULL, NULL, in_fork_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)

/* Replaces Valgrind's reader of line numbers: part.mk links each call of it to this function (--wrap). No mode needs
   lines, and at each start the reader unpacked and sorted those of the C library, half of the CPU time of a start.
   Whatever arguments a version of Valgrind passes, the caller cleans them up. Where a version has another name for its
   reader, nothing is wrapped, and lines are read. */

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void);

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void) {}
