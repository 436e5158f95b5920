/* SPDX-License-Identifier: MIT */
/* The checked longjmp treats a jump to another stack as an error. */
#undef _FORTIFY_SOURCE
#include "workloads/synthetic/script.h"

#include "core/base/files.h"
#include "core/base/vector.h"
#include "workloads/synthetic/compose.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

uint64_t pattern_seed;

/* Patterns keep little on their stacks; the lowest OS page of each is a guard. */
enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 64 << 10, CONTENT_CHUNK = 4096 };

/* A thread of the script; parts that can continue are in a queue. */
struct part {
  struct actor *actor;
  struct part *next; /* in the queue, or in that of a semaphore */
  struct part *joiner;
  char *stack;
  bool started, ended;
  ucontext_t context; /* where it starts; later it is left and entered by jumps, without a system call for each */
  jmp_buf jump;
};

struct script {
  struct composition *composition;
  struct part *first, *last; /* parts that can continue; not the one that runs */
  struct rng rng;
  uint64_t turn_calls;
  char *free_stack;       /* its first word holds the next one's address */
  VECTOR(char *) content; /* chunks of CONTENT_CHUNK objects' bytes */
  ucontext_t home;        /* of script_write */
  const char *wrong;      /* why the script ended early; NULL: it did not */
};

/* ---- Turns ---- */

/* Ends the script, from any thread. */
__attribute__((noreturn)) static void leave(struct script *script, const char *wrong) {
  script->wrong = wrong;
  setcontext(&script->home);
  abort();
}

static char *stack_take(struct script *script) {
  char *stack = script->free_stack;
  if (stack) {
    memcpy(&script->free_stack, stack, sizeof script->free_stack);
    return stack;
  }
  char *mapped = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped, GUARD_BYTES, PROT_NONE) != 0)
    leave(script, "out of memory for threads");
  return mapped + GUARD_BYTES;
}

static void stack_give(struct script *script, char *stack) {
  memcpy(stack, &script->free_stack, sizeof script->free_stack);
  script->free_stack = stack;
}

static void queue(struct part **first, struct part **last, struct part *part) {
  part->next = NULL;
  if (*first)
    (*last)->next = part;
  else
    *first = part;
  *last = part;
}

static struct part *unqueue(struct part **first) {
  struct part *part = *first;
  *first = part->next;
  return part;
}

static struct part *next_part(struct script *script) {
  if (!script->first)
    leave(script, "all threads of the pattern wait for each other");
  return unqueue(&script->first);
}

static void begin_turn(struct script *script, struct actor *actor) {
  actor->turn = script->turn_calls > 1 ? 1 + rng_below(&script->rng, 2 * script->turn_calls - 1) : 1;
}

__attribute__((noreturn)) static void resume(struct script *script, struct part *part) {
  if (part->started)
    _longjmp(part->jump, 1);
  part->started = true;
  setcontext(&part->context);
  leave(script, "can't change threads");
}

/* Lets other parts run, until one has put this part back into the queue and its turn comes. */
static void pause_part(struct script *script, struct part *part) {
  struct part *next = next_part(script);
  if (next != part && _setjmp(part->jump) == 0)
    resume(script, next);
  begin_turn(script, part->actor);
}

static void end_turn(struct actor *actor) {
  struct script *script = actor->script;
  if (composition_failed(script->composition)) /* closing it reports why; the pattern may otherwise run for hours */
    leave(script, NULL);
  if (!script->first) {
    begin_turn(script, actor);
    return;
  }
  queue(&script->first, &script->last, actor->part);
  pause_part(script, actor->part);
}

static inline struct composition *count_call(struct actor *actor) {
  if (__builtin_expect(--actor->turn == 0, 0))
    end_turn(actor);
  return actor->script->composition;
}

/* ---- Threads ---- */

static void run_part(unsigned high, unsigned low) {
  struct part *part = (struct part *)((uintptr_t)high << 32 | low);
  struct actor *actor = part->actor;
  struct script *script = actor->script;
  begin_turn(script, actor);
  actor->run(actor, actor->argument);
  composition_end_thread(script->composition, actor->thread);
  part->ended = true;
  if (part->joiner)
    queue(&script->first, &script->last, part->joiner);
  if (actor->thread == 0)
    leave(script, NULL);
  struct part *next = next_part(script);
  stack_give(script, part->stack); /* no thread takes it before this one has left it */
  resume(script, next);
}

static struct part *part_new(struct script *script, struct actor *actor) {
  struct part *part = calloc(1, sizeof *part);
  if (!part || getcontext(&part->context) != 0)
    leave(script, "out of memory for threads");
  actor->script = script;
  actor->part = part;
  actor->thread = composition_add_thread(script->composition);
  part->actor = actor;
  part->stack = stack_take(script);
  part->context.uc_stack.ss_sp = part->stack;
  part->context.uc_stack.ss_size = STACK_BYTES;
  makecontext(&part->context, (void (*)(void))run_part, 2, (unsigned)((uintptr_t)part >> 32),
              (unsigned)(uintptr_t)part);
  return part;
}

void script_start(struct actor *parent, struct actor *child) {
  struct script *script = parent->script;
  queue(&script->first, &script->last, part_new(script, child));
}

void script_join(struct actor *parent, struct actor *child) {
  struct part *part = child->part;
  if (!part->ended) {
    part->joiner = parent->part;
    pause_part(parent->script, parent->part);
  }
  free(part);
  child->part = NULL;
  compose_after(parent->script->composition, parent->thread, compose_mark(parent->script->composition, child->thread));
}

/* A post while a thread waits passes the count to it, so that the first to wait is the first to continue. */
void script_wait(struct actor *actor, struct semaphore *semaphore) {
  if (semaphore->count > 0) {
    semaphore->count--;
    return;
  }
  queue(&semaphore->first, &semaphore->last, actor->part);
  pause_part(actor->script, actor->part);
}

void script_post(struct actor *actor, struct semaphore *semaphore) {
  if (semaphore->first)
    queue(&actor->script->first, &actor->script->last, unqueue(&semaphore->first));
  else
    semaphore->count++;
}

void script_sent(struct actor *actor, struct channel *channel) {
  channel->marks[(channel->sent - 1) % channel->capacity] = compose_mark(actor->script->composition, actor->thread);
}

void script_received(struct actor *actor, struct channel *channel) {
  compose_after(actor->script->composition, actor->thread, channel->marks[channel->received % channel->capacity]);
}

/* ---- Calls ---- */

/* The OS pages that pattern_used writes to; not for small objects, for which workloads/synthetic/compose.h leaves them
   out. */
static inline uint64_t touched_os_pages(const struct actor *actor, uint64_t request_bytes) {
  if (__builtin_expect(request_bytes <= PATTERN_OS_PAGE_BYTES, 1))
    return 1;
  if (actor->fills)
    return (request_bytes + PATTERN_OS_PAGE_BYTES - 1) / PATTERN_OS_PAGE_BYTES;
  return 2;
}

static inline struct compose_call make_call(const struct actor *actor, enum call_id call, size_t size_bytes,
                                            size_t param) {
  return (struct compose_call){.call = (uint8_t)call,
                               .size_bytes = size_bytes,
                               .param = param,
                               .touched_os_pages = touched_os_pages(actor, size_bytes)};
}

object_ref script_acquire(struct actor *actor, enum call_id call, size_t size_bytes, size_t param) {
  const struct compose_call made = make_call(actor, call, size_bytes, param);
  return (object_ref)compose_acquire(count_call(actor), actor->thread, &made) + 1;
}

object_ref script_resize(struct actor *actor, enum call_id call, object_ref object, size_t size_bytes, size_t param) {
  if (!object)
    return script_acquire(actor, call, size_bytes, param);
  const struct compose_call made = make_call(actor, call, size_bytes, param);
  struct composition *composition = count_call(actor);
  if (size_bytes == 0) {
    compose_release(composition, actor->thread, &made, (uint32_t)(object - 1));
    return 0;
  }
  compose_resize(composition, actor->thread, &made, (uint32_t)(object - 1));
  return object;
}

void script_release(struct actor *actor, enum call_id call, object_ref object) {
  const struct compose_call made = {.call = (uint8_t)call};
  if (object)
    compose_release(count_call(actor), actor->thread, &made, (uint32_t)(object - 1));
  else
    compose_nothing(count_call(actor), actor->thread, &made);
}

void script_touch(struct actor *actor, object_ref object) {
  const struct compose_call made = {.call = CALL_malloc_usable_size};
  if (object)
    compose_touch(count_call(actor), actor->thread, &made, (uint32_t)(object - 1));
  else
    compose_nothing(count_call(actor), actor->thread, &made);
}

void *script_content(struct actor *actor, object_ref object) {
  struct script *script = actor->script;
  size_t chunk = (object - 1) / CONTENT_CHUNK;
  while (chunk >= script->content.count) {
    char **added = vector_add(&script->content);
    if (!added || !(*added = malloc((size_t)CONTENT_CHUNK * CONTENT_BYTES)))
      leave(script, "out of memory for the objects' content");
  }
  return script->content.at[chunk] + (object - 1) % CONTENT_CHUNK * CONTENT_BYTES;
}

/* ---- The whole ---- */

static void run_pattern(struct actor *actor, void *argument) {
  const struct pattern *pattern = argument;
  pattern->run(actor);
}

static void run_script(struct script *script, const struct pattern *pattern) {
  struct actor actor = {.run = run_pattern, .argument = (void *)(uintptr_t)pattern};
  volatile bool began = false;
  if (getcontext(&script->home) != 0) {
    script->wrong = "can't change threads";
    return;
  }
  if (began)
    return; /* from leave */
  began = true;
  resume(script, part_new(script, &actor));
}

int64_t script_write(const struct pattern *pattern, const char *path, uint64_t turn_calls, json_t *info,
                     struct error *error) {
  struct output_file file;
  struct script script = {.turn_calls = turn_calls, .rng = rng_seed(pattern_seed, UINT64_MAX - 1)};
  if (output_file_begin(&file, path, error) != 0) {
    json_decref(info);
    return -1;
  }
  output_file_guard();
  if (composition_open(&script.composition, file.opened, error) != 0) {
    json_decref(info);
    return output_file_end(&file, -1, error);
  }
  run_script(&script, pattern);
  int64_t ops = (int64_t)composition_ops(script.composition);
  if (script.wrong)
    error_set(error, path, "%s", script.wrong);
  int result = composition_close(script.composition, info, error);
  for (size_t i = 0; i < script.content.count; i++)
    free(script.content.at[i]);
  free(script.content.at);
  result = output_file_end(&file, result, error);
  return result == 0 ? ops : -1;
}
