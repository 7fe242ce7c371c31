# SPDX-License-Identifier: Apache-2.0
# Barcuda: the front door. `make help` lists what it does.
#
# One non-recursive Makefile. Every folder is a static archive of its own sources; libraries and programs are made of
# archives; every tests/unit/ROOM/NAME_test.cc is a test. A new source file needs no line here.
#
#   SANITIZE=address,undefined | thread    user space under a sanitizer (in a build folder of its own, hardly optimized)
#   CXX=g++ | clang++                      either builds without warnings; clang's build under ASan is the fuzzers' too
#   CXXFLAGS=... CPPFLAGS=... LDFLAGS=...  are added to the project's own
#   PRECOMPILED=                           the standard library's headers are read for each file (usually once, but with ccache)
#   KERNELS=all                            make check with the suite of kernels in each form for each target

include mk/settings.mk

.DEFAULT_GOAL := all
.PHONY: all help deps ci-deps installed headers toolkit demo check check-unit check-gpu check-suspend bench bench-gpu bench-devices bench-residency docs site fuzz install install-strip install-module install-windows uninstall dist deb rpm release clean format
.SECONDARY:
.DELETE_ON_ERROR:

include mk/archives.mk
include mk/products.mk
include mk/programs.mk
include mk/tests.mk
include mk/deps.mk
include mk/windows.mk

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
check: deps windows-deps
	@$(MAKE) --no-print-directory $(side_by_side) -k tests
	@rm -rf $(B)/std-*
	@tests/check $(check_options)

# The unit tests alone, or those that UNIT='virtqueue% wait%' names; without a CUDA toolkit, those that need none.
check-unit: packages := $(unit_packages)
check-unit: installed
	@$(MAKE) --no-print-directory $(side_by_side) -k unit_tests
	@tests/check $(check_options) $(unit_tests)
unit_tests: $(unit_tests)
.PHONY: unit_tests

include mk/bench.mk
include mk/soak.mk

# The whole-program tests on the GPU of this machine, with no VM and in a QEMU guest.
check-gpu: deps
	@$(MAKE) --no-print-directory $(side_by_side) tests
	@tests/check $(check_options) --device cuda $(shell find tests/e2e -name "test_*.py") tests/soft/kernels_test.sh tests/vm/programs_test.sh tests/vm/clients_test.sh

include mk/pages.mk
include mk/fuzz.mk
include mk/install.mk
include mk/packages.mk
include mk/lint.mk

clean:
	rm -rf $(B)

help:
	@echo "make             libraries and programs, in build/ (make deps: what they need of Debian; make clean: build/ is gone; make format)"
	@echo "make demo        install what is missing, build, boot a QEMU guest and run CUDA programs in it"
	@echo "make check       install what is missing, build, run every test that needs no GPU"
	@echo "make check-unit  the unit tests; without a CUDA toolkit, those that need none"
	@echo "make check-suspend  what holds suspending and waking alone"
	@echo "make check-gpu   the whole-program tests on this machine's GPU"
	@echo "make bench       costs of posting, the queue and the heap; the software GPU"
	@echo "make bench-gpu   native, Barcuda flat and Barcuda in a VM, side by side, on this machine's GPU"
	@echo "make bench-devices  all GPUs of this machine at once: pairs, sums, NCCL, PyTorch, guests that share them out"
	@echo "make bench-residency  the policy for cards that are too small for all guests, by a simulator: docs/oversubscription.md"
	@echo "make fuzz        each fuzzer for FUZZ_SECONDS=60"
	@echo "make soak        SOAK=3600 seconds of clients that lie, beside one that does not, and of random kills"
	@echo "make docs        docs/support.md: every function of CUDA, what is done with it, and its test; the table of docs/limits.md"
	@echo "make windows     what is there for Windows guests, in build/windows, by mingw-w64; their tests run under Wine"
	@echo "make kubernetes  barcuda-device-plugin, and what its test needs (gRPC)"
	@echo "make site        the pages as a site, in build/site"
	@echo "make install     into PREFIX=/usr/local, libraries into LIBDIR=PREFIX/lib (DESTDIR is understood); uninstall takes it away again;"
	@echo "                 install-strip: without debugging symbols;"
	@echo "                 install-module: the guest's module alone, for dkms; install-windows: what make windows has built for Windows guests"
	@echo "make deb         Debian packages, in build/packages; rpm: rpm packages, dist: a source tarball, there too"
	@echo "make release     KEY=...: CHANGELOG.md gets the version's heading; tarball, packages and an apt repository, signed, in build/release"

-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
