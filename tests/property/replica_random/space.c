/* SPDX-License-Identifier: Apache-2.0 */
/* The machine and the space of a random program: see model.h. */
#include <stdlib.h>

#include "src/replica/replica.h"
#include "tests/property/replica_random/model.h"

/* Of what a device's brackets may name, in percent. */
static const uint32_t percents[] = {100, 100, 60, 30};

void open_space(struct model *m)
{
	static const uint32_t granules[] = {1, 2, 4, 3}; /* in a block */
	static const uint32_t devices[TEST_STREAMS];
	static const uint32_t nr_devices[] = {2, 2, 2, 3, 3, 4, 5, 8, 16};
	struct weir_space_config config = {.mode = WEIR_PLANNED};
	uint32_t percent = percents[below(m, ARRAY_LEN(percents))];
	uint64_t all;

	m->forced = below(m, WEIR_REPLICA_MECHANISM_NR + 2) % (WEIR_REPLICA_MECHANISM_NR + 1);
	m->packet_granules = below(m, 3);
	m->arrange_soon = !one_in(m, 3);
	m->nr_devices = nr_devices[below(m, ARRAY_LEN(nr_devices))];
	test_machine_open_gpus(&m->t, WEIR_DATA_REAL, m->nr_devices, devices);
	m->nr_devices = MIN(m->nr_devices, m->t.desc.nr_devices);
	model_ordered = m->t.nr_wrong_cuda != NULL;
	m->nr_streams = m->nr_devices + below(m, 5);
	for (uint32_t s = 0; s < m->nr_streams; s++) {
		m->device[s] = s < m->nr_devices ? s : below(m, m->nr_devices);
		assert_int_equal(weir_stream_create(m->t.machine, m->device[s], &m->stream[s]), 0);
	}
	config.devices = (UINT64_C(1) << m->nr_devices) - 1;
	config.block_bytes =
		m->t.desc.vmm.granularity_bytes * granules[below(m, ARRAY_LEN(granules))];
	/* All ranges of middling size in windows; and arenas. */
	all = NR_RANGES * (4ull * WORDS_MAX / config.block_bytes + 1) + 2;
	for (uint32_t d = 0; d < m->nr_devices; d++)
		m->budget[1 + d] = MAX(3, all * percent / 100);
	/* In some the host has too little. */
	m->ample = !one_in(m, 6);
	m->budget[HOST] = m->ample ? 6 * all : 4 + below(m, (uint32_t)all);
	for (uint32_t memory = 0; memory <= m->nr_devices; memory++)
		config.budget_bytes[memory] = m->budget[memory] * config.block_bytes;
	trace("%u devices, %u streams, blocks of %llu, %u %%, host %llu blocks\n", m->nr_devices,
	      m->nr_streams, (unsigned long long)config.block_bytes, percent,
	      (unsigned long long)m->budget[HOST]);
	assert_int_equal(test_space_create_config(&m->t, &config), 0);
	model_total.nr_devices[m->nr_devices]++;
}

static void count(const struct model *m)
{
	const struct replicas *rs = replicas_of(m->t.space);

	if (!rs)
		return;
	for (int k = 0; k < WEIR_MESSAGE_KIND_NR; k++)
		model_total.nr_messages += rs->stats.nr_messages[k];
	model_total.nr_exchanged += rs->stats.nr_exchanged;
	model_total.nr_published += rs->stats.nr_messages[WEIR_PUBLISHED];
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		model_total.nr_sent[how] += rs->stats.nr_sent[how];
	for (uint32_t n = 0; n < rs->nr_replicas; n++) {
		const struct replica *r = rs->replica[n];

		if (!r)
			continue;
		model_total.nr_borrowed += r->nr_borrowed;
		/* No bracket is open. */
		assert_int_equal(r->nr_reserved, 0);
		for (uint32_t d = 0; d < m->nr_devices; d++)
			assert_true(!r->window[d] || !r->window[d]->pins);
	}
	model_total.nr_host_copies += phys_held(&rs->memory[space_host(m->t.space)].client) != 0;
}

void close_space(struct model *m)
{
	end_all(m);
	for (uint32_t i = 0; i < NR_RANGES; i++)
		if (m->range[i].live)
			check_range(m, i);
	count(m);
	if (!one_in(m, 4))
		sync_all(m);
	do_check(&m->t);
	weir_space_destroy(m->t.space);
	for (uint32_t s = 0; s < m->nr_streams; s++)
		weir_stream_destroy(m->stream[s]);
	test_machine_close(&m->t);
}
