/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a pool's file: refused with a reason, or accepted, and then all that is printed of
 * it ends, can be printed, and names what there is. What an input lacks of the file's size is zero,
 * so that short ones get far.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/mem/mem_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int truth)
{
	if (!truth)
		abort();
}

static void check_text(const char *text, size_t bytes)
{
	check(memchr(text, '\0', bytes) != NULL);
	for (; *text; text++)
		check(*text >= ' ' && *text <= '~');
}

static void check_file(const struct mem_file *file)
{
	const struct mem_file_header *header = &file->header;

	check(header->nr_memories <= WEIR_MEMORIES_MAX && header->nr_devices <= WEIR_DEVICES_MAX);
	check(header->seq % 2 == 0);
	check_text(header->pool, sizeof(header->pool));
	for (uint32_t m = 0; m < header->nr_memories; m++)
		check_text(header->memory[m].name, sizeof(header->memory[m].name));
	for (uint32_t d = 0; d < header->nr_devices; d++)
		check_text(header->device[d], sizeof(header->device[d]));
	for (uint32_t i = 0; i < MEM_FILE_RECORDS; i++) {
		const struct mem_file_record *record = &file->record[i];

		check_text(record->owner, sizeof(record->owner));
		check_text(record->source, sizeof(record->source));
		check(!record->bytes ||
		      (record->memory < header->nr_memories && record->choice < WEIR_CHOICE_NR));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct mem_file *out = malloc(sizeof(*out)), *whole = calloc(1, sizeof(*whole));
	char why[128] = "";
	int err;

	check(out && whole);
	/* As it is, in a block of just its size. */
	if (bytes) {
		uint8_t *copy = malloc(bytes);

		check(copy != NULL);
		memcpy(copy, data, bytes);
		err = mem_file_parse(copy, bytes, 1, out, why, sizeof(why));
		check(bytes >= sizeof(struct mem_file_header) || err == -EINVAL);
		free(copy);
	}
	memcpy(whole, data, bytes < sizeof(*whole) ? bytes : sizeof(*whole));
	why[0] = '\0';
	err = mem_file_parse(whole, sizeof(*whole), 1, out, why, sizeof(why));
	check(!err || err == -EAGAIN || (err == -EINVAL && why[0]));
	if (!err)
		check_file(out);
	free(out);
	free(whole);
	return 0;
}
