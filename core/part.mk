# SPDX-License-Identifier: MIT
# The common base. Depends on nothing above it.
CORE_LIBS := -lzstd -lz -ljansson

# What of core/ goes with a feature.
CORE_OF_FEATURES := $(wildcard core/sharing)
$(call c_components,core/base core/command core/elf core/isolated core/system core/trace core/trace/write core/trace/read core/workload $(CORE_OF_FEATURES))

# $(TRACE): reads and writes traces. $(WORKLOAD): reads and writes workloads.
TRACE    := core/trace/write core/trace/read core/trace core/base
WORKLOAD := core/workload core/trace core/base

# The reader for Python: all of it is in the library, so that one file is enough.
HT_READER_LIB := $(OUT)/lib/libheaptape-reader.so
ALL += $(HT_READER_LIB)
$(HT_READER_LIB): $(call c_pic_objects,$(call c_component_sources,core/reader core/trace/read core/trace) $(addprefix core/base/,error.c os.c vector.c))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,--gc-sections -Wl,-soname,libheaptape-reader.so -o $@ $^ $(CORE_LIBS)

$(call c_test,core/test/events_survive_writing_and_reading.c,,$(TRACE),$(CORE_LIBS))
$(call c_test,core/test/damaged_file_gives_one_error_or_a_prefix.c,,$(TRACE),$(CORE_LIBS))
$(call c_test,core/test/calls_of_no_table_are_refused_and_none_before_them_is_lost.c,,$(TRACE),$(CORE_LIBS))
$(call c_test,core/test/annotations_survive_writing_and_reading.c,,$(TRACE),$(CORE_LIBS))
$(call c_test,core/test/accesses_survive_writing_and_reading.c,,$(TRACE),$(CORE_LIBS))
$(call c_test,core/test/sampled_line_sharing_tends_to_the_exact_figures.c,,core/sharing core/base,$(CORE_LIBS))
$(call c_test,core/test/live_object_is_found_by_its_shortest_reference.c,,core/trace core/base,$(CORE_LIBS))
$(call c_test,core/test/address_map_keeps_what_was_added_until_it_is_removed.c,,core/base,)
$(call c_test,core/test/filters_say_what_the_kernel_does.c,,core/system core/base,)
$(call c_test,core/test/elf_is_read_truly_and_within_its_bounds.c,,core/elf core/base,-ldl)
$(call c_test,core/test/isolated_heap_keeps_the_rules_of_malloc.c,,core/isolated core/base,)
$(call c_test,core/test/text_is_printed_unless_it_moves_a_terminal_or_is_no_utf_8.c,,core/base,)
$(call c_test,core/test/control_names_have_a_number_each_and_come_back.c,,core/base,)
$(call c_test,core/test/counted_control_calls_are_those_that_were_made.c,,$(WORKLOAD),$(CORE_LIBS))
$(call c_test,core/test/line_of_slots_is_taken_from_by_one_thread_until_it_ends.c,,core/workload core/base,)
$(call c_test,core/test/command_lines_are_parsed_by_their_commands_table.c,,core/command core/base,-ljansson)
$(call c_test,core/test/time_line_has_equal_steps_its_peak_and_its_end.c,,$(WORKLOAD),$(CORE_LIBS))
$(call c_test,core/test/generated_workload_reads_back.c,,$(WORKLOAD),$(CORE_LIBS))
NO_MEMORY := -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=reallocarray -Wl,--wrap=strdup
$(call c_test,core/test/without_memory_there_is_an_error_or_the_whole_file.c,,core/workload $(TRACE),$(NO_MEMORY) $(CORE_LIBS))
$(call c_test,core/test/each_call_frame_instruction_gives_its_rule.c,,core/elf,)
$(OBJECTS)/obj/core/test/each_call_frame_instruction_gives_its_rule.o: HT_CFLAGS += -fexceptions # entries with augmentation data
$(call c_fuzzer,core/test/fuzz_trace_read.c,,$(TRACE),$(CORE_LIBS))
