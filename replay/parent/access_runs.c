/* SPDX-License-Identifier: MIT */
#include "replay/parent/access_runs.h"

static int make(struct run *run, const struct run_request *request, enum access_mode mode, struct error *error) {
  struct run_request only = *request;
  only.access_mode = mode;
  if (mode != ACCESS_INDEPENDENT)
    only.progress_fd = -1;
  if (mode == ACCESS_OWN_SHARE) {
    only.preloads = only.settings = NULL;
    only.null_allocator = true;
  }
  return run_engine(run, &only, error);
}

int access_runs_make(struct access_runs *runs, const struct run_request *request, struct error *error) {
  *runs = (struct access_runs){.own_share.result = NULL};
  if (!request->accesses)
    return error_set(error, request->path, "the accesses pass performs recorded accesses, but none were given");
  if (access_stream_check(&runs->stream, request->accesses, request->ops, request->slots, error) != 0)
    return -1;
  if (runs->stream.has_bursts) /* the CPU time of calls outside and inside of bursts could not be separated */
    return error_set(error, request->accesses, "recorded in bursts: the pass accesses needs a whole recording");
  if (make(&runs->own_share, request, ACCESS_OWN_SHARE, error) != 0 ||
      make(&runs->independent, request, ACCESS_INDEPENDENT, error) != 0)
    return -1;
  return make(&runs->dependent, request, ACCESS_DEPENDENT, error);
}

void access_runs_free(struct access_runs *runs) {
  run_free(&runs->own_share);
  run_free(&runs->independent);
  run_free(&runs->dependent);
}
