/* SPDX-License-Identifier: MIT */
#include "capture/attach/loading.h"

#include "capture/attach/lent.h"
#include "capture/attach/target.h"
#include "capture/attach/tracee/objects.h"
#include "capture/wire/linked.h"
#include "core/base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The relay: two OS pages that are put into a program so that one of its own threads loads our library where that is
   safe.

   References to malloc, calloc, realloc and free are pointed at the relay's entries, which continue to the real
   functions; functions of an allocator in the executable are redirected to one, too. A thread at a relay's entry is in
   no function of the allocator, and so holds none of its locks. The first one while the relay is armed waits, for 200
   ms at most, until the recorder has looked at its stack and decided; then it loads the library, with all signals
   blocked and on a stack of its own, as the thread may be on a small one (a fiber's), and continues. All other threads
   continue at once, as all do in fork children.

   Invariants: the code keeps errno and all registers, and for functions in the
   executable the flags, too (capture/linked/hooks/linked_hooks.c says why); where the recorder has ended it loads
   nothing. */
#define RELAY_MAGIC 0x6574616765706174u
enum { RELAY_CODE_BYTES = 4096, RELAY_BYTES = 8192, RELAY_CALLS = 4 };

enum relay_state {
  RELAY_DISARMED, /* all threads continue */
  RELAY_ARMED,    /* the first thread asks */
  RELAY_ASKING,   /* one has asked, and waits */
  RELAY_GO,       /* it is to load the library */
  RELAY_PASS,     /* it is not */
  RELAY_LOADING,
  RELAY_DONE, /* handle or failure has the result */
};

/* Behind the code. The offsets are the code's, too. */
struct relay_data {
  uint64_t magic;
  uint32_t state;
  uint32_t pid; /* of the process in which the library is to be loaded */
  uint64_t dlopen, dlerror, errno_location;
  uint64_t stack;   /* of the thread that asks */
  uint64_t handle;  /* 0: the library could not be loaded */
  uint64_t failure; /* what dlerror returned */
  uint64_t real[RELAY_CALLS];
  int64_t wait[2]; /* from one look at the state to the next: struct timespec */
  uint64_t all_signals;
  uint64_t thread_pointer; /* of the thread that asks */
  char library[3072];
};
_Static_assert(offsetof(struct relay_data, library) == 128, "the relay's code has other offsets");
_Static_assert(sizeof(struct relay_data) <= RELAY_BYTES - RELAY_CODE_BYTES, "the relay's data do not fit");

/* In the order of the entries. */
static const char *const relay_calls[RELAY_CALLS] = {"malloc", "calloc", "realloc", "free"};

#if defined(__x86_64__)

extern const char relay_begin[], relay_end[], relay_entry_0[], relay_entry_1[], relay_entry_2[], relay_entry_3[],
    relay_linked[], relay_conventional[];

#define STACK_BYTES 262144 /* of which dlopen uses some 10 KiB */

/* The data are 4096 bytes behind relay_begin; the code refers to nothing else, so that it runs anywhere. System calls
   are made by number, as the C library's functions may be cancelled. */
#define DATA(offset) "(relay_begin + 4096 + " #offset ")(%rip)"
#define ENTRY(number, real)                                                                                            \
  ".globl relay_entry_" #number "\n.hidden relay_entry_" #number "\nrelay_entry_" #number ":\n"                        \
  "  endbr64\n"                                                                                                        \
  "  cmpl $1, " DATA(8) "\n" /* armed? */                                                                              \
                        "  jne 1f\n"                                                                                   \
                        "  call relay_ask\n"                                                                           \
                        "1: jmp *" DATA(real) "\n"

/* clang-format off */
__asm__(".pushsection .rodata.relay, \"a\", @progbits\n"
        ".globl relay_begin\n.hidden relay_begin\n"
        ".globl relay_end\n.hidden relay_end\n"
        ".balign 64\n"
        "relay_begin:\n"
        ENTRY(0, 64) ENTRY(1, 72) ENTRY(2, 80) ENTRY(3, 88)
        ".globl relay_linked\n.hidden relay_linked\n"
        "relay_linked:\n"
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
        "  call relay_ask\n"
        "1: pop %rax\n"
        "  add $127, %al\n"
        "  sahf\n"
        "  pop %rax\n"
        "  lea 8(%rsp), %rsp\n"
        "  jmp *-8(%rsp)\n"
        ".globl relay_conventional\n.hidden relay_conventional\n"
        "relay_conventional:\n"
        "  endbr64\n"
        "  push (%r9)\n"
        "  cmpl $1, " DATA(8) "\n"
        "  jne 1f\n"
        "  call relay_ask\n"
        "1: lea 8(%rsp), %rsp\n"
        "  jmp *-8(%rsp)\n"
        "relay_ask:\n"
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
        "  push %r13\n"
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
        "  xor %edi, %edi\n"
        "  mov $" LINKED_TEXT(STACK_BYTES) ", %esi\n"
        "  mov $3, %edx\n"        /* PROT_READ | PROT_WRITE */
        "  mov $0x24022, %r10d\n" /* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK */
        "  mov $-1, %r8\n"
        "  xor %r9d, %r9d\n"
        "  mov $9, %eax\n"
        "  syscall\n"
        "  cmp $-4096, %rax\n"
        "  ja 6f\n"
        "  mov %rax, %r13\n"
        "  lea " LINKED_TEXT(STACK_BYTES) "(%rax), %rsp\n"
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
        "  mov %r13, %rdi\n"
        "  mov $" LINKED_TEXT(STACK_BYTES) ", %esi\n"
        "  mov $11, %eax\n" /* munmap */
        "  syscall\n"
        "6: mov $2, %edi\n"
        "  mov %rsp, %rsi\n"
        "  xor %edx, %edx\n"
        "  mov $8, %r10d\n"
        "  mov $14, %eax\n"
        "  syscall\n"
        "  movl $6, " DATA(8) "\n"
        "9: add $8, %rsp\n"
        "  pop %r13\n"
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
        "relay_end:\n"
        ".popsection\n");
/* clang-format on */

static const void *relay_code(void) {
  return relay_begin;
}

static size_t relay_code_bytes(void) {
  return (size_t)(relay_end - relay_begin);
}

static uint64_t relay_entry_offset(unsigned call) {
  const char *const entry[RELAY_CALLS] = {relay_entry_0, relay_entry_1, relay_entry_2, relay_entry_3};
  return (uint64_t)(entry[call] - relay_begin);
}

static uint64_t relay_linked_offset(enum linked_hook hook) {
  return (uint64_t)((hook == LINKED_HOOK_ANY ? relay_linked : relay_conventional) - relay_begin);
}

#else

/* Never used: target_check refuses. */
static const void *relay_code(void) {
  return NULL;
}

static size_t relay_code_bytes(void) {
  return 0;
}

static uint64_t relay_entry_offset(unsigned call) {
  (void)call;
  return 0;
}

static uint64_t relay_linked_offset(enum linked_hook hook) {
  (void)hook;
  return 0;
}

#endif

enum {
  POLL_US = 500,
  TRIES = 100,    /* to find the dynamic linker unlocked */
  TRY_US = 50000, /* between two tries */
};
static const uint64_t STACK_MOST_BYTES = (uint64_t)64 << 20; /* of a stack whose end is not known, such as a fiber's */
static const uint64_t WARN_NS = 3000000000u, STUCK_NS = 1000000000u, REWRITE_NS = 500000000u;

struct bringing {
  const struct loading *loading;
  struct tracee *tracee;
  struct objects objects;
  struct references references;
  struct symbol real[RELAY_CALLS]; /* address 0: in the executable */
  uint64_t syscall_instruction;
  struct code_range handlers; /* where signal handlers return to */
  struct relay_data data;
  uint64_t relay; /* its code's address; 0: not made */
  struct lent lent;
};

static const struct names names = {relay_calls, RELAY_CALLS};

bool relay_entry_at(const struct tracee *tracee, uint64_t address, uint64_t *real) {
  uint64_t code = address & ~(uint64_t)(RELAY_CODE_BYTES - 1), magic;
  for (unsigned i = 0; i < RELAY_CALLS; i++)
    if (address - code == relay_entry_offset(i))
      return tracee_read_word(tracee, code + RELAY_CODE_BYTES, &magic) && magic == RELAY_MAGIC &&
             tracee_read_word(tracee, code + RELAY_CODE_BYTES + offsetof(struct relay_data, real) + i * 8, real);
  return false;
}

static int find_functions(struct bringing *b, const struct object *libc, struct error *error) {
  const struct object *dl = objects_find(&b->objects, "libdl.so.2");
  struct symbol open, failure, number;
  if ((!object_symbol(libc, b->tracee, "dlopen", &open) && (!dl || !object_symbol(dl, b->tracee, "dlopen", &open))) ||
      (!object_symbol(libc, b->tracee, "dlerror", &failure) &&
       (!dl || !object_symbol(dl, b->tracee, "dlerror", &failure))) ||
      !object_symbol(libc, b->tracee, "__errno_location", &number))
    return error_set(error, "--attach", "the program has no dlopen: its C library is too old");
  b->data.dlopen = open.address;
  b->data.dlerror = failure.address;
  b->data.errno_location = number.address;
  for (unsigned i = 0; i < RELAY_CALLS; i++) {
    const struct object *object = definer_of(&b->objects, b->tracee, relay_calls[i], &b->real[i]);
    if (!object)
      return error_set(error, "--attach", "the program has no %s", relay_calls[i]);
    if (object->is_executable && !linked_running_has_malloc(b->loading->linked))
      return error_set(error, "--attach", "the program defines %s itself: its calls don't go through references",
                       relay_calls[i]);
    if (object->is_executable)
      b->real[i].address = 0;
    b->data.real[i] = b->real[i].address;
  }
  return 0;
}

/* The end of a signal handler's frame: the only way back from one. */
static uint64_t find_restorer(const struct bringing *b) {
  static const char code[] = "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";
  static const uint64_t most = (uint64_t)64 << 20;
  struct proc_mapping area;
  uint64_t found = 0;
  if (!area_of(b->tracee, b->syscall_instruction, &area) || area.end - area.start > most)
    return 0;
  char *text = malloc(area.end - area.start);
  if (text && tracee_read(b->tracee, area.start, text, area.end - area.start)) {
    const char *at = memmem(text, area.end - area.start, code, sizeof code - 1);
    found = at ? area.start + (uint64_t)(at - text) : 0;
  }
  free(text);
  return found;
}

static int prepare(struct bringing *b, struct error *error) {
  if (objects_read(&b->objects, b->tracee, error) != 0)
    return -1;
  b->syscall_instruction = objects_syscall_instruction(&b->objects, b->tracee);
  if (!b->syscall_instruction)
    return error_set(error, "--attach", "the program's C library is not one that is known");
  if (find_functions(b, objects_find(&b->objects, "libc.so.6"), error) != 0)
    return -1;
  uint64_t restorer = find_restorer(b);
  b->handlers = (struct code_range){restorer, restorer + 1, COUNTS_AT_FRAME};
  b->data.magic = RELAY_MAGIC;
  b->data.pid = (uint32_t)tracee_inner_id(b->tracee, b->tracee->pid);
  b->data.wait[1] = 1000000;
  b->data.all_signals = ~(uint64_t)0;
  if (strlen(b->loading->library) >= sizeof b->data.library)
    return error_set(error, b->loading->library, "the path is too long");
  strcpy(b->data.library, b->loading->library);
  return references_read(&b->references, &b->objects, b->tracee, &names, NULL) == 0
             ? 0
             : error_set(error, "--attach", "out of memory");
}

static int call_kernel(const struct bringing *b, const struct tracee_syscall *call, int64_t *result,
                       const char *failure, struct error *error) {
  if (tracee_make_syscall(b->tracee, call, result, error) != 0)
    return -1;
  return *result < 0 && *result > -4096 ? error_set(error, "--attach", "%s: %s", failure, strerror((int)-*result)) : 0;
}

static int fill_relay(const struct bringing *b, uint64_t at, struct error *error) {
  struct tracee_syscall protect = {b->syscall_instruction,
                                   SYS_mprotect,
                                   {at + RELAY_CODE_BYTES, RELAY_BYTES - RELAY_CODE_BYTES, PROT_READ | PROT_WRITE}};
  int64_t done;
  if (!tracee_write(b->tracee, at, relay_code(), relay_code_bytes()) ||
      !tracee_write(b->tracee, at + RELAY_CODE_BYTES, &b->data, sizeof b->data))
    return error_set(error, "--attach", "the process's memory can't be written");
  return call_kernel(b, &protect, &done, "no memory in the process", error);
}

/* Mapped as code from the start: a process may have forbidden itself to make writable memory executable
   (PR_SET_MDWE). */
static int make_relay(struct bringing *b, struct error *error) {
  struct tracee_syscall map = {b->syscall_instruction,
                               SYS_mmap,
                               {0, RELAY_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0}};
  struct error ignored = {0};
  int64_t at, done;
  if (call_kernel(b, &map, &at, "no code may be added to the process", error) != 0)
    return -1;
  if (fill_relay(b, (uint64_t)at, error) == 0) {
    b->relay = (uint64_t)at;
    b->lent = (struct lent){.tracee = b->tracee,
                            .syscall_instruction = b->syscall_instruction,
                            .path = b->relay + RELAY_CODE_BYTES + offsetof(struct relay_data, library),
                            .fd = -1};
    return 0;
  }
  struct tracee_syscall unmap = {b->syscall_instruction, SYS_munmap, {(uint64_t)at, RELAY_BYTES}};
  return call_kernel(b, &unmap, &done, "", &ignored), -1;
}

/* Points references to the real functions, or to a relay, at this relay's entries, or back. */
static bool put_references(const struct bringing *b, bool at_relay) {
  bool all = true;
  for (size_t i = 0; i < b->references.all.count; i++) {
    const struct reference *reference = &b->references.all.at[i];
    uint64_t value, behind, real = b->real[reference->call].address;
    if (!real || !tracee_read_word(b->tracee, reference->address, &value))
      continue;
    if (value == real || (relay_entry_at(b->tracee, value, &behind) && behind == real))
      all &= tracee_write_word(b->tracee, reference->address,
                               at_relay ? b->relay + relay_entry_offset(reference->call) : real);
  }
  return all;
}

static uint32_t state_of(const struct bringing *b) {
  uint32_t state = RELAY_DISARMED;
  tracee_read(b->tracee, b->relay + RELAY_CODE_BYTES + offsetof(struct relay_data, state), &state, sizeof state);
  return state;
}

static bool set_state(const struct bringing *b, uint32_t state) {
  return tracee_write(b->tracee, b->relay + RELAY_CODE_BYTES + offsetof(struct relay_data, state), &state,
                      sizeof state);
}

/* id: in the process's PID namespace. */
static bool has_thread(const struct tracee *tracee, uint32_t id) {
  DIR *threads = proc_open_threads(tracee->pid);
  int tid;
  while ((tid = proc_next(threads)) && (uint32_t)tracee_inner_id(tracee, tid) != id)
    ;
  if (threads)
    closedir(threads);
  return tid;
}

/* Does a thread hold a lock of the dynamic linker? The linker has recursive mutexes among its variables, at places that
   depend on its version. So every variable that looks like one held by a thread of the process counts as one. (Return
   addresses into the linker on the threads' stacks would not do: the main thread of a java always has them, in memory
   that was not written since.) */
static bool loader_is_locked(const struct bringing *b) {
  enum { BYTES_MAX = 1 << 16, KIND = 4, OWNER = 2, RECURSIVE = 1 }; /* indices of 4 bytes in a mutex */
  int left = 64;                                                    /* that look held: the linker has few mutexes */
  struct symbol variables;
  const struct object *loader = objects_loader(&b->objects);
  if (!loader || !object_symbol(loader, b->tracee, "_rtld_global", &variables) || variables.bytes > BYTES_MAX)
    return false;
  uint32_t words[BYTES_MAX / 4];
  if (!tracee_read(b->tracee, variables.address, words, variables.bytes))
    return true;
  for (size_t i = 0; i + KIND < variables.bytes / 4; i += 2) {
    if (!words[i] || words[i + KIND] != RECURSIVE || !words[i + OWNER])
      continue;
    if (left-- == 0 || has_thread(b->tracee, words[i + OWNER]))
      return true;
  }
  return false;
}

/* Redirects functions in the executable. *why: they can't be redirected now. */
static int redirect_to_relay(struct bringing *b, const char **why, struct error *error) {
  uint64_t hook[LINKED_HOOKS];
  for (unsigned i = 0; i < LINKED_HOOKS; i++)
    hook[i] = b->relay + relay_linked_offset(i);
  struct linked_orders orders = {
      .hook = hook, .setting = b->loading->setting, .syscall_instruction = b->syscall_instruction};
  bool again;
  int result = linked_running_redirect(b->loading->linked, b->tracee, &orders, &again, error);
  if (result == 0 && again)
    *why = LINKED_THREAD_IN_THE_WAY;
  return result;
}

static void put_all_back(const struct bringing *b, struct error *error) {
  put_references(b, false);
  linked_put_back(b->tracee, b->loading->linked->room, b->loading->setting, error);
}

/* Sets the relay up. *why: the reason to try again later. */
static int arm_relay(struct bringing *b, const char **why, struct error *error) {
  struct error ignored = {0};
  if (tracee_hold(b->tracee, error) != 0)
    return -1;
  *why = !objects_are_settled(&b->objects, b->tracee) || loader_is_locked(b)
             ? "a thread keeps the dynamic linker locked (in a constructor of a library?)"
             : NULL;
  int result = *why || b->relay ? 0 : make_relay(b, error);
  if (!*why && result == 0)
    result = redirect_to_relay(b, why, error);
  if (!*why && result == 0 && (!put_references(b, true) || !set_state(b, RELAY_ARMED))) {
    put_all_back(b, &ignored);
    result = error_set(error, "--attach", "the process's references can't be written");
  }
  tracee_release(b->tracee);
  return result;
}

static void renew(struct bringing *b) {
  struct error ignored = {0};
  struct objects fresh;
  if (objects_read(&fresh, b->tracee, &ignored) != 0) {
    objects_free(&fresh);
    return;
  }
  objects_free(&b->objects);
  references_free(&b->references);
  b->objects = fresh;
  references_read(&b->references, &b->objects, b->tracee, &names, NULL);
}

/* Redirects references that were bound since. */
static void put_more_references(struct bringing *b) {
  struct error ignored = {0};
  renew(b);
  if (tracee_hold(b->tracee, &ignored) != 0)
    return;
  put_references(b, true);
  tracee_release(b->tracee);
}

static void disarm_relay(struct bringing *b) {
  struct error ignored = {0};
  renew(b);
  if (tracee_hold(b->tracee, &ignored) != 0)
    return;
  put_all_back(b, &ignored);
  set_state(b, RELAY_DISARMED);
  tracee_release(b->tracee);
  linked_put_back_copies(b->tracee->pid, b->loading->linked->room, b->loading->setting, &ignored);
}

/* May the thread that asks load the library? */
static bool is_safe(const struct bringing *b) {
  struct proc_mapping area;
  uint64_t stack, end = 0;
  if (!tracee_read_word(b->tracee, b->relay + RELAY_CODE_BYTES + offsetof(struct relay_data, stack), &stack) ||
      !area_of(b->tracee, stack, &area))
    return false;
  tracee_read_word(b->tracee, b->relay + RELAY_CODE_BYTES + offsetof(struct relay_data, thread_pointer), &end);
  if ((end <= stack || end > area.end) && area.end - stack > STACK_MOST_BYTES)
    end = stack + STACK_MOST_BYTES;
  return !loader_is_locked(b) && !stack_holds(b->tracee, (struct stack_part){stack, end}, &b->handlers, 1) &&
         !linked_running_calls_itself(b->loading->linked, b->tracee, stack);
}

static int take_result(struct bringing *b, struct error *error) {
  if (!tracee_read(b->tracee, b->relay + RELAY_CODE_BYTES, &b->data, sizeof b->data))
    return error_set(error, "--attach", "the process has ended");
  if (b->data.handle)
    return 0;
  char why[256] = "";
  for (size_t i = 0;
       b->data.failure && i + 1 < sizeof why && tracee_read(b->tracee, b->data.failure + i, why + i, 1) && why[i]; i++)
    why[i + 1] = '\0';
  return error_set(error, "--attach", "the program can't load our library: %s",
                   why[0] ? why : "it has no memory for a stack");
}

/* Waits until a thread has reached the relay and loaded the library. */
static int wait_for_thread(struct bringing *b, struct error *error) {
  uint64_t since_ns = os_monotonic_ns(), went_ns = 0, wrote_ns = since_ns;
  bool reported = false;
  while (b->loading->should_continue(b->loading->context)) {
    uint64_t now_ns = os_monotonic_ns(), magic;
    tracee_settle(b->tracee);
    if (!tracee_read_word(b->tracee, b->relay + RELAY_CODE_BYTES, &magic))
      return error_set(error, "--attach", "the process has ended, or has executed another program");
    uint32_t state = state_of(b);
    if (state == RELAY_DONE)
      return take_result(b, error);
    if (state == RELAY_ASKING) {
      bool safe = is_safe(b);
      if (safe && target_has_other_files(b->tracee->pid) && lent_give(&b->lent, b->loading->library, error) != 0)
        return -1;
      set_state(b, safe ? RELAY_GO : RELAY_PASS);
      went_ns = now_ns;
    } else if (state == RELAY_DISARMED || state == RELAY_PASS || (state == RELAY_GO && now_ns - went_ns > STUCK_NS)) {
      set_state(b, RELAY_ARMED);
    } else if (state == RELAY_ARMED && now_ns - wrote_ns > REWRITE_NS) {
      put_more_references(b);
      wrote_ns = now_ns;
    }
    if (!reported && now_ns - since_ns > WARN_NS && state != RELAY_LOADING) {
      b->loading->report_waiting(b->loading->context);
      reported = true;
    }
    usleep(POLL_US);
  }
  return -1;
}

/* A list without the C library is consistent also for a moment before the linker begins: so more than one look. */
int loading_wait_for_libc(const struct loading *loading, const struct tracee *tracee, struct error *error) {
  enum { LOOKS = 5 };
  int settled = 0;
  for (int i = 0; i < TRIES && settled < LOOKS; i++) {
    struct error unread = {0};
    struct objects objects;
    bool found = objects_read(&objects, tracee, &unread) == 0 && objects_find(&objects, "libc.so.6");
    bool too_many = unread.text[0] && objects.all.count;
    settled += objects.list && objects_are_settled(&objects, tracee);
    objects_free(&objects);
    if (found)
      return 0;
    if (too_many) {
      *error = unread;
      return -1;
    }
    if (!loading->should_continue(loading->context))
      return -1;
    uint64_t word;
    if (!tracee_read_word(tracee, objects_entry(tracee), &word))
      return error_set(error, "--attach", "the process has ended, or has executed another program");
    usleep(TRY_US);
  }
  return error_set(error, "--attach", "%s",
                   settled ? "the program does not use the GNU C library"
                           : "the program is still being loaded by the dynamic linker: try again later");
}

int loading_bring(const struct loading *loading, struct tracee *tracee, struct error *error) {
  struct bringing b = {.loading = loading, .tracee = tracee};
  int result = prepare(&b, error);
  const char *why = "";
  for (int i = 0; why && result == 0; i++) {
    if (i == TRIES)
      result = error_set(error, "--attach", "%s", why);
    else if (!loading->should_continue(loading->context))
      result = -1;
    else
      result = arm_relay(&b, &why, error);
    if (result == 0 && why) {
      usleep(TRY_US);
      renew(&b);
    }
  }
  if (result == 0) {
    result = wait_for_thread(&b, error);
    if (result != 0)
      disarm_relay(&b);
    lent_take_back(&b.lent);
  }
  objects_free(&b.objects);
  references_free(&b.references);
  return result;
}
