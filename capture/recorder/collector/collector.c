/* SPDX-License-Identifier: MIT */
#include "capture/recorder/collector/collector.h"

#include "capture/recorder/collector/collector_state.h"
#include "capture/recorder/collector/control.h"
#include "capture/recorder/collector/describe.h"
#include "capture/recorder/collector/upkeep.h"
#include "capture/recorder/process/process_regions.h"
#include "capture/recorder/redirect/entries/linked.h"
#include "core/base/os.h"
#include "core/processes/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  TICK_NS = 1000000,
  SAMPLE_NS = 10000000,
  IDLE_NS = 10000000,    /* the tick's period where nothing happens */
  IDLE_PASSES = 100,     /* so many passes without a record */
  LINGER_NS = 500000000, /* for an orphan that has not yet made its first call, though it could run */
  BUSY_RECORDS = 4096,   /* a pass that found more is followed by another at once */
};

/* For an orphan that could run but waits for a processor, on a busy machine. */
static const uint64_t LINGER_MOST_NS = 30000000000u;

const char *collector_address(const struct collector *collector) {
  return collector->address;
}
bool collector_child_ended(const struct collector *collector) {
  return collector->child_ended;
}
uint32_t collector_recorded(const struct collector *collector) {
  return collector->recorded;
}

bool collector_keeper_did(const struct collector *collector) {
  return collector->keeper_did;
}

bool collector_budget_used(const struct collector *collector, double *percent, uint32_t *bursts) {
  *percent = budget_used_percent(&collector->upkeep.budget);
  *bursts = collector->upkeep.bursts;
  return collector->settings->budget > 0;
}

uint32_t collector_files_deleted(const struct collector *collector) {
  return collector->upkeep.files_deleted;
}

uint32_t collector_refused(const struct collector *collector) {
  return collector->refused;
}

void collector_wake(struct collector *collector) {
  atomic_store(&collector->attention, true);
  atomic_store(&collector->control->sleeping, 0);
  atomic_fetch_add(&collector->control->wake, 1);
  os_futex_wake((const uint32_t *)&collector->control->wake, 1, true);
}

void collector_stop(struct collector *collector) {
  atomic_store(&collector->stopping, true);
  collector_wake(collector);
}

void collector_request_burst(struct collector *collector, enum burst_request request) {
  atomic_store(&collector->burst, (int)request);
  collector_wake(collector);
}

void collector_toggle(struct collector *collector) {
  atomic_store(&collector->toggle, true);
  collector_wake(collector);
}

/* The hosts hold no descriptor by which to wake us, so the serving thread sleeps on a futex; this thread wakes it for
   sockets and ends of processes. Edge-triggered: each event wakes once. */
static void *wake_loop(void *context) {
  struct collector *collector = context;
  struct epoll_event event;
  for (;;)
    if (epoll_wait(collector->epoll, &event, 1, -1) > 0)
      collector_wake(collector);
  return NULL;
}

static void watch(const struct collector *collector, int fd) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  epoll_ctl(collector->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* The kernel marks this word when the collector's thread ends, however it ends. Hosts read it instead of looking for
   the process id, which may be another process's in another name space. */
static void register_robust_futex(struct collector *collector) {
  collector->robust.entry.next = &collector->robust.head.list;
  collector->robust.head.list.next = &collector->robust.entry;
  collector->robust.head.futex_offset =
      (long)((char *)&collector->control->collector_futex - (char *)&collector->robust.entry);
  collector->robust.head.list_op_pending = NULL;
  atomic_store(&collector->control->collector_futex, (uint32_t)os_thread_id());
  syscall(SYS_set_robust_list, &collector->robust.head, sizeof collector->robust.head);
}

_Static_assert(sizeof(struct control) <= 4096, "the control page is one of the smallest OS pages");

static int open_control(struct collector *collector) {
  collector->control_fd = memfd_create("heaptape-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (collector->control_fd < 0 || ftruncate(collector->control_fd, 4096) != 0 ||
      fcntl(collector->control_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return -1;
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, collector->control_fd, 0);
  if (memory == MAP_FAILED)
    return -1;
  collector->control = memory;
  return 0;
}

static int open_socket(struct collector *collector) {
  uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return -1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  /* Of one length always: the program's stack lies by the length of its environment. */
  int length =
      snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "heaptape-%07d-%08x", getpid(), (uint32_t)random[0]);
  collector->secret = random[1];
  snprintf(collector->address, sizeof collector->address, "%s:%016llx%s%s", address.sun_path + 1,
           (unsigned long long)collector->secret, collector->settings->flags & ATTACH_DROP ? ATTACH_IMPATIENT : "",
           collector->settings->flags & ATTACH_ACCESSES ? ATTACH_SIMULATED : "");
  collector->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (collector->socket < 0 || bind(collector->socket, (struct sockaddr *)&address,
                                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0)
    return -1;
  return listen(collector->socket, 4096);
}

int collector_open(struct collector **out, const struct collector_settings *settings, struct error *error) {
  struct collector *collector = calloc(1, sizeof *collector);
  *out = collector;
  if (!collector)
    return error_set(error, "collector", "out of memory");
  collector->settings = settings;
  collector->socket = collector->epoll = collector->control_fd = -1;
  collector->origin_ns = os_monotonic_ns();
  collector->origin_cycles = os_cycles();
  if (open_control(collector) != 0 || open_socket(collector) != 0 ||
      (collector->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
    return error_errno(error, "collector", "cannot make socket or shared memory");
  register_robust_futex(collector);
  watch(collector, collector->socket);
  /* Orphans come to us, so that we know when no unrecorded child is left that might yet make its first call. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int failed = pthread_create(&collector->waker, NULL, wake_loop, collector);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return failed ? error_set(error, "collector", "cannot make a thread") : 0;
}

void collector_close(struct collector *collector) {
  pthread_cancel(collector->waker);
  pthread_join(collector->waker, NULL);
  for (uint32_t i = 0; i < collector->pending_count; i++)
    close(collector->pending[i]);
  close(collector->socket);
  close(collector->epoll);
  close(collector->control_fd);
  free(collector->processes.at);
  free(collector);
}

/* Redirects the functions of an allocator in the executable of a fresh image, which waits on the connection. */
static void redirect_linked(const struct collector *collector, int connection, struct attach_request *request,
                            struct attach_reply *reply) {
  if (request->forked || !request->linked.table)
    return;
  struct linked_result linked;
  linked_redirect(request->pid, connection, &request->linked, &linked);
  reply->linked = linked.done;
  char program[NAME_MAX + 1];
  describe_program_name(request, program, sizeof program);
  if (linked.has_malloc) {
    request->bypassed = 0;
    snprintf(request->allocator, sizeof request->allocator, "%.60s", program);
  } else if (linked.done.functions) {
    char both[2 * sizeof request->allocator];
    snprintf(both, sizeof both, "%.40s and %.60s", request->allocator, program);
    memcpy(request->allocator, both, sizeof request->allocator - 1);
  }
  struct error error = {""};
  if (linked.complaint[0]) {
    error_set(&error, program, "%s", linked.complaint);
    collector->settings->complain(&error);
  }
}

/* Is that the process whose trace has the name that was asked for: the first one, and of a process that ran before that
   one, even if a fork child of it calls first? */
static bool is_main(const struct collector *collector, int pid) {
  return !collector->has_main && (!collector->settings->keeper_pid || pid == collector->settings->first_pid);
}

static struct recorded_process *add_process(struct collector *collector, const struct attach_request *request,
                                            int pid) {
  if (!vector_reserve(&collector->processes, collector->processes.count + 1))
    return NULL;
  int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (pid_fd < 0 && errno == ESRCH) /* killed while it waited for us: it has recorded nothing */
    return NULL;
  char path[4096 + 32];
  bool is_the_main = is_main(collector, pid);
  if (is_the_main)
    describe_first_path(collector->settings, path, sizeof path);
  else
    describe_further_path(collector->settings, pid, path, sizeof path);
  struct describe_clock clock = {collector_counts(collector), collector_clock_hz(collector),
                                 collector_stamp(collector)};
  struct recorded_process *parent = request->forked ? collector_find(collector, request->parent_pid) : NULL;
  uint32_t paused = (parent ? parent->paused : collector->paused) & ~(uint32_t)PAUSED_BY_BUDGET;
  bool late = paused != 0 || collector->settings->keeper_pid;
  char *info = describe_info(collector->settings, request, &clock, late);
  struct error error = {""};
  struct recorded_process *process = NULL;
  struct process_upkeep *upkeep = NULL;
  if (!info || upkeep_first_file(collector, &upkeep, path, sizeof path, &info) != 0)
    error_set(&error, path, "out of memory");
  else if (pid_fd < 0)
    error_set(&error, path, "process %d cannot be watched: no descriptor for it", pid);
  else
    process = recorded_process_open(&(struct recording_start){pid, pid_fd, path, info, clock.origin_stamp,
                                                              collector->settings->flags & ATTACH_ACCESSES,
                                                              collector->settings->samples != NULL,
                                                              collector->settings->in_bursts},
                                    &error);
  free(info);
  if (!process) {
    process_upkeep_free(upkeep);
    if (pid_fd >= 0)
      close(pid_fd);
    collector->settings->complain(&error);
    collector->refused++;
    return NULL;
  }
  if (request->bypassed && !request->forked) {
    error_set(&error, path, "the program, or a library before ours, defines malloc itself: its calls are not recorded");
    collector->settings->complain(&error);
  }
  process->forked = request->forked;
  process->parent_pid = request->parent_pid;
  process->number = collector->recorded;
  describe_program_name(request, process->name, sizeof process->name);
  process_regions_pause(process, paused, true);
  upkeep_process_begins(collector, process, upkeep);
  process_regions_set_bursts(process, parent ? parent->bursts : collector->bursts);
  process->latency = collector->settings->flags & ATTACH_LATENCY;
  process->names = collector->settings->describe_json != NULL;
  watch(collector, pid_fd);
  collector->processes.at[collector->processes.count++] = process;
  collector->has_main |= is_the_main;
  if (collector->recorded++ == 0)
    control_first_process(collector);
  return process;
}

static bool may_attach(const struct collector *collector, const struct attach_request *request,
                       const struct ucred *peer) {
  return !collector->ended && request->magic == ATTACH_MAGIC && request->secret == collector->secret && peer->pid > 0 &&
         (peer->uid == getuid() || getuid() == 0) &&
         (collector->settings->follow || peer->pid == collector->settings->first_pid);
}

static void reply_to(int connection, struct attach_reply *reply, const int *fds, size_t count) {
  struct iovec part = {reply, sizeof *reply};
  union {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
  } rights = {.bytes = {0}};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count) {
    message.msg_control = rights.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
  }
  sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_control(struct collector *collector, int connection, const struct ucred *peer, const char *text) {
  if (peer->uid != getuid() && peer->uid != 0)
    return;
  char *reply = control_request(collector, text);
  if (reply)
    send(connection, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
  free(reply);
}

/* What a process that has attached may ask for besides. */
static void serve_addition(const struct collector *collector, int connection, struct recorded_process *process,
                           bool stacks, struct attach_reply *reply) {
  int fd = -1;
  if (process && stacks && (collector->settings->flags & ATTACH_STACKS))
    fd = recorded_process_add_stacks(process);
  else if (process && !stacks && (collector->settings->flags & ATTACH_ACCESSES))
    fd = recorded_process_add_accesses(process);
  if (fd >= 0 && !stacks)
    watch(collector, process->accesses.fd);
  reply->refused = fd < 0;
  reply_to(connection, reply, &fd, fd >= 0);
  if (fd >= 0)
    close(fd);
}

/* Serves the connection's request. Returns false if there is none yet. */
static bool serve_connection(struct collector *collector, int connection) {
  union {
    struct attach_request attach;
    char text[512];
  } message;
  struct ucred peer;
  socklen_t peer_bytes = sizeof peer;
  struct attach_reply reply = {.magic = ATTACH_MAGIC,
                               .refused = 1,
                               .flags = collector->settings->flags,
                               .stack_depth = (uint16_t)collector->settings->stack_depth,
                               .stack_unwind = (uint16_t)collector->settings->stack_unwind,
                               .touch_min_bytes = collector->settings->touch_min_bytes};
  int fds[2] = {-1, collector->control_fd};
  struct pollfd readable = {connection, POLLIN | POLLRDHUP, 0};
  if (poll(&readable, 1, 0) != 1)
    return false;
  if (readable.revents & (POLLHUP | POLLRDHUP)) /* it has waited long enough and runs on without us */
    return true;
  ssize_t got = recv(connection, &message, sizeof message - 1, MSG_DONTWAIT);
  bool known = got > 0 && getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0;
  if (known && message.text[0] == '{') {
    message.text[got] = '\0';
    answer_control(collector, connection, &peer, message.text);
    return true;
  }
  struct attach_request request = message.attach;
  request.pid = peer.pid; /* it may have another in a name space of its own */
  if (!known || got != sizeof request || !may_attach(collector, &request, &peer)) {
    reply_to(connection, &reply, NULL, 0);
    return true;
  }
  struct recorded_process *process = collector_find(collector, peer.pid);
  if (request.kind == ATTACH_STACK_AREA || request.kind == ATTACH_ACCESS_STREAM) {
    serve_addition(collector, connection, process, request.kind == ATTACH_STACK_AREA, &reply);
    return true;
  }
  bool first = request.kind == ATTACH_PROCESS;
  if (first) {
    if (process)
      collector_end_process(collector, process, "exec", NULL);
    redirect_linked(collector, connection, &request, &reply);
    reply.bypassed = request.bypassed;
    process = add_process(collector, &request, peer.pid);
  }
  if (process)
    fds[0] = process_regions_add(process, first ? REGION_RINGS_FIRST : REGION_RINGS_MORE);
  if (process && fds[0] < 0) {
    struct error error = {""};
    error_errno(&error, process->path,
                first ? "no shared memory for the process's rings: it is not recorded"
                      : "no shared memory for more rings: further threads are only counted");
    collector->settings->complain(&error);
  }
  if (fds[0] >= 0) {
    reply.refused = 0;
    reply.rings = first ? REGION_RINGS_FIRST : REGION_RINGS_MORE;
  }
  reply_to(connection, &reply, fds, fds[0] < 0 ? 0 : first ? 2 : 1);
  if (fds[0] >= 0)
    close(fds[0]);
  return true;
}

/* Between its connect and its request a process may have to wait for a processor for any time. Its connection is kept,
   and neither the rings nor other processes wait for it. Its request, or its end, wakes us. */
static void keep_pending(struct collector *collector, int connection) {
  if (collector->pending_count == PENDING_MAX) { /* many connections without a request: not our hosts' */
    close(collector->pending[0]);
    memmove(collector->pending, collector->pending + 1, --collector->pending_count * sizeof *collector->pending);
  }
  collector->pending[collector->pending_count++] = connection;
  watch(collector, connection);
}

static void serve_connections(struct collector *collector) {
  int connection;
  while ((connection = accept4(collector->socket, NULL, NULL, SOCK_CLOEXEC)) >= 0)
    keep_pending(collector, connection);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < collector->pending_count; i++) {
    if (serve_connection(collector, collector->pending[i]))
      close(collector->pending[i]);
    else
      collector->pending[kept++] = collector->pending[i];
  }
  collector->pending_count = kept;
}

static const char *end_of(const struct process_end *how) {
  return how->status_known && WIFSIGNALED(how->status) ? "killed" : "exit";
}

/* Ends a process that we have reaped; how: what its /proc entry gave while it was a zombie. */
static void reaped_process(struct collector *collector, struct recorded_process *process, struct process_end *how,
                           int status, const struct rusage *usage) {
  how->status_known = true;
  how->status = status;
  /* The peak that wait4 gives includes children that the process reaped, and its image before an exec: for our child
     that is us, for an orphan any program. */
  uint64_t peak_bytes = (uint64_t)usage->ru_maxrss * 1024;
  bool first = process->pid == collector->settings->first_pid && peak_bytes > collector->own_peak_bytes;
  if (!how->reaped_children && (process->forked || first))
    how->usage.peak_rss_bytes = peak_bytes;
  if (!how->reaped_children) { /* finer than /proc's ticks */
    how->usage.user_ns = (uint64_t)usage->ru_utime.tv_sec * 1000000000u + (uint64_t)usage->ru_utime.tv_usec * 1000u;
    how->usage.system_ns = (uint64_t)usage->ru_stime.tv_sec * 1000000000u + (uint64_t)usage->ru_stime.tv_usec * 1000u;
  }
  collector_end_process(collector, process, end_of(how), how);
}

/* Reaps our child and adopted orphans, after reading what the zombie's /proc entry still has. Returns false if there
   are no children at all. */
static bool reap(struct collector *collector) {
  siginfo_t info = {0};
  errno = 0;
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    int pid = info.si_pid, status;
    struct recorded_process *process = collector_find(collector, pid);
    struct process_end how = process_end_look(-1, process ? process->sampler.stat_fd : -1);
    struct rusage usage;
    if (wait4(pid, &status, WNOHANG, &usage) != pid)
      return true;
    if (pid == collector->settings->first_pid) {
      collector->child_ended = true;
      collector->child_status = status;
    }
    if (pid == collector->settings->keeper_pid) {
      collector->keeper_ended = true;
      collector->keeper_did = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (process)
      reaped_process(collector, process, &how, status, &usage);
    info.si_pid = 0;
  }
  return errno != ECHILD;
}

/* Ends the processes that have ended. Returns whether any child is left. */
static bool serve_ends(struct collector *collector) {
  bool children = reap(collector);
  for (uint32_t i = collector->processes.count; i-- > 0;) {
    struct recorded_process *process = i < collector->processes.count ? collector->processes.at[i] : NULL;
    struct pollfd ended = {process ? process->pid_fd : -1, POLLIN, 0};
    if (poll(&ended, 1, 0) != 1)
      continue;
    int pid = process->pid;
    children = reap(collector); /* it may be ours, and have ended since */
    if (collector_find(collector, pid) == process) {
      struct process_end how = process_end_look(process->pid_fd, process->sampler.stat_fd);
      collector_end_process(collector, process, end_of(&how), &how);
    }
  }
  return children;
}

static void tick(void *context) {
  struct collector *collector = context;
  uint64_t now = os_monotonic_ns();
  if (now - collector->tick_ns < TICK_NS)
    return;
  collector->tick_ns = now;
  control_advance_tick(collector->control);
}

static uint64_t drain_all(struct collector *collector) {
  uint64_t records = 0;
  for (uint32_t i = 0; i < collector->processes.count; i++)
    records += recorded_process_drain(collector->processes.at[i], tick, collector);
  return records;
}

static void sample_all(struct collector *collector) {
  uint64_t base_ns = collector->settings->sample_ns ? collector->settings->sample_ns : SAMPLE_NS;
  base_ns = upkeep_sample_ns(collector, base_ns);
  uint64_t now_ns = os_monotonic_ns();
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    if (!sampler_is_due(&process->sampler, now_ns))
      continue;
    recorded_process_sample(process, collector_stamp(collector));
    sampler_plan(&process->sampler, now_ns, base_ns, collector->processes.count);
  }
}

/* The peak of this image. Not getrusage's, which includes that of the program that executed us, which our child does
   not inherit. */
static uint64_t own_peak_bytes(void) {
  struct sampler sampler;
  struct trace_sample sample;
  sampler_open(&sampler, getpid());
  bool known = sampler_read(&sampler, &sample) && sample.vm_hwm_bytes != TRACE_SAMPLE_MISSING;
  sampler_close(&sampler);
  return known ? sample.vm_hwm_bytes : UINT64_MAX;
}

/* Is one of our children, adopted orphans included, running, waiting for a processor, or waiting for a disk? False
   where the kernel does not list children. */
static bool a_child_is_held_up(void) {
  char list[32], pids[4096], stat[512], *at = pids, *end;
  snprintf(list, sizeof list, "task/%d/children", getpid());
  if (!proc_read_file(getpid(), list, pids, sizeof pids))
    return false;
  for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) {
    const char *after_name = proc_read_file((int)pid, "stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    if (after_name && strlen(after_name) > 2 && (after_name[2] == 'R' || after_name[2] == 'D'))
      return true;
  }
  return false;
}

struct lingering {
  uint64_t since_ns, looked_ns, quiet_ns; /* since_ns 0: it is not waiting for orphans */
};

/* Called when no process is recorded any more and the first has ended: is it time to end, though there are children?
   Where we have waited for a processor ourselves, nobody has looked at them meanwhile. */
static bool has_lingered(const struct collector *collector, struct lingering *lingering) {
  uint64_t now_ns = os_monotonic_ns(), passed_ns = now_ns - lingering->looked_ns;
  if (!lingering->since_ns)
    lingering->since_ns = now_ns, passed_ns = 0;
  lingering->looked_ns = now_ns;
  lingering->quiet_ns += passed_ns < 2 * IDLE_NS ? passed_ns : 2 * IDLE_NS;
  if (collector->pending_count > 0 || a_child_is_held_up())
    lingering->quiet_ns = 0;
  return lingering->quiet_ns > LINGER_NS || now_ns - lingering->since_ns > LINGER_MOST_NS;
}

/* Called as has_lingered is: will no process ask to be recorded any more? Who has connected is served first, as poll
   may not have shown the connection yet. children: the recorder has child processes left. */
static bool nobody_comes(struct collector *collector, struct lingering *lingering, bool children) {
  if (collector->ended)
    return true;
  if (children && !has_lingered(collector, lingering))
    return false;
  serve_connections(collector);
  return collector->processes.count == 0 && (collector->pending_count == 0 || has_lingered(collector, lingering));
}

static void watch_samples(const struct collector *collector) {
  uint32_t at = 0;
  for (int fd; collector->settings->samples && (fd = perf_source_descriptor(collector->settings->samples, &at)) >= 0;)
    watch(collector, fd);
}

/* Of a process that ran before: is there nothing more to record, as it or the recording has ended? */
static bool attached_is_over(struct collector *collector) {
  if (atomic_load(&collector->stopping) && !collector->ended)
    collector_end_recording(collector, "the recorder was stopped: later events are not in the trace");
  else if (collector->keeper_ended && !collector->ended)
    collector_end_recording(collector, "the program has gone, or executes another one");
  if (!collector->ended && collector->has_main && collector->processes.count == 0)
    serve_connections(collector); /* fork children that were not told to us yet */
  return collector->ended || (collector->has_main && collector->processes.count == 0);
}

int collector_serve(struct collector *collector) {
  struct lingering lingering = {0};
  uint32_t idle_passes = 0;
  watch(collector, (int)syscall(SYS_pidfd_open, collector->settings->first_pid, 0));
  control_begin(collector);
  upkeep_begin(collector);
  watch_samples(collector);
  collector->own_peak_bytes = own_peak_bytes();
  for (;;) {
    uint32_t seen = atomic_load(&collector->control->wake);
    tick(collector);
    bool attention = atomic_exchange(&collector->attention, false);
    if (attention)
      serve_connections(collector);
    if (atomic_exchange(&collector->toggle, false))
      control_toggle(collector);
    int burst = atomic_exchange(&collector->burst, BURST_NOT_REQUESTED);
    if (burst != BURST_NOT_REQUESTED)
      control_burst(collector, (enum burst_request)burst);
    uint64_t records = drain_all(collector) + collector_take_samples(collector, false);
    sample_all(collector);
    control_keep_limits(collector);
    upkeep_serve(collector);
    bool nothing_left = collector->processes.count == 0 && collector->child_ended;
    if (collector->child_ended && atomic_load(&collector->stopping)) {
      collector_end_recording(collector, "the recorder was stopped");
      return collector->child_status;
    }
    if (attention || nothing_left) {
      bool children = serve_ends(collector);
      if (collector->processes.count == 0 && collector->child_ended) {
        if (nobody_comes(collector, &lingering, children))
          return collector->child_status;
      } else {
        lingering = (struct lingering){0};
      }
    }
    if (collector->settings->keeper_pid && attached_is_over(collector))
      return 0;
    if (records > BUSY_RECORDS)
      continue;
    idle_passes = records ? 0 : idle_passes + 1;
    atomic_store(&collector->control->sleeping, 1);
    uint64_t sleep_ns = upkeep_sleep_ns(collector, idle_passes > IDLE_PASSES ? IDLE_NS : TICK_NS);
    if (atomic_load(&collector->control->wake) == seen)
      os_futex_wait((const uint32_t *)&collector->control->wake, seen, sleep_ns, true);
    atomic_store(&collector->control->sleeping, 0);
  }
}
