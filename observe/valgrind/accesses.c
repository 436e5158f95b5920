#include "observe/valgrind/accesses.h"

#include "observe/valgrind/allocator.h"
#include "observe/valgrind/live.h"

#include "core/accesses/stream.h"
#include "core/valgrind/requests.h"

#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_vki.h>
#include <pub_tool_vkiscnums.h>

/* Moves a descriptor to where the client can't reach it, and closes the old one. Valgrind's core has it, its headers
   for tools do not. */
extern Int VG_(safe_fd)(Int old_fd);

enum {
  FILTER_WAYS = 4,
  OUTPUT_BYTES = 64 << 10,
  NO_STREAM = -1,
};

static const UWord NO_GRANULE = ~(UWord)0;

UWord pending[PENDING_WORDS + PENDING_ROOM];
UWord *pending_end = pending;

/* Of each set the ways, the one used last first. */
static UWord *filter;
static UWord filter_bytes = ACCESS_FILTER_BYTES, filter_mask;
static UWord last_granule; /* of the stream, where there is no filter */

static Int stream = NO_STREAM;
static Bool recording;
static UChar output[OUTPUT_BYTES + ACCESS_ITEM_BYTES];
static UChar *output_end = output;
static struct access_coder coder;
static ULong acquired;

/* While recording. */
static ULong program_instructions, allocator_instructions_recorded, program_accesses, program_syscalls;

static const UShort sizes[1 << STRETCH_SIZE_BITS] = {1, 2, 4, 8, 16, 32, 64, 10, 12, 24, 28, 48, 96, 108, 512, 2048};

/* Sizes of data types, which are nearly all, come first in the table. */
UInt accesses_size_code(Int bytes) {
  UInt least = (1 << STRETCH_SIZE_BITS) - 1;
  for (UInt code = 0; code < 1 << STRETCH_SIZE_BITS; code++)
    if (sizes[code] >= bytes && sizes[code] < sizes[least])
      least = code;
  return least;
}

Bool accesses_set_filter(Long bytes) {
  enum { LEAST = FILTER_WAYS * ACCESS_GRANULE_BYTES };
  filter_bytes = (UWord)bytes;
  return bytes == 0 || (bytes >= LEAST && bytes <= 1 << 30 && (bytes & (bytes - 1)) == 0);
}

static void empty_filter(void) {
  for (UWord granule = 0; filter_bytes && granule < (filter_mask + 1) * FILTER_WAYS; granule++)
    filter[granule] = NO_GRANULE;
  last_granule = NO_GRANULE;
}

void accesses_begin(void) {
  if (filter_bytes) {
    UWord granules = filter_bytes >> ACCESS_GRANULE_SHIFT;
    filter_mask = granules / FILTER_WAYS - 1;
    filter = VG_(am_shadow_alloc)((granules * sizeof *filter + 4095) & ~(UWord)4095);
    if (!filter) {
      VG_(umsg)("heaptape: no memory for a filter of %lu bytes\n", filter_bytes);
      VG_(exit)(1);
    }
  }
  empty_filter();
  allocator_before_switches(accesses_settle);
}

/* Valgrind has no such function for tools: a pipe whose reader has gone would be a signal to the program. */
static Long send(Int fd, const void *bytes, UWord count) {
  register UWord flags __asm__("r10") = 0x4000; /* MSG_NOSIGNAL */
  register UWord address __asm__("r8") = 0, address_bytes __asm__("r9") = 0;
  Long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(__NR_sendto), "D"((UWord)fd), "S"(bytes), "d"(count), "r"(flags), "r"(address),
                     "r"(address_bytes)
                   : "rcx", "r11", "memory");
  return result;
}

static void close_stream(void) {
  if (stream != NO_STREAM)
    VG_(close)(stream);
  stream = NO_STREAM;
  recording = False;
}

/* Waits until the recorder takes it. */
static void flush(void) {
  const UChar *from = output;
  while (from < output_end && stream != NO_STREAM) {
    Long sent = send(stream, from, (UWord)(output_end - from));
    if (sent > 0)
      from += sent;
    else if (sent != -VKI_EINTR)
      close_stream();
  }
  output_end = output;
}

static void put(const struct access_item *item) {
  output_end = access_put(&coder, output_end, item);
  if (output_end >= output + OUTPUT_BYTES)
    flush();
}

/* What the filter let through, until a batch is full: so that the loads of several searches are under way together. */
static struct {
  Addr addresses[LIVE_BATCH], first_bytes[LIVE_BATCH];
  UInt count;
} missed;

static __attribute__((noinline)) void put_missed(void) {
  struct live_object owners[LIVE_BATCH];
  live_owners(missed.first_bytes, missed.count, owners);
  for (UInt index = 0; index < missed.count; index++) {
    const struct live_object *owner = &owners[index];
    Addr address = missed.addresses[index];
    if (owner->bytes)
      put(&(struct access_item){.kind = ACCESS_OBJECT,
                                .object = owner->number,
                                .granule = (Long)(address - owner->start) >> ACCESS_GRANULE_SHIFT});
    else
      put(&(struct access_item){.kind = ACCESS_OTHER, .granule = (Long)(address >> ACCESS_GRANULE_SHIFT)});
  }
  missed.count = 0;
}

static inline void put_access(Addr address, Addr first_byte) {
  missed.addresses[missed.count] = address;
  missed.first_bytes[missed.count] = first_byte;
  if (++missed.count == LIVE_BATCH)
    put_missed();
}

/* The filter as it is used in a loop: in registers, as a store to a way might change a global. ways: NULL for none. */
struct used_filter {
  UWord *ways, mask;
};

/* Returns whether the filter held the granule; afterwards it does. Without branches it took a third longer. */
static inline Bool is_held(struct used_filter used, UWord granule) {
  UWord *ways = &used.ways[(granule & used.mask) * FILTER_WAYS];
  UWord first = ways[0];
  if (first == granule)
    return True;
  ways[0] = granule;
  UWord second = ways[1];
  ways[1] = first;
  if (second == granule)
    return True;
  UWord third = ways[2];
  ways[2] = second;
  if (third == granule)
    return True;
  UWord fourth = ways[3];
  ways[3] = third;
  return fourth == granule;
}

static void forget_granule(UWord granule) {
  UWord *ways = &filter[(granule & filter_mask) * FILTER_WAYS];
  UInt way = 0;
  while (way < FILTER_WAYS && ways[way] != granule)
    way++;
  if (way == FILTER_WAYS)
    return;
  for (; way < FILTER_WAYS - 1; way++)
    ways[way] = ways[way + 1];
  ways[way] = NO_GRANULE;
}

/* What a released object has in the filter: the next object at its address is recorded from its first access on. */
static void forget(Addr address, SizeT bytes) {
  UWord first = address >> ACCESS_GRANULE_SHIFT;
  UWord count = bytes ? ((address + bytes - 1) >> ACCESS_GRANULE_SHIFT) - first + 1 : 0;
  UWord places = filter_bytes >> ACCESS_GRANULE_SHIFT;
  if (count <= places) {
    for (UWord granule = first; granule < first + count; granule++)
      forget_granule(granule);
    return;
  }
  for (UWord place = places; place-- > 0;)
    if (filter[place] - first < count)
      forget_granule(filter[place]);
}

/* The same where there is no filter. */
static inline Bool is_last(UWord granule) {
  Bool is = granule == last_granule;
  last_granule = granule;
  return is;
}

static inline __attribute__((always_inline)) void take_granule(struct used_filter used, Addr address, Addr first_byte) {
  UWord granule = address >> ACCESS_GRANULE_SHIFT;
  if (used.ways ? !is_held(used, granule) : !is_last(granule))
    put_access(address, first_byte);
}

static inline __attribute__((always_inline)) void take_access(struct used_filter used, Addr address, UWord bytes) {
  take_granule(used, address, address);
  if (__builtin_expect(address % ACCESS_GRANULE_BYTES + bytes > ACCESS_GRANULE_BYTES, 0))
    for (Addr next = (address | (ACCESS_GRANULE_BYTES - 1)) + 1; next < address + bytes; next += ACCESS_GRANULE_BYTES)
      take_granule(used, next, address);
}

/* Takes the accesses of the program. Returns how many there are. */
static inline __attribute__((always_inline)) ULong take_accesses(struct used_filter used, const UWord *at,
                                                                 UWord header) {
  UInt count = stretch_count(header);
  UWord codes = header >> STRETCH_SIZES_SHIFT;
  ULong taken = count;
  for (UInt index = 0; index < count; index++, codes >>= STRETCH_SIZE_BITS) {
    Addr address = at[index];
    if (__builtin_expect(address != 0, 1))
      take_access(used, address, sizes[codes % (1 << STRETCH_SIZE_BITS)]);
    else
      taken--;
  }
  return taken;
}

/* of_program: its accesses are written; of an allocator only instructions are counted. */
static inline __attribute__((always_inline)) void settle(Bool of_program, struct used_filter used) {
  const UWord *at = pending, *end = pending_end;
  ULong instructions = 0, accesses = 0;
  while (at < end) {
    UWord header = *at++;
    instructions += stretch_instructions(header);
    if (of_program)
      accesses += take_accesses(used, at, header);
    at += stretch_count(header);
  }
  instructions_executed += instructions;
  program_accesses += accesses;
  if (of_program)
    program_instructions += instructions;
  else if (recording)
    allocator_instructions_recorded += instructions;
}

void accesses_settle(void) {
  if (!recording || allocator_runs)
    settle(False, (struct used_filter){NULL, 0});
  else if (filter_bytes)
    settle(True, (struct used_filter){filter, filter_mask});
  else
    settle(True, (struct used_filter){NULL, 0});
  put_missed();
  pending_end = pending;
}

Bool accesses_take_event(const UWord *arguments) {
  Addr acquired_address = arguments[1], released_address = arguments[3];
  accesses_settle();
  if (stream == NO_STREAM)
    return False;
  if (released_address)
    forget(released_address, live_release(released_address));
  if (acquired_address)
    live_acquire(acquired_address, arguments[2], acquired);
  struct access_item item = {.kind = ACCESS_EVENT,
                             .thread = (UInt)arguments[0],
                             .acquires = acquired_address != 0,
                             .stack_pointer = allocator_stack_pointer()};
  acquired += item.acquires;
  last_granule = NO_GRANULE;
  put(&item);
  return True;
}

Bool accesses_set_recording(const UWord *arguments) {
  if (arguments[0] == RECORDING_IS_POSSIBLE)
    return True;
  accesses_settle();
  if (arguments[0] == RECORDING_BEGINS) {
    close_stream();
    stream = VG_(safe_fd)((Int)arguments[1]);
  }
  if (stream == NO_STREAM)
    return False;
  recording = arguments[0] != RECORDING_PAUSES;
  return True;
}

void accesses_note_syscall(void) {
  program_syscalls += recording && !allocator_runs;
}

void accesses_put_totals(void) {
  if (stream == NO_STREAM)
    return;
  accesses_settle();
  const ULong totals[ACCESS_TOTAL_LIMIT] = {[ACCESS_TOTAL_PROGRAM_INSTRUCTIONS] = program_instructions,
                                            [ACCESS_TOTAL_ALLOCATOR_INSTRUCTIONS] = allocator_instructions_recorded,
                                            [ACCESS_TOTAL_PROGRAM_ACCESSES] = program_accesses,
                                            [ACCESS_TOTAL_SYSCALLS] = program_syscalls};
  for (UInt total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    put(&(struct access_item){.kind = ACCESS_TOTAL, .total = total, .value = totals[total]});
  flush();
}

void accesses_reset(void) {
  close_stream();
  pending_end = pending;
  output_end = output;
  coder = (struct access_coder){0};
  missed.count = 0;
  acquired = 0;
  program_instructions = allocator_instructions_recorded = program_accesses = program_syscalls = 0;
  instructions_executed = 0;
  allocator_reset();
  live_forget();
  empty_filter();
}
