/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find a value's line in a JSON text by walking it along a path. It checks nothing: the text was
 * accepted by a parser before. It is bounded by the text's end all the same, and does not recurse.
 */
#include "machine/json_where.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct cursor {
	const char *at;
	const char *end;
};

static bool at_end(const struct cursor *c)
{
	return c->at >= c->end;
}

static void skip_space(struct cursor *c)
{
	while (!at_end(c) && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

/* At an opening quote: go behind the closing one. */
static void skip_string(struct cursor *c)
{
	for (c->at++; !at_end(c) && *c->at != '"'; c->at++) {
		if (*c->at == '\\' && c->end - c->at > 1)
			c->at++;
	}
	if (!at_end(c))
		c->at++;
}

/* At the first byte of a value: go behind its last. */
static void skip_value(struct cursor *c)
{
	size_t depth = 0;

	while (!at_end(c)) {
		switch (*c->at) {
		case '"':
			skip_string(c);
			break;
		case '{':
		case '[':
			depth++;
			c->at++;
			continue;
		case '}':
		case ']':
			if (!depth)
				return;
			depth--;
			c->at++;
			break;
		case ',':
			if (!depth)
				return;
			c->at++;
			continue;
		default:
			c->at++;
			continue;
		}
		if (!depth)
			return;
	}
}

/* Behind a value: go to the next one of the same array or object. */
static bool next_value(struct cursor *c)
{
	skip_value(c);
	skip_space(c);
	if (at_end(c) || *c->at != ',')
		return false;
	c->at++;
	skip_space(c);
	return true;
}

/* At an object: go to the value of a key; *member is where the key stands. */
static bool enter_member(struct cursor *c, const char *key, size_t key_bytes, const char **member)
{
	if (at_end(c) || *c->at != '{')
		return false;
	c->at++;
	skip_space(c);
	do {
		const char *name = c->at;
		size_t bytes;

		if (at_end(c) || *name != '"')
			return false;
		skip_string(c);
		bytes = (size_t)(c->at - name);
		skip_space(c);
		if (at_end(c) || *c->at != ':')
			return false;
		c->at++;
		skip_space(c);
		if (bytes == key_bytes + 2 && !memcmp(name + 1, key, key_bytes)) {
			*member = name;
			return true;
		}
	} while (next_value(c));
	return false;
}

/* At an array: go to its index-th value. */
static bool enter_element(struct cursor *c, unsigned long index)
{
	if (at_end(c) || *c->at != '[')
		return false;
	c->at++;
	skip_space(c);
	while (index--) {
		if (!next_value(c))
			return false;
	}
	return !at_end(c) && *c->at != ']';
}

static unsigned line_of(const char *text, const char *at)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

unsigned json_where(const char *text, size_t bytes, const char *path)
{
	struct cursor c = {text, text + bytes};
	const char *found;

	skip_space(&c);
	found = c.at;
	while (*path) {
		size_t key_bytes;

		if (*path == '[') {
			char *behind;
			unsigned long index = strtoul(path + 1, &behind, 10);

			if (behind == path + 1 || *behind != ']' || !enter_element(&c, index))
				return 0;
			path = behind + 1;
			found = c.at;
			continue;
		}
		if (*path == '.')
			path++;
		key_bytes = strcspn(path, ".[");
		if (!key_bytes || !enter_member(&c, path, key_bytes, &found))
			return 0;
		path += key_bytes;
	}
	return line_of(text, found);
}
