/* SPDX-License-Identifier: GPL-2.0-only */
/* Loads and stores of 32 bytes, most of them across lines, masked stores, atomic operations, and the C library's vector
   code; all of it uses more memory than the smaller caches hold. Exits with 77 where there is no AVX2. */
#include "core/test/usual.h"
#include <immintrin.h>

enum { COUNT = 1 << 17 };

static __attribute__((target("avx2,fma"))) float work(float *a, float *b) {
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < COUNT - 8; i += 7) {
    __m256 x = _mm256_loadu_ps(a + i), y = _mm256_loadu_ps(b + i);
    sum = _mm256_fmadd_ps(x, y, sum);
    _mm256_storeu_ps(a + i, _mm256_add_ps(x, y));
    _mm256_maskstore_ps(b + i, _mm256_set1_epi32(i % 3 ? -1 : 0), sum);
  }
  float out[8];
  _mm256_storeu_ps(out, sum);
  return out[3];
}

int main(void) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return 77;
  float *a = calloc(COUNT, sizeof *a), *b = calloc(COUNT, sizeof *b);
  _Atomic long *counters = calloc(4096, sizeof *counters);
  char *text = malloc(1000001);
  if (!a || !b || !counters || !text)
    return 1;
  float sum = work(a, b) + work(b, a);
  for (int i = 0; i < 20000; i++)
    atomic_fetch_add(&counters[i * 7919 % 4096], i);
  memset(text, 'x', 1000000);
  text[1000000] = '\0';
  memmove(text + 3, text, 900000);
  printf("%f %zu %d %ld\n", (double)sum, strlen(text), memcmp(text, text + 1, 800000), atomic_load(&counters[5]));
  free(a), free(b), free(counters), free(text);
  return 0;
}
