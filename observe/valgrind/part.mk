# SPDX-License-Identifier: GPL-2.0-only
# The Valgrind tool `heaptape`, a separate program (GPL-2): built where the headers and libraries of Valgrind are installed,
# left out elsewhere, and for other processors. Valgrind uses out/libexec/valgrind/ as its own folder (VALGRIND_LIB): it has the tool and copies of
# the installed files that the tool needs, and our launcher, so that it runs wherever heaptape does. And links to the tools that tests
# compare it with, so that all start from paths of one length: the place of the client's stack depends on it.
VALGRIND_INCLUDE ?= /usr/include/valgrind
VALGRIND_LIBRARIES ?= /usr/lib/x86_64-linux-gnu/valgrind
VALGRIND_LIBEXEC ?= /usr/libexec/valgrind
VALGRIND_TOOL := $(OUT)/libexec/valgrind/heaptape-amd64-linux
VALGRIND_COPIED := default.supp vgpreload_core-amd64-linux.so
VALGRIND_COMPARED := $(wildcard $(addprefix $(VALGRIND_LIBEXEC)/,none-amd64-linux cachegrind-amd64-linux callgrind-amd64-linux))
VALGRIND_NEEDS := $(VALGRIND_INCLUDE)/pub_tool_tooliface.h $(VALGRIND_LIBRARIES)/libcoregrind-amd64-linux.a \
  $(VALGRIND_LIBRARIES)/libvex-amd64-linux.a $(addprefix $(VALGRIND_LIBEXEC)/,$(VALGRIND_COPIED))

ifeq ($(CROSS)$(words $(wildcard $(VALGRIND_NEEDS))),$(words $(VALGRIND_NEEDS)))
ALL += $(VALGRIND_TOOL) $(dir $(VALGRIND_TOOL))valgrind
VALGRIND_OBJECTS := $(patsubst %.c,$(OBJECTS)/valgrind/%.o,$(filter-out %/launcher.c,$(call c_component_sources,observe/valgrind $(patsubst %/,%,$(sort $(dir $(wildcard observe/valgrind/*/*.h)))))) core/elf/elf.c)
# As Valgrind compiles its own tools: without a C library. Valgrind reads the debug information of
# its own tools, and 3.19 can't read clang's DWARF 5. The client's flags (sanitizers) do not apply to it.
VALGRIND_CFLAGS := -std=gnu11 -O2 -gdwarf-4 -Wall -Wextra $(WERROR) -I. -isystem $(VALGRIND_INCLUDE) \
  -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 -DVGPV_amd64_linux_vanilla=1 \
  -m64 -fno-stack-protector -fno-builtin -fno-strict-aliasing -fno-pie
$(OBJECTS)/valgrind/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(VALGRIND_CFLAGS) -MMD -MP -c -o $@ $<
-include $(VALGRIND_OBJECTS:.o=.d)

# At a separate address, away from those of programs.
$(VALGRIND_TOOL): $(VALGRIND_OBJECTS) $(VALGRIND_LIBRARIES)/libcoregrind-amd64-linux.a
	@mkdir -p $(@D)
	$(CC) -static -nodefaultlibs -nostartfiles -u _start -Wl,--build-id=none -Wl,-Ttext-segment=0x58000000 -m64 \
	  -Wl,--wrap=vgModuleLocal_read_debuginfo_dwarf3 -o $@ \
	  $(VALGRIND_OBJECTS) $(addprefix $(VALGRIND_LIBRARIES)/,libcoregrind-amd64-linux.a libvex-amd64-linux.a) -lgcc \
	  $(VALGRIND_LIBRARIES)/libgcc-sup-amd64-linux.a

$(dir $(VALGRIND_TOOL))valgrind: $(OBJECTS)/obj/observe/valgrind/launcher.o $(addprefix $(VALGRIND_LIBEXEC)/,$(VALGRIND_COPIED))
	@mkdir -p $(@D)
	install -m 644 $(addprefix $(VALGRIND_LIBEXEC)/,$(VALGRIND_COPIED)) $(@D)/
	ln -sf $(VALGRIND_COMPARED) $(@D)/
	$(CC) $(HT_CFLAGS) -o $@ $<
endif

# The programs that tests run under the tool.
ifeq ($(CROSS),)
$(foreach program,$(wildcard observe/valgrind/test/*.c observe/valgrind/*/test/*.c),\
  $(call c_test_program,$(basename $(notdir $(program))),$(program),,-lpthread))
endif
