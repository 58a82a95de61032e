/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph whose classes are planted, written as a graph directory: nodes of a class are joined
 * more often than others, and prefer features of their class. Every ninth node trains, a third is
 * for the test.
 */
#ifndef WEIR_TEST_GCN_PLANTED_H
#define WEIR_TEST_GCN_PLANTED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLANTED_DIR_BYTES 64
#define PLANTED_CLASSES 4u
#define PLANTED_FEATURES 64u
#define PLANTED_NODE_FEATURES 5u
#define PLANTED_NODE_EDGES 4u

/* xorshift: independent of the generator under test. */
static inline uint32_t planted_below(uint64_t *state, uint32_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 32) * n >> 32);
}

static inline int planted_nodes(const char *path, uint32_t nr_nodes, uint64_t *state)
{
	static const char *const others[] = {"-", "test", "val"};
	const uint32_t own = PLANTED_FEATURES / PLANTED_CLASSES;
	FILE *f = fopen(path, "w");

	if (!f)
		return -1;
	fprintf(f, "# planted: %u nodes; %u features, %u classes\n", nr_nodes, PLANTED_FEATURES,
		PLANTED_CLASSES);
	for (uint32_t i = 0; i < nr_nodes; i++) {
		const char *split = others[i % 3];
		uint32_t class = i % PLANTED_CLASSES;
		uint32_t seen[PLANTED_FEATURES] = {0};

		if (i % 9 == 0)
			split = "train";
		fprintf(f, "%s %u %u", split, class, PLANTED_NODE_FEATURES);
		for (uint32_t nr = 0; nr < PLANTED_NODE_FEATURES;) {
			/* Two in five are of the node's class, the rest are noise. */
			uint32_t feature = planted_below(state, 5) < 2
						   ? class * own + planted_below(state, own)
						   : planted_below(state, PLANTED_FEATURES);

			if (seen[feature]++)
				continue;
			fprintf(f, " %u", feature);
			nr++;
		}
		fprintf(f, "\n");
	}
	return fclose(f);
}

/* Four in five edges of a node stay within its class. */
static inline int planted_edges(const char *path, uint32_t nr_nodes, uint64_t *state)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return -1;
	fprintf(f, "# planted\n");
	for (uint32_t i = 0; i < nr_nodes; i++) {
		for (uint32_t k = 0; k < PLANTED_NODE_EDGES; k++) {
			uint32_t other = planted_below(state, nr_nodes);

			if (planted_below(state, 5) < 4)
				other = other / PLANTED_CLASSES * PLANTED_CLASSES +
					i % PLANTED_CLASSES;
			fprintf(f, "%u %u\n", i, other < nr_nodes ? other : i);
		}
	}
	return fclose(f);
}

/* The directory to be removed when a test that failed did not: the last one made. */
static inline char *planted_left(void)
{
	static char dir[PLANTED_DIR_BYTES];

	return dir;
}

static inline void planted_remove(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/nodes.txt", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/edges.txt", dir);
	unlink(path);
	rmdir(dir);
}

static inline void planted_clean(void)
{
	planted_remove(planted_left());
}

/* Write a graph into a fresh directory; dir: PLANTED_DIR_BYTES, receives its name. */
static inline int planted_create(char *dir, uint32_t nr_nodes, uint64_t seed)
{
	uint64_t state = seed * 2 + 1;
	char path[128];

	snprintf(dir, PLANTED_DIR_BYTES, "/tmp/weir-planted-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	if (!*planted_left())
		atexit(planted_clean);
	snprintf(planted_left(), PLANTED_DIR_BYTES, "%s", dir);
	snprintf(path, sizeof(path), "%s/nodes.txt", dir);
	if (planted_nodes(path, nr_nodes, &state))
		return -1;
	snprintf(path, sizeof(path), "%s/edges.txt", dir);
	return planted_edges(path, nr_nodes, &state);
}

#endif
