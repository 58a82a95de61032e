/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels truly use, and how long they compute; see epoch.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/guessed/epoch.h"
#include "src/base/util.h"

/* The GCN's: its edges, those of a slice, and rows of 256 features and of 10 classes, of floats. */
#define EDGES UINT64_C(105000000)
#define SLICE_EDGES UINT64_C(2000000)
#define NR_SLICES ((uint32_t)((EDGES + SLICE_EDGES - 1) / SLICE_EDGES))
#define LONG_ROW 1024u
#define SHORT_ROW 40u
#define NODE_BYTES 8u	/* an edge's in its list of nodes */
#define WEIGHT_BYTES 4u /* and in that of weights */

/* Messages of more bytes have long rows: a slice of short ones has 80 MB. */
#define SHORT_SLICE_MAX UINT64_C(100000000)

/* Ranges from this size on are tensors of all nodes; smaller ones are gradients, parameters, sums
 * and lists, which their kernels are taken to read and write. */
#define LARGE_BYTES UINT64_C(30000000)

/* Launches that are parts of one operation have no more than so many events between them. */
#define PARTS_WITHIN 30u

/* By the names of PyTorch 2.11's kernels; times as measured on one H200 with everything in its
 * memory (docs/results.md, "Unmodified programs"). Gathers and scalings were measured with long
 * rows and scatters with short ones; rows of the other length take as long by the byte. The last
 * class is that of all other kernels, which take no longer than their memory does. */
static const struct kernel_class classes[] = {
	{.part = "vectorized_gather",
	 .nr_uses = 3,
	 .messages = 0,
	 .rows = 1,
	 .edge_bytes = NODE_BYTES,
	 .slice_s = {1.6e-3 * SHORT_ROW / LONG_ROW, 1.6e-3}},
	{.part = "indexFuncLargeIndex",
	 .nr_uses = 3,
	 .messages = 1,
	 .rows = 0,
	 .adds = true,
	 .edge_bytes = NODE_BYTES,
	 .slice_s = {0.195e-3, 3.2e-3}},
	{.part = "_scatter_gather_elementwise",
	 .nr_uses = 3,
	 .messages = 1,
	 .rows = 2,
	 .edge_bytes = NODE_BYTES,
	 .slice_s = {0.112e-3, 0.112e-3 * LONG_ROW / SHORT_ROW}},
	{.part = "elementwise_kernelILi128ELi2",
	 .other_part = "MulFunctor",
	 .nr_uses = 3,
	 .messages = 0,
	 .rows = USE_NONE,
	 .edge_bytes = WEIGHT_BYTES,
	 .slice_s = {1.5e-3 * SHORT_ROW / LONG_ROW, 1.5e-3}},
	{.part = "FillFunctor", .fills = true},
	{.part = "Memset", .fills = true},
	{.part = "DtoH", .waits = true},
	{.part = ""},
};

const struct kernel_class *kernel_class_find(const char *name)
{
	const struct kernel_class *c = classes;

	while (!strstr(name, c->part) || (c->other_part && !strstr(name, c->other_part)))
		c++;
	return c;
}

/* Whether what a launch names as number u is the list of edges. */
static bool is_edges(const struct epoch_step *s, uint32_t u)
{
	return s->class->edge_bytes && s->use[u].bytes == EDGES * s->class->edge_bytes;
}

bool kernel_is_strange(const struct epoch_step *step, const char *name, char *why, size_t why_bytes)
{
	uint32_t nr_lists = 0;

	if (!step->class->edge_bytes)
		return false;
	for (uint32_t u = 0; u < step->nr_uses; u++)
		nr_lists += is_edges(step, u);
	if (step->nr_uses >= step->class->nr_uses && nr_lists)
		return false;
	(void)snprintf(why, why_bytes,
		       "kernel '%.100s' does not name %" PRIu32 " ranges, one of them of %" PRIu64
		       " bytes: what it uses is known of PyTorch's GCN of 5M nodes alone",
		       name, step->class->nr_uses, EDGES * step->class->edge_bytes);
	return true;
}

void kernel_find_slice(struct epoch_step *step, uint32_t *slice, uint64_t *life)
{
	const struct kernel_class *c = step->class;

	if (c->edge_bytes && c->rows != USE_NONE && !c->adds) {
		const uint64_t rows = step->use[c->rows].life;

		*slice = rows == *life ? (*slice + 1) % NR_SLICES : 0;
		*life = rows;
	}
	step->slice = *slice;
}

/* ------------------------------------------------------------------ parts */

static bool has_large(const struct epoch_step *s)
{
	bool large = false;

	for (uint32_t u = 0; u < s->nr_uses; u++)
		large |= s->use[u].bytes >= LARGE_BYTES;
	return large;
}

/* Whether a launch may be the next part of the first one's operation. What each part has for
 * itself is a new range of the same size. */
static bool goes_on(const struct epoch_step *s, const struct epoch_step *first)
{
	bool same = s->what == EPOCH_LAUNCH && !s->nr_parts && s->kernel == first->kernel &&
		    s->nr_uses == first->nr_uses;

	for (uint32_t u = 0; same && u < s->nr_uses; u++)
		same = s->use[u].life == first->use[u].life ||
		       (s->use[u].fresh && s->use[u].bytes == first->use[u].bytes);
	return same;
}

static void find_parts_of(struct epoch *epoch, uint32_t first)
{
	struct epoch_step *s = &epoch->step[first];
	const uint32_t within = has_large(s) && !s->class->waits ? PARTS_WITHIN : 1;
	const uint32_t end = MIN(epoch->nr_steps, first + within);
	uint32_t part[PARTS_WITHIN], nr = 0;

	part[nr++] = first;
	for (uint32_t i = first + 1; i < end; i++) {
		const struct epoch_step *next = &epoch->step[i];

		if (goes_on(next, s))
			part[nr++] = i;
		else if (next->what == EPOCH_LAUNCH && next->launched)
			break;
	}
	for (uint32_t u = 0; nr > 1 && u < s->nr_uses; u++)
		s->use[u].own = s->use[u].life != epoch->step[part[1]].use[u].life;
	for (uint32_t n = 0; n < nr; n++) {
		struct epoch_step *o = &epoch->step[part[n]];

		o->part = n;
		o->nr_parts = nr;
		/* A range that is new to the operation is written, part by part. */
		for (uint32_t u = 0; u < o->nr_uses; u++) {
			o->use[u].fresh = s->use[u].fresh;
			o->use[u].own = s->use[u].own;
		}
	}
}

void kernels_find_parts(struct epoch *epoch)
{
	for (uint32_t i = 0; i < epoch->nr_steps; i++) {
		struct epoch_step *s = &epoch->step[i];

		if (s->what != EPOCH_LAUNCH || s->nr_parts)
			continue;
		if (s->class->edge_bytes)
			s->nr_parts = 1;
		else
			find_parts_of(epoch, i);
	}
}

/* ------------------------------------------------------------------ uses */

static uint64_t message_bytes(const struct epoch_step *s)
{
	return s->use[s->class->messages].bytes;
}

static bool has_long_rows(const struct epoch_step *s)
{
	return message_bytes(s) > SHORT_SLICE_MAX;
}

static void use_part(struct weir_use *use, uint64_t from, uint64_t bytes)
{
	use->addr = (char *)use->addr + from;
	use->bytes = use->read_bytes = bytes;
}

struct weir_use kernel_true_use(const struct epoch_step *step, uint32_t u, void *addr)
{
	const struct kernel_class *c = step->class;
	const struct epoch_use *k = &step->use[u];
	struct weir_use use = {.addr = (char *)addr + k->offset,
			       .bytes = k->bytes,
			       .kind = WEIR_READ,
			       .read_bytes = k->bytes};

	if (is_edges(step, u)) {
		const uint64_t slice = SLICE_EDGES * c->edge_bytes;

		use_part(&use, step->slice * slice, MIN(slice, k->bytes - step->slice * slice));
		return use;
	}
	if (c->edge_bytes && u == c->rows) {
		use.pattern = WEIR_RANDOM;
		use.granule = has_long_rows(step) ? LONG_ROW : SHORT_ROW;
		use.kind = c->adds ? WEIR_WRITE : WEIR_READ;
		use.read_bytes = message_bytes(step);
		use.write_bytes = c->adds ? use.read_bytes : 0;
		return use;
	}
	if (step->nr_parts > 1 && !k->own && k->bytes >= LARGE_BYTES) {
		/* In whole KiB; the last one has the rest. */
		const uint64_t part = k->bytes / step->nr_parts & ~UINT64_C(1023);
		const uint64_t from = step->part * part;

		use_part(&use, from, step->part + 1 == step->nr_parts ? k->bytes - from : part);
	}
	if (c->fills || k->fresh) {
		use.kind = WEIR_WRITE;
		use.write_bytes = use.read_bytes;
		use.read_bytes = 0;
	} else if (k->bytes < LARGE_BYTES && !c->waits) {
		use.kind = WEIR_WRITE;
		use.write_bytes = use.read_bytes;
	}
	return use;
}

double kernel_seconds(const struct epoch_step *step)
{
	const struct kernel_class *c = step->class;
	bool is_long;

	if (!c->edge_bytes)
		return 0;
	is_long = has_long_rows(step);
	return c->slice_s[is_long] * (double)message_bytes(step) /
	       (double)(SLICE_EDGES * (is_long ? LONG_ROW : SHORT_ROW));
}
