# SPDX-License-Identifier: Apache-2.0
# windows.mk: what Windows guests have, made by mingw-w64 of the sources that Linux guests are made of. A file
# guest-windows/PATH is what Windows has in the place of PATH: its folder is looked through first.
#
#   make windows    installs the compiler and Wine where they are missing, and builds all of build/windows and build/lib/barcuda-windows
#
# `make check` does the same; where they cannot be installed tests/windows is skipped, and says so.

windows_packages := g++-mingw-w64-x86-64-posix wine64 wine googletest
mingw := x86_64-w64-mingw32
windows_cxx := $(firstword $(wildcard /usr/bin/$(mingw)-g++-posix))
windows_compile = $(if $(findstring ccache,$(CXX)),ccache) $(windows_cxx)
W := $(B)/windows
dlls := $(lib)/barcuda-windows
# Attributes that only ELF has are ignored.
windows_flags := -std=c++20 -O2 -Wall -Wextra -Werror -Wno-attributes -Wno-format -D_GNU_SOURCE -DCUDA_ENABLE_DEPRECATED -D__USE_MINGW_ANSI_STDIO=1 -D_WIN32_WINNT=0x0a00 \
    -DBARCUDA_VERSION='"$(VERSION)"' -Iguest-windows -I. \
    -isystem guest-windows/include -include guest-windows/include/glibc.h -isystem $(CUDA_HOME)/include
define windows_compiled
$(call making,MINGW,$<)
@$(windows_compile) $(windows_flags) -MMD -MP -c -o $@ $<
endef
$(W)/%.o: %.cc
	$(windows_compiled)

# Of the folders' sources those that Windows has no file of its own for, and those.
own := $(patsubst guest-windows/%,%,$(shell find guest-windows -name '*.cc'))
windows_sources = $(filter-out $(own) $(absent_on_windows),$(1)) $(addprefix guest-windows/,$(filter $(2),$(own)))
# What these do no process of Windows has: fork, signals, descriptors; a malloc of ours; NVTX's injection; a host's side.
absent_on_windows := $(addprefix base/,fmt.cc listen.cc log.cc message.cc visitors.cc) \
    $(addprefix shm-device/doors/,bar_door.cc file_door.cc socket_door.cc stub_door.cc uio_door.cc) \
    shm-device/region/host_region.cc shm-device/rows/lives.cc shm-device/cuda/fat_binary_reader.cc \
    $(addprefix guest-allocator/heap/,copy_on_write.cc fork.cc malloc.cc mappings.cc next.cc other_allocators.cc small.cc) \
    $(addprefix guest-allocator/heap/registered/,exchange.cc loans.cc) guest-allocator/client/nvtx.cc \
    $(addprefix guest-allocator/driver/managed/mechanism/,access.cc backing.cc faults.cc masks.cc signals.cc system_calls.cc)
# Files of the folders that are compiled six at a time on Linux are so here, too (mk/archives.mk); by themselves those that Windows has.
define windows_joined_source
sources_windows/$(1) := $(2)
$(W)/$(1).cc: $(W)/$(1).sources
	@printf '#include "%s"\n' $(2) > $$@
$(W)/$(1).o: $(W)/$(1).cc
	$$(windows_compiled)
endef
windows_joined = $(if $(2),$(eval $(call windows_joined_source,$(1),$(wordlist 1,6,$(2))))$(W)/$(1).o $(call windows_joined,$(1)+,$(wordlist 7,999,$(2))))
windows_objects = $(patsubst %.cc,$(W)/%.o,$(filter-out $(foreach folder,$(joined_folders),$(call joined_in,$(folder),$(1))),$(1))) \
    $(foreach folder,$(joined_folders),$(call windows_joined,$(folder)/joined,$(call joined_in,$(folder),$(1))))
objects_of = $(call windows_objects,$(call windows_sources,$(1),$(2)))
windows_base := $(call objects_of,$(sources_base) $(sources_shm-device),include/% base/trace% base/os/% shm-device/%)
windows_guest := $(call objects_of,$(sources_guest-heap) $(sources_guest-client),guest-allocator/heap/% guest-allocator/client/%)
windows_driver := $(call objects_of,$(sources_guest-driver),guest-allocator/driver/%)

# The driver's functions are entered as on the other system (mk/archives.mk).
$(W)/entries.o: $(windows_driver) guest-windows/exports/entries.sh guest-allocator/exports/admission.sh
	$(call making,GEN)
	@rm -f $(W)/inside.a $(W)/driver.a && $(mingw)-ar rcs $(W)/inside.a $(windows_driver)
	@$(mingw)-nm -g --defined-only $(W)/inside.a | awk '$$2 == "T" && $$3 ~ /^cu[A-Z]/ { print $$3 }' | LC_ALL=C sort -u > $(W)/entries
	@sh guest-windows/exports/entries.sh $(W)/entries > $(W)/entries.cc
	@$(windows_cxx) $(windows_flags) -c -o $@ $(W)/entries.cc
	@sed 's/.*/& inside_&/' $(W)/entries > $(W)/inside_names
	@$(mingw)-objcopy --redefine-syms=$(W)/inside_names $(W)/inside.a $(W)/driver.a

# What is refused: functions that say so. The .def has all names, as the table of CUDA's symbols has them.
$(W)/refused.o: $(W)/entries.o $(library_headers) shm-device/cuda/direct3d.h guest-allocator/exports/unsupported.sh mk/windows.mk
	$(call making,GEN)
	@{ sh guest-allocator/exports/unsupported.sh shm-device/cuda/api.h | sed -nE 's/.* int (cu[A-Za-z0-9_]+)\(\).*barcuda_refuse\("([^"]*)".*/\1 \2/p'; \
	    grep -oE '(FIRST|LATER)\(cu[^)]*' shm-device/cuda/direct3d.h | tr -d ' ' | tr '(' ',' | awk -F, '{ print $$2, $$1 == "FIRST" ? $$2 : $$3 }'; } | \
	    LC_ALL=C sort -u | LC_ALL=C join -v 1 - $(W)/entries > $(W)/refused
	@{ echo 'void barcuda_refuse(const char *name, int *told);'; \
	    awk '{ printf "int %s() { static int told; barcuda_refuse(\"%s\", &told); return 801; }\n", $$1, $$2 }' $(W)/refused; } > $(W)/refused.c
	@$(subst g++,gcc,$(windows_cxx)) -O2 -c -o $@ $(W)/refused.c
	@{ echo 'LIBRARY nvcuda.dll'; echo EXPORTS; cat $(W)/entries; cut -d ' ' -f 1 $(W)/refused; echo 'barcuda_views DATA'; } > $(W)/nvcuda.def

windows_libraries := -lsynchronization -lsetupapi -lntdll
$(dlls)/nvcuda.dll: $(W)/entries.o $(W)/refused.o $(windows_guest) $(windows_base)
	$(call making,LINK)
	@$(windows_cxx) -shared -static -o $@ $(W)/nvcuda.def $^ -Wl,--whole-archive $(W)/driver.a -Wl,--no-whole-archive $(windows_libraries) \
	    -Wl,--out-implib,$(W)/libnvcuda.a

# The runtime, over nvcuda.dll: of CUDA 13, and of CUDA 12, which has functions of its own (runtime/older.cc) behind the same names. No
# program's own runtime is replaced: a program of Windows names the DLL.
windows_runtime := $(call objects_of,$(filter-out %/static_runtime.cc %/find_runtime.cc,$(sources_guest-runtime)),guest-allocator/runtime/%)
$(W)/runtime_names: $(windows_runtime)
	$(call making,GEN)
	@$(mingw)-nm -g --defined-only $^ 2> /dev/null | awk '$$2 == "T" { print $$3 }' | LC_ALL=C sort -u > $@
$(W)/cudart64_13.def: $(W)/runtime_names
	@{ echo 'LIBRARY cudart64_13.dll'; echo EXPORTS; grep -E '^(cuda[A-Z]|__cuda)' $<; } > $@
$(W)/cudart64_12.def: $(W)/runtime_names
	@{ echo 'LIBRARY cudart64_12.dll'; echo EXPORTS; awk '/^barcuda_12_/ { older[substr($$1, 12)] = 1; next } \
	    /^(cuda[A-Z]|__cuda)/ { names[$$1] = 1 } END { for (n in names) print n (n in older ? " = barcuda_12_" n : "") }' $< | LC_ALL=C sort; } > $@
$(dlls)/cudart64_%.dll: $(W)/cudart64_%.def $(windows_runtime) $(windows_base) | $(dlls)/nvcuda.dll
	$(call making,LINK)
	@$(windows_cxx) -shared -static -o $@ $^ -L$(W) -lnvcuda $(windows_libraries) -Wl,--out-implib,$(W)/libcudart$*.a

# NVML, by itself: it loads no driver.
windows_nvml := $(call objects_of,$(sources_guest-nvml),guest-allocator/nvml/%)
$(dlls)/nvml.dll: $(windows_nvml) $(windows_base) mk/windows.mk
	$(call making,LINK)
	@mkdir -p $(@D)
	@{ echo 'LIBRARY nvml.dll'; echo EXPORTS; $(mingw)-nm -g --defined-only $(windows_nvml) 2> /dev/null | \
	    awk '$$2 == "T" && $$3 ~ /^(nvml[A-Z]|barcuda_nvml_)/ { print $$3 }' | LC_ALL=C sort -u; echo 'barcuda_views DATA'; } > $(W)/nvml.def
	@$(windows_cxx) -shared -static -o $@ $(W)/nvml.def $(filter %.o,$^) $(windows_libraries) -Wl,--out-implib,$(W)/libnvml.a

# The command. What it takes of Debian's packages are headers alone, which would come with glibc's.
windows_command := $(call objects_of,$(addprefix base/cli/,app.cc command.cc installation.cc options.cc terminal.cc wrap.cc) \
    $(addprefix host-bridge/cli/,doctor.cc doctor_region.cc main.cc program_of.cc smi.cc smi_properties.cc smi_query.cc) \
    host-bridge/between/device_choice.cc guest-allocator/commands/exec.cc,base/cli/% host-bridge/% guest-allocator/commands/%)
header_libraries := $(W)/headers/fmt $(W)/headers/nlohmann $(W)/headers/CLI
$(header_libraries): $(W)/headers/%: /usr/include/%
	@mkdir -p $(@D) && ln -sfn $< $@
$(windows_command): windows_flags += -DFMT_HEADER_ONLY -isystem $(W)/headers
$(windows_command): | $(header_libraries)
$(dlls)/barcuda.exe: $(windows_command) $(windows_base)
	$(call making,LINK)
	@mkdir -p $(@D)
	@$(windows_cxx) -static -s -o $@ $^ $(windows_libraries)

# Programs in C: the same for both systems, which must print the same (tests/windows/test_programs.py). Each folder is of one library.
windows_dlls := $(patsubst %,$(dlls)/%.dll,nvcuda nvml cudart64_12 cudart64_13)
programs_for := -O1 -Wall -Wextra -Werror -Wno-format -isystem $(CUDA_HOME)/include
# $(call windows_suite,FOLDER,THEIR LIBRARIES ON WINDOWS,ON LINUX)
define windows_suite
$(W)/$(1)/%.exe: tests/windows/$(1)/%.c $(wildcard tests/windows/$(1)/*.h tests/windows/programs/check.h tests/windows/expect.h) | $(windows_dlls)
	$$(call making,MINGW,$$<)
	@$$(subst g++,gcc,$$(windows_cxx)) -D__USE_MINGW_ANSI_STDIO=1 $$(programs_for) -static -s -o $$@ $$< -L$(W) $(2)
$(W)/native/$(1)/%: tests/windows/$(1)/%.c $(wildcard tests/windows/$(1)/*.h tests/windows/programs/check.h tests/windows/expect.h) | $(links) $(lib)/barcuda/libnvidia-ml.so.1
	$$(call making,CC,$$<)
	@$$(CC) $$(programs_for) -o $$@ $$< -L$(lib)/barcuda $(3) -pthread
windows_programs += $(patsubst tests/windows/%.c,$(W)/%.exe,$(wildcard tests/windows/$(1)/*.c)) \
    $(patsubst tests/windows/%.c,$(W)/native/%,$(wildcard tests/windows/$(1)/*.c))
endef
$(eval $(call windows_suite,programs,-lnvcuda,-l:libcuda.so.1))
$(eval $(call windows_suite,lives,-lnvcuda,-l:libcuda.so.1))
$(eval $(call windows_suite,runtime,-lcudart13,-l:libcudart.so.13 -l:libcuda.so.1))
$(eval $(call windows_suite,runtime12,-lcudart12,-l:libcudart.so.12 -l:libcuda.so.1))
$(eval $(call windows_suite,figures,-lnvcuda,-l:libcuda.so.1))
$(eval $(call windows_suite,nvml,-lnvml,-l:libnvidia-ml.so.1))

windows_installed := $(windows_dlls) $(dlls)/barcuda.exe

# Programs of Windows alone.
windows_only := $(patsubst tests/windows/%.c,$(W)/%.exe,$(wildcard tests/windows/devices/*.c tests/windows/direct3d/*.c tests/windows/ends/*.c))
$(windows_only): $(W)/%.exe: tests/windows/%.c tests/windows/programs/check.h | $(windows_dlls)
	$(call making,MINGW,$<)
	@$(subst g++,gcc,$(windows_cxx)) -D__USE_MINGW_ANSI_STDIO=1 $(programs_for) -static -s -o $@ $< -L$(W) -lnvcuda
windows_programs += $(windows_only)
# One that looks into the library: with its structs.
$(W)/ends/%.exe: tests/windows/ends/%.cc | $(windows_dlls)
	$(call making,MINGW,$<)
	@$(windows_cxx) $(windows_flags) -static -s -o $@ $< -L$(W) -lnvcuda
windows_programs += $(patsubst tests/windows/%.cc,$(W)/%.exe,$(wildcard tests/windows/ends/*.cc))
# What tests put beside a program, which finds ivshmem devices by it: tests/windows/test_ivshmem.py.
$(W)/device/setupapi.dll: tests/windows/device/setupapi.c
	$(call making,MINGW,$<)
	@mkdir -p $(@D)
	@$(subst g++,gcc,$(windows_cxx)) $(programs_for) -shared -static -s -o $@ $<
windows_programs += $(W)/device/setupapi.dll

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

# Unit tests that ask nothing of the system, and those of what only Windows has: tests/windows/test_units.py.
windows_units := $(patsubst %.cc,$(W)/%.o,$(wildcard tests/windows/unit/*.cc)) $(patsubst tests/unit/%.cc,$(W)/tests/unit/%.o,$(wildcard $(patsubst %,tests/unit/%_test.cc,queue/virtqueue queue/virtqueue_lists \
    queue/virtqueue_hostile queue/virtqueue_threads queue/wait rows/identity rows/visible_devices rows/given_work \
    region/snapshot guest/live_memory guest/guest_crowd guest/managed_addresses guest/managed_state base/size base/bucket base/failure)))
googletest := /usr/src/googletest/googletest
$(windows_units): windows_flags += -O0 -Wa,-mbig-obj -isystem $(googletest)/include
$(W)/gtest.o: $(googletest)/src/gtest-all.cc
	$(call making,MINGW,$<)
	@$(windows_compile) $(windows_flags) -O0 -w -I$(googletest) -I$(googletest)/include -c -o $@ $<
$(W)/gtest_main.o: $(googletest)/src/gtest_main.cc
	$(call making,MINGW,$<)
	@$(windows_compile) $(windows_flags) -w -I$(googletest)/include -c -o $@ $<
$(W)/units.exe: $(windows_units) $(W)/gtest_main.o $(W)/gtest.o $(W)/entries.o $(W)/refused.o $(windows_guest) $(windows_base)
	$(call making,LINK)
	@$(windows_cxx) -static -s -o $@ $^ -Wl,--whole-archive $(W)/driver.a -Wl,--no-whole-archive $(windows_libraries)

# Those of the runtime, which are clients of a bridge: over nvcuda.dll, as the DLLs of the runtime are.
windows_runtime_units := $(patsubst tests/unit/%.cc,$(W)/tests/unit/%.o,$(wildcard $(patsubst %,tests/unit/runtime/runtime_%_test.cc,device error graph layout \
    memory registry)))
$(windows_runtime_units): windows_flags += -O0 -isystem $(googletest)/include
$(W)/runtime_units.exe: $(windows_runtime_units) $(W)/gtest_main.o $(W)/gtest.o $(windows_runtime) $(windows_base) | $(dlls)/nvcuda.dll
	$(call making,LINK)
	@$(windows_cxx) -static -s -o $@ $^ -L$(W) -lnvcuda $(windows_libraries)

# Of `make check`. The rest of it is not held up where these packages are not available.
windows-deps: deps
	@$(MAKE) --no-print-directory installed packages='$(windows_packages)' || echo "  without them tests/windows is skipped"
.PHONY: windows-deps
windows_rows := $(W)/native/rows $(W)/native/types.o $(W)/rows.exe $(W)/tests/windows/types.o
windows_tests := $(windows_programs) $(W)/units.exe $(W)/runtime_units.exe
tests: $(if $(and $(windows_cxx),$(toolkit)),$(if $(SANITIZE),,windows_built))
windows: packages := $(windows_packages) $(unit_packages)
windows: installed
	@$(MAKE) --no-print-directory $(side_by_side) all windows_built
windows_built: $(windows_installed) $(windows_rows) $(windows_tests)
.PHONY: windows windows_built
