/* SPDX-License-Identifier: Apache-2.0 */
/* Generated graphs on a GPU: the edges and weights that the CPU draws, bit for bit. */
#include "tests/gpu/base.cuh"
#include "workloads/graph/gen.h"

#define NR (1u << 20)

struct drawn {
	struct gen_pair edge;
	uint64_t weight;
};

__host__ __device__ static struct drawn draw(const struct gen *gen, uint64_t i)
{
	struct drawn drawn;

	drawn.edge = gen_edge(gen, i);
	drawn.weight = gen_weight(gen->key, drawn.edge.u, drawn.edge.v);
	return drawn;
}

__global__ void draw_all(struct gen gen, uint64_t first, struct drawn *out)
{
	uint64_t i = blockIdx.x * 256ull + threadIdx.x;

	if (i < NR)
		out[i] = draw(&gen, first + i);
}

/* Whether edges first to first + NR - 1 are the same. */
static bool same(enum gen_kind kind, uint32_t scale, uint64_t first, struct drawn *gpu,
		 struct drawn *cpu)
{
	const struct gen gen = gen_init(kind, scale, scale + first);

	fill_now(gpu, 0x7f, NR * sizeof(*gpu));
	draw_all<<<NR / 256, 256, 0, stream>>>(gen, first, gpu);
	check(cudaGetLastError(), "draw_all");
	check(cudaStreamSynchronize(stream), "draw_all");
	copy_now(cpu, gpu, NR * sizeof(*gpu), "download");
	for (uint64_t i = 0; i < NR; i++) {
		struct drawn drawn = draw(&gen, first + i);

		if (drawn.edge.u != cpu[i].edge.u || drawn.edge.v != cpu[i].edge.v ||
		    drawn.weight != cpu[i].weight)
			return false;
	}
	return true;
}

int main(void)
{
	static const uint32_t scales[] = {0, 1, 9, 20, 32, 33, GEN_SCALE_MAX};
	static const uint64_t firsts[] = {0, UINT64_C(1) << 45};
	struct drawn *gpu, *cpu = (struct drawn *)malloc(NR * sizeof(*cpu));
	unsigned int nr_failed = 0;

	if (!cpu)
		die("memory", "not to be had");
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	check(cudaMalloc((void **)&gpu, NR * sizeof(*gpu)), "cudaMalloc");
	for (int kind = 0; kind < 2; kind++) {
		for (uint32_t scale : scales) {
			for (uint64_t first : firsts) {
				bool ok = same((enum gen_kind)kind, scale, first, gpu, cpu);

				printf("%s - kind %d, scale %u, from edge %llu\n",
				       ok ? "ok" : "not ok", kind, scale,
				       (unsigned long long)first);
				nr_failed += !ok;
			}
		}
	}
	check(cudaFree(gpu), "cudaFree");
	free(cpu);
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
