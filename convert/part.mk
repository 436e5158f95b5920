WORKLOAD_SOURCES := convert/workload_write.c convert/workload_read.c

$(eval $(call c_test,convert/test/generated_workload_reads_back.c,$(WORKLOAD_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS)))
