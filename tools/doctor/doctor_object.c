/* SPDX-License-Identifier: Apache-2.0
 *
 * One program or library: by which of the ways that lead to cuBLAS and the driver does it go, and
 * does the shim stand in that way? Static copies show by the functions they define; where the
 * symbol table was stripped, by strings that only the library's own code contains.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/elf_image.h"

#include <string.h>

static const char *const watched[] = {
#define HOOK(name) #name,
#include "shim/real/cublas_hooks.def"
};

struct census {
	int watched_imports;
	const char *import; /* one of them */
	bool blas_defined, cudart_defined, opens, own_namespace;
};

static bool is_watched(const char *name)
{
	for (size_t i = 0; i < sizeof(watched) / sizeof(*watched); i++)
		if (!strcmp(watched[i], name))
			return true;
	return false;
}

static bool count_symbol(const struct elf_symbol *symbol, void *argument)
{
	struct census *census = argument;
	const char *name = symbol->name;

	if (!symbol->defined) {
		/* The full table repeats what the dynamic one has, with a version behind it. */
		if (!strncmp(name, "cublas", 6) && is_watched(name)) {
			census->watched_imports++;
			if (!census->import || strcasestr(name, "gemm"))
				census->import = name;
		}
		census->opens |= !strcmp(name, "dlopen");
		census->own_namespace |= !strcmp(name, "dlmopen");
	} else if (symbol->function) {
		census->blas_defined |= !strcmp(name, "cublasGemmEx") ||
					!strcmp(name, "cublasSgemm_v2") ||
					!strcmp(name, "cublasLtMatmul");
		census->cudart_defined |= !strcmp(name, "__cudaRegisterFatBinary") ||
					  !strcmp(name, "cudaLaunchKernel");
	}
	return false;
}

static bool starts(const char *text, const char *prefix)
{
	return text && !strncmp(text, prefix, strlen(prefix));
}

static const char *needed(const struct elf_image *image, const char *prefix)
{
	for (int i = 0; i < image->needed_count; i++)
		if (starts(image->needed[i], prefix))
			return image->needed[i];
	return NULL;
}

static bool any_text(const struct elf_image *image, const char *const *texts)
{
	for (; *texts; texts++)
		if (elf_has_text(image, *texts))
			return true;
	return false;
}

static void say_blas(struct findings *findings, const char *name, const struct elf_image *image,
		     const struct census *census)
{
	static const char *const opened[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
					     "libcublasLt.so.13", NULL};
	static const char *const own_code[] = {"CUBLAS_LOGDEST_DBG", "CUBLASLT_LOG_LEVEL", NULL};
	/* The name of a library that it is linked against is among its strings, too. */
	const bool by_name =
		census->opens && !needed(image, "libcublas") && any_text(image, opened);

	if (census->watched_imports)
		finding_add(findings, FINDING_OK, "cuBLAS", "",
			    "%s is linked against cuBLAS (%s%s): its calls bind to the shim", name,
			    census->import, census->watched_imports > 1 ? ", …" : "");
	if (by_name)
		finding_add(findings, FINDING_OK, "cuBLAS", "",
			    "%s opens cuBLAS at run time: the shim answers its dlsym()", name);
	else if (census->blas_defined || any_text(image, own_code))
		finding_add(findings, FINDING_BROKEN, "cuBLAS",
			    "link with -lcublas instead of -lcublas_static",
			    "%s contains a static copy of cuBLAS: its GEMMs are never seen", name);
}

static void say_driver(struct findings *findings, const char *name, const struct elf_image *image,
		       const struct census *census)
{
	const char *cudart = needed(image, "libcudart.so");

	if (cudart)
		finding_add(findings, FINDING_OK, "kernels", "",
			    "%s uses %s: seen below it, through cuGetProcAddress()", name, cudart);
	else if (census->cudart_defined)
		finding_add(findings, FINDING_OK, "kernels", "",
			    "%s contains a static CUDA runtime: seen below it, through dlsym() and "
			    "cuGetProcAddress()",
			    name);
	else if (needed(image, "libcuda.so"))
		finding_add(findings, FINDING_OK, "kernels", "",
			    "%s is linked against the driver: its calls bind to the shim", name);
	else if (census->opens && elf_has_text(image, "libcuda.so.1"))
		finding_add(findings, FINDING_OK, "kernels", "",
			    "%s opens the driver at run time: the shim answers its dlsym()", name);
}

void doctor_object(struct findings *findings, const char *name, const char *path)
{
	struct elf_image image;
	struct census census = {0};

	if (elf_open(&image, path))
		return;
	/* CUDA's own libraries bring a private runtime each; what they launch is not the program's.
	 */
	if (!starts(image.soname, "libcu") && !starts(image.soname, "libnv")) {
		elf_symbols(&image, count_symbol, &census);
		census.cudart_defined |= elf_has_text(&image, "cuGetProcAddress_v2") &&
					 elf_has_text(&image, "libcuda.so.1");
		say_blas(findings, name, &image, &census);
		say_driver(findings, name, &image, &census);
		/* The CUDA runtime could, too, and does not. */
		if (census.own_namespace && !census.cudart_defined)
			finding_add(findings, FINDING_WARN, "dlmopen", "",
				    "%s can load libraries into a namespace of their own, where "
				    "the shim is not",
				    name);
	}
	elf_close(&image);
}
