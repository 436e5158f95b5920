# Each synthetic pattern is one file and one program, out/workloads/NAME.
SYNTHETIC := $(basename $(notdir $(wildcard workloads/synthetic/*.c)))

define synthetic_program
ALL += $(OUT)/workloads/$(1)
$(OUT)/workloads/$(1): $(call c_objects,workloads/synthetic/$(1).c)
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ -pthread
endef
$(foreach name,$(SYNTHETIC),$(eval $(call synthetic_program,$(name))))
