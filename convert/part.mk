# SPDX-License-Identifier: MIT
# Linked as objects: formats, options and parts of the profile register themselves. In the order of the files' names, in
# which `convert --list` has the formats.
CONVERT_COMPONENTS := $(filter-out convert/fuzz convert/test,$(patsubst %/,%,$(sort $(dir $(wildcard convert/*/*.c)))))
CONVERT_BELOW := core/command core/workload $(CORE_OF_FEATURES) core/elf $(TRACE)
CONVERT_LIBS := $(CORE_LIBS) -lzip -lm -ldw -lelf -pthread -ldl
c_in_order = $(foreach name,$(sort $(notdir $(1))),$(filter %/$(name),$(1)))
$(call c_components,$(CONVERT_COMPONENTS))
CONVERT_SOURCES := $(call c_in_order,$(call c_component_sources,$(CONVERT_COMPONENTS)))

# $(COMPILE): traces in, workloads out. $(IMPORT): sources; foreign formats in, traces out.
HISTORY := convert/history core/workload $(TRACE)
COMPILE := convert/compile convert/stacks core/elf $(HISTORY)
COMPILE_LIBS := $(CORE_LIBS) -ldw -lelf
IMPORT  := $(call c_component_sources,convert/foreign convert/formats)

$(call c_program,convert,$(CONVERT_SOURCES),$(CONVERT_BELOW),$(CONVERT_LIBS))
$(call c_sanitized,address,convert,$(CONVERT_SOURCES) $(call c_component_sources,$(CONVERT_BELOW)),$(CONVERT_LIBS))
$(call c_test,convert/test/allocation_wrappers_are_known_by_name.c,,convert/stacks core/elf $(TRACE),$(CORE_LIBS) -ldw -lelf)
$(call c_test,convert/test/overlaps_are_found_whatever_was_removed.c,,$(HISTORY),$(CORE_LIBS) -lm)
$(call c_test,convert/test/program_time_is_that_of_the_bare_run.c,,$(HISTORY),$(CORE_LIBS) -lm)
$(call c_test,convert/test/without_memory_a_command_ends_with_one_line_or_as_ever.c,$(filter-out %/convert_main.c,$(CONVERT_SOURCES)),$(CONVERT_BELOW),$(NO_MEMORY) $(CONVERT_LIBS))
$(call c_test_program,convert_server,convert/test/convert_server.c $(filter-out %/convert_main.c,$(CONVERT_SOURCES)),$(CONVERT_BELOW),$(CONVERT_LIBS))
$(call c_test_program,print_info,convert/test/print_info.c,convert/inspect $(HISTORY),$(CORE_LIBS) -lm)
$(call c_test_program,formats_that_recognise,convert/test/formats/formats_that_recognise.c $(IMPORT),$(HISTORY),$(CORE_LIBS) -lzip)
$(call c_fuzzer,convert/fuzz/fuzz_workload.c,convert/fuzz/workload_fuzzing.c,convert/inspect $(COMPILE) core/base,$(COMPILE_LIBS) -lm)

$(call c_fuzzer,convert/fuzz/fuzz_import.c,$(IMPORT),$(COMPILE),$(COMPILE_LIBS) -lzip)
$(call c_fuzzer,convert/fuzz/fuzz_rewrite.c,$(IMPORT) $(wildcard convert/accesses/access_order.c),convert/rewrite convert/copy $(HISTORY),$(CORE_LIBS) -lzip -lm)
$(call c_fuzzer,convert/fuzz/fuzz_group.c,,convert/whatif $(COMPILE) core/base,$(COMPILE_LIBS))
ifneq ($(wildcard convert/fuzz/importer_seeds.py),)
fuzzers: $(OUT)/corpus/.importers
$(OUT)/corpus/.importers: convert/fuzz/importer_seeds.py convert/test/formats/importer_samples.py $(wildcard convert/test/formats/data/*) | $(VENV)/.stamp
	$(VENV)/bin/python -m convert.fuzz.importer_seeds $(@D)
	@touch $@
endif
