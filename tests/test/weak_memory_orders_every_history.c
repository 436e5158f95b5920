/* SPDX-License-Identifier: MIT */
/* Claim: on ARMv8 and on x86, whatever order the processor performs them in, the fences of a stamp and of the ownership
   tags give a later step at an address the greater stamp; a mark and a cut keep their places; and the collector reads
   whole records. Also: each fence that docs/methods/ORDERING.md calls needed is needed, as without it a wrong history
   is found; and those that it calls stronger than needed are not. tests/model/weak_protocol.h says what is modelled. */
#include "tests/model/weak_protocol.h"

#include <string.h>

enum { FIRST, SECOND, THIRD }; /* threads */

/* The exploration of a protocol: the number of runs and states, and whether one of them is wrong. */
struct findings {
  uint64_t runs, states;
  bool wrong;
};

typedef void explore(enum weak_machine machine, enum weak_variant variant, struct findings *findings);

static void try_run(const struct weak_run *run, struct findings *findings) {
  struct weak_result result = weak_explore(run, NULL);
  findings->runs++;
  findings->states += result.states;
  findings->wrong |= result.possible;
}

static void begin(struct weak_run *run, enum weak_machine machine, unsigned threads) {
  *run = (struct weak_run){.machine = machine, .threads = threads};
}

/* Searches for runs in which `early` comes before `late`. */
static void ask_for(struct weak_run *run, struct weak_place_of_stamp early, struct weak_place_of_stamp late) {
  run->has_order = true;
  run->early = early;
  run->late = late;
}

struct steps {
  uint8_t entry;                                        /* its value at first */
  enum weak_step before, step, other_before, following; /* of the first thread, of the second */
  enum weak_step third;
  bool in_order; /* searches for runs in which the stamps are right */
};

/* The first thread makes a step, and the second one that follows it: at one entry, where each may have made another
   step before and a third thread makes one too. The first thread's stamp is as late as it can be, and the second's as
   early.
 */
static void try_steps(enum weak_machine machine, enum weak_variant variant, const struct steps *steps,
                      struct findings *findings) {
  struct weak_run run;
  begin(&run, machine, steps->third == STEP_NONE ? 2 : 3);
  struct weak_builder builder = {&run, variant};
  run.memory[ENTRY] = steps->entry;
  unsigned step = weak_stamp(&builder, FIRST), following = weak_stamp(&builder, SECOND), third;
  weak_step(&builder, FIRST, steps->before, &step);
  if (steps->before != STEP_NONE && (steps->step == STEP_INHERITS || steps->step == STEP_CLAIMS))
    step = weak_stamp(&builder, FIRST);
  weak_step(&builder, FIRST, steps->step, &step);
  weak_hand_on(&builder, FIRST);
  weak_step(&builder, SECOND, steps->other_before, &following);
  weak_wait_for(&builder, SECOND);
  weak_step(&builder, SECOND, steps->following, &following);
  weak_step(&builder, THIRD, steps->third, &third);
  struct weak_place_of_stamp first = {FIRST, step}, second = {SECOND, following};
  ask_for(&run, steps->in_order ? first : second, steps->in_order ? second : first);
  try_run(&run, findings);
}

static void explore_pairs(enum weak_machine machine, enum weak_variant variant, struct steps *steps,
                          struct findings *findings) {
  for (steps->before = STEP_NONE; steps->before < WEAK_STEPS; steps->before++)
    for (steps->step = STEP_INHERITS; steps->step < WEAK_STEPS; steps->step++)
      for (steps->other_before = STEP_NONE; steps->other_before < WEAK_STEPS; steps->other_before++)
        for (steps->following = STEP_INHERITS; steps->following < WEAK_STEPS; steps->following++)
          try_steps(machine, variant, steps, findings);
}

static void explore_steps(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  static const uint8_t entries[] = {UNTOUCHED, FIRST + 1, SECOND + 1, SHARED};
  static const enum weak_step thirds[] = {STEP_NONE, STEP_CLAIMS, STEP_TAKES, STEP_MARKS};
  for (unsigned entry = 0; entry < sizeof entries; entry++)
    for (unsigned third = 0; third < sizeof thirds / sizeof *thirds && !findings->wrong; third++) {
      struct steps steps = {.entry = entries[entry], .third = thirds[third]};
      explore_pairs(machine, variant, &steps, findings);
    }
}

/* Wrong: some way of a step is in no run, so that nothing was shown about it. */
static void explore_ways(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  static const enum weak_step both[][2] = {
      /* what the first thread does, and the second that follows it */
      {STEP_INHERITS, STEP_TAKES},    {STEP_CLAIMS, STEP_MARKS},       {STEP_TAKES, STEP_TAKES_TWICE},
      {STEP_TAKES_TWICE, STEP_TAKES}, {STEP_MARKS, STEP_FINDS_MARKED}, {STEP_FINDS_MARKED, STEP_TAKES},
      {STEP_GIVES_UP, STEP_GIVES_UP}, {STEP_MARKS, STEP_INHERITS},
  };
  for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
    struct findings of_pair = {0};
    for (uint8_t entry = UNTOUCHED; entry <= SHARED && !of_pair.wrong; entry++)
      for (enum weak_step other = STEP_NONE; other < WEAK_STEPS && !of_pair.wrong; other++) {
        struct steps steps = {.entry = entry, .step = both[i][0], .other_before = other, .following = both[i][1]};
        steps.third = STEP_TAKES;
        steps.in_order = true;
        try_steps(machine, variant, &steps, &of_pair);
      }
    findings->runs += of_pair.runs;
    findings->states += of_pair.states;
    findings->wrong |= !of_pair.wrong;
  }
}

/* The first thread makes a mark, or the collector cuts and the first thread finds recording stopped; the second
   follows, and its step inherits the stamp of one that came before. */
static void explore_tick(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  struct weak_run run;
  struct weak_builder builder = {&run, variant};
  for (int late_tick = 0; late_tick < 2; late_tick++) { /* a step after the mark, with the old tick or the new one */
    begin(&run, machine, 2);
    unsigned mark = weak_mark(&builder, FIRST), stamp;
    weak_hand_on(&builder, FIRST);
    if (variant != WEAK_TICK_AFTER_STAMP)
      weak_read_tick(&builder, SECOND, (uint8_t)late_tick);
    stamp = weak_stamp(&builder, SECOND);
    if (variant == WEAK_TICK_AFTER_STAMP)
      weak_read_tick(&builder, SECOND, (uint8_t)late_tick);
    weak_wait_for(&builder, SECOND);
    weak_read_tick(&builder, SECOND, (uint8_t)late_tick);
    ask_for(&run, (struct weak_place_of_stamp){SECOND, stamp}, (struct weak_place_of_stamp){FIRST, mark});
    try_run(&run, findings);
  }
  begin(&run, machine, 2); /* a step before the mark */
  unsigned stamp = weak_stamp(&builder, SECOND);
  weak_hand_on(&builder, SECOND);
  weak_wait_for(&builder, FIRST);
  unsigned mark = weak_mark(&builder, FIRST);
  ask_for(&run, (struct weak_place_of_stamp){FIRST, mark}, (struct weak_place_of_stamp){SECOND, stamp});
  try_run(&run, findings);
}

static void explore_cut(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  for (int inherits = 0; inherits < 2; inherits++) {
    struct weak_run run;
    begin(&run, machine, 3);
    struct weak_builder builder = {&run, variant};
    unsigned cut = weak_cut(&builder, THIRD);
    weak_find_stopped(&builder, FIRST);
    weak_hand_on(&builder, FIRST);
    weak_read_tick(&builder, SECOND, 0);
    unsigned stamp = weak_stamp(&builder, SECOND);
    weak_wait_for(&builder, SECOND);
    weak_read_tick(&builder, SECOND, inherits ? 0 : 1);
    if (!inherits) {
      stamp = weak_stamp(&builder, SECOND);
      ask_for(&run, (struct weak_place_of_stamp){SECOND, stamp}, (struct weak_place_of_stamp){THIRD, cut});
    }
    try_run(&run, findings);
  }
}

/* A record is read before it is whole; or it is lost as the slot is made zero after it was written. */
static void explore_ring(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  struct weak_run run;
  struct weak_builder builder = {&run, variant};
  begin(&run, machine, 2);
  weak_write_record(&builder, FIRST, 1, false);
  weak_read_record(&builder, SECOND, 1, false);
  try_run(&run, findings);
  for (int word = 0; word < 2; word++) {
    begin(&run, machine, 2);
    run.memory[WORD_FIRST] = run.memory[WORD_SECOND] = 1;
    weak_write_record(&builder, FIRST, 2, true);
    weak_read_record(&builder, SECOND, 1, true);
    weak_drain_record(&builder, SECOND);
    run.has_end = true;
    run.end_place = word ? WORD_SECOND : WORD_FIRST;
    run.end_value = 0;
    try_run(&run, findings);
  }
  begin(&run, machine, 2); /* the record before is taken for the next */
  run.memory[WORD_FIRST] = run.memory[WORD_SECOND] = 1;
  weak_write_record(&builder, FIRST, 2, true);
  weak_read_record(&builder, SECOND, 1, false);
  weak_drain_record(&builder, SECOND);
  try_run(&run, findings);
}

/* The host sleeps on a tail that has moved: the collector does not see that the host waits, nor the host the tail. */
static void explore_full_ring(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  struct weak_run run;
  struct weak_builder builder = {&run, variant};
  begin(&run, machine, 2);
  weak_set(&builder, FIRST, WAITING);
  weak_look(&builder, FIRST, TAIL);
  weak_set_tail(&builder, SECOND);
  weak_look(&builder, SECOND, WAITING);
  try_run(&run, findings);
}

/* The same at a fenced watermark; and a thread that passes any watermark sees what its publisher did before. */
static void explore_gate(enum weak_machine machine, enum weak_variant variant, struct findings *findings) {
  struct weak_run run;
  struct weak_builder builder = {&run, variant};
  begin(&run, machine, 2);
  weak_publish(&builder, FIRST, variant != WEAK_UNFENCED);
  weak_set(&builder, SECOND, WATERMARK_WAKE_AT);
  weak_look(&builder, SECOND, WATERMARK);
  try_run(&run, findings);
  for (int fenced = 0; fenced < 2; fenced++) {
    begin(&run, machine, 2);
    weak_hand_on(&builder, FIRST);
    weak_publish(&builder, FIRST, fenced);
    weak_pass_watermark(&builder, SECOND);
    try_run(&run, findings);
  }
}

struct claim {
  const char *what;
  enum weak_machine machine;
  explore *explore;
  enum weak_variant variant;
  bool is_wrong;
};

static const struct claim claims[] = {
    {"ARMv8: steps", WEAK_ARMV8, explore_steps, WEAK_AS_DESIGNED, false},
    {"ARMv8: marks", WEAK_ARMV8, explore_tick, WEAK_AS_DESIGNED, false},
    {"ARMv8: the cut", WEAK_ARMV8, explore_cut, WEAK_AS_DESIGNED, false},
    {"ARMv8: the ring", WEAK_ARMV8, explore_ring, WEAK_AS_DESIGNED, false},
    {"ARMv8: each way of a step", WEAK_ARMV8, explore_ways, WEAK_AS_DESIGNED, false},
    {"x86: each way of a step", WEAK_X86, explore_ways, WEAK_AS_DESIGNED, false},
    {"x86: steps", WEAK_X86, explore_steps, WEAK_AS_DESIGNED, false},
    {"x86: marks", WEAK_X86, explore_tick, WEAK_AS_DESIGNED, false},
    {"x86: the cut", WEAK_X86, explore_cut, WEAK_AS_DESIGNED, false},
    {"x86: the ring", WEAK_X86, explore_ring, WEAK_AS_DESIGNED, false},

    {"ARMv8: a full ring", WEAK_ARMV8, explore_full_ring, WEAK_AS_DESIGNED, false},
    {"ARMv8: watermarks", WEAK_ARMV8, explore_gate, WEAK_AS_DESIGNED, false},
    {"x86: a full ring", WEAK_X86, explore_full_ring, WEAK_AS_DESIGNED, false},
    {"x86: watermarks", WEAK_X86, explore_gate, WEAK_AS_DESIGNED, false},

    {"ARMv8: steps by a counter in memory", WEAK_ARMV8, explore_steps, WEAK_COUNTED, false},
    {"ARMv8: marks by a counter in memory", WEAK_ARMV8, explore_tick, WEAK_COUNTED, false},
    {"ARMv8: the cut by a counter in memory", WEAK_ARMV8, explore_cut, WEAK_COUNTED, false},
    {"x86: steps by a counter in memory", WEAK_X86, explore_steps, WEAK_COUNTED, false},

    {"ARMv8: steps by a counter that orders nothing", WEAK_ARMV8, explore_steps, WEAK_PLAIN_COUNTED, true},
    {"ARMv8: a stamp without DSB", WEAK_ARMV8, explore_steps, WEAK_NO_COMPLETE, true},
    {"ARMv8: a stamp with DMB for DSB", WEAK_ARMV8, explore_steps, WEAK_BARRIER_ALONE, true},
    {"ARMv8: a stamp without ISB", WEAK_ARMV8, explore_steps, WEAK_NO_FLUSH, true},
    {"ARMv8: a stamp with no load after it", WEAK_ARMV8, explore_steps, WEAK_NO_ORDERED_LOAD, true},
    {"ARMv8: a stamp and a load without acquire", WEAK_ARMV8, explore_steps, WEAK_UNORDERED_LOAD, true},
    {"ARMv8: a stamp and a load not made of it", WEAK_ARMV8, explore_steps, WEAK_LOAD_BEFORE_READING, true},
    {"x86: a stamp without the first LFENCE", WEAK_X86, explore_steps, WEAK_NO_FIRST_LFENCE, true},
    {"x86: a stamp without the second LFENCE", WEAK_X86, explore_steps, WEAK_NO_SECOND_LFENCE, true},
    {"ARMv8: no second look", WEAK_ARMV8, explore_steps, WEAK_NO_RECHECK, true},
    {"ARMv8: a claim by a store", WEAK_ARMV8, explore_steps, WEAK_CLAIM_STORES, true},
    {"ARMv8: exchanges that order nothing", WEAK_ARMV8, explore_steps, WEAK_PLAIN_EXCHANGE, false},
    {"ARMv8: claims that order nothing", WEAK_ARMV8, explore_steps, WEAK_PLAIN_CLAIM, false},
    {"ARMv8: marks that order nothing", WEAK_ARMV8, explore_steps, WEAK_PLAIN_MARK, false},
    {"ARMv8: second looks that order nothing", WEAK_ARMV8, explore_steps, WEAK_PLAIN_RECHECK, false},
    {"ARMv8: the tick read after the stamp", WEAK_ARMV8, explore_tick, WEAK_TICK_AFTER_STAMP, true},
    {"x86: the tick read after the stamp", WEAK_X86, explore_tick, WEAK_TICK_AFTER_STAMP, true},
    {"ARMv8: the tick before the mark's stamp", WEAK_ARMV8, explore_tick, WEAK_TICK_BEFORE_MARK, true},
    {"ARMv8: stopped before the tick", WEAK_ARMV8, explore_cut, WEAK_STOP_BEFORE_TICK, true},
    {"ARMv8: stopped by a store that orders nothing", WEAK_ARMV8, explore_cut, WEAK_PLAIN_STOP, true},
    {"ARMv8: records that order nothing", WEAK_ARMV8, explore_ring, WEAK_PLAIN_RECORD, true},
    {"ARMv8: records read in any order", WEAK_ARMV8, explore_ring, WEAK_PLAIN_DRAIN, true},
    {"ARMv8: a tail that orders nothing", WEAK_ARMV8, explore_ring, WEAK_PLAIN_TAIL, true},
    {"ARMv8: a tail that the sleeper does not see", WEAK_ARMV8, explore_full_ring, WEAK_PLAIN_TAIL, true},
    {"x86: a tail that the sleeper does not see", WEAK_X86, explore_full_ring, WEAK_PLAIN_TAIL, true},
    {"ARMv8: a tail read in any order", WEAK_ARMV8, explore_ring, WEAK_PLAIN_ROOM, false},
    {"ARMv8: a tick that orders nothing", WEAK_ARMV8, explore_tick, WEAK_PLAIN_TICK, false},
    {"ARMv8: a tick that orders nothing, and the cut", WEAK_ARMV8, explore_cut, WEAK_PLAIN_TICK, false},
    {"ARMv8: watermarks opened in any order", WEAK_ARMV8, explore_gate, WEAK_PLAIN_PUBLISHING, true},
    {"ARMv8: watermarks passed in any order", WEAK_ARMV8, explore_gate, WEAK_PLAIN_WAITING, true},
    {"ARMv8: a fenced watermark opened as another", WEAK_ARMV8, explore_gate, WEAK_UNFENCED, true},
    {"x86: a fenced watermark opened as another", WEAK_X86, explore_gate, WEAK_UNFENCED, true},
};

int main(void) {
  int failures = 0;
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    struct findings findings = {0};
    claims[i].explore(claims[i].machine, claims[i].variant, &findings);
    bool as_claimed = findings.wrong == claims[i].is_wrong && weak_is_changed(claims[i].variant);
    printf("%s: %s: %s in %llu runs, %llu states\n", as_claimed ? "as claimed" : "FAILED", claims[i].what,
           findings.wrong ? "a wrong history" : "right", (unsigned long long)findings.runs,
           (unsigned long long)findings.states);
    failures += !as_claimed;
  }
  return failures != 0;
}
