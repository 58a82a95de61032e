/* SPDX-License-Identifier: Apache-2.0 */
/* Noting what kernels read, and lists that are made of it: see model.h. */
#include <errno.h>

#include "tests/property/replica_random/model.h"

/* Words of a line. */
#define LINE (WEIR_TRACKED_LINE_BYTES / 8)

/* Whether an open bracket of a device names a part of a range through its window. */
static bool is_named(const struct model *m, uint32_t range, uint32_t device)
{
	for (uint32_t s = 0; s < m->nr_streams; s++) {
		const struct bracket *b = &m->bracket[s];

		for (uint32_t i = 0; b->open && m->device[s] == device && i < b->nr; i++)
			if (b->part[i].range == range && b->part[i].window)
				return true;
	}
	return false;
}

static void start(struct model *m, uint32_t range, uint32_t device)
{
	struct model_range *r = &m->range[range];
	struct weir_tracked tracked;
	int err = weir_tracking_start(m->t.space, r->addr, device, &tracked);

	trace("tracking of device %u of range %u: %d\n", device, range, err);
	do_check(&m->t);
	if (!(r->devices >> device & 1))
		assert_int_equal(err, -EINVAL);
	else if (r->tracking[device])
		assert_int_equal(err, -EEXIST);
	else
		assert_true(!err || err == -ENOMEM);
	if (err)
		return;
	r->tracking[device] = true;
	r->tracked[device] = tracked;
	memset(r->noted[device], 0, sizeof(r->noted[device]));
}

/* The list of a device is all elements of the lines that it read. */
static void take_list(struct model_range *r, uint32_t device)
{
	uint32_t element_words = MAX(r->element_bytes / 8, 1);
	uint32_t end = r->nr_words / element_words * element_words; /* of the last whole element */
	bool *listed = r->listed[device];

	memset(listed, 0, sizeof(r->listed[device]));
	r->has_list[device] = false;
	for (uint32_t w = 0; w < r->nr_words; w++)
		for (uint32_t l = w - w % LINE;
		     r->noted[device][w] && l < MIN(w - w % LINE + LINE, end); l++)
			r->has_list[device] = listed[l] = true;
}

static void stop(struct model *m, uint32_t range, uint32_t device)
{
	struct model_range *r = &m->range[range];
	int err = weir_tracking_stop(m->t.space, r->addr, device);

	trace("end of tracking of device %u of range %u: %d\n", device, range, err);
	do_check(&m->t);
	if (!(r->devices >> device & 1) || !r->tracking[device])
		assert_int_equal(err, -EINVAL);
	else if (is_named(m, range, device))
		assert_int_equal(err, -EBUSY);
	else
		assert_true(!err || err == -ENOMEM);
	if (err)
		return;
	r->tracking[device] = false;
	take_list(r, device);
	model_total.nr_tracked += r->has_list[device];
}

/* Brackets of a device, which end. */
static void use_device(struct model *m, uint32_t device)
{
	for (uint32_t n = 2 * m->nr_streams; n-- > 0;)
		op_stream(m);
	for (uint32_t s = 0; s < m->nr_streams; s++)
		if (m->bracket[s].open && m->device[s] == device && !one_in(m, 8))
			end_bracket(m, s);
}

/* A live range, mostly one that has windows; -1: there is none. */
static int pick_range(struct model *m)
{
	int range = pick_live(m);

	for (uint32_t n = 0; n < 4 && range >= 0 && !m->range[range].devices; n++)
		range = pick_live(m);
	return range;
}

void op_track(struct model *m)
{
	uint32_t device = below(m, m->nr_devices);
	int range = pick_range(m);

	if (range < 0)
		return;
	/* Mostly one that has a window. */
	for (uint32_t n = 0; n < m->nr_devices && !one_in(m, 8); n++)
		if (!(m->range[range].devices >> device & 1))
			device = (device + 1) % m->nr_devices;
	if (m->range[range].tracking[device] == !one_in(m, 8))
		stop(m, (uint32_t)range, device);
	else
		start(m, (uint32_t)range, device);
	if (!m->range[range].tracking[device] || one_in(m, 3))
		return;
	use_device(m, device);
	stop(m, (uint32_t)range, device);
}
