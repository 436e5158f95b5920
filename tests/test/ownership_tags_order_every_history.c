/* SPDX-License-Identifier: MIT */
/* Claim: merging threads by inherited stamp, as the ownership tags set them, gives a legal history; for up to three
   threads, three addresses and one or two tag entries, in every interleaving and for runs of any length. Also: the
   known wrong variants of the scheme are found wrong, so the claim is not empty. tests/model/order_model.h says what is
   modelled. */
#include "tests/model/order_model.h"

#include <stdio.h>

struct claim {
  const char *what;
  struct order_config config;
};

#define EVERYTHING .ticks = true, .stamp_each = true, .deaths = true

static const struct claim right[] = {
    {"2 threads, 1 address, touches and deaths",
     {.threads = 2, .addresses = 1, .entries = 1, .moves = true, .touches = true, EVERYTHING}},
    {"2 threads, 2 addresses on 1 tag entry",
     {.threads = 2, .addresses = 2, .entries = 1, .moves = true, .touches = true, EVERYTHING}},
    {"2 threads, 2 addresses on 2 tag entries",
     {.threads = 2, .addresses = 2, .entries = 2, .moves = true, .touches = true, EVERYTHING}},
    {"3 threads, 1 address, touches and deaths",
     {.threads = 3, .addresses = 1, .entries = 1, .moves = true, .touches = true, EVERYTHING}},
    {"3 threads, 2 addresses on 1 tag entry", {.threads = 3, .addresses = 2, .entries = 1, .moves = true, EVERYTHING}},
    {"3 threads, 2 addresses on 2 tag entries",
     {.threads = 3, .addresses = 2, .entries = 2, .moves = true, EVERYTHING}},
    {"3 threads, 3 addresses on 1 tag entry, no reallocs, no deaths",
     {.threads = 3, .addresses = 3, .entries = 1, .ticks = true, .stamp_each = true}},
    {"2 threads, 1 address, handlers",
     {.threads = 2, .addresses = 1, .entries = 1, .moves = true, .touches = true, .handlers = true, EVERYTHING}},
    {"2 threads, 2 addresses on 1 tag entry, handlers",
     {.threads = 2, .addresses = 2, .entries = 1, .moves = true, .handlers = true, EVERYTHING}},
    {"2 threads, 2 addresses on 2 tag entries, handlers",
     {.threads = 2, .addresses = 2, .entries = 2, .handlers = true, EVERYTHING}},
};

#define SMALL .threads = 2, .addresses = 2, .entries = 1

static const struct claim wrong[] = {
    {"exchange, stamp, no recheck", {SMALL, .variant = ORDER_NO_RECHECK}},
    {"stamp, then exchange", {SMALL, .ticks = true, .variant = ORDER_STAMP_THEN_EXCHANGE}},
    {"stamping each: mark, then stamp", {SMALL, .stamp_each = true, .variant = ORDER_MARK_THEN_STAMP}},
    {"stamping each: look at the mark, then stamp", {SMALL, .stamp_each = true, .variant = ORDER_LOOK_THEN_STAMP}},
    {"stamping each: no mark", {SMALL, .stamp_each = true, .variant = ORDER_NO_MARK}},
    {"a release logged after the call", {SMALL, .variant = ORDER_RELEASE_AFTER_CALL}},
    {"an untouched entry taken by a store", {SMALL, .variant = ORDER_CLAIM_STORES}},
    {"a slot taken after the look, whoever has come", {SMALL, .handlers = true, .variant = ORDER_LOOK_THEN_TAKE}},
    {"a slot taken before the look", {SMALL, .handlers = true, .variant = ORDER_TAKE_THEN_LOOK}},
    {"a handler's stamp inherited after the look", {SMALL, .handlers = true, .variant = ORDER_SIDE_INHERITED}},
    {"stamped again after a handler, without an exchange", {SMALL, .handlers = true, .variant = ORDER_SIDE_RESTAMPED}},
    {"a dead thread's tag reused without a stamp", {SMALL, .deaths = true, .variant = ORDER_REBIRTH_UNSTAMPED}},
};

int main(void) {
  int failures = 0;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    struct order_result result = order_explore(&right[i].config, stdout);
    printf("%s: %s: %u states, longest shortest path %u steps\n", result.exhausted ? "legal" : "FAILED", right[i].what,
           result.states, result.depth);
    failures += !result.exhausted;
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct order_result result = order_explore(&wrong[i].config, NULL);
    printf("%s: %s: %u states, %u steps to the first illegal history\n", result.illegal ? "found wrong" : "FAILED",
           wrong[i].what, result.states, result.depth);
    failures += !result.illegal;
  }
  return failures != 0;
}
