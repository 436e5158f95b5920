/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/base/numbers.h"

#include "allocators/common/lock.h"

#include <string.h>

enum { WORD_BITS = 64, WORDS = NUMBERS / WORD_BITS };

static struct lock lock;
static uint64_t taken[WORDS];
static unsigned beyond; /* how many numbers from NUMBERS on were assigned */

int number_take(void) {
  numbers_lock();
  int number = NO_NUMBER;
  for (int word = 0; word < WORDS && number == NO_NUMBER; word++)
    if (~taken[word]) {
      int bit = __builtin_ctzll(~taken[word]);
      taken[word] |= UINT64_C(1) << bit;
      number = word * WORD_BITS + bit;
    }
  if (number == NO_NUMBER)
    number = NUMBERS + (int)(beyond++ % NUMBERS);
  numbers_unlock();
  return number;
}

void number_give_back(int number) {
  if (number == NO_NUMBER || number >= NUMBERS)
    return;
  numbers_lock();
  taken[number / WORD_BITS] &= ~(UINT64_C(1) << number % WORD_BITS);
  numbers_unlock();
}

void numbers_lock(void) {
  lock_take(&lock);
}

void numbers_unlock(void) {
  lock_drop(&lock);
}

void numbers_after_fork(int mine) {
  lock_reset(&lock);
  memset(taken, 0, sizeof taken);
  if (mine != NO_NUMBER && mine < NUMBERS)
    taken[mine / WORD_BITS] = UINT64_C(1) << mine % WORD_BITS;
}
