/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native: pooled GPU memory, the way training frameworks hold it. As fast as memory that fits can
 * be, and out of memory as soon as it does not.
 *
 * What counts against the budget, and for the peak that is reported, are the pool's segments, in
 * use or kept for reuse: what the GPU has given away. An allocation that would take them past the
 * budget is out of memory, once nothing kept is left to give back.
 */
#include "managers/plain.h"

static int native_create(const struct manager_config *config, struct manager **out)
{
	return plain_pooled_create(&manager_native, config, PLAIN_OWN, out);
}

const struct manager_ops manager_native = {
	.name = "native",
	.help = "pooled GPU memory; out of memory when it does not fit",
	.create = native_create,
	.destroy = plain_pooled_destroy,
	.alloc = plain_pooled_alloc,
	.free = plain_pooled_free,
	.stream = plain_stream,
	.launch = plain_launch,
	.write = plain_write,
	.read = plain_read,
	.sync = plain_sync,
	.stats = plain_stats,
	.check = plain_pooled_check,
};
