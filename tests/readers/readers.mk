# SPDX-License-Identifier: Apache-2.0
# Readers of what strangers wrote. The command as a whole, its files changed at random (tests/readers/readers.py), with
# another build of it: minutes. Where clang has libFuzzer, the readers one by one, too (tests/readers/targets.c).
#   make fuzz-readers [RUNS=20000] [SEED=1] [EACH=60]

.PHONY: fuzz-readers fashim-alone fuzz-alone
RUNS ?= 20000
SEED ?= 1
EACH ?= 60
READER_OBJECTS = $(O)/tests/readers/targets.o $(KERNEL_CHOICE) \
  $(call shim_objects,kernel_table kernel_layout kernel_code_cubin kernel_code_follows kernel_code_made kernel_code_image kernel_code_ptx unpack_lz4 unpack_zstd unpacked zstd_tables tuned_file call_form) \
  $(call tool_objects,elf_image json_member kernel_name line_reader live packed_file progress run_log log_reader sample_points safe_text sample_scan)

fuzz-readers: ## logs, traces, rules, caches, images, changed at random, under sanitizers: RUNS=20000 SEED=1 EACH=60
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined fashim-alone
	$(Q)tests/readers/readers.py $(O)/san-address-undefined/fashim $(RUNS) $(SEED)
	$(Q)if echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	      clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null; then \
	    $(MAKE) --no-print-directory CC=clang SAN=fuzzer-no-link,address,undefined fuzz-alone && \
	    tests/readers/fuzz.sh $(O)/san-fuzzer-no-link-address-undefined/tests/readers/fuzz $(EACH); \
	  else echo '  no libFuzzer: clang is not here'; fi
fashim-alone: $(O)/fashim
fuzz-alone: $(O)/tests/readers/fuzz

$(O)/tests/readers/fuzz $(O)/tests/readers/corpus: $(O)/tests/readers/%: $(O)/tests/readers/%.o $(READER_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(filter %/fuzz,$@),-fsanitize=fuzzer) -o $@ $^ -ljansson -lm

# A few seconds of it in `make test`, and what libFuzzer once found interesting.
READER_RUNS := tests/readers/readers.py:$(O)/fashim:240 $(O)/tests/readers/corpus:tests/readers/corpus
