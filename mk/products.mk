# SPDX-License-Identifier: Apache-2.0
# products.mk: the libraries and programs that are installed.

bin := $(B)/bin
lib := $(B)/lib
links := $(patsubst %,$(lib)/barcuda/%,libcuda.so.1 libcuda.so libcudart.so.13 libcudart.so.12 libcudart.so.11.0 \
             libcupti.so.13 libcupti.so.12)
absent := $(patsubst %,$(lib)/barcuda/%,libnvcuvid.so.1 libnvidia-encode.so.1 libnvidia-opticalflow.so.1 libnvoptix.so.1)
names := $(patsubst %,$(lib)/barcuda-libraries/%,libcublas.so.13 libcublas.so.12 libcublas.so.11 libcublasLt.so.13 \
             libcublasLt.so.12 libcublasLt.so.11 libcurand.so.10)

loader := $(patsubst %,$(lib)/barcuda-loader/%,libcuda.so.1 libcuda.so libnvidia-ml.so.1 libcudart.so.13 libcudart.so.12 libcudart.so.11.0 \
              libcupti.so.13 libcupti.so.12)

soft := $(patsubst %,$(lib)/barcuda-soft/%,libcuda.so.1 libcublas.so.13 libcurand.so.10 libnvidia-ml.so.1 libcupti.so.13 $(if $(LLVM_CONFIG),libbarcuda-ptx.so))
products := $(bin)/barcuda-bridge $(bin)/barcuda-exporter $(bin)/barcuda $(lib)/libbarcuda.so $(lib)/barcuda/libnvidia-ml.so.1 $(links) $(absent) $(loader) $(names) \
            $(soft)
all: headers $(products)
# What .ci/run builds with clang; `make check-tidy` has clang read the rest.
all_but_commands: headers $(filter-out $(bin)/barcuda $(bin)/barcuda-exporter,$(products))
.PHONY: all_but_commands
$(bin)/barcuda $(lib)/libbarcuda.so $(lib)/barcuda/libnvidia-ml.so.1 $(soft): $(if $(SANITIZE),,$(B)/glibc-$(glibc)/libc.so)

# What the library itself calls by the names of functions that it serves for programs goes to the functions behind them. And nothing is
# looked up at a first call, which may be one under a lock: guest-allocator/heap/next.h.
served := guest-allocator/driver/managed/mechanism/system_calls.cc
own_calls := $(if $(SANITIZE),,$(addprefix -Wl$(comma)--wrap=,close $(shell sed -n 's/^SERVED.[a-z_]*, \([a-z0-9_]*\),.*/\1/p' $(served))))
$(lib)/libbarcuda.so: $(call archive_files,$(guest) shm-device base) $(B)/unsupported.o $(B)/older_names.o $(B)/runtime_shapes.o guest-allocator/exports/libbarcuda.map
	$(call making,LINK)
	@$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -Wl,--version-script=guest-allocator/exports/libbarcuda.map $(defs) -Wl,-Bsymbolic \
	    -Wl,-z,now $(own_calls) -Wl,--whole-archive $(call archive_files,$(guest)) -Wl,--no-whole-archive \
	    $(B)/shm-device.a $(B)/base.a $(B)/unsupported.o $(B)/older_names.o $(B)/runtime_shapes.o $(old_glibc) $(link) $(hidden_gcc) -ldl

# The names under which programs look for CUDA's libraries: a directory of links for LD_LIBRARY_PATH, no toolkit needed.
$(lib)/barcuda/%: $(lib)/libbarcuda.so
	@mkdir -p $(@D)
	@ln -sf ../libbarcuda.so $@

# Those of the driver's libraries that a guest has not, where the host's may be seen: these work beside NVIDIA's libcuda alone, and wait
# forever beside ours (nvJPEG opens the first if it finds it). What is no library ends the loader's search.
$(absent):
	@mkdir -p $(@D)
	@echo "$(@F) is a part of NVIDIA's driver that Barcuda has not: no video decoder, encoder or ray tracing." > $@

# The same names for the system's own loader (`barcuda guest enable`). It knows libraries by the names inside them, and ours has one: so each
# runtime is a file with its own name, in front of which the loader puts the library that it stands for.
$(lib)/barcuda-loader/libcuda.so.1 $(lib)/barcuda-loader/libcuda.so: $(lib)/libbarcuda.so
	@mkdir -p $(@D) && ln -sfn ../$(notdir $<) $@
$(lib)/barcuda-loader/libnvidia-ml.so.1: $(lib)/barcuda/libnvidia-ml.so.1
	@mkdir -p $(@D) && ln -sfn ../barcuda/$(notdir $<) $@
$(filter %cudart.so.13 %cudart.so.12 %cudart.so.11.0 %cupti.so.13 %cupti.so.12,$(loader)):
	$(call making,LINK)
	@echo "$(@F) { };" > $(B)/$(@F).map
	@$(CC) -shared -nostdlib -o $@ -x c /dev/null -Wl,-soname,$(@F) -Wl,--version-script=$(B)/$(@F).map -Wl,--filter,libcuda.so.1

# NVML. A library of its own: a program that asks about the GPUs is no client, and must not get our malloc.
$(lib)/barcuda/libnvidia-ml.so.1: $(call archive_files,guest-nvml shm-device base)
	$(call library,$(soname),$<,$(B)/shm-device.a $(B)/base.a $(old_glibc) $(link) $(hidden_gcc))

# The names of cuBLAS and cuRAND, for guests that have no libraries of NVIDIA's: a directory of its own for LD_LIBRARY_PATH.
$(names): $(lib)/libbarcuda.so guest-allocator/exports/library_names.sh
	$(call making,LINK)
	@sh guest-allocator/exports/library_names.sh $(B)/unsupported.o $(firstword $(subst .so, ,$(patsubst lib%,%,$(@F)))) $(@F) > $(B)/$(@F).s
	@echo "$(@F) { };" > $(B)/$(@F).map
	@$(CC) -shared -nostdlib -o $@ $(B)/$(@F).s -Wl,-soname,$(@F) -Wl,--version-script=$(B)/$(@F).map -Wl,-z,defs $<

$(lib)/barcuda-soft/libcuda.so.1: $(call archive_files,soft-driver soft-engine) soft-gpu/driver/exports.map
	$(call library,$(soname) $(exported),$(filter %.a,$^),$(old_glibc) $(link) $(gcc_inside) -l:libzstd.a -llz4)

# What compiles its kernels, opened when it is wanted: a process of a real GPU's never has LLVM in it. It names no library of LLVM, so that one
# build serves every release of a distribution: soft-gpu/ptx/native.cc opens the one that is there.
$(lib)/barcuda-soft/libbarcuda-ptx.so: private defs :=
$(lib)/barcuda-soft/libbarcuda-ptx.so: $(B)/soft-compiler.a
	$(call library,,$(filter %.a,$^),$(old_glibc) $(link) $(hidden_gcc))

# The software GPU's NVML asks its driver, which lies beside it, whatever LD_LIBRARY_PATH says.
beside := -Wl,-rpath,'$$ORIGIN' -Wl,--disable-new-dtags
$(lib)/barcuda-soft/libnvidia-ml.so.1: $(B)/soft-nvml.a $(lib)/barcuda-soft/libcuda.so.1
	$(call library,$(soname),$<,$(lib)/barcuda-soft/libcuda.so.1 $(beside) $(old_glibc) $(link) $(hidden_gcc))

# And so does its CUPTI.
$(lib)/barcuda-soft/libcupti.so.13: $(B)/soft-cupti.a $(lib)/barcuda-soft/libcuda.so.1
	$(call library,$(soname),$<,$(lib)/barcuda-soft/libcuda.so.1 $(beside) $(old_glibc) $(link) $(hidden_gcc))

# The software GPU's cuBLAS, over the system's CBLAS, and its cuRAND, over NVIDIA's: which has that soname, so ours has none. The
# driver that they need is there before they are opened.
$(lib)/barcuda-soft/libcublas.so.13: with := -Wl,-soname,libcublas.so.13 -lblas
$(lib)/barcuda-soft/libcublas.so.13: $(B)/soft-blas.a
$(lib)/barcuda-soft/libcurand.so.10: with := -ldl
$(lib)/barcuda-soft/libcurand.so.10: $(B)/soft-random.a
$(lib)/barcuda-soft/libcublas.so.13 $(lib)/barcuda-soft/libcurand.so.10: $(lib)/barcuda-soft/libcuda.so.1
	$(call library,,$(filter %.a,$^),$(lib)/barcuda-soft/libcuda.so.1 $(with) $(old_glibc) $(link) $(hidden_gcc))

$(bin)/barcuda-bridge: $(B)/host-bridge/main.o $(call archive_files,$(host) base-cli shm-device base)
	$(call program,$(host_libraries))

$(bin)/barcuda: $(call objects,$(wildcard host-bridge/cli/*.cc)) $(call archive_files,guest-commands guest-pmem host-watch host-cage host-suspended host-between base-cli shm-device base)
	$(call program,$(if $(SANITIZE),,$(old_glibc) $(gcc_inside)) $(carried_libraries) -ldl)

$(bin)/barcuda-exporter: $(B)/host-bridge/exporter/main.o $(call archive_files,host-watch host-between base-cli shm-device base)
	$(call program,$(host_libraries) -lmicrohttpd)

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
$(B)/host-bridge/kubernetes/%.o $(B)/tests/e2e/install/kubelet.o: cppflags += -isystem $(B)/kubernetes
$(B)/host-bridge/kubernetes/plugin.o $(B)/tests/e2e/install/kubelet.o: $(generated).grpc.pb.cc
$(generated)%.o: $(generated)%.cc
	@echo "  CXX  $<"
	@$(CXX) $(compile) -w -I$(B)/kubernetes -c -o $@ $<
grpc_libraries = $(shell pkg-config --libs grpc++ protobuf)
protocol := $(generated).pb.o $(generated).grpc.pb.o
$(bin)/barcuda-device-plugin: $(patsubst %.cc,$(B)/%.o,$(wildcard host-bridge/kubernetes/*.cc) host-bridge/cli/container.cc) \
        $(protocol) $(call archive_files,host-watch host-between base-cli shm-device base)
	$(call program,$(host_libraries) $(grpc_libraries))
$(B)/e2e/kubelet: $(B)/tests/e2e/install/kubelet.o $(protocol)
	$(call program,$(grpc_libraries))
.PHONY: kubernetes
