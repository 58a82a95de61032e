/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress bar; see progress.h. It shows the host's time, not the simulated machine's, and it
 * is the only thing that does: results depend on no clock.
 */
#include "cli/progress.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 28
#define DRAW_NS UINT64_C(100000000)
#define NS_PER_S 1e9

static uint64_t now_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_MONOTONIC, &t))
		return 0;
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void progress_start(struct progress *progress, FILE *out)
{
	const int fd = fileno(out);

	memset(progress, 0, sizeof(*progress));
	progress->out = out;
	progress->shown = fd >= 0 && isatty(fd);
	progress->start_ns = now_ns();
}

void progress_format(char *text, size_t bytes, double fraction, uint64_t elapsed_ns,
		     const char *label)
{
	char bar[BAR_WIDTH + 1], left[48] = "";
	int filled;

	if (!(fraction > 0))
		fraction = 0;
	if (fraction > 1)
		fraction = 1;
	filled = (int)(fraction * BAR_WIDTH);
	memset(bar, ' ', BAR_WIDTH);
	memset(bar, '#', (size_t)filled);
	bar[BAR_WIDTH] = '\0';
	/* The first hundredth says nothing yet about the rest. */
	if (fraction >= 0.01) {
		double rest_s = (double)elapsed_ns / NS_PER_S * (1 - fraction) / fraction + 0.5;
		unsigned long s = rest_s < 1e6 ? (unsigned long)rest_s : 1000000;

		if (s >= 60)
			snprintf(left, sizeof(left), "%lu min %02lu s left  ", s / 60, s % 60);
		else
			snprintf(left, sizeof(left), "%lu s left  ", s);
	}
	snprintf(text, bytes, "[%s] %3d %%  %s%s", bar, (int)(fraction * 100), left, label);
}

void progress_set(struct progress *progress, double fraction, const char *label)
{
	char text[128];
	uint64_t now;

	if (!progress->shown)
		return;
	now = now_ns();
	if (progress->drawn && now - progress->drawn_ns < DRAW_NS)
		return;
	progress_format(text, sizeof(text), fraction, now - progress->start_ns, label);
	fprintf(progress->out, "\r%s\033[K", text);
	fflush(progress->out);
	progress->drawn = true;
	progress->drawn_ns = now;
}

void progress_clear(struct progress *progress)
{
	if (!progress->drawn)
		return;
	fprintf(progress->out, "\r\033[K");
	fflush(progress->out);
	progress->drawn = false;
}
