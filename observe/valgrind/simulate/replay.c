/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/simulate/replay.h"

#include "core/trace/access_stream.h"
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/simulate/simulate.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_transtab.h>
#include <pub_tool_vki.h>

enum {
  BUFFER_BYTES = 1 << 18,
  /* Room for an allocator's frames in a call. The engine's stacks are of that size; memory beyond one may be the
     allocator's. */
  STACK_BYTES = 128 << 10,
};

static Int fd = -1;
static struct access_coder coder;
static UChar buffer[BUFFER_BYTES];
static const UChar *at = buffer, *filled = buffer;
static Bool at_end;

static Addr function;
static const Addr *table; /* owned by the client: two words for each slot */
static UWord slots;

static Addr recorded_stack_pointer; /* of the call under way; 0: none yet */
static ULong events, lost;

static Bool starting = True;
static struct counted startup_counted; /* not the allocator's */
static ULong startup_accesses;         /* the same */

Bool replay_register(Addr called, Addr objects, UWord count) {
  if (function || !called || fd < 0)
    return False;
  function = called;
  table = (const Addr *)objects;
  slots = count;
  VG_(discard_translations_safely)(function, 1, "heaptape call");
  return True;
}

Bool replay_counts_all(void) {
  return starting;
}

/* Start-up code that runs again, in the allocator or outside it, needs its guards from now on. */
Bool replay_note_started(void) {
  if (!starting)
    return False;
  starting = False;
  startup_counted = counted_since(counted_now(), allocator_counted());
  VG_(discard_translations_safely)(0, ~0ull, "heaptape start-up");
  return True;
}

/* Moves the remaining bytes to the buffer's start and fills it up. */
static void refill(void) {
  UWord left = (UWord)(filled - at);
  VG_(memmove)(buffer, at, left);
  at = buffer;
  while (!at_end && left < BUFFER_BYTES) {
    Int got = VG_(read)(fd, buffer + left, (Int)(BUFFER_BYTES - left));
    at_end = got <= 0;
    left += got > 0 ? (UWord)got : 0;
  }
  filled = buffer + left;
}

/* Accesses before the first burst, including the start-up, are counted separately. */
static void find_bursts(void) {
  struct access_coder none = {0};
  const UChar *first = at;
  struct access_item item;
  refill();
  if (access_get(&none, &first, filled, &item) && item.kind == ACCESS_BURST)
    simulate_set_outside(True);
}

/* The header is skipped: it was checked. */
Bool replay_open(const HChar *path) {
  struct access_file_header header;
  fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (fd < 0 || VG_(read)(fd, &header, sizeof header) != sizeof header)
    return False;
  find_bursts();
  return True;
}

static void play_object(const struct access_item *item) {
  Addr address = item->object < slots ? table[2 * item->object] : 0;
  if (address)
    simulate_access(address + ((Addr)item->granule << ACCESS_GRANULE_SHIFT), 1);
  else
    lost++;
}

/* Plays up to and including the next EVENT. Returns False at the stream's end. The decoder's state is in locals
   meanwhile. */
static Bool play(void) {
  struct access_coder now = coder;
  struct access_item item;
  Bool found = False;
  while (!found) {
    if (filled - at < ACCESS_ITEM_BYTES && !at_end)
      refill();
    if (!access_get(&now, &at, filled, &item))
      break;
    if (item.kind == ACCESS_OTHER)
      simulate_access(((Addr)item.granule << ACCESS_GRANULE_SHIFT) | REPLAY_OTHER, 1);
    else if (item.kind == ACCESS_OBJECT)
      play_object(&item);
    else if (item.kind == ACCESS_BURST)
      simulate_set_outside(!item.value);
    else
      found = item.kind == ACCESS_EVENT;
  }
  coder = now;
  if (found)
    recorded_stack_pointer = item.stack_pointer;
  return found;
}

static void before_call(void) {
  events += play();
}

void replay_finish(void) {
  while (play())
    events++;
}

void replay_instrument(IRSB *into, const struct translation *translation) {
  if (function && translation->address == function)
    call_helper(into, "before_call", before_call, mkIRExprVec_0(), NULL);
}

/* The return address, which the call's end reads, is at the stack pointer; memory above it is the engine's. */
VG_REGPARM(2) void replay_access(Addr address, UWord bytes) {
  if (!allocator_runs && !starting)
    return;
  startup_accesses += !allocator_runs;
  Addr above = allocator_left_above + sizeof(Addr);
  if (recorded_stack_pointer && address - (above - STACK_BYTES) < STACK_BYTES)
    address = (address - allocator_left_above + recorded_stack_pointer) | REPLAY_OTHER;
  simulate_access(address, bytes);
}

void replay_write(VgFile *file) {
  VG_(fprintf)
  (file, ", \"events\": %llu, \"lost_accesses\": %llu, \"startup_accesses\": %llu, \"startup\": {", events, lost,
   startup_accesses);
  output_counted(file, startup_counted);
  VG_(fprintf)(file, "}");
}
