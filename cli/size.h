/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, counts, rates and durations as people write and read them. Parsing is exact (integers
 * throughout) and does not depend on the locale; formatting is for eyes, not for machines.
 */
#ifndef WEIR_CLI_SIZE_H
#define WEIR_CLI_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Enough for every text that the *_format functions below make. */
#define SIZE_TEXT_BYTES 32

/**
 * Parse a number of bytes: digits, optionally with a fraction, optionally one space, optionally a
 * unit. Units are case-sensitive but for k:
 *   B                      1
 *   k K M G T, KB MB GB TB powers of 1000 (kB is KB)
 *   Ki Mi Gi Ti, KiB ...   powers of 1024
 * "33.67GB" is 33,670,000,000. A fraction of a byte is rounded to the nearest one where there is a
 * unit above B ("0.1GiB" is 107,374,182); without, the fraction must be zero.
 *
 * @param [in]  text  May be NULL, which is no size.
 * @param [out] out   Written on success only.
 * @return 0, or
 *   -EINVAL  not of this form (empty, a sign, an exponent, an unknown unit, anything behind it), a
 *            fraction of a byte, or an amount above zero that rounds to no byte at all
 *   -ERANGE  above UINT64_MAX, or more than 18 significant digits behind the point
 */
int size_parse(const char *text, uint64_t *out);

/**
 * Parse a count: as size_parse(), but the units are k K M G T, powers of 1000, and the product must
 * be whole: "5M", "1.5k", "1000000". Errors as size_parse().
 */
int count_parse(const char *text, uint64_t *out);

/**
 * Bytes as text that size_parse() reads: in a binary unit when that is exact ("2 MiB", "139 GiB"),
 * else in a decimal one, rounded to four digits ("33.67 GB").
 *
 * @param [out] buf  Always terminated; cut to buf_bytes, which is > 0.
 * @return buf
 */
char *size_format(uint64_t bytes, char *buf, size_t buf_bytes);

/** A count as text, rounded to four digits: "15M", "1.333k", "7". Otherwise as size_format(). */
char *count_format(uint64_t count, char *buf, size_t buf_bytes);

/** A time as text, rounded to four digits: "600 ns", "19 us", "2.8 s". As size_format(). */
char *duration_format(uint64_t ns, char *buf, size_t buf_bytes);

/**
 * A rate as text, rounded to four digits: "55.4 GB/s", "60 T/s".
 *
 * @param [in] unit  What is counted: "B/s", "/s".
 */
char *rate_format(double per_s, const char *unit, char *buf, size_t buf_bytes);

#endif
