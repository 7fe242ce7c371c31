# SPDX-License-Identifier: Apache-2.0
# fuzz.mk: the fuzzers, their seeds and their runs.

# Fuzzers: each tests/fuzz/NAME_fuzz.cc, with all that it tests instrumented: clang's build under ASan and UBSan. What those of PTX and of
# images begin with: the PTX of the tests, and what nvcc writes. A corpus stays, and grows; what made a fuzzer stop is in its .found folder.
FUZZ_SECONDS ?= 60
fuzzers := $(patsubst tests/fuzz/%.cc,$(B)/fuzz/%,$(wildcard tests/fuzz/*_fuzz.cc))
ptx_tests := $(filter $(B)/tests/ptx_%,$(unit_tests))
$(B)/fuzz/%_fuzz: $(B)/tests/fuzz/%_fuzz.o $(call archive_files,unit-support $(host) soft-engine shm-device base)
	$(call making,LINK)
	@$(CXX) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -fsanitize=fuzzer $(link) $(fast_link) $(host_libraries)
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
