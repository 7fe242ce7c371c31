# SPDX-License-Identifier: Apache-2.0
# soak.mk: hours of hostile clients.

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
