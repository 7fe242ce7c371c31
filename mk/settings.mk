# SPDX-License-Identifier: Apache-2.0
# settings.mk: what the command line may say, and the flags that follow from it.

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
cppflags := -I. -isystem $(CUDA_HOME)/include -D_GNU_SOURCE -DCUDA_ENABLE_DEPRECATED -DBARCUDA_VERSION='"$(VERSION)"' -DSPDLOG_FMT_EXTERNAL $(if $(SANITIZE),-DBARCUDA_SANITIZED)
# GCC says by these names what clang says by __has_feature.
cppflags += $(if $(clang),$(foreach s,address thread,$(if $(findstring $(s),$(SANITIZE)),-D__SANITIZE_$(shell echo $(s) | tr a-z A-Z)__)))
# A unit test names file and line itself, and a hundred programs with symbols take a gigabyte. CXXFLAGS=-g gives them symbols, for a debugger.
debug := -g1
unit_debug := $(if $(SANITIZE)$(findstring -g,$(CXXFLAGS)),-g1,-g0)
$(B)/tests/%: private ldflags += $(if $(filter -g0,$(unit_debug)),-s)
# What is read once for all files (tests/precompile).
common_headers := algorithm array atomic chrono condition_variable cstring functional map memory mutex optional span string thread unordered_map \
                  variant vector
# What runs under a sanitizer takes longer to compile than it will ever run.
optimize = $(if $(SANITIZE),-O0,-O2)
# g++ collects its garbage from 400 MB on: a seventh less time for a large file.
roomy := $(if $(clang),,--param ggc-min-expand=300 --param ggc-min-heapsize=400000)
cxxflags = -std=c++20 $(optimize) $(debug) -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread \
            $(roomy) $(if $(SANITIZE),$(sanitize) -fno-omit-frame-pointer $(if $(clang),,$(quiet)))
ldflags := -pthread $(sanitize)
# Libraries name all that they need; but clang's sanitizers are in the program that loads them.
defs := $(if $(and $(SANITIZE),$(clang)),,-Wl$(comma)-z$(comma)defs)
# What the command line or the environment names comes last: it adds to the project's own flags, and wins.
compile = $(cppflags) $(cxxflags) $(CPPFLAGS) $(CXXFLAGS)
link = $(ldflags) $(LDFLAGS)
host_libraries := -l:libzstd.a -llz4 -lsystemd -lseccomp -ldl
# GCC's own are a part of each library: what programs bring is another's.
gcc_inside := $(if $(SANITIZE),,-static-libstdc++) -static-libgcc
hidden_gcc := $(gcc_inside) -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a
# What guests carry runs with every glibc from this one on (RHEL 8 has it), and needs no library but glibc's.
glibc := 2.28
carried_libraries := -l:libzstd.a -l:libseccomp.a -l:libncursesw.a -l:libtinfo.a
old_glibc := $(if $(SANITIZE),,-L$(B)/glibc-$(glibc))

# The first line of a recipe: the folder is there, and the reader hears what is made. $(call making,KIND[,WHAT])
making = @mkdir -p $(@D) && echo "  $(1) $(if $(2),$(2),$@)"

# One recipe for each kind of product.
# $(call program,LIBRARIES): of objects and archives.
define program
$(call making,LINK)
@$(CXX) -o $@ $(filter %.o %.a,$^) $(link) $(1)
endef
# $(call library,OPTIONS,WHOLE,OTHERS): everything of the archives WHOLE. An option with a comma needs a variable, as soname.
define library
$(call making,LINK)
@$(CXX) -shared -o $@ $(1) $(defs) -Wl,-Bsymbolic -Wl,--whole-archive $(2) -Wl,--no-whole-archive $(3)
endef
soname = -Wl,-soname,$(@F)
exported = -Wl,--version-script=$(filter %.map,$^)
# $(call cuda,OPTIONS,LIBRARIES): a CUDA program, as users build theirs, for the oldest GPU and for an H100.
oldest := -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75
define cuda
$(call making,NVCC,$<)
@$(NVCC) $(1) -O2 $(oldest) -gencode arch=compute_90,code=[sm_90,compute_90] -o $@ $< $(2)
endef
