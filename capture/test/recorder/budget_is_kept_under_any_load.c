/* SPDX-License-Identifier: MIT */
/* Recording within a budget of CPU time: over any time it costs at most its share, and uses the share where there is
   enough to record; bursts begin at moments that follow no period of the program. Program, recorder and clock are
   simulated by the test. */
#include "capture/recorder/budget.h"
#include "capture/test/hosts/recording.h"

static const double MS_NS = 1e6, CALL_RECORDER_NS = 50, WAKE_NS = 10000;
enum { STEPS_MAX = 4000000, BETWEEN_STEPS = 50 };

/* A program's load in a millisecond: CPU time, and calls per millisecond of CPU time. */
struct load {
  double cpu_ms, calls;
};
typedef struct load load_at(uint32_t ms);

static struct load steady_few(uint32_t ms) {
  (void)ms;
  return (struct load){1, 200};
}
static struct load steady_many(uint32_t ms) {
  (void)ms;
  return (struct load){1, 5000};
}
static struct load eight_threads(uint32_t ms) {
  (void)ms;
  return (struct load){8, 3000};
}
static struct load in_waves(uint32_t ms) {
  return ms % 740 < 370 ? (struct load){1, 100} : (struct load){1, 8000};
}
static struct load mostly_idle(uint32_t ms) {
  return ms % 10000 < 2000 ? (struct load){1, 4000} : (struct load){0, 0};
}
static struct load a_long_pause(uint32_t ms) {
  return ms < 20000 || ms >= 1000000 ? (struct load){1, 5000} : (struct load){0, 0};
}
static struct load hardly_any(uint32_t ms) {
  (void)ms;
  return (struct load){1, 1};
}
static struct load too_many(uint32_t ms) {
  (void)ms;
  return (struct load){1, 40000};
}

struct run {
  double share;
  uint32_t steps;
  load_at *load;
};
/* Results of one run: sums up to each millisecond, and where bursts began. */
static double program_ns[STEPS_MAX + 1], cost_ns[STEPS_MAX + 1];
static uint32_t begins[STEPS_MAX], bursts, recorded_ms;

static void simulate(const struct run *run) {
  struct budget budget = {.recorded_ns = 10, .skipped_ns = 1};
  budget_begin(&budget, run->share, 7);
  bool records = false;
  bursts = recorded_ms = 0;
  struct budget_use use = {0};
  for (uint32_t ms = 0; ms < run->steps; ms++) {
    struct load load = run->load(ms);
    uint64_t calls = (uint64_t)(load.cpu_ms * load.calls);
    bool steps = records || ms % BETWEEN_STEPS == 0; /* the recorder wakes rarely between bursts */
    double recorder = (steps ? WAKE_NS : 0) + (records ? CALL_RECORDER_NS * (double)calls : 0);
    double hooks = (double)calls * (records ? budget.recorded_ns : budget.skipped_ns);
    program_ns[ms + 1] = program_ns[ms] + load.cpu_ms * MS_NS;
    cost_ns[ms + 1] = cost_ns[ms] + recorder + hooks;
    use.program_ns += (uint64_t)(load.cpu_ms * MS_NS + hooks);
    use.recorder_ns += (uint64_t)recorder;
    *(records ? &use.recorded : &use.skipped) += calls;
    recorded_ms += records;
    if (!steps)
      continue;
    bool before = records;
    records = budget_step(&budget, &use);
    use = (struct budget_use){0};
    if (records && !before)
      begins[bursts++] = ms;
  }
}

/* The most by which cost exceeds its share in any time: as both only grow, the sum begins again where it falls below
   0. */
static double most_excess_ns(const struct run *run) {
  double excess = 0, most = 0;
  for (uint32_t ms = 0; ms < run->steps; ms++) {
    excess += cost_ns[ms + 1] - cost_ns[ms] - run->share * (program_ns[ms + 1] - program_ns[ms]);
    if (excess < 0)
      excess = 0;
    if (excess > most)
      most = excess;
  }
  return most;
}

static double spent(const struct run *run) {
  return cost_ns[run->steps] / program_ns[run->steps] / run->share;
}

static void expect_kept(const struct run *run, const char *what) {
  simulate(run);
  struct load most = {0, 0};
  for (uint32_t ms = 0; ms < 10000; ms++)
    if (run->load(ms).cpu_ms * run->load(ms).calls > most.cpu_ms * most.calls)
      most = run->load(ms);
  double step_ns = WAKE_NS + most.cpu_ms * most.calls * (CALL_RECORDER_NS + 10);
  double allowed_ns = 2 * run->share * BUDGET_PERIOD_NS + 2 * step_ns, excess_ns = most_excess_ns(run);
  CHECK(excess_ns <= allowed_ns, "%s at %g: %.0f ns more than the share in some time, %.0f allowed", what, run->share,
        excess_ns, allowed_ns);
  CHECK(bursts > 0, "%s at %g: no burst", what, run->share);
}

static void every_load_is_kept_to_its_share(void) {
  static const struct {
    load_at *load;
    const char *name;
    bool spends; /* there is more to record than the budget allows */
  } loads[] = {{steady_few, "few calls", false},
               {steady_many, "many calls", true},
               {eight_threads, "eight threads", true},
               {in_waves, "waves", true},
               {mostly_idle, "mostly idle", true}};
  static const double shares[] = {0.01, 0.02, 0.1};
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
      struct run run = {shares[k], 600000, loads[i].load};
      expect_kept(&run, loads[i].name);
      if (loads[i].spends)
        CHECK(spent(&run) > 0.85, "%s at %g: only %g of the budget is used", loads[i].name, shares[k], spent(&run));
    }
}

/* The first second after 16 minutes without a call may use at most the credit of two periods; and the cost of the
   recorder's waking meanwhile prevents recording for at most ten periods. */
static void idle_times_save_up_little_and_owe_little(void) {
  struct run run = {0.02, 1040000, a_long_pause};
  simulate(&run);
  double after = cost_ns[1001000] - cost_ns[1000000];
  CHECK(after < 3 * 0.02 * BUDGET_PERIOD_NS, "%.0f ns in the second after a long pause", after);
  CHECK(bursts > 0 && begins[bursts - 1] > 1020000, "no burst after a long pause");
}

static void a_program_of_few_calls_is_recorded_throughout(void) {
  struct run run = {0.02, 600000, hardly_any};
  simulate(&run);
  CHECK(bursts == 1, "%u bursts instead of one that does not end", bursts);
  CHECK(recorded_ms > 590000, "%u ms recorded of 600,000", recorded_ms);
}

/* Counting alone costs 4 %. */
static void what_costs_too_much_unrecorded_is_never_recorded(void) {
  struct run run = {0.02, 600000, too_many};
  simulate(&run);
  CHECK(bursts == 0, "%u bursts", bursts);
}

/* A program with a period of a second, which is also the bursts' average period: each tenth of it gets its share. */
static void bursts_follow_no_period_of_the_program(void) {
  struct run run = {0.02, STEPS_MAX, steady_many};
  simulate(&run);
  uint32_t tenth[10] = {0};
  for (uint32_t i = 0; i < bursts; i++)
    tenth[begins[i] % 1000 / 100]++;
  CHECK(bursts > 2000, "%u bursts", bursts);
  for (int i = 0; i < 10; i++) /* the deviation of such a count is a nineteenth of the count */
    CHECK(tenth[i] > bursts / 10.0 * 0.75 && tenth[i] < bursts / 10.0 * 1.25, "%u of %u bursts in tenth %d", tenth[i],
          bursts, i);
}

static void bursts_shorten_under_load(void) {
  struct run few = {0.02, 600000, steady_few}, many = {0.02, 600000, steady_many};
  simulate(&few);
  double long_ms = (double)recorded_ms / bursts;
  simulate(&many);
  double short_ms = (double)recorded_ms / bursts;
  CHECK(short_ms < long_ms / 4, "%g ms with many calls, %g with few", short_ms, long_ms);
}

int main(void) {
  every_load_is_kept_to_its_share();
  idle_times_save_up_little_and_owe_little();
  a_program_of_few_calls_is_recorded_throughout();
  what_costs_too_much_unrecorded_is_never_recorded();
  bursts_follow_no_period_of_the_program();
  bursts_shorten_under_load();
  return 0;
}
