/* SPDX-License-Identifier: Apache-2.0
 *
 * The folders above a file that is to be written.
 */
#ifndef FASHIM_FOLDERS_H
#define FASHIM_FOLDERS_H

/* Makes those that are missing of an absolute path, for this user alone. 0 or -errno. */
int make_folders(const char *path);

#endif
