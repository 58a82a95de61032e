/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int passes_result_init(struct passes_result *r, uint32_t nr_passes)
{
	*r = (struct passes_result){
		.nr_passes = nr_passes,
		.pass_s = calloc(nr_passes, sizeof(*r->pass_s)),
		.pass_cpu_s = calloc(nr_passes, sizeof(*r->pass_cpu_s)),
		.pass_begin_ns = calloc(nr_passes, sizeof(*r->pass_begin_ns)),
		.passed = true,
	};
	if (r->pass_s && r->pass_cpu_s && r->pass_begin_ns)
		return 0;
	passes_result_free(r);
	return -EAGAIN;
}

void passes_result_free(struct passes_result *r)
{
	free(r->pass_s);
	free(r->pass_cpu_s);
	free(r->pass_begin_ns);
	memset(r, 0, sizeof(*r));
}

int pass_idle(struct manager *m, bool drain)
{
	int err = m->ops->drain && drain ? m->ops->drain(m) : 0;

	return err ? err : m->ops->sync(m);
}

void pass_clock(struct backend *b, struct pass_moment *out)
{
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	out->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
	out->now_ns = b->ops->now_ns(b);
}

static void pages_take(struct manager *m, struct pass_moment *out)
{
	struct manager_stats stats;

	m->ops->stats(m, &stats);
	out->pages = stats.pages;
}

void pass_begin(struct manager *m, struct pass_moment *out)
{
	pages_take(m, out);
	pass_clock(m->backend, out);
}

void pass_end(struct manager *m, struct pass_moment *out)
{
	uint64_t done_ns = m->ops->done_ns ? m->ops->done_ns(m) : 0;

	pass_clock(m->backend, out);
	if (done_ns)
		out->now_ns = done_ns;
	manager_mark_pause(m);
	pages_take(m, out);
}

void pass_note(struct passes_result *r, uint32_t pass, const struct pass_moment *begin,
	       const struct pass_moment *end)
{
	r->pass_s[pass] = (double)(end->now_ns - begin->now_ns) * 1e-9;
	r->pass_begin_ns[pass] = begin->now_ns;
	r->pass_cpu_s[pass] = end->cpu_s - begin->cpu_s;
	r->pages.nr_in += end->pages.nr_in - begin->pages.nr_in;
	r->pages.nr_out += end->pages.nr_out - begin->pages.nr_out;
	r->pages.nr_in_place += end->pages.nr_in_place - begin->pages.nr_in_place;
	r->pages.nr_waits += end->pages.nr_waits - begin->pages.nr_waits;
}
