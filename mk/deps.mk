# SPDX-License-Identifier: Apache-2.0
# deps.mk: what a machine must have.

# Debian packages that a fresh machine lacks. Nothing happens where all are there.
clang_packages := clang libclang-rt-dev
# Those that it is built with are debian/control's; debhelper is for packages alone.
built_with := $(filter-out debhelper% dh-%,$(shell sed -n '/^Build-Depends:/,/^[^ B]/s/^ \([a-z0-9.+-]*\).*/\1/p' debian/control))
unit_packages := $(if $(clang),$(clang_packages)) g++ make lld libgtest-dev libgmock-dev $(filter-out llvm%,$(built_with))
packages := $(unit_packages) $(built_with) qemu-system-x86 linux-headers-amd64 kmod cpio xz-utils procps util-linux podman crun curl codespell python3-pytest libjemalloc2 libtcmalloc-minimal4
missing = $(shell for p in $(sort $(packages)); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'install ok' || echo $$p; done)
sudo = $(if $(filter 0,$(shell id -u)),,sudo )
deps: installed toolkit
# What .ci/run needs before its parts run side by side. `make check` installs the compiler for Windows itself, while other parts compile.
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
