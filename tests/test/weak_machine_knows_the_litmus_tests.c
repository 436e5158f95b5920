/* SPDX-License-Identifier: MIT */
/* Claim: in the litmus tests the model of the processors allows and forbids the outcomes published for ARMv8 (Pulte and
   others, "Simplifying ARM concurrency", POPL 2018) and for x86 (Owens and others, "A better x86 memory model", 2009).
 */
#include "tests/model/weak_machine.h"

#include <string.h>

enum { X, Y, Z };

/* A test is text: threads by "|", operations by blanks. Wx1: store 1 to x, wx1 with release semantics; Rx1: load from x
   that reads 1, on which the thread branches, Lx1 without a branch, rx1 with acquire semantics; Sx1, Qx1: store, load,
   sequentially consistent; Ex1: exchange, with both semantics; D: DMB, I: ISB. end: "x1" requires an end in which x
   holds 1. */
struct litmus {
  const char *name, *threads, *end;
  bool armv8, x86; /* is it possible? */
};

static const struct litmus tests[] = {
    {"SB", "Wx1 Ry0 | Wy1 Rx0", NULL, true, true},
    {"SB, barriers", "Wx1 D Ry0 | Wy1 D Rx0", NULL, false, true},
    {"SB, exchanges", "Ex1 Ry0 | Ey1 Rx0", NULL, true, false},
    {"SB, release and acquire", "wx1 ry0 | wy1 rx0", NULL, true, true},
    {"SB, sequentially consistent", "Sx1 Qy0 | Sy1 Qx0", NULL, false, false},
    {"MP", "Wx1 Wy1 | Ry1 Rx0", NULL, true, false},
    {"MP, release", "Wx1 wy1 | Ry1 Rx0", NULL, true, false},
    {"MP, acquire", "Wx1 Wy1 | ry1 Rx0", NULL, true, false},
    {"MP, release and acquire", "Wx1 wy1 | ry1 Rx0", NULL, false, false},
    {"MP, barriers", "Wx1 D Wy1 | Ry1 D Rx0", NULL, false, false},
    {"MP, barrier and branch", "Wx1 D Wy1 | Ry1 Rx0", NULL, true, false},
    {"MP, barrier and branch with ISB", "Wx1 D Wy1 | Ry1 I Rx0", NULL, false, false},
    {"LB", "Lx1 Wy1 | Ly1 Wx1", NULL, true, false},
    {"LB, barriers", "Lx1 D Wy1 | Ly1 D Wx1", NULL, false, false},
    {"LB, acquire", "rx1 Wy1 | ry1 Wx1", NULL, false, false},
    {"LB, branches", "Rx1 Wy1 | Ry1 Wx1", NULL, false, false},
    {"S, release and branch", "Wx2 wy1 | Ry1 Wx1", "x2", false, false},
    {"R, barriers", "Wx1 D Wy1 | Wy2 D Rx0", "y2", false, true},
    {"2+2W", "Wx1 Wy2 | Wy1 Wx2", "x1", true, true},
    {"2+2W, release", "Wx1 wy2 | Wy1 wx2 | ", "x1", true, true},
    {"CoRR", "Wx1 | Rx1 Rx0", NULL, false, false},
    {"CoRR, far apart", "Wx1 | Rx1 Ry0 Rx0", NULL, false, false},
    {"CoWR", "Wx1 Rx2 | Wx2", "x1", false, false},
    {"CoWW", "Wx1 Wx2", "x1", false, false},
    {"CoRW", "Rx1 Wx1", NULL, false, false},
    {"WRC, acquire", "Wx1 | rx1 wy1 | ry1 Rx0", NULL, false, false},
    {"WRC, branch and acquire", "Wx1 | Rx1 Wy1 | ry1 Rx0", NULL, false, false},
    {"ISA2", "Wx1 wy1 | Ry1 wz1 | rz1 Rx0", NULL, false, false},
    {"a store forwarded to its own thread", "Wx1 Rx1 Ry0 | Wy1 Ry1 Rx0", NULL, true, true},
    {"PPOCA", "Wz1 D Wy1 | Ry1 Wx1 Rx1 Rz0", NULL, true, false},
    {"exchanges are whole", "Ex1 | Ex2", "x0", false, false},
    {"one exchange sees the other", "Ex1 Ry0 | Ex2 Ry0", "y1", false, false},
};

static unsigned place_of(char letter) {
  return (unsigned)(letter - 'x');
}

static struct weak_op op_of(const char *text) {
  struct weak_op op = {.kind = WEAK_BARRIER};
  if (*text == 'D' || *text == 'I') {
    op.kind = *text == 'D' ? WEAK_BARRIER : WEAK_FLUSH;
    return op;
  }
  op.kind = strchr("RLrQ", *text) ? WEAK_LOAD : *text == 'E' ? WEAK_EXCHANGE : WEAK_STORE;
  op.place = (uint8_t)place_of(text[1]);
  op.sequential = *text == 'S' || *text == 'Q';
  op.acquire = strchr("rQE", *text);
  op.release = strchr("wSE", *text);
  op.no_branch = *text == 'L';
  op.expect = op.kind == WEAK_LOAD ? WEAK_IS : WEAK_ANY;
  op.value = op.expected = (uint8_t)(text[2] - '0');
  return op;
}

static struct weak_run run_of(const struct litmus *litmus, enum weak_machine machine) {
  struct weak_run run = {.machine = machine, .threads = 1};
  for (const char *at = litmus->threads; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    struct weak_thread *thread = &run.thread[run.threads - 1];
    if (*at == '|')
      run.threads++;
    else
      thread->op[thread->count++] = op_of(at);
  }
  if (litmus->end) {
    run.has_end = true;
    run.end_place = (uint8_t)place_of(litmus->end[0]);
    run.end_value = (uint8_t)(litmus->end[1] - '0');
  }
  return run;
}

static int judge(const struct litmus *litmus, enum weak_machine machine, bool expected) {
  struct weak_run run = run_of(litmus, machine);
  bool possible = weak_explore(&run, NULL).possible;
  if (possible == expected)
    return 0;
  printf("%s: %s is %s: %s\n", machine == WEAK_X86 ? "x86" : "ARMv8", litmus->name,
         possible ? "possible" : "not possible", litmus->threads);
  weak_explore(&run, stdout);
  return 1;
}

int main(void) {
  int failures = 0;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    failures += judge(&tests[i], WEAK_ARMV8, tests[i].armv8) + judge(&tests[i], WEAK_X86, tests[i].x86);
  return failures != 0;
}
