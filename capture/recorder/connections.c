/* SPDX-License-Identifier: MIT */
#include "capture/recorder/connections.h"

#include "capture/recorder/command/describe.h"
#include "capture/recorder/command/report.h"
#include "capture/recorder/control.h"
#include "capture/recorder/ends.h"
#include "capture/recorder/processes/ring_reading.h"
#include "capture/recorder/processes/side_stream.h"
#include "capture/recorder/recording.h"
#include "capture/recorder/unfollowed.h"
#include "capture/recorder/upkeep.h"
#include "capture/recorder/ways.h"
#include "core/base/os.h"
#include "core/base/touched.h"
#include "core/system/peer.h"
#include "core/system/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* With SO_PASSCRED, each message comes with its sender, also one that was sent before its connection was accepted. */
static int listen_at(int fd, const struct sockaddr_un *address, socklen_t bytes) {
  int on = 1;
  return fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
                 bind(fd, (const struct sockaddr *)address, bytes) != 0
             ? -1
             : listen(fd, 4096);
}

static int make_socket(void) {
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Removes the files of our own that recorders left which were killed. A recorder in another PID name space may be
   between its bind and its listen, but its number is hardly that of a process here. */
static void remove_dead(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  DIR *folder = opendir(ATTACH_FOLDER);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    struct stat status;
    int pid, end = 0;
    if (sscanf(entry->d_name, "heaptape-%7d-%*8[0-9a-f]%n", &pid, &end) != 1 || !end || entry->d_name[end])
      continue;
    snprintf(address.sun_path, sizeof address.sun_path, ATTACH_FOLDER "%.60s", entry->d_name);
    if ((kill(pid, 0) == 0 || errno != ESRCH) || lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode) ||
        status.st_uid != geteuid())
      continue;
    int fd = make_socket();
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
      unlink(address.sun_path);
    os_close(fd);
  }
  if (folder)
    closedir(folder);
}

/* The socket with a path, where one can be made. All users may connect, as to the abstract one. */
static void open_path(struct collector *collector, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, ATTACH_FOLDER "%.60s", name);
  remove_dead();
  collector->other_socket = make_socket();
  mode_t mask = umask(0);
  bool bound = listen_at(collector->other_socket, &address, sizeof address) == 0;
  umask(mask);
  if (bound) {
    memcpy(collector->socket_path, address.sun_path, sizeof collector->socket_path);
  } else {
    os_close(collector->other_socket);
    collector->other_socket = -1;
  }
}

int connections_open(struct collector *collector) {
  uint64_t random[2];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return -1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  /* The length is constant: the position of the program's stack depends on the length of its environment. */
  int length =
      snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "heaptape-%07d-%08x", getpid(), (uint32_t)random[0]);
  collector->secret = random[1];
  char status[4096];
  collector->filters = proc_read_file(getpid(), "status", status, sizeof status) ? (uint32_t)proc_filters(status) : 0;
  if (collector->filters > ATTACH_FILTERS_MOST)
    collector->filters = ATTACH_FILTERS_MOST;
  snprintf(collector->address, sizeof collector->address, "%s:%016llx" ATTACH_FILTERS "%02x00%s%s",
           address.sun_path + 1, (unsigned long long)collector->secret, collector->filters,
           collector->settings->flags & ATTACH_DROP ? ATTACH_IMPATIENT : "",
           collector->settings->simulated ? ATTACH_SIMULATED : "");
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  collector->socket = make_socket();
  if (listen_at(collector->socket, &address, bytes) != 0)
    return -1;
  int users = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
  collector->hides_users = !proc_read(users, status, sizeof status) || !attach_has_all_users(status);
  os_close(users);
  if (!collector->settings->restorer_pid) {
    open_path(collector, address.sun_path + 1);
    return 0;
  }
  if (!proc_differs(collector->settings->first_pid, "ns/net"))
    return 0;
  collector->other_socket = attach_way()->socket(collector->settings->first_pid);
  return listen_at(collector->other_socket, &address, bytes);
}

void connections_close(struct collector *collector) {
  for (uint32_t i = 0; i < collector->pending_count; i++)
    close(collector->pending[i].fd);
  close(collector->socket);
  os_close(collector->other_socket);
  connections_unlink(collector);
}

void connections_unlink(const struct collector *collector) {
  if (collector->socket_path[0])
    unlink(collector->socket_path);
}

/* Redirects the functions of an allocator in the executable of a fresh image, which waits on the connection. */
static void redirect_linked(const struct pending *from, struct attach_request *request, struct attach_reply *reply) {
  if (request->forked || !request->linked.table || !linked_way())
    return;
  struct linked_result linked;
  linked_way()->redirect(&from->peer, from->fd, &request->linked, &linked);
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
  struct error error = {0};
  if (linked.complaint.used) {
    error_set(&error, program, "%s", linked.complaint.text);
    report_error(&error);
  }
}

/* Is that the process whose trace gets the requested name: the first one, or with --attach the attached one, even if a
   fork child of it calls first? */
static bool is_main(const struct collector *collector, int pid) {
  return !collector->has_main && (!collector->settings->restorer_pid || pid == collector->settings->first_pid);
}

static struct recorded_process *add_process(struct collector *collector, const struct attach_request *request,
                                            const struct pending *from) {
  if (!vector_reserve(&collector->processes, collector->processes.count + 1))
    return NULL;
  const struct user_page *page = collector_page(collector, from->peer.uid);
  int pid = from->peer.pid, pid_fd = page ? peer_pid_fd(from->fd, pid) : -1;
  if (pid_fd < 0 && errno == ESRCH) /* killed while it waited for us: it has recorded nothing */
    return NULL;
  char path[4096 + 32];
  bool is_the_main = is_main(collector, pid);
  if (is_the_main)
    describe_first_path(collector->settings, path, sizeof path);
  else
    describe_further_path(collector->settings, pid, path, sizeof path);
  struct describe_clock clock = {collector_counts(collector), collector_clock_hz(collector),
                                 page ? collector_stamp(collector, page->control) : 0};
  struct recorded_process *parent = request->forked ? collector_find(collector, request->parent_pid) : NULL;
  uint32_t paused = (parent ? parent->paused : collector->paused) & ~(uint32_t)PAUSED_BY_BUDGET;
  bool late = paused != 0 || collector->settings->restorer_pid;
  if (parent)
    ring_reading_drain_all(parent, NULL, NULL); /* what it set before it forked */
  char *info = describe_info(collector->settings, request, &clock, &(struct describe_past){late, parent});
  struct error error = {0};
  struct recorded_process *process = NULL;
  struct process_upkeep *upkeep = NULL;
  if (!info || upkeep_first_file(collector, &upkeep, path, sizeof path, &info) != 0)
    error_set(&error, path, "out of memory");
  else if (!page)
    error_set(&error, path, "no memory to share with user %u", from->peer.uid);
  else if (pid_fd < 0)
    error_set(&error, path, "process %d cannot be watched: no descriptor for it", pid);
  else
    process =
        recorded_process_open(&(struct recording_start){.pid = pid,
                                                        .pid_fd = pid_fd,
                                                        .path = path,
                                                        .info_json = info,
                                                        .file = is_the_main ? &collector->settings->output_fd : NULL,
                                                        .is_new = collector->settings->rotate_bytes && !is_the_main,
                                                        .origin_stamp = clock.origin_stamp,
                                                        .simulated = collector->settings->simulated,
                                                        .has_accesses = collector->settings->flags & ATTACH_ACCESSES,
                                                        .in_bursts = collector->settings->in_bursts},
                              &error);
  bool has_calls = info && !describe_lacks(info, "calls");
  free(info);
  if (!process) {
    process_upkeep_free(upkeep);
    os_close(pid_fd);
    report_error(&error);
    collector->outcome.refused++;
    return NULL;
  }
  if (request->bypassed && !request->forked) {
    error_set(&error, path, "the program, or a library before ours, defines malloc itself: its calls are not recorded");
    report_error(&error);
  }
  process->control = page->control;
  process->forked = request->forked;
  if (has_calls)
    balance_open(&process->balance, late || request->forked);
  process->settings.unknown = late || (request->forked && (!parent || recorded_process_settings_unknown(parent)));
  if (parent)
    settings_made_inherit(&process->settings, &parent->settings);
  process->linked = parent && parent->linked;
  process->parent_pid = request->parent_pid;
  process->number = collector->outcome.recorded;
  describe_program_name(request, process->name, sizeof process->name);
  process_banks_pause(process, paused, true);
  upkeep_process_begins(collector, process, upkeep);
  process_banks_set_bursts(process, parent ? parent->bursts : collector->bursts);
  process->latency = collector->settings->flags & ATTACH_LATENCY;
  process->names = collector->settings->describe_json != NULL;
  collector_watch(collector, pid_fd);
  collector->processes.at[collector->processes.count++] = process;
  collector->has_main |= is_the_main;
  if (collector->outcome.recorded++ == 0)
    control_first_process(collector);
  return process;
}

/* Is that process our own user's? A name space that lacks this user gives all that it lacks the same number: there,
   those in it are ours. */
static bool is_own(const struct collector *collector, const struct ucred *peer) {
  char path[64];
  struct stat its, ours;
  if (peer->uid != getuid() || peer->uid != ATTACH_UNMAPPED_USER || !collector->hides_users)
    return peer->uid == getuid();
  snprintf(path, sizeof path, "/proc/%d/ns/user", peer->pid);
  return stat(path, &its) == 0 && stat("/proc/self/ns/user", &ours) == 0 && its.st_dev == ours.st_dev &&
         its.st_ino == ours.st_ino;
}

/* May processes of that user attach, or control the recording? */
static bool may_come(unsigned user) {
  return user == getuid() || user == 0 || getuid() == 0;
}

static bool may_attach(const struct collector *collector, const struct attach_request *request,
                       const struct ucred *peer) {
  return !collector->ended && (peer->uid == getuid() || getuid() == 0) &&
         (collector->settings->follow || request->pid == collector->settings->first_pid);
}

/* Returns false where the process waits no longer. */
static bool reply_to(int connection, struct attach_reply *reply, const int *fds, size_t count) {
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
  return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof *reply;
}

static void answer_control(struct collector *collector, const struct pending *from, const char *text) {
  if (!from->own && from->peer.uid != 0)
    return; /* nor does its sender have another user: take_message */
  char *reply = control_request(collector, text);
  if (reply)
    send(from->fd, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
  free(reply);
}

/* Serves the other requests of a process that has attached. */
static void serve_addition(const struct collector *collector, int connection, struct recorded_process *process,
                           bool stacks, struct attach_reply *reply) {
  int fd = -1;
  if (process && stacks && (collector->settings->flags & ATTACH_STACKS))
    fd = recorded_process_add_stacks(process);
  else if (process && !stacks && (collector->settings->flags & ATTACH_ACCESSES) && side_stream_reader())
    fd = side_stream_reader()->open(process);
  if (fd >= 0 && !stacks)
    collector_watch(collector, process->side->fd);
  reply->refused = fd < 0;
  reply_to(connection, reply, &fd, fd >= 0);
  os_close(fd);
}

union message {
  struct attach_request attach;
  char text[512];
};

/* Receives the request: -1 where it is not from the process that connected, as another one that has inherited the
   connection may send in its name, after it has executed another program. */
static ssize_t take_message(const struct pending *from, union message *message) {
  union {
    char bytes[CMSG_SPACE(sizeof(struct ucred))]; /* no room for descriptors: they are dropped */
    struct cmsghdr align;
  } control;
  struct iovec part = {message, sizeof *message - 1};
  struct msghdr header = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t got = recvmsg(from->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&header) : NULL;
  struct ucred sender = {0};
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS)
    memcpy(&sender, CMSG_DATA(head), sizeof sender);
  return from->peer.pid > 0 && sender.pid == from->peer.pid && may_come(sender.uid) ? got : -1;
}

/* Serves a process that asks for its first memory, or for more. fds[0]: where the bank comes, or -1. */
static void serve_process(struct collector *collector, const struct pending *from, struct attach_request *request,
                          struct attach_reply *reply, int fds[2]) {
  bool first = request->kind == ATTACH_PROCESS;
  uint32_t most = first ? BANK_RINGS_FIRST : BANK_RINGS_MORE;
  uint32_t rings = request->rings == 0 || request->rings > most ? most : request->rings;
  struct recorded_process *process = collector_find(collector, from->peer.pid);
  if (first && process && process_banks_are_mapped(process)) {
    char name[NAME_MAX];
    snprintf(name, sizeof name, "program inside %s", process->name);
    unfollowed_add_known(collector, from->peer.pid, name, UNFOLLOWED_INNER);
    reply_to(from->fd, reply, NULL, 0);
    return;
  }
  if (first) {
    if (process)
      collector_end_process(collector, process, "exec", NULL);
    bool is_inner = unfollowed_attached(collector, from->peer.pid);
    redirect_linked(from, request, reply);
    reply->bypassed = request->bypassed;
    process = add_process(collector, request, from);
    if (process) {
      process->is_inner = is_inner;
      process->linked |= reply->linked.functions != 0;
    }
  }
  if (process)
    fds[0] = process_banks_add(process, rings);
  if (process && fds[0] < 0) {
    struct error error = {0};
    error_errno(&error, process->path,
                first ? "no shared memory for the process's rings: it is not recorded"
                      : "no shared memory for more rings: further threads are only counted");
    report_error(&error);
  }
  if (fds[0] >= 0) {
    fds[1] = first ? collector_page(collector, from->peer.uid)->fd : -1;
    reply->refused = 0;
    reply->rings = rings;
  }
  if (!reply_to(from->fd, reply, fds, fds[0] < 0 ? 0 : first ? 2 : 1) && first)
    unfollowed_lost(collector, from->peer.pid);
}

/* Serves the connection's request. Returns false if there is none yet. */
static bool serve_connection(struct collector *collector, const struct pending *from) {
  union message message;
  uint64_t touch_min_bytes = collector->settings->touch_min_bytes;
  struct attach_reply reply = {.magic = ATTACH_MAGIC,
                               .refused = 1,
                               .flags = collector->settings->flags,
                               .stack_depth = (uint16_t)collector->settings->stack_depth,
                               .stack_unwind = (uint16_t)collector->settings->stack_unwind,
                               .touch_min_bytes = touch_min_bytes ? touch_min_bytes : TOUCHED_MIN_BYTES};
  int fds[2] = {-1, -1};
  struct pollfd readable = {from->fd, POLLIN | POLLRDHUP, 0};
  if (poll(&readable, 1, 0) != 1)
    return false;
  ssize_t got = take_message(from, &message);
  struct attach_request request = message.attach;
  bool asks = got == sizeof request && request.magic == ATTACH_MAGIC &&
              request.proof == attach_proof(collector->secret, request.number, ATTACH_HOST_SIDE);
  if (readable.revents & (POLLHUP | POLLRDHUP)) { /* it has waited long enough and went on without us, or has ended */
    if (asks && request.kind == ATTACH_PROCESS)
      unfollowed_lost(collector, from->peer.pid);
    return true;
  }
  if (got > 0 && message.text[0] == '{') {
    message.text[got] = '\0';
    answer_control(collector, from, message.text);
    return true;
  }
  collector_end_reaped(collector, from->peer.pid);
  if (asks)
    reply.proof = attach_proof(collector->secret, request.number, ATTACH_RECORDER_SIDE);
  if (asks && request.pid != from->peer.pid) { /* in a PID namespace of its own */
    request.pid = from->peer.pid;
    request.parent_pid = proc_parent(from->peer.pid);
  }
  if (!asks || !may_attach(collector, &request, &from->peer))
    reply_to(from->fd, &reply, NULL, 0);
  else if (request.kind == ATTACH_STACK_AREA || request.kind == ATTACH_ACCESS_STREAM)
    serve_addition(collector, from->fd, collector_find(collector, from->peer.pid), request.kind == ATTACH_STACK_AREA,
                   &reply);
  else
    serve_process(collector, from, &request, &reply, fds);
  os_close(fds[0]);
  return true;
}

/* Connections that wait, of the same process, or of the same user. */
static uint32_t waiting_of(const struct collector *collector, const struct ucred *peer, bool by_process) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < collector->pending_count; i++) {
    const struct ucred *other = &collector->pending[i].peer;
    count += by_process ? other->pid == peer->pid : other->uid == peer->uid;
  }
  return count;
}

static uint32_t waiting_of_others(const struct collector *collector) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < collector->pending_count; i++)
    count += !collector->pending[i].own;
  return count;
}

/* Between its connect and its request a process may have to wait for a processor for any time. Its connection is kept,
   and neither the rings nor other processes wait. Its request, or its end, wakes us. A process has one such connection
   at a time; what is beyond the quotas is refused, and no connection of another user or process is closed for it. */
static void keep_pending(struct collector *collector, const struct pending *from) {
  bool full = !from->own && (waiting_of_others(collector) == PENDING_OF_OTHERS ||
                             waiting_of(collector, &from->peer, false) >= PENDING_OF_USER);
  if (full || waiting_of(collector, &from->peer, true) >= PENDING_OF_PROCESS) {
    unfollowed_lost(collector, from->peer.pid);
    close(from->fd);
    return;
  }
  collector->pending[collector->pending_count++] = *from;
  collector_watch(collector, from->fd);
}

/* The lowest free descriptor does not tell how many are free: those of closed connections lie between those of
   processes. */
uint32_t connections_lack(const struct collector *collector) {
  enum { OF_ONE_PROCESS = 16 };
  int taken[OF_ONE_PROCESS], count = 0;
  while (count < OF_ONE_PROCESS && (taken[count] = fcntl(collector->socket, F_DUPFD_CLOEXEC, 0)) >= 0)
    count++;
  for (int i = 0; i < count; i++)
    close(taken[i]);
  return OF_ONE_PROCESS - (uint32_t)count;
}

static bool own_are_full(const struct collector *collector) {
  return collector->pending_count - waiting_of_others(collector) == PENDING_OF_OWN;
}

/* The next connection; false: there is none. It waits in the backlog where we have no room for it. */
static bool accept_next(struct collector *collector, struct pending *from) {
  socklen_t bytes = sizeof from->peer;
  collector->crowded = own_are_full(collector) || connections_lack(collector) > 0;
  if (collector->crowded)
    return false;
  from->since_ns = os_monotonic_ns();
  from->fd = accept4(collector->socket, NULL, NULL, SOCK_CLOEXEC);
  if (from->fd < 0)
    from->fd = accept4(collector->other_socket, NULL, NULL, SOCK_CLOEXEC);
  if (from->fd >= 0 && getsockopt(from->fd, SOL_SOCKET, SO_PEERCRED, &from->peer, &bytes) != 0)
    from->peer = (struct ucred){0, (uid_t)-1, (gid_t)-1};
  from->own = from->fd >= 0 && is_own(collector, &from->peer);
  return from->fd >= 0;
}

/* Serves those that wait. Of our own user, so many that wait for so long without a request are not our hosts'. */
static void serve_pending(struct collector *collector) {
  static const uint64_t SILENT_NS = 10000000000u;
  bool full = own_are_full(collector);
  uint64_t now_ns = os_monotonic_ns();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < collector->pending_count; i++) {
    struct pending *from = &collector->pending[i];
    bool silent = full && from->own && now_ns - from->since_ns > SILENT_NS;
    if (serve_connection(collector, from) || silent)
      close(from->fd);
    else
      collector->pending[kept++] = *from;
  }
  collector->pending_count = kept;
}

/* Rings are read in between, whatever number of connections is made. */
void connections_serve(struct collector *collector) {
  enum { AT_ONCE = 512 };
  uint32_t accepted = 0;
  serve_pending(collector);
  for (struct pending from; accepted < AT_ONCE && accept_next(collector, &from); accepted++) {
    collector_served(collector);
    if (!may_come(from.peer.uid) || serve_connection(collector, &from))
      close(from.fd);
    else
      keep_pending(collector, &from);
  }
  if (accepted == AT_ONCE)
    atomic_store(&collector->attention, true);
}
