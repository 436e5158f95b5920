/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/calls/rings.h"

#include <pub_tool_clientstate.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_vkiscnums.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <x86intrin.h>

enum { OS_PAGE = 4096, SLOT = 16, LAST_SLOT = RING_RECORDS_BYTES - SLOT, PATIENCE_SECONDS = 30, WAIT_NS = 20000000 };

/* A ring in use, or one that a thread has left. */
struct track {
  struct ring *ring;
  HChar *memory;
  UInt at; /* where the next record goes */
  Bool is_used;
  ULong reported[MISSING_KINDS]; /* in DROPPED records */
};

static enum { NOT_ATTACHED, ATTACHED, OFF } state;
static struct control *control;
static struct bank *first_bank, *last_bank;
static UInt banks, last_bank_rings;
static UInt flags; /* enum attach_flags */
static struct track *tracks;
static UInt track_count, track_room, threads;
static UInt *of_thread; /* its track's number plus 1; 0: it has none */
static struct vg_stat first_stderr;

/* Valgrind has no such function for tools. Returns errors as the kernel does: minus errno. */
static Long make_system_call(UWord number, const UWord arguments[6]) {
  register UWord fourth __asm__("r10") = arguments[3];
  register UWord fifth __asm__("r8") = arguments[4], sixth __asm__("r9") = arguments[5];
  Long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                     "r"(sixth)
                   : "rcx", "r11", "memory");
  return result;
}
#define system_call(number, ...) make_system_call(number, (const UWord[6]){__VA_ARGS__})

/* A line on standard error, if it is still the file that it was at the first call. */
static void say(const HChar *line) {
  struct vg_stat now;
  if (VG_(fstat)(2, &now) == 0 && now.dev == first_stderr.dev && now.ino == first_stderr.ino)
    VG_(write)(2, line, (Int)VG_(strlen)(line));
}

/* Reads NAME:SECRET. */
static Bool read_setting(struct sockaddr_un *address, UInt *bytes, uint64_t *secret) {
  const HChar *setting = VG_(getenv)(HEAPTAPE_ENV), *colon = setting ? VG_(strchr)(setting, ':') : NULL;
  if (!colon || colon == setting || (SizeT)(colon - setting) >= sizeof address->sun_path - 1)
    return False;
  VG_(memset)(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  VG_(memcpy)(address->sun_path + 1, setting, (SizeT)(colon - setting));
  *bytes = (UInt)(offsetof(struct sockaddr_un, sun_path) + 1 + (SizeT)(colon - setting));
  *secret = VG_(strtoull16)(colon + 1, NULL);
  return True;
}

/* May the user be one that our name space lacks? */
static Bool is_hidden(UInt user) {
  HChar map[64] = "";
  Long fd = system_call(__NR_openat, (UWord)AT_FDCWD, (UWord) "/proc/self/uid_map", O_RDONLY, 0);
  if (fd >= 0) {
    system_call(__NR_read, (UWord)fd, (UWord)map, sizeof map - 1);
    system_call(__NR_close, (UWord)fd);
  }
  return user == ATTACH_UNMAPPED_USER && !attach_has_all_users(map);
}

/* One request, one reply with up to two descriptors; -1: there is none. */
static Bool ask(Int socket, struct attach_request *request, struct attach_reply *reply, Int fds[2]) {
  struct sockaddr_un address;
  UInt address_bytes;
  struct timeval patience = {PATIENCE_SECONDS, 0};
  union {
    HChar bytes[CMSG_SPACE(2 * sizeof(Int))];
    struct cmsghdr align;
  } rights;
  struct iovec part = {reply, sizeof *reply};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
  uint64_t secret;
  UInt listener[3]; /* process, user, group */
  UInt listener_bytes = sizeof listener;
  uint32_t own[3];
  if (!read_setting(&address, &address_bytes, &secret))
    return False;
  request->number = __rdtsc();
  request->proof = attach_proof(secret, request->number, ATTACH_HOST_SIDE);
  system_call(__NR_setsockopt, (UWord)socket, SOL_SOCKET, SO_RCVTIMEO, (UWord)&patience, sizeof patience);
  if (system_call(__NR_connect, (UWord)socket, (UWord)&address, address_bytes) != 0 ||
      system_call(__NR_getsockopt, (UWord)socket, SOL_SOCKET, SO_PEERCRED, (UWord)&listener, (UWord)&listener_bytes) !=
          0 ||
      system_call(__NR_getresuid, (UWord)&own[0], (UWord)&own[1], (UWord)&own[2]) != 0 ||
      !attach_trusts(listener[1], own, is_hidden(listener[1])) ||
      system_call(__NR_sendto, (UWord)socket, (UWord)request, sizeof *request, MSG_NOSIGNAL) != sizeof *request ||
      system_call(__NR_recvmsg, (UWord)socket, (UWord)&message, MSG_CMSG_CLOEXEC) != sizeof *reply ||
      reply->magic != ATTACH_MAGIC || reply->proof != attach_proof(secret, request->number, ATTACH_RECORDER_SIDE) ||
      reply->refused)
    return False;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  for (UInt number = 0; head && number < 2 && number < (head->cmsg_len - CMSG_LEN(0)) / sizeof(Int); number++)
    fds[number] = ((const Int *)CMSG_DATA(head))[number];
  return fds[0] >= 0;
}

/* Maps shared memory where Valgrind believes its own to be, so that it gives this place to nobody else. */
static void *map_shared(Int fd, SizeT bytes) {
  void *place = map_zeroed(bytes, "the recorder's rings");
  Long result = system_call(__NR_mmap, (UWord)place, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED | MAP_NORESERVE, (UWord)fd);
  return result == (Long)place ? place : NULL;
}

/* Gets a bank, the first one with the control page. */
static Bool take_bank(enum attach_kind kind) {
  Int fds[2] = {-1, -1};
  struct attach_reply reply = {.refused = 0};
  struct attach_request request = {.magic = ATTACH_MAGIC,
                                   .kind = kind,
                                   .forked = first_bank != NULL,
                                   .pid = VG_(getpid)(),
                                   .parent_pid = VG_(getppid)()};
  HChar program[OS_PAGE];
  VG_(client_fname)(program, sizeof program, True);
  const HChar *name = VG_(basename)(program);
  VG_(strncpy)(request.program, name, sizeof request.program - 1);
  VG_(strncpy)(request.allocator, name, sizeof request.allocator - 1);
  Long socket = system_call(__NR_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC);
  struct bank *bank = NULL;
  if (socket >= 0 && ask((Int)socket, &request, &reply, fds)) {
    if (reply.rings > 0 && reply.rings <= BANK_RINGS_MORE)
      bank = map_shared(fds[0], bank_bytes(reply.rings));
    if (kind == ATTACH_PROCESS)
      control = fds[1] >= 0 ? map_shared(fds[1], OS_PAGE) : NULL;
  }
  for (UInt number = 0; number < 2; number++)
    if (fds[number] >= 0)
      VG_(close)(fds[number]);
  if (socket >= 0)
    VG_(close)((Int)socket);
  if ((!bank || !control) && kind == ATTACH_PROCESS && !reply.refused)
    say("heaptape: " ATTACH_FAILED "\n");
  if (!bank || !control)
    return False;
  if (kind == ATTACH_PROCESS) {
    first_bank = bank;
    flags = reply.flags;
  }
  last_bank = bank;
  last_bank_rings = reply.rings;
  banks++;
  return True;
}

static Bool goes_on(void) {
  if (state == NOT_ATTACHED) {
    state = ATTACHED;
    if (!of_thread) {
      of_thread = VG_(calloc)("rings.threads", VG_N_THREADS, sizeof *of_thread);
      VG_(fstat)(2, &first_stderr);
    }
    if (!take_bank(ATTACH_PROCESS))
      state = OFF;
  } else if (state == ATTACHED && atomic_load(&first_bank->stop)) {
    state = OFF;
  } else if (state == ATTACHED && atomic_load(&control->collector_futex) & FUTEX_OWNER_DIED) {
    state = OFF;
    say("heaptape: " ATTACH_ENDED "\n");
  }
  return state == ATTACHED;
}

static void wake_recorder(void) {
  if (!atomic_exchange(&control->sleeping, 0))
    return;
  atomic_fetch_add(&control->wake, 1);
  system_call(__NR_futex, (UWord)&control->wake, FUTEX_WAKE, 1);
}

static void wait_for_room(struct ring *ring, UInt tail) {
  struct timespec wait = {0, WAIT_NS};
  UInt seen = atomic_load(&ring->drained);
  atomic_store(&ring->waiting, 1);
  if (atomic_load(&ring->tail) != tail)
    return;
  wake_recorder();
  system_call(__NR_futex, (UWord)&ring->drained, FUTEX_WAIT, seen, (UWord)&wait);
}

static void put_at(struct track *track, UInt next, ULong head, ULong word) {
  UInt tail;
  while ((tail = ring_tail(track->ring)) == next && goes_on())
    wait_for_room(track->ring, tail);
  if (state != ATTACHED)
    return;
  record_put((uint64_t *)(track->memory + track->at), head, word);
  track->at = next;
}

static void put(struct track *track, ULong head, ULong word) {
  if (track->at == LAST_SLOT)
    put_at(track, 0, RECORD_JUMP, 0);
  put_at(track, track->at + SLOT, head, word);
}

static struct track *free_track(void) {
  for (UInt number = 0; number < track_count; number++)
    if (!tracks[number].is_used)
      return &tracks[number];
  return NULL;
}

static struct track *new_track(void) {
  if (atomic_load(&last_bank->used) == last_bank_rings && (banks == BANKS_MAX || !take_bank(ATTACH_BANK)))
    return NULL;
  if (track_count == track_room) {
    track_room = track_room ? 2 * track_room : BANK_RINGS_FIRST;
    tracks = VG_(realloc)("rings.tracks", tracks, track_room * sizeof *tracks);
  }
  UInt number = atomic_load(&last_bank->used);
  struct track *track = &tracks[track_count++];
  *track =
      (struct track){.ring = &last_bank->rings[number],
                     .memory = (HChar *)last_bank + bank_header_bytes(last_bank_rings) + (SizeT)number * RING_BYTES};
  atomic_store(&track->ring->lap, RING_RECORDS_BYTES);
  atomic_store(&last_bank->used, number + 1);
  return track;
}

/* The thread's ring; NULL: it can have none, and the call is counted. */
static struct track *track_of(ThreadId thread) {
  if (of_thread[thread])
    return &tracks[of_thread[thread] - 1];
  struct track *left = free_track(), *track = left ? left : new_track();
  if (!track) {
    atomic_fetch_add(&first_bank->orphan, 1);
    return NULL;
  }
  track->is_used = True;
  atomic_store(&track->ring->owner, (UInt)system_call(__NR_gettid, 0));
  of_thread[thread] = (UInt)(track - tracks) + 1;
  if (left)
    put(track, RECORD_THREAD, threads);
  threads++;
  return track;
}

static void report_missing(struct track *track, enum missing why, ULong counted) {
  if (counted > track->reported[why])
    put(track, RECORD_DROPPED | (ULong)why << 8, counted - track->reported[why]);
  track->reported[why] = counted;
}

Bool rings_take_call(ThreadId thread) {
  struct track *track = goes_on() ? track_of(thread) : NULL;
  UInt paused = track ? atomic_load(&first_bank->paused) : 0;
  if (!track || paused & PAUSED_FROM_START)
    return False;
  if (paused) {
    atomic_fetch_add(&track->ring->skipped, 1);
    return False;
  }
  report_missing(track, MISSING_PAUSED, atomic_load(&track->ring->skipped));
  return True;
}

void rings_put(ThreadId thread, ULong head, ULong word) {
  if (state == ATTACHED && of_thread[thread])
    put(&tracks[of_thread[thread] - 1], head, word);
}

ULong rings_stamp(void) {
  if (flags & ATTACH_COUNTER)
    return atomic_fetch_add(&control->counter, 1) + 1;
  _mm_lfence();
  ULong stamp = __rdtsc();
  _mm_lfence();
  return stamp;
}

void rings_count_nested(ThreadId thread) {
  if (state == ATTACHED && of_thread[thread])
    atomic_fetch_add(&tracks[of_thread[thread] - 1].ring->nested, 1);
}

void rings_count_dropped(ThreadId thread) {
  if (state != ATTACHED || !of_thread[thread])
    return;
  struct track *track = &tracks[of_thread[thread] - 1];
  report_missing(track, MISSING_RING_FULL, atomic_fetch_add(&track->ring->dropped, 1) + 1);
}

void rings_thread_ends(ThreadId thread) {
  if (of_thread && of_thread[thread])
    tracks[of_thread[thread] - 1].is_used = False;
  if (of_thread)
    of_thread[thread] = 0;
}

void rings_forget(void) {
  if (state == ATTACHED)
    state = NOT_ATTACHED;
  for (ThreadId thread = 0; of_thread && thread < VG_N_THREADS; thread++)
    of_thread[thread] = 0;
  track_count = threads = banks = 0;
}
