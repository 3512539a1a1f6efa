/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a log's record tells of the person and the machine, and nothing of attention.
 */
#ifndef FASHIM_PRIVATE_PARTS_H
#define FASHIM_PRIVATE_PARTS_H

#include <jansson.h>

/* Takes out of a record: arguments, host name, the GPU's number, and the folders of all paths; of
 * an installed package's file the path inside the package stays. 0 or -ENOMEM. */
int private_parts_remove(json_t *record);

#endif
