/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process; see bench_host.h. */
#include "cli/bench_host.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the heap has given out. */
static uint64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return (uint64_t)info.uordblks + (uint64_t)info.hblkhd;
}

/* The process's peak, as the system counts it; 0: it does not say. */
static uint64_t peak_rss_bytes(void)
{
	static const char key[] = "VmHWM:";
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t kib = 0;
	char line[256];

	if (!file)
		return 0;
	while (!kib && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtoull(line + strlen(key), NULL, 10);
	(void)fclose(file);
	return kib << 10;
}

void bench_host_start(struct bench_host *host)
{
	FILE *file = fopen("/proc/self/clear_refs", "we");

	*host = (struct bench_host){.before_bytes = heap_bytes()};
	if (file) {
		/* The peak of resident memory becomes what it is now. */
		(void)fputs("5", file);
		(void)fclose(file);
	}
}

void bench_host_look(struct bench_host *host)
{
	uint64_t heap = heap_bytes();

	host->bookkeeping_bytes = heap > host->before_bytes ? heap - host->before_bytes : 0;
	host->peak_rss_bytes = peak_rss_bytes();
}
