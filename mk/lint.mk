# SPDX-License-Identifier: Apache-2.0
# lint.mk: what reads the sources.

# The tree's C++ but what has the kernel's style: the module, and the header that it shares.
styled = $(filter-out shm-device/layout.h,$(shell find base shm-device guest-allocator guest-windows host-bridge soft-gpu tests -name '*.h' -o -name '*.cc'))
format check-format: packages := clang-format
format: installed
	@clang-format -i $(styled)
check-format: installed
	@clang-format --dry-run -Werror $(styled)

# .clang-tidy names the checks. clang-tidy takes a minute and more for a file that includes the table of commands, so it reads those that
# can do without CUDA's headers: region, heap, bells, grants, the readers of files. The analyzer walks at most 15,000 nodes of a function's
# paths; its own limit, 225,000, doubles the time of all checks together.
#
# Most of its time it looks through headers. So it reads ten files of a folder as one source, as the compiler does (mk/archives.mk). clang
# reads each of them by itself, warns, and finds forgotten includes (those of the standard library: tests/tree/test_includes.py). It does so with
# all that only the command and the exporter are made of, too, which .ci/run does not build by clang. The analyzer walks the functions of
# files that a source includes if that source is called UnifiedSource.
unified := UnifiedSource
tidy_paths := -Xclang -analyzer-config -Xclang max-nodes=15000
tidy_flags = $(cppflags) $(CPPFLAGS) -std=c++20
tidy_folders := base base/os base/cli shm-device/doors shm-device/region guest-allocator/client guest-allocator/heap guest-allocator/pmem \
    guest-allocator/glibc guest-allocator/nvml host-bridge/worker/births soft-gpu soft-gpu/driver host-bridge/between \
    host-bridge/bridge host-bridge/cage host-bridge/cli host-bridge/suspended host-bridge/watch soft-gpu/ptx
# What defines a name that another file of its folder has is read apart from that.
in_cli = $(1:%=host-bridge/cli/%.cc)
tidy_apart := $(apart_from_others) guest-allocator/heap/other_allocators.cc host-bridge/bridge/monitoring.cc
tidy_apart_1 := $(call in_cli,bridge container smi_query suspend trace)
tidy_apart_2 := $(call in_cli,smi vm_keeping wake)
tidy_apart_3 := $(call in_cli,smi_properties vm vm_config)
commands_alone := $(call buildable,$(wildcard $(addsuffix /*.cc,host-bridge/cli host-bridge/exporter guest-allocator/commands guest-allocator/pmem)))
# TIDIED are the files to read. With SINCE=COMMIT those that have changed since, or whose header has.
tidied_in = $(foreach file,$(filter-out $(tidy_apart),$(TIDIED)),$(if $(filter $(1)/,$(dir $(file))),$(file)))
tidy_group = $(if $(strip $(2)),$(eval sources_$(1) := $(wordlist 1,10,$(2)))$(1) $(call tidy_group,$(1)+,$(wordlist 11,999,$(2))))
check-tidy: packages := $(unit_packages) $(clang_packages) clang-tidy
check-tidy: installed
	@$(if $(SINCE),changed=$$(git diff --name-only $(SINCE) | sed 's/\.h$$/.cc/') || exit 1;) \
	files=$$(find base shm-device guest-allocator host-bridge soft-gpu -name '*.cc' ! -path '*/kubernetes/*' | LC_ALL=C sort \
	    $(if $(SINCE),| grep -Fx -e "$${changed:-nothing}")); [ -n "$$files" ] || { echo "no source has changed since $(SINCE)"; exit 0; }; \
	$(MAKE) --no-print-directory $(side_by_side) -O -k tidy_reads TIDIED="$$(tests/without_toolkit $$files)"
ifneq ($(origin TIDIED),undefined)
tidy_groups := $(foreach folder,$(tidy_folders),$(call tidy_group,$(folder)/together,$(call tidied_in,$(folder)))) \
    $(foreach n,1 2 3,$(call tidy_group,host-bridge/cli/apart_$(n),$(filter $(TIDIED),$(tidy_apart_$(n)))))
tidy_together := $(foreach group,$(tidy_groups),$(sources_$(group)))
tidy_reads: $(tidy_groups:%=%.tidy_group) $(patsubst %,%.tidy,$(filter-out $(tidy_together),$(TIDIED))) \
    $(patsubst %,%.warnings,$(sort $(tidy_together) $(commands_alone)))
endif
define tidy
clang-tidy --quiet $(1) -- $(tidy_flags) $(tidy_paths) 2> /dev/null || { echo "clang-tidy $(1): status $$?"; exit 1; }
endef
%.tidy_group:
	@echo "  TIDY $(sources_$*)"
	@mkdir -p $(B)/tidy/$(*D) && printf '#include "%s"  // NOLINT\n' $(sources_$*) > $(B)/tidy/$(*D)/$(unified)-$(*F).cc
	@$(call tidy,--header-filter='(base|shm-device|guest-allocator|host-bridge|soft-gpu)/' $(B)/tidy/$(*D)/$(unified)-$(*F).cc)
%.cc.tidy:
	@echo "  TIDY $*.cc"
	@$(call tidy,$*.cc)
%.cc.warnings:
	@clang++ $$(tests/precompile $(B)/tidy '$(common_headers)' clang++ $(tidy_flags)) $(tidy_flags) -Wall -Wextra -Werror -fsyntax-only $*.cc
.PHONY: tidy_reads

# cppcheck reads all of them; tests/tree/cppcheck.txt has what it need not say.
check-cppcheck: packages := cppcheck
check-cppcheck: installed
	@cppcheck --quiet --std=c++20 --language=c++ --enable=warning,portability --inline-suppr --error-exitcode=1 -j$(jobs) \
	    --suppressions-list=tests/tree/cppcheck.txt -I. -D_GNU_SOURCE base shm-device guest-allocator host-bridge soft-gpu
.PHONY: check-format check-tidy check-cppcheck
