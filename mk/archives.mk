# SPDX-License-Identifier: Apache-2.0
# archives.mk: a static archive of each folder, and what is generated for them.

sources_base            := $(wildcard base/*.cc base/os/*.cc)
sources_base-cli        := $(wildcard base/cli/*.cc)
sources_shm-device      := $(wildcard shm-device/*/*.cc)
sources_guest-heap      := $(wildcard guest-allocator/heap/*.cc guest-allocator/heap/registered/*.cc)
sources_guest-client    := $(wildcard guest-allocator/client/*.cc)
sources_guest-driver    := $(wildcard guest-allocator/driver/*.cc guest-allocator/driver/managed/*.cc guest-allocator/driver/managed/*/*.cc)
sources_guest-runtime   := $(wildcard guest-allocator/runtime/*.cc)
sources_guest-nvml      := $(wildcard guest-allocator/nvml/*.cc)
sources_guest-libraries := $(wildcard guest-allocator/libraries/*.cc)
sources_guest-cupti     := $(wildcard guest-allocator/cupti/*.cc)
sources_guest-glibc     := $(wildcard guest-allocator/glibc/*.cc)
sources_guest-pmem      := $(wildcard guest-allocator/pmem/*.cc)
sources_guest-commands  := $(wildcard guest-allocator/commands/*.cc)
sources_host-between    := $(wildcard host-bridge/between/*.cc)
sources_host-bridge     := $(wildcard host-bridge/bridge/*.cc)
sources_host-keeper     := $(wildcard host-bridge/keeper/*.cc)
sources_host-cage       := $(wildcard host-bridge/cage/*.cc)
sources_host-worker     := $(wildcard host-bridge/worker/*.cc host-bridge/worker/*/*.cc)
sources_host-monitor    := $(wildcard host-bridge/monitor/*.cc)
sources_host-watch      := $(wildcard host-bridge/watch/*.cc)
sources_host-suspended  := $(wildcard host-bridge/suspended/*.cc)
sources_host-shares     := host-bridge/kubernetes/shares.cc
sources_soft-engine     := $(wildcard soft-gpu/*.cc soft-gpu/ptx/*.cc) shm-device/cuda/fat_binary_reader.cc
sources_soft-compiler   := $(wildcard soft-gpu/compiler/*.cc) soft-gpu/ptx/types.cc
sources_soft-driver     := $(wildcard soft-gpu/driver/*.cc soft-gpu/driver/calls/*.cc)
sources_soft-blas       := $(wildcard soft-gpu/blas/*.cc)
sources_soft-random     := $(wildcard soft-gpu/random/*.cc)
sources_soft-cupti      := $(wildcard soft-gpu/cupti/*.cc)
sources_soft-nvml       := $(wildcard soft-gpu/nvml/*.cc)
sources_unit-support    := $(wildcard tests/unit/support/*.cc)
sources_generator       := tests/hostile/generator.cc tests/hostile/rows.cc
# Without LLVM's headers the software GPU interprets all kernels.
LLVM_CONFIG ?= $(firstword $(wildcard $(patsubst %,/usr/bin/llvm-config-%,19 18 17 16 15 14) /usr/bin/llvm-config))
archives := $(patsubst sources_%,%,$(filter sources_%,$(.VARIABLES)))
# Without a CUDA toolkit: what needs none, for `make check-unit`.
without_toolkit := $(if $(toolkit),,$(shell tests/without_toolkit $(foreach a,$(archives),$(sources_$(a))) tests/unit/*/*_test.cc))
buildable = $(if $(toolkit),$(1),$(filter $(without_toolkit),$(1)))

# Six files of such a folder are compiled as one source, which reads their headers once: a third of the time of a first build. Alone are
# those that have flags of their own, or names of another file, and what tests link by itself. Without precompiled headers, or with ccache,
# each file is compiled alone: that finds forgotten includes, and serves those who change one file at a time.
joined_folders := $(if $(PRECOMPILED),base/cli guest-allocator/driver guest-allocator/driver/managed/mechanism guest-allocator/runtime \
    host-bridge/between host-bridge/bridge host-bridge/cage host-bridge/cli host-bridge/suspended host-bridge/watch \
    host-bridge/worker host-bridge/worker/births host-bridge/worker/bodies host-bridge/worker/memory host-bridge/worker/session \
    soft-gpu/compiler soft-gpu/driver soft-gpu/driver/calls)
apart_from_others := $(patsubst %,guest-allocator/driver/%.cc,context descriptor external host_function names older tensor_map) guest-allocator/runtime/per_thread.cc \
    $(patsubst %,guest-allocator/runtime/%.cc,static_runtime texture unsupported) \
    $(patsubst %,host-bridge/bridge/%.cc,client doorbell kept numbers upgrade_desk visitor) host-bridge/between/keeping.cc \
    host-bridge/cage/namespaces.cc \
    $(patsubst %,host-bridge/cli/%.cc,bridge container smi smi_properties smi_query suspend trace vm vm_config vm_keeping wake) \
    host-bridge/worker/execute.cc host-bridge/worker/execute_captured.cc soft-gpu/driver/entry_points.cc soft-gpu/driver/shareable.cc
define joined_source
sources_$(1) := $(2)
$(B)/$(1).cc: $(B)/$(1).sources
	@printf '#include "%s"\n' $(2) > $$@
$(B)/$(1).o: $(B)/$(1).cc
	$$(compiled)
endef
# $(call joined,FOLDER/NAME,FILES): their objects.
joined = $(if $(2),$(eval $(call joined_source,$(1),$(wordlist 1,6,$(2))))$(B)/$(1).o $(call joined,$(1)+,$(wordlist 7,999,$(2))))
$(foreach folder,$(joined_folders),$(eval objects_of_$(folder) := \
    $(call joined,$(folder)/joined,$(filter-out $(apart_from_others),$(call buildable,$(wildcard $(folder)/*.cc))))))
joined_in = $(filter-out $(apart_from_others),$(filter $(1)/%.cc,$(foreach file,$(2),$(if $(filter $(1)/,$(dir $(file))),$(file)))))
# $(call objects,FILES): of whole folders.
objects = $(patsubst %.cc,$(B)/%.o,$(filter-out $(foreach folder,$(joined_folders),$(call joined_in,$(folder),$(1))),$(1))) \
    $(foreach folder,$(joined_folders),$(if $(call joined_in,$(folder),$(1)),$(objects_of_$(folder))))

# An archive is made again when a source has come or gone, or is compiled with others or alone from now on. It names its objects, and has
# no copies of them.
listed = $(sources_$(1)) $(if $(filter $(1),$(archives)),$(joined_folders) $(apart_from_others))
$(B)/%.sources: FORCE
	@mkdir -p $(@D) && echo $(call listed,$*) | cmp -s - $@ || echo $(call listed,$*) > $@
.PHONY: FORCE
define archive
$(B)/$(1).a: $(call objects,$(call buildable,$(sources_$(1)))) $(B)/$(1).sources
	@rm -f $$@ && $$(AR) rcsT $$@ $$(filter %.o,$$^)
endef
$(foreach a,$(if $(toolkit),$(filter-out guest-driver,$(archives)),$(archives)),$(eval $(call archive,$(a))))
archive_files = $(patsubst %,$(B)/%.a,$(1))
# Each of the guest's needs those behind it.
guest := guest-cupti guest-libraries guest-recorded guest-driver guest-client guest-heap
host := host-bridge host-keeper host-worker host-monitor host-cage host-suspended host-between

# Each driver function is entered through a piece of code of its name, which may refuse the call; the function itself is inside_NAME,
# for all that is in this archive.
$(if $(toolkit),$(B)/guest-driver.a): $(call objects,$(sources_guest-driver)) $(B)/guest-driver.sources guest-allocator/exports/admission.sh guest-allocator/driver/admission.h
	@rm -f $@ $(B)/inside.a && $(AR) rcs $(B)/inside.a $(filter %.o,$^)
	@nm -g --defined-only $(B)/inside.a | awk '$$3 ~ /^cu[A-Z]/ { print $$3 }' | LC_ALL=C sort -u > $(B)/entries
	@echo "  GEN  $(B)/entries.o"
	@sh guest-allocator/exports/admission.sh $(B)/entries > $(B)/entries.cc
	@$(CXX) $(compile) $(if $(clang),-fconstexpr-steps=20000000) -c -o $(B)/entries.o $(B)/entries.cc
	@sed 's/.*/& inside_&/' $(B)/entries > $(B)/inside_names
	@$(OBJCOPY) --redefine-syms=$(B)/inside_names $(B)/inside.a $@ && $(AR) rs $@ $(B)/entries.o 2> /dev/null && rm $(B)/inside.a

# So are the runtime's functions that CUPTI has a number for, where the whole library is: their calls may be recorded.
cupti_headers := $(patsubst %,$(CUDA_HOME)/include/cupti_%.h,activity callbacks events metrics pcsampling pmsampling profiler_host \
    profiler_target range_profiler result sass_metrics version)
$(B)/cupti_names.h: $(CUDA_HOME)/include/cupti_driver_cbid.h $(CUDA_HOME)/include/cupti_runtime_cbid.h
	$(call making,GEN)
	@for of in DRIVER RUNTIME; do echo "#define BARCUDA_$${of}_CALLS(X) \\"; \
	    sed -nE 's/.*CUPTI_'$$of'_TRACE_CBID_((cu|__cu)[A-Za-z0-9_]*) *= *([0-9]+),.*/    X(\3, \1) \\/p' $^; echo; done > $@
$(B)/recorded: $(B)/guest-runtime.a $(B)/cupti_names.h
	@sed -nE 's/.*, ((__)?cuda.*)_v[0-9]+\).*/\1/p' $(B)/cupti_names.h | LC_ALL=C sort -u > $@.known
	@nm -g --defined-only -f sysv $(filter %.a,$^) | tr -d ' ' | awk -F '|' '$$3 == "T" && $$7 != "barcuda_unsupported" { print $$1 }' | \
	    LC_ALL=C sort -u | LC_ALL=C join - $@.known > $@
$(B)/guest-recorded.a: $(B)/recorded $(call objects,$(sources_guest-runtime)) guest-allocator/exports/recorded.sh
	@rm -f $@ $(B)/runtime.a && $(AR) rcs $(B)/runtime.a $(filter %.o,$^)
	@echo "  GEN  $(B)/recorded.o"
	@sh guest-allocator/exports/recorded.sh $(B)/recorded > $(B)/recorded.s && $(CC) -c -o $(B)/recorded.o $(B)/recorded.s
	@sed 's/.*/& inside_&/' $(B)/recorded > $(B)/recorded.inside
	@$(OBJCOPY) --redefine-syms=$(B)/recorded.inside $(B)/runtime.a $@ && $(AR) rs $@ $(B)/recorded.o 2> /dev/null && rm $(B)/runtime.a
# Which of them are entered under which number.
$(B)/cupti_entries.h: $(B)/guest-driver.a $(B)/recorded
	$(call making,GEN)
	@for of in DRIVER:entries RUNTIME:recorded; do echo "#define BARCUDA_$${of%:*}_ENTRIES(X) \\"; \
	    sed 's/.*/    X(&) \\/' $(B)/$${of#*:}; echo; done > $@.new && { cmp -s $@.new $@ || cp $@.new $@; }
$(B)/guest-allocator/cupti/names.o: $(B)/cupti_entries.h
$(B)/guest-allocator/cupti/names.o $(B)/soft-gpu/cupti/cupti.o: $(B)/cupti_names.h
$(B)/guest-allocator/cupti/names.o $(B)/soft-gpu/cupti/cupti.o: cppflags += -I$(B)

# The library's variables of threads are few and small, and lie where the loader has put them when a thread began: a call that finds them
# (__tls_get_addr) may take the loader's lock (guest-allocator/heap/next.h).
$(foreach folder,client cupti driver heap libraries runtime,$(B)/guest-allocator/$(folder)/%.o): cxxflags += -ftls-model=initial-exec
# The engine's arithmetic is CUDA's: no multiply-add but where the program asked for one; and its loops over lanes want vectors,
# which errno and traps, which no program reads, forbid in loops with comparisons and roots.
# What runs while the loader relocates the library must not need its jump table.
$(B)/guest-allocator/runtime/static_runtime.o $(B)/guest-allocator/heap/mappings.o $(B)/guest-allocator/glibc/%.o: cxxflags += -fno-plt
$(B)/soft-gpu/%.o: optimize = $(if $(SANITIZE),-O0,-O3)
$(B)/soft-gpu/%.o: cxxflags += -ffp-contract=off -fno-math-errno -fno-trapping-math
$(B)/soft-gpu/compiler/%.o: cppflags += -isystem $(shell $(LLVM_CONFIG) --includedir)
$(B)/soft-gpu/compiler/%.o: optimize = $(if $(SANITIZE),-O0,-O1)
# What reads a command line does little work, and so does a subcommand.
$(B)/host-bridge/main.o $(B)/host-bridge/bridge/command_line.o $(B)/base/cli/%.o $(B)/host-bridge/cli/%.o: optimize = $(if $(SANITIZE),-O0,-O1)
# The same is true of tests.
$(B)/tests/unit%.o: optimize := -O0
$(B)/tests/unit%.o: debug := $(unit_debug)
$(B)/tests/unit%.o: common_headers := $(common_headers) gtest/gtest.h
# Nearly all of the command's files write text, and many JSON.
$(B)/host-bridge/cli/%.o: common_headers := $(common_headers) fmt/format.h nlohmann/json.hpp
$(foreach folder,base shm-device guest-allocator/heap,$(B)/$(folder)%.o): optimize = $(if $(SANITIZE),-O1,-O2)

$(call objects,$(shell grep -rlE --include='*.cc' 'BARCUDA_VERSION|version_text' shm-device guest-allocator host-bridge soft-gpu)): VERSION
define compiled
$(call making,CXX,$<)
@$(CXX) $(compile) $(if $(PRECOMPILED),$$(tests/precompile $(B) '$(common_headers)' $(CXX) $(compile))) -MMD -MP -c -o $@ $<
endef
$(B)/%.o: %.cc
	$(compiled)
$(B)/tests/units/%.o: $(B)/tests/units/%.cc
	$(compiled)

# Driver functions that the guest library does not have answer CUDA_ERROR_NOT_SUPPORTED by name: one weak function for each
# symbol of the driver API (and of the runtime layer's older entry points), so that a program that never calls them still loads.
# So do those of cuBLAS, cuRAND and CUPTI, with statuses of their own.
library_headers := shm-device/cuda/api.h $(patsubst %,$(CUDA_HOME)/include/%,cublas_api.h cublas.h cublasXt.h cublasLt.h curand.h) \
    $(cupti_headers)
$(B)/unsupported.o: $(library_headers) guest-allocator/exports/unsupported.sh
	$(call making,GEN)
	@sh guest-allocator/exports/unsupported.sh $(library_headers) > $(B)/unsupported.c
	@$(CC) -O2 -fPIC -c -o $@ $(B)/unsupported.c

# The runtime's functions under the versions of CUDA 12 and 11.
$(B)/older_names.o: $(B)/guest-runtime.a $(B)/unsupported.o guest-allocator/exports/older_names.sh
	@echo "  GEN  $@"
	@sh guest-allocator/exports/older_names.sh $(filter %.a %.o,$^) > $(B)/older_names.s
	@$(CC) -c -o $@ $(B)/older_names.s

# The runtimes that are linked into programs look like these. More of them, of other toolkits: STATIC_RUNTIMES="A.a B.a"
STATIC_RUNTIMES ?= $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a)
$(B)/runtime_shapes.o: $(STATIC_RUNTIMES) guest-allocator/exports/runtime_shapes.py guest-allocator/runtime/find_runtime.h
	$(call making,GEN)
	@python3 guest-allocator/exports/runtime_shapes.py $(STATIC_RUNTIMES) > $(B)/runtime_shapes.cc
	@$(CXX) $(compile) -c -o $@ $(B)/runtime_shapes.cc

# Which functions of CUDA's driver the software GPU has: those that its files define.
soft_functions := $(call objects,$(filter-out %/entry_points.cc,$(sources_soft-driver)))
$(B)/soft_functions.h: $(soft_functions)
	@nm -g --defined-only $^ | awk '$$2 == "T" && $$3 ~ /^cu[A-Z]/ { print "#define SOFT_" $$3 " ~," }' > $@.new
	@cmp -s $@.new $@ || { echo "  GEN  $@"; cp $@.new $@; }
$(B)/soft-gpu/driver/entry_points.o: $(B)/soft_functions.h
$(B)/soft-gpu/driver/entry_points.o: cppflags += -I$(B)

# This machine's glibc as the linker sees it, without what is newer than $(glibc).
$(B)/glibc-$(glibc)/libc.so: guest-allocator/glibc/stubs.py $(B)/guest-glibc.a
	@echo "  GEN  $(@D)"
	@CC='$(CC)' python3 $< $(glibc) $(@D) $(B)/guest-glibc.a

# What the fuzzers are made of counts which of its edges were taken. The rest need not: it compiles a quarter faster.
fuzzed := $(wildcard tests/fuzz/*.cc) $(foreach a,host-between host-worker soft-engine shm-device base unit-support,$(sources_$(a)))
$(if $(and $(clang),$(findstring address,$(SANITIZE))),$(call objects,$(fuzzed)): sanitize += -fsanitize=fuzzer-no-link)
