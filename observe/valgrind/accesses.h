/* Mode accesses: the program's data accesses and its calls, in order, written to the recorder as a stream of items
   (core/accesses/stream.h).

   Job: which accesses are written, and under what name. Not its job: which instructions are the allocator's
   (allocator.h), which accesses a superblock has (data_accesses.h).
   Invariants: accesses made while the allocator runs are not written. Accesses are in the order of execution, and calls
   between them. The stream has whole items only, but where the process is killed. Nothing is written before the
   recorded library has handed over a descriptor; where the recorder has ended, the program goes on. */
#ifndef OBSERVE_VALGRIND_ACCESSES_H
#define OBSERVE_VALGRIND_ACCESSES_H

#include "observe/valgrind/tool.h"

/* Option --filter=BYTES: the filter's size; 0: only consecutive accesses to one granule are collapsed. False: neither
   0 nor 64 times a power of two. */
Bool accesses_set_filter(Long bytes);

void accesses_begin(void);
IRSB *accesses_instrument(IRSB *in, const struct translation *translation);

/* The requests EVENT and RECORDING (core/valgrind/requests.h). */
Bool accesses_take_event(const UWord *arguments);
Bool accesses_set_recording(const UWord *arguments);

void accesses_note_syscall(void);

/* At the process's end, and before it becomes another program: totals, and what is left in the buffer. */
void accesses_put_totals(void);

/* In a fork's child: it has no stream until its library hands one over. */
void accesses_reset(void);

/* The buffer between translated code and this mode, which the former fills: a word for each stretch of instructions
   between two exits of a superblock, then a word for each of its accesses: the address, or 0 where a condition kept it
   from happening. A helper's call per access would cost some 20 instructions; this is one. */
enum {
  STRETCH_INSTRUCTIONS_BITS = 8,
  STRETCH_COUNT_BITS = 4,
  STRETCH_SIZE_BITS = 4, /* of each access */
  STRETCH_SIZES_SHIFT = STRETCH_INSTRUCTIONS_BITS + STRETCH_COUNT_BITS,
  STRETCH_ACCESSES = (64 - STRETCH_SIZES_SHIFT) / STRETCH_SIZE_BITS,
  PENDING_WORDS = 1536,
  PENDING_ROOM = 2048, /* beyond PENDING_WORDS; what one superblock may need */
};
extern UWord pending[PENDING_WORDS + PENDING_ROOM];
extern UWord *pending_end;

static inline UInt stretch_instructions(UWord word) {
  return word % (1 << STRETCH_INSTRUCTIONS_BITS);
}
static inline UInt stretch_count(UWord word) {
  return word >> STRETCH_INSTRUCTIONS_BITS & ((1 << STRETCH_COUNT_BITS) - 1);
}

/* The size's code in a stretch's word: of the least size in the table that is not less. */
UInt accesses_size_code(Int bytes);

/* Takes what is in the buffer; called from translated code when it holds PENDING_WORDS. */
void accesses_settle(void);

#endif
