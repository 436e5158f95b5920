/* SPDX-License-Identifier: MIT */
/* A client program's requests to our Valgrind tool (observe/valgrind).

   Job: the requests' numbers, and how a program makes one. Self-contained: needs no header of Valgrind's, so the engine
   builds where Valgrind is not installed. The tool, a separate GPL-2 program, includes this file for the numbers.
   Outside Valgrind a request does nothing and returns 0; it costs about six instructions. Any thread, any time. */
#pragma once

/* Valgrind reserves the high half of the number for the tool's two letters. */
#define VALGRIND_REQUEST_BASE (((unsigned long)'H' & 0xff) << 24 | ((unsigned long)'T' & 0xff) << 16)

enum { VALGRIND_KIND_LIMIT = 64 };

enum valgrind_request {
  /* Arguments kind (below VALGRIND_KIND_LIMIT), first and end: calls made by the code from first up to end are counted
     as calls of that kind. All instructions below a call instruction of that code, until control is back in it, belong
     to the call. Returns 1 if the tool accepted it. To be made before the code first runs. */
  VALGRIND_REQUEST_CALLER = 1,
  /* A call that is an event of the trace: the thread's serial number as in RECORD_THREAD (capture/wire/ring.h), the
     object that it acquired (0: none), its request in bytes, and the object that it released. To be made when the event
     is in the ring, before that thread runs any other code of the program. Returns 1 if it is recorded. */
  VALGRIND_REQUEST_EVENT = 2,
  /* Argument enum valgrind_recording; with RECORDING_BEGINS the descriptor of a stream socket, which the tool takes
     over. Returns 1 if the tool records the program's accesses. */
  VALGRIND_REQUEST_RECORDING = 3,
  /* No arguments: the program's own work begins here; all instructions up to now were its start-up, which is reported
     separately. Once, from the only thread that runs. Returns 1 if the tool accepted it. */
  VALGRIND_REQUEST_STARTED = 5,
  /* No arguments: main begins; all instructions up to now, except the allocator's own, were loading the program and its
     libraries. Once, before VALGRIND_REQUEST_STARTED. Returns 1 if the tool accepted it. */
  VALGRIND_REQUEST_LOADED = 6,
  /* Arguments function, table and count: a recording is replayed, and the function is called before each of its calls.
     table: count entries of two words, one for each slot, the first word the object's address or 0; mapped until the
     process ends. Returns 1 if the tool accepted it. To be made before the function is first called. */
  VALGRIND_REQUEST_CALLS = 8,
  /* Arguments text and its length in bytes: the program makes this mark. Returns 1 if the tool records in bursts. */
  VALGRIND_REQUEST_MARK = 9,
  /* Argument 1 or 0: a burst begins or ends here, by the operator's command. Returns 1 if the tool records in
     bursts. */
  VALGRIND_REQUEST_BURST = 10,
};

/* BEGINS: the process has been attached. IS_POSSIBLE: does the tool run in the mode that records? */
enum valgrind_recording { RECORDING_PAUSES, RECORDING_GOES_ON, RECORDING_BEGINS, RECORDING_IS_POSSIBLE };

enum { VALGRIND_ARGUMENTS = 5 };

#if defined(__x86_64__) && defined(__linux__)
/* The instruction sequence that Valgrind recognises as a request: rotations that leave the register as it was, and an
   exchange of a register with itself; the request's block is in rax, the answer in rdx. */
static inline unsigned long valgrind_ask(unsigned long number, const unsigned long arguments[VALGRIND_ARGUMENTS]) {
  volatile unsigned long block[1 + VALGRIND_ARGUMENTS] = {number,       arguments[0], arguments[1],
                                                          arguments[2], arguments[3], arguments[4]};
  unsigned long answer = 0;
  __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(block)
                   : "cc", "memory");
  return answer;
}
#else
static inline unsigned long valgrind_ask(unsigned long number, const unsigned long arguments[VALGRIND_ARGUMENTS]) {
  (void)number, (void)arguments;
  return 0;
}
#endif

static inline unsigned long valgrind_request(enum valgrind_request request,
                                             const unsigned long arguments[VALGRIND_ARGUMENTS]) {
  return valgrind_ask(VALGRIND_REQUEST_BASE + (unsigned long)request, arguments);
}

/* Does the process run under Valgrind, with any tool? Valgrind's own request, RUNNING_ON_VALGRIND. */
static inline int valgrind_is_here(void) {
  return valgrind_ask(0x1001, (const unsigned long[VALGRIND_ARGUMENTS]){0}) != 0;
}
