/* SPDX-License-Identifier: Apache-2.0 */
/*
 * That the right bytes arrive. Each word is made of its position and of the run's number, so that
 * what another piece or an earlier run left behind differs. The host's span of the way in is what
 * contents come from, and that of the way out where all of them are looked at; the target's own
 * lane carries what a run is not about.
 */
#include <errno.h>
#include <stdio.h>

#include "bench/relay/relay.h"

static uint64_t word_of(uint64_t at, uint64_t salt)
{
	return (at + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ salt << 1;
}

static void fill(const struct span *span, uint64_t salt)
{
	const uint64_t nr = span->chunk_bytes / sizeof(uint64_t);

	for (uint32_t c = 0; c < span->nr; c++) {
		uint64_t *word = span->chunk[c].alias;

		for (uint64_t i = 0; i < nr; i++)
			word[i] = word_of(c * nr + i, salt);
	}
}

static int compare(const struct span *span, uint64_t salt, const char *what)
{
	const uint64_t nr = span->chunk_bytes / sizeof(uint64_t), nr_all = span->nr * nr;
	uint64_t nr_wrong = 0, first = 0;

	for (uint32_t c = 0; c < span->nr; c++) {
		const uint64_t *word = span->chunk[c].alias;

		for (uint64_t i = 0; i < nr; i++) {
			if (word[i] == word_of(c * nr + i, salt))
				continue;
			if (!nr_wrong++)
				first = (c * nr + i) * sizeof(uint64_t);
		}
	}
	if (!nr_wrong)
		return 0;
	fprintf(stderr, "bench_relay: %s: %llu of %llu words are wrong, the first at byte %llu\n",
		what, (unsigned long long)nr_wrong, (unsigned long long)nr_all,
		(unsigned long long)first);
	return -EBADMSG;
}

/* Two ways at once have different contents. */
static uint64_t salt_of(uint64_t salt, enum way way)
{
	return salt << 1 | (way == WAY_OUT);
}

int check_begin(struct relay *r, const struct relay_run *run, uint64_t salt)
{
	int err = 0;

	if (run->way[WAY_OUT]) {
		fill(&r->far[WAY_IN], salt_of(salt, WAY_OUT));
		err = relay_copy_span(r, r->lane[WAY_IN][0].into, &r->near[WAY_OUT],
				      &r->far[WAY_IN]);
	}
	if (!err && run->way[WAY_IN])
		fill(&r->far[WAY_IN], salt_of(salt, WAY_IN));
	return err;
}

int check_end(struct relay *r, const struct relay_run *run, uint64_t salt)
{
	int err = 0;

	if (run->way[WAY_OUT])
		err = compare(&r->far[WAY_OUT], salt_of(salt, WAY_OUT), "out of the first GPU");
	if (err || !run->way[WAY_IN])
		return err;
	err = relay_copy_span(r, r->lane[WAY_OUT][0].from, &r->far[WAY_OUT], &r->near[WAY_IN]);
	return err ? err : compare(&r->far[WAY_OUT], salt_of(salt, WAY_IN), "into the first GPU");
}
