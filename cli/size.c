/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, counts, rates and durations: parsing and formatting. It knows nothing of options and
 * prints nothing.
 *
 * Parsing never passes through floating point: 33.67 has no exact double, and a budget that is one
 * byte off would make "exactly this much memory" untrue. The fraction is kept as an integer over a
 * power of ten, in 128 bits.
 */
#include "cli/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* Digits behind the point, so that fraction * unit stays below 2^128: 10^18 * 2^40 < 2^100. */
#define FRACTION_DIGITS_MAX 18

#define KILO UINT64_C(1000)
#define KIBI UINT64_C(1024)

/* A number as written: whole + fraction / scale. */
struct decimal {
	uint64_t whole;
	uint64_t fraction;
	uint64_t scale; /* a power of ten, above fraction */
};

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"", 1},
	{"B", 1},
	{"k", KILO},
	{"K", KILO},
	{"M", KILO *KILO},
	{"G", KILO *KILO *KILO},
	{"T", KILO *KILO *KILO *KILO},
	{"kB", KILO},
	{"KB", KILO},
	{"MB", KILO *KILO},
	{"GB", KILO *KILO *KILO},
	{"TB", KILO *KILO *KILO *KILO},
	{"Ki", KIBI},
	{"Mi", KIBI *KIBI},
	{"Gi", KIBI *KIBI *KIBI},
	{"Ti", KIBI *KIBI *KIBI *KIBI},
	{"KiB", KIBI},
	{"MiB", KIBI *KIBI},
	{"GiB", KIBI *KIBI *KIBI},
	{"TiB", KIBI *KIBI *KIBI *KIBI},
	{NULL, 0},
};

static const struct unit count_units[] = {
	{"", 1},
	{"k", KILO},
	{"K", KILO},
	{"M", KILO *KILO},
	{"G", KILO *KILO *KILO},
	{"T", KILO *KILO *KILO *KILO},
	{NULL, 0},
};

static bool is_digit(char c)
{
	/* Not isdigit(): it depends on the locale and is undefined for negative chars. */
	return c >= '0' && c <= '9';
}

static int parse_whole(const char **text, uint64_t *out)
{
	const char *p = *text;
	uint64_t value = 0;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	*text = p;
	*out = value;
	return 0;
}

/* The digits behind a point; there is at least one. Zeros at the end do not count. */
static int parse_fraction(const char **text, struct decimal *out)
{
	const char *p = *text;
	const char *last;

	while (is_digit(*p))
		p++;
	if (p == *text)
		return -EINVAL;
	for (last = p; last > *text && last[-1] == '0';)
		last--;
	if (last - *text > FRACTION_DIGITS_MAX)
		return -ERANGE;
	for (const char *q = *text; q < last; q++) {
		out->fraction = out->fraction * 10 + (uint64_t)(*q - '0');
		out->scale *= 10;
	}
	*text = p;
	return 0;
}

static int parse_decimal(const char **text, struct decimal *out)
{
	int err;

	*out = (struct decimal){.scale = 1};
	err = parse_whole(text, &out->whole);
	if (err)
		return err;
	if (**text != '.')
		return 0;
	++*text;
	return parse_fraction(text, out);
}

static const struct unit *unit_find(const struct unit *units, const char *suffix)
{
	for (; units->suffix; units++) {
		if (!strcmp(units->suffix, suffix))
			return units;
	}
	return NULL;
}

/* number * factor; the part below one is rounded to nearest, or must be zero. */
static int scale(const struct decimal *number, uint64_t factor, bool round, uint64_t *out)
{
	u128 part = (u128)number->fraction * factor;
	u128 value = (u128)number->whole * factor + part / number->scale;
	uint64_t rest = (uint64_t)(part % number->scale);

	if (rest && !round)
		return -EINVAL;
	if (rest >= number->scale - rest)
		value++;
	if (!value && rest)
		return -EINVAL;
	if (value > UINT64_MAX)
		return -ERANGE;
	*out = (uint64_t)value;
	return 0;
}

int size_parse(const char *text, uint64_t *out)
{
	struct decimal number;
	const struct unit *unit;
	int err;

	if (!text)
		return -EINVAL;
	err = parse_decimal(&text, &number);
	if (err)
		return err;
	if (text[0] == ' ' && text[1] != '\0')
		text++;
	unit = unit_find(size_units, text);
	if (!unit)
		return -EINVAL;
	return scale(&number, unit->factor, unit->factor > 1, out);
}

int count_parse(const char *text, uint64_t *out)
{
	struct decimal number;
	const struct unit *unit;
	int err;

	if (!text)
		return -EINVAL;
	err = parse_decimal(&text, &number);
	if (err)
		return err;
	unit = unit_find(count_units, text);
	if (!unit)
		return -EINVAL;
	return scale(&number, unit->factor, false, out);
}

/*
 * value with four digits and the largest of the prefixes, each 1000 times the one before, that
 * leaves it at 1 or above. A value that rounds up to 1000 takes the next prefix.
 */
static void format_scaled(double value, const char *const *prefixes, const char *unit, char *buf,
			  size_t buf_bytes)
{
	/* 999.95 is the least that four digits show as 1000. */
	while (value >= 999.95 && prefixes[1]) {
		value /= 1000.0;
		prefixes++;
	}
	(void)snprintf(buf, buf_bytes, value < 9999.5 ? "%.4g%s%s" : "%.0f%s%s", value, *prefixes,
		       unit);
}

char *size_format(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char *const binary[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
	static const char *const decimal[] = {" ", " k", " M", " G", " T", NULL};
	unsigned i = 0;
	uint64_t value = bytes;

	while (value && value % KIBI == 0 && binary[i + 1]) {
		value /= KIBI;
		i++;
	}
	if (value < KIBI && bytes)
		(void)snprintf(buf, buf_bytes, "%u%s", (unsigned)value, binary[i]);
	else
		format_scaled((double)bytes, decimal, "B", buf, buf_bytes);
	return buf;
}

char *count_format(uint64_t count, char *buf, size_t buf_bytes)
{
	static const char *const prefixes[] = {"", "k", "M", "G", "T", NULL};

	format_scaled((double)count, prefixes, "", buf, buf_bytes);
	return buf;
}

char *duration_format(uint64_t ns, char *buf, size_t buf_bytes)
{
	static const char *const units[] = {" ns", " us", " ms", " s", NULL};

	format_scaled((double)ns, units, "", buf, buf_bytes);
	return buf;
}

char *rate_format(double per_s, const char *unit, char *buf, size_t buf_bytes)
{
	static const char *const prefixes[] = {" ", " k", " M", " G", " T", " P", NULL};

	format_scaled(per_s, prefixes, unit, buf, buf_bytes);
	return buf;
}
