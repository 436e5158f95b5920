/* exec in the same process ends one trace with "exec" and starts another, with as many threads as the new image has. */
#include "capture/test/hosts/recording.h"

#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc > 2)
    return 0;
  if (argc > 1) {
    for (int i = 0; i < 1000; i++)
      free(keep(malloc(100)));
    execl("/proc/self/exe", argv[0], "host", "again", NULL);
    return 1;
  }
  recording_directory();
  CHECK(record_self((const char *const[]){"-o", "t.tape", NULL}) == 0, "the host failed");
  char paths[4][256];
  CHECK(list_traces(paths, 4) == 2, "two traces were expected");
  struct recorded before = read_trace("t.tape", NULL, NULL);
  CHECK(strcmp(before.end, "exec") == 0 && before.calls[CALL_malloc] >= 1000, "end %s", before.end);
  struct recorded after = read_trace(strcmp(paths[0], "t.tape") ? paths[0] : paths[1], NULL, NULL);
  CHECK(strcmp(after.end, "exit") == 0 && after.events < 1000, "end %s", after.end);
  return 0;
}
