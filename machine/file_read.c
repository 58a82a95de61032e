/* SPDX-License-Identifier: Apache-2.0 */
/* Reading whole files; see file_read.h. Their size is not asked for: a pipe has none. */
#include "machine/file_read.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_BYTES 65536

/* Make room for more, within one byte beyond the limit, which shows that there is more. */
static int grow(char **buf, size_t *room, size_t bytes_max)
{
	size_t larger = *room ? 2 * *room : FIRST_BYTES;
	char *moved;

	if (larger > bytes_max + 1)
		larger = bytes_max + 1;
	moved = realloc(*buf, larger + 1);
	if (!moved)
		return -ENOMEM;
	*buf = moved;
	*room = larger;
	return 0;
}

int file_read(int fd, size_t bytes_max, char **text, size_t *bytes)
{
	char *buf = NULL;
	size_t room = 0, nr = 0;
	ssize_t got;
	int err;

	do {
		if (nr == room) {
			err = nr > bytes_max ? -EFBIG : grow(&buf, &room, bytes_max);
			if (err)
				goto err_free;
		}
		got = read(fd, buf + nr, room - nr);
		if (got < 0 && errno != EINTR) {
			err = -errno;
			goto err_free;
		}
		nr += got > 0 ? (size_t)got : 0;
	} while (got);
	buf[nr] = '\0';
	*text = buf;
	*bytes = nr;
	return 0;

err_free:
	free(buf);
	return err;
}
