WORKLOAD_SOURCES := convert/workload_write.c convert/workload_read.c
HISTORY_SOURCES  := $(addprefix convert/,read_ahead.c merge.c address_map.c slots.c parking.c ranges.c history.c trace_info.c witness_json.c)
COMPILE_SOURCES  := $(addprefix convert/,compile.c compile_info.c time_line.c touched_words.c size_histogram.c recorded_samples.c)
IMPORT_SOURCES   := $(addprefix convert/,byte_source.c line_reader.c importing.c late_release.c) $(wildcard convert/import_*.c)
EXPORT_SOURCES   := convert/exporting.c $(wildcard convert/export_*.c)
REWRITE_SOURCES  := $(addprefix convert/,tape_out.c tape_annotations.c tape_copy.c tape_merge.c tape_slice.c slice_spec.c tape_anonymise.c \
                      temporary_trace.c rewrite.c)
CHECK_SOURCES    := convert/workload_check.c convert/info.c convert/marks.c convert/profile.c convert/profile_tables.c trace/line_sharing.c trace/line_sharing_json.c
CONVERT_SOURCES  := $(HISTORY_SOURCES) $(COMPILE_SOURCES) $(WORKLOAD_SOURCES) $(IMPORT_SOURCES) $(CHECK_SOURCES) $(REWRITE_SOURCES) $(EXPORT_SOURCES) \
                    $(addprefix convert/,formats.c inputs.c dump.c dump_workload.c dump_stacks.c symbols.c output_file.c progress.c convert_main.c)

$(eval $(call c_program,convert,$(CONVERT_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS) -lzip -lm -ldw -lelf -lstdc++))
$(eval $(call c_bench,convert/test/bench_compile.c,convert/test/generate_trace.c $(HISTORY_SOURCES) $(COMPILE_SOURCES) $(WORKLOAD_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_bench,convert/test/bench_trace.c,convert/test/generate_trace.c $(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_bench,convert/test/bench_import.c,convert/address_map.c $(IMPORT_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS) -lzip))
$(eval $(call c_test,convert/test/generated_workload_reads_back.c,$(WORKLOAD_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_fuzzer,convert/test/fuzz_workload.c,$(HISTORY_SOURCES) $(COMPILE_SOURCES) $(WORKLOAD_SOURCES) $(CHECK_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS)))

# One fuzzer for all formats of lines, one for each binary format; their seeds are the samples of the tests.
IMPORT_FUZZING   := convert/test/import_fuzzing.c $(HISTORY_SOURCES) $(COMPILE_SOURCES) $(WORKLOAD_SOURCES) $(IMPORT_SOURCES) $(TRACE_SOURCES)
$(foreach name,fuzz_import fuzz_import_heaptrack fuzz_import_dj fuzz_import_wl fuzz_import_bytehound,\
  $(eval $(call c_fuzzer,convert/test/$(name).c,$(IMPORT_FUZZING),$(TRACE_LIBS) -lzip)))
$(eval $(call c_fuzzer,convert/test/fuzz_rewrite.c,$(HISTORY_SOURCES) $(IMPORT_SOURCES) $(REWRITE_SOURCES) convert/recorded_samples.c $(TRACE_SOURCES),$(TRACE_LIBS) -lzip -lm))
fuzzers: $(OUT)/corpus/.importers
$(OUT)/corpus/.importers: convert/test/importer_seeds.py convert/test/importer_samples.py $(wildcard convert/test/data/*) | $(VENV)/.stamp
	$(VENV)/bin/python -m convert.test.importer_seeds $(@D)
	@touch $@
