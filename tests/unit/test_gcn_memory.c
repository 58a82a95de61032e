/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run allocates: its peak, the formula for it, and the order of allocations and frees. The
 * machine is phantom throughout: the sizes are those of real runs, the bytes do not exist.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "tests/unit/test_gcn_fake.h"
#include "tests/unit/test_gcn_planted.h"
#include "workloads/gcn/gcn.h"

static uint64_t measured_peak(const struct gcn_params *p)
{
	struct workload_result r;
	struct fake f;
	char err[256] = "";

	fake_init(&f, WEIR_DATA_PHANTOM);
	if (gcn_run(&f.manager, p, &r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(f.live_bytes, 0);
	assert_int_equal(f.nr_unknown_frees, 0);
	assert_int_equal(f.nr_bad_uses, 0);
	assert_int_equal(r.nr_epochs, p->epochs);
	for (uint32_t i = 0; i < r.nr_epochs; i++)
		assert_true(isnan(r.loss[i]));
	assert_true(isnan(r.test_accuracy));
	gcn_result_free(&r);
	return f.peak_bytes;
}

/* 4509 bytes a node and 18.7 MB; at 3M the temporaries of a slice still add 16 MB. */
static void gcn_peak_published(void **state)
{
	static const uint64_t millions[] = {5, 8, 10, 12, 15, 30};
	struct gcn_params p = {.epochs = 1};

	(void)state;
	for (size_t i = 0; i < sizeof(millions) / sizeof(millions[0]); i++) {
		double constant;

		p.nodes = millions[i] * 1000000;
		constant = (double)measured_peak(&p) - 4509.0 * (double)p.nodes;
		assert_true(fabs(constant - 18.7e6) < 0.05e6);
	}
	p.nodes = 3000000;
	assert_true(fabs((double)measured_peak(&p) / (4509.0 * 3e6 + 18.7e6) - 1) < 0.002);
}

/* The formula is exact, whichever phase makes the peak. */
static void gcn_peak_formula(void **state)
{
	static const uint64_t nodes[] = {10, 11, 99, 1000, 34999, 35073, 1000000, 3012345};
	static const uint64_t slices[] = {1000, 4096, 2000000, 1000000000};
	static const uint32_t hidden[] = {1, 16, 256, 1024};

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		for (size_t j = 0; j < 16; j++) {
			struct gcn_params p = {
				.nodes = nodes[i],
				.slice = slices[j % 4],
				.hidden = hidden[j / 4],
				.epochs = 2,
			};

			if (p.nodes / p.slice < 1000)
				assert_int_equal(measured_peak(&p), gcn_peak_bytes(&p));
		}
	}
}

static void gcn_peak_formula_real_graph(void **state)
{
	static const uint64_t slices[] = {50, 500, 0};
	static const uint32_t hidden[] = {1, 16, 300};
	char dir[PLANTED_DIR_BYTES];

	(void)state;
	assert_int_equal(planted_create(dir, 300, 5), 0);
	for (int i = 0; i < 9; i++) {
		struct gcn_params p = {
			.graph_dir = dir,
			.slice = slices[i % 3],
			.hidden = hidden[i / 3],
			.epochs = 2,
		};

		assert_int_equal(measured_peak(&p), gcn_peak_bytes(&p));
	}
	planted_remove(dir);
}

static void gcn_peak_refused(void **state)
{
	struct gcn_params p = {.nodes = UINT64_MAX, .epochs = 1};

	(void)state;
	assert_int_equal(gcn_peak_bytes(&p), UINT64_MAX);
	p.nodes = 0;
	assert_int_equal(gcn_peak_bytes(&p), UINT64_MAX);
	p.graph_dir = "/nonexistent";
	assert_int_equal(gcn_peak_bytes(&p), 0);
	/* The largest that is accepted does not overflow. */
	p = (struct gcn_params){
		.nodes = GCN_NODES_MAX, .hidden = GCN_HIDDEN_MAX, .epochs = 1, .slice = UINT64_MAX};
	assert_true(gcn_peak_bytes(&p) > 13 * GCN_NODES_MAX * GCN_HIDDEN_MAX);
	assert_true(gcn_peak_bytes(&p) < UINT64_C(1) << 63);
}

/* ------------------------------------------------------------------ order */

static char trace[8192];

static void trace_add(char sign, const char *name)
{
	size_t used = strlen(trace);

	snprintf(trace + used, sizeof(trace) - used, "%c%s ", sign, name);
}

static int trace_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	trace_add('+', name);
	return fake_alloc(m, bytes, name, addr);
}

static void trace_free(struct manager *m, void *addr)
{
	struct fake_tensor *t = fake_find(fake_of(m), addr, 1);

	assert_non_null(t);
	trace_add('-', t->name);
	fake_free(m, addr);
}

static void trace_launch(struct fake *f, const struct weir_launch *launch)
{
	(void)f;
	trace_add('!', launch->kernel->name);
}

#define SLICE "+slice rows !gather +slice scaled !scale !scatter_add -slice rows -slice scaled "
#define CLEAR "!zero !zero !zero !zero "
#define STEP "!adam !adam !adam !adam "

/* One epoch with two slices a pass, as docs/gcn.md has it. */
static const char epoch[] =
	CLEAR "+A1 !linear +O1 !zero " SLICE SLICE "-A1 "
	      "+R !relu -O1 "
	      "+D +D mask !dropout "
	      "+A2 !linear +O2 !zero " SLICE SLICE "-A2 "
	      "+split index !select +split rows !gather -O2 +log P !loss -split rows "
	      "+grad split rows !loss_grad -log P "
	      "+grad O2 !zero !scatter_add -grad split rows -split index "
	      "+grad A2 !zero " SLICE SLICE "!linear_grad_weight "
	      "+grad D !linear_grad_in -D -grad A2 -grad O2 "
	      "+grad R !dropout_grad -grad D -D mask "
	      "+grad O1 !relu_grad -R -grad R "
	      "+grad A1 !zero " SLICE SLICE "-grad O1 !linear_grad_weight -grad A1 " STEP;

static void gcn_order_random_graph(void **state)
{
	struct gcn_params p = {.nodes = 100, .slice = 1050, .epochs = 2, .hidden = 8};
	struct manager_ops ops;
	struct workload_result r;
	struct fake f;
	char want[2 * sizeof(epoch)];
	char *begin, *end;

	(void)state;
	fake_init(&f, WEIR_DATA_PHANTOM);
	ops = *f.manager.ops;
	ops.alloc = trace_alloc;
	ops.free = trace_free;
	f.manager.ops = &ops;
	f.hook = trace_launch;
	trace[0] = '\0';
	assert_int_equal(gcn_run(&f.manager, &p, &r, NULL, 0), 0);
	gcn_result_free(&r);
	begin = strstr(trace, "+loss ");
	assert_non_null(begin);
	end = strstr(begin, "-loss");
	assert_non_null(end);
	*end = '\0';
	snprintf(want, sizeof(want), "%s%s", epoch, epoch);
	assert_string_equal(begin + strlen("+loss "), want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcn_peak_published),	       cmocka_unit_test(gcn_peak_formula),
		cmocka_unit_test(gcn_peak_formula_real_graph), cmocka_unit_test(gcn_peak_refused),
		cmocka_unit_test(gcn_order_random_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
