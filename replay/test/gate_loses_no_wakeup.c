/* Two threads that wait for each other's every step, and one that waits for every 7th: all come to the end, however the
   sleeps and wake-ups fall. A lost wake-up would hang; the alarm turns that into a failure. */
#include "replay/state/gate.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 60000 };

static struct gate gates[2];
static _Atomic uint32_t live = 3, blocked;

static void *player(void *argument) {
  int self = argument != NULL;
  for (uint64_t step = 1; step <= STEPS; step++) {
    if (self == 1)
      gate_wait(&gates[0], step, false);
    gate_publish(&gates[self], step);
    if (self == 0)
      gate_wait(&gates[1], step, false);
  }
  return NULL;
}

static void *watcher(void *argument) {
  for (uint64_t step = 7; step <= STEPS; step += 7)
    gate_wait(&gates[(uintptr_t)argument], step, false);
  return NULL;
}

int main(void) {
  alarm(240);
  /* As if there were a processor for each, and for none of them. */
  for (uint32_t processors = 0; processors <= 3; processors += 3) {
    gate_setup((struct crowd){&live, &blocked, processors});
    gate_init(&gates[0], 0);
    gate_init(&gates[1], 0);
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, player, NULL);
    pthread_create(&threads[1], NULL, player, &gates);
    pthread_create(&threads[2], NULL, watcher, (void *)1);
    for (int index = 0; index < 3; index++)
      pthread_join(threads[index], NULL);
    if (gate_value(&gates[0]) != STEPS || gate_value(&gates[1]) != STEPS || blocked != 0) {
      puts("a gate did not come to its end");
      return 1;
    }
  }
  return 0;
}
