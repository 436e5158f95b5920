# What crosses parts. The order model is explored by a plain test program; everything else here runs under pytest.
MODEL_SOURCES := $(addprefix tests/model/,order_model.c state_set.c)

$(eval $(call c_test,tests/test/ownership_tags_order_every_history.c,$(MODEL_SOURCES),))

# $(call test_preload,name): out/test-lib/libNAME.so from tests/preload/NAME.c; -fno-builtin, as it defines malloc itself.
define test_preload
TEST_EXTRAS += $(OUT)/test-lib/lib$(1).so
$(OUT)/pic/tests/preload/$(1).o: HT_CFLAGS += -fno-builtin
$(OUT)/test-lib/lib$(1).so: $(call c_pic_objects,tests/preload/$(1).c)
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -shared -o $$@ $$^ -ldl
endef
$(eval $(call test_preload,count_calls))
$(OUT)/pic/tests/preload/count_calls.o: HT_CFLAGS += -fexceptions
$(eval $(call test_preload,cpu_at_exit))

# $(call test_program,name): out/test-programs/NAME from tests/programs/NAME.c.
define test_program
TEST_EXTRAS += $(OUT)/test-programs/$(1)
$(OUT)/test-programs/$(1): $(call c_objects,tests/programs/$(1).c)
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ -pthread $(2)
endef
$(eval $(call test_program,call_until_killed,))
# -fno-builtin: each call must stay.
$(OUT)/obj/tests/programs/every_call.o: HT_CFLAGS += -fno-builtin -fplt
$(eval $(call test_program,every_call,))
$(eval $(call test_program,fork_storm,))
$(eval $(call test_program,memory_of_threads,))
