/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files in stretches; see section.h. */
#include "workloads/graph/section.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

int section_read_all(int fd, void *bytes, uint64_t nr_bytes, uint64_t at)
{
	unsigned char *to = bytes;

	while (nr_bytes) {
		ssize_t got = pread(fd, to, nr_bytes, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO;
		to += got;
		at += (uint64_t)got;
		nr_bytes -= (uint64_t)got;
	}
	return 0;
}

int section_write_all(int fd, const void *bytes, uint64_t nr_bytes, uint64_t at)
{
	const unsigned char *from = bytes;

	while (nr_bytes) {
		ssize_t put = pwrite(fd, from, nr_bytes, (off_t)at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		from += put;
		at += (uint64_t)put;
		nr_bytes -= (uint64_t)put;
	}
	return 0;
}

void section_begin(struct section *section, int fd, uint64_t at)
{
	section->fd = fd;
	section->at = at;
	section->used = 0;
}

int section_flush(struct section *section)
{
	int rc = section_write_all(section->fd, section->buffer, section->used, section->at);

	if (!rc) {
		section->at += section->used;
		section->used = 0;
	}
	return rc;
}

int section_move(int fd, uint64_t from, uint64_t to, uint64_t nr_bytes)
{
	unsigned char buffer[SECTION_BUFFER_BYTES];
	int rc = 0;

	if (from == to)
		return 0;
	for (uint64_t done = 0; !rc && done < nr_bytes;) {
		uint64_t nr = nr_bytes - done < sizeof(buffer) ? nr_bytes - done : sizeof(buffer);

		rc = section_read_all(fd, buffer, nr, from + done);
		if (!rc)
			rc = section_write_all(fd, buffer, nr, to + done);
		done += nr;
	}
	return rc;
}
