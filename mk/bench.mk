# SPDX-License-Identifier: Apache-2.0
# bench.mk: programs that measure.

bench_programs := $(patsubst %,$(B)/bench/%,cuda_bench many_bench held_bench devices_bench sharing_bench exits_bench malloc_bench heap_bench pinned_bench queue_bench libjump.so)
$(B)/bench/cuda_bench: tests/bench/processes.h
$(B)/bench/cuda_bench $(B)/bench/many_bench $(B)/bench/held_bench $(B)/bench/devices_bench: tests/bench/calls.h tests/bench/measure.h
$(B)/bench/many_bench $(B)/bench/held_bench: tests/bench/modules.h
$(B)/bench/exits_bench: tests/programs/check.h
$(patsubst %,$(B)/bench/%_bench,cuda many held devices sharing exits): $(B)/bench/%: tests/bench/%.cu
	$(call cuda,-std=c++17 -cudart=shared -Itests/bench -Itests/programs)
$(B)/bench/libjump.so: tests/bench/jump.cc
	$(call making,LINK)
	@$(CXX) -O2 -shared -fPIC -fno-plt -o $@ $<
$(B)/bench/heap_bench $(B)/bench/pinned_bench: $(B)/bench/%: $(B)/tests/heap/%.o $(call archive_files,guest-heap shm-device base)
	$(call making,LINK)
	@$(CXX) -o $@ $^ $(LDFLAGS) -ldl
$(B)/bench/malloc_bench: tests/heap/malloc_bench.cc
$(B)/bench/queue_bench: tests/bench/queue_bench.cc tests/bench/measure.h shm-device/queue/virtqueue.h
$(B)/bench/malloc_bench $(B)/bench/queue_bench:
	$(call making,CXX,$<)
	@$(CXX) $(compile) -o $@ $<
$(B)/bench/residency_bench: $(B)/tests/bench/residency_bench.o $(B)/host-between.a
	$(call making,LINK)
	@$(CXX) -o $@ $^ $(link) -lfmt

# All GPUs of this machine, natively and through Barcuda: figures, and that results are right. BENCH='--device soft --quick' where there is none.
bench-devices: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(programs) $(bench_programs)
	@tests/bench/run --root $(B) --part devices $(BENCH)
# Which client has memory on a full card, by a simulated clock: docs/oversubscription.md. BENCH=... are options of tests/bench/residency.
bench-residency: $(B)/bench/residency_bench
	@tests/bench/residency --build $(B) $(BENCH)

# Figures, as tables and plots: docs/performance.md. BENCH=... are options of tests/bench/run.
bench: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(bench_programs)
	@tests/bench/run --root $(B) --device soft --quick --repetitions 3 $(BENCH)
bench-gpu: deps
	@$(MAKE) --no-print-directory $(side_by_side) all $(bench_programs)
	@tests/bench/run --root $(B) --device cuda --vm $(BENCH)
