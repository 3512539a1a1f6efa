# SPDX-License-Identifier: Apache-2.0
# The kernels: one image per architecture, in parts, embedded into an object; and their build for the host.
#   ARCHS   native (the GPU here; "80 90a" without one), all, or a list such as "80 90a"
#   PTX     architecture whose PTX is added for GPUs that come later: 80 where there is an image for that, of the same
#           text; else none, which leaves out a third of the work (`fashim doctor --prepare` compiles what is added)
#   PORTABLE  1: for other machines: images that older drivers load, too (portable.sh; setup brings CUDA 12's ptxas), and glibc 2.28
# KERNEL_OBJECTS: what a program links to have them; KERNEL_CHOICE: only the choice among them.

ARCHS ?= native
PORTABLE ?=
PTXAS ?= $(TOOLKIT)/ptxas

K := $(O)/kernels

# Hopper's own instructions need the suffix.
kernel_native := $(if $(filter native,$(ARCHS)),$(sort $(shell nvidia-smi --query-gpu=compute_cap \
    --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p')))
kernel_known  := $(if $(filter all,$(ARCHS)),$(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null)))
kernel_archs  := $(patsubst 90,90a,$(if $(filter native,$(ARCHS)),$(or $(kernel_native),80 90),\
    $(if $(filter all,$(ARCHS)),$(filter $(kernel_known),75 80 86 89 90 100 120),$(ARCHS))))
PTX           ?= $(filter 80,$(kernel_archs))
kernel_images := $(kernel_archs:%=sm_%) $(PTX:%=compute_%)
kernel_arch    = $(lastword $(subst _, ,$(1)))

# The parts of an image, each compiled and embedded by itself and loaded when it is needed; what compiles
# longest comes first. The kernels of a part are those whose names begin with fashim_PART_ and with that of no
# part before it, the helpers all others. A part of one 16-bit type, or of fp32 where its file has variants of these,
# too, has it for its last word.
kernel_parts_any := mma_f16 mma_bf16 few_f16 few_bf16 wmma_f16 wmma_bf16 rounded_f16 rounded_bf16 rounded_decode_f16 rounded_decode_bf16 ladder decode_f16 decode_bf16 decode_f32 f32 helpers
kernel_parts_75  := wmma_f16 helpers
kernel_parts_90a := tma_f16 tma_bf16 twice_f16 twice_bf16 $(kernel_parts_any) sm90_f32 sm90 split_f16 split_bf16
kernel_parts      = $(or $(kernel_parts_$(call kernel_arch,$(1))),$(kernel_parts_any))
kernel_part_files = $(patsubst %,$(K)/$(1)/%.fatbin,$(call kernel_parts,$(1)))
kernel_objects   := $(foreach image,$(kernel_images),$(call kernel_part_files,$(image)))

# The file that a part is compiled of; which others that includes nvcc says, each time: where it has not yet, the part is
# compiled anew.
kernel_file_ladder   := ladder/module
kernel_file_sm90_f32 := f32_sm90
kernel_file_decode_f32 := decode
kernel_file           = $(or $(kernel_file_$(1)),$(patsubst %_bf16,%,$(1:%_f16=%)))

KERNEL_CHOICE  := $(K)/select.o $(K)/takes.o $(K)/variants.o $(K)/launch.o $(K)/ladder/ladder.o
# A sanitised shim meets the simulated GPU alone.
KERNEL_OBJECTS = $(KERNEL_CHOICE) $(if $(SAN),$(SIM_IMAGES),$(K)/images.o)

# A loop over nothing is what some widths leave of one (warning 128).
NVCCFLAGS += -O3 -std=c++17 -I. -Wno-deprecated-gpu-targets -diag-suppress 128

# Text is the longer half of most parts. It is made once for an image and for what GPUs that come later are given of it,
# and for GPUs that no source tells apart.
kernel_text_86  := 80
kernel_text_89  := 80
kernel_text_120 := 100
kernel_text      = $(or $(kernel_text_$(1)),$(1))

# In the names of what is a file's own nvcc has a hash of where it was compiled: two builds shall have the same bits.
kernel_place := _INTERNAL_[0-9a-f]\{8\}_

# $(1): architecture, $(2): part
define kernel_ptx
$(K)/compute_$(1)/$(2).ptx: kernels/$(call kernel_file,$(2)).cu $(if $(wildcard $(K)/compute_$(1)/$(2).ptx.d),,kernel-list)
	@mkdir -p $$(@D)
	$$(call say,PTX,$$@)
	$$(Q)$$(NVCC) -ptx -MMD -MP -MF $$@.d -MT $$@ -arch=compute_$(1) $$(NVCCFLAGS) $(if $(filter %_f16,$(2)),-DFASHIM_ONLY_F16) \
	    $(if $(filter %_bf16,$(2)),-DFASHIM_ONLY_BF16) $(if $(filter %_f32,$(2)),-DFASHIM_ONLY_F32) -o $$@ $$<
	$$(Q)sed -i 's/$(kernel_place)/_INTERNAL_00000000_/g' $$@
endef
$(foreach arch,$(sort 80 $(foreach image,$(kernel_images),$(call kernel_text,$(call kernel_arch,$(image))))),$(foreach part,$(call kernel_parts,$(arch)),$(eval $(call kernel_ptx,$(arch),$(part)))))

kernel_assemble = $(if $(PORTABLE),kernels/portable.sh $$(NVCC) $$(PTXAS) $(1) $$< $$@,$$(NVCC) -fatbin -Xfatbin -compress-all \
    -gencode=arch=compute_$(call kernel_text,$(call kernel_arch,$(1)))$(comma)code=$(1) -Wno-deprecated-gpu-targets -Xptxas -v -o $$@ $$<)

# What ptxas says of registers and spills is kept beside the part: tests/unit/check_ptxas.sh.
# $(1): image, $(2): part
define kernel_part
$(K)/$(1)/$(2).fatbin: $(K)/compute_$(call kernel_text,$(call kernel_arch,$(1)))/$(2).ptx $(if $(PORTABLE),kernels/portable.sh)
	@mkdir -p $$(@D)
	$$(call say,PTXAS,$$@)
	$$(Q)$(call kernel_assemble,$(1)) >$$(@:.fatbin=.ptxas) 2>&1 || { cat $$(@:.fatbin=.ptxas) >&2; rm -f $$@; exit 1; }
endef
$(foreach image,$(kernel_images),$(foreach part,$(call kernel_parts,$(image)),$(eval $(call kernel_part,$(image),$(part)))))

# images.inc: for each image a line IMAGE(label, arch, ptx, bytes), then its parts, PART(label, name, "file").
kernel_line = echo "IMAGE($(1), $(patsubst %a,%,$(call kernel_arch,$(1))), $(if $(filter sm_%,$(1)),false,true), \
    $$(cat $(call kernel_part_files,$(1)) | wc -c))"; printf 'PART($(1), %s, "$(K)/$(1)/%s.fatbin")\n' \
    $(foreach part,$(call kernel_parts,$(1)),$(part) $(part));

$(K)/images.inc: $(kernel_objects) $(K)/images.list
	$(Q){ $(foreach image,$(kernel_images),$(call kernel_line,$(image))) } >$@

# Changes when ARCHS, PTX or PORTABLE does.
$(K)/images.list: kernel-list
	@mkdir -p $(@D)
	$(Q)echo '$(PORTABLE) $(kernel_objects)' | cmp -s - $@ || echo '$(PORTABLE) $(kernel_objects)' >$@
.PHONY: kernel-list

$(K)/images.o: CPPFLAGS += -I$(K)
$(K)/images.o: $(K)/images.inc

kernels: $(KERNEL_OBJECTS) ## the kernels for ARCHS

# One part for one architecture after the other, TURN by TURN: those that nobody's build has need not all be compiled to
# see that they still do. What spills is said, not judged: check_ptxas.sh judges where kernels were measured.
TURN ?= 0
kernel_turns := $(foreach arch,75 86 89 100 120,$(foreach part,$(call kernel_parts,$(arch)),sm_$(arch)/$(part)))
kernel_turn   = $(K)/$(word $(shell echo $$(($(TURN) % $(words $(kernel_turns)) + 1))),$(kernel_turns)).fatbin
.PHONY: other-kernels
other-kernels: ## one part of the kernels for an architecture of nobody's build: TURN=number
	$(Q)$(MAKE) --no-print-directory ARCHS='75 86 89 100 120' PTX= $(kernel_turn)
	$(Q)grep -c 'bytes spill stores' $(kernel_turn:.fatbin=.ptxas) | sed 's#^#  $(kernel_turn): kernels: #'

# ---- on the host --------------------------------------------------------------------------------

# Conversions of 16-bit numbers in hardware, where there is such.
HOSTCU_SIMD  := $(shell grep -qw f16c /proc/cpuinfo 2>/dev/null && grep -qw avx2 /proc/cpuinfo && echo -mf16c -mavx2 -mfma)
HOSTCU_FLAGS := -x c++ -std=gnu++17 -g -O2 -ffp-contract=off -fno-strict-aliasing -fPIC -fvisibility=hidden \
    $(HOSTCU_SIMD) -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Werror -I. \
    -include tests/simgpu/cuda_host.h
CXX ?= g++

# Any .cu file for the host; link the objects of one shared object with $(PLAIN)/simgpu/cuda_host.o.
$(PLAIN)/simgpu/cu/%.o: %.cu tests/simgpu/cuda_host.h tests/simgpu/cuda_host_ptx.h tests/simgpu/sim_kernel.h
	@mkdir -p $(@D)
	$(call say,HOSTCU,$<)
	$(Q)$(CXX) $(HOSTCU_FLAGS) -MMD -MP -c -o $@ $<

$(PLAIN)/simgpu/cuda_host.o: tests/simgpu/cuda_host.c tests/simgpu/cuda_host.h tests/simgpu/sim_kernel.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -I. -D_GNU_SOURCE -std=gnu11 -g -O2 $(WARNINGS) -fPIC -fvisibility=hidden -c -o $@ $<

# All parts that are for more than one architecture.
$(O)/simgpu/libsimkernels.so: $(sort $(foreach part,$(kernel_parts_any),$(PLAIN)/simgpu/cu/kernels/$(call kernel_file,$(part)).o)) \
    $(PLAIN)/simgpu/cuda_host.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $@ $^ -lm

# In place of images: text that the simulated GPU takes for machine code, and stands its host build for. In text/ it
# passes for what it is, PTX that has yet to be compiled.
SIM_IMAGES  := $(O)/sim/images.o
TEXT_IMAGES := $(O)/text/images.o
$(O)/sim/images.inc:  sim_images := 80, false|90, false
$(O)/text/images.inc: sim_images := 80, true
$(O)/sim/images.inc $(O)/text/images.inc: kernels/kernels.mk
	@mkdir -p $(@D)
	$(Q)for part in $(kernel_parts_any); do printf '%-63s\0' ".version 8.0 // of the host build: $$part" >$(@D)/$$part.part; done
	$(Q)echo '$(sim_images)' | tr '|' '\n' | while read -r arch ptx; do \
	    echo "IMAGE(sim_$${arch%,}, $$arch $$ptx, $(words $(kernel_parts_any)) * 64)"; \
	    for part in $(kernel_parts_any); do echo "PART(sim_$${arch%,}, $$part, \"$(@D)/$$part.part\")"; done; done >$@
$(SIM_IMAGES) $(TEXT_IMAGES): $(O)/%/images.o: kernels/images.c kernels/images.h $(O)/%/images.inc
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) -I$(@D) $(CFLAGS) -fPIC -c -o $@ $<

simkernels: $(O)/simgpu/libsimkernels.so
.PHONY: kernels simkernels
