# SPDX-License-Identifier: MIT
# A program for each pattern, out/workloads/NAME, all of the same objects: main takes the pattern of the program's name.
SYNTHETIC_SOURCES := $(wildcard workloads/synthetic/*.c)
PATTERNS          := $(shell sed -n 's/^PATTERN(\(.*\))$$/\1/p' workloads/synthetic/patterns.def)
ALL += $(PATTERNS:%=$(OUT)/workloads/%)
$(foreach name,$(PATTERNS),$(call c_link,$(OUT)/workloads/$(name),$(SYNTHETIC_SOURCES),$(WORKLOAD),-pthread -lz -ljansson))
