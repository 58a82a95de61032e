/* SPDX-License-Identifier: Apache-2.0 */
/* The end of writing a graph file; see write.h. */
#include "workloads/graph/write.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workloads/graph/fail.h"
#include "workloads/graph/section.h"

int write_settle(int fd, const struct csr_header *room, uint64_t nr_edges, struct csr_header *out)
{
	const uint64_t neighbour_bytes = room->flags & CSR_WIDE ? 8 : 4;
	struct csr_header header;
	uint64_t end;
	int rc = csr_layout(room->nr_vertices, nr_edges, room->flags, &header);

	if (rc)
		return rc;
	end = header.neighbours_at + nr_edges * neighbour_bytes;
	if (header.weights_at) {
		rc = section_move(fd, room->weights_at, header.weights_at,
				  nr_edges * sizeof(uint32_t));
		end = header.weights_at + nr_edges * sizeof(uint32_t);
	}
	/* What was behind the end becomes zero. */
	if (!rc && (ftruncate(fd, (off_t)end) || ftruncate(fd, (off_t)header.file_bytes)))
		rc = -errno;
	if (!rc)
		*out = header;
	return rc;
}

int write_fail(char *err, size_t err_bytes, int error)
{
	return graph_fail(err, err_bytes, error, "cannot write the graph: %s; %s", strerror(-error),
			  error == -ENOSPC ? "free some space or name another place"
					   : "name a file that can be written");
}
