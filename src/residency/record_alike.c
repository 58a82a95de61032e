/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the uses of two events are alike: see record.h. */
#include "src/residency/record.h"

static bool same_use(const struct record_use *x, const struct record_use *y, record_same_fn same,
		     const void *arg)
{
	return x->offset == y->offset && x->bytes == y->bytes &&
	       x->nr_range_blocks == y->nr_range_blocks && x->kind == y->kind &&
	       same(arg, x->life, y->life);
}

bool record_uses_alike(const struct record *record, const struct event *a, const struct event *b,
		       record_same_fn same, const void *arg)
{
	const struct record_use *x = record_uses(record, a), *y = record_uses(record, b);
	const bool more = a->nr_uses > b->nr_uses; /* a has, perhaps, what b has not */
	uint32_t i = 0, k = 0;

	if (a->launched != b->launched || (!a->launched && a->nr_uses != b->nr_uses))
		return false;
	while (i < a->nr_uses && k < b->nr_uses) {
		const bool alike = same_use(&x[i], &y[k], same, arg);

		if (!alike && a->nr_uses == b->nr_uses)
			return false;
		i += alike || more;
		k += alike || !more;
	}
	return more ? k == b->nr_uses : i == a->nr_uses;
}
