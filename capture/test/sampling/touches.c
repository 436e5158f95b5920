/* Objects of mappings of their own whose OS pages are written one after the other: as many page faults as pages, all of
   them in objects but for the first of each, which malloc itself touches. With `fork`, a child does it too. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OS_PAGE_BYTES = 4096 };

__attribute__((noinline)) static void touch(size_t bytes, int os_pages) {
  char *volatile object = malloc(bytes);
  for (int i = 1; i <= os_pages; i++)
    object[i * OS_PAGE_BYTES] = 1;
  free(object);
}

static void *touch_all(void *rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    touch(1000000, 100);
    touch(500000, 20);
  }
  return NULL;
}

int main(int argc, char **argv) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  mallopt(M_MMAP_THRESHOLD, 65536);
  const char *how = argc > 1 ? argv[1] : "";
  int child = strcmp(how, "fork") == 0 ? fork() : -1;
  pthread_t thread;
  if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, touch_all, (void *)5) == 0)
    pthread_join(thread, NULL);
  touch_all((void *)10);
  if (child > 0)
    waitpid(child, NULL, 0);
  return 0;
}
