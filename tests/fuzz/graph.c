/* SPDX-License-Identifier: Apache-2.0
 *
 * Occurrences in a graph that is launched again after its inputs have changed and later, where
 * other things lie in its memory by then. A graph is captured as a whole or put together by hand,
 * of children, of captures into it and of single nodes; copied, put into another one, updated. Some
 * have a branch.
 */
#include "fuzz.h"

/* What a graph is made by. The same again makes the same nodes, of other places perhaps. */
struct draft {
	struct rng rng;
	bool by_hand, cloned;
	int wrapped;	  /* a child of so many graphs around it */
	CUdeviceptr copy; /* of P, made in the graph; or 0 */
	bool by_engine;	  /* a copy and no kernel */
	bool changes_q;	  /* behind its last reader */
	bool wipes_p;
	enum { NO_BRANCH, APART_FROM_IT, READS_P, MAKES_V, CHANGES_Q, WIPES_S } branch;
	int forks, joins;   /* ahead of which steps the branch does so */
	CUdeviceptr beside; /* that it writes; or 0 */
};

/* Of each lane: another stream for branches. */
static struct {
	CUstream stream;
	CUevent event[2];
} beside[2];

static struct kept {
	CUgraphExec exec;
	struct chain chain;
	struct draft draft;
} kept[2];

/* ---- what it does ---------------------------------------------------------------------------- */

enum { TAIL = MERGE + 1 };

static bool overlap(CUdeviceptr a, size_t a_bytes, CUdeviceptr b, size_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static void tail(const struct chain *c, const struct draft *d)
{
	if (d->copy && d->by_engine) {
		trace("P %llx copied to %llx", c->t[P], d->copy);
		if (!here->dry)
			OK(cuMemcpyDtoDAsync(d->copy, c->t[P], score_bytes(c, P), c->stream));
		mark_copy(d->copy, c->t[P], score_bytes(c, P));
	} else if (d->copy) {
		copy_numbers(c->stream, d->copy, c->t[P], scores_of(c));
	}
	if (d->changes_q)
		random_numbers(c->stream, c->t[Q], d->rng.state, c->bytes[Q] / width / 2);
	if (d->wipes_p) /* with what LOWER leaves where it writes nothing */
		set_bytes(c->stream, c->t[P], c->site->masked == LOWER ? 0 : 60, score_bytes(c, P));
}

static void branch(const struct chain *c, const struct draft *d, CUstream s)
{
	switch (d->branch) {
	case APART_FROM_IT:
		random_numbers(s, d->beside, d->rng.state, queries_of(c));
		break;
	case READS_P:
		copy_numbers(s, d->beside, c->t[P], scores_of(c));
		break;
	case MAKES_V:
		random_numbers(s, c->t[V], d->rng.state, c->bytes[V] / width / 2);
		break;
	case CHANGES_Q:
		random_numbers(s, c->t[Q], d->rng.state, c->bytes[Q] / width / 2);
		break;
	case WIPES_S:
		if (c->t[S] != c->t[P])
			set_bytes(s, c->t[S], 60, score_bytes(c, S) / 2);
		break;
	default:
		break;
	}
}

static void order_beside(CUstream before, CUstream after, int event)
{
	trace("stream %p waits for %p", (void *)after, (void *)before);
	OK(cuEventRecord(beside[here->number].event[event], before));
	OK(cuStreamWaitEvent(after, beside[here->number].event[event], 0));
}

static void fork_or_join(const struct chain *c, const struct draft *d, int step)
{
	const CUstream other = beside[here->number].stream;

	if (d->branch && step == d->joins && !here->dry)
		order_beside(other, c->stream, 1);
	if (d->branch && step == d->forks && here->dry)
		branch(c, d, c->stream);
	else if (d->branch && step == d->forks) {
		order_beside(c->stream, other, 0);
		branch(c, d, other);
	}
}

static void do_step(struct chain *c, const struct draft *d, int step)
{
	if (step == TAIL)
		tail(c, d);
	else if (step != LATE_V)
		chain_do(c, (enum step)step);
}

/* ---- how it is made -------------------------------------------------------------------------- */

struct building {
	CUgraph graph;
	CUgraphNode latest;
	CUgraphNode branch; /* that is to be joined; NULL: none */
};

static void add_child(struct building *b, CUgraph part)
{
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, b->graph, &b->latest, b->latest != NULL, part));
	b->latest = node;
}

/* false: of a kind that has to be copied otherwise. */
static bool add_node(struct building *b, CUgraphNode from)
{
	const CUgraphNode *before = &b->latest;
	const size_t count = b->latest != NULL;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUgraphNodeType kind;
	CUgraphNode node;

	OK(cuGraphNodeGetType(from, &kind));
	switch (kind) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		OK(cuGraphKernelNodeGetParams(from, &kernel));
		OK(cuGraphAddKernelNode(&node, b->graph, before, count, &kernel));
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		OK(cuGraphMemcpyNodeGetParams(from, &copy));
		OK(cuGraphAddMemcpyNode(&node, b->graph, before, count, &copy, here->context));
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		OK(cuGraphMemsetNodeGetParams(from, &fill));
		OK(cuGraphAddMemsetNode(&node, b->graph, before, count, &fill, here->context));
		break;
	default:
		return false;
	}
	b->latest = node;
	return true;
}

/* What was captured is in the order in which it was. */
static void add_nodes(struct building *b, CUgraph part)
{
	CUgraphNode node[32];
	size_t count = 32;

	OK(cuGraphGetNodes(part, node, &count));
	for (size_t i = 0; i < count; i++)
		if (!add_node(b, node[i]))
			die("a node of another kind", 1, __LINE__);
}

static bool is_empty(CUgraph graph)
{
	size_t count = 0;

	OK(cuGraphGetNodes(graph, NULL, &count));
	return !count;
}

static CUgraph capture(struct chain *c, const struct draft *d, int from, int to)
{
	CUgraph graph;

	OK(cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int step = from; step <= to; step++) {
		if (from < to)
			fork_or_join(c, d, step);
		do_step(c, d, step);
	}
	OK(cuStreamEndCapture(c->stream, &graph));
	return graph;
}

/* The same of a branch by nodes. */
static void add_branch(struct building *b, const struct chain *c, const struct draft *d, int step)
{
	CUgraph part;

	if (b->branch && step == d->joins) {
		OK(cuGraphAddEmptyNode(&b->latest, b->graph, (CUgraphNode[]){b->latest, b->branch},
				       2));
		b->branch = NULL;
	}
	if (!d->branch || step != d->forks)
		return;
	OK(cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	branch(c, d, c->stream);
	OK(cuStreamEndCapture(c->stream, &part));
	trace("as a branch");
	OK(cuGraphAddChildGraphNode(&b->branch, b->graph, &b->latest, b->latest != NULL, part));
	OK(cuGraphDestroy(part));
}

static void capture_onto(struct building *b, struct chain *c, const struct draft *d, int step)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *nodes;
	const CUgraphEdgeData *edges;
	cuuint64_t id;
	size_t count;

	OK(cuStreamBeginCaptureToGraph(c->stream, b->graph, &b->latest, NULL, b->latest != NULL,
				       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	do_step(c, d, step);
	OK(cuStreamGetCaptureInfo(c->stream, &status, &id, &b->graph, &nodes, &edges, &count));
	if (count)
		b->latest = nodes[0];
	OK(cuStreamEndCapture(c->stream, &b->graph));
}

/* A step is a child, captured into the graph, or some nodes of it; products rarely these, as their
 * kernels say nothing of what they are. */
static void add_step(struct building *b, struct chain *c, const struct draft *d, int step,
		     struct rng *r)
{
	const bool product = step == SCORES || step == CONTEXT;
	const unsigned way = below(r, 100);
	CUgraph part;

	if (chance(r, 10))
		OK(cuGraphAddEmptyNode(&b->latest, b->graph, &(CUgraphNode){b->latest},
				       b->latest != NULL));
	if (way < 40) {
		trace("captured into the graph");
		capture_onto(b, c, d, step);
		return;
	}
	part = capture(c, d, step, step);
	trace(way < (product ? 95 : 65) ? "as a child" : "as nodes");
	if (!is_empty(part) && way < (product ? 95 : 65))
		add_child(b, part);
	else
		add_nodes(b, part);
	OK(cuGraphDestroy(part));
}

static CUgraph make(struct chain *c, const struct draft *d)
{
	struct building b = {NULL, NULL, NULL};
	struct rng r = d->rng;
	CUgraph clone;

	trace("a graph begins: by hand=%d cloned=%d wrapped=%d copy=%llx/%d branch=%d %d-%d",
	      d->by_hand, d->cloned, d->wrapped, d->copy, d->by_engine, (int)d->branch, d->forks,
	      d->joins);
	OK(cuStreamSynchronize(c->stream));
	if (d->by_hand) {
		OK(cuGraphCreate(&b.graph, 0));
		for (int step = SCORES; step <= TAIL; step++) {
			add_branch(&b, c, d, step);
			add_step(&b, c, d, step, &r);
		}
	} else {
		b.graph = capture(c, d, SCORES, TAIL);
	}
	for (int i = 0; i < d->wrapped; i++) {
		struct building around = {NULL, NULL, NULL};

		OK(cuGraphCreate(&around.graph, 0));
		if (chance(&r, 30))
			OK(cuGraphAddEmptyNode(&around.latest, around.graph, NULL, 0));
		add_child(&around, b.graph);
		OK(cuGraphDestroy(b.graph));
		b = around;
	}
	if (d->cloned) {
		OK(cuGraphClone(&clone, b.graph));
		OK(cuGraphDestroy(b.graph));
		b.graph = clone;
	}
	trace("a graph ends");
	return b.graph;
}

static int one_of(struct rng *r, int least, int most)
{
	return least + (int)below(r, (unsigned)(most - least + 1));
}

/* Between two steps, so that nobody races with it. */
static void add_branch_to(struct draft *d, struct chain *c)
{
	struct rng r = rng_of((uint64_t)c->number, 4711);
	const int kind = (int)below(&r, 14);

	d->branch = kind <= WIPES_S ? kind : kind <= 8 ? APART_FROM_IT : NO_BRANCH;
	if ((d->branch == MAKES_V || d->branch == CHANGES_Q) && c->site->layout == INTERLEAVED)
		d->branch = NO_BRANCH;
	if ((d->branch == APART_FROM_IT || d->branch == READS_P) && c->site->placing != IN_ARENA)
		d->branch = NO_BRANCH;
	d->forks = one_of(&r, SCORES, CONTEXT);
	if (d->branch == READS_P || d->branch == WIPES_S)
		d->forks = CONTEXT;
	if (d->branch == CHANGES_Q)
		d->forks = one_of(&r, SCALE, CONTEXT);
	if (d->branch == MAKES_V)
		d->forks = one_of(&r, SCORES, SOFTMAX);
	d->joins = one_of(&r, d->forks + 1, d->branch == MAKES_V ? CONTEXT : TAIL);
	if (d->branch == APART_FROM_IT)
		d->beside = arena_take(&r, queries_of(c) * width, c->number);
	if (d->branch == READS_P)
		d->beside = arena_take(&r, score_bytes(c, P), c->number);
	if (!beside[here->number].stream) {
		OK(cuStreamCreate(&beside[here->number].stream, CU_STREAM_NON_BLOCKING));
		for (int i = 0; i < 2; i++)
			OK(cuEventCreate(&beside[here->number].event[i], CU_EVENT_DISABLE_TIMING));
	}
}

static struct draft draft_of(struct chain *c)
{
	struct rng *r = &c->rng;
	struct draft d = {.rng = {next(r)}, .by_hand = chance(r, 50), .cloned = chance(r, 15)};

	d.wrapped = chance(r, 25) ? 1 + (int)below(r, 2) : 0;
	if (c->site->placing == IN_ARENA && chance(r, 50))
		d.copy = arena_take(r, score_bytes(c, P), c->number);
	d.by_engine = chance(r, 40);
	d.changes_q = c->site->layout != INTERLEAVED && chance(r, 20);
	d.wipes_p = chance(r, 20);
	add_branch_to(&d, c);
	return d;
}

/* ---- launches -------------------------------------------------------------------------------- */

static void promise(struct chain *c, bool promised)
{
	for (int t = S; t <= P; t++)
		if (c->t[t])
			mark_promised(c->t[t], c->bytes[t], promised);
}

/* The marks that a launch of the graph leaves. */
static void marks_only(struct chain *c, const struct draft *d)
{
	const int occurrence = here->occurrence, step = here->step;

	promise(c, false);
	here->dry = true;
	for (int s = SCORES; s <= TAIL; s++) {
		fork_or_join(c, d, s);
		if (s < TAIL && s != LATE_V)
			chain_do(c, (enum step)s);
	}
	promise(c, true);
	tail(c, d);
	here->dry = false;
	here->occurrence = occurrence;
	here->step = step;
}

static void launch_graph(struct chain *c, const struct draft *d, CUgraphExec exec, CUstream s)
{
	OK(cuGraphLaunch(exec, s));
	marks_only(c, d);
}

static bool can_run_again(const struct chain *c)
{
	for (int t = Q; t <= V; t++)
		if (!is_ours(c->t[t], c->bytes[t]))
			return false;
	return is_ours(c->t[O], c->bytes[O]) &&
	       (c->site->masked != LOWER || (depth_of(c->t[P], c->bytes[P]) & ~DUMP_FLAGS) == 0);
}

/* The graph's inputs lie where they lay; whatever came to lie there since is overwritten. */
static void fresh_inputs(struct chain *c, CUstream s)
{
	for (int t = Q; t <= V; t++)
		if (depth_of(c->t[t], c->bytes[t]) || chance(&c->rng, 30))
			random_numbers(s, c->t[t], next(&c->rng), c->bytes[t] / width);
}

bool graph_kept(void)
{
	return kept[here->number].exec != NULL;
}

void graph_again(CUstream s)
{
	struct kept *k = &kept[here->number];

	if (!k->exec || !can_run_again(&k->chain))
		return;
	trace("the kept graph of occurrence %d", k->chain.number);
	fresh_inputs(&k->chain, s);
	launch_graph(&k->chain, &k->draft, k->exec, s);
	if (chance(&k->chain.rng, 60))
		observe(s, "O of a graph", k->chain.t[O], k->chain.bytes[O]);
}

void graph_forget(void)
{
	if (kept[here->number].exec)
		OK(cuGraphExecDestroy(kept[here->number].exec));
	kept[here->number].exec = NULL;
}

/* Some inputs, in one of the ways of chain_input or over a part of what the products read. */
static void change_inputs(struct chain *c)
{
	static const enum tensor inputs[] = {Q, K, V};

	for (int i = 0; i < 3; i++) {
		const enum tensor t = inputs[i];

		if (chance(&c->rng, 40))
			continue;
		if (c->site->layout == INTERLEAVED || chance(&c->rng, 40))
			random_numbers(c->stream, c->t[t], next(&c->rng), c->bytes[t] / width / 2);
		else
			chain_input(c, t);
	}
}

/* The same graph with its scores and its output elsewhere; small ones, or the arena gets full. */
static void update(struct chain *c, const struct draft *d, CUgraphExec exec)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph graph;

	if (c->site->placing != IN_ARENA || score_bytes(c, W) > 8192)
		return;
	for (int t = S; t <= P; t++)
		c->t[t] = 0;
	c->t[O] = c->t[MERGED] = 0;
	graph = make(c, d);
	trace("the graph is updated");
	occurs("a graph updated");
	OK(cuGraphExecUpdate(exec, graph, &info));
	OK(cuGraphDestroy(graph));
}

/* ---- an occurrence --------------------------------------------------------------------------- */

static bool capturable(const struct chain *c)
{
	const struct site *z = c->site;

	return (z->placing == IN_ARENA || z->placing == APART) && z->form != ARRAYS &&
	       !c->device_scalars && c->beta == 0 && !c->second_v;
}

/* Some other stream than the one whose order it keeps. */
static void launch_somewhere(struct chain *c, const struct draft *d, CUgraphExec exec)
{
	const CUstream s = c->stream == here->other ? here->stream : here->other;

	if (!s || s == c->stream || !chance(&c->rng, 25)) {
		launch_graph(c, d, exec, c->stream);
		return;
	}
	occurs("a graph launched on another stream");
	order(c->stream, s, 0);
	launch_graph(c, d, exec, s);
	order(s, c->stream, 1);
}

static void launches(struct chain *c, const struct draft *d, CUgraphExec exec)
{
	const bool busy = chance(&c->rng, 30); /* as long as nobody stands in for a graph before */
	const int count = 1 + (int)below(&c->rng, c->site->in_graphs ? 10 : 4) + (busy ? 12 : 0);

	for (int i = 0; i < count; i++) {
		if (i)
			change_inputs(c);
		if (i && chance(&c->rng, busy ? 4 : 10))
			update(c, d, exec);
		trace("graph launch %d of %d", i + 1, count);
		if (d->branch && i > 8)
			occurs("a graph with a branch, launched often");
		launch_somewhere(c, d, exec);
		c->at = LOOK;
		if (chance(&c->rng, busy && i < 8 ? 10 : 60))
			event_happen(c, c->number * 10 + i % 8);
		if (chance(&c->rng, 50))
			observe(c->stream, "O", c->t[O], queries_of(c) * width);
		if (chance(&c->rng, 40))
			observe(c->stream, "P", c->t[P], score_bytes(c, P));
		if (d->copy && chance(&c->rng, 50))
			observe(c->stream, "copy of P", d->copy, score_bytes(c, P));
	}
}

void chain_captured(struct chain *c)
{
	const CUstream ordinary = c->stream;
	struct draft draft;
	CUgraphExec exec;
	CUgraph graph;

	c->o_over_q = false;
	c->disturbances = 0;
	if (!capturable(c)) {
		c->manner = ORDINARY;
		while (chain_step(c))
			;
		return;
	}
	if (!c->stream) { /* the legacy stream cannot be captured */
		c->stream = here->other;
		order(ordinary, c->stream, 0);
	}
	chain_step(c);
	if (c->site->late_v)
		chain_input(c, V);
	draft = draft_of(c);
	graph = make(c, &draft);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	launches(c, &draft, exec);
	c->at = LOOK;
	while (chain_step(c))
		;
	if (ordinary != c->stream)
		order(c->stream, ordinary, 0);
	if (overlap(c->t[O], c->bytes[O], c->t[Q], c->bytes[Q]) || chance(&c->rng, 40)) {
		OK(cuStreamSynchronize(c->stream));
		OK(cuGraphExecDestroy(exec));
		return;
	}
	graph_forget();
	kept[here->number] = (struct kept){exec, *c, draft};
}
