/* SPDX-License-Identifier: MIT */
#include "capture/redirect/gate.h"

#include "capture/wire/linked.h"

const char *const gate_calls[GATE_CALLS] = {"malloc", "calloc", "realloc", "free"};

#if defined(__x86_64__)

extern const char gate_begin[], gate_end[], gate_entry_0[], gate_entry_1[], gate_entry_2[], gate_entry_3[],
    gate_linked[];

/* The data are 4096 bytes behind gate_begin; the code refers to nothing else, so that it runs anywhere. System calls
   are made by number, as the C library's functions may be cancelled. */
#define DATA(offset) "(gate_begin + 4096 + " #offset ")(%rip)"
#define ENTRY(number, real)                                                                                            \
  ".globl gate_entry_" #number "\n.hidden gate_entry_" #number "\ngate_entry_" #number ":\n"                           \
  "  endbr64\n"                                                                                                        \
  "  cmpl $1, " DATA(8) "\n" /* armed? */                                                                              \
                        "  jne 1f\n"                                                                                   \
                        "  call gate_ask\n"                                                                            \
                        "1: jmp *" DATA(real) "\n"

/* clang-format off */
__asm__(".pushsection .rodata.gate, \"a\", @progbits\n"
        ".globl gate_begin\n.hidden gate_begin\n"
        ".globl gate_end\n.hidden gate_end\n"
        ".balign 64\n"
        "gate_begin:\n"
        ENTRY(0, 64) ENTRY(1, 72) ENTRY(2, 80) ENTRY(3, 88)
        ".globl gate_linked\n.hidden gate_linked\n"
        "gate_linked:\n"
        "  endbr64\n"
        "  push %rax\n"
        "  mov 8(%rsp), %rax\n" /* struct linked_function, which begins with the trampoline */
        "  mov (%rax), %rax\n"
        "  mov %rax, 8(%rsp)\n"
        "  lahf\n"
        "  seto %al\n"
        "  push %rax\n"
        "  cmpl $1, " DATA(8) "\n"
        "  jne 1f\n"
        "  call gate_ask\n"
        "1: pop %rax\n"
        "  add $127, %al\n"
        "  sahf\n"
        "  pop %rax\n"
        "  lea 8(%rsp), %rsp\n"
        "  jmp *-8(%rsp)\n"
        "gate_ask:\n"
        "  push %rdi\n"
        "  push %rsi\n"
        "  push %rdx\n"
        "  push %rcx\n"
        "  push %r8\n"
        "  push %r9\n"
        "  push %r10\n"
        "  push %r11\n"
        "  push %rbx\n"
        "  push %rbp\n"
        "  push %r12\n"
        "  sub $8, %rsp\n"
        "  mov %rsp, %r12\n"
        "  mov $39, %eax\n" /* getpid: not in a fork child */
        "  syscall\n"
        "  cmp " DATA(12) ", %eax\n"
        "  jne 9f\n"
        "  mov $1, %eax\n"
        "  mov $2, %ecx\n"
        "  lock cmpxchg %ecx, " DATA(8) "\n"
        "  jne 9f\n"
        "  mov %rsp, " DATA(40) "\n"
        "  mov %fs:0, %rax\n"
        "  mov %rax, " DATA(120) "\n"
        "  mov $200, %ebx\n"
        "2: cmpl $2, " DATA(8) "\n"
        "  jne 4f\n"
        "  lea " DATA(8) ", %rdi\n"
        "  mov $128, %esi\n" /* FUTEX_WAIT, private */
        "  mov $2, %edx\n"
        "  lea " DATA(96) ", %r10\n"
        "  mov $202, %eax\n"
        "  syscall\n"
        "  dec %ebx\n"
        "  jnz 2b\n"
        "  mov $2, %eax\n" /* nobody decides */
        "  xor %ecx, %ecx\n"
        "  lock cmpxchg %ecx, " DATA(8) "\n"
        "  je 9f\n"
        "4: mov $3, %eax\n"
        "  mov $5, %ecx\n"
        "  lock cmpxchg %ecx, " DATA(8) "\n"
        "  jne 9f\n"
        "  mov $2, %edi\n" /* SIG_SETMASK */
        "  lea " DATA(112) ", %rsi\n"
        "  mov %rsp, %rdx\n"
        "  mov $8, %r10d\n"
        "  mov $14, %eax\n"
        "  syscall\n"
        LINKED_SAVE_VECTORS
        "  call *" DATA(32) "\n"
        "  mov %rax, %rbp\n"
        "  mov (%rax), %ebx\n"
        "  lea " DATA(128) ", %rdi\n"
        "  mov $2, %esi\n" /* RTLD_NOW, RTLD_LOCAL */
        "  call *" DATA(16) "\n"
        "  mov %rax, " DATA(48) "\n"
        "  test %rax, %rax\n"
        "  jnz 5f\n"
        "  call *" DATA(24) "\n"
        "  mov %rax, " DATA(56) "\n"
        "5: mov %ebx, (%rbp)\n"
        LINKED_RESTORE_VECTORS
        "  mov %r12, %rsp\n"
        "  mov $2, %edi\n"
        "  mov %rsp, %rsi\n"
        "  xor %edx, %edx\n"
        "  mov $8, %r10d\n"
        "  mov $14, %eax\n"
        "  syscall\n"
        "  movl $6, " DATA(8) "\n"
        "9: add $8, %rsp\n"
        "  pop %r12\n"
        "  pop %rbp\n"
        "  pop %rbx\n"
        "  pop %r11\n"
        "  pop %r10\n"
        "  pop %r9\n"
        "  pop %r8\n"
        "  pop %rcx\n"
        "  pop %rdx\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "  ret\n"
        "gate_end:\n"
        ".popsection\n");
/* clang-format on */

const void *gate_code(void) {
  return gate_begin;
}

size_t gate_code_bytes(void) {
  return (size_t)(gate_end - gate_begin);
}

uint64_t gate_entry_offset(unsigned call) {
  const char *const entry[GATE_CALLS] = {gate_entry_0, gate_entry_1, gate_entry_2, gate_entry_3};
  return (uint64_t)(entry[call] - gate_begin);
}

uint64_t gate_linked_offset(void) {
  return (uint64_t)(gate_linked - gate_begin);
}

#else

/* Never used: target_check refuses. */
const void *gate_code(void) {
  return NULL;
}

size_t gate_code_bytes(void) {
  return 0;
}

uint64_t gate_entry_offset(unsigned call) {
  (void)call;
  return 0;
}

uint64_t gate_linked_offset(void) {
  return 0;
}

#endif
