/* SPDX-License-Identifier: MIT */
/* Which listeners a host trusts; a proof is of one secret, one number and one side; which memory a host maps; which
   tails and index sizes it believes. */
#include "capture/wire/ring.h"
#include "capture/wire/sealed.h"
#include "capture/wire/stack_area.h"
#include "core/test/usual.h"

static int failed;
#define CHECK(condition)                                                                                               \
  ((condition) ? (void)0 : (void)(failed = 1, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void check_users(void) {
  const uint32_t user[3] = {1000, 1000, 1000}, root[3] = {0, 0, 0}, lowered[3] = {0, 1000, 0},
                 kept[3] = {1000, 1000, 0};
  for (int hidden = 0; hidden < 2; hidden++) {
    CHECK(attach_trusts(1000, user, hidden) && attach_trusts(0, user, hidden));
    CHECK(attach_trusts(0, root, hidden) && attach_trusts(0, lowered, hidden));
    CHECK(!attach_trusts(1001, user, hidden) && !attach_trusts(1000, root, hidden));
    CHECK(!attach_trusts(1000, lowered, hidden) && !attach_trusts(1000, kept, hidden));
    CHECK(attach_trusts(ATTACH_UNMAPPED_USER, user, hidden) == hidden);
  }
  CHECK(attach_has_all_users("         0          0 4294967295\n") && attach_has_all_users("0 0 4294967295\n"));
  static const char *const lacking[] = {"", " ", "0", "0 1000 1\n", "0 0 42949672950\n", "0 0 1\n", "1000 1000 1\n"};
  for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
    CHECK(!attach_has_all_users(lacking[i]));
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

static bool is_mapped(unsigned flags, int seals, uint64_t bytes) {
  int fd = memfd_create("memory", flags);
  CHECK(fd >= 0 && ftruncate(fd, 8192) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0));
  bool sealed = attach_is_sealed(fd, bytes);
  close(fd);
  return sealed;
}

static void check_memory(void) {
  CHECK(is_mapped(MFD_ALLOW_SEALING, F_SEAL_SHRINK, 8192));
  CHECK(is_mapped(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 8192));
  CHECK(!is_mapped(MFD_ALLOW_SEALING, 0, 8192) && !is_mapped(MFD_ALLOW_SEALING, F_SEAL_GROW, 8192));
  CHECK(!is_mapped(0, 0, 8192)); /* it has F_SEAL_SEAL alone */
  CHECK(!is_mapped(MFD_ALLOW_SEALING, F_SEAL_SHRINK, 4096) && !is_mapped(MFD_ALLOW_SEALING, F_SEAL_SHRINK, 16384));
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat status;
  CHECK(fstat(file, &status) == 0 && !attach_is_sealed(file, (uint64_t)status.st_size));
  close(file);
}

/* The last entry of any index is within the area. */
static void check_indexes(void) {
  static const uint32_t logs[] = {0, 12, 13, 14, 21, 22, 23, 31, 32, 64, UINT32_MAX};
  struct stack_area *area =
      mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
    atomic_store(&area->index_log, logs[i]);
    uint32_t log = stack_index_log(area);
    CHECK(log >= STACK_INDEX_FIRST_LOG && ((size_t)2 << log) <= sizeof area->index / sizeof *area->index);
    CHECK(log == logs[i] || logs[i] < STACK_INDEX_FIRST_LOG || logs[i] > STACK_INDEX_LAST_LOG);
  }
  munmap(area, sizeof *area);
}

int main(void) {
  check_users();
  check_proofs();
  check_tails();
  check_memory();
  check_indexes();
  return failed;
}
