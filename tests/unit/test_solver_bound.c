/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower bound of a solver's pass: each part against times by hand; the longest chain against
 * all chains, one by one; no manager is faster, on machines, fields and numbers of devices at
 * random, and in each regime one comes close to it.
 */
#include <math.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/gen.h"
#include "workloads/solver/bound.h"

#define SEED 20261u

/* Slices of 4 KiB. On the test machine: 100 bytes/ns of HBM, 20 bytes/ns and 1000 ns a message, 100
 * ns a piece, 500 ns the least of a launch. */
static const struct solver_params usual = {
	.kind = SOLVER_DIFFUSION,
	.shape = {200, 16, 64},
	.iterations = 10,
	.passes = 2,
	.warm_up = 1,
	.devices = 2,
};

static struct solver_bound bound_of(const struct solver_params *p)
{
	struct weir_machine_desc desc;

	test_machine_gpus(&desc, p->devices);
	return solver_bound_of(&desc, p, NULL, SOLVER_COPIED);
}

static void is_ns(double s, double ns)
{
	if (fabs(s * 1e9 - ns) > 1e-3)
		fail_msg("%.6f ns, not %.6f", s * 1e9, ns);
}

/* ------------------------------------------------------------------ by hand */

static void test_bound_kernels(void **state)
{
	struct solver_params p = usual;

	(void)state;
	/* All of it read and written. */
	p.devices = 1;
	is_ns(bound_of(&p).kernels_s, 10 * (2 * 200 * 4096 / 100.0));
	is_ns(bound_of(&p).ports_s, 0);
	is_ns(bound_of(&p).chain_s, 0);
	/* The middle one of three has 67 slices and reads two more; the last 67 and one more. */
	p.devices = 3;
	is_ns(bound_of(&p).kernels_s, 10 * ((2 * 67 + 2) * 4096 / 100.0));
	/* A launch takes 500 ns. */
	p.shape.slices = 3;
	is_ns(bound_of(&p).kernels_s, 10 * 500);
}

/* What is read in the last nine of ten iterations crosses links. */
static void test_bound_ports(void **state)
{
	const double slice = 4096;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	is_ns(bound_of(&p).ports_s, 9 * slice / 20);
	p.iterations = 1;
	is_ns(bound_of(&p).ports_s, 0);
	p.iterations = 10;
	p.devices = 3;
	test_machine_gpus(&desc, 3);
	/* Two links from the one in the middle carry twice as much; a port of theirs does not. */
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * slice / 20);
	desc.nr_ports = 2;
	desc.port[0] = (struct weir_port_desc){GPU1, 2, 30e9, 80e9};
	desc.port[1] = (struct weir_port_desc){GPU2, 1, 80e9, 80e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * 2 * slice / 30);
	/* With two links at a time slower than with one, it is one. */
	desc.port[0] = (struct weir_port_desc){GPU1, 2, 80e9, 10e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * 2 * slice / 20);
	desc.port[1] = (struct weir_port_desc){GPU1, 1, 5e9, 80e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * 2 * slice / 20);
	desc.port[1] = (struct weir_port_desc){GPU2, 1, 80e9, 2e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * slice / 2);
	/* A link that is slow both ways at once. */
	desc.nr_ports = 0;
	desc.link[5].duplex_bytes_per_s = 15e9; /* of the last two */
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * slice / 15);
	/* No slower than one way after the other. */
	desc.link[5].duplex_bytes_per_s = 1e9;
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).ports_s, 9 * 2 * slice / 20);
}

/* What is sent and received goes through the memory that kernels use. */
static void test_bound_memories(void **state)
{
	const double slice = 4096, kernels = 10 * (2 * 67 + 2) * slice / 100;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	p.devices = 3;
	test_machine_gpus(&desc, 3);
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).memories_s, 0);
	desc.nr_ports = 1;
	desc.port[0] = (struct weir_port_desc){GPU1, 1, 30e9, 30e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).memories_s,
	      kernels + 9 * 4 * slice / 100);
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_IN_PLACE).memories_s, 0);
	/* One link carries 20 bytes/ns, the port the rest of it; three leave kernels too little. */
	desc.port[0] = (struct weir_port_desc){GPU1, 2, 44e9, 44e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).memories_s,
	      kernels + 9 * 4 * slice / 100);
	desc.port[0] = (struct weir_port_desc){GPU1, 3, 80e9, 80e9};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).memories_s, 0);
}

/* To and fro between two devices. */
static void test_bound_chain(void **state)
{
	const double message = 1000 + 100 + 4096 / 20.0;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	is_ns(bound_of(&p).chain_s, 10 * 500 + 9 * message);
	p.iterations = 1;
	is_ns(bound_of(&p).chain_s, 500);
	p.iterations = 10;
	/* One launches more slowly: five times its own, five times the other's. */
	test_machine(&desc);
	desc.device[1].launch_ns = 700;
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).chain_s, 5 * 1200 + 9 * message);
	/* So slowly that the chain stays there. */
	desc.device[1].launch_ns = 5000;
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).chain_s, 10 * 5000);
	/* Slices of 256 KiB: three read and one written; the message is no more than the launch. */
	p.shape.columns *= 64;
	is_ns(bound_of(&p).chain_s, 10 * 4 * 262144 / 100.0 + 9 * (1100 + 262144 / 20.0));
	/* In place, nothing but the link takes time. */
	test_machine(&desc);
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_IN_PLACE).chain_s,
	      4 * 262144 / 100.0 + 9 * 262144 / 20.0);
	p.shape.columns /= 64;
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_IN_PLACE).chain_s, 10 * 500);
}

/* ------------------------------------------------------------------ as measured */

static struct solver_bound measured(const struct weir_machine_desc *desc,
				    const struct solver_params *p, uint32_t devices,
				    double single_ns)
{
	struct solver_params one = *p, some = *p;
	struct solver_bound single, model;

	one.devices = 1;
	some.devices = devices;
	single = solver_bound_of(desc, &one, NULL, SOLVER_COPIED);
	model = solver_bound_of(desc, &some, NULL, SOLVER_COPIED);
	return solver_bound_measured(&model, &single, single_ns / 1e9);
}

/* By the model; and in the middle one of three. */
static const double one_ns = 10 * 2 * 200 * 4096 / 100.0;
static const double third_ns = 10 * (2 * 67 + 2) * 4096 / 100.0;

/* Kernels take their share of what single took; nothing else is longer. */
static void test_bound_measured(void **state)
{
	struct solver_bound bound, model;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	p.devices = 3;
	test_machine_gpus(&desc, 3);
	desc.port[desc.nr_ports++] = (struct weir_port_desc){GPU1, 1, 30e9, 30e9};
	model = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	bound = measured(&desc, &p, 1, 1.8 * one_ns);
	is_ns(bound.kernels_s, 1.8 * one_ns);
	is_ns(solver_bound_s(&bound), 1.8 * one_ns);
	bound = measured(&desc, &p, 3, 1.8 * one_ns);
	is_ns(bound.kernels_s, 1.8 * third_ns);
	is_ns(bound.ports_s, model.ports_s * 1e9);
	is_ns(bound.memories_s, model.memories_s * 1e9);
	is_ns(bound.chain_s, model.chain_s * 1e9);
	/* A factor of the description's is in both. */
	desc.nr_kernels = 1;
	desc.kernel[0] = (struct weir_kernel_rate){"solver_diffusion", 1.5};
	is_ns(solver_bound_of(&desc, &p, NULL, SOLVER_COPIED).kernels_s, 1.5 * third_ns);
	is_ns(measured(&desc, &p, 3, 1.8 * one_ns).kernels_s, 1.8 * third_ns);
}

/* The model is wrong where single is faster. */
static void test_bound_measured_faster(void **state)
{
	const struct solver_params als = {.kind = SOLVER_ALS,
					  .shape = {5000, 1000, SOLVER_WIDTH},
					  .iterations = 10,
					  .devices = 1};
	struct solver_bound bound, model;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	p.devices = 3;
	test_machine_gpus(&desc, 3);
	desc.port[desc.nr_ports++] = (struct weir_port_desc){GPU0, 1, 30e9, 30e9};
	model = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	assert_true(model.memories_s > 0);
	bound = measured(&desc, &p, 1, 0.9 * one_ns);
	is_ns(solver_bound_s(&bound), 0.9 * one_ns);
	bound = measured(&desc, &p, 3, 0.9 * one_ns);
	is_ns(bound.kernels_s, 0.9 * third_ns);
	is_ns(bound.ports_s, model.ports_s * 1e9);
	is_ns(bound.memories_s, 0.9 * model.memories_s * 1e9);
	is_ns(bound.chain_s, 0.9 * model.chain_s * 1e9);
	/* Of als, too, a chain is no longer than single's pass. */
	bound = measured(&desc, &als, 1, 1000);
	is_ns(solver_bound_s(&bound), 1000);
}

/* The least time of a launch is no share of anything: it stays, unless single was below it. */
static void test_bound_measured_launches(void **state)
{
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	test_machine_gpus(&desc, 3);
	p.shape.slices = 3;
	is_ns(measured(&desc, &p, 1, 10 * 900).kernels_s, 10 * 900);
	/* One slice of three is written, and three are read: four of six. */
	is_ns(measured(&desc, &p, 3, 10 * 900).kernels_s, 10 * 600);
	is_ns(measured(&desc, &p, 3, 10 * 600).kernels_s, 10 * 500);
	is_ns(measured(&desc, &p, 3, 10 * 300).kernels_s, 10 * 300);
	is_ns(measured(&desc, &p, 1, 10 * 300).kernels_s, 10 * 300);
}

/* sssp may end after fewer rounds than single did. */
static void test_bound_measured_rounds(void **state)
{
	struct solver_bound single, model;
	struct weir_machine_desc desc;
	struct solver_params p = usual;

	(void)state;
	test_machine_gpus(&desc, 3);
	p.devices = 1;
	single = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	p.iterations = 5;
	model = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	is_ns(solver_bound_measured(&model, &single, 1e-3).kernels_s, 0.5e6);
}

/* ------------------------------------------------------------------ all chains */

static uint32_t owner_of(const struct solver_params *p, uint32_t slice)
{
	uint32_t d = 0;

	while (slice >= solver_first_slice(p, d + 1))
		d++;
	return d;
}

/* The longest chain that begins as a slice is computed, `left` iterations before the last, over
 * slices of any kind. */
static double longest(const struct weir_machine_desc *desc, const struct solver_params *p,
		      uint32_t slice, uint32_t left)
{
	const uint32_t d = owner_of(p, slice), last = p->shape.slices - 1;
	const double bytes = (double)solver_slice_bytes(&p->shape);
	const double moved = bytes * (2 + (slice > 0) + (slice < last));
	const double own = fmax((double)desc->device[d].launch_ns,
				moved / desc->device[d].hbm_bytes_per_s * 1e9);
	double most = 0;

	for (uint32_t to = slice ? slice - 1 : 0; left && to <= MIN(slice + 1, last); to++) {
		double rest = longest(desc, p, to, left - 1);

		if (owner_of(p, to) != d) {
			const struct weir_link_desc *link = &desc->link[0];

			while (link->a != GPU0 + MIN(d, owner_of(p, to)) ||
			       link->b != GPU0 + MAX(d, owner_of(p, to)))
				link++;
			rest += 1100 + bytes / 1e-9 /
					       (link->a == GPU0 + d ? link->a_to_b_bytes_per_s
								    : link->b_to_a_bytes_per_s);
		}
		most = fmax(most, rest);
	}
	return own + most;
}

static void machine_at(uint64_t random, uint32_t devices, struct weir_machine_desc *desc)
{
	test_machine_gpus(desc, devices);
	for (uint32_t d = 0; d < devices; d++)
		desc->device[d].launch_ns = 200 + gen_bits(random, d) % 4000;
	for (uint32_t l = devices; l < desc->nr_links; l++) {
		desc->link[l].a_to_b_bytes_per_s = 1e9 * (1 + (double)(gen_bits(random, l) % 40));
		desc->link[l].b_to_a_bytes_per_s = 1e9 * (1 + (double)(gen_bits(random, ~l) % 40));
		desc->link[l].duplex_bytes_per_s = 1e9;
	}
	for (uint32_t d = 0; random >> 60 & 1 && d < devices; d++)
		desc->port[desc->nr_ports++] = (struct weir_port_desc){
			GPU0 + d, 1, 1e9 * (1 + (double)(gen_bits(random, 100 + d) % 45)),
			1e9 * (1 + (double)(gen_bits(random, 200 + d) % 45))};
}

/* Chains over slices that no neighbour reads are no longer than the kernels of one device. */
static void test_bound_chain_brute(void **state)
{
	uint32_t nr_chains = 0;

	(void)state;
	print_message("seed %u\n", SEED);
	for (uint64_t i = 0; i < 200; i++) {
		const uint64_t r = gen_bits(SEED, i);
		struct weir_machine_desc desc;
		struct solver_params p = usual;
		struct solver_bound bound;
		double most = 0, want;

		p.devices = 1 + (uint32_t)r % 4;
		p.shape.slices = p.devices + (uint32_t)(r >> 8) % 6;
		p.shape.columns = 4 * (1 + (uint32_t)(r >> 16) % 200);
		p.iterations = 1 + (uint32_t)(r >> 32) % 5;
		machine_at(r, p.devices, &desc);
		bound = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
		for (uint32_t s = 0; s < p.shape.slices; s++)
			most = fmax(most, longest(&desc, &p, s, p.iterations - 1));
		want = fmax(most, bound.kernels_s * 1e9);
		is_ns(fmax(bound.chain_s, bound.kernels_s), want);
		nr_chains += bound.chain_s > bound.kernels_s;
	}
	assert_true(nr_chains > 50);
}

/* ------------------------------------------------------------------ against managers */

static double pass_s(const struct weir_machine_desc *desc, const struct solver_manager_ops *ops,
		     const struct solver_params *p)
{
	struct solver_config config = {.options = ops->options};
	struct solver_result r;
	struct solver_manager *m;
	char err[256] = "";
	double s;

	solver_config_set(&config, p);
	assert_int_equal(weir_machine_simulate(desc, WEIR_DATA_PHANTOM, &config.machine), 0);
	assert_int_equal(ops->create(&config, &m), 0);
	if (solver_run(m, p, &r, err, sizeof(err)))
		fail_msg("%s: %s", ops->name, err);
	s = r.passes.pass_s[0];
	passes_result_free(&r.passes);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	return s;
}

static double bound_under(const struct weir_machine_desc *desc,
			  const struct solver_manager_ops *ops, const struct solver_params *p)
{
	const struct solver_bound bound =
		solver_bound_of(desc, p, NULL, ops->in_place ? SOLVER_IN_PLACE : SOLVER_COPIED);

	return ops->limit ? bound.kernels_s : solver_bound_s(&bound);
}

static void test_bound_holds(void **state)
{
	static const struct test_amount cases = {40, 10, 1000};
	const uint64_t nr = test_amount(NULL, cases);

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t r = gen_bits(SEED + 1, i);
		struct weir_machine_desc desc;
		struct solver_params p = usual;

		p.devices = 1 + (uint32_t)r % 6;
		p.shape.slices = p.devices + (uint32_t)(r >> 8) % 50;
		p.shape.columns = 4 * (1 + (uint32_t)(r >> 16) % 500);
		p.iterations = 1 + (uint32_t)(r >> 32) % 12;
		machine_at(r, p.devices, &desc);
		for (size_t k = 0; solver_managers[k]; k++) {
			struct solver_params one = p;
			double s, bound;

			one.devices = solver_managers[k]->one_device ? 1 : p.devices;
			s = pass_s(&desc, solver_managers[k], &one);
			bound = bound_under(&desc, solver_managers[k], &one);
			if (!(s >= bound * (1 - 1e-12)))
				fail_msg("%llu: %s on %u: %.9g s, bound %.9g",
					 (unsigned long long)i, solver_managers[k]->name,
					 one.devices, s, bound);
		}
	}
}

/* That it is not far below: by hand, with kernels, links and messages the slowest in turn. */
static void test_bound_is_near(void **state)
{
	const struct {
		uint32_t slices, columns;
		double link_bytes_per_s;
		uint64_t latency_ns;
	} cases[] = {{800, 64, 20e9, 1000}, {40, 1024, 1e9, 10}, {40, 64, 20e9, 100000}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct weir_machine_desc desc;
		struct solver_params p = usual;
		double s, bound;

		p.shape.slices = cases[i].slices;
		p.shape.columns = cases[i].columns;
		p.iterations = 50;
		test_machine(&desc);
		desc.link[2].a_to_b_bytes_per_s = cases[i].link_bytes_per_s;
		desc.link[2].b_to_a_bytes_per_s = cases[i].link_bytes_per_s;
		desc.link[2].duplex_bytes_per_s = cases[i].link_bytes_per_s;
		desc.link[2].latency_ns = cases[i].latency_ns;
		s = pass_s(&desc, &solver_manager_overlap, &p);
		bound = bound_under(&desc, &solver_manager_overlap, &p);
		print_message("case %zu: %.4f times the bound\n", i, s / bound);
		assert_true(s >= bound && s < 1.1 * bound);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound_kernels),
		cmocka_unit_test(test_bound_ports),
		cmocka_unit_test(test_bound_memories),
		cmocka_unit_test(test_bound_chain),
		cmocka_unit_test(test_bound_measured),
		cmocka_unit_test(test_bound_measured_faster),
		cmocka_unit_test(test_bound_measured_launches),
		cmocka_unit_test(test_bound_measured_rounds),
		cmocka_unit_test(test_bound_chain_brute),
		cmocka_unit_test(test_bound_holds),
		cmocka_unit_test(test_bound_is_near),
	};

	return cmocka_run_group_tests_name("solver_bound", tests, NULL, NULL);
}
