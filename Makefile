# SPDX-License-Identifier: Apache-2.0
# Barcuda: the front door. `make help` lists what it does.
#
# One non-recursive Makefile. Every folder is a static archive of its own sources; libraries and programs are made of
# archives; every tests/unit/NAME_test.cc is a test. A new source file needs no line here.
#
#   SANITIZE=address,undefined | thread    user space under a sanitizer (in a build folder of its own, hardly optimized)
#   CXX=g++ | clang++                      either builds without warnings; clang's build under ASan is the fuzzers' too
#   CXXFLAGS=... CPPFLAGS=... LDFLAGS=...  are added to the project's own
#   PRECOMPILED=                           the standard library's headers are read for each file (usually once, but with ccache)
#   KERNELS=all                            make check with the suite of kernels in each form for each target

SANITIZE ?=
CXX ?= g++
ifeq ($(origin PRECOMPILED),undefined)
PRECOMPILED := $(if $(findstring ccache,$(CXX) $(realpath $(shell command -v $(firstword $(CXX))))),,1)
endif
STRIP ?= strip
OBJCOPY ?= objcopy
CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda /usr/lib/cuda) /usr/local/cuda)
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) nvcc)
toolkit := $(wildcard $(CUDA_HOME)/include/cuda.h)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
comma := ,
clang := $(filter clang%,$(notdir $(CXX)))
B := build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))$(if $(clang),-clang)$(if $(toolkit),,-no-cuda)

VERSION := $(shell cat VERSION)
# Undefined behaviour ends a program. But an argument of an enum's type may have any value: it is the guest's, and the driver's to
# judge, as from a C program.
sanitize := $(if $(SANITIZE),-fsanitize=$(SANITIZE))
sanitize += $(if $(findstring undefined,$(SANITIZE)),-fno-sanitize=enum -fno-sanitize-recover=all)
quiet := -Wno-maybe-uninitialized $(if $(findstring thread,$(SANITIZE)),-Wno-tsan)  # of what the sanitizers put in
cppflags := -I. -isystem $(CUDA_HOME)/include -D_GNU_SOURCE -DBARCUDA_VERSION='"$(VERSION)"' -DSPDLOG_FMT_EXTERNAL $(if $(SANITIZE),-DBARCUDA_SANITIZED)
# GCC says by these names what clang says by __has_feature.
cppflags += $(if $(clang),$(foreach s,address thread,$(if $(findstring $(s),$(SANITIZE)),-D__SANITIZE_$(shell echo $(s) | tr a-z A-Z)__)))
# What runs under a sanitizer takes longer to compile than it will ever run.
optimize = $(if $(SANITIZE),-O0,-O2)
cxxflags = -std=c++20 $(optimize) -g1 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread \
            $(if $(SANITIZE),$(sanitize) -fno-omit-frame-pointer $(if $(clang),,$(quiet)))
ldflags := -pthread $(sanitize)
# Libraries name all that they need; but clang's sanitizers are in the program that loads them.
defs := $(if $(and $(SANITIZE),$(clang)),,-Wl$(comma)-z$(comma)defs)
# What the command line or the environment names comes last: it adds to the project's own flags, and wins.
compile = $(cppflags) $(cxxflags) $(CPPFLAGS) $(CXXFLAGS)
link = $(ldflags) $(LDFLAGS)
host_libraries := -lzstd -llz4 -lsystemd -lseccomp -ldl
# GCC's own are a part of each library: what programs bring is another's.
gcc_inside := $(if $(SANITIZE),,-static-libstdc++) -static-libgcc
hidden_gcc := $(gcc_inside) -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a
# What guests carry runs with every glibc from this one on (RHEL 8 has it), and needs no library but glibc's.
glibc := 2.28
carried_libraries := -l:libseccomp.a -l:libncursesw.a -l:libtinfo.a
old_glibc := $(if $(SANITIZE),,-L$(B)/glibc-$(glibc))

.DEFAULT_GOAL := all
.PHONY: all help deps ci-deps installed headers toolkit demo check check-unit check-gpu bench bench-gpu bench-devices docs site fuzz install install-strip install-module uninstall dist deb rpm clean format
.SECONDARY:
.DELETE_ON_ERROR:

# ---- archives: one a folder ----------------------------------------------------------------------------------------
sources_base            := $(wildcard base/*.cc base/os/*.cc)
sources_base-cli        := $(wildcard base/cli/*.cc)
sources_shm-device      := $(wildcard shm-device/*/*.cc)
sources_guest-heap      := $(wildcard guest-allocator/heap/*.cc guest-allocator/heap/registered/*.cc)
sources_guest-client    := $(wildcard guest-allocator/client/*.cc)
sources_guest-driver    := $(wildcard guest-allocator/driver/*.cc guest-allocator/driver/managed/*.cc guest-allocator/driver/managed/*/*.cc)
sources_guest-runtime   := $(wildcard guest-allocator/runtime/*.cc)
sources_guest-nvml      := $(wildcard guest-allocator/nvml/*.cc)
sources_guest-libraries := $(wildcard guest-allocator/libraries/*.cc)
sources_guest-glibc     := $(wildcard guest-allocator/glibc/*.cc)
sources_guest-pmem      := $(wildcard guest-allocator/pmem/*.cc)
sources_guest-commands  := $(wildcard guest-allocator/commands/*.cc)
sources_host-between    := $(wildcard host-bridge/between/*.cc)
sources_host-bridge     := $(wildcard host-bridge/bridge/*.cc)
sources_host-cage       := $(wildcard host-bridge/cage/*.cc)
sources_host-worker     := $(wildcard host-bridge/worker/*.cc host-bridge/worker/*/*.cc)
sources_host-monitor    := $(wildcard host-bridge/monitor/*.cc)
sources_host-watch      := $(wildcard host-bridge/watch/*.cc)
sources_host-shares     := host-bridge/kubernetes/shares.cc
sources_soft-engine     := $(wildcard soft-gpu/*.cc soft-gpu/ptx/*.cc) shm-device/cuda/fat_binary_reader.cc
sources_soft-compiler   := $(wildcard soft-gpu/compiler/*.cc) soft-gpu/ptx/types.cc
sources_soft-driver     := $(wildcard soft-gpu/driver/*.cc soft-gpu/driver/calls/*.cc)
sources_soft-blas       := $(wildcard soft-gpu/blas/*.cc)
sources_soft-random     := $(wildcard soft-gpu/random/*.cc)
sources_soft-nvml       := $(wildcard soft-gpu/nvml/*.cc)
# Without LLVM's headers the software GPU interprets all kernels.
LLVM_CONFIG ?= $(firstword $(wildcard $(patsubst %,/usr/bin/llvm-config-%,19 18 17 16 15 14) /usr/bin/llvm-config))
archives := $(patsubst sources_%,%,$(filter sources_%,$(.VARIABLES)))
# Without a CUDA toolkit: what needs none, for `make check-unit`.
without_toolkit := $(if $(toolkit),,$(shell tests/without_toolkit $(foreach a,$(archives),$(sources_$(a))) tests/unit/*_test.cc))
buildable = $(if $(toolkit),$(1),$(filter $(without_toolkit),$(1)))

define archive
$(B)/$(1).a: $(patsubst %.cc,$(B)/%.o,$(call buildable,$(sources_$(1))))
	@rm -f $$@ && $$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach a,$(if $(toolkit),$(filter-out guest-driver,$(archives)),$(archives)),$(eval $(call archive,$(a))))
archive_files = $(patsubst %,$(B)/%.a,$(1))
# Each of the guest's needs those behind it.
guest := guest-libraries guest-runtime guest-driver guest-client guest-heap
host := host-bridge host-worker host-monitor host-cage host-between

# Each driver function is entered through a piece of code of its name, which may refuse the call; the function itself is inside_NAME,
# for all that is in this archive.
$(if $(toolkit),$(B)/guest-driver.a): $(patsubst %.cc,$(B)/%.o,$(sources_guest-driver)) guest-allocator/exports/admission.sh guest-allocator/driver/admission.h
	@rm -f $@ $(B)/inside.a && $(AR) rcs $(B)/inside.a $(filter %.o,$^)
	@nm -g --defined-only $(B)/inside.a | awk '$$3 ~ /^cu[A-Z]/ { print $$3 }' | LC_ALL=C sort -u > $(B)/entries
	@echo "  GEN  $(B)/entries.o"
	@sh guest-allocator/exports/admission.sh $(B)/entries > $(B)/entries.cc
	@$(CXX) $(compile) $(if $(clang),-fconstexpr-steps=20000000) -c -o $(B)/entries.o $(B)/entries.cc
	@sed 's/.*/& inside_&/' $(B)/entries > $(B)/inside_names
	@$(OBJCOPY) --redefine-syms=$(B)/inside_names $(B)/inside.a $@ && $(AR) rs $@ $(B)/entries.o 2> /dev/null

# The library's variables of threads are few and small, and lie where the loader has put them when a thread began: a call that finds them
# (__tls_get_addr) may take the loader's lock (guest-allocator/heap/next.h).
$(foreach folder,client driver heap libraries runtime,$(B)/guest-allocator/$(folder)/%.o): cxxflags += -ftls-model=initial-exec
# The engine's arithmetic is CUDA's: no multiply-add but where the program asked for one; and its loops over lanes want vectors,
# which errno and traps, of which nobody asks, forbid in loops with comparisons and roots.
# What runs while the loader relocates the library must not need its jump table.
$(B)/guest-allocator/runtime/static_runtime.o $(B)/guest-allocator/heap/mappings.o $(B)/guest-allocator/glibc/%.o: cxxflags += -fno-plt
$(B)/soft-gpu/%.o: optimize = $(if $(SANITIZE),-O0,-O3)
$(B)/soft-gpu/%.o: cxxflags += -ffp-contract=off -fno-math-errno -fno-trapping-math
$(B)/soft-gpu/compiler/%.o: cppflags += -isystem $(shell $(LLVM_CONFIG) --includedir)
$(B)/soft-gpu/compiler/%.o: optimize = $(if $(SANITIZE),-O0,-O1)
# So do tests always. But those of the queue and of the heap run long.
$(B)/tests/unit/%.o: optimize := -O0
$(B)/tests/unit/virtqueue_%.o $(B)/tests/unit/wait_%.o: optimize = $(if $(SANITIZE),-O1,-O2)
$(foreach folder,base shm-device guest-allocator/heap tests/unit/heap_,$(B)/$(folder)%.o): optimize = $(if $(SANITIZE),-O1,-O2)

$(patsubst %.cc,$(B)/%.o,$(shell grep -rlE --include='*.cc' 'BARCUDA_VERSION|version_text' shm-device guest-allocator host-bridge soft-gpu)): VERSION
$(B)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	@$(CXX) $(compile) $(if $(PRECOMPILED),$$(tests/precompile $(B) $(CXX) $(compile))) -MMD -MP -c -o $@ $<

# Driver functions that the guest library does not have answer CUDA_ERROR_NOT_SUPPORTED by name: one weak function for each
# symbol of the driver API (and of the runtime layer's older entry points), so that a program that never calls them still loads.
# So do those of cuBLAS and cuRAND, with statuses of their own.
library_headers := shm-device/cuda/api.h $(patsubst %,$(CUDA_HOME)/include/%,cublas_api.h cublas.h cublasXt.h cublasLt.h curand.h)
$(B)/unsupported.o: $(library_headers) guest-allocator/exports/unsupported.sh
	@mkdir -p $(@D)
	@echo "  GEN  $@"
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
	@mkdir -p $(@D)
	@echo "  GEN  $@"
	@python3 guest-allocator/exports/runtime_shapes.py $(STATIC_RUNTIMES) > $(B)/runtime_shapes.cc
	@$(CXX) $(compile) -c -o $@ $(B)/runtime_shapes.cc

# Which functions of CUDA's driver the software GPU has: those that its files define.
soft_functions := $(patsubst %.cc,$(B)/%.o,$(filter-out %/entry_points.cc,$(sources_soft-driver)))
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
fuzzed := $(wildcard tests/fuzz/*.cc) $(foreach a,host-between host-worker soft-engine shm-device base,$(sources_$(a)))
$(if $(and $(clang),$(findstring address,$(SANITIZE))),$(patsubst %.cc,$(B)/%.o,$(fuzzed)): sanitize += -fsanitize=fuzzer-no-link)

# ---- what is built -------------------------------------------------------------------------------------------------
bin := $(B)/bin
lib := $(B)/lib
links := $(patsubst %,$(lib)/barcuda/%,libcuda.so.1 libcuda.so libcudart.so.13 libcudart.so.12 libcudart.so.11.0)
absent := $(patsubst %,$(lib)/barcuda/%,libnvcuvid.so.1 libnvidia-encode.so.1 libnvidia-opticalflow.so.1 libnvoptix.so.1)
names := $(patsubst %,$(lib)/barcuda-libraries/%,libcublas.so.13 libcublas.so.12 libcublas.so.11 libcublasLt.so.13 \
             libcublasLt.so.12 libcublasLt.so.11 libcurand.so.10)

products := $(bin)/barcuda-bridge $(bin)/barcuda-exporter $(bin)/barcuda $(lib)/libbarcuda.so $(lib)/barcuda/libnvidia-ml.so.1 $(links) $(absent) $(names) \
            $(patsubst %,$(lib)/barcuda-soft/%,libcuda.so.1 libcublas.so.13 libcurand.so.10 libnvidia-ml.so.1 $(if $(LLVM_CONFIG),libbarcuda-ptx.so))
all: headers $(products)
$(bin)/barcuda $(lib)/libbarcuda.so $(lib)/barcuda/libnvidia-ml.so.1: $(if $(SANITIZE),,$(B)/glibc-$(glibc)/libc.so)

# What the library itself calls by the names of functions that it serves for programs goes to the functions behind them. And nothing is
# looked up at a first call, which may be one under a lock: guest-allocator/heap/next.h.
served := guest-allocator/driver/managed/mechanism/system_calls.cc
own_calls := $(if $(SANITIZE),,$(addprefix -Wl$(comma)--wrap=,close $(shell sed -n 's/^SERVED.[a-z_]*, \([a-z0-9_]*\),.*/\1/p' $(served))))
$(lib)/libbarcuda.so: $(call archive_files,$(guest) shm-device base) $(B)/unsupported.o $(B)/older_names.o $(B)/runtime_shapes.o guest-allocator/exports/libbarcuda.map
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -Wl,--version-script=guest-allocator/exports/libbarcuda.map $(defs) -Wl,-Bsymbolic \
	    -Wl,-z,now $(own_calls) -Wl,--whole-archive $(call archive_files,$(guest)) -Wl,--no-whole-archive \
	    $(B)/shm-device.a $(B)/base.a $(B)/unsupported.o $(B)/older_names.o $(B)/runtime_shapes.o $(old_glibc) $(link) $(hidden_gcc) -ldl

# The names under which programs look for CUDA's libraries: a directory of links for LD_LIBRARY_PATH, no toolkit needed.
$(lib)/barcuda/%: $(lib)/libbarcuda.so
	@mkdir -p $(@D)
	@ln -sf ../libbarcuda.so $@

# Those of the driver's libraries that a guest has not, where the host's may be seen: these work beside NVIDIA's libcuda alone, and wait
# for ever beside ours (nvJPEG opens the first if it finds it). What is no library ends the loader's search.
$(absent):
	@mkdir -p $(@D)
	@echo "$(@F) is a part of NVIDIA's driver that Barcuda has not: no video decoder, encoder or ray tracing." > $@

# NVML. A library of its own: who asks how the GPUs are doing is no client, and shall not get our malloc.
$(lib)/barcuda/libnvidia-ml.so.1: $(call archive_files,guest-nvml shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libnvidia-ml.so.1 $(defs) -Wl,-Bsymbolic -Wl,--whole-archive $(B)/guest-nvml.a -Wl,--no-whole-archive $(B)/shm-device.a $(B)/base.a \
	    $(old_glibc) $(link) $(hidden_gcc)

# The names of cuBLAS and cuRAND, for guests that have no libraries of NVIDIA's: a directory of its own for LD_LIBRARY_PATH.
$(names): $(lib)/libbarcuda.so guest-allocator/exports/library_names.sh
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@sh guest-allocator/exports/library_names.sh $(B)/unsupported.o $(firstword $(subst .so, ,$(patsubst lib%,%,$(@F)))) $(@F) > $(B)/$(@F).s
	@echo "$(@F) { };" > $(B)/$(@F).map
	@$(CC) -shared -nostdlib -o $@ $(B)/$(@F).s -Wl,-soname,$(@F) -Wl,--version-script=$(B)/$(@F).map -Wl,-z,defs $<

$(lib)/barcuda-soft/libcuda.so.1: $(call archive_files,soft-driver soft-engine) soft-gpu/driver/exports.map
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 $(defs) -Wl,-Bsymbolic -Wl,--version-script=soft-gpu/driver/exports.map -Wl,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive \
	    $(link) $(gcc_inside) -lzstd -llz4

# What compiles its kernels, opened when it is wanted: a process of a real GPU's never has LLVM in it.
$(lib)/barcuda-soft/libbarcuda-ptx.so: $(B)/soft-compiler.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ $(defs) -Wl,-Bsymbolic -Wl,--whole-archive $^ -Wl,--no-whole-archive $(link) $(shell $(LLVM_CONFIG) --ldflags --libs --link-shared)

# The software GPU's NVML asks its driver, which lies beside it, whatever LD_LIBRARY_PATH says.
$(lib)/barcuda-soft/libnvidia-ml.so.1: $(B)/soft-nvml.a $(lib)/barcuda-soft/libcuda.so.1
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libnvidia-ml.so.1 $(defs) -Wl,-Bsymbolic -Wl,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive $(lib)/barcuda-soft/libcuda.so.1 \
	    -Wl,-rpath,'$$ORIGIN' -Wl,--disable-new-dtags $(link) $(hidden_gcc)

# The software GPU's cuBLAS, over the system's CBLAS, and its cuRAND, over NVIDIA's: which has that soname, so ours has none. The
# driver that they need is there before they are opened.
$(lib)/barcuda-soft/libcublas.so.13: with := -Wl,-soname,libcublas.so.13 -lblas
$(lib)/barcuda-soft/libcublas.so.13: $(B)/soft-blas.a
$(lib)/barcuda-soft/libcurand.so.10: with := -ldl
$(lib)/barcuda-soft/libcurand.so.10: $(B)/soft-random.a
$(lib)/barcuda-soft/libcublas.so.13 $(lib)/barcuda-soft/libcurand.so.10: $(lib)/barcuda-soft/libcuda.so.1
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ $(defs) -Wl,-Bsymbolic -Wl,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive $(lib)/barcuda-soft/libcuda.so.1 \
	    $(with) $(link) $(hidden_gcc)

$(bin)/barcuda-bridge: $(B)/host-bridge/main.o $(call archive_files,$(host) shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) $(host_libraries)

$(bin)/barcuda: $(patsubst %.cc,$(B)/%.o,$(wildcard host-bridge/cli/*.cc)) $(call archive_files,guest-commands guest-pmem host-watch host-cage host-between base-cli shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $(filter %.o %.a,$^) $(link) $(if $(SANITIZE),,$(old_glibc) $(gcc_inside)) $(carried_libraries) -ldl

$(bin)/barcuda-exporter: $(B)/host-bridge/exporter/main.o $(call archive_files,host-watch host-between shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) $(host_libraries) -lmicrohttpd

# The device plugin for Kubernetes, and a kubelet's side of its protocol for its test: only where they are asked for, since gRPC is large.
kubernetes: packages += libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc pkg-config
kubernetes: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(kubernetes_programs)
kubernetes_programs := $(bin)/barcuda-device-plugin $(B)/e2e/kubelet
generated := $(B)/kubernetes/device_plugin
$(generated).grpc.pb.cc: host-bridge/kubernetes/device_plugin.proto
	@mkdir -p $(@D)
	@echo "  GEN  $(@D)"
	@protoc -Ihost-bridge/kubernetes --cpp_out=$(@D) --grpc_out=$(@D) --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) $(<F)
$(generated).pb.cc $(generated).pb.h $(generated).grpc.pb.h: $(generated).grpc.pb.cc
$(B)/host-bridge/kubernetes/%.o $(B)/tests/e2e/kubelet.o: cppflags += -isystem $(B)/kubernetes
$(B)/host-bridge/kubernetes/plugin.o $(B)/tests/e2e/kubelet.o: $(generated).grpc.pb.cc
$(generated)%.o: $(generated)%.cc
	@echo "  CXX  $<"
	@$(CXX) $(compile) -w -I$(B)/kubernetes -c -o $@ $<
grpc_libraries = $(shell pkg-config --libs grpc++ protobuf)
protocol := $(generated).pb.o $(generated).grpc.pb.o
$(bin)/barcuda-device-plugin: $(patsubst %.cc,$(B)/%.o,$(wildcard host-bridge/kubernetes/*.cc) host-bridge/cli/container.cc base/cli/installation.cc) \
        $(protocol) $(call archive_files,host-watch host-between shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) $(host_libraries) $(grpc_libraries)
$(B)/e2e/kubelet: $(B)/tests/e2e/kubelet.o $(protocol)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) $(grpc_libraries)
.PHONY: kubernetes

# ---- programs: what users write, built as users build them -----------------------------------------------------------
programs := $(patsubst tests/programs/%.cu,$(B)/programs/%,$(wildcard tests/programs/*.cu))
programs: $(programs)
.PHONY: programs
$(B)/programs/%: cudart := shared
$(B)/programs/static_runtime: cudart := static
$(B)/programs/blas: libraries := -L$(lib)/barcuda-libraries -l:libcublas.so.13 -Xlinker -rpath-link,$(lib)/barcuda
$(B)/programs/random: libraries := -L$(lib)/barcuda-libraries -l:libcurand.so.10 -Xlinker -rpath-link,$(lib)/barcuda
$(B)/programs/blas $(B)/programs/random: $(names) $(links)
$(B)/programs/fft: libraries := -Xlinker -rpath,$(CUDA_HOME)/lib64 -ldl
# So tightly that no name in it can be read: the worker has to unpack what it looks through.
$(B)/programs/prints: packing := --compress-mode=size
$(B)/programs/thread_ends: streams := --default-stream per-thread
$(B)/programs/%: tests/programs/%.cu $(wildcard tests/programs/*.h)
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -cudart=$(cudart) -O2 -Itests/programs -Wno-deprecated-gpu-targets $(packing) $(streams) -gencode arch=compute_75,code=compute_75 \
	    -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ $< $(libraries)

# Programs that were built on an old system, for tests/e2e/any_guest_test.sh.
any_glibc := $(patsubst %,$(B)/any-glibc/%,vector_add static_runtime)
$(any_glibc): cudart := shared
$(B)/any-glibc/static_runtime: cudart := static
$(any_glibc): $(B)/any-glibc/%: tests/programs/%.cu $(wildcard tests/programs/*.h) $(B)/glibc-$(glibc)/libc.so
	@mkdir -p $(@D)
	@echo "  NVCC $< (any glibc)"
	@$(NVCC) -cudart=$(cudart) -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o $@ $< \
	    -L$(B)/glibc-$(glibc) -Xcompiler -static-libstdc++,-static-libgcc

e2e_programs := $(patsubst tests/e2e/%.cu,$(B)/e2e/%,$(wildcard tests/e2e/*.cu))
$(B)/e2e/%: tests/e2e/%.cu $(wildcard tests/e2e/*.h)
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -cudart=shared -O2 -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o $@ $<

# Clients that mean no good: tests/hostile/campaign.
$(B)/tests/hostile/%.o: optimize = $(if $(SANITIZE),-O0,-O1)
hostile := $(B)/hostile/hostile $(B)/hostile/innocent
$(B)/hostile/innocent: tests/hostile/innocent.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -cudart=shared -O2 -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 \
	    -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ $<
$(B)/hostile/hostile: $(patsubst %.cc,$(B)/%.o,$(wildcard tests/hostile/*.cc)) $(call archive_files,guest-client shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link)

# Makes a region look like one of another version: tests/e2e/test_versions.py.
$(B)/e2e/rows: $(B)/tests/e2e/rows.o $(B)/shm-device.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(LDFLAGS)

# Kernels of every instruction class, each as nvcc optimizes it, as it does not, and as a debugger wants it; for the oldest and
# the newest target, and those between. KERNELS=all: each of the three for each target.
KERNELS ?=
export KERNELS
kernel_targets_O2 := 75 100
kernel_targets_O0 := 80
kernel_targets_G := 90
kernel_options_O0 := -Xcicc -O0
kernel_options_G := -G
kernel_targets = $(if $(filter all,$(KERNELS)),75 80 90 100,$(kernel_targets_$(1)))
kernels_folder := $(B)/soft/kernels$(if $(KERNELS),-$(KERNELS))
kernels := $(foreach form,O2 O0 G,$(patsubst tests/soft/kernels/%.cu,$(kernels_folder)/%.$(form),$(wildcard tests/soft/kernels/*.cu)))
define kernel
$(kernels_folder)/%.$(1): tests/soft/kernels/%.cu tests/soft/kernels/suite.h tests/programs/check.h
	@mkdir -p $$(@D)
	@echo "  NVCC $$< ($(1))"
	@$$(NVCC) -std=c++17 --extended-lambda -cudart=shared -Itests/programs -Wno-deprecated-gpu-targets $(kernel_options_$(1)) \
	    $(foreach t,$(call kernel_targets,$(1)),-gencode arch=compute_$(t),code=compute_$(t)) -o $$@ $$<
endef
$(foreach form,O2 O0 G,$(eval $(call kernel,$(form))))
kernels: $(kernels)
.PHONY: kernels

# ---- tests: every tests/unit/NAME_test.cc -----------------------------------------------------------------------------
# The folder that a test's name begins with says which archives it is linked with, and with what is made of the
# toolkit's files.
archives_of = $(if $(filter heap%,$(1)),guest-heap shm-device base,$(if $(filter ptx% fatbin% soft%,$(1)),soft-driver soft-engine,$(if \
    $(filter runtime%,$(1)),guest-runtime soft-driver soft-engine,$(if \
    $(filter guest%,$(1)),guest-driver guest-client guest-heap) $(if $(filter shares%,$(1)),host-shares host-watch) $(host) soft-engine shm-device base)))
generated_of = $(strip $(if $(filter guest% runtime%,$(1)),$(B)/unsupported.o) $(if $(filter runtime%,$(1)),$(B)/runtime_shapes.o))
UNIT ?= %
fast_link := $(if $(shell command -v ld.lld),-fuse-ld=lld)  # a quarter of the time of the usual one
unit_names := $(filter $(UNIT),$(patsubst tests/unit/%.cc,%,$(call buildable,$(wildcard tests/unit/*_test.cc))))
unit_tests := $(foreach t,$(unit_names),$(if $(toolkit),$(B)/tests/$(t),$(if $(call generated_of,$(t)),,$(B)/tests/$(t))))
.SECONDEXPANSION:
$(B)/tests/%: $(B)/tests/unit/%.o $$(call archive_files,$$(call archives_of,$$*)) $$(call generated_of,$$*)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(call generated_of,$*) $(link) $(fast_link) -lgmock -lgtest -lgtest_main $(host_libraries)

# They run kernels compiled, too.
$(patsubst %,$(B)/tests/%,$(filter ptx%,$(unit_names))): | $(if $(LLVM_CONFIG),$(lib)/barcuda-soft/libbarcuda-ptx.so)

# The guest's layers over a worker that opens the software GPU.
$(patsubst %,$(B)/tests/%,$(filter guest%,$(unit_names))): | $(lib)/barcuda-soft/libcuda.so.1

# Programs that run in the guests of tests/vm.
vm_tests := $(patsubst tests/vm/%.cc,$(B)/vm-tests/%,$(wildcard tests/vm/*.cc))
$(B)/vm-tests/stub_bridge: $(patsubst %,$(B)/host-bridge/bridge/%.o,doorbell visitor)
$(B)/vm-tests/%: $(B)/tests/vm/%.o $(B)/shm-device.a $(B)/base.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(link) -lgtest -lgtest_main

# The heap alone, to be preloaded into real programs; and a program that does nothing but allocate, and checks every byte.
$(B)/heap/libheap-test.so: $(B)/tests/heap/support/preload.o $(B)/guest-heap.a $(B)/shm-device.a $(B)/base.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ $< -Wl,--whole-archive $(B)/guest-heap.a -Wl,--no-whole-archive $(B)/shm-device.a $(B)/base.a $(link) -ldl
$(B)/heap/stress: $(B)/tests/heap/stress.o
$(B)/heap/model: $(B)/tests/heap/model.o $(B)/guest-heap.a $(B)/shm-device.a $(B)/base.a
$(B)/heap/stress $(B)/heap/model:
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) -ldl

# Writes random kernels: tests/soft/compare.
$(B)/soft/random_kernels: $(B)/tests/soft/random_kernels.o
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(link) $(gcc_inside)

tests: all $(unit_tests) $(programs) $(if $(SANITIZE),,$(any_glibc)) $(e2e_programs) $(hostile) $(B)/e2e/rows $(vm_tests) $(B)/heap/libheap-test.so $(B)/heap/stress $(B)/heap/model $(B)/soft/random_kernels $(kernels)
.PHONY: tests

# ---- what people type ---------------------------------------------------------------------------------------------------
# Debian packages that a fresh machine lacks. Nothing happens where all are there.
clang_packages := clang libclang-rt-dev
# Those that it is built with are debian/control's; debhelper is for packages alone.
built_with := $(filter-out debhelper% dh-%,$(shell sed -n '/^Build-Depends:/,/^[^ B]/s/^ \([a-z0-9.+-]*\).*/\1/p' debian/control))
unit_packages := $(if $(clang),$(clang_packages)) g++ make lld libgtest-dev libgmock-dev $(filter-out help2man llvm%,$(built_with))
packages := $(unit_packages) $(built_with) qemu-system-x86 linux-headers-amd64 kmod cpio xz-utils procps util-linux podman crun curl codespell python3-pytest libjemalloc2 libtcmalloc-minimal4
missing = $(shell for p in $(sort $(packages)); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'install ok' || echo $$p; done)
sudo = $(if $(filter 0,$(shell id -u)),,sudo )
deps: installed toolkit
# All that .ci/run needs, before parts of it run side by side.
ci-deps: packages += $(clang_packages) clang-format clang-tidy cppcheck
ci-deps: deps
installed:
	@if [ -n "$(missing)" ]; then echo "  APT  $(missing)"; \
	    said=$$(mktemp) && $(sudo)apt-get update -q > /dev/null && \
	    $(sudo)env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(missing) > $$said 2>&1 \
	    || { tail -20 $$said; rm -f $$said; exit 1; }; rm -f $$said; fi
# What is installed needs the toolkit's headers alone; programs, and so tests, nvcc as well.
headers:
	@has=$$(sed -n 's/^#define CUDA_VERSION //p' $(CUDA_HOME)/include/cuda.h 2> /dev/null); [ "$${has:-0}" -ge 13000 ] || \
	    { echo "$(CUDA_HOME)/include has $${has:+the headers of CUDA $$((has / 1000)).$$((has % 1000 / 10)), and }no cuda.h of CUDA 13.0 or newer:" \
	    "install that toolkit in /usr/local/cuda, or say CUDA_HOME=... (only \`make check-unit\` needs none)"; exit 1; }
toolkit: headers
	@[ -n "$$(command -v $(NVCC))" ] || { echo "nvcc is missing in $(CUDA_HOME)/bin: programs and tests need it"; exit 1; }

# As many side by side as make was told to (-j), or as there are processors.
jobs := $(shell nproc)
side_by_side = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(jobs))
# No more than these programs, so that the first guest is there soon.
demo_programs := device_info add_one vector_add mapped_memory device_symbol two_streams
demo_products = $(bin)/barcuda $(bin)/barcuda-bridge $(lib)/libbarcuda.so $(links) \
    $(filter $(lib)/barcuda-soft/libcuda.so.1 $(lib)/barcuda-soft/libbarcuda-ptx.so,$(products))
demo: deps
	@$(MAKE) --no-print-directory $(side_by_side) $(demo_products) $(demo_programs:%=$(B)/programs/%)
	@tests/demo $(demo_programs)

# TESTS=REGEX runs the tests with it in their names; JUNIT=FILE writes the results there as XML.
check_options = --build $(B) $(if $(TESTS),--filter '$(TESTS)') $(if $(JUNIT),--junit '$(JUNIT)')
check: deps
	@$(MAKE) --no-print-directory $(side_by_side) -k tests
	@tests/check $(check_options)

# The unit tests alone, or those that UNIT='virtqueue% wait%' names; without a CUDA toolkit, those that need none.
check-unit: packages := $(unit_packages)
check-unit: installed
	@$(MAKE) --no-print-directory $(side_by_side) -k unit_tests
	@tests/check $(check_options) $(unit_tests)
unit_tests: $(unit_tests)
.PHONY: unit_tests

bench_programs := $(patsubst %,$(B)/bench/%,cuda_bench many_bench devices_bench sharing_bench exits_bench malloc_bench heap_bench pinned_bench queue_bench libjump.so)
$(B)/bench/cuda_bench: tests/bench/processes.h
$(B)/bench/cuda_bench $(B)/bench/many_bench $(B)/bench/devices_bench: tests/bench/calls.h tests/bench/measure.h
$(B)/bench/many_bench: tests/bench/modules.h
$(B)/bench/exits_bench: tests/programs/check.h
$(patsubst %,$(B)/bench/%_bench,cuda many devices sharing exits): $(B)/bench/%: tests/bench/%.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -std=c++17 -cudart=shared -O2 -Itests/bench -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 \
	    -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ tests/bench/$*.cu
$(B)/bench/libjump.so: tests/bench/jump.cc
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -O2 -shared -fPIC -fno-plt -o $@ $<
$(B)/bench/heap_bench $(B)/bench/pinned_bench: $(B)/bench/%: $(B)/tests/heap/%.o $(call archive_files,guest-heap shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(LDFLAGS) -ldl
$(B)/bench/malloc_bench: tests/heap/malloc_bench.cc
$(B)/bench/queue_bench: tests/bench/queue_bench.cc tests/bench/measure.h shm-device/queue/virtqueue.h
$(B)/bench/malloc_bench $(B)/bench/queue_bench:
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	@$(CXX) $(compile) -o $@ $<
# Hours of tests/hostile: liars, then liars before a bridge and a software GPU under sanitizers, then random kills, then the guest's module under
# random system calls and liars in a guest; SOAK seconds in all.
SOAK ?= 3600
soak_lies = $(foreach mode,structured flip ring eat,--$(mode) 1000000000000) --seconds $$(($(SOAK) / 16)) --build $(B)
sanitized := build-address-undefined
soak: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(programs) $(e2e_programs) $(hostile) $(vm_tests)
	@$(MAKE) --no-print-directory $(side_by_side) SANITIZE=address,undefined CXX=g++ all
	@tests/hostile/campaign $(soak_lies) -- --client-device-memory 1G
	@tests/hostile/campaign $(soak_lies) --bridge $(sanitized) --patience 20 -- --client-device-memory 1G
	@tests/hostile/chaos --build $(B) --kills 1000000000000 --seconds $$(($(SOAK) / 4))
	@BARCUDA_BUILD=$(B) FUZZ_SECONDS=$$(($(SOAK) / 8)) SEED=$$(date +%s) tests/vm/check fuzz
	@BARCUDA_BUILD=$(B) tests/vm/hostile --seconds $$(($(SOAK) / 8))
.PHONY: soak
# Figures, as tables and plots: docs/performance.md. BENCH=... are options of tests/bench/run.
bench: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(bench_programs)
	@tests/bench/run --root $(B) --device soft --quick --repetitions 3 $(BENCH)
bench-gpu: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(bench_programs)
	@tests/bench/run --root $(B) --device cuda --vm $(BENCH)
# All GPUs of this machine, natively and through Barcuda: figures, and that results are right. BENCH='--device soft --quick' where there is none.
bench-devices: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(programs) $(bench_programs)
	@tests/bench/run --root $(B) --part devices $(BENCH)

# The whole-program tests on the GPU of this machine, with no VM and in a QEMU guest.
check-gpu: deps
	@$(MAKE) --no-print-directory $(side_by_side) tests
	@tests/check $(check_options) --device cuda tests/e2e/*_test.sh tests/e2e/test_*.py tests/soft/kernels_test.sh tests/vm/programs_test.sh tests/vm/clients_test.sh

# docs/support.md: what is done with each function of CUDA, and which test names it. The table of docs/limits.md.
docs: all
	@CUDA_HOME=$(CUDA_HOME) docs/support.py --build $(B)
	@docs/limits.py --build $(B)

# The pages as a site, in $(B)/site: docs/mkdocs.yml has their order. They are laid out as they are here, so that their links hold.
site_tree := $(B)/site-tree
site: packages := mkdocs mkdocs-material
site: installed
	@rm -rf $(site_tree) && mkdir -p $(site_tree)/pages && cp docs/mkdocs.yml docs/site.py $(site_tree)
	@tar -c --exclude='*.py' --exclude=mkdocs.yml --exclude=screen *.md LICENSE guest-uio/LICENSE docs | tar -x -C $(site_tree)/pages
	@sed -i '/^\[.*\]: \.\.\/\.\.\//d' $(site_tree)/pages/CHANGELOG.md  # links into the forge
	@mkdocs build --strict --clean --config-file $(site_tree)/mkdocs.yml --site-dir $(abspath $(B)/site) > $(site_tree)/log 2>&1 || \
	    { cat $(site_tree)/log; exit 1; }
	@echo $(B)/site/index.html

# Fuzzers: each tests/fuzz/NAME_fuzz.cc, with all that it tests instrumented: clang's build under ASan and UBSan. What those of PTX and of
# images begin with: the PTX of the tests, and what nvcc writes. A corpus stays, and grows; what made a fuzzer stop is in its .found folder.
FUZZ_SECONDS ?= 60
fuzzers := $(patsubst tests/fuzz/%.cc,$(B)/fuzz/%,$(wildcard tests/fuzz/*_fuzz.cc))
ptx_tests := $(filter $(B)/tests/ptx_%,$(unit_tests))
$(B)/fuzz/%_fuzz: $(B)/tests/fuzz/%_fuzz.o $(call archive_files,$(host) soft-engine shm-device base)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -fsanitize=fuzzer $(link) $(host_libraries)
$(B)/fuzz/seeds: tests/fuzz/seeds $(ptx_tests) $(B)/soft/random_kernels $(wildcard tests/programs/*.cu)
	@echo "  SEED $@"
	@tests/fuzz/seeds $@ $(NVCC) $(B)/soft/random_kernels $(ptx_tests)
fuzz: packages += $(clang_packages)
fuzz: fuzz_make = $(MAKE) --no-print-directory CXX='$(if $(clang),$(CXX),clang++)' SANITIZE=address,undefined
fuzz: deps
	@$(fuzz_make) $(side_by_side) fuzzers
	@$(fuzz_make) -j$(words $(fuzzers)) -O fuzz_runs
seeded := ptx fatbin
fuzzers: $(fuzzers) $(B)/fuzz/seeds
fuzz_runs: $(fuzzers:%=%.run)
# Side by side, a minute is less than a minute's work: no input fails because it is slow, but one whose end does not come.
$(B)/fuzz/%_fuzz.run: $(B)/fuzz/%_fuzz
	@echo "  RUN  $<"
	@mkdir -p $<.corpus $<.found
	@$< -max_total_time=$(FUZZ_SECONDS) -timeout=200 -rss_limit_mb=4096 -max_len=32768 -print_final_stats=1 -artifact_prefix=$<.found/ \
	    $<.corpus $(patsubst %,$(B)/fuzz/seeds/%_fuzz,$(filter $(seeded),$*)) > $<.log 2>&1 || { tail -60 $<.log; exit 1; }
	@grep -E 'DONE|executed_units|peak_rss' $<.log
.PHONY: fuzzers fuzz_runs

# ---- installing ----------------------------------------------------------------------------------------------------------
# Everything that is installed, as FILE:PLACE. Libraries lie as in the build, in a folder of their own (base/cli/home.h). A file
# that is called NAME.in names things of this installation.
module_source := $(PREFIX)/src/barcuda-$(VERSION)
share := $(PREFIX)/share
into = $(foreach f,$(2),$(f):$(1)/$(notdir $(f)))
commands := $(notdir $(filter $(bin)/%,$(products)))
placed_module := $(call into,$(module_source),$(filter-out %/dkms.conf.in %.rules,$(wildcard guest-uio/*)) shm-device/layout.h) \
    guest-uio/dkms.conf.in:$(module_source)/dkms.conf $(call into,$(PREFIX)/lib/udev/rules.d,guest-uio/70-barcuda.rules)
placed := $(placed_module) $(call into,$(PREFIX)/bin,$(filter $(bin)/%,$(products))) \
    $(foreach f,$(filter $(lib)/%,$(products)),$(f):$(LIBDIR)/barcuda/$(patsubst $(lib)/%,%,$(f))) \
    $(foreach u,barcuda-bridge@ barcuda-exporter barcuda-guest,system/$(u).service.in:$(PREFIX)/lib/systemd/system/$(u).service) \
    $(foreach kind,sysusers tmpfiles,$(foreach f,$(wildcard system/*.$(kind).conf),$(f):$(PREFIX)/lib/$(kind).d/$(notdir $(f:.$(kind).conf=.conf)))) \
    $(foreach c,$(commands),system/completion.bash:$(share)/bash-completion/completions/$(c)) \
    system/completion.zsh:$(share)/zsh/site-functions/_barcuda \
    $(call into,$(share)/man/man1,$(commands:%=$(B)/share/%.1)) \
    $(B)/share/bridge.conf:$(share)/doc/barcuda/examples/bridge.conf

$(B)/share/%.1: $(bin)/%
	@mkdir -p $(@D)
	@echo "  MAN  $@"
	@help2man --no-info --version-string "$$(cat VERSION)" --name "$$($< --help | head -n 1)" $(if $(filter barcuda,$*),--help-option=--help-all) --output $@ $< \
	    || { echo "help2man is missing: make deps"; exit 1; }
$(B)/share/bridge.conf: $(bin)/barcuda-bridge
	@mkdir -p $(@D)
	@$< --print-config > $@

# Shell: one entry of those lists as $$file and $$place.
entry = file=$${entry%%:*} place="$(DESTDIR)$${entry\#*:}"
place = @for entry in $(1); do $(entry); mkdir -p "$${place%/*}" && rm -f "$$place" && case $$file in \
    *.in) sed 's|@BINDIR@|$(PREFIX)/bin|; s|@VERSION@|$(VERSION)|' $$file > "$$place";; \
    *) cp -P $$file "$$place";; esac && case $$file in $(bin)/*) chmod 755 "$$place";; *) [ -L "$$place" ] || chmod 644 "$$place";; esac || exit 1; done

# The guest's module, for dkms: in a guest with PREFIX=/usr, where dkms looks. Needs no toolkit and no build.
install-module:
	$(call place,$(placed_module))
install: all $(filter $(B)/share/%,$(foreach entry,$(placed),$(firstword $(subst :, ,$(entry)))))
	@grep -q '"$(patsubst $(PREFIX)/%,%,$(LIBDIR))/barcuda"' base/cli/home.h || \
	    { echo "LIBDIR=$(LIBDIR): programs look for libraries where base/cli/home.h says, relative to PREFIX=$(PREFIX)"; exit 1; }
	$(call place,$(placed))
install-strip: install
	@for entry in $(placed); do $(entry); case $$file in $(bin)/* | $(lib)/*) \
	    [ -L "$$place" ] || ! head -c 4 "$$place" | grep -aq ELF || $(STRIP) --strip-unneeded "$$place" || exit 1;; esac; done
uninstall:
	@for entry in $(placed); do $(entry); rm -f "$$place"; done
	@for folder in $(LIBDIR)/barcuda $(module_source) $(share)/doc/barcuda; do \
	    [ ! -d "$(DESTDIR)$$folder" ] || find "$(DESTDIR)$$folder" -depth -type d -empty -delete; done

# ---- packages ------------------------------------------------------------------------------------------------------------
# debian/changelog is made of VERSION and CHANGELOG.md.
packages_folder := $(B)/packages
tree := $(packages_folder)/barcuda-$(VERSION)
date = $(shell git log -1 --format=%cD 2>/dev/null || date -R -r VERSION)
debian/changelog: VERSION CHANGELOG.md debian/control packaging/changelog
	@packaging/changelog $(VERSION) "$$(sed -n 's/^Maintainer: //p' debian/control)" "$(date)" > $@

# So are the recipes of other distributions.
recipes := $(patsubst packaging/%.in,$(packages_folder)/%,$(wildcard packaging/*.in))
$(recipes): $(packages_folder)/%: packaging/%.in VERSION
	@mkdir -p $(@D) && sed 's|@VERSION@|$(VERSION)|' $< > $@

# The tree without what is built, as a folder to build in, or as a tarball. Without git it is one already.
fresh_tree = rm -rf $(tree) && mkdir -p $(tree) && tar -c --exclude=./.git --exclude='./build*' . | tar -x -C $(tree)
dist: debian/changelog $(recipes)
	@git archive --format=tar.gz --prefix=barcuda-$(VERSION)/debian/ --add-file=debian/changelog --prefix=barcuda-$(VERSION)/ \
	    $(recipes:%=--add-file=%) -o $(packages_folder)/barcuda-$(VERSION).tar.gz HEAD && echo $(packages_folder)/barcuda-$(VERSION).tar.gz

# Of what has been built: debian/rules compiles only where there is no BUILD.
deb: packages := dpkg-dev debhelper dh-dkms help2man
deb: installed all debian/changelog
	@$(fresh_tree) && rm -f $(packages_folder)/*.deb
	@cd $(tree) && BUILD=$(abspath $(B)) dpkg-buildpackage -b -us -uc -d > ../log 2>&1 || { tail -n 40 ../log; exit 1; }
	@rm -r $(tree) && ls $(packages_folder)/*.deb

# RPMFLAGS=... are more words for rpmbuild.
rpm: all $(packages_folder)/barcuda.spec
	@$(fresh_tree) && rm -f $(packages_folder)/*.rpm
	@cd $(tree) && rpmbuild -bb --build-in-place --nodeps --define '_topdir $(abspath $(packages_folder))/rpmbuild' $(RPMFLAGS) \
	    --define '_rpmdir $(abspath $(packages_folder))' --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
	    --define 'built $(abspath $(B))' ../barcuda.spec > ../log 2>&1 || { tail -n 40 ../log; exit 1; }
	@rm -r $(tree) $(packages_folder)/rpmbuild && ls $(packages_folder)/*.rpm

clean:
	rm -rf $(B)

# ---- what reads the sources -----------------------------------------------------------------------------------------------
# The tree's C++ but what has the kernel's style: the module, and the header that it shares.
styled = $(filter-out shm-device/layout.h,$(shell find base shm-device guest-allocator host-bridge soft-gpu tests -name '*.h' -o -name '*.cc'))
format check-format: packages := clang-format
format: installed
	@clang-format -i $(styled)
check-format: installed
	@clang-format --dry-run -Werror $(styled)

# .clang-tidy names the checks. clang-tidy takes a minute and more for a file that includes the table of commands, so it reads those that
# can do without CUDA's headers: region, heap, bells, grants, the readers of files.
check-tidy: packages := $(unit_packages) clang-tidy
check-tidy: installed
	@$(MAKE) --no-print-directory $(side_by_side) -O -k \
	    $$(tests/without_toolkit $$(find base shm-device guest-allocator host-bridge soft-gpu -name '*.cc' ! -path '*/kubernetes/*') | sed 's/[.]cc\>/&.tidy/g')
%.cc.tidy:
	@echo "  TIDY $*.cc"
	@clang-tidy --quiet $*.cc -- $(cppflags) $(CPPFLAGS) -std=c++20 2> /dev/null || { echo "clang-tidy $*.cc: status $$?"; exit 1; }

# cppcheck reads all of them; tests/tree/cppcheck.txt has what it need not say.
check-cppcheck: packages := cppcheck
check-cppcheck: installed
	@cppcheck --quiet --std=c++20 --language=c++ --enable=warning,portability --inline-suppr --error-exitcode=1 -j$(jobs) \
	    --suppressions-list=tests/tree/cppcheck.txt -I. -D_GNU_SOURCE base shm-device guest-allocator host-bridge soft-gpu
.PHONY: check-format check-tidy check-cppcheck

help:
	@echo "make demo        install what is missing, build, boot a QEMU guest and run CUDA programs in it"
	@echo "make check       install what is missing, build, run every test that needs no GPU"
	@echo "make check-unit  the unit tests; without a CUDA toolkit, those that need none"
	@echo "make check-gpu   the whole-program tests on this machine's GPU"
	@echo "make bench       costs of posting, the queue and the heap; the software GPU"
	@echo "make bench-gpu   native, Barcuda flat and Barcuda in a VM, side by side, on this machine's GPU"
	@echo "make bench-devices  all GPUs of this machine at once: pairs, sums, NCCL, PyTorch, guests that share them out"
	@echo "make fuzz        each fuzzer for FUZZ_SECONDS=60"
	@echo "make soak        SOAK=3600 seconds of clients that lie, beside one that does not, and of random kills"
	@echo "make docs        docs/support.md: every function of CUDA, what is done with it, and its test; the table of docs/limits.md"
	@echo "make kubernetes  barcuda-device-plugin, and what its test needs (gRPC)"
	@echo "make site        the pages as a site, in build/site"
	@echo "make install     into PREFIX=/usr/local, libraries into LIBDIR=PREFIX/lib (DESTDIR is understood); uninstall takes it away again;"
	@echo "                 install-strip: without debugging symbols;"
	@echo "                 install-module: the guest's module alone, for dkms"
	@echo "make deb         Debian packages, in build/packages; rpm: rpm packages, dist: a source tarball, there too"

-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
