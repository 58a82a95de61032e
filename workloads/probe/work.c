/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring kernels as launches: arguments, and what each of them touches and how. */
#include "workloads/probe/internal.h"

#include "src/base/util.h"

static uint64_t *sum_of(const struct probe *p)
{
	return (uint64_t *)(void *)p->plug.addr;
}

/* The launch, when arguments and uses are set. */
static void work_finish(struct probe_work *w, const struct weir_kernel *kernel, size_t args_bytes,
			uint32_t nr_uses)
{
	w->launch = (struct weir_launch){.kernel = kernel,
					 .args = &w->args,
					 .args_bytes = args_bytes,
					 .uses = w->use,
					 .nr_uses = nr_uses};
	w->bytes = 0;
	for (uint32_t i = 0; i < nr_uses; i++)
		w->bytes += (double)(w->use[i].read_bytes + w->use[i].write_bytes);
}

static struct weir_use stream_use(void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){.addr = addr,
				 .bytes = bytes,
				 .kind = kind,
				 .read_bytes = kind == WEIR_OVERWRITE ? 0 : bytes,
				 .write_bytes = kind == WEIR_READ ? 0 : bytes};
}

void probe_work_empty(struct probe_work *w)
{
	w->args.empty = (struct probe_empty_args){0};
	work_finish(w, &probe_kernel_empty, sizeof(w->args.empty), 0);
}

void probe_work_read_into(struct probe_work *w, uint64_t *sum, void *in, uint64_t bytes,
			  uint64_t passes)
{
	w->args.read = (struct probe_read_args){in, sum, bytes, passes};
	w->use[0] = stream_use(in, bytes, WEIR_READ);
	w->use[0].read_bytes *= passes;
	w->use[1] = stream_use(sum, sizeof(*sum), WEIR_WRITE);
	work_finish(w, &probe_kernel_read, sizeof(w->args.read), 2);
}

void probe_work_read(const struct probe *p, struct probe_work *w, void *in, uint64_t bytes,
		     uint64_t passes)
{
	probe_work_read_into(w, sum_of(p), in, bytes, passes);
}

void probe_work_write(struct probe_work *w, void *out, uint64_t bytes, uint64_t value)
{
	w->args.write = (struct probe_write_args){out, bytes, value};
	w->use[0] = stream_use(out, bytes, WEIR_OVERWRITE);
	work_finish(w, &probe_kernel_write, sizeof(w->args.write), 1);
}

void probe_work_copy(struct probe_work *w, void *in, void *out, uint64_t bytes)
{
	w->args.copy = (struct probe_copy_args){in, out, bytes};
	w->use[0] = stream_use(in, bytes, WEIR_READ);
	w->use[1] = stream_use(out, bytes, WEIR_OVERWRITE);
	work_finish(w, &probe_kernel_copy, sizeof(w->args.copy), 2);
}

/* Pieces of a footprint, and what reading, or writing too, does with them. */
static struct probe_pieces pieces_of(struct probe *p, struct weir_use *use, void *addr,
				     uint64_t footprint, uint32_t piece, uint32_t most,
				     enum weir_use_kind kind)
{
	uint64_t all = footprint / piece, nr = MIN(all, most);

	*use = stream_use(addr, nr * piece, kind);
	use->bytes = footprint;
	use->pattern = WEIR_RANDOM;
	use->granule = piece;
	/* Far from the one before, or launches that take few pieces would all take the same. */
	p->salt += UINT32_C(0x9e3779b1);
	return probe_pieces_of(piece, (uint32_t)all, (uint32_t)nr, p->salt);
}

void probe_work_gather(struct probe *p, struct probe_work *w, void *in, uint64_t footprint,
		       uint32_t piece, uint32_t most)
{
	w->args.gather = (struct probe_gather_args){
		in, sum_of(p), pieces_of(p, &w->use[0], in, footprint, piece, most, WEIR_READ)};
	w->use[1] = stream_use(sum_of(p), sizeof(uint64_t), WEIR_WRITE);
	work_finish(w, &probe_kernel_gather, sizeof(w->args.gather), 2);
}

void probe_work_update(struct probe *p, struct probe_work *w, void *data, uint64_t footprint,
		       uint32_t piece, uint32_t most)
{
	w->args.update = (struct probe_update_args){
		data, pieces_of(p, &w->use[0], data, footprint, piece, most, WEIR_WRITE)};
	work_finish(w, &probe_kernel_update, sizeof(w->args.update), 1);
}

void probe_work_add(struct probe *p, struct probe_work *w, void *data, uint64_t footprint,
		    uint32_t piece, uint32_t most)
{
	w->args.add = (struct probe_add_args){
		data, pieces_of(p, &w->use[0], data, footprint, piece, most, WEIR_WRITE)};
	work_finish(w, &probe_kernel_add, sizeof(w->args.add), 1);
}

uint32_t probe_work_mixed(struct probe *p, struct probe_work *w, void *far, uint64_t footprint,
			  const struct probe_buffer *near, const struct probe_buffer *out,
			  uint32_t piece, uint32_t most)
{
	uint64_t rounds =
		MIN(MIN(most, footprint / piece) / PROBE_MIXED_FAR,
		    MIN(near->bytes / piece / PROBE_MIXED_NEAR, out->bytes / piece / PROBE_MIXED));
	uint32_t nr = (uint32_t)rounds * PROBE_MIXED_FAR;

	if (!nr)
		return 0;
	w->args.mixed = (struct probe_mixed_args){
		.far = far,
		.near = near->addr,
		.out = out->addr,
		.far_pieces = pieces_of(p, &w->use[0], far, footprint, piece, nr, WEIR_READ),
		.near_pieces = pieces_of(p, &w->use[1], near->addr, near->bytes, piece,
					 (uint32_t)rounds * PROBE_MIXED_NEAR, WEIR_READ),
	};
	w->use[2] = stream_use(out->addr, rounds * PROBE_MIXED * piece, WEIR_OVERWRITE);
	work_finish(w, &probe_kernel_mixed, sizeof(w->args.mixed), 3);
	return nr;
}

void probe_work_list(struct probe_work *w, uint32_t *list, uint32_t nr, uint32_t step)
{
	w->args.list = (struct probe_list_args){list, nr, step};
	w->use[0] = stream_use(list, nr * sizeof(*list), WEIR_OVERWRITE);
	work_finish(w, &probe_kernel_list, sizeof(w->args.list), 1);
}
