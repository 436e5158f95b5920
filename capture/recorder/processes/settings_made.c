/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/settings_made.h"

#include "core/base/json.h"
#include "core/trace/control_names.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SETTINGS = 1024 };

static void add(struct settings_made *settings, const struct setting_made *made) {
  struct setting_made *last = settings->list.count < MOST_SETTINGS ? vector_add(&settings->list) : NULL;
  if (last)
    *last = *made;
  else
    settings->unknown = true;
}

void settings_made_note(struct settings_made *settings, const struct trace_event *event) {
  uint8_t call = event->call & CALL_ID_MASK;
  if (!control_stays(call, event->param))
    return;
  for (size_t i = 0; i < settings->list.count && !control_repeats(call, event->param); i++)
    if (settings->list.at[i].call == call && settings->list.at[i].option == event->param) {
      memmove(&settings->list.at[i], &settings->list.at[i + 1],
              (--settings->list.count - i) * sizeof *settings->list.at);
      break;
    }
  add(settings, &(struct setting_made){event->param, event->size_bytes, call});
}

void settings_made_inherit(struct settings_made *settings, const struct settings_made *parents) {
  settings->unknown |= parents->unknown;
  for (size_t i = 0; i < parents->list.count; i++)
    add(settings, &parents->list.at[i]);
}

void settings_made_describe(const struct settings_made *settings, json_t *info) {
  json_t *before = json_array();
  for (size_t i = 0; i < settings->list.count; i++) {
    const struct setting_made *made = &settings->list.at[i];
    json_array_append_new(before, json_pack("[i,I,I]", made->call, (json_int_t)made->option, (json_int_t)made->value));
  }
  if (settings->list.count)
    json_object_set(info, "set_before", before);
  json_decref(before);
}

void settings_made_free(struct settings_made *settings) {
  free(settings->list.at);
  *settings = (struct settings_made){.unknown = true};
}
