/* SPDX-License-Identifier: MIT */
#include "capture/host/process.h"

#include "capture/host/accesses.h"
#include "capture/host/hooks/control_calls.h"
#include "capture/host/kernel/exec_calls.h"
#include "capture/host/kernel/filter_calls.h"
#include "capture/host/kernel/maps.h"
#include "capture/host/kernel/own_memory.h"
#include "capture/host/ownership.h"
#include "capture/host/producer_state.h"
#include "capture/host/real/real.h"
#include "capture/host/room.h"
#include "capture/host/setting.h"
#include "capture/host/stacks/stack.h"
#include "capture/wire/heaptape.h"
#include "capture/wire/sealed.h"
#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* All calls into the kernel that could be cancellation points go through syscall(): a thread must not be cancelled
   inside malloc. */

/* Shared mappings, which a fork child inherits and must unmap. The list is not in wiped memory, so that the child finds
   it. */
static struct inherited {
  void *memory;
  size_t bytes;
} inherited[BANKS_MAX + 3];
static uint32_t inherited_count;

/* Waits for the collector, in slices, by this process and those that it is a fork child of. A slice in which the
   collector has served others is not a whole one. */
enum { SLICE_US = 250000, WHOLE = 20, SLICES = 30 * 4, SLICES_IMPATIENT = 4 };
static _Atomic uint32_t waited;

static bool has_waited(void) {
  return atomic_load(&waited) >= WHOLE * (uint32_t)(setting_has(ATTACH_IMPATIENT[0]) ? SLICES_IMPATIENT : SLICES);
}

/* Has the collector served others since the last call? Only a fork child knows, by its parent's page. */
static bool collector_serves(void) {
  static _Atomic uint32_t seen;
  uint32_t served = host_state.tables ? atomic_load(&host_state.tables->control.served) : 0;
  return atomic_exchange(&seen, served) != served && !setting_has(ATTACH_IMPATIENT[0]);
}

/* Makes the call, again where a signal or the end of a slice has ended it. A collector that does not answer (stopped,
   or waiting for a disk) must not keep a program from starting; nor a signal, as all are blocked meanwhile. */
static long retry(long number, long a, const void *b, long c, long d) {
  for (;;) {
    errno = 0;
    long got = syscall(number, a, b, c, d, 0, 0);
    errno = errno == EPERM ? EACCES : errno; /* EPERM says whose the other end is: exchange() */
    if (got >= 0 || (errno != EINTR && errno != EAGAIN))
      return got;
    if (errno == EAGAIN && signals_are_urgent())
      atomic_store(&waited, WHOLE * SLICES);
    else if (errno == EAGAIN)
      atomic_fetch_add(&waited, collector_serves() ? 1 : WHOLE);
    errno = EAGAIN;
    if (has_waited())
      return -1;
  }
}

/* May the user be one that our name space lacks? Reads /proc only where that can be. */
static bool is_hidden(uint32_t user) {
  char map[64] = "";
  int fd = user == ATTACH_UNMAPPED_USER && host_may(HOST_FILES)
               ? (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/uid_map", O_RDONLY | O_CLOEXEC, 0)
               : -1;
  if (fd >= 0) {
    syscall(SYS_read, fd, map, sizeof map - 1);
    syscall(SYS_close, fd);
  }
  return user == ATTACH_UNMAPPED_USER && !attach_has_all_users(map);
}

/* Is the listener of a user from whom we take memory? (proof.h) */
static bool is_of_trusted_user(int sock) {
  struct ucred listener;
  socklen_t bytes = sizeof listener;
  uint32_t own[3];
  return syscall(SYS_getsockopt, sock, SOL_SOCKET, SO_PEERCRED, &listener, &bytes) == 0 &&
         syscall(SYS_getresuid, &own[0], &own[1], &own[2]) == 0 &&
         attach_trusts(listener.uid, own, is_hidden(listener.uid));
}

static void close_both(int fds[2]) {
  for (int i = 0; i < 2; i++) {
    if (fds[i] >= 0)
      syscall(SYS_close, fds[i]);
    fds[i] = -1;
  }
}

static void take_descriptors(struct msghdr *message, int fds[2]) {
  struct cmsghdr *head = CMSG_FIRSTHDR(message);
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len >= CMSG_LEN(sizeof(int)))
    memcpy(fds, CMSG_DATA(head), head->cmsg_len >= CMSG_LEN(2 * sizeof(int)) ? 2 * sizeof(int) : sizeof(int));
}

/* Can the process have two descriptors more, for what a reply brings? Else with errno. */
static bool has_descriptors(void) {
  int one = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int two = one >= 0 ? (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
  int error = errno, both[2] = {one, two};
  close_both(both);
  errno = error;
  return two >= 0;
}

/* To the abstract socket, else to the one with a path. Returns 0, or -1 with errno of the first. */
static int connect_to(int sock, struct sockaddr_un *address, socklen_t bytes) {
  if (retry(SYS_connect, sock, address, bytes, 0) == 0)
    return 0;
  int why = errno;
  if ((why == ECONNREFUSED || why == EACCES) && setting_make_path(address, bytes) &&
      retry(SYS_connect, sock, address, sizeof *address, 0) == 0) {
    setting_note_path();
    return 0;
  }
  errno = why;
  return -1;
}

/* One request, one reply with up to two descriptors (-1 where there is none). Returns 0, or -1 with errno set; EPERM:
   at the other end is not our recorder. */
static int exchange(const struct attach_request *request, struct attach_reply *reply, int fds[2]) {
  struct sockaddr_un address;
  socklen_t address_bytes;
  struct attach_request with_proof = *request;
  uint64_t secret;
  fds[0] = fds[1] = -1;
  if (!setting_parse(&address, &address_bytes, &secret)) {
    errno = EINVAL;
    return -1;
  }
  if (has_waited()) {
    errno = EAGAIN;
    return -1;
  }
  int sock = (int)retry(SYS_socket, AF_UNIX, (void *)(uintptr_t)(SOCK_SEQPACKET | SOCK_CLOEXEC), 0, 0);
  if (sock < 0)
    return -1;
  if (!has_descriptors()) {
    int error = errno;
    syscall(SYS_close, sock);
    errno = error;
    return -1;
  }
  struct timeval slice = {0, SLICE_US};
  setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
  setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice);
  int result = -1;
  with_proof.number = os_cycles() ^ (uint64_t)request->pid << 40;
  with_proof.proof = attach_proof(secret, with_proof.number, ATTACH_HOST_SIDE);
  struct iovec part = {reply, sizeof *reply};
  union {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
  } rights;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
  /* MSG_NOSIGNAL: a collector that ends now must not cost the host a SIGPIPE. */
  bool connected = connect_to(sock, &address, address_bytes) == 0;
  if (connected && !is_of_trusted_user(sock)) {
    errno = EPERM;
  } else if (connected && retry(SYS_sendto, sock, &with_proof, sizeof with_proof, MSG_NOSIGNAL) == sizeof with_proof &&
             retry(SYS_recvmsg, sock, &message, MSG_CMSG_CLOEXEC, 0) == sizeof *reply) {
    take_descriptors(&message, fds);
    if (reply->magic == ATTACH_MAGIC && reply->proof == attach_proof(secret, with_proof.number, ATTACH_RECORDER_SIDE)) {
      result = 0;
    } else {
      close_both(fds);
      errno = EPERM;
    }
  } else if (connected && (errno == 0 || errno == EPIPE)) { /* the collector has closed its end */
    errno = ECONNRESET;
  }
  int error = errno;
  syscall(SYS_close, sock);
  errno = error;
  return result;
}

static void *map_shared(int fd, size_t bytes) {
  if (!attach_is_sealed(fd, bytes))
    return NULL;
  void *memory = memory_map_file(bytes, fd);
  if (memory)
    inherited[inherited_count++] = (struct inherited){memory, bytes};
  return memory;
}

static bool take_bank(struct process *process, int fd, uint32_t rings) {
  if (rings == 0 || rings > BANK_RINGS_MORE)
    return false;
  struct bank *bank = map_shared(fd, bank_bytes(rings));
  if (!bank)
    return false;
  process->bank[process->banks].memory = bank;
  process->bank[process->banks++].rings = rings;
  process->rings_left = rings;
  return true;
}

/* The time between two consecutive readings of the clock: the least of several, as an interruption may come in
   between. */
static uint32_t measure_clock_cost(void) {
  uint64_t least = UINT32_MAX;
  for (int i = 0; i < 64; i++) {
    uint64_t begin = os_stamp(), cost = os_stamp() - begin;
    least = cost < least ? cost : least;
  }
  return (uint32_t)least;
}

/* Contact failed, with errno: where a sandbox, or another network namespace, keeps us from a collector that lives,
   nothing is tried again. */
static void note_refusal(void) {
  struct bank *bank = (struct bank *)host_state.bank;
  if (errno != EACCES && (errno != ECONNREFUSED || !bank || host_collector_died()))
    return;
  filters_note_refusal();
  if (bank)
    atomic_store(&bank->sandboxing, 1);
}

bool attach_bank(struct process *process) {
  if (!host_may(HOST_CONTACT) || process->banks == BANKS_MAX)
    return false;
  uint32_t rings = room_for_more_rings();
  if (!rings)
    return false;
  struct attach_request request = {.magic = ATTACH_MAGIC, .kind = ATTACH_BANK, .rings = rings, .pid = process->pid};
  struct attach_reply reply = {.refused = 1};
  int fds[2];
  if (exchange(&request, &reply, fds) != 0)
    note_refusal();
  bool done = !reply.refused && fds[0] >= 0 && take_bank(process, fds[0], reply.rings);
  close_both(fds);
  return done;
}

static void unmap_inherited(void) {
  if (inherited_count) {
    host_state.tables = NULL;
    host_state.bank = NULL;
    filters_seen = NULL;
  }
  for (uint32_t i = 0; i < inherited_count; i++)
    memory_unmap(inherited[i].memory, inherited[i].bytes);
  inherited_count = 0;
}

/* Where this process was recorded before by another recorder: frees what is left of that recording, or leaves it in
   place, as a thread may still be in a hook that began then. */
static void leave_last_recording(void) {
  static uint32_t generation;
  struct redirect_table *table = redirected_table();
  if (!table || table->generation == generation)
    return;
  generation = table->generation;
  atomic_store(&waited, 0);
  struct process *last = (struct process *)table->retired;
  table->retired = 0;
  if (last) {
    unmap_inherited();
    if (last->release)
      last->release(last);
    memory_unmap(last, sizeof *last);
  }
  inherited_count = 0;
}

static void take_stack_area(const struct process *process, const struct attach_reply *process_reply) {
  struct attach_request request = {.magic = ATTACH_MAGIC, .kind = ATTACH_STACK_AREA, .pid = process->pid};
  struct attach_reply reply;
  int fds[2];
  struct stack_area *area = NULL;
  bool possible =
      process_reply->stack_depth > 0 && process_reply->stack_depth <= STACK_DEPTH_MAX && room_for_bytes(sizeof *area);
  if (possible && exchange(&request, &reply, fds) == 0 && !reply.refused && fds[0] >= 0)
    area = map_shared(fds[0], sizeof *area);
  if (possible)
    close_both(fds);
  unwind_rules_begin();
  if (area)
    stack_settings = (struct stack_settings){area, process_reply->stack_depth, process_reply->stack_unwind};
  else
    message_print("no memory for call stacks: this process is recorded without them");
}

static void take_access_stream(const struct process *process) {
  struct attach_request request = {.magic = ATTACH_MAGIC, .kind = ATTACH_ACCESS_STREAM, .pid = process->pid};
  struct attach_reply reply;
  int fds[2];
  bool taken = exchange(&request, &reply, fds) == 0 && !reply.refused && fds[0] >= 0 && accesses_begin(fds[0]);
  if (taken) {
    accesses_follow(host_paused());
    accesses_follow_operator();
    return;
  }
  close_both(fds);
  host_state.flags &= ~(uint32_t)ATTACH_ACCESSES;
  message_print("no stream for data accesses: this process is recorded without them");
}

/* Under Valgrind, /proc describes Valgrind's own process; only this link names the program. */
static void name_program(struct attach_request *request) {
  char path[4096];
  long bytes = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  memcpy(request->program, name, strnlen(name, sizeof request->program - 1));
}

/* Each call takes the slow path. */
static void be_slow(void) {
  host_state.idle = PRODUCER_SLOW;
  host_state.quick_bytes[0] = host_state.quick_bytes[1] = 0;
}

static void choose_quick(uint64_t touch_min_bytes) {
  uint64_t least = touch_min_bytes < RECORD_QUICK_BYTES ? touch_min_bytes : RECORD_QUICK_BYTES;
  host_state.quick_bytes[0] = least;
  host_state.quick_bytes[1] = real_is_musl() ? 0 : least;
  if (real_may_call_back())
    be_slow();
}

static void prepare_columns(const struct process *process, const struct attach_reply *reply) {
  stack_settings.area = NULL;
  if (!(reply->flags & ATTACH_COLUMNS))
    return;
  if (reply->flags & ATTACH_STACKS)
    take_stack_area(process, reply);
  if (reply->flags & ATTACH_LATENCY)
    host_state.clock_cost = measure_clock_cost();
  if (!real_has_usable_size())
    host_state.flags &= ~(uint32_t)ATTACH_USABLE;
  be_slow();
}

/* Calls of heaptape_pause minus those of heaptape_resume; changed with the process locked. A fork child begins with its
   parent's value. */
static uint32_t program_pauses;

/* The tables, with the collector's page in them. NULL: no memory. */
static struct tables *map_tables(int control_fd) {
  struct tables *tables = memory_map(sizeof *tables, MEMORY_SHARED);
  if (!tables)
    return NULL;
  inherited[inherited_count++] = (struct inherited){tables, sizeof *tables};
  void *control = control_fd >= 0 && attach_is_sealed(control_fd, CONTROL_BYTES)
                      ? mmap(&tables->control, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                             control_fd, 0)
                      : MAP_FAILED;
  memory_mark(&tables->control, sizeof tables->control);
  return control == MAP_FAILED ? NULL : tables;
}

/* Excludes addresses that no release of the common case may have. */
static void except_places(void) {
  ownership_make_uncommon(NULL);
  for (size_t at = 0; at < real_arena_used_bytes(); at += 16)
    if (at == 0 || ownership_index(real_arena + at) != ownership_index(real_arena + at - 16))
      ownership_make_uncommon(real_arena + at);
}

/* Do calls of malloc bypass us? The same in a fork child as in its parent. */
static bool bypassed;

/* Contact failed, with errno: for now, as descriptors may be closed? */
static bool lacks_descriptor(void) {
  return errno == EMFILE || errno == ENFILE;
}

/* Contact failed, with errno. Nothing is printed where the recorder tells it, as a line of ours might end in output
   that the program captures: it names what it does not record, and the processes that it recorded say that it has
   ended. */
static void report_no_collector(void) {
  note_refusal();
  if (errno != EACCES && errno != ECONNREFUSED && errno != ECONNRESET)
    message_print(errno == EPERM       ? ATTACH_NOT_OURS
                  : errno == EAGAIN    ? "the collector does not answer: this process is not recorded"
                  : lacks_descriptor() ? "no file descriptor is free: this process is not recorded"
                                       : ATTACH_FAILED);
}

/* Of a process that may not contact the collector, or has no descriptor or room for it: where it is a fork child, its
   parent's bank counts its calls. */
static void count_call_of_child(struct process *process) {
  struct bank *bank = (struct bank *)host_state.bank;
  if (!bank)
    return;
  if (atomic_fetch_add(&process->counted, 1) == 0)
    atomic_fetch_add(&bank->children, 1);
  atomic_fetch_add(&bank->orphan, 1);
}

/* Is the process to be recorded? */
static bool is_invited(bool forked) {
  bool invited = setting_read(!forked); /* the recorder clears a redirect table's setting when it ends */
  if (!forked) {
    message_note_stderr();
    bypassed = real_malloc_is_the_programs();
  }
  return invited && (!setting_has(ATTACH_SIMULATED[0]) || accesses_are_possible());
}

/* Attaches; called with the process locked. Returns its new state; NEW: it may not contact the collector, or can't now,
   and its parent's bank counts its calls. */
static enum process_state attach(struct process *process) {
  leave_last_recording();
  bool forked = inherited_count > 0;
  bool invited = is_invited(forked);
  uint32_t rings = invited ? room_for_first_rings() : 0;
  if (invited && !rings && forked)
    return PROCESS_NEW;
  if (!rings) {
    if (invited)
      room_report_none();
    unmap_inherited();
    return PROCESS_OFF;
  }
  process->pid = (int)syscall(SYS_getpid);
  if (redirected_table() && !forked)
    memory_follow_lock(process);
  struct attach_request request = {.magic = ATTACH_MAGIC,
                                   .kind = ATTACH_PROCESS,
                                   .rings = rings,
                                   .forked = forked,
                                   .pid = process->pid,
                                   .parent_pid = (int)syscall(SYS_getppid),
                                   .bypassed = bypassed,
                                   .no_usable_size = !real_has_usable_size()};
  strncpy(request.allocator, real_allocator_name(), sizeof request.allocator - 1);
  if (setting_has(ATTACH_SIMULATED[0]))
    name_program(&request);
  else if (!forked && !redirected_table()) /* else the recorder has checked that there is none */
    linked_offer(&request.linked);
  struct attach_reply reply = {.refused = 1};
  int fds[2];
  enum process_state state = PROCESS_OFF;
  if (exchange(&request, &reply, fds) != 0) {
    if (forked && lacks_descriptor())
      return PROCESS_NEW;
    report_no_collector();
    reply = (struct attach_reply){.refused = 1};
  }
  if (reply.refused && forked && !host_may(HOST_CONTACT))
    return PROCESS_NEW;
  unmap_inherited();
  linked_take(&request.linked, &reply.linked);
  if (request.linked.room && reply.linked.functions)
    memory_own((void *)request.linked.room, LINKED_ROOM_BYTES);
  if (!reply.refused) {
    bypassed = reply.bypassed;
    struct tables *tables = map_tables(fds[1]);
    if (tables && fds[0] >= 0 && take_bank(process, fds[0], reply.rings)) {
      process->flags = reply.flags;
      if (program_pauses)
        atomic_fetch_or(&process->bank[0].memory->paused, PAUSED_BY_PROGRAM);
      host_state = (struct host_state){.tables = tables,
                                       .flags = reply.flags,
                                       .bank = process->bank[0].memory,
                                       .touch_min_bytes = reply.touch_min_bytes,
                                       .os_page_bytes = os_page_bytes(),
                                       .idle = PRODUCER_IDLE};
      filters_seen = &host_state.bank->sandboxed;
      if (!forked)
        atomic_fetch_add(&process->bank[0].memory->orphan, host_missing_before());
      producer_pool_prepare(process); /* for threads whose program may map none any more */
      choose_quick(reply.touch_min_bytes);
      except_places();
      prepare_columns(process, &reply);
      if (reply.flags & ATTACH_ACCESSES)
        take_access_stream(process);
      state = PROCESS_RECORDING;
    } else {
      message_print("no memory or no file descriptor for the rings: this process is not recorded");
      unmap_inherited();
    }
  }
  close_both(fds);
  return state;
}

static void attach_on_own_stack(void *process) {
  atomic_store_explicit(&((struct process *)process)->state, attach(process), memory_order_release);
}

/* Of a fresh image, before anything of ours is mapped. */
static bool lacks_room(void) {
  if (redirected_table() || process_known() || room_for_first_rings() > 0)
    return false;
  message_note_stderr();
  room_report_none();
  process_exclude();
  return true;
}

struct process *attach_process(void) {
  static __thread bool attaching __attribute__((tls_model("initial-exec")));
  if (filters_exclude() || !real_resolve() || lacks_room()) /* before the lock: allocations of dlsym come back to us */
    return NULL;
  struct process *process = process_own();
  if (!process)
    return NULL;
  if (atomic_load_explicit(&process->state, memory_order_acquire) == PROCESS_NEW) {
    uint32_t counted = atomic_load(&process->counted);
    bool is_due = (counted & (counted - 1)) == 0; /* with more and more calls between two attempts */
    if (!host_may(HOST_CONTACT | HOST_MAP) || filter_calls_forbid_clock() || !is_due) {
      count_call_of_child(process);
      return NULL;
    }
    if (attaching) /* another preloaded library has a function that attach() calls (mmap), and it allocates */
      return NULL;
    attaching = true;
    process_lock(process);
    if (atomic_load_explicit(&process->state, memory_order_relaxed) == PROCESS_NEW &&
        !own_stack_run(attach_on_own_stack, process))
      attach_on_own_stack(process);
    process_unlock(process);
    attaching = false;
    if (atomic_load_explicit(&process->state, memory_order_acquire) == PROCESS_NEW)
      count_call_of_child(process);
  }
  return atomic_load_explicit(&process->state, memory_order_acquire) == PROCESS_RECORDING ? process : NULL;
}

/* Adds or removes a pause by the program. The tick is advanced so that the other threads notice it. */
static void change_program_pauses(bool more) {
  if (process_is_off())
    return;
  int error = errno;
  uint64_t mask;
  signals_block(&mask);
  struct process *process = attach_process();
  if (process) {
    process_lock(process);
    if (more)
      program_pauses++;
    else if (program_pauses)
      program_pauses--;
    struct bank *first = process->bank[0].memory;
    if (program_pauses)
      atomic_fetch_or(&first->paused, PAUSED_BY_PROGRAM);
    else
      atomic_fetch_and(&first->paused, ~(uint32_t)PAUSED_BY_PROGRAM);
    control_advance_tick(&host_state.tables->control);
    process_unlock(process);
  }
  signals_restore(&mask);
  errno = error;
}

void heaptape_lib_pause(void) {
  change_program_pauses(true);
}

void heaptape_lib_resume(void) {
  change_program_pauses(false);
}

/* A fresh image attaches even if it never allocates, so that each program that ran has a trace. */
__attribute__((constructor)) static void attach_at_start(int argc, char **argv, char **envp) {
  int error = errno;
  (void)argc, (void)argv, (void)envp;
#if defined(__GLIBC__) /* other C libraries may pass nothing to a constructor */
  setting_note_environment(envp);
#endif
  exec_calls_resolve();
  if (!process_is_off()) {
    uint64_t mask;
    signals_block(&mask);
    attach_process();
    signals_restore(&mask);
    if (!redirected_table() && process_is_recording())
      libraries_redirect_controls();
  }
  errno = error;
}
