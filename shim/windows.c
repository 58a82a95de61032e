/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h. */
#include "shim/windows.h"

#include <stdbool.h>
#include <stdlib.h>

#include "src/base/util.h"

/* Steps in a row from which a distance is believed, and contradictions after which it is not. */
#define AGREED_MIN 3u
#define MISSED_MAX 2u

struct windows *windows_create(void)
{
	struct windows *windows = calloc(1, sizeof(*windows));

	if (windows)
		(void)pthread_mutex_init(&windows->lock, NULL);
	return windows;
}

void windows_destroy(struct windows *windows)
{
	pthread_mutex_destroy(&windows->lock);
	free(windows);
}

/* Whether a window makes room before another one: what never moved on does first. */
static bool goes_before(const struct window *a, const struct window *b)
{
	const bool moves = a->agreed == AGREED_MIN, other_moves = b->agreed == AGREED_MIN;

	return moves == other_moves ? a->seen < b->seen : other_moves;
}

/* The window of a place and allocation; else a new one, in place of another. */
static struct window *find(struct windows *windows, uint64_t key)
{
	uint32_t oldest = 0;

	for (uint32_t w = 0; w < WINDOWS_MAX; w++)
		if (windows->key[w] == key)
			return &windows->window[w];
	for (uint32_t w = 1; w < WINDOWS_MAX; w++)
		if (goes_before(&windows->window[w], &windows->window[oldest]))
			oldest = w;
	windows->key[oldest] = key;
	windows->window[oldest] = (struct window){.at = UINT64_MAX};
	return &windows->window[oldest];
}

/* The pointer moved on by a distance. */
static void step(struct window *window, uint64_t distance)
{
	if (distance == window->distance) {
		window->agreed += window->agreed < AGREED_MIN;
		window->missed = 0;
		return;
	}
	/* A loop's last slice may be short. */
	window->missed++;
	if (window->agreed == AGREED_MIN && window->missed < MISSED_MAX)
		return;
	window->distance = distance;
	window->agreed = 1;
	window->missed = 0;
}

uint64_t windows_note(struct windows *windows, uint32_t place, uint64_t serial, uint64_t at,
		      uint64_t bytes)
{
	struct window *window;
	uint64_t distance = 0;

	pthread_mutex_lock(&windows->lock);
	window = find(windows, serial << 16 | place);
	window->seen = ++windows->nr;
	/* Where it does not move on, another loop begins, or the same part is used again. */
	if (at > window->at)
		step(window, at - window->at);
	window->at = at;
	if (window->agreed == AGREED_MIN && window->distance >= WINDOWS_BYTES_MIN &&
	    window->distance <= bytes / WINDOWS_IN_RANGE)
		distance = MIN(window->distance, bytes - at);
	pthread_mutex_unlock(&windows->lock);
	return distance;
}
