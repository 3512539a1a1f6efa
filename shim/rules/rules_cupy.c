/* SPDX-License-Identifier: Apache-2.0
 *
 * CuPy's copies: (CArray in, CArray out, CIndexer). An array is {data, elements, sizes[n],
 * strides[n]}, an indexer {elements, sizes[n], room for n words}; the last dimension runs fastest,
 * strides are in bytes. The name ends in both types: cupy_copy__float32_float16.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#define NAME "cupy_copy__"

/* The type whose name *at begins with, up to the next '_' or the end; *at moves behind it. */
static struct type named_type(const char **at)
{
	static const struct {
		const char *name;
		const struct type *type;
	} types[] = {{"float16", &type_half}, {"float32", &type_float}, {"bool", &type_bool}};
	const size_t length = strcspn(*at, "_");
	struct type type = type_unknown;

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strlen(types[i].name) == length && !strncmp(*at, types[i].name, length))
			type = *types[i].type;
	*at += length + ((*at)[length] == '_');
	return type;
}

/* View n is the array of parameter `param`, which the indexer goes over in whole. */
static bool set_array(struct reading *r, int n, unsigned param, struct type type)
{
	struct meaning *meaning = r->meaning;
	const unsigned at = rule_offset(r, param), sizes = at + 16;
	const unsigned strides = sizes + 8 * (unsigned)meaning->dims;

	rule_set_view(r, n, at, type);
	for (int d = 0; d < meaning->dims; d++) {
		const unsigned back = 8 * (unsigned)(meaning->dims - 1 - d);

		meaning->views[n].stride[d] = (int64_t)rule_u64_at(r, strides + back);
		if ((int64_t)rule_u64_at(r, sizes + back) != meaning->size[d] ||
		    meaning->views[n].stride[d] < 0)
			return false;
	}
	return (int64_t)rule_u64_at(r, at + 8) == meaning->elements;
}

bool rule_read_cupy_copy(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const char *at = rule_find(r, NAME) + strlen(NAME);
	const struct type from = named_type(&at), to = named_type(&at);
	const unsigned dims = rule_size_of(r, 2) / 16, sizes = rule_offset(r, 2) + 8;
	int64_t product = 1;

	if (r->function->param_count != 3 || *at || !from.bytes || !to.bytes || dims < 1 ||
	    dims > VIEW_DIMS || rule_size_of(r, 2) != 8 + 16 * dims ||
	    rule_size_of(r, 0) != 16 + 16 * dims || rule_size_of(r, 1) != 16 + 16 * dims)
		return false;
	meaning->role = ROLE_COPY;
	meaning->view_count = 2;
	meaning->dims = (int)dims;
	meaning->elements = (int64_t)rule_u64_at(r, rule_offset(r, 2));
	for (unsigned d = 0; d < dims; d++) {
		meaning->size[d] = (int64_t)rule_u64_at(r, sizes + 8 * (dims - 1 - d));
		if (meaning->size[d] < 1 || meaning->size[d] > meaning->elements)
			return false;
		product *= meaning->size[d];
	}
	return product == meaning->elements && set_array(r, 0, 1, to) && set_array(r, 1, 0, from) &&
	       rule_finish_views(r);
}
