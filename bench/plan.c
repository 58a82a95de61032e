/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What making a plan costs the host: periods of 250 to 24,000 brackets that fold into no loop, over
 * as many ranges of four blocks, each used by three of them; half of it all fits. "cpu_s" are
 * seconds of processor time of plan_create(), "work" the lives looked at meanwhile.
 *
 * Usage: bench_plan. One JSON object a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "include/weir/weir.h"
#include "src/residency/plan.h"

#define USES 3u
#define BLOCKS 4u

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int measure(uint32_t nr)
{
	struct plan_step *step = calloc(nr, sizeof(*step));
	struct plan_use *use = calloc((size_t)nr * USES, sizeof(*use));
	struct plan_life *life = calloc(nr, sizeof(*life));
	struct plan_input input = {.step = step,
				   .use = use,
				   .life = life,
				   .nr_steps = nr,
				   .nr_uses = nr * USES,
				   .nr_lives = nr,
				   .budget_blocks = nr * BLOCKS / 2,
				   .nr_below = 1,
				   .below[0] = {.in_ns = 100,
						.out_ns = 100,
						.duplex_ns = 100,
						.inplace_duplex_ns = 100,
						.inplace_both_ns = 100}};
	struct plan *plan = NULL;
	struct rusage usage;
	double begin_s;
	int err = -1;

	if (!step || !use || !life)
		goto out;
	for (uint32_t i = 0; i < nr; i++) {
		life[i] = (struct plan_life){.nr_blocks = BLOCKS, .permanent = true};
		step[i] = (struct plan_step){
			.compute_ns = 100, .shape = i, .first_use = i * USES, .nr_uses = USES};
		for (uint32_t n = 0; n < USES; n++)
			use[i * USES + n] =
				(struct plan_use){.life = (i + n * (nr / USES)) % nr,
						  .kind = n ? WEIR_READ : WEIR_WRITE,
						  .whole = true,
						  .in = BLOCKS,
						  .out = n ? 0 : BLOCKS,
						  .at[0] = {.in_ns = 100 * BLOCKS,
							    .out_ns = n ? 0 : 100 * BLOCKS,
							    .hit = 1}};
	}
	begin_s = cpu_s();
	err = plan_create(&input, &plan);
	if (err)
		goto out;
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"schema\":\"weir-bench-plan-1\",\"version\":\"%s\",\"brackets\":%u,"
	       "\"stages\":%u,\"cpu_s\":%.4f,\"work\":%llu,\"peak_rss_bytes\":%lld}\n",
	       weir_version(), nr, plan->nr_stages, cpu_s() - begin_s,
	       (unsigned long long)plan->work, (long long)usage.ru_maxrss * 1024);
	plan_destroy(plan);
out:
	free(step);
	free(use);
	free(life);
	return err;
}

int main(void)
{
	static const uint32_t sizes[] = {250, 500, 1500, 3000, 6000, 12000, 24000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (measure(sizes[i])) {
			fprintf(stderr, "bench_plan: %u brackets: no plan\n", sizes[i]);
			return 1;
		}
	return 0;
}
