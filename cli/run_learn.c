/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir run --learn`: the program is started again as long as a run of it shows that a kernel uses
 * more than its launches name, which is added to the file of kernels each time. What a run shows
 * comes through memory that is shared with the library in it (shim/learn.h, shim/proof.c); what was
 * seen to use no more is written there, when a run ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/run_internal.h"
#include "shim/kernel_file.h"
#include "shim/learn.h"
#include "shim/settings.h"

#define ATTEMPTS_MAX 64u
#define STATUS_SIGNAL 128 /* and its number: what a shell says of a program that one ended */

int run_check_kernels(const char *path, bool learn)
{
	struct kernel_file file = {0};
	char err[512];
	int rc;

	if (!path)
		return 0;
	rc = kernel_file_read(&file, path, err, sizeof(err));
	kernel_file_fini(&file);
	/* That it can be written is known before the program runs. */
	if (learn && (!rc || rc == -ENOENT))
		rc = kernel_file_update(&(struct kernel_file){0}, path, err, sizeof(err));
	if (learn && !rc)
		kernel_file_clean(path);
	return rc ? command_complain("run: --%s %s", learn ? "learn" : "kernels", err) : 0;
}

/* ------------------------------------------------------------------ what runs show */

static void unshare(struct learn_shared *shared, int fd)
{
	if (shared != MAP_FAILED)
		(void)munmap(shared, sizeof(*shared));
	if (fd >= 0)
		(void)close(fd);
}

/* Memory of one run, which the program's processes open by its name in this one: one that lives on
 * writes to that of its own run. @return what is to be closed, or -1 after a line */
static int share(struct learn_shared **shared)
{
	const int fd = memfd_create("weir-learn", MFD_CLOEXEC);
	char name[64];

	*shared = MAP_FAILED;
	if (fd >= 0 && !ftruncate(fd, sizeof(**shared)))
		*shared = mmap(NULL, sizeof(**shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)snprintf(name, sizeof(name), "/proc/%ld/fd/%d", (long)getpid(), fd);
	if (*shared != MAP_FAILED && !setenv(SETTINGS_LEARN_SHARED, name, 1))
		return fd;
	(void)command_complain("run: --learn: %s", strerror(errno));
	unshare(*shared, fd);
	return -1;
}

/* Whether somebody ended the program who has nothing to do with what it did. */
static bool was_stopped(int status)
{
	const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return by == SIGINT || by == SIGTERM || by == SIGHUP || by == SIGQUIT || by == SIGKILL;
}

/* Say it; the name last, since it may be long. */
static void say_slot(const struct learn_slot *slot, const char *did)
{
	char line[LEARN_LAUNCH_BYTES + KERNEL_WHY_BYTES + KERNEL_NAME_BYTES + 64];

	(void)snprintf(line, sizeof(line), "%s, %s; its kernel is open from here on: %s",
		       slot->launch, did, slot->name);
	command_print_line(line);
}

/* Whether a slot is as the library leaves it, and not as a program does that writes anywhere. */
static bool is_whole(const struct learn_slot *slot, const char *why)
{
	return kernel_name_is_good(slot->name) && kernel_why_is_good(why) &&
	       memchr(slot->launch, '\0', sizeof(slot->launch));
}

/* Take over what ended a process. */
static int take_slot(struct kernel_file *file, const struct learn_slot *slot, bool quiet)
{
	const uint32_t state = atomic_load(&slot->state);
	const char *did = state == LEARN_RUNS ? "ran as the program ended" : slot->why;
	struct kernel_line *line;

	if (!is_whole(slot, did))
		return command_complain("run: --learn: the program wrote over what it shares with "
					"weir run");
	line = kernel_file_add(file, slot->name, slot->code, slot->places);
	if (!line)
		return command_complain("run: no memory on the host");
	if (!quiet)
		say_slot(slot, did);
	if (line->state == KERNEL_WAITS)
		return 0;
	line->changed = true;
	line->state = state == LEARN_WAITS ? KERNEL_WAITS : KERNEL_OPEN;
	(void)snprintf(line->why, sizeof(line->why), "%s", did);
	return 0;
}

/* Take over what processes did. */
static int take_slots(struct kernel_file *file, const struct learn_shared *shared, int status,
		      bool quiet)
{
	int rc = 0;

	for (uint32_t s = 0; s < LEARN_PROCESSES && !rc; s++)
		if (atomic_load(&shared->slot[s].state) > LEARN_RUNS)
			rc = take_slot(file, &shared->slot[s], quiet);
	/* Where nobody says more, what ran as a process ended may have ended it. */
	if (file->nr || was_stopped(status))
		return rc;
	for (uint32_t s = 0; s < LEARN_PROCESSES && !rc; s++)
		if (atomic_load(&shared->slot[s].state) == LEARN_RUNS)
			rc = take_slot(file, &shared->slot[s], quiet);
	return rc;
}

/* Write what a run showed. *nr: kernels. */
static int keep(const struct learn_shared *shared, const char *path, int status, bool quiet,
		uint32_t *nr)
{
	struct kernel_file file = {0};
	char err[512];
	int rc = take_slots(&file, shared, status, quiet);

	*nr = file.nr;
	if (!rc && file.nr && kernel_file_update(&file, path, err, sizeof(err)))
		rc = command_complain("run: --learn %s", err);
	kernel_file_fini(&file);
	return rc;
}

/* ------------------------------------------------------------------ runs */

/* Run the program once. What ends it at the terminal is its own to deal with. @return as waitpid()
 * says, or -1 after a line */
static int run_once(const char *program, char **argv)
{
	void (*interrupt)(int), (*quit)(int);
	const pid_t parent = getpid();
	int status = -1;
	pid_t child;

	if (run_empty_stats())
		return -1;
	(void)fflush(NULL);
	child = fork();
	if (child < 0) {
		(void)command_complain("run: %s", strerror(errno));
		return -1;
	}
	if (!child) {
		(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() == parent)
			(void)execv(program, argv);
		_exit(command_complain("run: %s: %s", program, strerror(errno)));
	}
	interrupt = signal(SIGINT, SIG_IGN);
	quit = signal(SIGQUIT, SIG_IGN);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	(void)signal(SIGINT, interrupt);
	(void)signal(SIGQUIT, quit);
	return status;
}

static int say_learnt(const char *path, uint32_t nr_runs, bool quiet)
{
	struct kernel_file file = {0};
	uint32_t nr[KERNEL_STATES] = {0};
	char err[512], line[512];

	if (kernel_file_read(&file, path, err, sizeof(err)))
		return command_complain("run: --learn %s", err);
	for (uint32_t n = 0; n < file.nr; n++)
		nr[file.line[n]->state]++;
	kernel_file_fini(&file);
	(void)snprintf(line, sizeof(line),
		       "run: after %" PRIu32 " runs, %.300s has %" PRIu32 " closed and %" PRIu32
		       " open",
		       nr_runs, path, nr[KERNEL_CLOSED], nr[KERNEL_OPEN] + nr[KERNEL_WAITS]);
	if (!quiet)
		command_print_line(line);
	return 0;
}

/* The last run ended, and showed no kernel to be open. @return what the command ends with */
static int finish(int status, const char *path, uint32_t nr_runs, bool quiet)
{
	if (WIFSIGNALED(status)) {
		(void)command_complain("run: --learn: the program was ended by signal %d: %s has "
				       "what was seen until then",
				       WTERMSIG(status), path);
		return STATUS_SIGNAL + WTERMSIG(status);
	}
	if (!WEXITSTATUS(status))
		return say_learnt(path, nr_runs, quiet);
	(void)command_complain("run: --learn: the program ended with status %d, and not by a "
			       "kernel that uses more than its launch names: %s has what was seen "
			       "until then",
			       WEXITSTATUS(status), path);
	return WEXITSTATUS(status);
}

int run_learn(const char *program, char **argv, const char *kernels, bool quiet)
{
	for (uint32_t run = 1; run <= ATTEMPTS_MAX; run++) {
		struct learn_shared *shared;
		const int fd = share(&shared);
		const int status = fd < 0 ? -1 : run_once(program, argv);
		uint32_t nr_open = 0;
		int rc = status < 0 ? -1 : keep(shared, kernels, status, quiet, &nr_open);

		if (fd >= 0)
			unshare(shared, fd);
		/* A process that was killed may have been writing. */
		kernel_file_clean(kernels);
		if (rc)
			return COMMAND_EXIT_BAD;
		if (!nr_open)
			return finish(status, kernels, run, quiet);
	}
	return command_complain("run: --learn: the program was run %u times, and each time another "
				"kernel was found to use more than it names: run the command "
				"again to go on",
				ATTEMPTS_MAX);
}
