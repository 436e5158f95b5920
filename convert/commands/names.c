/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/stacks/site_names.h"
#include "convert/stacks/symbols.h"

#include <string.h>

static int wrong(const char *in, const char *what, struct error *error) {
  return error_set(error, in, "%s", what);
}

static int add_modules(struct symbols *symbols, const json_t *modules, const char *in, struct error *error) {
  size_t index;
  const json_t *module;
  json_array_foreach(modules, index, module) {
    json_int_t start, end, bias;
    struct trace_module record = {0};
    if (json_unpack((json_t *)module, "{s:s,s?s,s?s,s:I,s:I,s:I}", "name", &record.name, "path", &record.path,
                    "build_id", &record.build_id, "start", &start, "end", &end, "bias", &bias) != 0)
      return wrong(in, "a module lacks its name, start, end or bias", error);
    record.start = (uint64_t)start;
    record.end = (uint64_t)end;
    record.bias = (uint64_t)bias;
    if (symbols_add_module(symbols, &record) != 0)
      return wrong(in, "out of memory", error);
  }
  return 0;
}

static int add_instructions(struct symbols *symbols, const json_t *instructions, const char *in, struct error *error) {
  size_t index;
  const json_t *instruction;
  json_array_foreach(instructions, index, instruction) {
    if (!json_is_integer(instruction))
      return wrong(in, "an instruction is not a number", error);
    if (symbols_add_instruction(symbols, (uint64_t)json_integer_value(instruction)) != 0)
      return wrong(in, "out of memory", error);
  }
  return 0;
}

static json_t *frames_of(struct symbols *symbols, uint32_t node) {
  json_t *list = json_array();
  size_t count;
  const struct symbol *symbol = symbols_of(symbols, node, &count);
  for (size_t i = 0; i < count; i++) {
    json_t *frame = symbol_json(&symbol[i]);
    if (frame && symbol[i].function && is_allocation_wrapper(symbol[i].function))
      json_object_set_new(frame, "wrapper", json_true());
    json_array_append_new(list, frame);
  }
  return list;
}

static int print_names(const json_t *request, const char *in, struct error *error) {
  struct symbols *symbols = symbols_new();
  int result = symbols ? 0 : wrong(in, "out of memory", error);
  if (result == 0 &&
      (!json_is_array(json_object_get(request, "modules")) || !json_is_array(json_object_get(request, "instructions"))))
    result = wrong(in, "has no lists \"modules\" and \"instructions\"", error);
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

static int run(struct cli_words words) {
  struct error error = {""};
  json_error_t reason;
  int status = cli_parse(&convert_program, &command_names, NULL, &words);
  if (status != CLI_RUN)
    return status;
  const char *in = words.at[0];
  json_t *request = strcmp(in, "-") == 0 ? json_loadf(stdin, 0, &reason) : json_load_file(in, 0, &reason);
  int result =
      request ? print_names(request, in, &error) : error_set(&error, in, "offset %d: %s", reason.position, reason.text);
  json_decref(request);
  return result == 0 ? EXIT_DONE : result > 0 ? EXIT_FAILED : failed(&error);
}

const struct cli_command command_names = {
    .called = "heaptape-convert names",
    .summary = "names of instructions of a process",
    .synopsis = "F",
    .details = "Names instructions of a process. F, or standard input for -, has {\"modules\": [{\"name\", \"path\", "
               "\"build_id\", \"start\", \"end\", \"bias\"}], \"instructions\": [N]}. Prints {\"names\": "
               "[[{\"function\", \"file\", \"line\", \"module\", \"offset\", \"wrapper\"}]]}: for each instruction its "
               "functions, innermost first.",
    .least = 1,
    .most = 1,
    .run = run};
