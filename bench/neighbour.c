/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a neighbour that works pays for lending its memory, predicted on a simulated machine; stage
 * work of bench/gpu/many measures it. Device 0 trains the GCN under the manager "weir+near" in
 * memory of device 1; device 1 trains a smaller one under "native", by itself first, and then while
 * device 0 trains.
 *
 * There is one thread, since virtual time has one clock for all that the host does. So the second
 * training waits for nothing: it queues its epochs at once, where an epoch of the first one begins,
 * and device 1 works through them while that one goes on. What counts is how long device 1 is busy
 * with them; "covered" says that it was done before the first training was.
 *
 * Usage: bench_neighbour [MACHINE [NODES [BESIDE [BUDGET [NEAR [RATE]]]]]]: millions of nodes of
 * both trainings, GB of device 0's budget and of what device 1 lends, GB/s that may cross the link
 * (0: no limit). One JSON object: seconds of virtual time that an epoch takes; "ratio" is that of
 * the second training beside the first over by itself, "slower" that of the first one with the
 * second one and the limit over without either. Exit status 1: something failed, or was not
 * covered; 2: bad input.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/result.h"
#include "machine/machine_file.h"
#include "managers/manager.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/gcn/gcn.h"

#define EPOCHS 12u
#define AT_EPOCH 7u /* plans have settled */
#define BESIDE_EPOCHS 20u

static struct {
	double nodes, beside, budget_gb, near_gb, rate_gb;
} asked = {20, 3, 33.67, 94, 0};

static struct weir_machine_desc desc;
static char why[512];

static int open_machine(struct weir_machine **out)
{
	int err = weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, out);

	if (err)
		(void)snprintf(why, sizeof(why), "machine '%s': %s", desc.name, weir_strerror(err));
	return err;
}

static int open_manager(const char *name, const struct manager_config *config, struct manager **out)
{
	int err = manager_create(name, config, out);

	if (err)
		(void)snprintf(why, sizeof(why), "manager '%s': %s", name, weir_strerror(err));
	return err;
}

/* ------------------------------------------------------------------ the second training */

struct beside {
	struct weir_machine *machine;
	struct manager *m;		/* its operations do not wait: ops are these, */
	const struct manager_ops *real; /* but for two */
	struct manager_ops ops;
	double epoch_s; /* so far */
};

static int wait_for_nothing(struct manager *m)
{
	(void)m;
	return 0;
}

/* A phantom machine has no bytes. */
static int read_nothing(struct manager *m, void *buffer, const void *addr, uint64_t bytes)
{
	(void)m;
	(void)buffer;
	(void)addr;
	(void)bytes;
	return 0;
}

/* beside_close() it, also when this fails. */
static int beside_open(struct weir_machine *machine, struct beside *out)
{
	const struct manager_config config = {.machine = machine, .device = 1, .options = ""};
	int err;

	*out = (struct beside){.machine = machine};
	err = open_manager("native", &config, &out->m);
	if (err)
		return err;
	out->real = out->m->ops;
	out->ops = *out->real;
	out->ops.sync = wait_for_nothing;
	out->ops.read = read_nothing;
	out->m->ops = &out->ops;
	return 0;
}

static void beside_close(struct beside *b)
{
	if (b->m)
		b->real->destroy(b->m);
}

static int beside_queue(struct beside *b)
{
	const struct gcn_params p = {.nodes = (uint64_t)(asked.beside * 1e6),
				     .epochs = BESIDE_EPOCHS,
				     .seed = GCN_SEED_DEFAULT};
	struct workload_result r = {0};
	int err = gcn_run(b->m, &p, &r, why, sizeof(why));

	gcn_result_free(&r);
	return err;
}

/* For how long device 1 has run kernels. */
static int beside_time(struct beside *b)
{
	struct backend *backend = machine_backend(b->machine);
	uint64_t ns[BACKEND_TIME_NR];
	int err = backend->observe->device_times(backend, 1, ns);

	if (err)
		(void)snprintf(why, sizeof(why), "times of device 1: %s", weir_strerror(err));
	else
		b->epoch_s = (double)(ns[BACKEND_TIME_COMPUTE] + ns[BACKEND_TIME_IN_PLACE]) / 1e9 /
			     BESIDE_EPOCHS;
	return err;
}

/* The same when all that is queued has run. */
static int beside_finish(struct beside *b)
{
	int err = b->real->sync(b->m);

	return err ? err : beside_time(b);
}

static int train_alone(double *epoch_s)
{
	struct weir_machine *machine;
	struct beside b;
	int err = open_machine(&machine);

	if (err)
		return err;
	err = beside_open(machine, &b);
	if (!err)
		err = beside_queue(&b);
	if (!err)
		err = beside_finish(&b);
	*epoch_s = b.epoch_s;
	beside_close(&b);
	weir_machine_close(machine);
	return err;
}

/* ------------------------------------------------------------------ the first training */

/* What is to run in it, and where it is. */
struct lent {
	struct beside *beside;
	bool begun;
};

static int listen(void *arg, uint32_t done, uint32_t total)
{
	struct lent *lent = arg;

	if (!lent->begun && done == AT_EPOCH) {
		lent->begun = true;
		return beside_queue(lent->beside);
	}
	return done == total ? beside_time(lent->beside) : 0;
}

/* beside: the second training; NULL: there is none. */
static int train_lent(struct weir_machine *machine, double rate, struct beside *beside,
		      double *epoch_s)
{
	struct lent lent = {beside, false};
	const struct gcn_params p = {.nodes = (uint64_t)(asked.nodes * 1e6),
				     .epochs = EPOCHS,
				     .seed = GCN_SEED_DEFAULT,
				     .progress = beside ? listen : NULL,
				     .progress_arg = &lent};
	struct manager_config config = {.machine = machine,
					.gpu_budget_bytes = (uint64_t)(asked.budget_gb * 1e9),
					.near_bytes_per_s = rate,
					.options = ""};
	struct workload_result r = {0};
	struct manager *m;
	int err;

	config.near_bytes[desc.device[1].memory] = (uint64_t)(asked.near_gb * 1e9);
	err = open_manager("weir+near", &config, &m);
	if (err)
		return err;
	err = gcn_run(m, &p, &r, why, sizeof(why));
	m->ops->destroy(m);
	if (!err)
		*epoch_s = result_median(r.epoch_s + AT_EPOCH, EPOCHS - AT_EPOCH);
	gcn_result_free(&r);
	return err;
}

static int train_free(double *epoch_s)
{
	struct weir_machine *machine;
	int err = open_machine(&machine);

	if (err)
		return err;
	err = train_lent(machine, 0, NULL, epoch_s);
	weir_machine_close(machine);
	return err;
}

/* covered: the second training was done when the first one was. */
static int train_both(double *beside_s, double *lent_s, bool *covered)
{
	struct weir_machine *machine;
	struct beside b;
	int err = open_machine(&machine);

	if (err)
		return err;
	err = beside_open(machine, &b);
	if (!err)
		err = train_lent(machine, asked.rate_gb * 1e9, &b, lent_s);
	*beside_s = b.epoch_s;
	if (!err)
		err = beside_finish(&b);
	*covered = b.epoch_s == *beside_s;
	beside_close(&b);
	weir_machine_close(machine);
	return err;
}

/* ------------------------------------------------------------------ */

static bool number(int argc, char **argv, int i, double least, double *out)
{
	char *end;

	if (argc <= i)
		return true;
	*out = strtod(argv[i], &end);
	if (!*end && end != argv[i] && *out >= least && *out < 1e6)
		return true;
	fprintf(stderr, "bench_neighbour: '%s': it takes a number, %g at the least\n", argv[i],
		least);
	return false;
}

static bool read_input(int argc, char **argv)
{
	if (weir_machine_file_read(argc > 1 ? argv[1] : "h200x2", &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_neighbour: %s\n", why);
		return false;
	}
	if (desc.nr_devices < 2 ||
	    cost_link_find(&desc, desc.device[0].memory, desc.device[1].memory) < 0) {
		fprintf(stderr,
			"bench_neighbour: machine '%s': its first two GPUs have no link, or it has "
			"but one\n",
			desc.name);
		return false;
	}
	return number(argc, argv, 2, 0.001, &asked.nodes) &&
	       number(argc, argv, 3, 0.001, &asked.beside) &&
	       number(argc, argv, 4, 0.001, &asked.budget_gb) &&
	       number(argc, argv, 5, 0.001, &asked.near_gb) &&
	       number(argc, argv, 6, 0, &asked.rate_gb);
}

int main(int argc, char **argv)
{
	double alone_s = 0, free_s = 0, beside_s = 0, lent_s = 0;
	bool covered = false;
	int err;

	if (!read_input(argc, argv))
		return 2;
	err = train_alone(&alone_s);
	if (!err)
		err = train_free(&free_s);
	if (!err)
		err = train_both(&beside_s, &lent_s, &covered);
	if (err) {
		fprintf(stderr, "bench_neighbour: %s\n", why[0] ? why : weir_strerror(err));
		return 1;
	}
	printf("{\"machine\":\"%s\",\"nodes\":%.0f,\"beside\":%.0f,\"rate_bytes_per_s\":%.0f,"
	       "\"alone_s\":%.4f,\"beside_s\":%.4f,\"ratio\":%.4f,\"free_s\":%.4f,\"lent_s\":%.4f,"
	       "\"slower\":%.4f,\"covered\":%s}\n",
	       desc.name, asked.nodes * 1e6, asked.beside * 1e6, asked.rate_gb * 1e9, alone_s,
	       beside_s, beside_s / alone_s, free_s, lent_s, lent_s / free_s,
	       covered ? "true" : "false");
	return covered ? 0 : 1;
}
