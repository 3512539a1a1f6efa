/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds of every chain between two ops, and which lives of chains and states of sites may
 * follow one another.
 */
#ifndef FASHIM_TEST_CHAIN_VALID_H
#define FASHIM_TEST_CHAIN_VALID_H

/* NULL, or what does not hold of some chain. */
const char *chains_wrong(void);

#endif
