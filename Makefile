# Barcuda: the front door. `make help` lists what it does.
#
# One non-recursive Makefile. Every folder is a static archive of its own sources; libraries and programs are made of
# archives; every tests/unit/NAME_test.cc is a test. A new source file needs no line here.
#
#   SANITIZE=address,undefined | thread    user space under a sanitizer (in a build folder of its own)
#   CXX=g++ | clang++                      either builds without warnings

SANITIZE ?=
CXX ?= g++
CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda /usr/lib/cuda) /usr/local/cuda)
NVCC ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) nvcc)
PREFIX ?= /usr/local
comma := ,
B := build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))$(if $(filter clang%,$(notdir $(CXX))),-clang)

VERSION := 0.1.0
CPPFLAGS += -I. -isystem $(CUDA_HOME)/include -D_GNU_SOURCE -DBARCUDA_VERSION='"$(VERSION)"' -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL
CXXFLAGS += -std=c++20 -O2 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread \
            $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
LDFLAGS  += -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE))

.DEFAULT_GOAL := all
.PHONY: all help deps demo check check-gpu bench bench-gpu fuzz install clean format
.SECONDARY:
.DELETE_ON_ERROR:

# ---- archives: one a folder ----------------------------------------------------------------------------------------
sources_shm-device      := $(wildcard shm-device/*.cc)
sources_guest-heap      := $(wildcard guest-allocator/heap/*.cc)
sources_guest-driver    := $(wildcard guest-allocator/*.cc guest-allocator/driver/*.cc)
sources_guest-runtime   := $(wildcard guest-allocator/runtime/*.cc)
sources_host-bridge     := $(filter-out %/main.cc,$(wildcard host-bridge/*.cc))
sources_soft-engine     := $(wildcard host-bridge/soft-gpu/*.cc host-bridge/soft-gpu/ptx/*.cc)
sources_soft-driver     := $(wildcard host-bridge/soft-gpu/driver/*.cc)
archives := $(patsubst sources_%,%,$(filter sources_%,$(.VARIABLES)))

define archive
$(B)/$(1).a: $(patsubst %.cc,$(B)/%.o,$(sources_$(1)))
	@rm -f $$@ && $$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach a,$(archives),$(eval $(call archive,$(a))))
archive_files = $(patsubst %,$(B)/%.a,$(1))

$(B)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	@$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# Driver functions that the guest library does not have answer CUDA_ERROR_NOT_SUPPORTED by name: one weak function for each
# prototype of <cuda.h> (and of the runtime layer's older entry points), so that a program that never calls them still loads.
$(B)/unsupported.o: $(CUDA_HOME)/include/cuda.h guest-allocator/unsupported.sh
	@mkdir -p $(@D)
	@echo "  GEN  $@"
	@sh guest-allocator/unsupported.sh $< > $(B)/unsupported.c
	@$(CC) -O2 -fPIC -c -o $@ $(B)/unsupported.c

# ---- what is built -------------------------------------------------------------------------------------------------
bin := $(B)/bin
lib := $(B)/lib
links := $(patsubst %,$(lib)/barcuda/%,libcuda.so.1 libcuda.so libcudart.so.13 libcudart.so.12 libcudart.so.11.0)

all: $(bin)/barcuda-bridge $(bin)/barcuda $(lib)/libbarcuda.so $(lib)/barcuda-soft/libcuda.so.1 $(links)

$(lib)/libbarcuda.so: $(call archive_files,guest-runtime guest-driver guest-heap shm-device) $(B)/unsupported.o guest-allocator/libbarcuda.map
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,--version-script=guest-allocator/libbarcuda.map -Wl,-z,defs -Wl,-Bsymbolic \
	    -Wl,--whole-archive $(call archive_files,guest-runtime guest-driver guest-heap) -Wl,--no-whole-archive \
	    $(B)/shm-device.a $(B)/unsupported.o $(LDFLAGS) $(if $(SANITIZE),,-static-libstdc++) -static-libgcc -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a -ldl

# The names under which programs look for CUDA's libraries: a directory of links for LD_LIBRARY_PATH, no toolkit needed.
$(lib)/barcuda/%: $(lib)/libbarcuda.so
	@mkdir -p $(@D)
	@ln -sf ../libbarcuda.so $@

$(lib)/barcuda-soft/libcuda.so.1: $(call archive_files,soft-driver soft-engine)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,-z,defs -Wl,-Bsymbolic -Wl,--whole-archive $^ -Wl,--no-whole-archive \
	    $(LDFLAGS) $(if $(SANITIZE),,-static-libstdc++) -static-libgcc -Wl,--exclude-libs,libstdc++.a -lzstd -llz4

$(bin)/barcuda-bridge: $(B)/host-bridge/main.o $(call archive_files,host-bridge shm-device)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(LDFLAGS) -lspdlog -lfmt -ldl

$(bin)/barcuda: $(patsubst %.cc,$(B)/%.o,$(wildcard host-bridge/cli/*.cc)) $(call archive_files,shm-device)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $^ $(LDFLAGS) -lfmt -ldl

# ---- programs: what users write, built as users build them -----------------------------------------------------------
programs := $(patsubst tests/programs/%.cu,$(B)/programs/%,$(wildcard tests/programs/*.cu))
programs: $(programs)
.PHONY: programs
$(B)/programs/%: tests/programs/%.cu $(wildcard tests/programs/*.h)
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -cudart=shared -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 \
	    -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ $<

# ---- tests: every tests/unit/NAME_test.cc -----------------------------------------------------------------------------
# The folder that a test's name begins with says which archives it is linked with.
unit_tests := $(patsubst tests/unit/%.cc,$(B)/tests/%,$(wildcard tests/unit/*_test.cc))
archives_of = $(if $(filter heap%,$(1)),guest-heap shm-device,$(if $(filter ptx% fatbin% soft%,$(1)),soft-driver soft-engine,$(if \
    $(filter runtime%,$(1)),guest-runtime soft-driver soft-engine,host-bridge shm-device)))
.SECONDEXPANSION:
$(B)/tests/%: $(B)/tests/unit/%.o $$(call archive_files,$$(call archives_of,$$*))
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CXX) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDFLAGS) -lgtest -lgtest_main -lspdlog -lfmt -lzstd -llz4 -ldl

tests: all $(unit_tests) $(programs)
.PHONY: tests

-include $(shell find $(B) -name '*.d' 2>/dev/null)
