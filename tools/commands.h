/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands, as fashim.c calls them; cmd_NAME.c of each room includes this, so that both agree.
 */
#ifndef FASHIM_COMMANDS_H
#define FASHIM_COMMANDS_H

/* Each takes its own name as argv[0] ("fashim run") and returns the exit code of the process. */
int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_reasons(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_tune(int argc, char **argv);

#endif
