/* SPDX-License-Identifier: MIT */
#include "capture/host/kernel/own_memory.h"
#include "capture/host/process.h"

#include <errno.h>

/* Calls code(argument) with that stack pointer. */
void own_stack_call(void (*code)(void *), void *argument, char *top) __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".hidden own_stack_call\n"
        ".globl own_stack_call\n"
        ".type own_stack_call, @function\n"
        "own_stack_call:\n"
        ".cfi_startproc\n"
#if defined(__x86_64__)
        "  endbr64\n"
        "  push %rbp\n"
        ".cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "  mov %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "  mov %rdx, %rsp\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  call *%rax\n"
        "  mov %rbp, %rsp\n"
        "  pop %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
#else
        "  stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"
        "  mov x29, sp\n"
        ".cfi_def_cfa_register x29\n"
        "  mov sp, x2\n"
        "  mov x9, x0\n"
        "  mov x0, x1\n"
        "  blr x9\n"
        "  mov sp, x29\n"
        ".cfi_def_cfa_register sp\n"
        "  ldp x29, x30, [sp], #16\n"
        ".cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n"
#endif
        "  ret\n"
        ".cfi_endproc\n"
        ".size own_stack_call, .-own_stack_call\n");

bool own_stack_run(void (*code)(void *), void *argument) {
  if (!host_may(HOST_MAP | HOST_SIGNALS))
    return false;
  int error = errno;
  uint64_t mask;
  signals_block(&mask);
  char *stack = memory_map(OWN_STACK_BYTES, MEMORY_PRIVATE);
  if (stack)
    own_stack_call(code, argument, stack + OWN_STACK_BYTES);
  memory_unmap(stack, OWN_STACK_BYTES);
  signals_restore(&mask);
  errno = error;
  return stack != NULL;
}
