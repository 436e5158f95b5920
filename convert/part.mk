# SPDX-License-Identifier: MIT
CONVERT_COMPONENTS := $(addprefix convert/,commands inspect rewrite compile whatif stacks formats history)
$(call c_components,$(filter-out convert/formats,$(CONVERT_COMPONENTS)))
$(call c_registry,convert/formats,convert/foreign)

# $(COMPILE): traces in, workloads out. $(IMPORT): foreign formats in, traces out.
HISTORY := convert/history core/workload $(TRACE)
COMPILE := convert/compile convert/whatif convert/stacks core/elf $(HISTORY)
COMPILE_LIBS := $(CORE_LIBS) -ldw -lelf
IMPORT  := convert/formats

$(call c_program,convert,convert/commands/convert_main.c,$(CONVERT_COMPONENTS) core/command core/workload core/sharing core/elf $(TRACE),$(CORE_LIBS) -lzip -lm -ldw -lelf -pthread -ldl)
$(call c_sanitized,address,convert,$(call c_component_sources,$(CONVERT_COMPONENTS) convert/foreign core/command core/workload core/sharing core/elf $(TRACE)),$(CORE_LIBS) -lzip -lm -ldw -lelf -pthread -ldl)
$(call c_test,convert/test/allocation_wrappers_are_known_by_name.c,,convert/stacks core/elf $(TRACE),$(CORE_LIBS) -ldw -lelf)
$(call c_test,convert/test/overlaps_are_found_whatever_was_removed.c,,$(HISTORY),$(CORE_LIBS) -lm)
$(call c_test,convert/test/program_time_is_that_of_the_bare_run.c,,$(HISTORY),$(CORE_LIBS) -lm)
$(call c_test,convert/test/without_memory_a_command_ends_with_one_line_or_as_ever.c,,$(CONVERT_COMPONENTS) core/command core/workload core/sharing core/elf $(TRACE),$(NO_MEMORY) $(CORE_LIBS) -lzip -lm -ldw -lelf -pthread -ldl)
$(call c_test_program,convert_server,convert/test/convert_server.c,$(CONVERT_COMPONENTS) core/command core/workload core/sharing core/elf $(TRACE),$(CORE_LIBS) -lzip -lm -ldw -lelf -pthread -ldl)
$(call c_test_program,print_info,convert/test/print_info.c,convert/inspect $(HISTORY),$(CORE_LIBS) -lm)
$(call c_test_program,formats_that_recognise,convert/test/formats_that_recognise.c,$(IMPORT) $(HISTORY),$(CORE_LIBS) -lzip)
$(call c_bench,convert/bench/bench_trace.c,,$(TRACE),$(CORE_LIBS))
$(call c_fuzzer,convert/fuzz/fuzz_workload.c,convert/fuzz/workload_fuzzing.c,convert/inspect $(COMPILE) core/sharing core/base,$(COMPILE_LIBS) -lm)

$(call c_fuzzer,convert/fuzz/fuzz_import.c,,$(IMPORT) $(COMPILE),$(COMPILE_LIBS) -lzip)
$(call c_fuzzer,convert/fuzz/fuzz_rewrite.c,,convert/rewrite $(IMPORT) $(HISTORY),$(CORE_LIBS) -lzip -lm)
$(call c_fuzzer,convert/fuzz/fuzz_group.c,,$(COMPILE) core/base,$(COMPILE_LIBS))
fuzzers: $(OUT)/corpus/.importers
$(OUT)/corpus/.importers: convert/fuzz/importer_seeds.py convert/test/importer_samples.py $(wildcard convert/test/data/*) | $(VENV)/.stamp
	$(VENV)/bin/python -m convert.fuzz.importer_seeds $(@D)
	@touch $@
