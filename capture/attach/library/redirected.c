/* SPDX-License-Identifier: MIT */
#include "capture/host/hooks/control_calls.h"
#include "capture/host/process.h"
#include "capture/host/producer.h"
#include "capture/host/real/real.h"
#include "capture/linked/hooks/linked_hooks.h"

#include <sys/mman.h>

/* As in process.c: we must notice the program's requests to the kernel for a sandbox. */
int prctl(int option, ...);
#if defined(__x86_64__)
long __real_syscall(long number, ...); /* our entry point of that name (libc.c) */
#define SYSCALL_ENTRY {.name = "syscall", .hook = (const void *)__real_syscall, .kind = REDIRECT_OTHER_CALL},
#else
#define SYSCALL_ENTRY
#endif

/* The recorder finds it by this name. */
extern struct redirect_table REDIRECT_SYMBOL;

__attribute__((visibility("default"))) struct redirect_table REDIRECT_SYMBOL = {
    .magic = REDIRECT_MAGIC,
    .version = REDIRECT_VERSION,
    .call = {
#define HOOK(ident, ...) {.name = #ident, .hook = (const void *)ident, .kind = REDIRECT_CALL},
#define OPERATOR(ident, symbol, ...) {.name = symbol, .hook = (const void *)ident, .kind = REDIRECT_OPERATOR},
#include "capture/host/real/entry_points.def"
        {.name = "prctl", .hook = (const void *)prctl, .kind = REDIRECT_OTHER_CALL},
        {.name = "mlockall", .hook = (const void *)mlockall, .kind = REDIRECT_OTHER_CALL},
        SYSCALL_ENTRY}};

struct redirect_table *redirected_table(void) {
  return &REDIRECT_SYMBOL;
}

/* After the table's other names: those of control calls, in their order. */
static void add_controls(void) {
  const struct control_function *functions = control_functions();
  struct redirect_call *end = REDIRECT_SYMBOL.call;
  while (end->name)
    end++;
  for (size_t i = 0; i < control_function_count && end + 1 < REDIRECT_SYMBOL.call + REDIRECT_CALLS_MAX; i++)
    *end++ = (struct redirect_call){.name = functions[i].name, .hook = functions[i].hook, .kind = REDIRECT_OTHER_CALL};
}

/* Static TLS has the same place relative to each thread's pointer. */
__attribute__((constructor)) static void describe(void) {
  add_controls();
  REDIRECT_SYMBOL.own = process_place();
  REDIRECT_SYMBOL.thread_pointer = (uint64_t)(uintptr_t)__builtin_thread_pointer();
  producer_describe_thread(REDIRECT_SYMBOL.thread);
  linked_list_hooks(REDIRECT_SYMBOL.linked.hook);
}
