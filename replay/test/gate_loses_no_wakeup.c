/* Two threads that wait for each other's every step, and one that waits for every 7th: all come to the end, however the
   sleeps and wake-ups fall. A lost wake-up would hang; the alarm turns that into a failure. */
#include "replay/gate.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 60000 };

static struct gate gates[2];
static _Atomic uint32_t blocked;

static void *player(void *argument) {
  int self = argument != NULL;
  for (uint64_t step = 1; step <= STEPS; step++) {
    if (self == 1)
      gate_wait(&gates[0], step, &blocked);
    gate_publish(&gates[self], step);
    if (self == 0)
      gate_wait(&gates[1], step, &blocked);
  }
  return NULL;
}

static void *watcher(void *argument) {
  for (uint64_t step = 7; step <= STEPS; step += 7)
    gate_wait(&gates[(uintptr_t)argument], step, &blocked);
  return NULL;
}

int main(void) {
  alarm(60);
  static const uint32_t spins[] = {0, CROWDED_SPINS, SPINS};
  for (size_t round = 0; round < sizeof spins / sizeof *spins; round++) {
    gate_setup(spins[round]);
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
