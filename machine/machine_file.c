/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions on disk: where they are looked for, how they are read, which there are. What
 * is in them is machine_parse.c's business.
 *
 * weir's own are looked for where they are installed, which is found from where this code lies, so
 * that an installation can be moved. The build defines how the folders lie to each other
 * (WEIR_MACHINE_FROM_PROGRAM, WEIR_MACHINE_FROM_LIBRARY). In a build tree they are beside the
 * program or library, by a link that the build makes. The last folder is that of the installation
 * that was configured (WEIR_MACHINE_DIR), for programs elsewhere that have this code linked in.
 */
#include "machine/machine_file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/file_read.h"
#include "src/base/variables.h"

#define SUFFIX ".json"

/* A walk along the directories: those of the variable, then weir's own by number. */
struct search {
	const char *variable; /* what is left of its value */
	unsigned int next;
};

static void search_start(struct search *search)
{
	const char *value = variable_text(VARIABLE_MACHINE_PATH);

	*search = (struct search){value ? value : "", 0};
}

/* The directory of the shared library that this code is in, or else of the program; in memory of
 * its own, NULL if it cannot be found. */
static char *own_directory(bool *in_library)
{
	static const char here;
	struct link_map *map;
	void *found = NULL;
	char *path, *slash;
	Dl_info info;

	map = dladdr1(&here, &info, &found, RTLD_DL_LINKMAP) ? found : NULL;
	*in_library = map && map->l_name && *map->l_name;
	path = realpath(*in_library ? map->l_name : "/proc/self/exe", NULL);
	slash = path ? strrchr(path, '/') : NULL;
	if (slash)
		*slash = '\0';
	return path;
}

/* A directory of weir's own; NULL: no such number, or with *err set. */
static char *weir_directory(unsigned int i, int *err)
{
	char *own, *directory = NULL;
	const char *from;
	bool in_library;

	if (i > 2)
		return NULL;
	own = i < 2 ? own_directory(&in_library) : NULL;
	if (!own) {
		directory = strdup(WEIR_MACHINE_DIR);
	} else {
		from = in_library ? WEIR_MACHINE_FROM_LIBRARY : WEIR_MACHINE_FROM_PROGRAM;
		if (asprintf(&directory, "%s/%s", own, i ? "machines" : from) < 0)
			directory = NULL;
	}
	free(own);
	*err = directory ? 0 : -ENOMEM;
	return directory;
}

/* The next directory, in memory of its own; NULL at the end, or with *err set. */
static char *search_next(struct search *search, int *err)
{
	*err = 0;
	while (*search->variable) {
		size_t bytes = strcspn(search->variable, ":");
		const char *start = search->variable;
		char *directory;

		search->variable += bytes + (start[bytes] == ':');
		/* Nothing between two colons is no directory, unlike in a shell. */
		if (!bytes)
			continue;
		directory = strndup(start, bytes);
		*err = directory ? 0 : -ENOMEM;
		return directory;
	}
	return weir_directory(search->next++, err);
}

static bool has_suffix(const char *name)
{
	size_t bytes = strlen(name);

	return bytes > strlen(SUFFIX) && !strcmp(name + bytes - strlen(SUFFIX), SUFFIX);
}

void machine_say(char *err, size_t err_bytes, const char *what, const char *why)
{
	if (!err_bytes)
		return;
	(void)snprintf(err, err_bytes, "%s: %s", what, why);
	/* A name on the command line may hold anything: one line it is all the same. */
	for (; *err; err++) {
		if (*err < ' ' || *err > '~')
			*err = '?';
	}
}

static int read_path(const char *path, struct machine_file *out, char *err, size_t err_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t bytes = 0;
	int error;

	if (fd < 0) {
		error = -errno;
		machine_say(err, err_bytes, path, strerror(-error));
		return error;
	}
	error = file_read(fd, MACHINE_FILE_BYTES_MAX, &text, &bytes);
	(void)close(fd);
	if (error == -EFBIG)
		machine_say(err, err_bytes, path, "larger than 1 MiB: no machine description");
	else if (error)
		machine_say(err, err_bytes, path, strerror(-error));
	if (error)
		return error;
	error = machine_parse(text, bytes, path, out, err, err_bytes);
	free(text);
	if (error)
		return error;
	out->path = strdup(path);
	if (out->path)
		return 0;
	machine_file_fini(out);
	machine_say(err, err_bytes, path, "out of memory");
	return -ENOMEM;
}

/* err for a name that no directory has: say which ones there are. */
static void say_unknown(const char *name, char *err, size_t err_bytes)
{
	struct machine_names names;
	char why[512] = "no such machine, and no descriptions found: set " VARIABLE_MACHINE_PATH
			" to their directory, or give a file's path";
	size_t at;

	if (!err_bytes || machine_file_list(&names))
		goto out;
	if (names.nr) {
		at = (size_t)snprintf(why, sizeof(why), "no such machine; there are");
		for (size_t i = 0; i < names.nr && at < sizeof(why) - 80; i++)
			at += (size_t)snprintf(why + at, sizeof(why) - at, "%s %.40s", i ? "," : "",
					       names.name[i]);
		(void)snprintf(why + at, sizeof(why) - at, "; or give a file's path");
	}
	machine_names_fini(&names);
out:
	machine_say(err, err_bytes, *name ? name : "''", why);
}

/* A description found by name bears that name: results name the machine they ran on. */
static int read_named(const char *path, const char *name, struct machine_file *out, char *err,
		      size_t err_bytes)
{
	struct machine_file machine;
	char why[WEIR_NAME_MAX + 48];
	int error;

	error = read_path(path, &machine, err, err_bytes);
	if (error)
		return error;
	if (!strcmp(machine.desc.name, name)) {
		*out = machine;
		return 0;
	}
	(void)snprintf(why, sizeof(why), "name: is '%s', not that of the file", machine.desc.name);
	machine_say(err, err_bytes, path, why);
	machine_file_fini(&machine);
	return -WEIR_EMACHINE;
}

int machine_file_read(const char *name, struct machine_file *out, char *err, size_t err_bytes)
{
	struct search search;
	char *directory;
	int error;

	if (strchr(name, '/') || has_suffix(name))
		return read_path(name, out, err, err_bytes);
	search_start(&search);
	while (*name && (directory = search_next(&search, &error)) != NULL) {
		char *path = NULL;

		if (asprintf(&path, "%s/%s%s", directory, name, SUFFIX) < 0)
			path = NULL;
		free(directory);
		if (!path)
			goto err_memory;
		error = read_named(path, name, out, err, err_bytes);
		free(path);
		if (error != -ENOENT && error != -ENOTDIR)
			return error;
	}
	if (*name && error)
		goto err_memory;
	say_unknown(name, err, err_bytes);
	return -ENOENT;

err_memory:
	machine_say(err, err_bytes, name, "out of memory");
	return -ENOMEM;
}

int machine_file_load(const char *name, struct weir_machine_desc *out, char *err, size_t err_bytes)
{
	struct machine_file machine;
	int error;

	error = machine_file_read(name, &machine, err, err_bytes);
	if (error)
		return error;
	*out = machine.desc;
	machine_file_fini(&machine);
	return 0;
}

static int names_add(struct machine_names *names, const char *file)
{
	size_t bytes = strlen(file) - strlen(SUFFIX);
	char **grown;
	char *name;

	for (size_t i = 0; i < names->nr; i++) {
		if (!strncmp(names->name[i], file, bytes) && !names->name[i][bytes])
			return 0;
	}
	grown = realloc(names->name, (names->nr + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	names->name = grown;
	name = strndup(file, bytes);
	if (!name)
		return -ENOMEM;
	names->name[names->nr++] = name;
	return 0;
}

static int names_add_directory(struct machine_names *names, const char *directory)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	int err = 0;

	if (!dir)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (!err && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.' && has_suffix(entry->d_name))
			err = names_add(names, entry->d_name);
	}
	(void)closedir(dir);
	return err;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int machine_file_list(struct machine_names *out)
{
	struct machine_names names = {NULL, 0};
	struct search search;
	char *directory;
	int err;

	search_start(&search);
	while ((directory = search_next(&search, &err)) != NULL) {
		err = names_add_directory(&names, directory);
		free(directory);
		if (err)
			break;
	}
	if (err) {
		machine_names_fini(&names);
		return err;
	}
	if (names.nr)
		qsort(names.name, names.nr, sizeof(*names.name), compare_names);
	*out = names;
	return 0;
}

void machine_names_fini(struct machine_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct machine_names){NULL, 0};
}
