/* SPDX-License-Identifier: Apache-2.0 */
/* The other calls of the random programs, wrong ones among them: see model.h. */
#include <errno.h>
#include <stdlib.h>

#include "src/replica/replica.h"
#include "tests/property/replica_random/model.h"

/* ------------------------------------------------------------------ ranges */

void op_alloc(struct model *m)
{
	/* Half of a granule and less are pieces of arenas, where blocks are larger. */
	uint32_t nr_words = one_in(m, 3) ? 8 + below(m, 200) : 1 + below(m, WORDS_MAX);
	struct model_range *range = NULL;
	void *addr;
	int err;

	for (uint32_t i = 0; i < NR_RANGES && !range; i++)
		if (!m->range[i].live && !m->range[i].nr_names)
			range = &m->range[i];
	if (!range)
		return;
	err = weir_alloc(m->t.space, 8ull * nr_words, NULL, &addr);
	trace("alloc range %u of %u words: %d\n", (uint32_t)(range - m->range), nr_words, err);
	do_check(&m->t);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_true(may_be_full(m));
		return;
	}
	memset(range, 0, sizeof(*range));
	range->live = true;
	range->addr = addr;
	range->nr_words = nr_words;
}

static void op_free(struct model *m)
{
	int i = pick_live(m);

	if (i < 0)
		return;
	trace("free range %d, named by %u\n", i, m->range[i].nr_names);
	assert_int_equal(weir_free(m->t.space, m->range[i].addr, NULL), 0);
	do_check(&m->t);
	model_total.nr_frees_open += m->range[i].nr_names != 0;
	m->range[i].live = m->range[i].replicated = false;
	memset(m->range[i].tracking, 0, sizeof(m->range[i].tracking));
}

/* Host brackets are open by blocks, which arenas share. */
static bool is_busy(const struct model *m, int err)
{
	return err == -EBUSY && m->bracket[HOST_BRACKET].open;
}

/* Words here and there, in runs; *nr: of their elements. An element of 16 bytes has two words. */
static void pick_list(struct model *m, struct model_range *range, uint32_t device,
		      uint32_t *element, uint64_t *nr)
{
	bool *listed = range->listed[device];
	uint32_t words = range->element_bytes / 8, nr_runs = 1 + below(m, 20);

	memset(listed, 0, sizeof(range->listed[device]));
	for (uint32_t k = 0; k < nr_runs; k++) {
		uint32_t first = below(m, range->nr_words), most = one_in(m, 3) ? 200 : 4;

		for (uint32_t w = first + below(m, most) + 1; w-- > first;)
			if (w < range->nr_words)
				listed[w] = true;
	}
	*nr = 0;
	for (uint32_t e = 0; words && e < range->nr_words / words; e++) {
		bool any = listed[e * words] || listed[(e + 1) * words - 1];

		listed[e * words] = listed[(e + 1) * words - 1] = any;
		if (any)
			element[(*nr)++] = e;
	}
	for (uint32_t e = 0; !words && e < range->nr_words * 8 / range->element_bytes; e++)
		if (listed[e * range->element_bytes / 8])
			element[(*nr)++] = e;
	/* Half an element at the end is none. */
	if (words == 2 && range->nr_words % 2)
		listed[range->nr_words - 1] = false;
}

static void give_list(struct model *m, struct model_range *range, uint32_t device)
{
	static uint32_t element[8 * WORDS_MAX];
	static bool before[WORDS_MAX];
	uint64_t nr = 0;
	int err;

	memcpy(before, range->listed[device], sizeof(before));
	if (range->replicated && !one_in(m, 5))
		pick_list(m, range, device, element, &nr);
	err = weir_subscribe_elements(m->t.space, range->addr, element, nr, device);
	trace("list of device %u of range %u: %llu elements of %u bytes: %d\n", device,
	      (uint32_t)(range - m->range), (unsigned long long)nr, range->element_bytes, err);
	do_check(&m->t);
	if (!(range->devices >> device & 1))
		assert_int_equal(err, -EINVAL);
	else
		assert_true(!err || err == -ENOMEM);
	if (err)
		memcpy(range->listed[device], before, sizeof(before));
	else
		range->has_list[device] = nr > 0;
}

static void op_replicate(struct model *m)
{
	uint64_t all = (UINT64_C(1) << m->nr_devices) - 1;
	static const uint32_t element_bytes[] = {1, 2, 4, 8, 16, 8, 8};
	struct weir_replica_params params = {
		.element_bytes = element_bytes[below(m, ARRAY_LEN(element_bytes))]};
	bool usual = one_in(m, 3);
	int err, i = pick_live(m);
	struct model_range *range = &m->range[i < 0 ? 0 : i];

	if (i < 0)
		return;
	params.subscription = (enum weir_subscription)below(m, WEIR_SUBSCRIBE_NONE + 1);
	params.devices = one_in(m, 2) ? 0 : 1 + (below(m, (uint32_t)MIN(all, 0x7fffffff)) & all);
	err = weir_replicate(m->t.space, range->addr, usual ? NULL : &params);
	trace("replicate range %d: %d\n", i, err);
	do_check(&m->t);
	if (range->replicated)
		assert_int_equal(err, -EEXIST);
	else if (range->nr_names)
		assert_int_equal(err, -EBUSY);
	else
		assert_true(!err || is_busy(m, err) || (err == -ENOMEM && may_be_full(m)));
	if (err)
		return;
	range->replicated = true;
	range->element_bytes = usual ? 4 : params.element_bytes;
	memset(range->has_list, 0, sizeof(range->has_list));
	replicas_of(m->t.space)->forced = m->forced;
	replicas_of(m->t.space)->arrange_soon = m->arrange_soon;
	if (m->packet_granules)
		replicas_of(m->t.space)->packet_bytes =
			m->packet_granules * replicas_of(m->t.space)->granule_bytes;
	for (uint32_t d = 0; d < m->nr_devices; d++) {
		void *window;

		if (!weir_replica(m->t.space, range->addr, d, &window))
			range->devices |= UINT64_C(1) << d;
	}
	assert_true(range->devices);
	for (uint32_t d = 0; d < m->nr_devices; d++)
		if (range->devices >> d & 1 && one_in(m, 3))
			give_list(m, range, d);
}

/* Hints: who is sent what is written. */
static void op_subscribe(struct model *m)
{
	uint32_t device = below(m, m->nr_devices);
	bool end = one_in(m, 2);
	int err, i = pick_live(m);
	struct part part;

	if (i < 0)
		return;
	part = pick_part(m, (uint32_t)i, device);
	err = end ? weir_unsubscribe(m->t.space, part.addr, 8ull * part.nr, device)
		  : weir_subscribe(m->t.space, part.addr, 8ull * part.nr, device);
	trace("%s device %u to words %u+%u of range %d: %d\n", end ? "unsubscribe" : "subscribe",
	      device, part.first, part.nr, i, err);
	do_check(&m->t);
	if (!(m->range[i].devices >> device & 1))
		assert_int_equal(err, -EINVAL);
	else
		assert_true(!err || err == (end ? -EBUSY : -ENOMEM));
}

static void op_unreplicate(struct model *m)
{
	int err, i = pick_live(m);
	struct model_range *range = &m->range[i < 0 ? 0 : i];

	if (i < 0)
		return;
	err = weir_unreplicate(m->t.space, range->addr);
	trace("unreplicate range %d: %d\n", i, err);
	do_check(&m->t);
	if (!range->replicated)
		assert_int_equal(err, -EINVAL);
	else if (range->nr_names)
		assert_int_equal(err, -EBUSY);
	else
		assert_true(!err || (err == -ENOMEM && may_be_full(m)) || is_busy(m, err));
	if (err)
		return;
	range->replicated = false;
	range->devices = 0;
	memset(range->has_list, 0, sizeof(range->has_list));
	memset(range->tracking, 0, sizeof(range->tracking));
	model_total.nr_back++;
}

/* ------------------------------------------------------------------ copies by the host */

static void op_copy(struct model *m)
{
	static uint64_t words[WORDS_MAX];
	bool write = one_in(m, 2);
	int err, other, i = pick_live(m);
	struct part part;

	if (i < 0)
		return;
	part = pick_part(m, (uint32_t)i, below(m, m->nr_devices + 1));
	part.kind = write ? WEIR_OVERWRITE : WEIR_READ;
	if (write) {
		pattern_put(words, word_addr(&m->range[i], part.first), 8ull * part.nr,
			    ++m->last_seed);
		err = weir_write(m->t.space, part.addr, words, 8ull * part.nr);
	} else {
		err = weir_read(m->t.space, words, part.addr, 8ull * part.nr);
	}
	trace("%s range %d, words %u+%u: %d\n", write ? "write" : "read", i, part.first, part.nr,
	      err);
	do_check(&m->t);
	part.window = false; /* as others meet it */
	part.addr = word_addr(&m->range[i], part.first);
	other = find_contradiction(m, &part, 1);
	if (err) {
		/* By blocks, which arenas share. */
		assert_true(err == -EBUSY || (err == -ENOMEM && may_be_full(m)));
		if (err == -EBUSY)
			assert_true(m->t.space->nr_open);
		else if (write)
			memset(&m->range[i].seed[part.first], 0, part.nr * sizeof(uint32_t));
		return;
	}
	assert_int_equal(other, -1);
	for (uint32_t w = part.first; w < part.first + part.nr; w++)
		if (write)
			m->range[i].seed[w] = m->last_seed;
	/* A bracket that only discards some of it may be open: its end says that it is lost. */
	if (!write)
		cpu_part(m, m->range[i].seed, &part, words);
}

/* All of a range, by each address that it has. */
void check_range(struct model *m, uint32_t i)
{
	static uint64_t words[WORDS_MAX];
	struct part part = {.range = i, .nr = m->range[i].nr_words, .kind = WEIR_READ};

	for (uint32_t d = 0; d < m->nr_devices; d++) {
		struct bracket *b = &m->bracket[d];
		void *window = m->range[i].addr;

		if (m->range[i].devices >> d & 1)
			assert_int_equal(weir_replica(m->t.space, window, d, &window), 0);
		part.addr = window;
		part.window = window != m->range[i].addr;
		b->uses[0] = use_of(window, 8ull * part.nr, WEIR_READ);
		b->ends = true;
		b->nr = 1;
		b->part[0] = part;
		if (weir_begin(m->t.space, m->stream[d], b->uses, 1)) {
			assert_false(m->ample);
			continue;
		}
		memcpy(b->seed[i], m->range[i].seed, sizeof(b->seed[i]));
		m->range[i].nr_names++;
		launch_part(m, d, &part);
		end_bracket(m, d);
	}
	part.addr = m->range[i].addr;
	if (!weir_read(m->t.space, words, part.addr, 8ull * part.nr))
		cpu_part(m, m->range[i].seed, &part, words);
	else
		assert_false(m->ample);
}

/* ------------------------------------------------------------------ budgets and wrong calls */

static void op_budget(struct model *m)
{
	uint32_t memory = 1 + below(m, m->nr_devices);
	uint64_t blocks = 2 + below(m, (uint32_t)m->budget[memory] + 4);
	int err = weir_space_set_budget(m->t.space, memory, blocks * m->t.block_bytes);

	trace("budget of memory %u: %llu blocks: %d\n", memory, (unsigned long long)blocks, err);
	do_check(&m->t);
	assert_true(!err || err == -EBUSY || err == -ENOMEM || err == -EINVAL);
	m->ample &= blocks >= m->budget[memory];
	if (!err)
		m->budget[memory] = MAX(m->budget[memory], blocks);
}

/* The same bytes at the one copy and through a window, in one bracket; another device's window. */
static void op_wrong(struct model *m)
{
	uint32_t stream = below(m, m->nr_streams), device = m->device[stream];
	int i = pick_live(m), expected = -EINVAL;
	const struct model_range *range = &m->range[i < 0 ? 0 : i];
	uint64_t others = range->devices & ~(UINT64_C(1) << device);
	struct weir_use uses[2];
	void *window;

	if (i < 0 || !range->devices)
		return;
	if (m->bracket[stream].open)
		expected = -WEIR_ECONTRACT;
	uses[0] = use_of(range->addr, 8, WEIR_READ);
	uses[1] = uses[0];
	if (others && one_in(m, 2)) {
		device = (uint32_t)__builtin_ctzll(others);
		assert_int_equal(weir_replica(m->t.space, range->addr, device, &window), 0);
		uses[0].addr = uses[1].addr = window;
	} else if (range->devices >> device & 1) {
		assert_int_equal(weir_replica(m->t.space, range->addr, device, &window), 0);
		uses[1].addr = window;
	} else {
		assert_int_equal(weir_replica(m->t.space, range->addr, device, &window), -EINVAL);
		return;
	}
	if (m->bracket[HOST_BRACKET].open)
		return;
	trace("wrong begin, range %d\n", i);
	assert_int_equal(weir_begin(m->t.space, m->stream[stream], uses, 2), expected);
	do_check(&m->t);
}

void some_call(struct model *m)
{
	int i;

	switch (below(m, 20)) {
	case 0:
		op_free(m);
		break;
	case 1:
	case 2:
	case 9:
	case 10:
		op_replicate(m);
		break;
	case 3:
	case 16:
		op_unreplicate(m);
		break;
	case 11:
	case 12:
	case 13:
		op_subscribe(m);
		break;
	case 15:
		i = pick_live(m);
		if (i >= 0)
			give_list(m, &m->range[i], below(m, m->nr_devices));
		break;
	case 4:
	case 5:
		op_copy(m);
		break;
	case 6:
		op_host_bracket(m);
		break;
	case 7:
		op_budget(m);
		break;
	case 8:
		op_wrong(m);
		break;
	case 17:
	case 18:
	case 19:
		op_track(m);
		break;
	default:
		sync_all(m);
	}
}
