/* SPDX-License-Identifier: MIT */
#include "capture/recorder/collector.h"

#include "capture/recorder/connections.h"
#include "capture/recorder/ends.h"
#include "capture/recorder/processes/ring_reading.h"
#include "capture/recorder/unfollowed.h"
#include "capture/recorder/upkeep.h"
#include "core/base/os.h"
#include "core/system/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  TICK_NS = 1000000,
  SAMPLE_NS = 10000000,
  IDLE_NS = 10000000,    /* the tick's period when idle */
  IDLE_PASSES = 100,     /* idle after this many passes without a record */
  LINGER_NS = 500000000, /* wait for an orphan that has not yet made its first call, although it could run */
  BUSY_RECORDS = 4096,   /* a pass that found more is followed by another at once */
};

/* Wait for an orphan that could run but waits for a processor, on a busy machine. */
static const uint64_t LINGER_MOST_NS = 30000000000u;

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

int collector_open(struct collector **out, const struct collector_settings *settings, struct error *error) {
  struct collector *collector = calloc(1, sizeof *collector);
  *out = collector;
  if (!collector)
    return error_set(error, "collector", "out of memory");
  collector->settings = settings;
  collector->socket = collector->other_socket = collector->epoll = -1;
  collector->origin = os_read_clocks(CLOCK_MONOTONIC);
  collector->robust.list.next = &collector->robust.list;
  collector->robust.futex_offset = (long)(os_page_bytes() + offsetof(struct control, collector_futex));
  syscall(SYS_set_robust_list, &collector->robust, sizeof collector->robust);
  if (!collector_page(collector, getuid()) || connections_open(collector) != 0 ||
      (collector->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
    return error_errno(error, "collector", "cannot make socket or shared memory");
  collector_watch(collector, collector->socket);
  if (collector->other_socket >= 0)
    collector_watch(collector, collector->other_socket);
  /* Orphans become our children, so that we know when no unrecorded child is left that might yet make its first
     call. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int failed = pthread_create(&collector->waker, NULL, wake_loop, collector);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  errno = failed;
  return failed ? error_errno(error, "collector", "cannot make a thread") : 0;
}

void collector_close(struct collector *collector) {
  pthread_cancel(collector->waker);
  pthread_join(collector->waker, NULL);
  connections_close(collector);
  close(collector->epoll);
  collector_free_pages(collector);
  free(collector->processes.at);
  free(collector->unfollowed.at);
  free(collector->executed.at);
  free(collector->attached.at);
  free(collector);
}

/* Ends a process that we have reaped; how: the data of its /proc entry while it was a zombie. */
static void reaped_process(struct collector *collector, struct recorded_process *process, struct process_end *how,
                           int status, const struct rusage *usage) {
  how->status_known = true;
  how->status = status;
  /* The peak that wait4 returns includes children that the process reaped, and its image before an exec: for our child,
     this is the recorder; for an orphan, any program. */
  uint64_t peak_bytes = (uint64_t)usage->ru_maxrss * 1024;
  bool first = process->pid == collector->settings->first_pid && peak_bytes > collector->own_peak_bytes;
  if (!how->reaped_children && (process->forked || first))
    how->usage.peak_rss_bytes = peak_bytes;
  if (!how->reaped_children) { /* finer than /proc's clock ticks */
    how->usage.user_ns = (uint64_t)usage->ru_utime.tv_sec * 1000000000u + (uint64_t)usage->ru_utime.tv_usec * 1000u;
    how->usage.system_ns = (uint64_t)usage->ru_stime.tv_sec * 1000000000u + (uint64_t)usage->ru_stime.tv_usec * 1000u;
  }
  collector_end_process(collector, process, collector_end_of(how), how);
}

/* Reaps our child and adopted orphans, after reading what the zombie's /proc entry still has. Returns false if there
   are no children at all. */
static bool reap(struct collector *collector) {
  siginfo_t info = {0};
  errno = 0;
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    int pid = info.si_pid, status;
    collector_end_reaped(collector, pid);
    struct recorded_process *process = collector_find(collector, pid);
    struct process_end how = process_end_read(-1, process ? process->sampler.stat_fd : -1);
    struct rusage usage;
    if (pid == collector->settings->first_pid)
      collector->outcome.child_ended = true; /* first: no signal is sent to its number any more */
    if (wait4(pid, &status, WNOHANG, &usage) != pid)
      return true;
    if (pid == collector->settings->first_pid)
      collector->child_status = status;
    if (pid == collector->settings->restorer_pid) {
      collector->restorer_ended = true;
      collector->outcome.restorer_status = status;
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
    children = reap(collector); /* it may be our child, and have ended since */
    if (collector_find(collector, pid) == process) {
      struct process_end how = process_end_read(process->pid_fd, process->sampler.stat_fd);
      collector_end_process(collector, process, collector_end_of(&how), &how);
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
  collector_advance_ticks(collector);
}

static uint64_t drain_all(struct collector *collector) {
  uint64_t records = 0;
  for (uint32_t i = 0; i < collector->processes.count; i++)
    records += ring_reading_drain_all(collector->processes.at[i], tick, collector);
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
    recorded_process_sample(process, collector_stamp(collector, process->control));
    if (process->sampler.executed) {
      unfollowed_executed(collector, process->pid);
      collector_end_process(collector, process, "exec", NULL);
      i--;
      continue;
    }
    sampler_plan(&process->sampler, now_ns, base_ns, collector->processes.count);
  }
}

/* The peak of this image. Getrusage's peak would include that of the program that executed us, which our child does not
   inherit. */
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
  int children[CHILDREN_MOST];
  size_t count = proc_children(getpid(), children, CHILDREN_MOST);
  bool held_up = false;
  for (size_t i = 0; i < count && !held_up; i++) {
    char state = proc_thread_state(children[i], children[i]);
    held_up = state == 'R' || state == 'D';
  }
  return held_up;
}

struct lingering {
  uint64_t since_ns, checked_ns, quiet_ns; /* since_ns 0: the collector is not waiting for orphans */
};

/* Called when no process is recorded any more and the first has ended: is it time to end, although there are children?
   While the collector itself waited for a processor, it could not check them. */
static bool has_lingered(const struct collector *collector, struct lingering *lingering) {
  uint64_t now_ns = os_monotonic_ns(), passed_ns = now_ns - lingering->checked_ns;
  if (!lingering->since_ns)
    lingering->since_ns = now_ns, passed_ns = 0;
  lingering->checked_ns = now_ns;
  lingering->quiet_ns += passed_ns < 2 * IDLE_NS ? passed_ns : 2 * IDLE_NS;
  if (collector->pending_count > 0 || a_child_is_held_up())
    lingering->quiet_ns = 0;
  return lingering->quiet_ns > LINGER_NS || now_ns - lingering->since_ns > LINGER_MOST_NS;
}

/* Called as has_lingered is: will no process ask to be recorded any more? Connections are served first, as poll may not
   have shown one yet. children: the recorder has child processes left. */
static bool nobody_comes(struct collector *collector, struct lingering *lingering, bool children) {
  if (collector->ended)
    return true;
  if (children && !has_lingered(collector, lingering))
    return false;
  connections_serve(collector);
  return collector->processes.count == 0 && (collector->pending_count == 0 || has_lingered(collector, lingering));
}

/* With --attach: is there nothing more to record, as the process or the recording has ended? */
static bool attached_is_over(struct collector *collector) {
  if (atomic_load(&collector->stopping) && !collector->ended)
    collector_end_recording(collector, "the recorder was stopped: later events are not in the trace");
  else if (collector->restorer_ended && !collector->ended)
    collector_end_recording(collector, "the program has ended, or has executed another one");
  if (!collector->ended && collector->has_main && collector->processes.count == 0)
    connections_serve(collector); /* fork children that we don't know of yet */
  return collector->ended || (collector->has_main && collector->processes.count == 0);
}

/* Processes of other users can't wake us: half a ring is room for the records of 30 M calls per second meanwhile. */
static uint64_t idle_ns(const struct collector *collector, uint32_t idle_passes) {
  bool idle = idle_passes > IDLE_PASSES;
  return collector->pages.count == 1 ? (idle ? IDLE_NS : TICK_NS) : (idle ? TICK_NS : TICK_NS / 4);
}

int collector_serve(struct collector *collector) {
  struct lingering lingering = {0};
  uint32_t idle_passes = 0;
  collector_watch(collector, (int)syscall(SYS_pidfd_open, collector->settings->first_pid, 0));
  control_begin(collector);
  upkeep_begin(collector);
  collector->own_peak_bytes = own_peak_bytes();
  for (;;) {
    uint32_t seen = atomic_load(&collector->control->wake);
    tick(collector);
    bool attention = atomic_exchange(&collector->attention, false);
    if (attention || collector->crowded)
      connections_serve(collector);
    if (atomic_exchange(&collector->toggle, false))
      control_toggle(collector);
    int burst = atomic_exchange(&collector->burst, BURST_NOT_REQUESTED);
    if (burst != BURST_NOT_REQUESTED)
      control_burst(collector, (enum burst_request)burst);
    uint64_t records = drain_all(collector);
    sample_all(collector);
    if (!collector->ended)
      unfollowed_serve(collector);
    control_keep_limits(collector);
    upkeep_serve(collector);
    bool nothing_left = collector->processes.count == 0 && collector->outcome.child_ended;
    if (collector->outcome.child_ended && atomic_load(&collector->stopping)) {
      collector_end_recording(collector, "the recorder was stopped");
      return collector->child_status;
    }
    if (attention || nothing_left) {
      bool children = serve_ends(collector);
      if (collector->processes.count == 0 && collector->outcome.child_ended) {
        if (nobody_comes(collector, &lingering, children))
          return collector->child_status;
      } else {
        lingering = (struct lingering){0};
      }
    }
    if (collector->settings->restorer_pid && attached_is_over(collector))
      return 0;
    if (records > BUSY_RECORDS)
      continue;
    idle_passes = records ? 0 : idle_passes + 1;
    atomic_store(&collector->control->sleeping, 1);
    uint64_t sleep_ns = upkeep_sleep_ns(collector, idle_ns(collector, idle_passes));
    if (atomic_load(&collector->control->wake) == seen)
      os_futex_wait((const uint32_t *)&collector->control->wake, seen, sleep_ns, true);
    atomic_store(&collector->control->sleeping, 0);
  }
}
