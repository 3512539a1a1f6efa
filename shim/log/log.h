/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of this process: the JSON Lines file of log_format.h and, beside it, LOG.live with the
 * counters that survive a kill.
 *
 *     log_open();                                     at every GEMM; all but the first cost one
 * load log_device("NVIDIA H200", …);                   before the first record struct json *r =
 * log_record("sample");          the members after "type" … json_int(r, "site", 1); log_commit(r);
 * … and the line is in the file log_live()->gemms++;                            (atomically, where
 * several threads count)
 *
 * Nothing here fails loudly: without a log (FASHIM_OUT=none, full disk) every call does nothing. A
 * forked child has no log until it opens its own. errno is kept.
 */
#ifndef FASHIM_LOG_H
#define FASHIM_LOG_H

#include <stdbool.h>

#include "shim/base/json.h"
#include "shim/log/log_format.h"

/* Creates the log and LOG.live, with their folders, unless that was tried before. A file that is
 * there already is left alone: ours gets a number before its extension. Whether there is a log. */
bool log_open(void);

/* What the header will say of the device; NULL or 0 for what is not known. The strings are copied.
 */
void log_device(const char *gpu, const char *uuid, int sm, int driver, int cublas);

/* … and of a function that the driver is too old for: a literal, one a call. */
void log_driver_lacks(const char *function);

/* Begins a record: an open object with its "type", after the header where it is the first. Never
 * NULL. The log's lock is held until log_commit(), so gather first, then write; a record begun
 * inside another one is dropped. Opens the log where nobody has yet. */
struct json *log_record(const char *type);

/* Closes what log_record() opened and appends the line with one write(2). A record that did not fit
 * or is no JSON becomes a violation record. */
void log_commit(struct json *record);

/* An error of the shim's own: a violation record (the first 32), and a message on stderr. */
void log_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The counters, never NULL, always the same. They may be written from any thread at any time. Ask
 * at each count: that is when LOG.live is brought up to date. A forked child begins with none. */
struct live_file *log_live(void);

/* Writes "summary" from the live counters and removes LOG.live. Later records are dropped. */
void log_finish(void);

/* Absolute name of the log, NULL while there is none. */
const char *log_path(void);

#endif
