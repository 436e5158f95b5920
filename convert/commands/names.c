/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"
#include "convert/stacks/site_names.h"
#include "convert/stacks/symbols.h"

#include <string.h>

static int add_modules(struct symbols *symbols, const json_t *modules, const char *in, struct error *error) {
  size_t index;
  const json_t *module;
  json_array_foreach(modules, index, module) {
    json_int_t start, end, bias;
    struct trace_module record = {0};
    if (json_unpack((json_t *)module, "{s:s,s?s,s?s,s:I,s:I,s:I}", "name", &record.name, "path", &record.path,
                    "build_id", &record.build_id, "start", &start, "end", &end, "bias", &bias) != 0)
      return error_set(error, in, "a module lacks its name, start, end or bias");
    record.start = (uint64_t)start;
    record.end = (uint64_t)end;
    record.bias = (uint64_t)bias;
    if (symbols_add_module(symbols, &record) != 0)
      return error_set(error, in, "out of memory");
  }
  return 0;
}

static int add_instructions(struct symbols *symbols, const json_t *instructions, const char *in, struct error *error) {
  size_t index;
  const json_t *instruction;
  json_array_foreach(instructions, index, instruction) {
    if (!json_is_integer(instruction))
      return error_set(error, in, "an instruction is not a number");
    if (symbols_add_instruction(symbols, (uint64_t)json_integer_value(instruction)) != 0)
      return error_set(error, in, "out of memory");
  }
  return 0;
}

static json_t *frames_of(struct symbols *symbols, uint32_t node) {
  json_t *frames = frames_json(symbols, node, false), *frame;
  size_t i;
  json_array_foreach(frames, i, frame) {
    const char *function = json_string_value(json_object_get(frame, "function"));
    if (function && is_allocation_wrapper(function))
      json_object_set_new(frame, "wrapper", json_true());
  }
  return frames;
}

static int print_names(const json_t *request, const char *in, struct error *error) {
  struct symbols *symbols = symbols_new();
  int result = symbols ? 0 : error_set(error, in, "out of memory");
  if (result == 0 &&
      (!json_is_array(json_object_get(request, "modules")) || !json_is_array(json_object_get(request, "instructions"))))
    result = error_set(error, in, "has no lists \"modules\" and \"instructions\"");
  if (result == 0)
    result = add_modules(symbols, json_object_get(request, "modules"), in, error);
  if (result == 0)
    result = add_instructions(symbols, json_object_get(request, "instructions"), in, error);
  json_t *list = json_array();
  for (uint32_t node = 1; result == 0 && node <= symbols_nodes(symbols); node++)
    json_array_append_new(list, frames_of(symbols, node));
  if (result == 0)
    result = print_json(json_pack("{s:O}", "names", list)) == EXIT_DONE ? 0 : 1;
  json_decref(list);
  symbols_close(symbols);
  return result;
}

static int run_names(void *none, struct cli_words words) {
  (void)none;
  struct error error = {0};
  json_error_t reason;
  const char *in = words.at[0];
  json_t *request = strcmp(in, "-") == 0 ? json_loadf(stdin, 0, &reason) : json_load_file(in, 0, &reason);
  int result =
      request ? print_names(request, in, &error) : error_set(&error, in, "offset %d: %s", reason.position, reason.text);
  json_decref(request);
  return result == 0 ? EXIT_DONE : result > 0 ? EXIT_FAILED : failed(&error);
}

static const struct cli_command command_names = {
    .called = "heaptape-convert names",
    .summary = "names of instructions of a process",
    .synopsis = "F",
    .details = "Names instructions of a process. F, or standard input for -, has {\"modules\": [{\"name\", \"path\", "
               "\"build_id\", \"start\", \"end\", \"bias\"}], \"instructions\": [N]}. Prints {\"names\": "
               "[[{\"function\", \"file\", \"line\", \"module\", \"offset\", \"wrapper\"}]]}: for each instruction its "
               "functions, innermost first.",
    .least = 1,
    .most = 1,
    .turn = 7,
    .run = run_names};
REGISTER_COMMAND(command_names);
