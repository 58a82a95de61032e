/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zerocopy: pinned host memory that kernels use in place, over the link. It holds whatever the host
 * holds and never moves a byte ahead of use, so every access pays for the link. Pooled as native
 * is: pinning memory is slow and would otherwise be all that this baseline shows. With near it is
 * another GPU's memory instead, up to its budget: what kernels that page from there are compared
 * with.
 */
#include <string.h>

#include "managers/plain.h"

static int zerocopy_create(const struct manager_config *config, struct manager **out)
{
	const bool near = config->options && strcmp(config->options, "near") == 0;

	return plain_pooled_create(&manager_zerocopy, config, near ? PLAIN_NEAR : PLAIN_HOST, out);
}

const struct manager_ops manager_zerocopy = {
	.name = "zerocopy",
	.help = "pinned host memory, used in place over the link; +near: another GPU's instead",
	.create = zerocopy_create,
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
