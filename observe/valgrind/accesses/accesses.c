/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/accesses/accesses.h"

#include "observe/valgrind/accesses/live.h"
#include "observe/valgrind/common/allocator.h"

#include "core/system/valgrind_requests.h"
#include "core/trace/access_stream.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_machine.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_transtab.h>
#include <pub_tool_vki.h>
#include <pub_tool_vkiscnums.h>

#include <immintrin.h>

/* Moves a descriptor out of the client's reach, and closes the old one. Valgrind's core has it, its headers for tools
   do not. */
extern Int VG_(safe_fd)(Int old_fd);

enum {
  FILTER_WAYS = 4,
  SENT_BYTES = 64 << 10,    /* at once, at least */
  OUTPUT_BYTES = 256 << 10, /* kept while the recorder compresses a block, in addition to the socket's buffer */
  CHUNK = 256,
  MISSED_ROOM = 4 * CHUNK,
  NO_STREAM = -1,
};

static const UWord NO_GRANULE = ~(UWord)0;

_Static_assert((PENDING_FULL + PENDING_ROOM) * sizeof(UWord) < 1 << PENDING_INSTRUCTIONS_SHIFT, "bytes in use fit");

UWord pending[PENDING_FULL + PENDING_ROOM];
Char pending_codes[PENDING_FULL + PENDING_ROOM + PENDING_CODES];

/* The ways of each set, the one used last first. */
static UWord *filter;
static UWord filter_bytes = ACCESS_FILTER_BYTES, filter_mask;
static UWord last_granule; /* the stream's last one, where there is no filter */

static Int stream = NO_STREAM;
static Bool recording;
static UChar output[OUTPUT_BYTES + LIVE_BATCH * ACCESS_ITEM_BYTES];
static UChar *output_end = output;
static UWord sent_at = SENT_BYTES; /* fill level of the output at which to try sending next */
static struct access_coder coder;
static ULong acquired;

const HChar *accesses_burst_from, *accesses_burst_to;
static Bool has_bursts, in_burst = True;

/* Counts while recording. In a recording in bursts: inside bursts; the next ones outside. */
static ULong program_instructions, allocator_instructions_recorded, program_accesses, program_syscalls;
static struct counted program_strings, strings_settled; /* of struct counted the string instructions only */
static ULong outside_program_instructions, outside_allocator_instructions, outside_syscalls;

/* Sizes of the accesses that must be checked one by one. Code -1 is the first size. */
static const UShort sizes[] = {1, 2, 4, 8, 10, 12, 16, 24, 28, 32, 48, 64, 96, 108, 512, 2048};

Char accesses_code(Int bytes, Bool has_guard) {
  UInt index = 0;
  while (index < sizeof sizes / sizeof *sizes - 1 && sizes[index] < bytes)
    index++;
  if (has_guard || sizes[index] > ACCESS_GRANULE_BYTES)
    return (Char)(-1 - (Int)index);
  return (Char)(ACCESS_GRANULE_BYTES - sizes[index]);
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

/* Sends on a socket. Valgrind has no such function for tools, and writing to a pipe without a reader would signal the
   program. */
static Long send(Int fd, const void *bytes, UWord count, Bool waits) {
  register UWord flags __asm__("r10") = 0x4000 | (waits ? 0 : 0x40); /* MSG_NOSIGNAL, MSG_DONTWAIT */
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

/* Output that the recorder does not accept without waiting is kept while there is room for it. */
static void send_output(Bool waits) {
  const UChar *from = output;
  while (from < output_end && stream != NO_STREAM) {
    Long sent = send(stream, from, (UWord)(output_end - from), waits);
    if (sent > 0)
      from += sent;
    else if (sent == -VKI_EAGAIN)
      break;
    else if (sent != -VKI_EINTR)
      close_stream();
  }
  UWord kept = stream != NO_STREAM ? (UWord)(output_end - from) : 0;
  VG_(memmove)(output, from, kept);
  output_end = output + kept;
  sent_at = kept + SENT_BYTES < OUTPUT_BYTES ? kept + SENT_BYTES : OUTPUT_BYTES;
}

static void send_if_full(void) {
  UWord used = (UWord)(output_end - output);
  if (used >= sent_at)
    send_output(used >= OUTPUT_BYTES);
}

static void put(const struct access_item *item) {
  output_end = access_put(&coder, output_end, item);
  send_if_full();
}

/* The accesses that missed the filter. */
static struct {
  Addr addresses[MISSED_ROOM], first_bytes[MISSED_ROOM];
  UInt count;
} missed;

/* The coder and the place in the output are in locals, as a store of a byte might change a global. */
static __attribute__((flatten)) void put_batch(UInt from, UInt count) {
  struct live_object owners[LIVE_BATCH];
  struct access_coder used = coder;
  UChar *to = output_end;
  live_owners(missed.first_bytes + from, count, owners);
  for (UInt index = 0; index < count; index++) {
    const struct live_object *owner = &owners[index];
    Addr address = missed.addresses[from + index];
    Long granule = (Long)(address - owner->start) >> ACCESS_GRANULE_SHIFT; /* without an owner, start is 0 */
    if (owner->bytes)
      to = access_put(&used, to,
                      &(struct access_item){.kind = ACCESS_OBJECT, .object = owner->number, .granule = granule});
    else
      to = access_put(&used, to, &(struct access_item){.kind = ACCESS_OTHER, .granule = granule});
  }
  coder = used;
  output_end = to;
  send_if_full();
}

static __attribute__((noinline)) void put_missed(void) {
  for (UInt from = 0; from < missed.count; from += LIVE_BATCH)
    put_batch(from, missed.count - from < LIVE_BATCH ? missed.count - from : LIVE_BATCH);
  missed.count = 0;
}

/* The filter in a form for loops: in registers, as a store to a way might change a global. */
struct used_filter {
  UWord *ways, mask;
};

/* Returns whether the filter held the granule, and puts it in. */
typedef Bool is_held_function(struct used_filter used, UWord granule);

/* The same where there is no filter. */
static inline Bool is_last(struct used_filter used, UWord granule) {
  (void)used;
  Bool is = granule == last_granule;
  last_granule = granule;
  return is;
}

/* On any processor. Without branches it took a third longer. */
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

#define HAS_VECTORS __attribute__((target("avx2")))

/* For each set of ways that hold the granule, from which way each way is filled when the granule moves to the front;
   way 0 is filled with the granule. In halves of ways, as the instruction takes them. */
static UInt moves[1 << FILTER_WAYS][2 * FILTER_WAYS] __attribute__((aligned(32)));

static void find_moves(void) {
  for (UInt holding = 0; holding < 1 << FILTER_WAYS; holding++) {
    UInt last = holding ? (UInt)__builtin_ctz(holding) : FILTER_WAYS - 1;
    for (UInt half = 0; half < 2 * FILTER_WAYS; half++)
      moves[holding][half] = half / 2 > 0 && half / 2 <= last ? half - 2 : half;
  }
}

/* With AVX2. Which way but the first holds a granule can't be predicted, so there is no branch. */
static inline HAS_VECTORS Bool is_held_by_vectors(struct used_filter used, UWord granule) {
  UWord *ways = &used.ways[(granule & used.mask) * FILTER_WAYS];
  if (ways[0] == granule)
    return True;
  __m256i before = _mm256_load_si256((const __m256i *)ways), wanted = _mm256_set1_epi64x((Long)granule);
  Int holding = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(before, wanted)));
  __m256i moved = _mm256_permutevar8x32_epi32(before, _mm256_load_si256((const __m256i *)moves[holding]));
  _mm256_store_si256((__m256i *)ways, _mm256_blend_epi32(moved, wanted, 3));
  return holding != 0;
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

/* Removes a released object's granules from the filter: the next object at its address is recorded from its first
   access on. */
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

/* Writes the access even if the filter held it, so that there is no branch: the next access then overwrites it. */
static inline __attribute__((always_inline)) UInt take_granule(Bool is_hit, Addr address, Addr first_byte, UInt count) {
  missed.addresses[count] = address;
  missed.first_bytes[count] = first_byte;
  return count + !is_hit;
}

/* Takes an access that may have more than one granule, or may not have happened. Keeps room for a chunk. */
static __attribute__((noinline)) void take_long(struct used_filter used, Addr address, UWord bytes) {
  for (Addr at = address; at < address + bytes; at = (at | (ACCESS_GRANULE_BYTES - 1)) + 1) {
    UWord granule = at >> ACCESS_GRANULE_SHIFT;
    Bool is_hit = used.ways ? is_held(used, granule) : is_last(used, granule);
    missed.count = take_granule(is_hit, at, address, missed.count);
    if (missed.count > MISSED_ROOM - CHUNK)
      put_missed();
  }
}

/* Takes a chunk of the program's accesses; returns how many of them did not happen. count: of accesses that missed the
   filter, in a register. */
static inline __attribute__((always_inline)) UInt take_chunk(struct used_filter used, is_held_function *holds,
                                                             UWord from, UWord to) {
  UInt count = missed.count, left_out = 0;
  for (UWord index = from; index < to; index++) {
    Addr address = pending[index];
    Int code = pending_codes[index];
    if (__builtin_expect((Int)(address % ACCESS_GRANULE_BYTES) <= code, 1)) {
      count = take_granule(holds(used, address >> ACCESS_GRANULE_SHIFT), address, address, count);
    } else if (address) {
      missed.count = count;
      take_long(used, address, code < 0 ? sizes[-1 - code] : ACCESS_GRANULE_BYTES - (UWord)code);
      count = missed.count;
    } else {
      left_out++;
    }
  }
  missed.count = count;
  return left_out;
}

static inline __attribute__((always_inline)) void take_all(struct used_filter used, is_held_function *holds,
                                                           UWord count) {
  program_accesses += count;
  for (UWord from = 0; from < count; from += CHUNK) {
    if (missed.count > MISSED_ROOM - CHUNK)
      put_missed();
    program_accesses -= take_chunk(used, holds, from, from + CHUNK < count ? from + CHUNK : count);
  }
  put_missed();
}

static void take_by_last(UWord count) {
  take_all((struct used_filter){NULL, 0}, is_last, count);
}

static void take_by_jumps(UWord count) {
  take_all((struct used_filter){filter, filter_mask}, is_held, count);
}

static HAS_VECTORS void take_by_vectors(UWord count) {
  take_all((struct used_filter){filter, filter_mask}, is_held_by_vectors, count);
}

/* Takes the program's accesses in the buffer. */
static void (*take_accesses)(UWord count) = take_by_last;

static void choose_taking(void) {
  __builtin_cpu_init();
  if (filter_bytes == 0)
    return;
  find_moves();
  take_accesses = __builtin_cpu_supports("avx2") ? take_by_vectors : take_by_jumps;
}

/* The thread whose translated code runs; VG_INVALID_THREADID while none runs, and then the buffer is empty. */
static ThreadId running;

void accesses_run(ThreadId thread) {
  accesses_settle();
  running = thread;
}

/* Translated code counts string instructions at once, not in the buffer. */
static void settle_strings(void) {
  struct counted now = counted_now(), more = counted_since(now, strings_settled);
  strings_settled = now;
  if (recording && in_burst && !allocator_runs)
    program_strings = counted_sum(program_strings, more);
}

void accesses_settle(void) {
  settle_strings();
  UWord state = 0;
  static const UWord settled;
  if (running != VG_INVALID_THREADID)
    VG_(get_shadow_regs_area)(running, (UChar *)&state, 1, PENDING_STATE, sizeof state);
  if (state == 0)
    return;
  VG_(set_shadow_regs_area)(running, 1, PENDING_STATE, sizeof settled, (const UChar *)&settled);
  UWord count = (UShort)state / sizeof(UWord), instructions = state >> PENDING_INSTRUCTIONS_SHIFT;
  executed.instructions += instructions;
  if (!recording)
    return;
  if (allocator_runs) {
    *(in_burst ? &allocator_instructions_recorded : &outside_allocator_instructions) += instructions;
    return;
  }
  if (!in_burst) {
    outside_program_instructions += instructions;
    return;
  }
  program_instructions += instructions;
  take_accesses(count);
}

void accesses_begin(void) {
  if (filter_bytes) {
    UWord granules = filter_bytes >> ACCESS_GRANULE_SHIFT;
    filter_mask = granules / FILTER_WAYS - 1;
    filter = map_zeroed(granules * sizeof *filter, "the filter of accesses");
  }
  empty_filter();
  choose_taking();
  allocator_before_switches(accesses_settle);
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

static void put_burst(void) {
  if (has_bursts && stream != NO_STREAM)
    put(&(struct access_item){.kind = ACCESS_BURST, .value = in_burst});
}

static void switch_burst(Bool begins) {
  if (begins == in_burst)
    return;
  accesses_settle();
  in_burst = begins;
  put_burst();
  empty_filter();
  VG_(discard_translations_safely)(0, ~0ull, "heaptape burst");
}

void accesses_set_bursts(Bool begins) {
  has_bursts = True;
  in_burst = begins;
}

Bool accesses_are_wanted(void) {
  return in_burst;
}

static Bool is_mark(const HChar *mark, const UWord *arguments) {
  return mark && VG_(strlen)(mark) == arguments[1] && VG_(memcmp)(mark, (const void *)arguments[0], arguments[1]) == 0;
}

Bool accesses_take_mark(const UWord *arguments) {
  if (has_bursts && is_mark(in_burst ? accesses_burst_to : accesses_burst_from, arguments))
    switch_burst(!in_burst);
  return has_bursts;
}

Bool accesses_take_burst(const UWord *arguments) {
  if (has_bursts)
    switch_burst(arguments[0] != 0);
  return has_bursts;
}

Bool accesses_set_recording(const UWord *arguments) {
  if (arguments[0] == RECORDING_IS_POSSIBLE)
    return True;
  accesses_settle();
  if (arguments[0] == RECORDING_BEGINS) {
    close_stream();
    stream = VG_(safe_fd)((Int)arguments[1]);
    if (in_burst)
      put_burst();
  }
  if (stream == NO_STREAM)
    return False;
  recording = arguments[0] != RECORDING_PAUSES;
  return True;
}

void accesses_note_syscall(void) {
  if (recording && !allocator_runs)
    ++*(in_burst ? &program_syscalls : &outside_syscalls);
}

void accesses_put_totals(void) {
  if (stream == NO_STREAM)
    return;
  accesses_settle();
  const ULong totals[ACCESS_TOTAL_LIMIT] = {[ACCESS_TOTAL_PROGRAM_INSTRUCTIONS] = program_instructions,
                                            [ACCESS_TOTAL_ALLOCATOR_INSTRUCTIONS] = allocator_instructions_recorded,
                                            [ACCESS_TOTAL_PROGRAM_ACCESSES] = program_accesses,
                                            [ACCESS_TOTAL_SYSCALLS] = program_syscalls,
                                            [ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS] = outside_program_instructions,
                                            [ACCESS_TOTAL_OUTSIDE_ALLOCATOR_INSTRUCTIONS] =
                                                outside_allocator_instructions,
                                            [ACCESS_TOTAL_OUTSIDE_SYSCALLS] = outside_syscalls,
                                            [ACCESS_TOTAL_STRING_INSTRUCTIONS] = program_strings.strings,
                                            [ACCESS_TOTAL_STRING_BYTES] = program_strings.string_bytes};
  for (UInt total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    if (has_bursts || !access_total_is_outside(total))
      put(&(struct access_item){.kind = ACCESS_TOTAL, .total = total, .value = totals[total]});
  send_output(True);
}

void accesses_reset(void) {
  close_stream();
  output_end = output;
  sent_at = SENT_BYTES;
  coder = (struct access_coder){0};
  missed.count = 0;
  acquired = 0;
  program_instructions = allocator_instructions_recorded = program_accesses = program_syscalls = 0;
  outside_program_instructions = outside_allocator_instructions = outside_syscalls = 0;
  program_strings = strings_settled = (struct counted){0};
  allocator_reset();
  live_forget();
  empty_filter();
}
