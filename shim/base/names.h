/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of files: what the %-signs in FASHIM_OUT and FASHIM_RECORD mean, and the facts about this
 * process that they stand for.
 *
 *     %e program   %p pid   %h host   %r rank ("0" when there is none)   %q{VAR} environment
 *     %n next number that is free   %t start, 20260131T235959Z   %% percent
 */
#ifndef FASHIM_NAMES_H
#define FASHIM_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Expands `pattern` into `out`. Anything else after a % is copied as it stands. Where a launcher
 * gave this process a rank and the pattern has neither %r nor %p, ".r<rank>" goes before the
 * extension. Returns the length, or -ENAMETOOLONG or -EEXIST (no free %n) with `out` empty. */
int names_expand(const char *pattern, char *out, size_t size);

/* Puts `.suffix` before the extension of the last component of `path`: ("a.b/c.jsonl", "1") gives
 * "a.b/c.1.jsonl". Returns the length or -ENAMETOOLONG with `out` empty. */
int names_insert(const char *path, const char *suffix, char *out, size_t size);

/* The rank that a launcher gave (torchrun, Open MPI, PMIx, PMI, Slurm), or -1. */
long names_rank(void);

/* The program's name as it was started, without folders; never NULL or empty. */
const char *names_program(void);

/* The host's name, with every character outside [A-Za-z0-9._-] replaced by '_'. */
void names_host(char *out, size_t size);

/* When this process first asked, in ns of CLOCK_REALTIME; a forked child has its own. */
uint64_t names_start_ns(void);

/* `ns` as "2026-01-31T23:59:59Z", or "20260131T235959Z" where `compact`. */
#define NAMES_UTC_SIZE 32
void names_utc(uint64_t ns, int compact, char out[NAMES_UTC_SIZE]);

#endif
