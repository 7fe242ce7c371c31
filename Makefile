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

CPPFLAGS += -I. -isystem $(CUDA_HOME)/include -D_GNU_SOURCE
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
-include $(shell find $(B) -name '*.d' 2>/dev/null)
