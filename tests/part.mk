# SPDX-License-Identifier: MIT
# Tests that cross parts. A plain test program explores the order model; everything else here runs under pytest.
MODEL_SOURCES := $(addprefix tests/model/,order_model.c state_set.c)
WEAK_SOURCES  := $(addprefix tests/model/,weak_machine.c weak_protocol.c state_set.c)

$(call c_test,tests/test/ownership_tags_order_every_history.c,$(MODEL_SOURCES),,)
$(call c_test,tests/test/weak_memory_orders_every_history.c,$(WEAK_SOURCES),,)
$(call c_test,tests/test/weak_machine_knows_the_litmus_tests.c,$(WEAK_SOURCES),,)

# Preloaded by tests. -fno-builtin, because they define malloc themselves.
$(OBJECTS)/pic/tests/preload/%.o: HT_CFLAGS += -fno-builtin
$(OBJECTS)/pic/tests/preload/count_calls.o: HT_CFLAGS += -fexceptions
$(foreach name,count_calls cpu_at_exit,$(call c_test_library,test-lib/lib$(name).so,tests/preload/$(name).c,-ldl))

# -fno-builtin: each call must stay.
$(OBJECTS)/obj/tests/programs/every_call.o: HT_CFLAGS += -fno-builtin -fplt
$(foreach name,every_call fork_storm marked_phases memory_of_threads planted_spans planted_locality planted_memory planted_pinner,\
  $(call c_test_program,$(name),tests/programs/$(name).c,,-pthread))

# Plays hostile hosts (tests/fuzz/hosts.py).
$(call c_test_program,hostile_host,tests/fuzz/hostile_host.c,,)
