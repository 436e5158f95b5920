/* SPDX-License-Identifier: MIT */
#include "capture/attach/redirect.h"

#include "capture/attach/loading.h"
#include "capture/attach/target.h"
#include "capture/attach/tracee/objects.h"
#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 64, TRIES = 200, TRY_US = 10000 };

/* A snapshot of a process. */
struct view {
  struct tracee *tracee;
  struct objects objects;
  const struct object *library;
  struct redirect_table table;
  uint64_t table_at;
  bool own_malloc; /* the program has its own, redirected at its entry: references to the malloc API are left alone */
  char text[REDIRECT_CALLS_MAX][NAME_BYTES];
  const char *name[REDIRECT_CALLS_MAX];
  uint32_t calls;
  struct references references;
  uint64_t entry[REDIRECT_CALLS_MAX]; /* addresses of the names' values in the symbol tables; 0: none */
  uint64_t base[REDIRECT_CALLS_MAX];  /* the base of those values */
};

static void view_close(struct view *view) {
  references_free(&view->references);
  objects_free(&view->objects);
}

static bool read_table(struct view *view) {
  struct symbol symbol;
  if (!object_symbol(view->library, view->tracee, "heaptape_redirect", &symbol) ||
      !tracee_read(view->tracee, symbol.address, &view->table, sizeof view->table) ||
      view->table.magic != REDIRECT_MAGIC || view->table.version != REDIRECT_VERSION)
    return false;
  for (int part = 0; part < REDIRECT_THREAD_PARTS; part++)
    if (view->table.thread[part].bytes > REDIRECT_THREAD_MOST)
      return false;
  view->table_at = symbol.address;
  for (uint32_t i = 0; i < REDIRECT_CALLS_MAX && view->table.call[i].name; i++) {
    if (!tracee_read(view->tracee, (uint64_t)(uintptr_t)view->table.call[i].name, view->text[i], NAME_BYTES - 1))
      return false;
    view->name[i] = view->text[i];
    view->calls = i + 1;
  }
  return true;
}

/* Finds where the dynamic linker looks a name up, so that references bound later lead to our hooks. Only for functions
   that are redirected. */
static void find_entries(struct view *view) {
  for (uint32_t i = 0; i < view->calls; i++) {
    struct symbol symbol;
    const struct object *object = definer_of(&view->objects, view->tracee, view->name[i], &symbol);
    if (!object || view->table.call[i].place == REDIRECT_NOWHERE)
      continue;
    view->entry[i] = symbol.entry;
    view->base[i] = object->dynamic.base;
  }
}

/* -1: our library is not in the process; error is empty then. */
static int view_open(struct view *view, struct tracee *tracee, struct error *error) {
  *view = (struct view){.tracee = tracee};
  if (objects_read(&view->objects, tracee, error) != 0)
    return -1;
  view->library = objects_find(&view->objects, REDIRECT_LIBRARY);
  if (!view->library)
    return -1;
  if (!read_table(view))
    return error_set(error, view->library->path, "another version of it is in the process since an earlier recording");
  find_entries(view);
  struct names names = {view->name, view->calls};
  if (references_read(&view->references, &view->objects, tracee, &names, view->library) != 0)
    return error_set(error, "--attach", "out of memory");
  return 0;
}

/* --- the functions that are redirected --- */

static bool begins_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static enum redirect_place place_of(const struct object *object) {
  const char *name = object_name(object);
  if (begins_with(name, "libc.so"))
    return REDIRECT_LIBC;
  bool standard =
      begins_with(name, "libstdc++.so") || begins_with(name, "libc++.so") || begins_with(name, "libc++abi.so");
  return standard ? REDIRECT_STANDARD : REDIRECT_OTHER;
}

static void forget(struct redirect_call *call) {
  call->real = call->bytes = call->from = call->to = 0;
  call->place = REDIRECT_NOWHERE;
}

/* All operators are redirected or none: where the program has some itself, the calls that these make are recorded. */
static bool operators_are_known(const struct view *view, const struct object *allocator) {
  struct symbol symbol;
  for (uint32_t i = 0; i < view->calls; i++) {
    if (view->table.call[i].kind != REDIRECT_OPERATOR)
      continue;
    const struct object *object = definer_of(&view->objects, view->tracee, view->name[i], &symbol);
    if (object && object != allocator && place_of(object) != REDIRECT_STANDARD)
      return false;
  }
  return true;
}

static int find_real(struct view *view, uint32_t i, bool operators, struct error *error) {
  struct redirect_call *call = &view->table.call[i];
  struct symbol symbol;
  struct proc_mapping extent;
  const struct object *object = definer_of(&view->objects, view->tracee, view->name[i], &symbol);
  forget(call);
  if (!object || (call->kind == REDIRECT_OPERATOR && !operators))
    return 0;
  if (view->own_malloc && call->kind != REDIRECT_OTHER_CALL) /* the libraries' others call the program's malloc */
    return 0;
  if (object->is_executable && call->kind == REDIRECT_CALL)
    return error_set(error, "--attach", "the program defines %s itself: its own calls don't go through references",
                     view->name[i]);
  if (object->is_executable || !object_extent(view->tracee, symbol.address, &extent))
    return 0;
  call->real = symbol.address;
  call->bytes = symbol.bytes;
  call->from = extent.start;
  call->to = extent.end;
  call->place = place_of(object);
  return 0;
}

static void describe_program(int pid, char *name, size_t bytes) {
  char program[4096];
  proc_program(pid, program, sizeof program);
  snprintf(name, bytes, "%.*s", (int)bytes - 1, basename(program));
}

/* Describes the functions in the executable, and the allocator's name in the trace. */
static void describe_linked(struct view *view, const struct linked_running *linked, const struct object *allocator) {
  struct redirect_linked *its = &view->table.linked;
  char program[32];
  its->done = linked_running_done(linked);
  its->room = linked->room;
  its->table = linked->room + offsetof(struct linked_room, table);
  its->from = linked->patches.extent.from;
  its->to = linked->patches.extent.to;
  describe_program(view->tracee->pid, program, sizeof program);
  snprintf(view->table.allocator, sizeof view->table.allocator, "%.20s%s%s", object_name(allocator),
           view->own_malloc ? "" : " and ", program);
}

static bool is_in_its_library(const struct redirect_call *call, uint64_t address) {
  return call->place == REDIRECT_OTHER && address >= call->from && address < call->to;
}

/* Has an allocator's library a reference to a function that is redirected, and not its own? */
static bool refers_to_others(const struct view *view) {
  for (size_t i = 0; i < view->references.all.count; i++) {
    const struct reference *reference = &view->references.all.at[i];
    const struct redirect_call *call = &view->table.call[reference->call];
    bool own = call->kind == REDIRECT_OTHER_CALL || call->place == REDIRECT_NOWHERE ||
               is_in_its_library(call, reference->address);
    for (uint32_t other = 0; !own && other < view->calls; other++)
      if (view->table.call[other].kind == REDIRECT_CALL &&
          is_in_its_library(&view->table.call[other], reference->address))
        return true;
  }
  return false;
}

/* For the first recording of the process. The library keeps them forever. */
static int find_reals(struct view *view, const struct linked_running *linked, struct error *error) {
  struct symbol symbol, size;
  const struct object *allocator = definer_of(&view->objects, view->tracee, "malloc", &symbol);
  if (!allocator)
    return error_set(error, "--attach", "the program has no malloc");
  view->own_malloc = allocator->is_executable && linked_running_has_malloc(linked);
  bool operators = operators_are_known(view, allocator);
  for (uint32_t i = 0; i < view->calls; i++)
    if (find_real(view, i, operators, error) != 0)
      return -1;
  if (linked->patches.count)
    describe_linked(view, linked, allocator);
  else
    snprintf(view->table.allocator, sizeof view->table.allocator, "%s", object_name(allocator));
  find_entries(view);
  view->table.calls_back = refers_to_others(view);
  view->table.has_usable_size = definer_of(&view->objects, view->tracee, "malloc_usable_size", &size) == allocator;
  return 0;
}

/* --- writing; precondition: the threads are held --- */

struct change {
  bool to_hooks;
  bool write; /* else only counts */
  uint32_t changed, elsewhere;
  uint32_t left; /* references at our hooks, as killed recorders leave them */
  bool failed;
};

static uint64_t hook_of(const struct redirect_call *call) {
  return (uint64_t)(uintptr_t)call->hook;
}

static void change_word(const struct view *view, struct change *change, uint64_t address, uint64_t value) {
  change->changed++;
  if (change->write && !tracee_write_word(view->tracee, address, value))
    change->failed = true;
}

/* An allocator's library calls its own functions directly; the reference may be one that is bound at its first use. */
static void change_own(const struct view *view, struct change *change, const struct reference *reference) {
  const struct redirect_call *call = &view->table.call[reference->call];
  uint64_t value;
  if (change->to_hooks && tracee_read_word(view->tracee, reference->address, &value) && value != call->real &&
      is_in_its_library(call, value))
    change_word(view, change, reference->address, call->real);
}

static void change_reference(const struct view *view, struct change *change, const struct reference *reference) {
  const struct redirect_call *call = &view->table.call[reference->call];
  uint64_t value, behind = 0, hook = hook_of(call);
  if (is_in_its_library(call, reference->address)) {
    change_own(view, change, reference);
    return;
  }
  if (!tracee_read_word(view->tracee, reference->address, &value))
    return;
  bool at_relay = relay_entry_at(view->tracee, value, &behind);
  if (at_relay && !change->to_hooks)
    change_word(view, change, reference->address, behind);
  else if (call->place == REDIRECT_NOWHERE)
    return;
  else if (change->to_hooks ? value == call->real || (at_relay && behind == call->real) : value == hook)
    change_word(view, change, reference->address, change->to_hooks ? hook : call->real);
  else if (value != hook)
    change->elsewhere++;
  else if (change->to_hooks)
    change->left++;
}

static void change_entry(const struct view *view, struct change *change, uint32_t i) {
  const struct redirect_call *call = &view->table.call[i];
  uint64_t value, hook = hook_of(call) - view->base[i], real = call->real - view->base[i];
  if (!view->entry[i] || call->place == REDIRECT_NOWHERE || !tracee_read_word(view->tracee, view->entry[i], &value))
    return;
  if (value == (change->to_hooks ? real : hook))
    change_word(view, change, view->entry[i], change->to_hooks ? hook : real);
}

static void change_all(const struct view *view, struct change *change) {
  for (size_t i = 0; i < view->references.all.count; i++)
    change_reference(view, change, &view->references.all.at[i]);
  for (uint32_t i = 0; i < view->calls; i++)
    change_entry(view, change, i);
}

static bool put_table(const struct view *view) {
  return tracee_write(view->tracee, view->table_at, &view->table, sizeof view->table);
}

/* The library changes other members while the threads run. */
static bool clear_setting(const struct view *view) {
  static const char none[sizeof view->table.setting];
  return tracee_write(view->tracee, view->table_at + offsetof(struct redirect_table, setting), none, sizeof none);
}

/* Resets each thread's state in the library to that of a thread that never called a hook. False: one can't be reached
   now. */
static bool reset_threads(const struct view *view) {
  for (size_t i = 0; i < view->tracee->threads.count; i++) {
    struct tracee_registers registers;
    if (!tracee_registers(&view->tracee->threads.at[i], &registers))
      return false;
    for (int part = 0; part < REDIRECT_THREAD_PARTS; part++) {
      const struct redirect_thread_part *its = &view->table.thread[part];
      uint64_t at = its->address - view->table.thread_pointer + registers.thread_pointer;
      for (uint64_t word = 0; registers.thread_pointer && word < its->bytes; word += 8)
        if (!tracee_write_word(view->tracee, at + word, word ? 0 : its->first))
          return false;
    }
  }
  return true;
}

/* Is no thread in a hook, not even in one that it called long ago? Any address in our code counts: where a signal
   interrupts a hook, the kernel saves an address that no call has written. */
static bool is_unused(const struct view *view) {
  struct proc_mapping extent;
  if (!object_extent(view->tracee, view->table_at, &extent))
    return false;
  struct code_range library = {extent.start, extent.end, COUNTS_WHERE_IT_LIES};
  for (size_t i = 0; i < view->tracee->threads.count; i++)
    if (thread_is_inside(view->tracee, &view->tracee->threads.at[i], &library, 1))
      return false;
  return true;
}

/* Is the process held by a recorder, possibly another user's? The setting names the recorder's socket, on which it
   listens as long as it lives; a killed recorder leaves the setting there. */
static bool is_recorded(const struct view *view) {
  static const char name[] = "heaptape-";
  char setting[sizeof view->table.setting];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!tracee_read(view->tracee, view->table_at + offsetof(struct redirect_table, setting), setting, sizeof setting))
    return true;
  const char *end = memchr(setting, ':', sizeof setting);
  size_t bytes = end ? (size_t)(end - setting) : 0;
  if (bytes >= sizeof address.sun_path || memcmp(setting, name, sizeof name - 1) != 0)
    return false;
  memcpy(address.sun_path + 1, setting, bytes);
  int fd = target_socket(view->tracee->pid);
  bool listens =
      connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)) == 0 ||
      errno != ECONNREFUSED;
  os_close(fd);
  return listens;
}

/* Makes the library start over: it attaches to the collector at the next call of a hook. */
static bool begin_generation(struct view *view, const char *setting) {
  uint64_t own = 0, place = (uint64_t)(uintptr_t)view->table.own;
  if (!tracee_read_word(view->tracee, place, &own))
    return false;
  if (view->table.generation && !reset_threads(view))
    return false;
  view->table.retired = view->table.generation && is_unused(view) ? own : 0;
  view->table.generation++;
  snprintf(view->table.setting, sizeof view->table.setting, "%s", setting);
  return put_table(view) && tracee_write_word(view->tracee, place, 0);
}

/* --- putting back --- */

/* Puts back functions of the executable, in this process and its fork children. The recording is over, or has not
   begun. */
static int put_functions_back(struct redirection *redirection, struct error *error) {
  struct tracee *tracee = &redirection->tracee;
  uint64_t room = redirection->linked.room, word;
  struct error its = {0};
  int result = 0;
  if (room && tracee_read_word(tracee, room, &word) && (result = tracee_hold(tracee, &its)) == 0) {
    result = linked_put_back(tracee, room, redirection->setting, &its);
    tracee_release(tracee);
  }
  if (result != 0 && tracee_read_word(tracee, room, &word))
    *error = its;
  else
    result = 0; /* everything is put back, or it has ended meanwhile */
  return linked_put_back_copies(tracee->pid, room, redirection->setting, error) == 0 ? result : -1;
}

/* Does another recorder hold the process, one that has begun since, or had attached to a fork child? */
static bool is_anothers(const struct view *view, const char *setting) {
  char its[sizeof view->table.setting] = "";
  return tracee_read(view->tracee, view->table_at + offsetof(struct redirect_table, setting), its, sizeof its) &&
         strncmp(its, setting, sizeof its) != 0 && is_recorded(view);
}

/* Puts everything back in one process. 1: another recorder holds it. */
static int put_back(struct tracee *tracee, const char *setting, struct error *error) {
  struct view view;
  int result = -1;
  bool settled = false;
  for (int i = 0; i < TRIES && !settled && !error->text[0]; i++) {
    result = view_open(&view, tracee, error);
    if (result == 0 && (result = tracee_hold(tracee, error)) == 0) {
      settled = objects_are_settled(&view.objects, tracee) || i == TRIES - 1;
      bool ours = !is_anothers(&view, setting);
      struct change change = {.write = settled && ours};
      change_all(&view, &change);
      if (settled && ours && (change.failed || !clear_setting(&view)))
        result = error_set(error, "--attach", "the process's references can't be written");
      if (settled && !ours)
        result = 1;
      tracee_release(tracee);
    } else {
      settled = true;
    }
    view_close(&view);
    if (!settled)
      usleep(TRY_US);
  }
  return result;
}

/* --- beginning --- */

static uint64_t chain_of(const struct objects *objects) {
  uint64_t chain = objects->all.count;
  for (size_t i = 0; i < objects->all.count; i++)
    chain = chain * 31 + objects->all.at[i].dynamic.base;
  return chain;
}

static int redirect_functions(const struct view *view, struct redirection *redirection, bool *again,
                              struct error *error) {
  struct linked_orders orders = {.hook = view->table.linked.hook,
                                 .setting = redirection->setting,
                                 .syscall_instruction = objects_syscall_instruction(&view->objects, view->tracee)};
  return linked_running_redirect(&redirection->linked, &redirection->tracee, &orders, again, error);
}

/* After a failure here, redirect_begin puts everything back. *why: a thread is in the way, and nothing is recorded. */
static int write_begin(struct view *view, struct redirection *redirection, const char **why, struct error *error) {
  struct change change = {.to_hooks = true, .write = true};
  bool again;
  if (is_recorded(view))
    return error_set(error, "--attach", "the process is being recorded already");
  int result = redirect_functions(view, redirection, &again, error);
  if (again)
    *why = LINKED_THREAD_IN_THE_WAY;
  else if (result == 0 && !begin_generation(view, redirection->setting))
    *why = "a thread can't be prepared: it sleeps in the kernel";
  if (result != 0 || *why)
    return result;
  change_all(view, &change);
  if (change.failed) {
    change_all(view, &(struct change){.write = true});
    return error_set(error, "--attach", "the process's references can't be written");
  }
  redirection->functions = view->table.linked.done.functions;
  redirection->redirected = change.changed + change.left;
  redirection->elsewhere = change.elsewhere;
  redirection->objects = view->references.objects;
  redirection->table = view->table;
  redirection->table_at = view->table_at;
  redirection->chain = chain_of(&view->objects);
  return 0;
}

/* One try. *why: the reason to try again. */
static int try_begin(struct redirection *redirection, const char **why, struct error *error) {
  struct view view;
  *why = NULL;
  int result = view_open(&view, &redirection->tracee, error);
  if (result == 0 && !view.table.generation) {
    result = find_reals(&view, &redirection->linked, error);
    view.table.token = redirection->table.token;
  }
  if (result == 0 && (result = tracee_hold(&redirection->tracee, error)) == 0) {
    if (!objects_are_settled(&view.objects, &redirection->tracee))
      *why = "the dynamic linker stays busy";
    else
      result = write_begin(&view, redirection, why, error);
    tracee_release(&redirection->tracee);
  }
  view_close(&view);
  return result;
}

/* Is our library in the process from an earlier recording? *room: see struct redirect_linked. */
static bool is_loaded(struct redirection *redirection, uint64_t *room, struct error *error) {
  struct view view = {.tracee = &redirection->tracee};
  bool loaded = objects_read(&view.objects, view.tracee, error) == 0 &&
                (view.library = objects_find(&view.objects, REDIRECT_LIBRARY)) != NULL;
  *room = loaded && read_table(&view) ? view.table.linked.room : 0;
  view_close(&view);
  return loaded;
}

static int begin(struct redirection *redirection, const struct redirect_orders *orders, struct error *error) {
  uint64_t room;
  struct loading loading = orders->loading;
  if (loading_wait_for_libc(&loading, &redirection->tracee, error) != 0)
    return -1;
  bool loaded = is_loaded(redirection, &room, error);
  if (error->text[0] || linked_running_open(&redirection->linked, &redirection->tracee, room, error) != 0)
    return -1;
  loading.setting = orders->setting;
  loading.linked = &redirection->linked;
  if (!loaded && loading_bring(&loading, &redirection->tracee, error) != 0)
    return -1;
  const char *why = "";
  for (int i = 0; i < TRIES && why; i++) {
    if (!loading.should_continue(loading.context) || try_begin(redirection, &why, error) != 0)
      return -1;
    if (why)
      usleep(TRY_US);
  }
  return why ? error_set(error, "--attach", "%s", why) : 0;
}

int redirect_begin(struct redirection *redirection, const struct redirect_orders *orders, struct error *error) {
  struct error ignored = {0};
  *redirection = (struct redirection){.linked = {.patches = {.executable = -1}}, .setting = orders->setting};
  if (tracee_open(&redirection->tracee, orders->pid, error) != 0 || target_check_owner(orders->pid, error) != 0)
    return -1;
  if (getrandom(&redirection->table.token, sizeof redirection->table.token, 0) != sizeof redirection->table.token)
    return error_errno(error, "--attach", "no random number");
  int result = begin(redirection, orders, error);
  if (result != 0) {
    put_functions_back(redirection, &ignored);
    put_back(&redirection->tracee, orders->setting, &(struct error){0});
  }
  return result;
}

/* --- while it is recorded --- */

static bool has_our_table(const struct redirection *redirection) {
  uint64_t token;
  return tracee_read_word(&redirection->tracee, redirection->table_at + offsetof(struct redirect_table, token),
                          &token) &&
         token == redirection->table.token;
}

/* References that were being bound while the threads were held may show only now: so the first rounds read all. */
static bool is_as_it_was(struct redirection *redirection) {
  enum { ROUNDS = 4 };
  struct objects objects;
  struct error ignored = {0};
  uint64_t before = redirection->chain;
  if (objects_read(&objects, &redirection->tracee, &ignored) == 0)
    redirection->chain = chain_of(&objects);
  objects_free(&objects);
  redirection->rounds = redirection->chain == before ? redirection->rounds + 1 : 0;
  return redirection->rounds > ROUNDS;
}

bool redirect_keep(struct redirection *redirection) {
  struct view view;
  struct error ignored = {0};
  tracee_settle(&redirection->tracee);
  if (!has_our_table(redirection))
    return false;
  if (is_as_it_was(redirection))
    return true;
  struct change more = {.to_hooks = true};
  if (view_open(&view, &redirection->tracee, &ignored) == 0)
    change_all(&view, &more);
  if (more.changed && tracee_hold(&redirection->tracee, &ignored) == 0) {
    struct change change = {.to_hooks = true, .write = true};
    if (objects_are_settled(&view.objects, &redirection->tracee)) {
      change_all(&view, &change);
      redirection->redirected += change.changed;
    }
    tracee_release(&redirection->tracee);
  }
  view_close(&view);
  return true;
}

/* --- the end --- */

/* Is that a fork child? Fork children have the same token at the same place. */
static bool is_copy(const struct redirection *redirection, int pid) {
  char path[TRACEE_PATH_BYTES];
  uint64_t token = 0;
  tracee_proc_path(pid, "mem", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t got =
      pread(fd, &token, sizeof token, (off_t)(redirection->table_at + offsetof(struct redirect_table, token)));
  close(fd);
  return got == sizeof token && token == redirection->table.token;
}

/* A process that has ended meanwhile, or has executed another program, needs nothing; kill would also find one that is
   ending. */
static int put_back_copy(const struct redirection *redirection, int pid, uint32_t *processes, struct error *error) {
  struct tracee tracee;
  struct error its = {0};
  if (tracee_open(&tracee, pid, &its) != 0)
    return 0;
  int result = put_back(&tracee, redirection->table.setting, &its);
  tracee_close(&tracee);
  *processes += result == 0;
  if (result >= 0 || !is_copy(redirection, pid))
    return 0;
  return error_set(error, "--attach", "process %d: %s", pid, its.text);
}

int redirect_end(struct redirection *redirection, uint32_t *processes, struct error *error) {
  int result = put_functions_back(redirection, error);
  *processes = 0;
  if (has_our_table(redirection)) {
    int put = put_back(&redirection->tracee, redirection->table.setting, error);
    *processes += put == 0;
    result = put < 0 && has_our_table(redirection) ? -1 : result; /* else it has ended meanwhile */
  }
  DIR *all = opendir("/proc");
  for (int pid; (pid = proc_next(all));)
    if (pid != redirection->tracee.pid && is_copy(redirection, pid) &&
        put_back_copy(redirection, pid, processes, error) != 0)
      result = -1;
  if (all)
    closedir(all);
  return result;
}

int redirect_undo(int pid, const char *setting, uint32_t *processes, struct error *error) {
  struct redirection redirection = {.linked = {.patches = {.executable = -1}}, .setting = setting};
  struct view view;
  *processes = 0;
  if (tracee_open(&redirection.tracee, pid, error) != 0)
    return -1;
  redirection.linked.room = linked_find_room(&redirection.tracee);
  int result = view_open(&view, &redirection.tracee, error);
  redirection.table = view.table;
  redirection.table_at = view.table_at;
  view_close(&view);
  if (result == 0 && strncmp(view.table.setting, setting, sizeof view.table.setting) == 0)
    result = redirect_end(&redirection, processes, error);
  else
    put_functions_back(&redirection, error);
  redirect_close(&redirection);
  return result;
}

void redirect_close(struct redirection *redirection) {
  linked_patches_close(&redirection->linked.patches);
  tracee_close(&redirection->tracee);
}
