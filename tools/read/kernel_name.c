/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a mangled name the identifiers are read off: those of the function itself, and of its template
 * arguments the first that says something, which for PyTorch's kernels is the operation. Unnamed
 * namespaces carry the name of their source file, where that is all there is.
 */
#include "tools/read/kernel_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands in most names and tells none from another. */
static const char *const dull[] = {
	"at",	"native",	   "c10",
	"std",	"detail",	   "func_wrapper_t",
	"cuda", "gpu_kernel_impl", "gpu_kernel_impl_nocast",
	"Half", "BFloat16",	   "OpaqueType",
};

struct piece {
	const char *text;
	size_t length;
};

/* The identifier at *at, <length><characters>, as far as it goes; moves behind it. */
static bool take_identifier(const char **at, const char *end, struct piece *piece)
{
	char *begin;
	size_t length;

	if (**at < '1' || **at > '9')
		return false;
	length = strtoul(*at, &begin, 10);
	if (length > (size_t)(end - begin))
		length = (size_t)(end - begin);
	*piece = (struct piece){begin, length};
	*at = begin + length;
	return length > 0;
}

static bool starts(const struct piece *piece, const char *with)
{
	return piece->length >= strlen(with) && !memcmp(piece->text, with, strlen(with));
}

static bool is_dull(const struct piece *piece)
{
	for (size_t i = 0; i < sizeof(dull) / sizeof(*dull); i++)
		if (piece->length == strlen(dull[i]) && starts(piece, dull[i]))
			return true;
	return false;
}

/* An unnamed namespace: "TensorCompare" of _GLOBAL__N__d2ba64fb_16_TensorCompare_cu_71e06f4e. False
 * for another identifier; empty where the file is not told. */
static bool unnamed(struct piece *piece)
{
	const char *end = piece->text + piece->length, *at;

	if (!starts(piece, "_GLOBAL__N_"))
		return false;
	at = memchr(piece->text + 12, '_', piece->length > 12 ? piece->length - 12 : 0);
	piece->length = 0;
	if (at && ++at < end && isdigit((unsigned char)*at)) {
		const size_t length = strtoul(at, (char **)&at, 10);

		if (at < end && ++at < end)
			*piece = (struct piece){
				at, length < (size_t)(end - at) ? length : (size_t)(end - at)};
		if (piece->length > 3 && !memcmp(piece->text + piece->length - 3, "_cu", 3))
			piece->length -= 3;
	}
	return true;
}

/* The first telling identifier among template arguments. */
static bool take_argument(const char *at, const char *end, struct piece *telling)
{
	while (at < end) {
		struct piece piece;

		if (*at == 'L' && at + 1 < end && islower((unsigned char)at[1])) { /* a number */
			at = memchr(at, 'E', (size_t)(end - at));
			if (!at)
				return false;
		} else if (*at == 'S') { /* something named before */
			while (at < end && *at != '_' && *at != 't')
				at++;
		} else if (take_identifier(&at, end, &piece)) {
			if (!unnamed(&piece) && is_dull(&piece))
				continue;
			*telling = piece;
			if (piece.length)
				return true;
			continue;
		}
		at++;
	}
	return false;
}

/* As much of `text` as fits. */
static void copy_text(char *buffer, size_t size, const char *text)
{
	const size_t length = strnlen(text, size - 1);

	memcpy(buffer, text, length);
	buffer[length] = '\0';
}

char *kernel_name(const char *text, char *buffer, size_t size)
{
	const char *at = text + 2, *end = text + strcspn(text, " ");
	struct piece piece;
	size_t used = 0;
	bool nested;

	copy_text(buffer, size, text);
	if (strncmp(text, "_Z", 2))
		return buffer;
	nested = *at == 'N';
	at += nested;
	while (used < size && take_identifier(&at, end, &piece)) {
		if (!unnamed(&piece) && !starts(&piece, "CUB_"))
			used += (size_t)snprintf(buffer + used, size - used, "%s%.*s",
						 used ? "::" : "", (int)piece.length, piece.text);
		if (!nested)
			break;
	}
	if (used && used < size && *at == 'I' && take_argument(at + 1, end, &piece))
		used += (size_t)snprintf(buffer + used, size - used, "<%.*s>", (int)piece.length,
					 piece.text);
	if (!used)
		copy_text(buffer, size, text);
	else if (used < size)
		snprintf(buffer + used, size - used, "%s", end);
	return buffer;
}
