# SPDX-License-Identifier: Apache-2.0
# tests.mk: every tests/unit/ROOM/NAME_test.cc is a program of its own, and what the other tests run.

# A test's room says which archives it is linked with, and with what is made of the toolkit's files.
unit_files := $(wildcard tests/unit/*/*_test.cc)
room_of = $(notdir $(patsubst %/,%,$(dir $(filter %/$(1).cc,$(unit_files)))))
in_room = $(filter $(1),$(call room_of,$(2)))
archives_of = $(if $(call in_room,heap,$(1)),guest-heap shm-device base,$(if $(call in_room,cli,$(1)),base-cli base,$(if $(call in_room,soft-gpu,$(1)),soft-driver soft-engine,$(if \
    $(call in_room,runtime,$(1)),guest-runtime soft-driver soft-engine,$(if \
    $(call in_room,guest,$(1)),guest-driver guest-client guest-heap) $(if $(call in_room,kubernetes,$(1)),host-shares host-watch) $(if $(call in_room,worker,$(1)),generator) $(host) soft-engine base-cli shm-device base))))
generated_of = $(strip $(if $(call in_room,guest runtime,$(1)),$(B)/unsupported.o) $(if $(call in_room,runtime,$(1)),$(B)/runtime_shapes.o))
UNIT ?= %
fast_link := $(if $(shell command -v ld.lld),-fuse-ld=lld)  # a quarter of the time of the usual one
every_unit_test := $(notdir $(basename $(call buildable,$(unit_files))))
unit_names := $(filter $(UNIT),$(every_unit_test))
unit_tests := $(foreach t,$(unit_names),$(if $(toolkit),$(B)/tests/$(t),$(if $(call generated_of,$(t)),,$(B)/tests/$(t))))
.SECONDEXPANSION:
# What a room's tests are linked with is large, so they are one program with a name for each file (tests/unit/main.cc). Two tests of the heap
# connect it in their own way, region_doors_test has tests from a header, waiters_test options for ThreadSanitizer: programs of their own.
alone := $(filter heap_interrupted_test heap_threads_test region_doors_test waiters_test,$(every_unit_test))
program_of = $(or $(filter $(1),$(alone)),$(call room_of,$(1)))
# Where UNIT names some, a program has these alone. (A lone % in filter-out would stand for any word.)
together := $(if $(filter-out \%,$(UNIT)),$(unit_names),$(every_unit_test))
tests_of = $(foreach t,$(together),$(if $(filter $(1),$(call program_of,$(t))),$(t)))
unit_programs := $(sort $(foreach t,$(every_unit_test),$(call program_of,$(t))))
# Nine files of a program are compiled as one source (tests/unit/join), which reads their headers once. Alone are the two
# that take longest, and those of the model checker, which is in all that their sources instantiate.
define unit
sources_tests/units/$(1) := $(foreach t,$(2),$(filter %/$(t).cc,$(unit_files)))
$(B)/tests/units/$(1).cc: $(foreach t,$(2),$(filter %/$(t).cc,$(unit_files))) tests/unit/join $(B)/tests/units/$(1).sources
	@tests/unit/join $$(filter %.cc,$$^) > $$@
endef
units = $(if $(2),$(eval $(call unit,$(1),$(wordlist 1,9,$(2))))$(B)/tests/units/$(1).o $(call units,$(1)+,$(wordlist 10,999,$(2))))
apart := loopback_test packet_test cards_schedules_test managed_gates_model_test virtqueue_model_test
units_of = $(call units,$(1),$(filter-out $(apart),$(2))) $(foreach t,$(filter $(apart),$(2)),$(call units,$(t),$(t)))
define unit_program
$(B)/tests/programs/$(1): $(call units_of,$(1),$(2)) $(B)/tests/unit/main.o $(B)/tests/programs/$(1).sources \
    $(call archive_files,$(if $(call in_room,guest queue worker,$(firstword $(2))),unit-support) $(call archives_of,$(firstword $(2)))) \
    $(call generated_of,$(firstword $(2)))
	$$(call making,LINK)
	@$$(CXX) -o $$@ $$(filter $(B)/tests/%.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $(call generated_of,$(firstword $(2))) \
	    $$(link) $$(fast_link) -lgmock -lgtest $$(host_libraries)
sources_tests/programs/$(1) := $(strip $(2))
$(2:%=$(B)/tests/%): $(B)/tests/programs/$(1)
	@ln -f $$< $$@
endef
$(foreach p,$(unit_programs),$(if $(call tests_of,$(p)),$(eval $(call unit_program,$(p),$(call tests_of,$(p))))))

# They run kernels compiled, too.
$(patsubst %,$(B)/tests/%,$(filter ptx%,$(unit_names))): | $(if $(LLVM_CONFIG),$(lib)/barcuda-soft/libbarcuda-ptx.so)

# The guest's layers over a worker that opens the software GPU, and a worker's own.
$(patsubst %,$(B)/tests/%,$(foreach t,$(unit_names),$(if $(call in_room,guest,$(t)),$(t))) $(filter memory_layer% births_carried% births_generated_test,$(unit_names))): | $(lib)/barcuda-soft/libcuda.so.1
$(patsubst %,$(B)/tests/%,$(filter births_generated_test,$(unit_names))): | $(patsubst %,$(lib)/barcuda-soft/%,libcublas.so.13 libcurand.so.10)

# For `make check-suspend`: what a client leaves and wakes with, the folder, and the bridge's steps.
suspend_tests := $(patsubst %,$(B)/tests/%,$(filter births% code_store_test leave_test serve_test client_rows_test session_state_test set_test frames_test sparse_file_test wide_file_test conveyed_test sent_set_test suspending_test resuming_test restore_test ledger_test kept_grants_test kept_shared_test,$(unit_names)))
check-suspend: deps
	@$(MAKE) --no-print-directory $(side_by_side) -k all $(suspend_tests) $(programs) $(e2e_programs) $(B)/e2e/bridge-more-rows $(B)/e2e/rows
	@tests/check $(check_options) $(suspend_tests) tests/e2e/lives/test_suspend.py

# Programs that run in the guests of tests/vm.
vm_tests := $(patsubst tests/vm/%.cc,$(B)/vm-tests/%,$(wildcard tests/vm/*.cc))
$(B)/vm-tests/stub_bridge: $(patsubst %,$(B)/host-bridge/%.o,bridge/doorbell bridge/kept bridge/visitor between/keeping)
$(B)/vm-tests/%: $(B)/tests/vm/%.o $(B)/shm-device.a $(B)/base.a
	$(call making,LINK)
	@$(CXX) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(link) -lgtest -lgtest_main

# Bridges of builds with other links, for tests/e2e/lives/test_upgrade.py: this build's objects, except for its numbers.
other_bridges := $(B)/e2e/bridge-link5 $(B)/e2e/bridge-link6
$(B)/e2e/bridge-link5: numbers := -DBARCUDA_LINK=5 -DBARCUDA_OLDEST_LINK=4
$(B)/e2e/bridge-link6: numbers := -DBARCUDA_LINK=6 -DBARCUDA_OLDEST_LINK=5
$(other_bridges): host-bridge/bridge/numbers.cc $(bin)/barcuda-bridge
	$(call making,LINK)
	@$(CXX) $(compile) $(numbers) -c -o $@.o $<
	@$(CXX) -o $@ $(B)/host-bridge/main.o $@.o $(call archive_files,$(host) base-cli shm-device base) -s $(link) $(fast_link) $(host_libraries)

# A bridge that numbers rows differently, for tests/e2e/lives/test_suspend.py.
$(B)/e2e/bridge-more-rows: $(B)/tests/e2e/lives/more_rows.o $(bin)/barcuda-bridge
	$(call making,LINK)
	@$(CXX) -o $@ $(B)/host-bridge/main.o $< $(call archive_files,$(host) base-cli shm-device base) -s $(link) $(fast_link) $(host_libraries)

# The heap alone, to be preloaded into real programs; and a program that does nothing but allocate, and checks every byte.
$(B)/heap/libheap-test.so: $(B)/tests/heap/support/preload.o $(B)/guest-heap.a $(B)/shm-device.a $(B)/base.a
	$(call making,LINK)
	@$(CXX) -shared -o $@ $< -Wl,--whole-archive $(B)/guest-heap.a -Wl,--no-whole-archive $(B)/shm-device.a $(B)/base.a $(link) -ldl
$(B)/heap/stress: $(B)/tests/heap/stress.o
$(B)/heap/model: $(B)/tests/heap/model.o $(B)/guest-heap.a $(B)/shm-device.a $(B)/base.a
$(B)/heap/stress $(B)/heap/model:
	$(call program,-ldl)

# Writes random kernels: tests/soft/compare.
$(B)/soft/random_kernels: $(B)/tests/soft/random_kernels.o
	$(call program,$(gcc_inside))

tests: all $(unit_tests) $(programs) $(if $(SANITIZE),,$(any_glibc)) $(e2e_programs) $(hostile) $(other_bridges) $(B)/e2e/bridge-more-rows $(B)/e2e/rows $(vm_tests) $(B)/heap/libheap-test.so $(B)/heap/stress $(B)/heap/model $(B)/soft/random_kernels $(kernels)
.PHONY: tests
