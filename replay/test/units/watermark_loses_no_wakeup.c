/* SPDX-License-Identifier: MIT */
/* Two threads that wait for each other's every step, and several that wait for every 3rd, 5th, ...: all finish,
   whatever the timing of sleeps and wake-ups. A lost wake-up would hang; the alarm turns that into a failure. */
#include "core/test/usual.h"
#include "replay/engine/watermark.h"

enum { STEPS = 20000, WATCHERS = 4 };
static const uint64_t strides[WATCHERS] = {3, 5, 7, 11};

static struct watermark watermarks[2];
static _Atomic uint32_t live = 2 + WATCHERS, blocked;

static void *player(void *argument) {
  int self = argument != NULL;
  for (uint64_t step = 1; step <= STEPS; step++) {
    if (self == 1)
      watermark_wait(&watermarks[0], step, false);
    watermark_publish(&watermarks[self], step);
    if (self == 0)
      watermark_wait(&watermarks[1], step, false);
  }
  return NULL;
}

static void *watcher(void *argument) {
  uint64_t stride = *(const uint64_t *)argument;
  for (uint64_t step = stride; step <= STEPS; step += stride)
    watermark_wait(&watermarks[1], step, false);
  return NULL;
}

int main(void) {
  alarm(240);
  /* As if there were a processor for no thread, and for each of them. */
  for (uint32_t processors = 0; processors <= 2 + WATCHERS; processors += 2 + WATCHERS) {
    watermark_setup((struct crowd){&live, &blocked, processors});
    watermark_init(&watermarks[0], 0);
    watermark_init(&watermarks[1], 0);
    pthread_t threads[2 + WATCHERS];
    pthread_create(&threads[0], NULL, player, NULL);
    pthread_create(&threads[1], NULL, player, &watermarks);
    for (int index = 0; index < WATCHERS; index++)
      pthread_create(&threads[2 + index], NULL, watcher, (void *)&strides[index]);
    for (int index = 0; index < 2 + WATCHERS; index++)
      pthread_join(threads[index], NULL);
    if (watermark_value(&watermarks[0]) != STEPS || watermark_value(&watermarks[1]) != STEPS || blocked != 0) {
      puts("a watermark did not reach its last value");
      return 1;
    }
  }
  return 0;
}
