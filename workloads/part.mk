# Each synthetic pattern is one file and one program, out/workloads/NAME; the rest of the folder is their common main.
SYNTHETIC_COMMON  := $(addprefix workloads/synthetic/,pattern.c actors.c script.c)
SYNTHETIC_SOURCES := $(SYNTHETIC_COMMON) $(addprefix convert/,compose.c slots.c time_line.c size_histogram.c witness_json.c output_file.c workload_write.c) \
                     $(addprefix trace/,event.c error.c buffer.c os.c)
SYNTHETIC         := $(basename $(notdir $(filter-out $(SYNTHETIC_COMMON),$(wildcard workloads/synthetic/*.c))))

define synthetic_program
ALL += $(OUT)/workloads/$(1)
$(OUT)/workloads/$(1): $(call c_objects,workloads/synthetic/$(1).c $(SYNTHETIC_SOURCES))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ -pthread -lz -ljansson
endef
$(foreach name,$(SYNTHETIC),$(eval $(call synthetic_program,$(name))))
