/* SPDX-License-Identifier: Apache-2.0 */
/* American flag sort (McIlroy, Bostic, McIlroy, 1993): by the upper digits first, in place. */
#include "workloads/graph/sort.h"

#define DIGIT_BITS 8u
#define DIGITS (1u << DIGIT_BITS)
/* Fewer are sorted by insertion. */
#define FEW 48u

static void sort_few(uint64_t *word, uint64_t nr)
{
	for (uint64_t i = 1; i < nr; i++) {
		uint64_t moved = word[i], k = i;

		for (; k && word[k - 1] > moved; k--)
			word[k] = word[k - 1];
		word[k] = moved;
	}
}

static unsigned int digit(uint64_t word, unsigned int shift)
{
	return (unsigned int)(word >> shift) & (DIGITS - 1);
}

/* Sort words that differ in the digit at shift and below alone. */
static void sort_digits(uint64_t *word, uint64_t nr, unsigned int shift)
{
	uint64_t end[DIGITS] = {0}, next[DIGITS], sum = 0;

	if (nr <= FEW) {
		sort_few(word, nr);
		return;
	}
	for (uint64_t i = 0; i < nr; i++)
		end[digit(word[i], shift)]++;
	for (unsigned int d = 0; d < DIGITS; d++) {
		next[d] = sum;
		sum += end[d];
		end[d] = sum;
	}
	for (unsigned int d = 0; d < DIGITS; d++) {
		while (next[d] < end[d]) {
			uint64_t moved = word[next[d]];
			unsigned int to = digit(moved, shift);

			word[next[d]] = word[next[to]];
			word[next[to]++] = moved;
		}
	}
	for (unsigned int d = 0; shift && d < DIGITS; d++) {
		uint64_t begin = d ? end[d - 1] : 0;

		if (end[d] - begin > 1)
			sort_digits(word + begin, end[d] - begin, shift - DIGIT_BITS);
	}
}

void sort_words(uint64_t *word, uint64_t nr)
{
	uint64_t differ = 0;
	unsigned int shift = 0;

	for (uint64_t i = 1; i < nr; i++)
		differ |= word[i] ^ word[0];
	while (differ >> shift >> DIGIT_BITS)
		shift += DIGIT_BITS;
	if (differ)
		sort_digits(word, nr, shift);
}
