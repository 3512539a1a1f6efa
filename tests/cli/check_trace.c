/* SPDX-License-Identifier: Apache-2.0
 *
 * check_trace FILE: whether a Chrome trace is one that Perfetto shows as it is meant: every slice
 * has a time, a length, a name and a named track, and on each track two slices either lie apart or
 * one in the other. Prints the numbers of slices and tracks; exit 1 with a word on what is wrong.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times in ns, so that sums are exact. */
struct slice {
	long long pid, tid, start, end;
};

static void fail(const char *what, size_t index)
{
	fprintf(stderr, "event %zu: %s\n", index, what);
	exit(1);
}

static long long nanoseconds(const json_t *event, const char *key, size_t index)
{
	const json_t *value = json_object_get(event, key);

	if (!json_is_number(value) || !(json_number_value(value) >= 0))
		fail(key, index);
	return llround(json_number_value(value) * 1000);
}

static long long id_of(const json_t *event, const char *key, size_t index)
{
	if (!json_is_integer(json_object_get(event, key)))
		fail(key, index);
	return json_integer_value(json_object_get(event, key));
}

/* By track, then by start, the longest first. */
static int by_track(const void *left, const void *right)
{
	const struct slice *a = left, *b = right;
	const long long pairs[][2] = {
		{a->pid, b->pid}, {a->tid, b->tid}, {a->start, b->start}, {b->end, a->end}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		if (pairs[i][0] != pairs[i][1])
			return pairs[i][0] < pairs[i][1] ? -1 : 1;
	}
	return 0;
}

static int has_name(const json_t *events, const char *kind, const struct slice *slice, int with_tid)
{
	const json_t *event;
	size_t index;

	json_array_foreach(events, index, event)
	{
		const char *name = json_string_value(json_object_get(event, "name"));

		if (name && !strcmp(name, kind) && id_of(event, "pid", index) == slice->pid &&
		    (!with_tid || id_of(event, "tid", index) == slice->tid) &&
		    json_is_string(json_object_get(json_object_get(event, "args"), "name")))
			return 1;
	}
	return 0;
}

/* Walks sorted slices with the open ones on a stack; how many tracks there are. */
static int check_nesting(const json_t *events, const struct slice *slices, size_t count)
{
	long long *open = calloc(count + 1, sizeof(*open));
	size_t depth = 0;
	int tracks = 0;

	for (size_t i = 0; open && i < count; i++) {
		const struct slice *slice = &slices[i];

		if (!i || slice->pid != slices[i - 1].pid || slice->tid != slices[i - 1].tid) {
			depth = 0;
			tracks++;
			if (!has_name(events, "thread_name", slice, 1) ||
			    !has_name(events, "process_name", slice, 0))
				fail("track without a name", i);
		}
		while (depth && open[depth - 1] <= slice->start)
			depth--;
		if (depth && open[depth - 1] < slice->end)
			fail("slices overlap", i);
		open[depth++] = slice->end;
	}
	free(open);
	return tracks;
}

int main(int argc, char **argv)
{
	json_t *root = argc > 1 ? json_load_file(argv[1], 0, NULL) : NULL;
	const json_t *events = json_object_get(root, "traceEvents"), *event;
	struct slice *slices = calloc(json_array_size(events) + 1, sizeof(*slices));
	size_t count = 0, index;

	if (!json_is_array(events) || !slices) {
		fputs("no trace\n", stderr);
		return 1;
	}
	json_array_foreach(events, index, event)
	{
		const char *phase = json_string_value(json_object_get(event, "ph"));

		if (!phase || !strchr("XMiC", *phase))
			fail("no known phase", index);
		if (!json_is_string(json_object_get(event, "name")))
			fail("no name", index);
		if (*phase != 'M')
			nanoseconds(event, "ts", index);
		if (*phase != 'X')
			continue;
		slices[count].pid = id_of(event, "pid", index);
		slices[count].tid = id_of(event, "tid", index);
		slices[count].start = nanoseconds(event, "ts", index);
		slices[count].end = slices[count].start + nanoseconds(event, "dur", index);
		count++;
	}
	qsort(slices, count, sizeof(*slices), by_track);
	printf("%zu slices on %d tracks\n", count, check_nesting(events, slices, count));
	free(slices);
	json_decref(root);
	return 0;
}
