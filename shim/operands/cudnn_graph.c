/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes on cuDNN's backend descriptors (cudnn_graph.h).
 */
#include "shim/operands/cudnn_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/operands/cudnn_attributes.h"
#include "shim/operands/cudnn_tensor.h"
#include "shim/real/library_types.h"

/* ---- notes ---------------------------------------------------------------------------------- */

/* A tensor as an operation uses it: bytes around the address that the variant pack will give. */
struct use {
	int64_t id;
	int64_t low, high;
	short attribute; /* through which it was given */
	bool read, written, whole;
	bool on_host; /* the pack gives the value, not an address of the device */
};

/* The tensors of an operation or a graph; shared by all that lead to it. */
struct graph {
	int shared, count, room;
	bool unknown;
	struct use use[];
};

struct pack {
	int ids, pointers;
	int64_t id[OPERANDS_MAX];
	void *pointer[OPERANDS_MAX];
	void *workspace;
};

struct note {
	const void *descriptor;
	int type;
	bool unknown;
	bool overwrites; /* operation: beta is 0 */
	struct graph *graph;
	struct note *next;
	union {
		struct cudnn_tensor tensor;
		int64_t workspace_bytes; /* plan; < 0: not known */
	};
	struct pack *pack; /* of a variant pack; stays with a note that is used again */
};

#define BUCKETS 1024 /* a power of two */

static struct note *notes[BUCKETS];
static struct note *spare; /* of variant packs: programs make one for each call */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct note **place(const void *descriptor)
{
	struct note **at =
		&notes[((uintptr_t)descriptor >> 4) * 0x9e3779b97f4a7c15ull >> 40 & (BUCKETS - 1)];

	while (*at && (*at)->descriptor != descriptor)
		at = &(*at)->next;
	return at;
}

static void release_graph(struct graph *graph)
{
	if (graph && --graph->shared == 0)
		free(graph);
}

static void remove_note(const void *descriptor)
{
	struct note **at = place(descriptor), *note = *at;

	if (!note)
		return;
	*at = note->next;
	release_graph(note->graph);
	if (note->pack) {
		note->next = spare;
		spare = note;
	} else {
		free(note);
	}
}

static struct note *new_note(int type)
{
	struct note *note = spare;
	struct pack *pack;

	if (type != DESCRIPTOR_PACK)
		return calloc(1, sizeof(*note));
	if (note) {
		spare = note->next;
	} else {
		note = calloc(1, sizeof(*note));
		pack = calloc(1, sizeof(*pack));
		if (!note || !pack) {
			free(note);
			free(pack);
			return NULL;
		}
		note->pack = pack;
	}
	pack = note->pack;
	pack->ids = pack->pointers = 0;
	pack->workspace = NULL;
	*note = (struct note){.pack = pack};
	return note;
}

void cudnn_graph_created(const void *descriptor, int type)
{
	struct note **at, *note;

	pthread_mutex_lock(&lock);
	remove_note(descriptor);
	note = new_note(type);
	if (note) {
		at = place(descriptor);
		note->descriptor = descriptor;
		note->type = type;
		note->next = NULL;
		if (type == DESCRIPTOR_PLAN)
			note->workspace_bytes = -1;
		*at = note;
	}
	pthread_mutex_unlock(&lock);
}

void cudnn_graph_destroyed(const void *descriptor)
{
	pthread_mutex_lock(&lock);
	remove_note(descriptor);
	pthread_mutex_unlock(&lock);
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* A place for one more tensor in a graph that nobody shares; NULL: no memory. */
static struct use *grow(struct graph **graph)
{
	struct graph *old = *graph, *grown;
	const int room = old ? old->room : 0;

	if (!old || old->count == room) {
		grown = realloc(old, sizeof(*grown) + (size_t)(room + 8) * sizeof(struct use));
		if (!grown)
			return NULL;
		if (!old)
			*grown = (struct graph){.shared = 1};
		grown->room = room + 8;
		*graph = grown;
	}
	return &(*graph)->use[(*graph)->count++];
}

static bool give_tensor(struct note *operation, int name, enum cudnn_meaning meaning,
			const struct note *tensor)
{
	struct use *use;
	int64_t low = 0, high = 0;
	bool dense = false;

	if (!tensor || tensor->type != DESCRIPTOR_TENSOR || tensor->unknown)
		return false;
	if (tensor->tensor.is_virtual)
		return true;
	if (!tensor->tensor.has_id ||
	    (!tensor->tensor.by_value &&
	     (!tensor->tensor.has_strides ||
	      !tensor_extent(&tensor->tensor.shape, &low, &high, &dense))))
		return false;
	use = grow(&operation->graph);
	if (!use)
		return false;
	*use = (struct use){
		.id = tensor->tensor.id,
		.low = low,
		.high = high,
		.attribute = (short)name,
		.read = meaning == READ || meaning == UPDATED || meaning == BLENDED,
		.written = meaning != READ,
		.whole = (meaning == WHOLE || meaning == BLENDED) && dense,
		.on_host = tensor->tensor.by_value,
	};
	return true;
}

static struct note *descriptor_at(const void *array, int64_t i)
{
	void *descriptor;

	memcpy(&descriptor, (const char *)array + (size_t)i * sizeof(descriptor),
	       sizeof(descriptor));
	return *place(descriptor);
}

/* Tensors of an operation. What an attribute was given before no longer counts. */
static bool set_tensors(struct note *operation, int name, enum cudnn_meaning meaning, int type,
			int64_t count, const void *array)
{
	struct graph *graph = operation->graph;
	bool fits = true;
	int kept = 0;

	for (int i = 0; graph && i < graph->count; i++)
		if (graph->use[i].attribute != name)
			graph->use[kept++] = graph->use[i];
	if (graph)
		graph->count = kept;
	if (type != TYPE_DESCRIPTOR) /* a number in the place of a tensor: a seed */
		return meaning == READ;
	for (int64_t i = 0; fits && i < count; i++)
		fits = give_tensor(operation, name, meaning, descriptor_at(array, i));
	return fits;
}

/* The same tensor in several operations: its bytes are all of theirs, and since one may run before
 * another, nothing that any of them reads counts as overwritten unread. */
static bool merge(struct graph **graph, const struct note *operation)
{
	for (int i = 0; operation->graph && i < operation->graph->count; i++) {
		struct use from = operation->graph->use[i], *to = NULL;

		if (cudnn_meaning(from.attribute) == BLENDED && operation->overwrites)
			from.read = false;
		from.whole = from.whole && !from.read;
		for (int k = 0; *graph && k < (*graph)->count && !to; k++)
			if ((*graph)->use[k].id == from.id)
				to = &(*graph)->use[k];
		if (!to) {
			to = grow(graph);
			if (!to)
				return false;
			*to = from;
			continue;
		}
		to->whole = to->whole && from.whole && to->low == from.low && to->high == from.high;
		to->low = from.low < to->low ? from.low : to->low;
		to->high = from.high > to->high ? from.high : to->high;
		to->read |= from.read;
		to->written |= from.written;
		if (to->on_host != from.on_host)
			return false;
	}
	return true;
}

static bool set_operations(struct note *note, int type, int64_t count, const void *array)
{
	bool fits = type == TYPE_DESCRIPTOR;

	release_graph(note->graph);
	note->graph = NULL;
	for (int64_t i = 0; fits && i < count; i++) {
		const struct note *operation = descriptor_at(array, i);

		fits = operation && !operation->unknown && merge(&note->graph, operation);
	}
	return fits;
}

/* Both then lead to the same graph. */
static bool follow(struct note *note, const struct note *to)
{
	struct graph *old = note->graph;

	if (!to || to->unknown || !to->graph)
		return false;
	note->graph = to->graph;
	note->graph->shared++;
	release_graph(old);
	return true;
}

static bool set_beta(struct note *note, int type, int64_t count, const void *array)
{
	double d = 1;
	float f;

	if (count == 1 && type == TYPE_DOUBLE) {
		memcpy(&d, array, sizeof(d));
	} else if (count == 1 && type == TYPE_FLOAT) {
		memcpy(&f, array, sizeof(f));
		d = f;
	}
	note->overwrites = d == 0;
	return true;
}

static bool set_pack(struct note *note, int name, int type, int64_t count, const void *array)
{
	struct pack *pack = note->pack;

	if (!pack || count < 0 || count > OPERANDS_MAX ||
	    type != (name == VARIANT_PACK_UNIQUE_IDS ? TYPE_INT64 : TYPE_POINTER))
		return false;
	if (name == VARIANT_PACK_UNIQUE_IDS) {
		pack->ids = (int)count;
		memcpy(pack->id, array, (size_t)count * sizeof(pack->id[0]));
	} else if (name == VARIANT_PACK_DATA_POINTERS) {
		pack->pointers = (int)count;
		memcpy(pack->pointer, array, (size_t)count * sizeof(pack->pointer[0]));
	} else {
		pack->workspace = NULL;
		if (count == 1)
			memcpy(&pack->workspace, array, sizeof(pack->workspace));
		return count <= 1;
	}
	return true;
}

void cudnn_graph_set(const void *descriptor, int name, int type, int64_t count, const void *array)
{
	struct note *note;
	bool understood;
	enum cudnn_meaning meaning = cudnn_meaning(name);

	pthread_mutex_lock(&lock);
	note = *place(descriptor);
	if (!note || (!array && count > 0)) {
		if (note)
			note->unknown = true;
		pthread_mutex_unlock(&lock);
		return;
	}
	switch (meaning) {
	case PLAIN:
		understood = true;
		break;
	case READ:
	case WHOLE:
	case BLENDED:
	case WRITTEN:
	case UPDATED:
		understood = set_tensors(note, name, meaning, type, count, array);
		break;
	case BETA:
		understood = set_beta(note, type, count, array);
		break;
	case OPERATIONS:
		understood = set_operations(note, type, count, array);
		break;
	case GRAPH:
		understood = type == TYPE_DESCRIPTOR && count == 1 &&
			     follow(note, descriptor_at(array, 0));
		break;
	case TENSOR:
		understood = note->type == DESCRIPTOR_TENSOR &&
			     cudnn_tensor_set(&note->tensor, name, type, count, array);
		break;
	case PACK:
		understood = set_pack(note, name, type, count, array);
		break;
	default:
		understood = false;
		break;
	}
	note->unknown |= !understood;
	pthread_mutex_unlock(&lock);
}

void cudnn_graph_got(const void *descriptor, int name, int type, int64_t count, const void *array)
{
	const struct note *note;
	struct note *other;

	if (cudnn_meaning(name) != GRAPH || type != TYPE_DESCRIPTOR || !array)
		return;
	pthread_mutex_lock(&lock);
	note = *place(descriptor);
	for (int64_t i = 0; i < count; i++) {
		other = descriptor_at(array, i);
		if (other && other != note && (!note || !follow(other, note)))
			other->unknown = true;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- execution ------------------------------------------------------------------------------ */

bool cudnn_graph_is_plan(const void *descriptor)
{
	const struct note *note;
	bool is;

	pthread_mutex_lock(&lock);
	note = *place(descriptor);
	is = note && note->type == DESCRIPTOR_PLAN;
	pthread_mutex_unlock(&lock);
	return is;
}

void cudnn_graph_workspace(const void *plan, int64_t bytes)
{
	struct note *note;

	pthread_mutex_lock(&lock);
	note = *place(plan);
	if (note && note->type == DESCRIPTOR_PLAN)
		note->workspace_bytes = bytes;
	pthread_mutex_unlock(&lock);
}

static const struct use *use_of(const struct graph *graph, int64_t id)
{
	for (int i = 0; i < graph->count; i++)
		if (graph->use[i].id == id)
			return &graph->use[i];
	return NULL;
}

/* Each tensor of the graph has an address, and each address is one of the graph's tensors. */
static bool add_operands(const struct graph *graph, const struct pack *pack,
			 struct operands *operands)
{
	uint64_t address;
	int met = 0;

	if (pack->ids != pack->pointers)
		return false;
	for (int i = 0; i < pack->ids; i++) {
		const struct use *use = use_of(graph, pack->id[i]);

		for (int k = 0; k < i; k++)
			if (pack->id[k] == pack->id[i])
				return false;
		if (!use || !pack->pointer[i])
			return false;
		met++;
		if (use->on_host)
			continue;
		address = (uint64_t)(uintptr_t)pack->pointer[i] + (uint64_t)use->low;
		operands_add(operands, (const void *)(uintptr_t)address,
			     (uint64_t)(use->high - use->low),
			     !use->written ? OPERAND_READ
			     : use->read   ? OPERAND_UPDATED
			     : use->whole  ? OPERAND_WHOLE
					   : OPERAND_WRITTEN);
	}
	return met == graph->count;
}

void cudnn_graph_operands(const void *plan, const void *pack, struct operands *operands)
{
	const struct note *from, *with;

	pthread_mutex_lock(&lock);
	from = *place(plan);
	with = *place(pack);
	if (!from || from->type != DESCRIPTOR_PLAN || from->unknown || !from->graph || !with ||
	    with->unknown || !with->pack || !add_operands(from->graph, with->pack, operands) ||
	    (with->pack->workspace && from->workspace_bytes < 0))
		operands->unknown = true;
	else
		operands_add(operands, with->pack->workspace, (uint64_t)from->workspace_bytes,
			     OPERAND_SCRATCH);
	pthread_mutex_unlock(&lock);
}
