/* SPDX-License-Identifier: MIT */
/* A server that starts a thread for each request: it starts, allocates objects, frees most of them, leaves some to its
   session, and ends. Sessions last for several requests; the main thread frees the objects of an ended session. Shows
   the cost to an allocator of a thread's start and end, and how it uses the memory of ended threads.

   Our own shape, for the classic inetd and CGI-like threaded servers, and for runtimes without thread pools. */
#include "workloads/synthetic/pattern.h"

static uint64_t requests = 2000, concurrent = 8, objects = 200, kept_objects = 10, session_requests = 16,
                lowest_bytes = 16, highest_bytes = 2048;

/* A place in the server: its threads run one after the other and share a session. */
struct place {
  struct actor actor;
  uint64_t request; /* the present one's number */
  uint64_t kept;
  object_ref *session, *temporary;
};

static void serve(struct actor *actor, void *argument) {
  struct place *place = argument;
  struct rng rng = rng_seed(pattern_seed, place->request);
  for (uint64_t i = 0; i < objects; i++)
    place->temporary[i] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
  for (uint64_t i = 0; i < kept_objects; i++)
    place->session[place->kept++] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
  for (uint64_t i = objects; i > 0; i--)
    do_free(actor, place->temporary[i - 1]);
}

static void end_session(struct actor *actor, struct place *place) {
  for (uint64_t i = 0; i < place->kept; i++)
    do_free(actor, place->session[i]);
  place->kept = 0;
}

static void run(struct actor *actor) {
  struct place *place = pattern_array(concurrent, sizeof *place);
  for (uint64_t p = 0; p < concurrent; p++) {
    place[p].session = pattern_array(session_requests * kept_objects + 1, sizeof(object_ref));
    place[p].temporary = pattern_array(objects, sizeof(object_ref));
  }
  for (uint64_t request = 0; request < requests + concurrent; request++) {
    struct place *at = &place[request % concurrent];
    if (request >= concurrent && request - concurrent < requests) {
      actor_join(actor, &at->actor);
      if ((request - concurrent) / concurrent % session_requests == session_requests - 1)
        end_session(actor, at);
    }
    at->request = request;
    if (request < requests)
      actor_start(actor, &at->actor, serve, at);
  }
  for (uint64_t p = 0; p < concurrent; p++)
    end_session(actor, &place[p]);
}

static const struct option_number options[] = {
    {"requests", &requests, 1, 1 << 20, "a thread each"},
    {"concurrent", &concurrent, 1, 10000, "threads at a time"},
    {"objects", &objects, 1, 1 << 28, "that a request allocates and frees"},
    {"kept", &kept_objects, 0, 1 << 20, "objects of a request that its session keeps"},
    {"session", &session_requests, 1, 1 << 20, "requests of a session"},
    {"lowest", &lowest_bytes, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 40, "largest request in bytes"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "a server with a thread for each request", .options = options, .run = run};
