/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing words without libc. A sanitizer's runtime looks its own interceptors' originals up by
 * dlsym before anything else runs; strcmp is one of these interceptors by then, and not ready. So
 * what lies on the way of a dlsym (preload.c, resolve.c, image.c, the tables of names) calls
 * nothing through the PLT that a program can define.
 */
#ifndef FASHIM_WORD_H
#define FASHIM_WORD_H

#include <stdbool.h>

/* As strcmp. */
static inline int word_order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

static inline bool word_same(const char *a, const char *b)
{
	return word_order(a, b) == 0;
}

static inline bool word_begins(const char *word, const char *beginning)
{
	while (*beginning && *word == *beginning) {
		word++;
		beginning++;
	}
	return !*beginning;
}

/* Place of a name in a list that is sorted by word_order(), or -1. */
static inline int word_find(const char *const *names, int count, const char *name)
{
	int low = 0, high = count - 1;

	while (low <= high) {
		const int middle = (low + high) / 2, order = word_order(name, names[middle]);

		if (order == 0)
			return middle;
		if (order < 0)
			high = middle - 1;
		else
			low = middle + 1;
	}
	return -1;
}

#endif
