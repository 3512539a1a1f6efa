# SPDX-License-Identifier: Apache-2.0
# The kernels: one image per architecture, embedded into an object; and their build for the host.
#   ARCHS   native (the GPU here; "80 90a" without one), all, or a list such as "80 90a"
#   PTX     architecture whose PTX is added for GPUs that come later (empty: none)
# KERNEL_OBJECTS: what a program links to have them; KERNEL_CHOICE: only the choice among them.

ARCHS ?= native
PTX   ?= 80

K := $(O)/kernels

# Hopper's own instructions need the suffix.
kernel_native := $(if $(filter native,$(ARCHS)),$(sort $(shell nvidia-smi --query-gpu=compute_cap \
    --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sed 's/^90$$/90a/')))
kernel_known  := $(if $(filter all,$(ARCHS)),$(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null)))
kernel_archs  := $(if $(filter native,$(ARCHS)),$(or $(kernel_native),80 90a),$(if $(filter all,$(ARCHS)),\
    $(patsubst 90,90a,$(filter $(kernel_known),75 80 86 89 90 100 120)),$(ARCHS)))
kernel_images := $(kernel_archs:%=$(K)/sm_%.fatbin) $(PTX:%=$(K)/compute_%.fatbin)
kernel_sources := $(wildcard kernels/*.cu kernels/*.cuh kernels/*.h)

KERNEL_CHOICE  := $(K)/select.o $(K)/variants.o $(K)/launch.o $(K)/ladder/ladder.o
KERNEL_OBJECTS := $(KERNEL_CHOICE) $(K)/images.o

NVCCFLAGS += -O3 -std=c++17 -I. -Wno-deprecated-gpu-targets

# What ptxas says of registers and spills is kept beside the image: tests/unit/check_ptxas.sh.
# $(1): image, $(2): -gencode argument
kernel_compile = $(NVCC) -fatbin -Xfatbin -compress-all $(2) $(NVCCFLAGS) -Xptxas -v -o $(1) \
    kernels/module.cu >$(1:.fatbin=.ptxas) 2>&1 || { cat $(1:.fatbin=.ptxas) >&2; rm -f $(1); exit 1; }

$(K)/sm_%.fatbin: $(kernel_sources) | setup
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(call kernel_compile,$@,-gencode=arch=compute_$*$(comma)code=sm_$*)

$(K)/compute_%.fatbin: $(kernel_sources) | setup
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(call kernel_compile,$@,-gencode=arch=compute_$*$(comma)code=compute_$*)

# The ladder's steps, apart from what ships: small enough for one file with every architecture.
ladder_gencode = $(foreach a,$(kernel_archs),-gencode=arch=compute_$(a)$(comma)code=sm_$(a)) \
    $(foreach a,$(PTX),-gencode=arch=compute_$(a)$(comma)code=compute_$(a))

$(K)/ladder.fatbin: $(wildcard kernels/ladder/*) kernels/device.cuh kernels/attention.h $(K)/images.list | setup
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -fatbin -Xfatbin -compress-all $(ladder_gencode) $(NVCCFLAGS) -Xptxas -v -o $@ \
	    kernels/ladder/module.cu >$(@:.fatbin=.ptxas) 2>&1 || { cat $(@:.fatbin=.ptxas) >&2; rm -f $@; exit 1; }

# IMAGE(label, arch, ptx, "file", bytes), one line per image.
kernel_line = printf 'IMAGE(%s, %s, %s, "%s", %s)\n' $(1) $(patsubst %a,%,$(2)) $(3) $(K)/$(1).fatbin \
    $$(stat -c %s $(K)/$(1).fatbin);

$(K)/images.inc: $(kernel_images) $(K)/images.list
	$(Q){ $(foreach a,$(kernel_archs),$(call kernel_line,sm_$(a),$(a),false)) \
	      $(foreach a,$(PTX),$(call kernel_line,compute_$(a),$(a),true)) } >$@

# Changes when ARCHS or PTX does.
$(K)/images.list: kernel-list
	@mkdir -p $(@D)
	$(Q)echo '$(kernel_images)' | cmp -s - $@ || echo '$(kernel_images)' >$@
.PHONY: kernel-list

$(K)/images.o: CPPFLAGS += -I$(K) -DLADDER_IMAGE='"$(K)/ladder.fatbin"'
$(K)/images.o: $(K)/images.inc $(K)/ladder.fatbin

kernels: $(KERNEL_OBJECTS) ## the kernels for ARCHS

# ---- on the host --------------------------------------------------------------------------------

# Conversions of 16-bit numbers in hardware, where there is such.
HOSTCU_SIMD  := $(shell grep -qw f16c /proc/cpuinfo 2>/dev/null && grep -qw avx2 /proc/cpuinfo && echo -mf16c -mavx2 -mfma)
HOSTCU_FLAGS := -x c++ -std=gnu++17 -g -O2 -ffp-contract=off -fno-strict-aliasing -fPIC -fvisibility=hidden \
    $(HOSTCU_SIMD) -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Werror -I. \
    -include tests/simgpu/cuda_host.h
CXX ?= g++

# Any .cu file for the host; link the objects of one shared object with $(O)/simgpu/cuda_host.o.
$(O)/simgpu/cu/%.o: %.cu tests/simgpu/cuda_host.h tests/simgpu/cuda_host_ptx.h tests/simgpu/sim_kernel.h
	@mkdir -p $(@D)
	$(call say,HOSTCU,$<)
	$(Q)$(CXX) $(HOSTCU_FLAGS) -MMD -MP -c -o $@ $<

$(O)/simgpu/cuda_host.o: tests/simgpu/cuda_host.c tests/simgpu/cuda_host.h tests/simgpu/sim_kernel.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -I. -D_GNU_SOURCE -std=gnu11 -g -O2 $(WARNINGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(O)/simgpu/libsimkernels.so: $(O)/simgpu/cu/kernels/module.o $(O)/simgpu/cu/kernels/ladder/module.o \
    $(O)/simgpu/cuda_host.o
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $@ $^ -lm

simkernels: $(O)/simgpu/libsimkernels.so
.PHONY: kernels simkernels
