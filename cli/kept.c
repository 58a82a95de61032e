/* SPDX-License-Identifier: Apache-2.0 */
/* See kept.h. The list is global because all outputs are held against all inputs. */
#include "cli/kept.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kept {
	dev_t device;
	ino_t inode;
	enum kept_as as;
};

static struct kept *list;
static size_t nr_kept;
static bool incomplete; /* a file could not be added */

static void add(const struct stat *st, enum kept_as as)
{
	struct kept *moved;

	if (!S_ISREG(st->st_mode))
		return;
	moved = reallocarray(list, nr_kept + 1, sizeof(*moved));
	if (!moved) {
		incomplete = true;
		return;
	}
	list = moved;
	list[nr_kept++] = (struct kept){st->st_dev, st->st_ino, as};
}

void kept_add_fd(int fd)
{
	struct stat st;

	if (!fstat(fd, &st))
		add(&st, KEPT_INPUT);
}

void kept_add_name(const char *name)
{
	struct stat st;

	if (strcmp(name, "-") == 0)
		kept_add_fd(STDIN_FILENO);
	else if (!stat(name, &st))
		add(&st, KEPT_INPUT);
}

void kept_add_output(int fd)
{
	struct stat st;

	if (!fstat(fd, &st))
		add(&st, KEPT_OUTPUT);
}

enum kept_as kept_find(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return KEPT_NOT;
	for (size_t i = 0; i < nr_kept; i++)
		if (list[i].device == st->st_dev && list[i].inode == st->st_ino)
			return list[i].as;
	return incomplete ? KEPT_UNKNOWN : KEPT_NOT;
}
