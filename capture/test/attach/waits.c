/* SPDX-License-Identifier: MIT */
/* A program for the tests of --attach: threads that wait in calls which the kernel does not restart itself, and one
   that allocates. Ends with its input: exit status 0 if all of them still waited. */
#include "core/test/usual.h"

#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static atomic_bool returned;
static int semaphore;

static void *wait_for_epoll(void *unused) {
  struct epoll_event event;
  epoll_wait(epoll_create1(0), &event, 1, 1000000);
  atomic_store(&returned, true);
  return unused;
}

static void *wait_for_semaphore(void *unused) {
  struct sembuf down = {0, -1, 0};
  semop(semaphore, &down, 1);
  atomic_store(&returned, true);
  return unused;
}

static void *wait_for_signal(void *unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigwaitinfo(&set, NULL);
  atomic_store(&returned, true);
  return unused;
}

static void *wait_for_data(void *unused) {
  struct timeval limit = {1000, 0};
  int pair[2];
  char byte;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
      setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0)
    recv(pair[0], &byte, 1, 0);
  atomic_store(&returned, true);
  return unused;
}

static void *wait_for_connection(void *unused) {
  struct sockaddr_un address = {.sun_family = AF_UNIX}; /* without a name: the kernel gives it one */
  struct timeval limit = {1000, 0};
  socklen_t bytes = sizeof address;
  int listening = socket(AF_UNIX, SOCK_STREAM, 0), busy = 0;
  if (bind(listening, (struct sockaddr *)&address, sizeof address.sun_family) == 0 && listen(listening, 0) == 0 &&
      getsockname(listening, (struct sockaddr *)&address, &bytes) == 0)
    while (!busy) {
      int connecting = socket(AF_UNIX, SOCK_STREAM, 0);
      busy = setsockopt(connecting, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
             connect(connecting, (struct sockaddr *)&address, bytes) != 0; /* all but the first one wait */
    }
  atomic_store(&returned, true);
  return unused;
}

static void *allocate(void *unused) {
  for (;;) {
    free(malloc(100));
    usleep(1000);
  }
  return unused;
}

int main(void) {
  void *(*const threads[])(void *) = {wait_for_epoll, wait_for_semaphore,  wait_for_signal,
                                      wait_for_data,  wait_for_connection, allocate};
  semaphore = semget(IPC_PRIVATE, 1, 0600);
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, threads[i], NULL) != 0)
      return 2;
  }
  for (char command; read(0, &command, 1) == 1;) {
    free(malloc(100));
    if (write(1, "\n", 1) != 1)
      return 2;
  }
  int status = atomic_load(&returned);
  semctl(semaphore, 0, IPC_RMID);
  return status;
}
