/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/timing.h"

#include "observe/valgrind/simulate.h"

#include <pub_tool_libcbase.h>

enum {
  LATENCIES_MAX = 10,
  KINDS = 3, /* of misses */
  WINDOW_MAX = 1024,
  LOADS_MAX = 512,
  WORD_SHIFT = 3,
  WORDS = 1 << 16,
  BRANCHES = 1 << 16,
  STRONG = 3 /* the last of a branch's four states; from LIKELY on it is predicted as taken */
};
enum { LIKELY = 2, TAKEN_PARTS = 10 };

Bool timing_is_on;
struct timing timing = {.width = 1};

enum { WIDTH, WINDOW, LOADS, BRANCH, STRING, TAKEN, CORE };
static ULong core[CORE];
static ULong latencies[LATENCIES_MAX][KINDS], tlb_latencies[LATENCIES_MAX][1];
static UInt latency_count, tlb_latency_count;

static ULong ended[WINDOW_MAX]; /* a ring: when the instructions of the window end */
static UInt newest;
static ULong waiting[LOADS_MAX]; /* a heap, the least first: when the LOADS loads begin that begin last */
static ULong reset_at, mispredictions;

/* When the words that were stored last are ready; the word's address chooses its place. */
static struct {
  UWord word;
  ULong ready;
} stored[WORDS];

static UChar branches[BRANCHES];
static UWord history;
static Addr targets[BRANCHES]; /* of indirect branches, by address and path */
static UWord path;             /* of the last of them */
static ULong taken_at;         /* when the last taken branch was dispatched */

/* Reads NUMBER[:NUMBER...] of at most `limit` numbers, and sets *text to their end. Returns how many; 0: invalid text.
 */
static UInt read_numbers(const HChar **text, ULong *numbers, UInt limit) {
  for (UInt count = 0;; ++*text) {
    HChar *end;
    Long number = VG_(strtoll10)(*text, &end);
    if (end == *text || number < 0 || number > 1 << 20)
      return 0;
    numbers[count++] = (ULong)number;
    *text = end;
    if (count == limit || *end != ':')
      return count;
  }
}

/* Reads items of up to `each` numbers, separated by commas; an item's last number is that of those left out. Returns
   how many items; 0: invalid text. */
static UInt read_list(const HChar *text, ULong *numbers, UInt each) {
  for (UInt count = 0; count < LATENCIES_MAX; count++, text++, numbers += each) {
    UInt given = read_numbers(&text, numbers, each);
    if (given == 0)
      return 0;
    for (; given < each; given++)
      numbers[given] = numbers[given - 1];
    if (*text == '\0')
      return count + 1;
    if (*text != ',')
      return 0;
  }
  return 0;
}

Bool timing_set_core(const HChar *text) {
  Bool whole = read_numbers(&text, core, CORE) == CORE && *text == '\0';
  timing_is_on = True;
  timing.width = core[WIDTH];
  return whole && core[WIDTH] >= 1 && core[WIDTH] <= 64 && core[WINDOW] >= 1 && core[WINDOW] <= WINDOW_MAX &&
         core[LOADS] >= 1 && core[LOADS] <= LOADS_MAX;
}

Bool timing_set_latencies(const HChar *text) {
  latency_count = read_list(text, latencies[0], KINDS);
  return latency_count > 0;
}

Bool timing_set_tlb_latencies(const HChar *text) {
  tlb_latency_count = read_list(text, tlb_latencies[0], 1);
  return tlb_latency_count > 0;
}

Bool timing_fits(void) {
  UInt caches, tlbs;
  simulate_get_levels(&caches, &tlbs);
  return latency_count == caches + 1 && tlb_latency_count == tlbs;
}

void timing_reset(void) {
  reset_at = timing.retire;
  mispredictions = 0;
}

void timing_write(VgFile *file) {
  if (timing_is_on)
    VG_(fprintf)
  (file, ", \"cycles\": %llu, \"mispredicted_branches\": %llu", (timing.retire - reset_at) / timing.width,
   mispredictions);
}

static inline void dispatch_no_earlier(ULong time) {
  if (timing.dispatch < time)
    timing.dispatch = time;
  if (timing.retire < timing.dispatch)
    timing.retire = timing.dispatch;
}

/* The oldest instruction of the window has to end before another is dispatched. */
static inline void dispatch(UWord instructions) {
  for (; instructions > 0; instructions--) {
    ended[newest] = timing.retire;
    newest = newest + 1 == core[WINDOW] ? 0 : newest + 1;
    timing.dispatch++;
    dispatch_no_earlier(ended[newest]);
  }
}

static void load_waits(ULong until) {
  if (until <= waiting[0])
    return;
  UInt place = 0;
  for (UInt child = 1; child < core[LOADS]; child = 2 * place + 1) {
    child += child + 1 < core[LOADS] && waiting[child + 1] < waiting[child];
    if (waiting[child] >= until)
      break;
    waiting[place] = waiting[child];
    place = child;
  }
  waiting[place] = until;
}

VG_REGPARM(1) void timing_instructions(UWord before) {
  dispatch(before);
}

static ULong latency_of(struct simulated_hit hit) {
  ULong cycles = latencies[hit.cache][hit.foreseen ? 2 : hit.near ? 1 : 0];
  return timing.width * (hit.tlb > 0 ? cycles + tlb_latencies[hit.tlb - 1][0] : cycles);
}

/* The lines that a repeated string instruction loads, and those that it stores, follow each other. */
static void access_of_string(Addr address, Bool loads) {
  static ULong number = ~(ULong)0;
  static UWord lines[2];
  UWord line = address / SIMULATED_LINE_BYTES;
  if (number != executed.strings)
    dispatch_no_earlier(timing.dispatch + core[STRING] * timing.width);
  else if (line != lines[loads])
    dispatch_no_earlier(timing.dispatch + timing.width);
  number = executed.strings;
  lines[loads] = line;
}

VG_REGPARM(3) UWord timing_access(Addr address, UWord how, UWord ready) {
  dispatch(how >> TIMING_BEFORE);
  if (how & TIMING_STRING)
    access_of_string(address, (how & TIMING_LOADS) != 0);
  simulate_access(address, how & (TIMING_LOADS - 1));
  if (how & TIMING_LOADS)
    dispatch_no_earlier(waiting[0]); /* of so many waiting loads the first has to begin before another is dispatched */
  if (ready < timing.dispatch)
    ready = timing.dispatch;
  else if (how & TIMING_LOADS)
    load_waits(ready);
  UWord word = address >> WORD_SHIFT;
  if (stored[word % WORDS].word == word && stored[word % WORDS].ready > ready)
    ready = stored[word % WORDS].ready;
  ready += latency_of(simulated_hit);
  if ((how & TIMING_LOADS) && timing.retire < ready)
    timing.retire = ready;
  return ready;
}

VG_REGPARM(2) void timing_store(Addr address, UWord ready) {
  UWord word = address >> WORD_SHIFT;
  stored[word % WORDS].word = word;
  stored[word % WORDS].ready = ready;
}

static void take_branch(void) {
  dispatch_no_earlier(taken_at + core[TAKEN] * timing.width / TAKEN_PARTS);
  taken_at = timing.dispatch;
}

/* ready: when its condition or its target is. */
static void mispredict(UWord ready) {
  mispredictions++;
  if (timing.dispatch < ready)
    timing.dispatch = ready;
  dispatch_no_earlier(timing.dispatch + core[BRANCH] * timing.width);
  taken_at = timing.dispatch;
}

VG_REGPARM(3) void timing_branch(Addr instruction, UWord how, UWord ready) {
  dispatch(how >> TIMING_BEFORE);
  Bool exits = how & TIMING_EXITS;
  UChar *state = &branches[(instruction ^ history << 2) % BRANCHES];
  Bool predicted = *state >= LIKELY;
  if (exits && *state < STRONG)
    ++*state;
  else if (!exits && *state > 0)
    --*state;
  history = history << 1 | exits;
  if (predicted != exits)
    mispredict(ready);
  else if (exits != ((how & TIMING_FALLS) != 0))
    take_branch();
}

VG_REGPARM(1) void timing_jump(UWord before) {
  dispatch(before);
  take_branch();
}

VG_REGPARM(3) void timing_jump_to(Addr target, Addr instruction, UWord ready) {
  Addr *predicted = &targets[(instruction ^ path) % BRANCHES];
  Bool known = *predicted == target;
  *predicted = target;
  path = path << 3 ^ target >> 2;
  if (known)
    take_branch();
  else
    mispredict(ready);
}
