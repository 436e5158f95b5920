/* SPDX-License-Identifier: MIT */
/* A library of 4,096 exported functions, and one that calls LOADING_LOOKUPS of them through the procedure linkage
   table: loaded with RTLD_NOW, the dynamic linker looks these up; with RTLD_LAZY none before its first call (code.h).
   Names are of words, so that their hash values are scattered, and are looked up in another order than they are in the
   file. */

/* clang-format off */
#define NAME(a, b, c, d) a##b##c##d
#define EACH_4(DO, a, b, c) \
  DO(a, b, c, ash) DO(a, b, c, birch) DO(a, b, c, cedar) DO(a, b, c, elm) \
  DO(a, b, c, hazel) DO(a, b, c, maple) DO(a, b, c, oak) DO(a, b, c, willow)
#define EACH_3(DO, a, b) \
  EACH_4(DO, a, b, ash) EACH_4(DO, a, b, birch) EACH_4(DO, a, b, cedar) EACH_4(DO, a, b, elm) \
  EACH_4(DO, a, b, hazel) EACH_4(DO, a, b, maple) EACH_4(DO, a, b, oak) EACH_4(DO, a, b, willow)
#define EACH_2(DO, a) \
  EACH_3(DO, a, ash) EACH_3(DO, a, birch) EACH_3(DO, a, cedar) EACH_3(DO, a, elm) \
  EACH_3(DO, a, hazel) EACH_3(DO, a, maple) EACH_3(DO, a, oak) EACH_3(DO, a, willow)

/* Weak: never inlined, so that calls go through the table. */
#define DEFINE(a, b, c, d) \
  __attribute__((weak)) int NAME(a, b, c, d)(void); \
  __attribute__((weak)) int NAME(a, b, c, d)(void) { return sizeof #a #b #c #d; }
#define CALL(a, b, c, d) +NAME(d, c, b, a)()
#define DEFINE_OF(a) EACH_2(DEFINE, a)

DEFINE_OF(ash) DEFINE_OF(birch) DEFINE_OF(cedar) DEFINE_OF(elm)
DEFINE_OF(hazel) DEFINE_OF(maple) DEFINE_OF(oak) DEFINE_OF(willow)

int heaptape_machine_call_many(void);
int heaptape_machine_call_few(void);

int heaptape_machine_call_many(void) {
  return EACH_2(CALL, birch) EACH_2(CALL, oak);
}

/* 64 of them, which are enough to count the instructions of a lookup. */
int heaptape_machine_call_few(void) {
  return EACH_3(CALL, birch, cedar);
}
