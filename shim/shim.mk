# SPDX-License-Identifier: Apache-2.0
# The shim: every C and assembly file of this folder, and the kernels' images, in one shared object that
# needs libc alone. Files of another architecture assemble to nothing.

SHIM_SOURCES := $(wildcard shim/*.c shim/*.S shim/*/*.c shim/*/*.S)
SHIM_OBJECTS := $(patsubst %,$(O)/%.o,$(basename $(SHIM_SOURCES)))
# Objects of the shim by the names of their files; a name that no file has stops make.
shim_objects = $(foreach name,$(1),$(or $(filter %/$(name).o,$(SHIM_OBJECTS)),$(error no shim/*/$(name).c)))
SHIM_MAP     := $(O)/shim/libfashim.map
SHIM_LIBRARY := $(O)/libfashim.so
# The same without images for a GPU: kernels/kernels.mk.
SHIM_FOR_SIM := $(O)/sim/libfashim.so
SHIM_OF_TEXT := $(O)/text/libfashim.so

$(SHIM_OBJECTS): private CFLAGS += -fvisibility=hidden -ftls-model=initial-exec -fno-math-errno

# The export list: what the tables name, and no version (a named one would not interpose).
$(SHIM_MAP): shim/libfashim.map.in $(wildcard shim/*.def shim/*/*.def)
	@mkdir -p $(@D)
	$(call say,MAP,$@)
	$(Q)$(CC) -E -P -undef -I. -x c -o $@ $<

$(SHIM_LIBRARY): $(SHIM_OBJECTS) $(KERNEL_OBJECTS) $(SHIM_MAP)
$(SHIM_FOR_SIM): $(SHIM_OBJECTS) $(KERNEL_CHOICE) $(SIM_IMAGES) $(SHIM_MAP)
$(SHIM_OF_TEXT): $(SHIM_OBJECTS) $(KERNEL_CHOICE) $(TEXT_IMAGES) $(SHIM_MAP)
$(SHIM_LIBRARY) $(SHIM_FOR_SIM) $(SHIM_OF_TEXT):
	$(call say,LD,$@)
	$(Q)$(LINK) -shared -o $@ $(filter %.o,$^) $(LDFLAGS) \
	  -Wl,--version-script=$(SHIM_MAP) -Wl,-Bsymbolic -Wl,-z,defs,-z,relro,-z,now -Wl,--as-needed \
	  $(SHIM_LIBS)

all: $(SHIM_LIBRARY)
shim: $(SHIM_LIBRARY)
.PHONY: shim

# The same for the other architecture, as far as a cross compiler can tell: compiles, assembles, links.
AARCH64_CC      ?= aarch64-linux-gnu-gcc
AARCH64_OBJECTS := $(patsubst $(O)/%,$(O)/aarch64/%,$(SHIM_OBJECTS))

$(AARCH64_OBJECTS): private CC := $(AARCH64_CC)
$(AARCH64_OBJECTS): private CFLAGS += -fvisibility=hidden -ftls-model=initial-exec
$(O)/aarch64/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(*F)) -fPIC -MMD -MP -c -o $@ $<
$(O)/aarch64/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) $(CPPFLAGS) -MMD -MP -c -o $@ $<
$(O)/aarch64/libfashim.so: $(AARCH64_OBJECTS) $(SHIM_MAP)
	$(call say,LD,$@)
	$(Q)$(AARCH64_CC) -shared -o $@ $(AARCH64_OBJECTS) -Wl,--version-script=$(SHIM_MAP) \
	  -Wl,-Bsymbolic,-z,relro,-z,now
.PHONY: shim-aarch64
shim-aarch64: $(O)/aarch64/libfashim.so ## the shim for AArch64, without kernels (cross compiler)

# The runtime of a sanitizer looks for functions of libc, by our dlsym, before it can take notes of what we do.
ifneq ($(SAN),)
CFLAGS_preload += -fno-sanitize=all
CFLAGS_resolve += -fno-sanitize=all
CFLAGS_image   += -fno-sanitize=all
endif
