/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli, reflected): by the CPU's instruction where it has one, since a frame is
 * summed up while a program waits; else by a table of bytes. */
#include <pthread.h>
#include <string.h>

#include "src/trace/format.h"

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[256];

static void table_fill(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[i] = crc;
	}
}

static uint32_t crc_by_table(uint32_t crc, const unsigned char *data, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, table_fill);
	for (size_t i = 0; i < bytes; i++)
		crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_by_cpu(uint32_t before, const unsigned char *data, size_t bytes)
{
	uint64_t crc = before, word;
	uint32_t half;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), data += sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	if (bytes < sizeof(half))
		return (uint32_t)crc;
	memcpy(&half, data, sizeof(half));
	return __builtin_ia32_crc32si((uint32_t)crc, half);
}

static int cpu_has_crc(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
#define crc_by_cpu crc_by_table

static int cpu_has_crc(void)
{
	return 0;
}
#endif

uint32_t trace_crc(uint32_t before, const void *data, size_t bytes)
{
	return ~(cpu_has_crc() ? crc_by_cpu(~before, data, bytes)
			       : crc_by_table(~before, data, bytes));
}
