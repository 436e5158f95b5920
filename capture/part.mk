# SPDX-License-Identifier: MIT
# Inside the recorded program: capture/host, hooks of features, what it shares with the recorder, and core/base/os.c. Nothing else.
HT_LIB := $(OUT)/lib/libheaptape.so
# attach.c first: constructors run in this order, and a process attaches before it describes itself to the recorder.
HT_HOST_SOURCES := capture/host/attach.c $(filter-out %/attach.c %/libunwind.c,$(wildcard capture/*/hooks/*.c $(addprefix capture/host/,*.c kernel/*.c real/*.c stacks/*.c))) core/unwind/unwind_rules.c core/elf/elf.c core/system/seccomp_filter.c core/base/os.c
ALL += $(HT_LIB)
HT_HOST_LIBS := $(HT_LIB)
# initfirst: an allocator in the executable must be recorded from the first constructor of any library on.
# The compiler must not know the malloc API where we define it. now: no lazy binding inside a signal handler.
$(addprefix $(OBJECTS)/pic/capture/host/,hooks/hooks.o real/real.o real/operators.o): HT_CFLAGS += -fno-builtin
$(OBJECTS)/pic/capture/host/kernel/libc.o: HT_CFLAGS += -fno-builtin
HT_OWN_LIBC := -Wl,--wrap=syscall
# Exceptions go through our operators new; walks of the stack begin in producer.c.
$(addprefix $(OBJECTS)/pic/capture/host/,hooks/hooks.o producer.o): HT_CFLAGS += -fasynchronous-unwind-tables
# Code that hooks of an allocator in the executable run in the common cases leaves the vector registers alone.
$(addprefix $(OBJECTS)/pic/capture/host/,producer.o producer_state.o accesses.o kernel/libc.o real/operators.o): HT_CFLAGS += -mgeneral-regs-only
# Only the called functions of core/base/os.c: each further one would need more of the C library (allowed_symbols.txt).
$(OBJECTS)/pic/core/base/os.o: HT_CFLAGS += -ffunction-sections
$(HT_LIB): $(call c_pic_objects,$(HT_HOST_SOURCES))
	$(start)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,initfirst $(HT_OWN_LIBC) -Wl,--gc-sections -Wl,-z,defs -Wl,-soname,libheaptape.so -o $@ $^ -ldl

# For record --unwind libunwind alone.
HT_UNWIND_LIB := $(OUT)/lib/libheaptape-unwind.so
ALL += $(HT_UNWIND_LIB)
$(HT_UNWIND_LIB): $(call c_pic_objects,capture/host/stacks/libunwind.c)
	$(start)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,-soname,libheaptape-unwind.so -o $@ $^ -ldl

# What the recorder can do besides: a feature's part.mk adds its components, what they need, and the file that registers it.
RECORDER_FEATURES :=
RECORDER_LIBRARIES := $(CORE_LIBS) -pthread -ldl -lm
RECORDER_WAYS :=
include $(sort $(wildcard capture/*/part.mk))
RECORDER_COMPONENTS := $(RECORDER_FEATURES) capture/recorder capture/recorder/command capture/recorder/processes core/command core/system core/elf $(TRACE)
$(call c_components,$(RECORDER_FEATURES) capture/recorder capture/recorder/command capture/recorder/processes)
$(call c_program,record,capture/recorder/record_main.c $(RECORDER_WAYS),$(RECORDER_COMPONENTS),$(RECORDER_LIBRARIES))
$(call c_sanitized,address,record,$(call c_component_sources,$(RECORDER_COMPONENTS)),$(RECORDER_LIBRARIES))
$(OUT)/libexec/heaptape-record: | $(HT_LIB) $(HT_UNWIND_LIB)

# The tests drive the recorder built beside them, some on their own allocator.
HT_TEST_LIBS := $(OUT)/lib/test/libbump.so $(OUT)/lib/test/libforwards.so
# A program of capture/test/hosts/ holds several claims, which its table names, and is linked under the name of each.
HT_CLAIM_PROGRAMS := interruptions lives records surroundings
ht_claims = $(shell sed -n 's/^    {"\([a-z0-9_]*\)", .*/\1/p' capture/test/hosts/$(1).c)
define ht_claim_rule
$(OUT)/test-programs/hosts-$(1): | $(HT_TEST_LIBS) $(OUT)/libexec/heaptape-record
TESTS += $(2)
$(2): $(OUT)/test-programs/hosts-$(1)
	@mkdir -p $$(@D)
	@ln -f $$< $$@
endef
$(foreach program,$(HT_CLAIM_PROGRAMS),$(call c_link,$(OUT)/test-programs/hosts-$(program),capture/test/hosts/$(program).c capture/test/hosts/recording.c,$(TRACE),$(CORE_LIBS) -pthread))
$(foreach program,$(HT_CLAIM_PROGRAMS),$(eval $(call ht_claim_rule,$(program),$(addprefix $(OUT)/test/capture/hosts/$(program)/,$(call ht_claims,$(program))))))
$(call c_test,capture/test/recorder/sampling_keeps_to_its_period_and_its_budget.c,,capture/recorder/processes core/system core/elf core/base,)
$(call c_test,capture/test/recorder/both_ends_are_checked.c,,,)
$(call c_test,capture/test/recorder/only_files_that_a_process_has_mapped_are_read.c,,capture/recorder/processes core/system core/elf core/base,)
$(call c_test,capture/test/recorder/threads_of_a_process_are_bounded.c,,$(RECORDER_COMPONENTS),$(RECORDER_LIBRARIES))
$(call c_test,capture/test/recorder/a_recording_ends_while_its_memory_is_written.c,,$(RECORDER_COMPONENTS),$(RECORDER_LIBRARIES))
$(call c_test,capture/test/recorder/budget_is_kept_under_any_load.c,,$(RECORDER_COMPONENTS),$(RECORDER_LIBRARIES))
$(call c_test,capture/test/recorder/live_objects_are_estimated_within_their_error.c,,capture/recorder/processes core/base,-lm)
$(call c_test,capture/test/recorder/missing_calls_break_the_turns.c,,capture/recorder/processes core/base,$(NO_MEMORY))
$(OBJECTS)/obj/capture/test/%.o: HT_CFLAGS += -fno-builtin
$(OBJECTS)/pic/capture/test/%.o: HT_CFLAGS += -fno-builtin
$(OUT)/lib/test/lib%.so: $(OBJECTS)/pic/capture/test/%.o
	$(start)
	$(CC) $(HT_CFLAGS) -shared -o $@ $^
