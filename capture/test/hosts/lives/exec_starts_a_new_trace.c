/* SPDX-License-Identifier: MIT */
/* exec in the same process ends one trace with "exec" and starts another, with as many threads as the new image has. */
#include "capture/test/hosts/recording.h"

#include <string.h>
#include <unistd.h>

int host(void) {
  if (host_arguments[0])
    return 0;
  for (int i = 0; i < 1000; i++)
    free(keep(malloc(100)));
  execl("/proc/self/exe", "/proc/self/exe", "host", "again", NULL);
  return 1;
}

int test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  char paths[4][256];
  CHECK(list_traces(paths, 4) == 2, "two traces were expected");
  struct recorded before = read_trace("t.tape", NULL, NULL);
  CHECK(strcmp(before.end, "exec") == 0 && before.calls[CALL_malloc] >= 1000, "end %s", before.end);
  struct recorded after = read_trace(strcmp(paths[0], "t.tape") ? paths[0] : paths[1], NULL, NULL);
  CHECK(strcmp(after.end, "exit") == 0 && after.events < 1000, "end %s", after.end);
  return 0;
}
