# SPDX-License-Identifier: Apache-2.0
# windows.mk: what Windows guests have, made by mingw-w64 of the sources that Linux guests are made of.
#
#   make windows    installs the compiler and Wine where they are missing, and builds all of build/windows
#
# Without the compiler nothing of it is built, and its tests are skipped, which say so.

windows_packages := g++-mingw-w64-x86-64-posix wine64 wine googletest
mingw := x86_64-w64-mingw32
windows_cxx := $(firstword $(wildcard /usr/bin/$(mingw)-g++-posix))
W := $(B)/windows
# Attributes that only ELF has are ignored.
windows_flags := -std=c++20 -O2 -Wall -Wextra -Werror -Wno-attributes -D_GNU_SOURCE -D__USE_MINGW_ANSI_STDIO=1 -D_WIN32_WINNT=0x0a00 \
    -DBARCUDA_VERSION='"$(VERSION)"' -I. -isystem $(CUDA_HOME)/include
define windows_compiled
$(call making,MINGW,$<)
@$(windows_cxx) $(windows_flags) -MMD -MP -c -o $@ $<
endef
$(W)/%.o: %.cc
	$(windows_compiled)

# Both compilers' view of the rows and of the structs: tests/windows/test_rows.py.
described := -g -fno-eliminate-unused-debug-types
$(W)/tests/windows/types.o: windows_flags += $(described)
$(W)/native/types.o: tests/windows/types.cc
	$(call making,CXX,$<)
	@$(CXX) $(compile) -O0 $(described) -MMD -MP -c -o $@ $<
$(W)/native/rows: $(B)/tests/windows/rows.o $(B)/shm-device.a
	$(call program)
$(W)/rows.exe: $(W)/tests/windows/rows.o $(W)/shm-device/rows/identity.o
	$(call making,LINK)
	@$(windows_cxx) -static -s -o $@ $^

windows_tests := $(W)/native/rows $(W)/native/types.o $(W)/rows.exe $(W)/tests/windows/types.o
windows_products :=
# Where the compiler is installed, `make check` tests what it makes.
tests: $(if $(and $(windows_cxx),$(toolkit)),$(if $(SANITIZE),,windows_built))
windows: packages := $(windows_packages) $(unit_packages)
windows: installed
	@$(MAKE) --no-print-directory $(side_by_side) windows_built
windows_built: $(windows_products) $(windows_tests)
.PHONY: windows windows_built
