/* SPDX-License-Identifier: MIT */
/* Calls of each form at call sites that a plan is to place (placed_…) and at others (plain_…), a thousand each, and
   their releases, for analysis/heaptape/features/place/test/place_calls.py, which counts their instructions. */
#include <cstdlib>
#include <cstring>
#include <new>

#define APART extern "C" __attribute__((noinline))
#define SITE(name, call)                                                                                               \
  APART void *name(std::size_t bytes) {                                                                                \
    void *p = call;                                                                                                    \
    __asm__ volatile("" : "+r"(p));                                                                                    \
    return p;                                                                                                          \
  }
#define BOTH(name, call) SITE(placed_##name, call) SITE(plain_##name, call)

static void *volatile nothing;
SITE(own1, std::malloc(bytes))
SITE(own2, own1(bytes))
BOTH(m, std::malloc(bytes))
BOTH(c, std::calloc(1, bytes))
BOTH(r, std::realloc(nothing, bytes))
BOTH(aligned, std::aligned_alloc(64, bytes))
BOTH(new, ::operator new(bytes))
BOTH(new_array, ::operator new[](bytes))
BOTH(new_aligned, ::operator new(bytes, std::align_val_t(64)))
BOTH(frames_2, own1(bytes))
BOTH(frames_3, own2(bytes))

APART void release(void *p) {
  std::free(p);
  __asm__ volatile("" : "+r"(p));
}

int main(int count, char **words) {
#define SITES(name)                                                                                                    \
  {"placed_" #name, placed_##name}, {                                                                                  \
    "plain_" #name, plain_##name                                                                                       \
  }
  static const struct {
    const char *name;
    void *(*acquire)(std::size_t);
  } sites[] = {SITES(m),         SITES(c),           SITES(r),        SITES(aligned), SITES(new),
               SITES(new_array), SITES(new_aligned), SITES(frames_2), SITES(frames_3)};
  for (auto &site : sites) {
    if (count > 1 && std::strcmp(words[1], site.name))
      continue;
    void *kept = site.acquire(64);
    for (int i = 0; i < 50000; i++)
      release(site.acquire(64));
    release(kept);
  }
}
