/* SPDX-License-Identifier: MIT */
/* A program whose address space is limited, so that our rings may not fit, behaves as without us; half of the address
   space remains for a single object. Where it is not recorded, that is printed. */
#include "capture/test/hosts/recording.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int limited(int mib) {
  size_t bytes = ((size_t)mib << 20) / (mib < 16 ? 8 : 2);
  char *object = keep(malloc(bytes));
  if (!object)
    return 3;
  memset(object, 1, bytes);
  free(object);
  for (int i = 0; i < 20000; i++)
    free(keep(malloc(100 + i % 1000)));
  return 0;
}

int host(void) {
  if (host_arguments[0])
    return limited(atoi(host_arguments[0]));
  /* Below 8 MiB the library itself, about 1 MiB with its dependencies, may be too much. The limit holds for the exec'ed
     image from its first mapping on. */
  for (int mib = 8; mib <= 64; mib *= 2) {
    fflush(stdout);
    int child = fork(), status;
    if (child == 0) {
      struct rlimit limit = {(rlim_t)mib << 20, (rlim_t)mib << 20};
      setrlimit(RLIMIT_AS, &limit);
      char number[12];
      snprintf(number, sizeof number, "%d", mib);
      execl("/proc/self/exe", "limited", "limited", number, NULL);
      _exit(9);
    }
    waitpid(child, &status, 0);
    printf("%d MiB: %#x\n", mib, (unsigned)status);
  }
  return 0;
}

int test(void) {
  same_as_bare(NULL, NULL);
  return 0;
}
