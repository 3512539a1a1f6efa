# SPDX-License-Identifier: Apache-2.0
# Kernels of other versions of PyTorch, held against the rules. Fetches gigabytes; no part of `make test`.
#   make torch-versions TORCH=FOLDER    writes docs/pytorch-versions.md's table

TORCH ?= $(O)/torch

$(O)/tests/torch/torch_kernels: $(addprefix $(O)/tests/torch/,torch_kernels.o no_driver.o) \
    $(call shim_objects,config cost message names option own_file kernel_code kernel_names kernel_table kernel_layout kernel_code_cubin kernel_code_follows kernel_code_made kernel_code_image kernel_code_ptx \
      unpack_lz4 unpack_zstd unpacked zstd_tables)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lpthread

.PHONY: torch-versions
torch-versions: $(O)/tests/torch/torch_kernels ## which kernels of PyTorch 2.1 to 2.11 the rules are for (fetches 5 GB)
	$(Q)mkdir -p $(TORCH)
	$(Q)sed '/^| rule/,$$d' docs/pytorch-versions.md >$(O)/pytorch-versions.md
	$(Q)python3 tests/torch/versions.py $< $(TORCH) >>$(O)/pytorch-versions.md
	$(Q)mv $(O)/pytorch-versions.md docs/pytorch-versions.md
