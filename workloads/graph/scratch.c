/* SPDX-License-Identifier: Apache-2.0 */
/* Files that lose their name as soon as they have it; see scratch.h. O_TMPFILE would give them
 * none, but not every file system has it. */
#include "workloads/graph/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int scratch_open(const char *folder, int length)
{
	char *name;
	int fd;

	if (asprintf(&name, "%.*s/.weir-graph.XXXXXX", length, folder) < 0)
		return -ENOMEM;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	else
		unlink(name);
	free(name);
	return fd;
}
