/* SPDX-License-Identifier: MIT */
#include "replay/test/programs/generate.h"

#include "core/test/usual.h"
#include "core/trace/event.h"

struct slot {
  uint32_t last_thread; /* whose op touched it last; UINT32_MAX: none yet */
  uint64_t last_op;     /* number of ops that thread had done then */
  uint64_t size_bytes;
};

struct generator {
  const struct shape *shape;
  struct workload_writer *writer;
  struct slot *slots;
  uint32_t slot_count, slot_room;
  uint32_t *live, *idle; /* slot numbers */
  uint32_t live_count, idle_count;
  uint32_t *thread_ids; /* of live threads */
  uint32_t alive, born, current;
  uint64_t random, live_bytes;
  struct workload_totals totals;
  struct generated made;
};

static uint64_t draw(struct generator *generator) {
  generator->random ^= generator->random << 13;
  generator->random ^= generator->random >> 7;
  generator->random ^= generator->random << 17;
  return generator->random * 0x2545f4914f6cdd1du;
}

static uint64_t below(struct generator *generator, uint64_t limit) {
  return (draw(generator) >> 11) % limit;
}

static uint64_t draw_size(struct generator *generator) {
  uint64_t limit = generator->shape->size_limit;
  uint64_t small = limit < 512 ? limit : 512;
  return below(generator, 16) ? below(generator, small) : below(generator, limit);
}

/* Ends a thread now and then, starts the next one, or switches to another. */
static void choose_thread(struct generator *generator) {
  const struct shape *shape = generator->shape;
  uint32_t room = shape->threads_live ? shape->threads_live : shape->threads;
  if (generator->born < shape->threads && generator->alive == room) {
    uint32_t index = 1 + (uint32_t)below(generator, room - 1);
    workload_end_thread(generator->writer, generator->thread_ids[index]);
    generator->thread_ids[index] = generator->thread_ids[--generator->alive];
  }
  if (generator->born < shape->threads && generator->alive < room) {
    generator->thread_ids[generator->alive++] = generator->born++;
    generator->current = generator->alive - 1;
    return;
  }
  generator->current = (uint32_t)below(generator, generator->alive);
}

static void begin_op(struct generator *generator) {
  uint32_t thread = generator->thread_ids[generator->current];
  workload_begin_op(generator->writer, thread);
  workload_put_time(generator->writer, thread, workload_position(generator->writer) * generator->shape->gap_ns);
}

/* Begins an op of the current thread on that slot, with its wait if it needs one. */
static void begin(struct generator *generator, uint32_t number) {
  uint32_t thread = generator->thread_ids[generator->current];
  struct slot *slot = &generator->slots[number];
  begin_op(generator);
  if (slot->last_thread != UINT32_MAX && slot->last_thread != thread)
    workload_put_wait(generator->writer, thread, slot->last_thread, slot->last_op);
}

static void finish(struct generator *generator, uint32_t number, uint8_t call, uint64_t size, uint64_t param) {
  uint32_t thread = generator->thread_ids[generator->current];
  workload_put_op(generator->writer, thread,
                  &(struct workload_op){.call = call, .slot = number, .size_bytes = size, .param = param});
  if (number != WORKLOAD_NO_SLOT) {
    generator->slots[number].last_thread = thread;
    generator->slots[number].last_op = workload_thread_ops(generator->writer, thread);
  }
  generator->made.calls[call & CALL_ID_MASK]++;
}

static void set_size(struct generator *generator, uint32_t number, uint64_t size) {
  struct slot *slot = &generator->slots[number];
  generator->live_bytes += size - slot->size_bytes;
  slot->size_bytes = size;
  if (generator->live_bytes > generator->totals.peak_live_bytes)
    generator->totals.peak_live_bytes = generator->live_bytes;
}

static void acquire(struct generator *generator) {
  static const uint8_t kinds[] = {CALL_calloc, CALL_posix_memalign, CALL_aligned_alloc, CALL_memalign,
                                  CALL_new,    CALL_realloc,        CALL_reallocarray,  CALL_new_aligned};
  uint32_t number;
  if (generator->idle_count > 0) {
    number = generator->idle[--generator->idle_count];
  } else {
    number = generator->slot_count++;
    if (number == generator->slot_room)
      abort();
    generator->slots[number] = (struct slot){.last_thread = UINT32_MAX};
  }
  uint8_t call = CALL_malloc;
  if (!generator->shape->only_malloc_free && below(generator, 4) == 0)
    call = kinds[below(generator, sizeof kinds)];
  uint64_t size = draw_size(generator), param = 0, request = size;
  if (call_table[call].param == ALIGN) {
    param = 16u << below(generator, 6);
    request = size = (size + param - 1) / param * param;
  }
  if (call_table[call].param == COUNT) {
    param = 1 + below(generator, 4);
    request = size * param;
  }
  begin(generator, number);
  finish(generator, number, call | (call_table[call].released == RELEASES ? CALL_NULL_IN : 0), size, param);
  set_size(generator, number, request);
  generator->live[generator->live_count++] = number;
  if (generator->live_count > generator->totals.peak_live_objects)
    generator->totals.peak_live_objects = generator->live_count;
}

/* Chooses a live object of the current thread, or of any thread where a remote release was drawn. */
static uint32_t choose_victim(struct generator *generator) {
  bool remote = below(generator, 100) < generator->shape->remote_percent;
  uint32_t thread = generator->thread_ids[generator->current];
  uint32_t index = (uint32_t)below(generator, generator->live_count);
  for (int attempt = 0; attempt < 32; attempt++) {
    if ((generator->slots[generator->live[index]].last_thread != thread) == remote)
      break;
    index = (uint32_t)below(generator, generator->live_count);
  }
  return index;
}

static void use_object(struct generator *generator, bool must_free) {
  uint32_t index = choose_victim(generator), number = generator->live[index];
  begin(generator, number);
  uint64_t kind = generator->shape->only_malloc_free || must_free ? 0 : below(generator, 12);
  if (kind == 1) {
    uint64_t size = 1 + draw_size(generator);
    finish(generator, number, CALL_realloc, size, 0);
    set_size(generator, number, size);
  } else if (kind == 2) {
    finish(generator, number, CALL_malloc_usable_size, 0, 0);
  } else {
    finish(generator, number, kind == 3 ? CALL_delete : CALL_free, 0, 0);
    set_size(generator, number, 0);
    generator->live[index] = generator->live[--generator->live_count];
    generator->idle[generator->idle_count++] = number;
  }
}

static bool wants_object(struct generator *generator) {
  uint32_t aim = generator->shape->live_objects, live = generator->live_count;
  if (generator->shape->steady)
    return live < aim;
  return live == 0 || (live < 2 * aim && below(generator, 2 * aim) >= live);
}

static void one_op(struct generator *generator) {
  const struct shape *shape = generator->shape;
  if (!shape->only_malloc_free && below(generator, 64) == 0) {
    begin_op(generator);
    finish(generator, WORKLOAD_NO_SLOT, CALL_free | CALL_NULL_IN, 0, 0);
  } else if (wants_object(generator)) {
    acquire(generator);
  } else {
    use_object(generator, false);
  }
}

static void *room_for(uint64_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (!memory) {
    fputs("out of memory for a generated workload\n", stderr);
    exit(1);
  }
  return memory;
}

struct generated generate_workload(const char *path, const struct shape *shape) {
  struct error error = {0};
  struct generator generator = {.shape = shape, .random = shape->seed * 2654435761u + 88172645463325252u};
  generator.slot_room = 2 * shape->live_objects + 2;
  generator.slots = room_for(generator.slot_room, sizeof *generator.slots);
  generator.live = room_for(generator.slot_room, sizeof *generator.live);
  generator.idle = room_for(generator.slot_room, sizeof *generator.idle);
  generator.thread_ids = room_for(shape->threads, sizeof *generator.thread_ids);
  generator.alive = generator.born = 1;
  if (workload_writer_open(&generator.writer, path, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
  uint32_t run_ops = shape->run_ops ? shape->run_ops : 1;
  /* Thread starts are spread over the ops, so that each thread gets some ops. */
  uint64_t until_birth = shape->ops / (shape->threads + 1);
  for (uint64_t op = 0, next_birth = until_birth; op < shape->ops; op++) {
    if (op > 0 && shape->threads > 1 && generator.born < shape->threads && op >= next_birth) {
      choose_thread(&generator);
      next_birth += until_birth;
    } else if (generator.alive > 1 && below(&generator, run_ops) == 0) {
      generator.current = (uint32_t)below(&generator, generator.alive);
    }
    one_op(&generator);
  }
  while (shape->free_all && generator.live_count > 0)
    use_object(&generator, true);
  generator.totals.slots = generator.slot_count;
  generator.totals.live_at_end = generator.live_count;
  generator.totals.peak_live_os_page_bytes = generator.totals.peak_live_bytes;
  generator.made.ops = workload_position(generator.writer);
  generator.made.live_end_bytes = generator.live_bytes;
  generator.made.live_end_objects = generator.live_count;
  generator.made.peak_live_bytes = generator.totals.peak_live_bytes;
  struct workload_time_point points[2] = {{0},
                                          {.position = generator.made.ops,
                                           .time_ns = generator.made.ops * shape->gap_ns,
                                           .live_bytes = generator.live_bytes}};
  struct workload_time_points line = {points, 2};
  if (workload_writer_close(generator.writer, &generator.totals, line, "{}", &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
  free(generator.slots);
  free(generator.live);
  free(generator.idle);
  free(generator.thread_ids);
  return generator.made;
}
