/* SPDX-License-Identifier: Apache-2.0 */
/* See kernel_file.h. */
#include "shim/kernel_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/hash.h"
#include "src/base/util.h"

#define HEAD "weir kernels 1"
#define COLUMNS "# state\tcode\tplaces\tkernel\twhy"
#define NR_COLUMNS 5u
#define LAUNCHES " launches"
#define SLOTS_MIN 64u
#define PART ".part" /* a file that is being written */
/* Of one line, with its columns and its end. */
#define LINE_BYTES (KERNEL_NAME_BYTES + KERNEL_WHY_BYTES + 64)

static const char *const states[KERNEL_STATES] = {
	[KERNEL_CLOSED] = "closed", [KERNEL_OPEN] = "open", [KERNEL_WAITS] = "waits"};

/* ------------------------------------------------------------------ lines in memory */

/* Whether a text is a column: not empty, shorter than so many bytes, without control characters. */
static bool is_column(const char *text, size_t bytes)
{
	size_t nr = 0;

	for (; nr < bytes && text[nr]; nr++)
		if ((unsigned char)text[nr] < ' ' || text[nr] == 0x7f)
			return false;
	return nr && nr < bytes;
}

bool kernel_name_is_good(const char *name)
{
	return is_column(name, KERNEL_NAME_BYTES);
}

bool kernel_why_is_good(const char *why)
{
	return is_column(why, KERNEL_WHY_BYTES);
}

/* The slot of a line, or the empty one where it would be. nr_slots > 0. */
static uint32_t *slot_of(const struct kernel_file *file, const char *name, uint64_t code,
			 uint64_t places)
{
	uint32_t at = (uint32_t)hash_mix(hash_mix(0, code), places) & (file->nr_slots - 1);

	for (;; at = (at + 1) & (file->nr_slots - 1)) {
		const struct kernel_line *line =
			file->slot[at] ? file->line[file->slot[at] - 1] : NULL;

		if (!line ||
		    (line->code == code && line->places == places && !strcmp(line->name, name)))
			return &file->slot[at];
	}
}

/* Room for one line more; half of the slots stay empty. */
static bool grow(struct kernel_file *file)
{
	const uint32_t max = MAX(SLOTS_MIN, 2 * file->nr_slots);
	struct kernel_line **line;
	uint32_t *slot;

	if (file->nr < file->nr_slots / 2)
		return true;
	line = realloc(file->line, max / 2 * sizeof(struct kernel_line *));
	if (!line)
		return false;
	file->line = line;
	slot = calloc(max, sizeof(*slot));
	if (!slot)
		return false;
	free(file->slot);
	file->slot = slot;
	file->nr_slots = max;
	for (uint32_t n = 0; n < file->nr; n++)
		*slot_of(file, line[n]->name, line[n]->code, line[n]->places) = n + 1;
	return true;
}

struct kernel_line *kernel_file_find(const struct kernel_file *file, const char *name,
				     uint64_t code, uint64_t places)
{
	const uint32_t *slot = file->nr_slots ? slot_of(file, name, code, places) : NULL;

	return slot && *slot ? file->line[*slot - 1] : NULL;
}

struct kernel_line *kernel_file_add(struct kernel_file *file, const char *name, uint64_t code,
				    uint64_t places)
{
	struct kernel_line *line = kernel_file_find(file, name, code, places);

	if (line)
		return line;
	line = calloc(1, sizeof(*line));
	if (line)
		line->name = strdup(name);
	if (!line || !line->name || !grow(file)) {
		free(line ? line->name : NULL);
		free(line);
		return NULL;
	}
	line->code = code;
	line->places = places;
	*slot_of(file, name, code, places) = file->nr + 1;
	file->line[file->nr++] = line;
	return line;
}

uint32_t kernel_file_nr_open(const struct kernel_file *file, const char *name, uint64_t code)
{
	uint32_t nr = 0;

	for (uint32_t n = 0; n < file->nr; n++)
		nr += file->line[n]->state != KERNEL_CLOSED && file->line[n]->code == code &&
		      !strcmp(file->line[n]->name, name);
	return nr;
}

void kernel_file_fini(struct kernel_file *file)
{
	for (uint32_t n = 0; n < file->nr; n++) {
		free(file->line[n]->name);
		free(file->line[n]);
	}
	free(file->line);
	free(file->slot);
	*file = (struct kernel_file){0};
}

/* ------------------------------------------------------------------ reading */

/* Sixteen hexadecimal digits, as they are written. */
static bool parse_hash(const char *text, uint64_t *out)
{
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return false;
	*out = strtoull(text, NULL, 16);
	return true;
}

/* "123 launches" */
static bool parse_launches(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '1' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !strcmp(end, LAUNCHES);
}

static enum kernel_state parse_state(const char *text)
{
	enum kernel_state state = KERNEL_CLOSED;

	while (state < KERNEL_STATES && strcmp(text, states[state]) != 0)
		state++;
	return state;
}

/* One line, without its end; it is cut into its columns. @return what is wrong with it, or NULL */
static const char *parse_line(struct kernel_file *file, char *text)
{
	char *column[NR_COLUMNS];
	uint64_t code, places, nr = 0;
	struct kernel_line *line;
	enum kernel_state state;

	for (uint32_t c = 0; c < NR_COLUMNS; c++) {
		column[c] = strsep(&text, "\t");
		if (!column[c])
			return "it has too few columns";
	}
	state = parse_state(column[0]);
	if (text)
		return "it has too many columns";
	if (state == KERNEL_STATES)
		return "it begins with none of 'closed', 'open' and 'waits'";
	if (!parse_hash(column[1], &code) || !parse_hash(column[2], &places))
		return "code and places are not 16 hexadecimal digits each";
	if (!kernel_name_is_good(column[3]))
		return "the kernel's name is empty, too long, or has control characters";
	if (state == KERNEL_CLOSED && !parse_launches(column[4], &nr))
		return "it does not end with a number and 'launches'";
	if (!kernel_why_is_good(column[4]))
		return "it does not end with a reason";
	if (kernel_file_find(file, column[3], code, places))
		return "an earlier one has the same kernel, code and places";
	line = kernel_file_add(file, column[3], code, places);
	if (!line)
		return "there is no memory for it";
	line->state = state;
	line->nr_launches = nr;
	if (state != KERNEL_CLOSED)
		memcpy(line->why, column[4], strlen(column[4]) + 1);
	return NULL;
}

/* All lines of a file. @return 0, or the number of the first that is wrong, and what is. */
static uint32_t parse(struct kernel_file *file, FILE *from, const char **wrong)
{
	char text[LINE_BYTES];
	uint32_t number = 0;

	*wrong = NULL;
	while (!*wrong && fgets(text, sizeof(text), from)) {
		char *end = strchr(text, '\n');

		number++;
		if (end)
			*end = '\0';
		if (!end)
			*wrong = "it is cut off, too long, or no text";
		else if (number == 1)
			*wrong = strcmp(text, HEAD) ? "it is not '" HEAD "'" : NULL;
		else if (*text != '#')
			*wrong = parse_line(file, text);
	}
	if (!number)
		*wrong = "the file is empty";
	return *wrong ? MAX(number, 1u) : 0;
}

static int open_regular(const char *path, FILE **out)
{
	struct stat status;

	*out = NULL;
	if (stat(path, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	*out = fopen(path, "re");
	return *out ? 0 : -errno;
}

int kernel_file_read(struct kernel_file *file, const char *path, char *err, size_t err_bytes)
{
	const char *wrong;
	uint32_t number;
	FILE *from;
	int rc = open_regular(path, &from);

	if (rc) {
		(void)snprintf(err, err_bytes, "%s: %s", path,
			       rc == -EINVAL ? "no regular file" : strerror(-rc));
		return rc;
	}
	number = parse(file, from, &wrong);
	rc = ferror(from) ? -EIO : wrong ? -EINVAL : 0;
	if (rc)
		(void)snprintf(err, err_bytes, "%s: line %" PRIu32 ": %s", path, number,
			       rc == -EINVAL ? wrong : strerror(-rc));
	(void)fclose(from);
	if (rc)
		kernel_file_fini(file);
	return rc;
}

/* ------------------------------------------------------------------ writing */

static void print(FILE *to, const struct kernel_file *file)
{
	(void)fputs(HEAD "\n" COLUMNS "\n", to);
	for (uint32_t n = 0; n < file->nr; n++) {
		const struct kernel_line *line = file->line[n];

		(void)fprintf(to, "%s\t%016" PRIx64 "\t%016" PRIx64 "\t%s\t", states[line->state],
			      line->code, line->places, line->name);
		if (line->state == KERNEL_CLOSED)
			(void)fprintf(to, "%" PRIu64 LAUNCHES "\n", line->nr_launches);
		else
			(void)fprintf(to, "%s\n", line->why);
	}
}

/* Under another name at first: "FILE.123.part", with the process's number. */
static int write_whole(const struct kernel_file *file, const char *path)
{
	char part[PATH_MAX + 32];
	FILE *to = NULL;
	int fd, err = 0;

	(void)snprintf(part, sizeof(part), "%s.%ld" PART, path, (long)getpid());
	(void)unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	to = fdopen(fd, "w");
	if (!to) {
		err = errno;
		(void)close(fd);
	} else {
		print(to, file);
		err = fflush(to) || ferror(to) || fsync(fd) ? errno : 0;
		if (fclose(to) && !err)
			err = errno;
	}
	if (!err && rename(part, path))
		err = errno;
	if (err)
		(void)unlink(part);
	return -err;
}

/* Take over what is known of one kernel. @return false: no memory */
static bool merge_line(struct kernel_file *file, const struct kernel_line *from)
{
	struct kernel_line *to = kernel_file_add(file, from->name, from->code, from->places);

	if (!to)
		return false;
	if (from->state > to->state) {
		to->state = from->state;
		memcpy(to->why, from->why, sizeof(to->why));
	}
	to->nr_launches += MIN(from->nr_seen, UINT64_MAX - to->nr_launches);
	return true;
}

static int merge(struct kernel_file *file, const struct kernel_file *changed)
{
	for (uint32_t n = 0; n < changed->nr; n++)
		if (changed->line[n]->changed && !merge_line(file, changed->line[n]))
			return -ENOMEM;
	return 0;
}

/*
 * Processes that write files of a folder take turns.
 *
 * @param [out] locked  false: the file system has no locks, and others may be writing.
 * @return what to close, or -errno
 */
static int lock_folder(const char *path, bool *locked)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	const int err = errno;
	int rc;

	free(copy);
	if (fd < 0)
		return -err;
	do
		rc = flock(fd, LOCK_EX);
	while (rc && errno == EINTR);
	*locked = !rc;
	return fd;
}

/* Within the folder's lock. */
static int update_locked(const struct kernel_file *changed, const char *path, char *err,
			 size_t err_bytes)
{
	struct kernel_file file = {0};
	int rc = kernel_file_read(&file, path, err, err_bytes);

	if (rc && rc != -ENOENT)
		return rc;
	rc = merge(&file, changed);
	if (!rc)
		rc = write_whole(&file, path);
	(void)snprintf(err, err_bytes, "%s: %s", path, strerror(-rc));
	kernel_file_fini(&file);
	return rc;
}

int kernel_file_update(const struct kernel_file *changed, const char *path, char *err,
		       size_t err_bytes)
{
	/* What a link leads to is replaced, and not the link. */
	char *there = realpath(path, NULL);
	const char *file = there ? there : path;
	bool locked;
	const int folder = strlen(file) < PATH_MAX ? lock_folder(file, &locked) : -ENAMETOOLONG;
	int rc = folder;

	if (folder < 0) {
		(void)snprintf(err, err_bytes, "%s: %s", path, strerror(-folder));
	} else {
		rc = update_locked(changed, file, err, err_bytes);
		(void)close(folder);
	}
	free(there);
	return rc;
}

/* ------------------------------------------------------------------ what killed processes left */

/* Whether a name is that of a part of the file, "base.123.part", whose process is gone. */
static bool is_left_name(const char *name, const char *base)
{
	const size_t bytes = strlen(base);
	const char *number = name + bytes + 1;
	char *end;
	long pid;

	if (strncmp(name, base, bytes) != 0 || name[bytes] != '.' || *number < '1' || *number > '9')
		return false;
	errno = 0;
	pid = strtol(number, &end, 10);
	if (errno || pid > INT_MAX || strcmp(end, PART) != 0)
		return false;
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* Whether a file is the user's own, and begins as one that is written here: as far as it goes. */
static bool is_left_file(int folder, const char *name)
{
	const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[sizeof(HEAD "\n") - 1];
	struct stat status;
	bool is_left = false;

	if (fd < 0)
		return false;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid()) {
		const ssize_t nr = read(fd, text, sizeof(text));

		is_left = nr >= 0 && !memcmp(text, HEAD "\n", (size_t)nr);
	}
	(void)close(fd);
	return is_left;
}

/* Within the folder's lock: who writes now has it. */
static void clean_locked(int folder, const char *base)
{
	const int copy = dup(folder);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	if (!dir) {
		if (copy >= 0)
			(void)close(copy);
		return;
	}
	while ((entry = readdir(dir)))
		if (is_left_name(entry->d_name, base) && is_left_file(folder, entry->d_name))
			(void)unlinkat(folder, entry->d_name, 0);
	(void)closedir(dir);
}

void kernel_file_clean(const char *path)
{
	char *there = realpath(path, NULL);
	char *file = there ? there : strdup(path);
	bool locked = false;
	const int folder = file ? lock_folder(file, &locked) : -1;

	if (locked)
		clean_locked(folder, basename(file));
	if (folder >= 0)
		(void)close(folder);
	free(file);
}
