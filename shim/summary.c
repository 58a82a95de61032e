/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "shim/brackets.h"
#include "shim/launches.h"
#include "shim/memory.h"
#include "shim/proof.h"
#include "shim/settings.h"
#include "shim/when.h"
#include "src/base/util.h"
#include "weir/explain.h"
#include "weir/trace.h"

#define KB 1e3
#define MB 1e6
#define GB 1e9

static struct {
	pid_t pid; /* of the process that began; a child that fork() made says nothing */
	atomic_bool spilled, refused, unready, fault;
	_Atomic(uint64_t) nr_passed, lost_bytes;
} summary;

/* Without dprintf(), which allocates: a signal's handler may end the process within malloc(). */
__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
	static const char who[] = "weir: ";
	char line[1000];
	size_t bytes = sizeof(who) - 1;
	int nr;

	memcpy(line, who, bytes);
	nr = vsnprintf(line + bytes, sizeof(line) - bytes, format, args);
	if (nr < 0)
		return;
	bytes = MIN(bytes + (size_t)nr, sizeof(line) - 1);
	line[bytes++] = '\n';
	while (write(STDERR_FILENO, line, bytes) < 0 && errno == EINTR)
		;
}

void summary_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!settings_get()->quiet)
		say(format, args);
	va_end(args);
}

/* The same of an error of weir's own, which --quiet does not keep back. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

struct summary_text summary_bytes(uint64_t bytes)
{
	struct summary_text out;

	if ((double)bytes >= GB)
		(void)snprintf(out.text, sizeof(out.text), "%.2f GB", (double)bytes / GB);
	else if ((double)bytes >= MB)
		(void)snprintf(out.text, sizeof(out.text), "%.1f MB", (double)bytes / MB);
	else
		(void)snprintf(out.text, sizeof(out.text), "%.1f kB", (double)bytes / KB);
	return out;
}

void summary_begin(void)
{
	struct memory_account account;

	if (summary.pid)
		return;
	memory_account(&account);
	summary.pid = getpid();
	summary_say("GPU %d: %s of its memory and %s of the host's for this program",
		    account.device, summary_bytes(account.gpu_budget).text,
		    summary_bytes(account.host_budget).text);
}

void summary_note_taken(void)
{
	struct memory_account account;

	if (atomic_load(&summary.spilled) || when_is_before())
		return;
	memory_account(&account);
	if (account.host_high && !atomic_exchange(&summary.spilled, true))
		summary_say("the GPU's %s are full: what comes now lies in the host's memory, and "
			    "kernels use it there, over the link",
			    summary_bytes(account.gpu_budget).text);
}

void summary_note_refused(uint64_t bytes)
{
	const char *why = memory_warning();

	if (!atomic_exchange(&summary.refused, true))
		summary_say("%s asked for, and both budgets are full: the program is told that "
			    "there is no memory; --gpu-budget and --host-budget say how much there "
			    "is%s%s",
			    summary_bytes(bytes).text, *why ? "; " : "", why);
}

cu_result summary_note_unready(cu_result result)
{
	const char *why = memory_warning();

	if (result == CU_OUT_OF_MEMORY && !atomic_exchange(&summary.unready, true))
		summary_say("what a launch, copy or fill uses has no room: the program is told "
			    "that there is no memory%s%s",
			    *why ? "; " : "", why);
	return result;
}

void summary_note_switched(uint64_t bytes)
{
	struct memory_account account;
	struct memory_use use;

	memory_account(&account);
	memory_use(&use);
	atomic_store(&summary.spilled, true);
	summary_say("the GPU's %s are full: from here on memory moves",
		    summary_bytes(account.gpu_budget).text);
	if (settings_get()->explain)
		summary_say("allocation %" PRIu64
			    ", of %s, has no room beside %s: launches, copies "
			    "and fills are looked at from here on, and what was queued before is "
			    "waited for",
			    account.nr_allocs + 1, summary_bytes(bytes).text,
			    summary_bytes(use.used).text);
}

void summary_note_passed(void)
{
	atomic_fetch_add(&summary.nr_passed, 1);
}

void summary_note_lost(uint64_t bytes)
{
	atomic_fetch_add(&summary.lost_bytes, bytes);
}

/* ------------------------------------------------------------------ faults */

/* The kernels that may have done it. */
static void say_last(void)
{
	const char *name[LAUNCHES_LAST];

	launches_last(name);
	for (uint32_t i = 0; i < LAUNCHES_LAST && name[i]; i++)
		summary_say("  launched last but %u: %s", i, name[i]);
}

cu_result summary_note_result(cu_result result)
{
	const enum settings_mode mode = settings_get()->mode;

	if (result)
		memory_note_result(result);
	if (result != CU_ILLEGAL_ADDRESS || (mode != SETTINGS_FAST && mode != SETTINGS_LISTED) ||
	    atomic_exchange(&summary.fault, true))
		return result;
	if (mode == SETTINGS_LISTED)
		summary_say("a kernel used an address that is not mapped. If the program runs "
			    "without weir, %s does not hold any more: learn it anew (--learn), or "
			    "run the program with --mode safe",
			    settings_get()->kernels);
	else
		summary_say("a kernel used an address that is not mapped. If the program runs "
			    "without weir, that kernel uses an allocation that its launch does "
			    "not name: run it with --mode safe");
	say_last();
	return result;
}

/* ------------------------------------------------------------------ the end */

/* With --when oom, and always. */
static void print_when(FILE *file)
{
	struct when_account w;

	when_account(&w);
	(void)fprintf(file,
		      ", \"when\": \"%s\", \"switched\": %s, \"moves\": %s, \"passed\": %" PRIu64
		      ", \"switched_allocation\": %" PRIu64 ", \"switched_bytes\": %" PRIu64
		      ", \"switched_ns\": %" PRIu64 ", \"switch_waited_ns\": %" PRIu64,
		      w.late ? "oom" : "always", w.switched ? "true" : "false",
		      (w.late ? w.moves : settings_moves()) ? "true" : "false", w.nr_passed,
		      w.allocation, w.bytes, w.switched_ns, w.waited_ns);
}

/* One object, as a line. */
static void print_json(FILE *file, const struct memory_account *a, const struct brackets_account *b,
		       const struct launches_account *l)
{
	(void)fprintf(file,
		      "{\"pid\": %ld, \"gpu\": %d, \"gpu_budget_bytes\": %" PRIu64
		      ", \"host_budget_bytes\": %" PRIu64 ", \"block_bytes\": %" PRIu64
		      ", \"allocated_peak_bytes\": %" PRIu64 ", \"gpu_peak_bytes\": %" PRIu64
		      ", \"host_peak_bytes\": %" PRIu64 ", \"allocations\": %" PRIu64
		      ", \"allocations_reused\": %" PRIu64 ", \"allocations_refused\": %" PRIu64
		      ", \"allocations_of_the_driver\": %" PRIu64 ", \"lost_bytes\": %" PRIu64
		      ", \"brackets\": %" PRIu64 ", \"brackets_missed\": %" PRIu64
		      ", \"ranges_named\": %" PRIu64 ", \"infer_ns\": %" PRIu64
		      ", \"mode\": \"%s\", \"brackets_open\": %" PRIu64
		      ", \"moved_in_bytes\": %" PRIu64 ", \"moved_out_bytes\": %" PRIu64
		      ", \"compared_bytes\": %" PRIu64 ", \"unchanged_bytes\": %" PRIu64
		      ", \"waits\": %" PRIu64 ", \"launches_closed\": %" PRIu64
		      ", \"launches_open\": %" PRIu64 ", \"windows\": %" PRIu64
		      ", \"brackets_grouped\": %" PRIu64 ", \"events_refused\": %" PRIu64,
		      (long)summary.pid, a->device, a->gpu_budget, a->host_budget, a->block_bytes,
		      a->used_high, a->gpu_high, a->host_high, a->nr_allocs, a->nr_reused,
		      a->nr_refused, atomic_load(&summary.nr_passed),
		      atomic_load(&summary.lost_bytes), b->nr, b->nr_missed, b->nr_uses,
		      l->infer_ns, settings_mode_name(settings_get()->mode), b->nr_any, a->in_bytes,
		      a->out_bytes, a->compared_bytes, a->same_bytes, a->nr_waits, l->nr_closed,
		      l->nr_open, l->nr_windows, a->nr_grouped, a->nr_ungrouped);
	print_when(file);
	(void)fputs("}\n", file);
}

/* Add a line to a file that other processes add to at the same time. @return 0 or an errno */
static int append(const char *path, const char *line, size_t bytes)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	size_t done = 0;
	int err = 0;

	if (fd < 0)
		return errno;
	/* Where there are no locks, one call is enough for a line as a rule. */
	while (flock(fd, LOCK_EX) && errno == EINTR)
		;
	while (done < bytes && !err) {
		const ssize_t nr = write(fd, line + done, bytes - done);

		if (nr >= 0)
			done += (size_t)nr;
		else if (errno != EINTR)
			err = errno;
	}
	if (close(fd) && !err)
		err = errno;
	return err;
}

static void write_json(const char *path, const struct memory_account *a,
		       const struct brackets_account *b, const struct launches_account *l)
{
	char *line = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&line, &bytes);
	int err = ENOMEM;

	if (file) {
		print_json(file, a, b, l);
		err = fclose(file) ? ENOMEM : append(path, line, bytes);
	}
	free(line);
	if (err)
		complain("--stats: %s: %s", path, strerror(err));
}

/* What the trace has, which ends here. */
static void say_trace(const struct brackets_account *b, const struct launches_account *l)
{
	struct weir_space *space = memory_space();

	if (!settings_get()->trace)
		return;
	if (space)
		weir_space_trace_mark(space, "end");
	if (space && weir_space_trace(space, NULL))
		complain("--trace: %s: its last events may be missing", settings_get()->trace);
	summary_say("%s: %" PRIu64
		    " launches, copies and fills, which name %.1f ranges each; %" PRIu64
		    " name none or were not recorded; %.0f ns each to find them",
		    settings_get()->trace, b->nr, (double)b->nr_uses / (double)(b->nr + !b->nr),
		    b->nr_missed, (double)l->infer_ns / (double)(b->nr + !b->nr));
}

/* What was planned, and what happened. */
static void say_plan(void)
{
	struct weir_space *space = memory_space();

	if (!settings_get()->explain || !space || !settings_moves())
		return;
	summary_say("what was planned of a period, and what happened:");
	if (weir_space_explain(space, stderr))
		complain("--explain: the plan could not be shown");
}

__attribute__((destructor)) static void summary_end(void)
{
	struct memory_account account;
	struct brackets_account brackets;
	struct launches_account launches;

	if (!summary.pid || summary.pid != getpid())
		return;
	if (hook_is_within() || !memory_answers()) {
		summary_say("the program ended within a call, as by exit() in a signal handler: "
			    "there is no summary, and what files were to have of it is missing");
		return;
	}
	proof_end();
	memory_account(&account);
	if (account.host_high && settings_moves())
		summary_say(
			"%s at most, with %s of the GPU's memory; %s came to it over the link, "
			"and %s went back; %s had not changed and did not have to",
			summary_bytes(account.used_high).text, summary_bytes(account.gpu_high).text,
			summary_bytes(account.in_bytes).text, summary_bytes(account.out_bytes).text,
			summary_bytes(account.same_bytes).text);
	else if (account.host_high)
		summary_say("%s at most; %s of it in the GPU's memory, and %s in the host's, which "
			    "the link to it slowed down",
			    summary_bytes(account.used_high).text,
			    summary_bytes(account.gpu_high).text,
			    summary_bytes(account.host_high).text);
	else
		summary_say("%s at most, all of it in the GPU's memory",
			    summary_bytes(account.used_high).text);
	if (atomic_load(&summary.lost_bytes))
		summary_say("%s could not be given back",
			    summary_bytes(atomic_load(&summary.lost_bytes)).text);
	brackets_account(&brackets);
	launches_account(&launches);
	say_trace(&brackets, &launches);
	say_plan();
	if (settings_get()->stats)
		write_json(settings_get()->stats, &account, &brackets, &launches);
}
