HT_LIB := $(OUT)/lib/libheaptape.so
HT_LIB_SOURCES := $(addprefix capture/,hooks.c tape.c attach.c real.c) trace/os.c
ALL += $(HT_LIB)
# The compiler must not know malloc and its kin where we define them. now: no lazy binding inside a signal handler.
$(OUT)/pic/capture/hooks.o $(OUT)/pic/capture/real.o: CFLAGS += -fno-builtin
$(HT_LIB): $(call c_pic_objects,$(HT_LIB_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,-soname,libheaptape.so -o $@ $^ -ldl

HT_RECORD_SOURCES := $(addprefix capture/,record_main.c collector.c host.c sample.c preflight.c)
$(eval $(call c_program,record,$(HT_RECORD_SOURCES) $(TRACE_SOURCES),$(TRACE_LIBS) -pthread))
$(OUT)/libexec/heaptape-record: | $(HT_LIB)
