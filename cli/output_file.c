/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear whole; see output_file.h. */
#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/kept.h"

static int fail(const struct output_file *output, int error, char *err, size_t err_bytes)
{
	const char *give = "give", *what = "a file that can be written";

	if (error == ENOSPC || error == EDQUOT) {
		give = "free some space or give";
		what = "another place";
	} else if (error == ENOENT || error == ENOTDIR) {
		give = "create the directory or give";
		what = "another place";
	} else if (error == EISDIR) {
		what = "a file in it";
	}
	snprintf(err, err_bytes, "cannot write '%s': %s; %s %s %s", output->name, strerror(error),
		 give, output->option, what);
	return -error;
}

/* Refuse what must stay as it is. */
static int check_kept(const struct output_file *output, const struct stat *st, char *err,
		      size_t err_bytes)
{
	static const char *const whats[] = {
		[KEPT_INPUT] = "it is an input of this command, which no output replaces",
		[KEPT_OUTPUT] = "two outputs cannot be one file",
	};
	enum kept_as as = kept_find(st);

	if (as == KEPT_NOT)
		return 0;
	if (as == KEPT_UNKNOWN)
		return fail(output, ENOMEM, err, err_bytes);
	snprintf(err, err_bytes, "cannot write '%s': %s; give %s another name", output->name,
		 whats[as], output->option);
	return -EEXIST;
}

int output_file_check(const char *option, const char *name, char *err, size_t err_bytes)
{
	const struct output_file output = {.name = name, .option = option};
	struct stat st;

	if (strcmp(name, "-") == 0 ? fstat(STDOUT_FILENO, &st) : stat(name, &st))
		return 0;
	return check_kept(&output, &st, err, err_bytes);
}

/* ".NAME.PID.tmp" in the target's directory: a rename within one file system is atomic. */
static char *partial_name(const char *target)
{
	const char *slash = strrchr(target, '/');
	const char *base = slash ? slash + 1 : target;
	char *text;

	if (asprintf(&text, "%.*s.%s.%ld.tmp", (int)(base - target), target, base, (long)getpid()) <
	    0)
		return NULL;
	return text;
}

static int open_partial(struct output_file *output, const struct stat *old, char *err,
			size_t err_bytes)
{
	struct stat other;
	int fd, error;

	output->partial = partial_name(output->target);
	if (!output->partial)
		return fail(output, ENOMEM, err, err_bytes);
	if (!stat(output->partial, &other) && kept_find(&other) == KEPT_OUTPUT) {
		free(output->partial);
		output->partial = NULL;
		return check_kept(output, &other, err, err_bytes);
	}
	/* A left-over of a killed process with our number is nobody's. */
	if (unlink(output->partial) && errno != ENOENT)
		goto err_free;
	/* Some files are written in stretches, which are looked at again. */
	fd = open(output->partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		goto err_free;
	if (old && fchmod(fd, old->st_mode & 0777))
		goto err_unlink;
	output->stream = fdopen(fd, "w");
	if (!output->stream)
		goto err_unlink;
	kept_add_output(fd);
	return 0;

err_unlink:
	error = errno;
	close(fd);
	unlink(output->partial);
	errno = error;
err_free:
	error = errno;
	free(output->partial);
	output->partial = NULL;
	return fail(output, error, err, err_bytes);
}

int output_file_open(struct output_file *output, const char *option, const char *name, char *err,
		     size_t err_bytes)
{
	struct stat st;
	bool exists;
	int rc;

	*output = (struct output_file){.name = name, .option = option};
	rc = output_file_check(option, name, err, err_bytes);
	if (rc)
		return rc;
	if (strcmp(name, "-") == 0) {
		output->stream = stdout;
		return 0;
	}
	exists = stat(name, &st) == 0;
	if (!exists && errno != ENOENT)
		return fail(output, errno, err, err_bytes);
	if (exists && S_ISDIR(st.st_mode))
		return fail(output, EISDIR, err, err_bytes);
	if (exists && !S_ISREG(st.st_mode)) {
		output->stream = fopen(name, "we");
		if (!output->stream)
			return fail(output, errno, err, err_bytes);
		return 0;
	}
	if (exists && access(name, W_OK))
		return fail(output, errno, err, err_bytes);
	/* Through symbolic links, so that they stay. */
	output->target = exists ? realpath(name, NULL) : strdup(name);
	if (!output->target)
		return fail(output, errno, err, err_bytes);
	rc = open_partial(output, exists ? &st : NULL, err, err_bytes);
	if (rc) {
		free(output->target);
		output->target = NULL;
	}
	return rc;
}

/* Not every kind of file can be synced; that is no loss of data. */
static bool sync_failed(FILE *stream)
{
	return fsync(fileno(stream)) && errno != EINVAL && errno != EROFS && errno != ENOTSUP;
}

int output_file_flush(struct output_file *output, char *err, size_t err_bytes)
{
	if (!fflush(output->stream) && !ferror(output->stream))
		return 0;
	return fail(output, errno ? errno : EIO, err, err_bytes);
}

int output_file_commit(struct output_file *output, char *err, size_t err_bytes)
{
	const struct output_file opened = *output;
	int error = 0;

	errno = 0;
	if (fflush(output->stream) || ferror(output->stream) ||
	    (output->partial && sync_failed(output->stream)))
		error = errno ? errno : EIO;
	if (output->stream != stdout) {
		if (fclose(output->stream) && !error)
			error = errno;
		output->stream = NULL;
	}
	if (!error && output->partial) {
		if (rename(output->partial, output->target)) {
			error = errno;
		} else {
			free(output->partial);
			output->partial = NULL;
		}
	}
	output_file_abandon(output);
	return error ? fail(&opened, error, err, err_bytes) : 0;
}

void output_file_abandon(struct output_file *output)
{
	if (output->stream && output->stream != stdout)
		fclose(output->stream);
	if (output->partial)
		unlink(output->partial);
	free(output->partial);
	free(output->target);
	memset(output, 0, sizeof(*output));
}
