/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From times to constants: pure functions, on numbers alone. What the constants mean stands in
 * src/cost/cost.h and src/backend/sim/sim.h. Times are nanoseconds and above 0.
 */
#ifndef WEIR_PROBE_FIT_H
#define WEIR_PROBE_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define FIT_SAMPLES_MAX 64u

/* Repetitions of one measurement. Begin with zero; what is beyond the maximum is dropped. */
struct fit_series {
	uint32_t nr;
	double value[FIT_SAMPLES_MAX];
};

void fit_add(struct fit_series *series, double value);

/* To five digits: there is more noise than that. */
double fit_digits(double value);

/* Of a series that is not empty. */
double fit_median(const struct fit_series *series);
double fit_min(const struct fit_series *series);
double fit_max(const struct fit_series *series);

/* So much of something took so long. */
struct fit_point {
	double amount, ns;
};

/* A line through points (two or more, of different amounts), by least squares of relative errors,
 * so that the small ones count as much as the large ones: ns = fixed + each * amount. Neither is
 * below 0. */
void fit_line(const struct fit_point *points, uint32_t nr, double *fixed_ns, double *each_ns);

/* Bytes a second, from a transfer and a larger one: what both take besides their bytes does not
 * count. Where the larger one was not slower, its own quotient. */
double fit_rate(struct fit_point less, struct fit_point more);

/*
 * What a copy takes besides its bytes. singles: copies one after the other, each one piece; batch:
 * one copy of nr_pieces > 1, as its bytes in all.
 *
 * A single takes latency + piece + its bytes: the median of the singles counts. A batch takes
 * latency + nr_pieces * piece + its bytes. Neither is below 0.
 */
void fit_overhead(const struct fit_point *singles, uint32_t nr, struct fit_point batch,
		  uint32_t nr_pieces, double bytes_per_s, double *latency_ns, double *piece_ns);

/*
 * Bytes a second each way while both ways are busy, on average of the two, from transfers both ways
 * at once (less and larger ones, as for fit_rate()). The way that was done first has left the other
 * its own rate for the rest.
 */
double fit_duplex(const struct fit_point less[2], const struct fit_point more[2],
		  const double alone_bytes_per_s[2]);

/* From a fence of one of two devices to what waits for it on the other: half of each round of two
 * streams that wait for each other. */
void fit_events(const struct fit_series *rounds_ns, struct fit_series *out);

/*
 * Where translation begins to hold random access back: the first footprint from which on the rate
 * is clearly below that with the first one, which is limited by what is the same for all of them.
 * @return the index; nr where that is nowhere. nr > 0.
 */
uint32_t fit_first_miss(const double *per_s, uint32_t nr);

/*
 * From rates of accesses with footprints (two or more, different ones) at which translation is what
 * holds them back: misses a second, and how much memory translation reaches,
 *   1 / rate = (1 - reach / footprint) / misses
 * by least squares of relative errors. False: noise has left no such line.
 */
bool fit_misses(const uint64_t *footprint, const double *per_s, uint32_t nr, double *misses_per_s,
		double *reach_bytes);

/*
 * Bytes of one access: what pieces of many bytes bring within reach, divided by the rate of
 * accesses. Empty: the streaming rate is what limits them, so that nobody can tell.
 */
void fit_request(const struct fit_series *pieces_per_s, uint32_t bytes, double accesses_per_s,
		 double streaming_bytes_per_s, struct fit_series *out);

#endif
