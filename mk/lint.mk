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
tidy_paths := -Xclang -analyzer-config -Xclang max-nodes=15000
check-tidy: packages := $(unit_packages) clang-tidy
check-tidy: installed
	@$(MAKE) --no-print-directory $(side_by_side) -O -k \
	    $$(tests/without_toolkit $$(find base shm-device guest-allocator host-bridge soft-gpu -name '*.cc' ! -path '*/kubernetes/*') | sed 's/[.]cc\>/&.tidy/g')
%.cc.tidy:
	@echo "  TIDY $*.cc"
	@clang-tidy --quiet $*.cc -- $(cppflags) $(CPPFLAGS) $(tidy_paths) -std=c++20 2> /dev/null || { echo "clang-tidy $*.cc: status $$?"; exit 1; }

# cppcheck reads all of them; tests/tree/cppcheck.txt has what it need not say.
check-cppcheck: packages := cppcheck
check-cppcheck: installed
	@cppcheck --quiet --std=c++20 --language=c++ --enable=warning,portability --inline-suppr --error-exitcode=1 -j$(jobs) \
	    --suppressions-list=tests/tree/cppcheck.txt -I. -D_GNU_SOURCE base shm-device guest-allocator host-bridge soft-gpu
.PHONY: check-format check-tidy check-cppcheck
