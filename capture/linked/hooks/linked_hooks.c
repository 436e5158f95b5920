/* SPDX-License-Identifier: MIT */
/* The hooks of functions in the executable.

   linked_hook is for any of them; the meaning of their parameters is in the table's entry. Callers that were compiled
   together with the function (gcc's -fipa-ra) keep values in any registers that the function leaves alone, call it with
   a stack that is only aligned as it needs, and ignore all other calling conventions. So all registers are the
   program's when the function begins, and the function's when it has returned. The common cases, linked_before and
   linked_after, change only general registers (-mgeneral-regs-only here and in the code that they call;
   capture/test/linked/test_linked_registers.py checks the code). All other code runs between saving and restoring the
   vector state, about 200 cycles, as it is not known which registers the C library's functions use. */
#include "capture/host/real/real.h"

#include "capture/linked/hooks/linked_hooks.h"

#if defined(__x86_64__)

#include "capture/host/hooks/control_calls.h"
#include "capture/host/hooks/inner_calls.h"
#include "capture/host/hooks/steps.h"
#include "capture/host/large.h"
#include "capture/linked/hooks/linked_controls.h"

#include <stddef.h>
#include <string.h>

/* The hook's data of a call, on the thread's stack. The assembler code below uses these offsets. */
struct linked_call {
  struct step step;
  struct resize resize;
  const void *object; /* the one that is released, resized or touched */
  void **result;      /* where the object's address is stored (LINKED_RESULT) */
  bool quick;         /* the call began in state IDLE, and without the slow part */
  union {
    struct new_call as_new;
    uint64_t given[LINKED_GIVEN]; /* LINKED_CONTROL */
  };
  uint64_t pad;
  uint64_t real;
  const struct linked_function *function;
  uint64_t flags, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
  uintptr_t frame_pointer;
  const void *caller;
};
#define CALL_BYTES 256
_Static_assert(offsetof(struct linked_call, frame_pointer) == CALL_BYTES && CALL_BYTES % 16 == 0,
               "the assembler code has another size, or the stack's alignment is not the caller's");
_Static_assert(offsetof(struct linked_call, real) == CALL_BYTES - 96, "the assembler code has other places");

/* What is to be done next. */
enum { CALL_REAL, CALL_THROWING, SLOWLY };

void linked_hook(void) __attribute__((visibility("hidden")));
__attribute__((used)) int linked_before(struct linked_call *call), linked_before_slow(struct linked_call *call);
__attribute__((used)) int linked_after(struct linked_call *call), linked_after_slow(struct linked_call *call);

/* clang-format off */
#define SAVE                                                                                                           \
  "  movq %rcx, -16(%rbp)\n  movq %rdx, -24(%rbp)\n  movq %rsi, -32(%rbp)\n  movq %rdi, -40(%rbp)\n"                  \
  "  movq %r8, -48(%rbp)\n  movq %r9, -56(%rbp)\n  movq %r10, -64(%rbp)\n  movq %r11, -72(%rbp)\n"                    \
  "  lahf\n  seto %al\n  movq %rax, -80(%rbp)\n"
#define RESTORE                                                                                                        \
  "  movq -80(%rbp), %rax\n  addb $127, %al\n  sahf\n"                                                                 \
  "  movq -8(%rbp), %rax\n  movq -16(%rbp), %rcx\n  movq -24(%rbp), %rdx\n  movq -32(%rbp), %rsi\n"                   \
  "  movq -40(%rbp), %rdi\n  movq -48(%rbp), %r8\n  movq -56(%rbp), %r9\n  movq -64(%rbp), %r10\n"                    \
  "  movq -72(%rbp), %r11\n"
/* Calls the function with the vector state saved; eax is its result. */
#define CALL_SLOW(function)                                                                                            \
  "  movq %rsp, %rdi\n"                                                                                                \
  LINKED_SAVE_VECTORS                                                                                                  \
  "  call " #function "\n"                                                                                             \
  "  movl %eax, %ecx\n" LINKED_RESTORE_VECTORS                                                                         \
  "  leaq -" LINKED_TEXT(CALL_BYTES) "(%rbp), %rsp\n  movl %ecx, %eax\n"
#define IN_FRAME ".cfi_def_cfa %rbp, 16\n.cfi_offset %rbp, -16\n"

/* The frame is like that of any function with a frame pointer, so that all ways of walking the stack pass it. An
   operator new is called from a separate frame in the tables, whose personality routine records the call where an
   exception passes. Flags: lahf and seto, as popf takes about 20 cycles. The stack pointer moves by lea, which leaves
   them alone.

   A function that jumps to its own first instruction, or to another's that has a hook, arrives here with a return
   address in the hooks' section. It is sent on to the trampoline, without a frame: the jump is a part of the call that is
   recorded. */
__asm__(".pushsection linked_hooks, \"ax\", @progbits\n"
        ".hidden __start_linked_hooks\n.hidden __stop_linked_hooks\n"
        ".globl linked_hook\n.hidden linked_hook\n.type linked_hook, @function\n"
        "linked_hook:\n"
        ".cfi_startproc\n.cfi_def_cfa_offset 16\n"
        "  endbr64\n"
        "  pushq %rax\n.cfi_adjust_cfa_offset 8\n"
        "  movq 8(%rsp), %rax\n"
        "  movq %rbp, 8(%rsp)\n.cfi_offset %rbp, -16\n"
        "  leaq 8(%rsp), %rbp\n.cfi_def_cfa %rbp, 16\n"
        "  leaq -" LINKED_TEXT(CALL_BYTES) "(%rbp), %rsp\n"
        "  movq %rax, -88(%rbp)\n"
        SAVE
        "  movq 8(%rbp), %rax\n"
        "  leaq __start_linked_hooks(%rip), %rcx\n"
        "  leaq __stop_linked_hooks(%rip), %rdx\n"
        "  subq %rcx, %rax\n"
        "  subq %rcx, %rdx\n"
        "  cmpq %rdx, %rax\n"
        "  jb 7f\n"
        "  movq %rsp, %rdi\n"
        "  call linked_before\n"
        "  testl %eax, %eax\n"
        "  jnz 2f\n"
        "1:\n" RESTORE
        "  call *-96(%rbp)\n"
        "3:  movq %rax, -8(%rbp)\n"
        SAVE
        "  movq %rsp, %rdi\n"
        "  call linked_after\n"
        "  testl %eax, %eax\n"
        "  jnz 5f\n"
        "4:\n" RESTORE
        ".cfi_remember_state\n"
        "  leave\n.cfi_def_cfa %rsp, 8\n.cfi_restore %rbp\n"
        "  ret\n"
        ".cfi_restore_state\n"
        "2:  cmpl $1, %eax\n" /* CALL_THROWING */
        "  je 6f\n"
        CALL_SLOW(linked_before_slow)
        "  testl %eax, %eax\n"
        "  jz 1b\n"
        "  jmp 6f\n"
        "5:\n" CALL_SLOW(linked_after_slow)
        "  jmp 4b\n"
        "7:  movq -88(%rbp), %rax\n" /* struct linked_function, which begins with the trampoline */
        "  movq (%rax), %rax\n"
        "  movq %rax, -96(%rbp)\n" RESTORE
        "  leave\n.cfi_def_cfa %rsp, 8\n.cfi_restore %rbp\n"
        "  jmp *-104(%rsp)\n" /* above what signal handlers may change */
        ".cfi_endproc\n"
        ".size linked_hook, . - linked_hook\n"
        ".type linked_hook_throwing, @function\n"
        "linked_hook_throwing:\n"
        ".cfi_startproc\n" IN_FRAME ".cfi_personality 0x1b, hooks_personality\n"
        "6:\n" RESTORE
        "  call *-96(%rbp)\n"
        "  jmp 3b\n"
        ".cfi_endproc\n"
        ".size linked_hook_throwing, . - linked_hook_throwing\n"
        ".popsection\n");
/* clang-format on */

/* The flags of jemalloc's functions. */
enum { FLAG_ALIGN_MASK = 63, FLAG_ZERO = 64 };

static uint8_t call_by_flags(const struct linked_function *function, uint64_t flags) {
  bool aligned = flags & FLAG_ALIGN_MASK;
  switch (function->call) {
  case CALL_malloc:
    return aligned ? CALL_memalign : flags & FLAG_ZERO ? CALL_calloc : CALL_malloc;
  case CALL_free_sized:
    return aligned ? CALL_free_aligned_sized : CALL_free_sized;
  default:
    return function->call;
  }
}

static inline uint64_t parameter(const struct linked_call *call, uint8_t number, uint64_t none) {
  const uint64_t parameters[LINKED_PARAMETERS] = {call->rdi, call->rsi, call->rdx, call->rcx};
  return number < LINKED_PARAMETERS ? parameters[number] : none;
}

static inline void describe(struct linked_call *call) {
  const struct linked_function *function = call->function;
  struct step *step = &call->step;
  *step = (struct step){.in = step->in, .call = function->call};
  step->sizes.size = product(parameter(call, function->size, 0), parameter(call, function->count, 1));
  step->sizes.param = parameter(call, function->param, 1); /* 1: for an element count that is not given */
  if (function->style == LINKED_FLAGS) {
    step->call = call_by_flags(function, step->sizes.param);
    step->sizes.param = (uint64_t)1 << (step->sizes.param & FLAG_ALIGN_MASK);
  }
  call->object = (const void *)parameter(call, function->object, 0);
  call->result = (void **)call->rdi;
}

/* The producer's state while the function runs, and the further flags for producer_enter_slow. */
static inline uint32_t state_in(const struct linked_function *function) {
  return function->kind == LINKED_NEW      ? PRODUCER_NEW
         : function->kind == LINKED_DELETE ? PRODUCER_DELETE
                                           : PRODUCER_CALLING;
}
static inline uint32_t more_of(const struct linked_function *function) {
  return function->kind == LINKED_RELEASE || function->kind == LINKED_DELETE ? PRODUCER_RELEASES
         : function->kind == LINKED_TOUCH                                    ? PRODUCER_TOUCHES
                                                                             : 0;
}

/* Must something be recorded before the function runs? */
static inline bool begins(const struct linked_function *function) {
  return more_of(function) || function->kind == LINKED_RESIZE;
}

/* The end of the part before the function. */
static inline int go_on(struct linked_call *call) {
  if (call->function->kind != LINKED_NEW || !call->step.in.producer)
    return CALL_REAL;
  new_begins(&call->as_new, call->step.in, call->step.call, call->step.sizes);
  return CALL_THROWING;
}

/* SLOWLY: nothing has been recorded, and the call has no producer. */
int linked_before(struct linked_call *call) {
  const struct linked_function *function = call->function;
  struct producer *producer = producer_if_idle();
  call->real = function->real;
  call->step.in.producer = NULL;
  call->quick = false;
  if (!producer || function->kind >= LINKED_OTHER)
    return function->kind != LINKED_CONTROL && !producer_now() && producer_passes(call->caller) ? CALL_REAL : SLOWLY;
  describe(call);
  if (begins(function)) {
    struct producer_event event = {.op = RECORD_BEGIN, .address = call->object};
    if (function->kind != LINKED_RESIZE)
      event = step_of(call_of_op(call->step.call, &call->step.sizes), call->object);
    if (!producer_record_quick(&producer->quick, event))
      return SLOWLY;
  }
  if (function->kind == LINKED_RESIZE) {
    producer->open++;
    call->resize = (struct resize){call->object, true, 0};
  }
  call->step.in = (struct producer_entry){producer, PRODUCER_IDLE};
  if (function->kind == LINKED_DELETE)
    inner_deletes(call->step.in, call->object);
  call->quick = true;
  producer_show(producer, state_in(function));
  producer_note_frame(producer, (uintptr_t)call);
  return go_on(call);
}

/* Of a control call, nothing is recorded before it, and it is called as if there were no hook. The vector state of the
   program has been saved below the call. */
static void control_before(struct linked_call *call) {
  enum { FIRST_VECTOR_AT = 160 };
  const uint64_t given[LINKED_GIVEN] = {call->rdi, call->rsi, call->rdx, call->rcx, call->r8, call->r9};
  uintptr_t saved = ((uintptr_t)call - LINKED_VECTOR_ROOM) & ~(uintptr_t)63;
  memcpy(call->given, given, sizeof given);
  if (call->function->style == LINKED_RATE)
    memcpy(call->given, (const void *)(saved + FIRST_VECTOR_AT), sizeof *call->given);
  call->step.began = control_begins();
}

static void control_after(const struct linked_call *call) {
  struct hook_sizes sizes;
  if (control_ends() && linked_control_sizes(call->function, call->given, call->rax, &sizes))
    control_called(call->function->call, sizes, call->step.began, call->caller, (uintptr_t)(&call->caller + 1));
}

int linked_before_slow(struct linked_call *call) {
  const struct linked_function *function = call->function;
  if (function->kind == LINKED_CONTROL) {
    control_before(call);
    return CALL_REAL;
  }
  struct step *step = &call->step;
  uint32_t what = state_in(function) | more_of(function);
  uintptr_t frame = (uintptr_t)(&call->caller + 1);
  step->in = producer_enter_slow(what, call->caller, frame, &call->frame_pointer);
  if (!step->in.producer)
    return CALL_REAL;
  if (step->in.was == host_state.idle)
    producer_note_frame(step->in.producer, (uintptr_t)call);
  describe(call);
  if (function->kind == LINKED_RESIZE)
    call->resize = step_resizing(step, call->object);
  else if (begins(function))
    step_releasing(step, state_in(function), call->object);
  else if (function->kind == LINKED_OTHER) /* calls.def has no such call */
    producer_drop(step->in.producer);
  step->began = step_time(step->in);
  union {
    uint64_t address;
    size_t (*code)(void *);
  } usable = {.address = function->usable};
  step->usable = usable.code;
  return go_on(call);
}

/* What the function has acquired. posix_memalign returns an error's number. */
static inline void *acquired_by(const struct linked_call *call) {
  if (call->function->kind != LINKED_RESULT)
    return (void *)call->rax;
  return (int)call->rax ? NULL : *call->result;
}

int linked_after(struct linked_call *call) {
  const struct linked_function *function = call->function;
  struct step *step = &call->step;
  struct producer *producer = step->in.producer;
  if (!producer)
    return function->kind == LINKED_CONTROL ? SLOWLY : CALL_REAL;
  if (function->kind == LINKED_NEW)
    new_ends(&call->as_new);
  if (!call->quick)
    return SLOWLY;
  producer_show_idle(producer);
  if (more_of(function) || function->kind == LINKED_OTHER)
    return CALL_REAL;
  struct hook_call request = call_of_op(step->call, &step->sizes);
  bool resizes = function->kind == LINKED_RESIZE;
  request.small = true;
  if ((resizes && !(call->resize.object && call->resize.begun)) || request.request_bytes >= host_state.quick_bytes[0] ||
      !producer_record_quick(&producer->quick, step_of(request, acquired_by(call))))
    return SLOWLY;
  producer->open -= resizes;
  return CALL_REAL;
}

int linked_after_slow(struct linked_call *call) {
  struct step *step = &call->step;
  uint8_t kind = call->function->kind;
  if (kind == LINKED_CONTROL) {
    control_after(call);
    return CALL_REAL;
  }
  if (call->quick)
    producer_begin(step->in.producer, PRODUCER_RECORDING, (uintptr_t)call);
  if (more_of(call->function)) {
    step_released(step, call->object);
  } else if (kind == LINKED_OTHER) {
    producer_leave(step->in);
  } else {
    void *got = acquired_by(call);
    if (kind == LINKED_RESIZE)
      step_resized(step, call->resize, got);
    else
      step_acquired(step, got);
  }
  return CALL_REAL;
}

/* --- functions that follow the calling convention --- */

/* Such a function is called as any other, so that these hooks save nothing. They have the common case alone. All other
   calls continue in linked_hook, before anything has been recorded, or end in rest(). */
#define PARAMETERS uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, const struct linked_function *function
#define ARGUMENTS a, b, c, d, e, function
typedef uint64_t conventional(PARAMETERS);
#define CONVENTIONAL __attribute__((section("linked_hooks"))) static uint64_t

#define REAL ((conventional *)(uintptr_t)function->real)

conventional linked_any __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".type linked_any, @function\n"
        "linked_any:\n"
        ".cfi_startproc\n"
        "  pushq %r9\n.cfi_adjust_cfa_offset 8\n"
        "  jmp linked_hook\n"
        ".cfi_endproc\n"
        ".size linked_any, . - linked_any\n");

/* The end of an acquire that is not of the common case, after the call. Returns got. */
static __attribute__((noinline)) uint64_t acquired_stamped(struct producer *producer, uint8_t op,
                                                           struct hook_sizes sizes, uint64_t got) {
  struct step step = {.in = {producer, PRODUCER_IDLE}, .call = op, .sizes = sizes};
  producer_begin(producer, PRODUCER_RECORDING, os_stack_pointer());
  step_acquired(&step, (void *)got);
  return got;
}

/* The same for a resize that has begun. */
static __attribute__((noinline)) uint64_t resized_stamped(struct producer *producer, uint64_t size, const void *object,
                                                          uint64_t got) {
  struct step step = {.in = {producer, PRODUCER_IDLE}, .call = CALL_realloc, .sizes = {size, 0}};
  producer_begin(producer, PRODUCER_RECORDING, os_stack_pointer());
  step_resized(&step, (struct resize){object, true, 0}, (void *)got);
  return got;
}

static inline __attribute__((always_inline)) uint64_t acquires(struct producer *producer, struct hook_call call,
                                                               uint64_t got) {
  producer_show_idle(producer);
  if (__builtin_expect(producer_record_quick(&producer->quick, step_of(call, (void *)got)), 1))
    return got;
  return acquired_stamped(producer, call.op, (struct hook_sizes){call.size, call.param ? *call.param : 0}, got);
}

static inline __attribute__((always_inline)) uint64_t acquires_by(struct hook_call call, PARAMETERS) {
  struct producer *producer = producer_if_idle();
  if (__builtin_expect(!producer || call.request_bytes >= host_state.quick_bytes[0], 0))
    return linked_any(ARGUMENTS);
  producer_show(producer, PRODUCER_CALLING);
  return acquires(producer, call, REAL(ARGUMENTS));
}

CONVENTIONAL on_malloc(PARAMETERS) {
  return acquires_by((struct hook_call){.op = CALL_malloc, .small = true, .request_bytes = a, .size = a}, ARGUMENTS);
}

CONVENTIONAL on_calloc(PARAMETERS) {
  struct hook_call call = {CALL_calloc, .small = true, .request_bytes = product(b, a), .size = b, .param = &a};
  return acquires_by(call, ARGUMENTS);
}

CONVENTIONAL on_aligned_alloc(PARAMETERS) {
  struct hook_call call = {function->call, .small = true, .request_bytes = b, .size = b, .param = &a};
  return acquires_by(call, ARGUMENTS);
}

CONVENTIONAL on_posix_memalign(PARAMETERS) {
  struct producer *producer = producer_if_idle();
  if (__builtin_expect(!producer || c >= host_state.quick_bytes[0], 0))
    return linked_any(ARGUMENTS);
  producer_show(producer, PRODUCER_CALLING);
  uint64_t error = REAL(ARGUMENTS), got = (int)error ? 0 : *(const uint64_t *)a;
  acquires(producer, (struct hook_call){.op = CALL_posix_memalign, .small = true, .size = c, .param = &b}, got);
  return error;
}

CONVENTIONAL on_realloc(PARAMETERS) {
  struct producer *producer = producer_if_idle();
  struct producer_event begin = {.op = RECORD_BEGIN, .address = (void *)a};
  if (__builtin_expect(!producer || !producer_record_quick(&producer->quick, begin), 0))
    return linked_any(ARGUMENTS);
  producer->open++;
  producer_show(producer, PRODUCER_CALLING);
  uint64_t got = REAL(ARGUMENTS);
  producer_show_idle(producer);
  struct producer_event end = {.op = CALL_realloc, .address = (void *)got, .word = b, .small = true};
  if (__builtin_expect(b >= host_state.quick_bytes[0] || !producer_record_quick(&producer->quick, end), 0))
    return resized_stamped(producer, b, (void *)a, got);
  producer->open--;
  return got;
}

static inline __attribute__((always_inline)) uint64_t releases(struct producer_event event, uint32_t state,
                                                               PARAMETERS) {
  struct producer *producer = producer_if_idle();
  event.address = (void *)a;
  if (__builtin_expect(!producer || !producer_record_quick(&producer->quick, event), 0))
    return linked_any(ARGUMENTS);
  if (state == PRODUCER_DELETE)
    inner_deletes((struct producer_entry){producer, PRODUCER_IDLE}, event.address);
  producer_show(producer, state);
  uint64_t result = REAL(ARGUMENTS);
  producer_show_idle(producer);
  return result;
}

CONVENTIONAL on_free(PARAMETERS) {
  return releases((struct producer_event){.op = CALL_free, .small = true}, PRODUCER_CALLING, ARGUMENTS);
}

CONVENTIONAL on_delete(PARAMETERS) {
  struct producer_event event = {
      .op = function->call, .small = true, .has_quick = true, .quick = (uint64_t)(int64_t)function->quick};
  return releases(event, PRODUCER_DELETE, ARGUMENTS);
}

CONVENTIONAL on_delete_sized(PARAMETERS) {
  struct producer_event event = {.op = function->call,
                                 .word = b,
                                 .small = b < RECORD_QUICK_BYTES,
                                 .has_quick = true,
                                 .quick = (uint64_t)(int64_t)function->quick};
  return releases(event, PRODUCER_DELETE, ARGUMENTS);
}

/* The frame whose personality routine records the call where an exception passes. */
CONVENTIONAL __attribute__((noinline)) calls_new(PARAMETERS) {
  __asm__ volatile(".cfi_personality 0x1b, hooks_personality");
  struct new_call call;
  new_begins(&call, (struct producer_entry){producer_now(), PRODUCER_IDLE}, function->call, (struct hook_sizes){a, 0});
  uint64_t got = REAL(ARGUMENTS);
  new_ends(&call);
  return got;
}

CONVENTIONAL on_new(PARAMETERS) {
  struct producer *producer = producer_if_idle();
  if (__builtin_expect(!producer || a >= host_state.quick_bytes[0], 0))
    return linked_any(ARGUMENTS);
  producer_show(producer, PRODUCER_NEW);
  uint64_t got = calls_new(ARGUMENTS);
  return acquires(producer, (struct hook_call){.op = function->call, .small = true, .size = a}, got);
}

void linked_list_hooks(uint64_t hook[LINKED_HOOKS]) {
  conventional *const hooks[LINKED_HOOKS] = {
      [LINKED_HOOK_MALLOC] = on_malloc,
      [LINKED_HOOK_CALLOC] = on_calloc,
      [LINKED_HOOK_ALIGNED_ALLOC] = on_aligned_alloc,
      [LINKED_HOOK_POSIX_MEMALIGN] = on_posix_memalign,
      [LINKED_HOOK_REALLOC] = on_realloc,
      [LINKED_HOOK_FREE] = on_free,
      [LINKED_HOOK_NEW] = on_new,
      [LINKED_HOOK_DELETE] = on_delete,
      [LINKED_HOOK_DELETE_SIZED] = on_delete_sized,
  };
  for (unsigned i = 0; i < LINKED_HOOKS; i++)
    hook[i] = (uintptr_t)hooks[i];
  hook[LINKED_HOOK_ANY] = (uintptr_t)linked_hook;
}

#else

void linked_list_hooks(uint64_t hook[LINKED_HOOKS]) {
  (void)hook;
}

#endif
