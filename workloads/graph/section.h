/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a stretch of a file in sequence, while others of it are written too. */
#ifndef WEIR_GRAPH_SECTION_H
#define WEIR_GRAPH_SECTION_H

#include <stdint.h>
#include <string.h>

#define SECTION_BUFFER_BYTES 65536u

struct section {
	int fd;
	uint32_t used;
	uint64_t at; /* where the buffer goes */
	unsigned char buffer[SECTION_BUFFER_BYTES];
};

/* Read or write all of it at one place: 0 or a negative errno. A file that ends before is -EIO. */
int section_read_all(int fd, void *bytes, uint64_t nr_bytes, uint64_t at);
int section_write_all(int fd, const void *bytes, uint64_t nr_bytes, uint64_t at);

/* Begin at a place of the file. fd is borrowed. */
void section_begin(struct section *section, int fd, uint64_t at);

/* Write what is held back. 0 or a negative errno. */
int section_flush(struct section *section);

/* Append nr_bytes, at most SECTION_BUFFER_BYTES. 0 or a negative errno. */
static inline int section_put(struct section *section, const void *bytes, uint32_t nr_bytes)
{
	int rc = 0;

	if (SECTION_BUFFER_BYTES - section->used < nr_bytes)
		rc = section_flush(section);
	if (!rc) {
		memcpy(section->buffer + section->used, bytes, nr_bytes);
		section->used += nr_bytes;
	}
	return rc;
}

/* Move a stretch to an earlier place. 0 or a negative errno. */
int section_move(int fd, uint64_t from, uint64_t to, uint64_t nr_bytes);

#endif
