/* SPDX-License-Identifier: Apache-2.0
 *
 * `fashim doctor`: what is said of this machine and of one program or process.
 */
#ifndef FASHIM_DOCTOR_H
#define FASHIM_DOCTOR_H

#include "tools/doctor/findings.h"

/* Shim, driver, GPUs, toolkit, cuBLAS, environment. library: of shim_library(), or NULL. */
void doctor_machine(struct findings *findings, const char *library);

/* Which of the program's calls the shim would see. word: a path, or a name to be found in PATH.
 * library NULL: a quick look without asking Python, for programs that have run already. */
void doctor_app(struct findings *findings, const char *word, const char *library);

/* Whether the shim is in a process that runs, and what it has to look at there. False: `word` is no
 * number of a process, and nothing was added. */
bool doctor_process(struct findings *findings, const char *word);

/* The Python packages that bring CUDA libraries along. python: an interpreter. */
void doctor_python(struct findings *findings, const char *python);

/* The interpreter that starts when `python` is called, where that is a script. False: it does not
 * say. */
bool doctor_python_path(const char *python, char *path, size_t size);

/* How the object at `path`, which people know as `name`, reaches cuBLAS and the driver. */
void doctor_object(struct findings *findings, const char *name, const char *path);

#endif
