/* SPDX-License-Identifier: Apache-2.0
 *
 * What of learning has to wait because it is not affordable yet (ledger.h): such an occurrence
 * passes as if nobody had looked, is counted, and a site it is of says what it waits for.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_PUT_OFF_H
#define FASHIM_PUT_OFF_H

#include "shim/site/site.h"

/* How often kernels without a rule are asked: what they are given may tell more the next time. */
#define QUESTIONS 4

/* May they be asked of this site once more? */
bool asks_again(const struct site *site);

/* Are kernels there, or may they be loaded? */
bool affordable_to_prepare(const struct chain *chain);

/* Can what learning of a closed chain needs first be had now: kernels, and for one without a site
 * that site? */
bool affordable_to_learn(const struct chain *chain, bool fresh, bool by_data);

/* Would the occurrence be compared, or its kernels be asked, and is that too dear now? */
bool too_dear(const struct site *site, const struct chain *chain);

/* Drops the chain. site: whose it is, or NULL. */
enum flow put_off(struct chain *chain, struct site *site);

/* The chain that would open here is not followed. */
enum flow put_off_opener(const struct op *op);

#endif
