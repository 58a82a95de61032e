/* SPDX-License-Identifier: Apache-2.0 */
/* What libweir-machine shows of this folder: weir/machine_file.h. */
#include "weir/machine_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/machine_fields.h"
#include "machine/machine_make.h"

static int fail(char *why, size_t why_bytes, const char *what, int err)
{
	machine_say(why, why_bytes, what, weir_strerror(err));
	return err;
}

int weir_machine_file_read(const char *name, struct weir_machine_desc *desc, char *why,
			   size_t why_bytes)
{
	why_bytes = why ? why_bytes : 0;
	if (!name || !desc)
		return fail(why, why_bytes, name ? name : "no name", -EINVAL);
	return machine_file_load(name, desc, why, why_bytes);
}

static void note_origin(void *arg, const char *path, enum weir_machine_origin *origin,
			char **source)
{
	const struct weir_machine_note *note = arg;

	(void)path;
	*origin = note->origin;
	*source = strdup(note->source);
}

static bool text_valid(const char *text, size_t max)
{
	size_t nr = 0;

	while (text && text[nr] >= ' ' && text[nr] <= '~' && nr <= max)
		nr++;
	return nr && nr <= max && !text[nr];
}

/* The file's text, which is parsed as the reader will parse it: it refuses more than
 * weir_machine_check() does. */
static int make_text(const char *path, const struct weir_machine_desc *desc,
		     const struct weir_machine_note *note, char **out, char *why, size_t why_bytes)
{
	struct weir_machine_note own = *note;
	struct machine_file machine, again;
	char wrong[192], *text;
	int err;

	if (weir_machine_check(desc, wrong, sizeof(wrong))) {
		machine_say(why, why_bytes, path, wrong);
		return -WEIR_EMACHINE;
	}
	if (machine_make(desc, note->about, note_origin, &own, &machine))
		return fail(why, why_bytes, path, -ENOMEM);
	text = machine_format(&machine);
	machine_file_fini(&machine);
	if (!text)
		return fail(why, why_bytes, path, -ENOMEM);
	err = machine_parse(text, strlen(text), path, &again, why, why_bytes);
	if (err) {
		free(text);
		return err;
	}
	machine_file_fini(&again);
	*out = text;
	return 0;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t nr = write(fd, text, bytes);

		if (nr < 0 && errno != EINTR)
			return -errno;
		text += nr > 0 ? nr : 0;
		bytes -= nr > 0 ? (size_t)nr : 0;
	}
	return fsync(fd) && errno != EINVAL && errno != EROFS ? -errno : 0;
}

/* Beside its place, then into it. */
static int replace_file(const char *path, const char *text)
{
	char *partial;
	int fd, err;

	if (asprintf(&partial, "%s.%ld.tmp", path, (long)getpid()) < 0)
		return -ENOMEM;
	fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	err = fd < 0 ? -errno : write_all(fd, text, strlen(text));
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && rename(partial, path))
		err = -errno;
	if (err && fd >= 0)
		(void)unlink(partial);
	free(partial);
	return err;
}

int weir_machine_file_write(const char *path, const struct weir_machine_desc *desc,
			    const struct weir_machine_note *note, char *why, size_t why_bytes)
{
	char *text;
	int err;

	why_bytes = why ? why_bytes : 0;
	if (!path || !desc || !note || !text_valid(note->about, MACHINE_ABOUT_MAX - 1) ||
	    !text_valid(note->source, MACHINE_SOURCE_MAX) ||
	    (unsigned)note->origin >= WEIR_ORIGIN_NR)
		return fail(why, why_bytes, path ? path : "no path", -EINVAL);
	err = make_text(path, desc, note, &text, why, why_bytes);
	if (err)
		return err;
	err = replace_file(path, text);
	free(text);
	return err ? fail(why, why_bytes, path, err) : 0;
}
