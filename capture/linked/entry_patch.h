/* SPDX-License-Identifier: MIT */
/* Redirecting a function at its entry: the jump that replaces its first instructions, and the trampoline, where these
   instructions are executed, so that the function can still be called.

   Job: bytes in, bytes out, or the reason why it can't be done safely. Not its job: finding functions, reading or
   writing a process's memory, stopping its threads. Pure functions, for x86-64 only; elsewhere each function is
   refused. Allocate nothing, may be called from any thread.

   Invariants. A patch overwrites whole instructions; bytes of them that the jump does not fill become int3. No direct
   jump or call in the function leads between its first overwritten byte and its last. A jump to the first one, as a
   loop has, leads to the hook with the stack and the registers of a call. An endbr64 at the entry stays where it is.
   The trampoline does what the overwritten instructions did: memory operands and jumps that are relative to the
   instruction are adjusted; a call is made with the function's own return address, so that unwinding and exceptions
   find the function and not the trampoline. After the trampoline, all registers and the stack are as they would be
   without it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  ENTRY_JUMP_BYTES = 5,   /* jmp rel32 */
  ENTRY_PATCH_MOST = 24,  /* most overwritten bytes: four, and one further instruction */
  ENTRY_ROOM_BYTES = 192, /* stub and trampoline */
  ENTRY_HOOK_AT = 16,     /* in the room of a function whose stub has an argument: 8 bytes, the hook's address */
};

struct entry_function {
  uint64_t address;
  const uint8_t *code; /* its bytes, and those that follow */
  size_t bytes;        /* of the function */
  size_t known;        /* bytes at code, at least `bytes`: up to the next function's begin, or less */
};

/* Where the function's calls are redirected to. */
struct entry_target {
  uint64_t room; /* address of ENTRY_ROOM_BYTES for stub and trampoline, a multiple of 16, within 2 GiB of the
                    function and of the addresses it refers to */
  uint64_t hook; /* anywhere; called as the function is, with its caller's return address */
  enum {
    ENTRY_NO_ARGUMENT,
    ENTRY_ARGUMENT_ON_STACK,    /* the stub pushes `argument` above the return address; no register or flag changes */
    ENTRY_ARGUMENT_IN_REGISTER, /* that of the sixth parameter */
  } passes;
  uint64_t argument;
};

struct entry_patch {
  uint64_t at;    /* address of the first overwritten byte: the function's, or that behind its endbr64 */
  uint32_t bytes; /* overwritten */
  uint8_t code[ENTRY_PATCH_MOST], original[ENTRY_PATCH_MOST];
  uint8_t moved[ENTRY_PATCH_MOST]; /* place in the room of the instruction at that byte; 0: none begins there */
  uint64_t trampoline;             /* address; called as the function is */
  uint32_t room_bytes;
  uint8_t room[ENTRY_ROOM_BYTES]; /* to be written to the room before `code` is written */
};

/* Returns NULL, or why the function can't be redirected: a static text that continues "it ...". */
const char *entry_patch_make(const struct entry_function *function, const struct entry_target *target,
                             struct entry_patch *patch);

/* Does the function at that address of a program's code change all registers that a call may change, as far as the
   program's compiler knows? Then no caller keeps values in registers that it leaves alone (gcc's -fipa-ra), or calls it
   with less aligned a stack. It does where it makes a call by a pointer, as calls of other libraries are, itself or in
   a function that it calls. False also where none is found within some thousand instructions, and where it jumps to its
   own first instruction. */
bool entry_patch_is_conventional(const struct entry_function *text, uint64_t address);

/* Marks the patches into which a jump or call with a 32-bit distance leads from anywhere in a program's code: cold
   parts of functions are elsewhere, and symbols need not name them. Checks every byte, so that it finds jumps that no
   decoding would; may mark a patch that only seems to be jumped into. jumped_into: one per patch. */
void entry_patch_find_jumps(const struct entry_function *text, const struct entry_patch *patches, size_t count,
                            bool *jumped_into);
