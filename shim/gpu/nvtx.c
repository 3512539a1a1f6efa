/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX 3 is a header: each library that includes it is a client of its own and, at its first call,
 * loads the tool that NVTX_INJECTION64_PATH names. That loading is not ours to cause in somebody
 * else's process, so the header is only called once the tool is there already: because the program
 * uses NVTX itself, or because the profiler put it there. The ranges stand in a domain "fashim".
 */
#include "shim/gpu/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#include "shim/real/image.h"

enum listener {
	LISTENER_UNKNOWN, /* nobody looked yet, or the tool is not loaded yet */
	LISTENER_NONE,
	LISTENER_THERE
};

static atomic_int listener = LISTENER_UNKNOWN;
static nvtxDomainHandle_t domain;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool has_name(const struct image *image, void *path)
{
	return strcmp(base_name(image->path), base_name(path)) == 0;
}

void nvtx_look(void)
{
	const int saved = errno;
	char *path;
	int found = LISTENER_UNKNOWN;

	if (atomic_load_explicit(&listener, memory_order_relaxed) != LISTENER_UNKNOWN)
		return;
	path = secure_getenv("NVTX_INJECTION64_PATH");
	if (!path || !*path) {
		atomic_compare_exchange_strong(&listener, &found, LISTENER_NONE);
	} else if (image_find(has_name, path)) {
		nvtxDomainHandle_t made = nvtxDomainCreateA("fashim"); /* twice gives the same */

		if (made)
			domain = made;
		atomic_compare_exchange_strong(&listener, &found,
					       made ? LISTENER_THERE : LISTENER_NONE);
	}
	errno = saved;
}

bool nvtx_push(const char *what, const struct attn_variant *variant, const struct attn_args *args)
{
	nvtxEventAttributes_t event = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
	};
	char text[160];

	if (atomic_load_explicit(&listener, memory_order_acquire) != LISTENER_THERE)
		return false;
	snprintf(text, sizeof(text), "%s attention B%d H%d %dx%d D%d: %s", what, (int)args->B,
		 (int)args->H, (int)args->Sq, (int)args->Sk, (int)args->D, variant->name);
	event.message.ascii = text;
	nvtxDomainRangePushEx(domain, &event);
	return true;
}

void nvtx_pop(bool pushed)
{
	if (pushed)
		nvtxDomainRangePop(domain);
}

#else /* a toolkit without NVTX */

void nvtx_look(void)
{
}

bool nvtx_push(const char *what, const struct attn_variant *variant, const struct attn_args *args)
{
	(void)what, (void)variant, (void)args;
	return false;
}

void nvtx_pop(bool pushed)
{
	(void)pushed;
}

#endif
