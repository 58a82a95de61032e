/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and counts at a moment; see moment.h. */
#include "workloads/moment.h"

#include <time.h>

static void clocks_take(struct manager *m, struct moment *out)
{
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	out->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
	out->now_ns = m->backend->ops->now_ns(m->backend);
}

static void pages_take(struct manager *m, struct moment *out)
{
	struct manager_stats stats;

	m->ops->stats(m, &stats);
	out->pages = stats.pages;
}

void moment_begin(struct manager *m, struct moment *out)
{
	pages_take(m, out);
	clocks_take(m, out);
}

void moment_end(struct manager *m, struct moment *out)
{
	uint64_t done_ns = m->ops->done_ns ? m->ops->done_ns(m) : 0;

	clocks_take(m, out);
	if (done_ns)
		out->now_ns = done_ns;
	pages_take(m, out);
}

double moment_seconds(const struct moment *begin, const struct moment *end)
{
	return (double)(end->now_ns - begin->now_ns) * 1e-9;
}

void moment_pages_add(const struct moment *begin, const struct moment *end,
		      struct manager_pages *out)
{
	out->nr_in += end->pages.nr_in - begin->pages.nr_in;
	out->nr_out += end->pages.nr_out - begin->pages.nr_out;
	out->nr_in_place += end->pages.nr_in_place - begin->pages.nr_in_place;
	out->nr_waits += end->pages.nr_waits - begin->pages.nr_waits;
}
