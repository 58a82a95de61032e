/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests: the kernel's blocks write their parts of a result to host memory, where the host adds
 * them up. So the kernel needs no memory of the device's and no order among its blocks.
 */
#include <errno.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/backend/cuda/digest_args.h"
#include "src/base/log.h"

/* Coefficients of a tile: two of each lane. */
#define TILE_COEFFICIENTS ((uint64_t)DIGEST_LANES * DIGEST_PASSES)

int cuda_digest_prepare(struct backend *b, uint32_t device)
{
	struct cuda *cuda = cuda_of(b);
	int err = device < b->desc.nr_devices ? cuda_device_enter(cuda, device) : -EINVAL;

	if (err)
		return err;
	err = cuda_digests_load(cuda, device);
	cuda_leave(cuda);
	return err;
}

/* ------------------------------------------------------------------ tickets */

/* A device's place for a result; -EBUSY: all are taken. */
static int place_get(struct cuda *cuda, struct cuda_digests *digests, uint32_t *out)
{
	uint32_t place = 0;

	pthread_mutex_lock(&cuda->lock);
	while (place < BACKEND_DIGESTS_MAX && digests->taken[place])
		place++;
	if (place < BACKEND_DIGESTS_MAX)
		digests->taken[place] = true;
	pthread_mutex_unlock(&cuda->lock);
	*out = place;
	return place < BACKEND_DIGESTS_MAX ? 0 : -EBUSY;
}

/* @return whether it was taken. */
static bool place_put(struct cuda *cuda, struct cuda_digests *digests, uint32_t place)
{
	bool taken;

	pthread_mutex_lock(&cuda->lock);
	taken = digests->taken[place];
	digests->taken[place] = false;
	pthread_mutex_unlock(&cuda->lock);
	return taken;
}

/* ------------------------------------------------------------------ queueing */

/* What the kernel cannot compute as fast as the host. */
static void args_fill(struct digest_args *args, const struct digest_key *key, const void *data,
		      uint64_t nr_tiles, digest_parts *parts)
{
	*args = (struct digest_args){
		.data = data, .part = *parts, .nr_tiles = nr_tiles, .key = *key};
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		uint64_t point = key->point[h];
		uint64_t weight = 1, power = digest_multiply_add(point, point, 0);

		for (uint32_t level = 0; level <= DIGEST_LEVELS; level++) {
			args->power[level][h] = power;
			power = digest_multiply_add(power, power, 0);
		}
		for (uint32_t block = DIGEST_BLOCKS; block--;) {
			uint64_t nr = digest_first_tile(nr_tiles, block + 1) -
				      digest_first_tile(nr_tiles, block);

			args->weight[block][h] = weight;
			weight = digest_multiply_add(
				weight, digest_power(point, nr * TILE_COEFFICIENTS), 0);
		}
		args->start[h] = weight;
	}
}

/* The context is current, and the kernel loaded. */
static int digest_queue(struct cuda *cuda, uint32_t device, cu_stream stream, const void *data,
			uint64_t bytes, uint32_t *ticket)
{
	struct cuda_digests *digests = &cuda->device[device].digests;
	digest_parts *parts = digests->parts;
	struct digest_args args;
	void *parameters[] = {&args};
	uint32_t place;
	int err = place_get(cuda, digests, &place);

	if (err)
		return err;
	memset(&parts[place], 0, sizeof(parts[place]));
	args_fill(&args, &cuda->digest_key, data, bytes / DIGEST_TILE_BYTES, &parts[place]);
	err = cuda_error(&cuda->driver,
			 cuda->driver.launch(digests->function, DIGEST_BLOCKS, 1, 1, DIGEST_THREADS,
					     1, 1, 0, stream, parameters, NULL),
			 "cuLaunchKernel");
	if (err)
		(void)place_put(cuda, digests, place);
	else
		*ticket = device * BACKEND_DIGESTS_MAX + place;
	return err;
}

/* Whether there is such a chunk, and the device has its alias. */
static int chunk_check(struct cuda *cuda, uint32_t device, const struct backend_chunk *chunk,
		       uint64_t bytes)
{
	const struct cuda_chunk *found;
	int err = backend_digest_check(&cuda->base, device, chunk, bytes);

	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	found = cuda_chunk_find(cuda, chunk);
	if (!found)
		err = -EINVAL;
	else if (!(found->devices & BACKEND_DEVICE_BIT(device)))
		err = -EACCES;
	pthread_mutex_unlock(&cuda->lock);
	if (err == -EACCES)
		log_error("cuda: a digest on a stream of %s of a chunk that has no alias for it",
			  cuda->base.desc.device[device].name);
	return err;
}

int cuda_digest(struct backend *b, stream_id_t id, const struct backend_chunk *chunk,
		uint64_t bytes, uint32_t *ticket)
{
	struct cuda *cuda = cuda_of(b);
	cu_stream stream;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &stream, &device);

	if (!err)
		err = chunk_check(cuda, device, chunk, bytes);
	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = cuda_digests_load(cuda, device);
	if (!err)
		err = digest_queue(cuda, device, stream, chunk->alias, bytes, ticket);
	cuda_leave(cuda);
	return err;
}

int cuda_digest_take(struct backend *b, uint32_t ticket, struct digest *out)
{
	struct cuda *cuda = cuda_of(b);
	uint32_t device = ticket / BACKEND_DIGESTS_MAX, place = ticket % BACKEND_DIGESTS_MAX;
	struct cuda_digests *digests = &cuda->device[device % WEIR_DEVICES_MAX].digests;
	struct digest sum = {{0}};
	bool taken;

	if (device >= b->desc.nr_devices)
		return -EINVAL;
	pthread_mutex_lock(&cuda->lock);
	taken = digests->taken[place];
	pthread_mutex_unlock(&cuda->lock);
	if (!taken)
		return -EINVAL;
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		const digest_parts *parts = digests->parts;

		/* Eight numbers of 61 bits are less than 2^64. */
		for (uint32_t block = 0; block < DIGEST_BLOCKS; block++)
			sum.half[h] += parts[place][block][h];
		sum.half[h] %= DIGEST_PRIME;
	}
	if (out)
		*out = sum;
	(void)place_put(cuda, digests, place);
	return 0;
}
