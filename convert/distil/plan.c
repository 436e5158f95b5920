/* SPDX-License-Identifier: MIT */
#include "convert/distil/distil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns what is wrong with the window; NULL: nothing. */
static const char *take_window(struct distil_plan *plan, const json_t *row) {
  uint64_t positions[3];
  if (json_array_size(row) != 4)
    return "is not [begin, counted, end, weight]";
  for (size_t i = 0; i < 3; i++) {
    const json_t *position = json_array_get(row, i);
    if (!json_is_integer(position) || json_integer_value(position) < 0)
      return "has an invalid position";
    positions[i] = (uint64_t)json_integer_value(position);
  }
  const json_t *weight = json_array_get(row, 3);
  if (!json_is_number(weight) || !isfinite(json_number_value(weight)))
    return "has a weight that is not a number";
  if (positions[0] > positions[1] || positions[1] >= positions[2])
    return "does not rise, or is empty";
  if (plan->windows.count > 0 && positions[0] < plan->windows.at[plan->windows.count - 1].end)
    return "begins before the end of the one before it";
  if (plan->windows.count == DISTIL_WINDOWS_LIMIT)
    return "is one too many: at most 4096 are allowed";
  struct distil_window *added = vector_add(&plan->windows);
  if (!added)
    return "does not fit: out of memory";
  *added = (struct distil_window){positions[0], positions[1], positions[2], json_number_value(weight)};
  return NULL;
}

static int take_windows(struct distil_plan *plan, const json_t *windows, const char *name, struct error *error) {
  if (!json_is_array(windows))
    return error_set(error, name, "no windows");
  for (size_t i = 0; i < json_array_size(windows); i++) {
    const char *what = take_window(plan, json_array_get(windows, i));
    if (what)
      return error_set(error, name, "window %zu %s", i, what);
  }
  return 0;
}

static bool is_share(const json_t *value) {
  return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) <= 1;
}

/* Accepts only known keys: an unknown key would be ignored silently. */
static bool has_only_known(const json_t *object, const char *const *known, const char **unknown) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    const char *const *at = known;
    while (*at && strcmp(*at, key) != 0)
      at++;
    if (!*at) {
      *unknown = key;
      return false;
    }
  }
  return true;
}

static int take_large(struct distil_plan *plan, const json_t *large, const char *name, struct error *error) {
  const char *unknown;
  const json_t *bytes = json_object_get(large, "bytes"), *share = json_object_get(large, "share");
  if (!has_only_known(large, (const char *const[]){"bytes", "share", NULL}, &unknown))
    return error_set(error, name, "\"large\" has the unknown key \"%.64s\"", unknown);
  if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 || !is_share(share))
    return error_set(error, name, "\"large\" needs \"bytes\", a number of bytes, and \"share\", 0 to 1");
  plan->large_bytes = (uint64_t)json_integer_value(bytes);
  plan->large_share = json_number_value(share);
  return 0;
}

static int take_heap(struct distil_plan *plan, const json_t *object, const char *name, struct error *error) {
  const json_t *highs = json_object_get(object, "highs"), *heap = json_object_get(object, "heap");
  const char *text = heap ? json_string_value(heap) : "live";
  json_int_t parts = json_integer_value(highs);
  if (!text || (strcmp(text, "live") != 0 && strcmp(text, "touched") != 0))
    return error_set(error, name, "\"heap\" needs \"live\" or \"touched\"");
  if (highs && (!json_is_integer(highs) || parts < 0 || parts > DISTIL_HIGHS_LIMIT))
    return error_set(error, name, "\"highs\" needs a number of parts, %d at most", DISTIL_HIGHS_LIMIT);
  plan->heap = strcmp(text, "live") == 0 ? HEAP_LIVE : HEAP_TOUCHED;
  plan->highs = (uint64_t)parts;
  return 0;
}

static int take_plan(struct distil_plan *plan, const json_t *object, const char *name, struct error *error) {
  static const char *const known[] = {"windows", "heap", "highs", "churn", "large", "seed", "manifest", NULL};
  const json_t *churn = json_object_get(object, "churn"), *seed = json_object_get(object, "seed");
  json_t *manifest = json_object_get(object, "manifest");
  const char *unknown;
  if (!json_is_object(object))
    return error_set(error, name, "is not a JSON object");
  if (!has_only_known(object, known, &unknown))
    return error_set(error, name, "unknown key \"%.64s\"", unknown);
  if (churn && !is_share(churn))
    return error_set(error, name, "\"churn\" needs a share, 0 to 1");
  if (seed && !json_is_integer(seed))
    return error_set(error, name, "\"seed\" needs an integer");
  if (manifest && !json_is_object(manifest))
    return error_set(error, name, "\"manifest\" needs an object");
  plan->churn = json_number_value(churn);
  plan->seed = (uint64_t)json_integer_value(seed);
  plan->manifest = manifest ? json_incref(manifest) : json_object();
  if (take_heap(plan, object, name, error) != 0)
    return -1;
  const json_t *large = json_object_get(object, "large");
  if (large && take_large(plan, large, name, error) != 0)
    return -1;
  return take_windows(plan, json_object_get(object, "windows"), name, error);
}

int distil_plan_parse(struct distil_plan *plan, const char *text, size_t bytes, const char *name, struct error *error) {
  *plan = (struct distil_plan){.large_bytes = UINT64_MAX};
  json_error_t wrong;
  json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &wrong);
  if (!object)
    return error_at(error, name, wrong.position < 0 ? 0 : (uint64_t)wrong.position, "%s", wrong.text);
  int result = take_plan(plan, object, name, error);
  json_decref(object);
  return result;
}

void distil_plan_free(struct distil_plan *plan) {
  free(plan->windows.at);
  json_decref(plan->manifest);
}
