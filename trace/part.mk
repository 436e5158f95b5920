TRACE_SOURCES := $(addprefix trace/,error.c event.c os.c buffer.c block_encode.c archive_encode.c block_decode.c block_read.c stack_table.c trace_write.c \
  write_samples.c write_annotations.c trace_read.c read_samples.c read_annotations.c read_gaps.c)
TRACE_LIBS    := -lzstd -lz -ljansson

$(eval $(call c_test,trace/test/events_survive_writing_and_reading.c,$(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_test,trace/test/damaged_file_gives_one_error_or_a_prefix.c,$(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_test,trace/test/annotations_survive_writing_and_reading.c,$(TRACE_SOURCES),$(TRACE_LIBS)))
$(eval $(call c_test,trace/test/sampled_line_sharing_tends_to_the_exact_figures.c,trace/line_sharing.c trace/os.c,))
$(eval $(call c_fuzzer,trace/test/fuzz_trace_read.c,$(TRACE_SOURCES),$(TRACE_LIBS)))
