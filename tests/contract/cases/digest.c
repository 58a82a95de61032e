/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of digests: of what, when they are equal, their order on streams, what is refused. */
#include "tests/contract/cases/cases.h"

/* Two chunks of the GPU, the first of them mapped at va, and one of the host. */
struct fixture {
	struct contract *c;
	void *va;
	struct backend_chunk gpu[2], host;
	unsigned char *data;
};

static void fixture_init(struct fixture *f, struct contract *c)
{
	struct backend *b = c->b;

	*f = (struct fixture){.c = c, .data = malloc(c->unit)};
	assert_non_null(f->data);
	for (uint64_t i = 0; i < c->unit; i++)
		f->data[i] = (unsigned char)(i * 7 + i / 256 * 11 + i / 65536 * 13);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &f->gpu[i]), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &f->host), 0);
	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, &f->va), 0);
	assert_int_equal(b->ops->map(b, f->va, &f->gpu[0], BACKEND_PROT_WRITE, 1), 0);
}

static void fixture_fini(struct fixture *f)
{
	struct backend *b = f->c->b;

	assert_int_equal(b->ops->unmap(b, f->va), 0);
	b->ops->va_release(b, f->va, f->c->unit);
	for (uint32_t i = 0; i < 2; i++)
		b->ops->chunk_destroy(b, &f->gpu[i]);
	b->ops->chunk_destroy(b, &f->host);
	free(f->data);
}

static void put(struct fixture *f)
{
	assert_int_equal(f->c->b->ops->upload(f->c->b, f->c->compute, f->va, data_of(f->c, f->data),
					      f->c->unit),
			 0);
}

static void copy(struct fixture *f, const struct backend_chunk *to,
		 const struct backend_chunk *from)
{
	const struct backend_copy copy = {to->alias, from->alias, f->c->unit};

	assert_int_equal(f->c->b->ops->copy(f->c->b, f->c->compute, &copy, 1), 0);
}

static struct digest digest_bytes(struct fixture *f, uint32_t chunk, uint64_t bytes)
{
	struct backend *b = f->c->b;
	struct digest digest;
	uint32_t ticket;

	assert_int_equal(b->ops->digest(b, f->c->compute, &f->gpu[chunk], bytes, &ticket), 0);
	contract_wait(b, f->c->compute);
	assert_int_equal(b->ops->digest_take(b, ticket, &digest), 0);
	return digest;
}

static struct digest digest_now(struct fixture *f, uint32_t chunk)
{
	return digest_bytes(f, chunk, f->c->unit);
}

/* Where there are bytes, the reference's, of as many tiles as a GPU's threads share evenly or not.
 */
void contract_digest_values(void **state)
{
	static const uint64_t nr_tiles[] = {1, 2, 7, 8, 9, 16, 17, 127, 128, 129, 255, 256, 257};
	struct contract *c = *state;
	struct digest last = {{0}};
	struct fixture f;

	fixture_init(&f, c);
	put(&f);
	for (size_t i = 0; i < sizeof(nr_tiles) / sizeof(nr_tiles[0]); i++) {
		uint64_t bytes = nr_tiles[i] * DIGEST_TILE_BYTES;
		struct digest digest;

		if (bytes > c->unit)
			break;
		digest = digest_bytes(&f, 0, bytes);
		assert_false(digest_equal(digest, last));
		last = digest;
		if (can(c, CAN_BYTES))
			assert_true(
				digest_equal(digest, digest_of(c->b->digest_key, f.data, bytes)));
	}
	if (can(c, CAN_BYTES))
		assert_true(digest_equal(digest_now(&f, 0),
					 digest_of(c->b->digest_key, f.data, c->unit)));
	fixture_fini(&f);
}

/* A kernel that writes gives another digest; a chunk that comes back has its own, wherever. */
void contract_digest_changes(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct digest first, second;
	struct fixture f;

	fixture_init(&f, c);
	put(&f);
	first = digest_now(&f, 0);
	assert_true(digest_equal(digest_now(&f, 0), first));
	copy(&f, &f.host, &f.gpu[0]);
	copy(&f, &f.gpu[1], &f.host);
	assert_true(digest_equal(digest_now(&f, 1), first));
	assert_int_equal(contract_add(b, c->compute, f.va, f.va, 1, 1), 0);
	second = digest_now(&f, 0);
	assert_false(digest_equal(second, first));
	/* Nobody has to be able to reach it, but by its alias. */
	assert_int_equal(b->ops->unmap(b, f.va), 0);
	assert_true(digest_equal(digest_now(&f, 0), second));
	copy(&f, &f.gpu[0], &f.host);
	assert_true(digest_equal(digest_now(&f, 0), first));
	assert_int_equal(b->ops->map(b, f.va, &f.gpu[0], BACKEND_PROT_WRITE, 1), 0);
	fixture_fini(&f);
}

/* It has its turn on its stream, and comes after what the stream waits for. */
void contract_digest_order(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct digest before, after;
	uint32_t ticket[2];
	struct fixture f;
	fence_t fence;

	fixture_init(&f, c);
	put(&f);
	/* The first digest loads a module, which may wait for what runs. */
	assert_int_equal(b->ops->digest_prepare(b, 0), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], c->unit, &ticket[0]), 0);
	assert_int_equal(contract_add(b, c->compute, f.va, f.va, c->unit, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, fence), 0);
	assert_int_equal(b->ops->digest(b, c->out, &f.gpu[0], c->unit, &ticket[1]), 0);
	contract_gate_open(c);
	contract_wait(b, c->out);
	assert_int_equal(b->ops->digest_take(b, ticket[0], &before), 0);
	assert_int_equal(b->ops->digest_take(b, ticket[1], &after), 0);
	assert_false(digest_equal(before, after));
	if (can(c, CAN_BYTES))
		assert_true(digest_equal(before, digest_of(b->digest_key, f.data, c->unit)));
	assert_true(digest_equal(digest_now(&f, 0), after));
	fixture_fini(&f);
}

/* What is refused, and how many there may be. */
void contract_digest_arguments(void **state)
{
	const uint64_t tile = DIGEST_TILE_BYTES;
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t ticket[BACKEND_DIGESTS_MAX], none = 77;
	struct backend_chunk gone;
	struct fixture f;

	fixture_init(&f, c);
	gone = f.gpu[0];
	gone.handle += 77;
	put(&f);
	assert_int_equal(b->ops->digest(b, c->compute, NULL, tile, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &gone, tile, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &f.host, tile, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], 0, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], tile - 1, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], c->unit + tile, &none), -EINVAL);
	assert_int_equal(b->ops->digest(b, 1234, &f.gpu[0], tile, &none), -EINVAL);
	assert_int_equal(b->ops->digest_take(b, 0, NULL), -EINVAL);
	assert_int_equal(b->ops->digest_take(b, UINT32_MAX, NULL), -EINVAL);
	assert_int_equal(b->ops->digest_prepare(b, b->desc.nr_devices), -EINVAL);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		assert_int_equal(b->ops->digest_prepare(b, d), 0);
	for (uint32_t i = 0; i < BACKEND_DIGESTS_MAX; i++)
		assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], tile, &ticket[i]), 0);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], tile, &none), -EBUSY);
	assert_int_equal(none, 77);
	contract_wait(b, c->compute);
	/* In any order, and each once. */
	assert_int_equal(b->ops->digest_take(b, ticket[7], NULL), 0);
	assert_int_equal(b->ops->digest_take(b, ticket[7], NULL), -EINVAL);
	assert_int_equal(b->ops->digest(b, c->compute, &f.gpu[0], tile, &ticket[7]), 0);
	contract_wait(b, c->compute);
	for (uint32_t i = 0; i < BACKEND_DIGESTS_MAX; i++)
		assert_int_equal(b->ops->digest_take(b, ticket[i], NULL), 0);
	fixture_fini(&f);
}

/* A neighbour takes none of what is not its own, and a device none without an alias. */
void contract_digest_devices(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk own, no_alias;
	stream_id_t other;
	uint32_t ticket;

	if (b->desc.nr_devices < 2)
		return;
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_OUT, &other), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, c->unit, 0, &own), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, c->unit, 1, &no_alias), 0);
	assert_int_equal(b->ops->digest(b, c->compute, &own, c->unit, &ticket), -EINVAL);
	assert_int_equal(b->ops->digest(b, other, &no_alias, c->unit, &ticket), -EACCES);
	assert_int_equal(b->ops->digest(b, other, &own, c->unit, &ticket), 0);
	contract_wait(b, other);
	assert_int_equal(b->ops->digest_take(b, ticket, NULL), 0);
	b->ops->chunk_destroy(b, &own);
	b->ops->chunk_destroy(b, &no_alias);
	b->ops->stream_destroy(b, other);
}
