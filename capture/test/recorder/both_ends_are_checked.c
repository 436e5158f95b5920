/* SPDX-License-Identifier: MIT */
/* Which listeners a host trusts; a proof is of one secret, one number and one side; which tails a host believes. */
#include "capture/wire/ring.h"

#include <stdio.h>

static int failed;
#define CHECK(condition)                                                                                               \
  ((condition) ? (void)0 : (void)(failed = 1, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void check_users(void) {
  const uint32_t user[3] = {1000, 1000, 1000}, root[3] = {0, 0, 0}, lowered[3] = {0, 1000, 0},
                 kept[3] = {1000, 1000, 0};
  CHECK(attach_trusts(1000, user) && attach_trusts(0, user) && attach_trusts(0, root) && attach_trusts(0, lowered));
  CHECK(!attach_trusts(1001, user) && !attach_trusts(1000, root));
  CHECK(!attach_trusts(1000, lowered) && !attach_trusts(1000, kept));
}

static void check_proofs(void) {
  uint64_t proof = attach_proof(1, 2, ATTACH_HOST_SIDE);
  CHECK(proof == attach_proof(1, 2, ATTACH_HOST_SIDE));
  CHECK(proof != attach_proof(1, 2, ATTACH_RECORDER_SIDE));
  for (int bit = 0; bit < 64; bit++) {
    CHECK(proof != attach_proof(1 ^ (uint64_t)1 << bit, 2, ATTACH_HOST_SIDE));
    CHECK(proof != attach_proof(1, 2 ^ (uint64_t)1 << bit, ATTACH_HOST_SIDE));
  }
}

static void check_tails(void) {
  CHECK(ring_tail_fits(0, 16384) && ring_tail_fits(16368, 16384));
  CHECK(!ring_tail_fits(16384, 16384) && !ring_tail_fits(8, 16384) && !ring_tail_fits(0x7ffffff0, 16384));
  CHECK(!ring_tail_fits(RING_RECORDS_BYTES, RING_BYTES));
}

int main(void) {
  check_users();
  check_proofs();
  check_tails();
  return failed;
}
