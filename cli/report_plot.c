/* SPDX-License-Identifier: Apache-2.0 */
/* Running gnuplot; see report_plot.h. No shell is involved, and it reads no start-up files. */
#include "cli/report_plot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/report_read.h"
#include "src/base/clock.h"

#define SCRIPT "script"
#define LOG "log"

extern char **environ;

static int fail(char *err, size_t err_bytes, int error, const char *what)
{
	snprintf(err, err_bytes, "%s: %s; is there room in $TMPDIR?", what, strerror(error));
	return -error;
}

char *plot_path(const struct plot *plot, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", plot->dir, name) < 0 ? NULL : path;
}

int plot_open(struct plot *plot, char *err, size_t err_bytes)
{
	const char *base = getenv("TMPDIR");
	char *path;
	int error;

	*plot = (struct plot){0};
	if (asprintf(&plot->dir, "%s/weir-report-XXXXXX", base && *base ? base : "/tmp") < 0) {
		plot->dir = NULL;
		return fail(err, err_bytes, ENOMEM, "temporary folder");
	}
	if (!mkdtemp(plot->dir)) {
		error = errno;
		fail(err, err_bytes, error, plot->dir);
		free(plot->dir);
		plot->dir = NULL;
		return -error;
	}
	path = plot_path(plot, SCRIPT);
	plot->script = path ? fopen(path, "we") : NULL;
	if (!plot->script) {
		error = path ? errno : ENOMEM;
		fail(err, err_bytes, error, plot->dir);
		plot_close(plot);
		free(path);
		return -error;
	}
	free(path);
	return 0;
}

void plot_close(struct plot *plot)
{
	const struct dirent *entry;
	DIR *dir;

	if (plot->script)
		(void)fclose(plot->script);
	if (plot->dir) {
		dir = opendir(plot->dir);
		/* What cannot be removed stays: there is nobody to tell, and nothing is wrong. */
		while (dir && (entry = readdir(dir)))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
		if (dir)
			(void)closedir(dir);
		(void)rmdir(plot->dir);
	}
	free(plot->dir);
	*plot = (struct plot){0};
}

/* ------------------------------------------------------------------ the child */

/* In the folder, so that its path, which may hold anything, is no part of a script. */
static int start(const char *dir, pid_t *pid)
{
	char name[] = "gnuplot", defaults[] = "--default-settings", script[] = SCRIPT;
	char *argv[] = {name, defaults, script, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t signals;
	int err;

	err = posix_spawn_file_actions_init(&files);
	if (err)
		return err;
	err = posix_spawnattr_init(&attr);
	if (err)
		goto out_files;
	/* SIGPIPE is ignored here; not there. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	err = posix_spawnattr_setsigdefault(&attr, &signals);
	if (!err)
		err = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	if (!err)
		err = posix_spawn_file_actions_addchdir_np(&files, dir);
	if (!err)
		err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_addopen(&files, 2, LOG, O_WRONLY | O_CREAT | O_TRUNC,
						       0600);
	if (!err)
		err = posix_spawnp(pid, name, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
out_files:
	posix_spawn_file_actions_destroy(&files);
	return err;
}

/* Wait for the child to end, by itself or killed. 0: *status says how; -ETIMEDOUT, -EINTR. */
static int wait_for(pid_t pid, double timeout_s, int *status)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	const uint64_t end_ns = clock_now_ns() + (uint64_t)(timeout_s * 1e9);
	int rc = 0;

	for (;;) {
		pid_t got = waitpid(pid, status, rc ? 0 : WNOHANG);

		if (got == pid)
			return rc;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got || rc)
			continue;
		if (interrupt_pending())
			rc = -EINTR;
		else if (clock_now_ns() > end_ns)
			rc = -ETIMEDOUT;
		if (rc)
			kill(pid, SIGKILL);
		else
			nanosleep(&pause, NULL);
	}
}

/* The first line of a log that says something. */
static void first_line(const char *path, char *line, size_t bytes)
{
	FILE *log = fopen(path, "re");

	line[0] = '\0';
	while (log && fgets(line, (int)bytes, log)) {
		line[strcspn(line, "\n")] = '\0';
		report_printable(line);
		if (line[strspn(line, " ^")])
			break;
	}
	if (log)
		(void)fclose(log);
}

static int run(const char *dir, const char *log, double timeout_s, char *err, size_t err_bytes)
{
	int status = 0, rc;
	char line[160];
	pid_t pid;

	rc = start(dir, &pid);
	if (rc == ENOENT) {
		snprintf(err, err_bytes, "gnuplot is missing: `make deps` installs it");
		return -ENOENT;
	}
	if (rc) {
		snprintf(err, err_bytes, "gnuplot does not start: %s", strerror(rc));
		return -rc;
	}
	rc = wait_for(pid, timeout_s, &status);
	if (rc == -ETIMEDOUT)
		snprintf(err, err_bytes,
			 "gnuplot did not end within %g s and was killed; give it longer with "
			 "--plot-timeout",
			 timeout_s);
	else if (rc)
		snprintf(err, err_bytes, "gnuplot: %s", strerror(-rc));
	if (rc || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return rc;
	first_line(log, line, sizeof(line));
	snprintf(err, err_bytes, "gnuplot failed with %s %d: %s; is the package gnuplot-nox whole?",
		 WIFEXITED(status) ? "status" : "signal",
		 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		 *line ? line : "it says nothing");
	return -EIO;
}

int plot_run(struct plot *plot, double timeout_s, char *err, size_t err_bytes)
{
	char *log = plot_path(plot, LOG);
	int rc;

	errno = 0;
	if (fclose(plot->script))
		rc = fail(err, err_bytes, errno ? errno : EIO, plot->dir);
	else if (!log)
		rc = fail(err, err_bytes, ENOMEM, plot->dir);
	else
		rc = run(plot->dir, log, timeout_s, err, err_bytes);
	plot->script = NULL;
	free(log);
	return rc;
}
