/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: all that the shim and the tools share. JSON Lines, append-only, one record a line, every
 * record an object with "type". Readers ignore fields and types they do not know, and a truncated
 * last line. Times are µs, sizes bytes unless said.
 *
 * {"type":"header","format":"fashim-log","version":1,"fashim":"0.1.0","pid":1,"rank":0|null,
 *  "exe":"/usr/bin/python3","argv":[…],"host":"…","start":"2026-01-01T00:00:00Z","mode":"replace",
 *  "gpu":"NVIDIA H200","uuid":"…","sm":90,"driver":13000,
 *  "driver_lacks":["cuFuncGetParamInfo",…],"cublas":130100,"options":{"FASHIM_X":"…"}}
 *      driver_lacks: functions that the shim would call and this driver is too old for
 *
 * {"type":"site","site":1,"B":1,"H":8,"Sq":512,"Sk":512,"D":64,"Dv":64,"dtype":"f16","scale":0.125,
 *  "softcap":0,"mask":"none"|"bias [B,1,Sq,Sk] f16"|…,"form":"1,8,512,512,64,f16",
 *  "kernel":"wmma_f16_d64",
 *  "chosen_by":"built_in"|"tuned"|"forced","route":"rule"|"data"|"identification",
 *  "chain":["cublasGemmStridedBatchedEx","mul","softmax",…],"aliasing":"…",
 *  "python":["model.py:12 forward",…],"stack":["libtorch_cuda.so+0x1234",…]}
 *      once a site is known; "site" counts from 1. Innermost frame first. A record for the same
 *      number again replaces the earlier one. form: as call_form.h tells it, what `fashim tune`
 *      takes; chosen_by: of the kernel, where there is one: built in, the tuning cache,
 *      FASHIM_KERNEL.
 *
 * {"type":"tune","cache":"…/fashim/tune-….txt","choices":3}    a tuning cache was read, or
 * {"type":"tune","cache":"…","ignored":"made for …"}           was not, and why
 *
 * {"type":"identify","site":1,"question":1,"answer":"found"|"why not","scale":0.125,"softcap":0,
 *  "mask":"…","heads":8}
 *      kernels without a rule were asked what they compute; the rest only if found
 *
 * {"type":"sample","site":1,"occurrence":2,"app_us":15.2|null,"fused_us":9.1|null,
 *  "max_abs":1e-4,"max_rel":1e-3,"rmse":1e-5,"cosine":0.99999,"worst_index":7,"worst_app":0.1,
 *  "worst_fused":0.1,"nonfinite":0,"beyond":0.0,"finite":98304,"app_rms":0.3,"fused_rms":0.3,
 *  "reference":{"rows":64,"app_max":…,"app_rmse":…,"fused_max":…,"fused_rmse":…}|null,
 *  "trial":{"rms":0.3,"fused_max":1e-4,"fused_rmse":1e-5},
 *  "verdict":"ok"|"not_explained"|"moved"|"drift"|"nothing_compared","at_us":1234.5,"stream":1,
 *  "parts_us":{"gemm1":4.1,"middle":3.9,"softmax":3.0,"gemm2":4.2}}
 *      one comparison of the program's own chain with the fused kernel on the same data. max_rel is
 *      max_abs / max|app|; beyond is the share of elements outside the tolerance; finite counts
 *      those that are numbers on both sides, of which app_rms and fused_rms are. trial: there was
 *      nothing to see on the program's data, and the kernel was given random numbers as well.
 *      Where the chain was timed: at_us, when the program called for GEMM1, after the header's
 *      start, by the host's clock; stream, by a number of its own, 0 for those past the first 64;
 *      parts_us, app_us by what its ops are to the chain, those that are no GEMM and no known
 *      softmax in the middle.
 *
 * {"type":"state","site":1,"occurrence":3,"state":"learning"|"verified"|"declined","reason":"drift",
 *  "detail":"…"}                                   reason and detail only where declined
 * {"type":"decline","site":0,"reason":"capture","detail":"…"}
 *      one occurrence or one opener without a site was passed by; written the first time, then
 * counted
 * {"type":"materialise","site":1,"by":"reduce_kernel","bytes":4194304}     first 16 of a site
 * {"type":"copy","by":"reduce_kernel","bytes":4194304}
 *      a copy of an operand that was held back, or O in its own layout, was wanted after all; the
 *      first 16
 * {"type":"graph","site":1,"ops":24,"state":"replaced"|"left","scores":"held"|"overwritten",
 *  "detail":"…"}
 *      an executable graph was made of a captured one that has an occurrence of the site
 *      (FASHIM_GRAPHS=prove), and was compared: its launches replace it, or why not. scores:
 *      whether something of them outlives a launch
 * {"type":"forgotten","site":7,"state":"declined","reason":"dropout","seen":1,…}
 *      the table of sites was full, and this one had not come for the longest: its counters, as in
 *      the summary. Should it come again, it is a site with another number.
 * {"type":"violation","what":"…"}                  an error of the shim's own; it passed through
 *
 * {"type":"summary","end":"exit"|"killed","wall_us":1.0,"gemms":9,"launches":99,"overhead_us":1.0,
 *  "costs_us":{"host":{"hooks":0.4,"log":0.6},"gpu":{"learning":30.0}},
 *  "scratch_peak":1048576,"copies":{"held":300,"made":2,"unfit":0},
 *  "rests":{"count":2,"products":5120,"us":1.2e6},"reasons":{"capture":3},
 *  "sites":[{"site":1,"state":"verified","reason":"none","seen":100,"replaced":96,"compared":4,
 *            "agreed":4,"passed":0,"materialised":0,"snapshots":12,"saved_us":590.4,"replays":50}]}
 *      last record of a clean end. launches: those looked at, which is while a chain is in view;
 *      overhead_us: host time in the shim, one-time loading and learning included. rests: how
 * often, for how many products and how long nothing was looked at, as the GPU waited for the
 * program. costs_us: the same by purpose (purposes.def), each moment counted once, those that are
 *      not 0; and the GPU's time for comparisons and questions that the host did not wait for.
 *      copies, of operands and outputs: held back; of these, made after all; kinds whose strides no
 *      kernel could be given in their place.
 *      replays: of those replaced, how many by the launch of a graph; only where there are any.
 *      agreed: comparisons, of which a site takes FASHIM_LEARN to be verified. While it has not,
 * its reason is "learning". passed = seen - replaced - compared. How long the GPU was busy in all
 * is not told: that would take an event pair around every launch.
 *
 * Beside the log lies LOG.live, a `struct live_file` that is written with each record and else at
 * most LIVE_INTERVAL_MS late (LIVE_LONGEST_MS where writing takes long) while anything is counted;
 * a clean end removes it after writing "summary". A reader that finds no summary takes the counters
 * from there and reports "end":"killed". New members of that struct go to its end: readers take as
 * much as they know. A log that has reached FASHIM_OUT_MB gets a violation that says so and its
 * summary, no other record.
 */
#ifndef FASHIM_LOG_FORMAT_H
#define FASHIM_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define LOG_FORMAT_NAME	   "fashim-log"
#define LOG_FORMAT_VERSION 1

enum reason {
#define REASON(id, name, sentence, hint) REASON_##id,
#include "shim/log/reasons.def"
#undef REASON
	REASON_COUNT
};

enum site_state { SITE_LEARNING, SITE_VERIFIED, SITE_DECLINED };

#define LIVE_MAGIC	 "fashimlv"
#define LIVE_VERSION	 2
#define LIVE_SITES	 256
#define LIVE_INTERVAL_MS 20
#define LIVE_LONGEST_MS	 500
#define LIVE_PURPOSES	 16

struct live_site {
	uint32_t state;	 /* enum site_state */
	uint32_t reason; /* enum reason */
	uint64_t seen, replaced, compared, agreed, materialised, snapshots;
	uint64_t saved_ns;
	uint64_t turn; /* sites that had this place before */
};

struct live_file {
	char magic[8];
	uint32_t version;
	uint32_t site_count;	    /* sites[n] is site n + 1 + turn * LIVE_SITES */
	uint64_t start_ns, last_ns; /* CLOCK_REALTIME; the latter of this state of the file */
	uint64_t gemms, launches, overhead_ns, scratch_peak;
	uint64_t copies_held, copies_made, copies_unfit;
	uint64_t reasons[64]; /* indexed by enum reason; occurrences without a site of their own too
			       */
	struct live_site sites[LIVE_SITES];
	uint64_t cost_ns[LIVE_PURPOSES]; /* overhead_ns, by the order of purposes.def */
	uint64_t cost_gpu_ns[LIVE_PURPOSES];
	uint64_t replays[LIVE_SITES]; /* of `replaced`, those in a replayed graph */
	uint64_t rests, rest_products,
		rest_ns; /* stood aside: times, products that passed, how long */
};

/* What every version 2 has, what there was before graphs, and before rests. */
#define LIVE_LEAST	  offsetof(struct live_file, cost_ns)
#define LIVE_WITH_COSTS	  offsetof(struct live_file, replays)
#define LIVE_WITH_REPLAYS offsetof(struct live_file, rests)

_Static_assert(REASON_COUNT <= 64, "live_file.reasons is too small");

#endif
