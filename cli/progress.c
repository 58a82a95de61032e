/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far work is; see progress.h. It shows the host's time, not the simulated machine's, and it
 * is the only thing that does: results depend on no clock.
 */
#include "cli/progress.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"

#define BAR_WIDTH 28
#define BAR_LEAST 4 /* a shorter one shows nothing */
#define DRAW_NS UINT64_C(100000000)
#define TICK_NS UINT64_C(1000000000) /* between two drawings at most */
#define LINE_NS UINT64_C(30000000000)
#define NS_PER_S UINT64_C(1000000000)
#define TEXT_BYTES 160

/* ------------------------------------------------------------------ one line */

static void format_time(char *text, size_t bytes, double seconds, const char *what)
{
	unsigned long s = seconds < 1e6 ? (unsigned long)seconds : 1000000;

	if (s >= 60)
		snprintf(text, bytes, "%lu min %02lu s %s  ", s / 60, s % 60, what);
	else
		snprintf(text, bytes, "%lu s %s  ", s, what);
}

void progress_format(char *text, size_t bytes, size_t columns, double fraction, uint64_t elapsed_ns,
		     const char *label)
{
	const double elapsed_s = (double)elapsed_ns / (double)NS_PER_S;
	char bar[BAR_WIDTH + 1], time[64], rest[TEXT_BYTES];
	size_t width, used;

	if (!(fraction > 0))
		fraction = 0;
	if (fraction > 1)
		fraction = 1;
	if (fraction >= 0.01)
		format_time(time, sizeof(time), elapsed_s * (1 - fraction) / fraction + 0.5,
			    "left");
	else
		format_time(time, sizeof(time), elapsed_s, "so far");
	snprintf(rest, sizeof(rest), "%3d %%  %s%s", (int)(fraction * 100), time, label);
	/* The bar gives way to what stands behind it. */
	used = strlen(rest) + strlen("[] ");
	width = columns > used ? columns - used : 0;
	width = width < BAR_WIDTH ? width : BAR_WIDTH;
	if (width >= BAR_LEAST) {
		memset(bar, ' ', width);
		memset(bar, '#', (size_t)(fraction * (double)width));
		bar[width] = '\0';
		snprintf(text, bytes, "[%s] %s", bar, rest);
	} else {
		snprintf(text, bytes < columns + 1 ? bytes : columns + 1, "%s",
			 rest + strspn(rest, " "));
	}
}

/* What a line may take: the last column stays free, or some terminals begin a new line. */
static size_t columns_of(const struct progress *progress)
{
	struct winsize size;

	if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) || size.ws_col < 2)
		return 79;
	return size.ws_col - 1u;
}

/* With the lock held. */
static void draw(struct progress *progress, uint64_t now)
{
	char text[TEXT_BYTES];

	progress_format(text, sizeof(text), progress->terminal ? columns_of(progress) : 79,
			progress->fraction, now - progress->start_ns, progress->label);
	if (progress->terminal)
		fprintf(progress->out, "\r%s\033[K", text);
	else
		fprintf(progress->out, "weir: %s\n", text);
	fflush(progress->out);
	progress->drawn = progress->terminal;
	progress->drawn_ns = now;
}

/* ------------------------------------------------------------------ the thread */

static uint64_t interval_ns(const struct progress *progress)
{
	return progress->terminal ? TICK_NS : progress->line_ns;
}

static void *tick(void *arg)
{
	struct progress *progress = arg;

	pthread_mutex_lock(&progress->lock);
	while (!progress->end) {
		uint64_t due = progress->drawn_ns + interval_ns(progress), now = clock_now_ns();
		struct timespec until = {.tv_sec = (time_t)(due / NS_PER_S),
					 .tv_nsec = (long)(due % NS_PER_S)};

		if (now >= due)
			draw(progress, now);
		else
			(void)pthread_cond_timedwait(&progress->wake, &progress->lock, &until);
	}
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

/* Signals stay with the thread that works. Without memory for a thread, nothing is drawn but by
 * progress_set(). */
static void start_thread(struct progress *progress)
{
	pthread_condattr_t attributes;
	sigset_t all, before;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&progress->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&progress->lock, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	progress->has_thread = !pthread_create(&progress->thread, NULL, tick, progress);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ------------------------------------------------------------------ start to end */

void progress_start(struct progress *progress, FILE *out)
{
	const int fd = fileno(out);
	const bool again = progress->running;

	if (again) {
		pthread_mutex_lock(&progress->lock);
	} else {
		memset(progress, 0, sizeof(*progress));
		progress->running = true;
		progress->out = out;
		progress->terminal = fd >= 0 && isatty(fd);
		progress->line_ns = LINE_NS;
		progress->drawn_ns = clock_now_ns();
	}
	progress->start_ns = clock_now_ns();
	progress->fraction = 0;
	snprintf(progress->label, sizeof(progress->label), "starting");
	if (again)
		pthread_mutex_unlock(&progress->lock);
	else
		start_thread(progress);
}

void progress_set(struct progress *progress, double fraction, const char *label)
{
	uint64_t now;

	if (!progress->running)
		return;
	pthread_mutex_lock(&progress->lock);
	now = clock_now_ns();
	/* Less than before: another part of the work begins, and has a rate of its own. */
	if (fraction < progress->fraction)
		progress->start_ns = now;
	progress->fraction = fraction;
	if (label != progress->label)
		snprintf(progress->label, sizeof(progress->label), "%s", label);
	if (progress->terminal && (!progress->drawn || now - progress->drawn_ns >= DRAW_NS))
		draw(progress, now);
	pthread_mutex_unlock(&progress->lock);
}

void progress_clear(struct progress *progress)
{
	if (!progress->running)
		return;
	pthread_mutex_lock(&progress->lock);
	if (progress->drawn) {
		fprintf(progress->out, "\r\033[K");
		fflush(progress->out);
		/* Time for what is printed now. */
		progress->drawn_ns = clock_now_ns();
	}
	progress->drawn = false;
	pthread_mutex_unlock(&progress->lock);
}

void progress_end(struct progress *progress)
{
	if (!progress->running)
		return;
	progress_clear(progress);
	pthread_mutex_lock(&progress->lock);
	progress->end = true;
	pthread_cond_signal(&progress->wake);
	pthread_mutex_unlock(&progress->lock);
	if (progress->has_thread)
		pthread_join(progress->thread, NULL);
	pthread_cond_destroy(&progress->wake);
	pthread_mutex_destroy(&progress->lock);
	progress->running = false;
}
