# SPDX-License-Identifier: Apache-2.0
# programs.mk: CUDA programs of the tests, built as users build theirs.

programs := $(patsubst tests/programs/%.cu,$(B)/programs/%,$(wildcard tests/programs/*.cu))
programs: $(programs)
.PHONY: programs
$(B)/programs/%: cudart := shared
$(B)/programs/static_runtime: cudart := static
$(B)/programs/blas: libraries := -L$(lib)/barcuda-libraries -l:libcublas.so.13 -Xlinker -rpath-link,$(lib)/barcuda
$(B)/programs/random: libraries := -L$(lib)/barcuda-libraries -l:libcurand.so.10 -Xlinker -rpath-link,$(lib)/barcuda
$(B)/programs/blas $(B)/programs/random: $(names) $(links)
$(B)/programs/own_profiler: libraries := -L$(CUDA_HOME)/lib64 -lcupti -lcuda
$(B)/programs/fft: libraries := -Xlinker -rpath,$(CUDA_HOME)/lib64 -ldl
# So tightly that no name in it can be read: the worker has to unpack what it looks through.
$(B)/programs/prints: packing := --compress-mode=size
$(B)/programs/thread_ends: streams := --default-stream per-thread
$(B)/programs/%: tests/programs/%.cu $(wildcard tests/programs/*.h)
	$(call cuda,-cudart=$(cudart) -Itests/programs $(packing) $(streams),$(libraries))

# Programs that were built on an old system, for tests/e2e/install/test_any_guest.py.
any_glibc := $(patsubst %,$(B)/any-glibc/%,vector_add static_runtime)
$(any_glibc): cudart := shared
$(B)/any-glibc/static_runtime: cudart := static
$(any_glibc): $(B)/any-glibc/%: tests/programs/%.cu $(wildcard tests/programs/*.h) $(B)/glibc-$(glibc)/libc.so
	$(call making,NVCC,$< (any glibc))
	@$(NVCC) -cudart=$(cudart) -O2 -Itests/programs $(oldest) -o $@ $< \
	    -L$(B)/glibc-$(glibc) -Xcompiler -static-libstdc++,-static-libgcc

e2e_sources := $(wildcard tests/e2e/*/*.cu)
e2e_source = $(filter %/$(1).cu,$(e2e_sources))
e2e_programs := $(patsubst %.cu,$(B)/e2e/%,$(notdir $(e2e_sources)))
$(B)/e2e/answers: optimize := -O0 -std=c++20 -I.
$(B)/e2e/mistake_model: optimize := -O1 -std=c++20
$(B)/e2e/answers $(B)/e2e/mistake_model: libraries := -lcuda
.SECONDEXPANSION:
$(e2e_programs): $(B)/e2e/%: $$(call e2e_source,$$*) $(wildcard tests/e2e/*/*.h)
	$(call making,NVCC,$<)
	@$(NVCC) -cudart=shared $(or $(optimize),-O2) -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o $@ $< $(libraries)

# Clients that mean no good: tests/hostile/campaign.
$(B)/tests/hostile/%.o: optimize = $(if $(SANITIZE),-O0,-O1)
hostile := $(B)/hostile/hostile $(B)/hostile/innocent
$(B)/hostile/innocent: tests/hostile/innocent.cu
	$(call cuda,-cudart=shared)
$(B)/hostile/hostile: $(patsubst %.cc,$(B)/%.o,$(wildcard tests/hostile/*.cc)) $(call archive_files,guest-client shm-device base)
	$(call program)

# Makes a region look like one of another version: tests/e2e/install/test_versions.py.
$(B)/e2e/rows: $(B)/tests/e2e/install/rows.o $(B)/shm-device.a
	$(call making,LINK)
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
	$$(call making,NVCC,$$< ($(1)))
	@$$(NVCC) -std=c++17 --extended-lambda -cudart=shared -Itests/programs -Wno-deprecated-gpu-targets $(kernel_options_$(1)) \
	    $(foreach t,$(call kernel_targets,$(1)),-gencode arch=compute_$(t),code=compute_$(t)) -o $$@ $$<
endef
$(foreach form,O2 O0 G,$(eval $(call kernel,$(form))))
kernels: $(kernels)
.PHONY: kernels
