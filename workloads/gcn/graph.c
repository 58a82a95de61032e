/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a graph from two text files. Each file is read whole and passed over twice: once for its
 * lines and what its comments claim, once for its data; so that arrays are made in their final
 * size and every claim is known when a line is checked.
 *
 * Nothing is repaired but what any preparation of such graphs drops: an edge named twice, in
 * either direction, and an edge from a node to itself (the normalisation adds its own). Both are
 * counted.
 */
#include "workloads/gcn/graph.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/util.h"

/* A count that comments state. 0: not stated. */
struct claims {
	uint64_t nodes, edges, features, classes;
};

/* A position in one file, and where to complain. */
struct reader {
	const struct graph_text *file;
	const char *next;     /* first byte after the line */
	const char *at, *end; /* what is left of the line, without its end */
	uint64_t line;	      /* of at; from 1 */
	uint64_t nr_lines;    /* with data, once the file was scanned */
	char *err;
	size_t err_bytes;
};

__attribute__((format(printf, 2, 3))) static int fail_line(const struct reader *r,
							   const char *format, ...)
{
	int used = snprintf(r->err, r->err_bytes, "%s:%llu: ", r->file->name,
			    (unsigned long long)r->line);
	va_list ap;

	va_start(ap, format);
	if (used >= 0 && (size_t)used < r->err_bytes)
		vsnprintf(r->err + used, r->err_bytes - (size_t)used, format, ap);
	va_end(ap);
	/* What is quoted from the file may not break the line, nor speak to a terminal. */
	for (char *c = r->err; r->err_bytes && *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return -EINVAL;
}

static int fail_memory(const struct reader *r)
{
	snprintf(r->err, r->err_bytes, "%s: no memory on the host for this graph", r->file->name);
	return -ENOMEM;
}

static void reader_rewind(struct reader *r)
{
	r->next = r->file->text;
	r->line = 0;
}

/* Step to the next line: 1, 0 at the end of the file, or an error. */
static int reader_line(struct reader *r)
{
	size_t left = r->file->bytes - (size_t)(r->next - r->file->text);
	const char *end;

	if (!left)
		return 0;
	r->line++;
	end = memchr(r->next, '\n', left);
	if (!end)
		return fail_line(r, "the file ends in mid-line: it is cut short; fetch it again");
	r->at = r->next;
	r->end = end > r->at && end[-1] == '\r' ? end - 1 : end;
	r->next = end + 1;
	return 1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* The next word of the line; its length, 0 at the end of the line. */
static size_t reader_word(struct reader *r, const char **word)
{
	while (r->at < r->end && is_space(*r->at))
		r->at++;
	*word = r->at;
	while (r->at < r->end && !is_space(*r->at))
		r->at++;
	return (size_t)(r->at - *word);
}

static bool parse_count(const char *word, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	if (!length || length > 18)
		return false; /* 18 digits: no overflow, and no count is larger */
	for (size_t i = 0; i < length; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(word[i] - '0');
	}
	*out = value;
	return true;
}

/* A number that the line must have. */
static int reader_count(struct reader *r, const char *what, uint64_t *out)
{
	const char *word;
	size_t length = reader_word(r, &word);

	if (!length)
		return fail_line(r, "the line ends where %s should be: complete it", what);
	if (!parse_count(word, length, out))
		return fail_line(r, "'%.*s' is not %s: write a whole number",
				 (int)(length < 32 ? length : 32), word, what);
	return 0;
}

static int reader_line_done(struct reader *r)
{
	const char *word;
	size_t length = reader_word(r, &word);

	if (length)
		return fail_line(r, "'%.*s' is more than the line should have: remove it",
				 (int)(length < 32 ? length : 32), word);
	return 0;
}

/* ------------------------------------------------------------------ comments */

/* What a word after a count names, and the most there may be of it. NULL: it is prose. */
static uint64_t *claim_named(struct claims *c, const char *word, size_t length, uint64_t *max)
{
	const struct {
		const char *name;
		uint64_t *claim, max;
	} table[] = {
		{"nodes", &c->nodes, GRAPH_NODES_MAX},
		{"edges", &c->edges, INT64_MAX},
		{"features", &c->features, GRAPH_FEATURES_MAX},
		{"classes", &c->classes, GRAPH_CLASSES_MAX},
	};

	while (length && word[length - 1] && strchr(",;.:)", word[length - 1]))
		length--;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (length == strlen(table[i].name) && !memcmp(word, table[i].name, length)) {
			*max = table[i].max;
			return table[i].claim;
		}
	}
	return NULL;
}

static int reader_claim(struct reader *r, struct claims *c, const char *word, size_t length,
			uint64_t count)
{
	int shown = (int)(length < 32 ? length : 32);
	uint64_t max, *claim = claim_named(c, word, length, &max);

	if (!claim)
		return 0;
	if (!count || count > max)
		return fail_line(r, "the comment states %llu %.*s: correct it to 1 to %llu",
				 (unsigned long long)count, shown, word, (unsigned long long)max);
	if (*claim && *claim != count)
		return fail_line(
			r, "the comment states %llu %.*s, an earlier one %llu: correct one",
			(unsigned long long)count, shown, word, (unsigned long long)*claim);
	*claim = count;
	return 0;
}

/* Take the counts that a comment states: a number, then "nodes", "edges" (also "undirected
 * edges"), "features" or "classes". The rest of it is prose. */
static int reader_comment(struct reader *r, struct claims *c)
{
	static const char *const adjective = "undirected";
	bool counted = false;
	uint64_t count = 0;
	const char *word;
	size_t length;
	int ret = 0;

	while (!ret && (length = reader_word(r, &word)) > 0) {
		if (parse_count(word, length, &count)) {
			counted = true;
			continue;
		}
		if (length == strlen(adjective) && !memcmp(word, adjective, length))
			continue;
		if (counted)
			ret = reader_claim(r, c, word, length, count);
		counted = false;
	}
	return ret;
}

static bool reader_is_comment(const struct reader *r)
{
	return r->at < r->end && *r->at == '#';
}

/* First pass: count the lines with data, and read the comments. */
static int reader_scan(struct reader *r, struct claims *c)
{
	int ret;

	reader_rewind(r);
	r->nr_lines = 0;
	while ((ret = reader_line(r)) > 0) {
		if (reader_is_comment(r))
			ret = reader_comment(r, c);
		else if (r->at == r->end)
			ret = fail_line(r, "the line is empty: remove it");
		else
			r->nr_lines++;
		if (ret < 0)
			return ret;
	}
	return ret;
}

/* Second pass: the next line with data: 1, or 0 at the end. The scan has seen every line whole. */
static int reader_data_line(struct reader *r)
{
	int ret;

	do
		ret = reader_line(r);
	while (ret > 0 && reader_is_comment(r));
	return ret;
}

/* ------------------------------------------------------------------ nodes */

static int parse_split(struct reader *r, uint8_t *split)
{
	static const char *const names[GRAPH_SPLIT_NR] = {"-", "train", "val", "test"};
	const char *word;
	size_t length = reader_word(r, &word);

	for (int i = 0; i < GRAPH_SPLIT_NR; i++) {
		if (length == strlen(names[i]) && !memcmp(word, names[i], length)) {
			*split = (uint8_t)i;
			return 0;
		}
	}
	return fail_line(r, "'%.*s' is not a split: write train, val, test or -",
			 (int)(length < 32 ? length : 32), word);
}

static int parse_label(struct reader *r, const struct claims *c, uint8_t split, int32_t *label)
{
	uint64_t max = (c->classes ? c->classes : GRAPH_CLASSES_MAX) - 1, value = 0;
	struct reader peek = *r;
	const char *word;
	int ret;

	if (reader_word(&peek, &word) == 2 && !memcmp(word, "-1", 2)) {
		*r = peek;
		*label = -1;
		if (split != GRAPH_NONE)
			return fail_line(r, "a node of a split has no label: label it, or write - "
					    "for the split");
		return 0;
	}
	ret = reader_count(r, "a label, or -1 for none", &value);
	if (ret)
		return ret;
	if (value > max)
		return fail_line(r, "label %llu is out of range: the largest is %llu",
				 (unsigned long long)value, (unsigned long long)max);
	*label = (int32_t)value;
	return 0;
}

/* The features of a node, each once. seen: by feature, the last node that had it, plus 1. */
static int parse_features(struct reader *r, struct graph *g, uint64_t node, uint32_t *seen,
			  uint64_t nr_seen)
{
	uint64_t at = g->feature_start[node], nr = 0, value = 0;
	int ret = reader_count(r, "the number of features", &nr);

	/* Each takes two characters at least: more cannot follow, nor overflow the array. */
	if (!ret && nr > (uint64_t)(r->end - r->at) / 2)
		return fail_line(r,
				 "the line has fewer than the %llu features it announces: "
				 "correct the number",
				 (unsigned long long)nr);
	for (uint64_t i = 0; !ret && i < nr; i++) {
		ret = reader_count(r, "a feature", &value);
		if (ret)
			break;
		if (value >= nr_seen)
			return fail_line(r, "feature %llu is out of range: the largest is %llu",
					 (unsigned long long)value,
					 (unsigned long long)nr_seen - 1);
		if (seen[value] == node + 1)
			return fail_line(r, "feature %llu is listed twice: list it once",
					 (unsigned long long)value);
		seen[value] = (uint32_t)(node + 1);
		if (value >= g->nr_features)
			g->nr_features = (uint32_t)value + 1;
		g->feature[at++] = (uint32_t)value;
	}
	g->feature_start[node + 1] = at;
	return ret ? ret : reader_line_done(r);
}

static int parse_nodes(struct reader *r, const struct claims *c, struct graph *g, uint32_t *seen,
		       uint64_t nr_seen)
{
	int ret;

	reader_rewind(r);
	for (uint64_t node = 0; node < g->nr_nodes; node++) {
		ret = reader_data_line(r);
		if (ret < 0)
			return ret;
		ret = parse_split(r, &g->split[node]);
		if (!ret)
			ret = parse_label(r, c, g->split[node], &g->label[node]);
		if (!ret)
			ret = parse_features(r, g, node, seen, nr_seen);
		if (ret)
			return ret;
		g->nr_split[g->split[node]]++;
		if (g->label[node] >= 0 && (uint32_t)g->label[node] >= g->nr_classes)
			g->nr_classes = (uint32_t)g->label[node] + 1;
	}
	return 0;
}

/* What only all nodes together show. */
static int check_nodes(struct reader *r, const struct claims *c, struct graph *g)
{
	if (!g->nr_split[GRAPH_TRAIN])
		return fail_line(r, "no node is of the split train: mark those to train on");
	if (!g->nr_features)
		return fail_line(r, "no node has a feature: list some");
	if (c->features)
		g->nr_features = (uint32_t)c->features;
	if (c->classes)
		g->nr_classes = (uint32_t)c->classes;
	return 0;
}

static int read_nodes(struct reader *r, const struct claims *c, struct graph *g)
{
	uint64_t nr = r->nr_lines, nr_seen = c->features ? c->features : GRAPH_FEATURES_MAX;
	uint32_t *seen;
	int ret;

	if (!nr || nr > GRAPH_NODES_MAX)
		return fail_line(r, "the file has %llu nodes: give it 1 to %llu",
				 (unsigned long long)nr, (unsigned long long)GRAPH_NODES_MAX);
	if (c->nodes && c->nodes != nr)
		return fail_line(r,
				 "%llu nodes are stated, %llu are here: the file is cut short, "
				 "or the comment wrong",
				 (unsigned long long)c->nodes, (unsigned long long)nr);
	g->nr_nodes = nr;
	g->split = calloc(nr, sizeof(*g->split));
	g->label = calloc(nr, sizeof(*g->label));
	g->feature_start = calloc(nr + 1, sizeof(*g->feature_start));
	g->feature = malloc((r->file->bytes / 2 + 1) * sizeof(*g->feature));
	seen = calloc(nr_seen, sizeof(*seen));
	if (g->split && g->label && g->feature_start && g->feature && seen)
		ret = parse_nodes(r, c, g, seen, nr_seen);
	else
		ret = fail_memory(r);
	free(seen);
	return ret ? ret : check_nodes(r, c, g);
}

/* ------------------------------------------------------------------ edges */

static int parse_edge(struct reader *r, uint64_t nr_nodes, uint64_t end[2])
{
	for (int i = 0; i < 2; i++) {
		int ret = reader_count(r, "a node", &end[i]);

		if (ret)
			return ret;
		if (end[i] >= nr_nodes)
			return fail_line(r, "node %llu is out of range: the largest is %llu",
					 (unsigned long long)end[i],
					 (unsigned long long)nr_nodes - 1);
	}
	return reader_line_done(r);
}

/* Edges as one number each, the smaller node above the larger; self loops are left out. */
static int parse_edges(struct reader *r, struct graph *g, uint64_t *edge, uint64_t *nr_edges)
{
	uint64_t nr = 0, end[2];

	reader_rewind(r);
	for (uint64_t i = 0; i < r->nr_lines; i++) {
		int ret = reader_data_line(r);

		if (ret >= 0)
			ret = parse_edge(r, g->nr_nodes, end);
		if (ret < 0)
			return ret;
		if (end[0] == end[1])
			g->nr_self_loops++;
		else if (end[0] < end[1])
			edge[nr++] = end[0] << 32 | end[1];
		else
			edge[nr++] = end[1] << 32 | end[0];
	}
	*nr_edges = nr;
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sort, drop repetitions, and store in the graph. */
static int store_edges(struct reader *r, const struct claims *c, struct graph *g, uint64_t *edge,
		       uint64_t nr)
{
	uint64_t nr_unique = 0;

	qsort(edge, nr, sizeof(*edge), compare_u64);
	for (uint64_t i = 0; i < nr; i++) {
		if (!i || edge[i] != edge[i - 1])
			edge[nr_unique++] = edge[i];
	}
	g->nr_edges = nr_unique;
	g->nr_duplicates = nr - nr_unique;
	if (!nr_unique)
		return fail_line(r, "the file has no edge between two nodes: give it some");
	if (c->edges && c->edges != r->nr_lines && c->edges != nr_unique)
		return fail_line(r,
				 "%llu edges are stated, %llu are here: the file is cut short, "
				 "or the comment wrong",
				 (unsigned long long)c->edges, (unsigned long long)r->nr_lines);
	g->edge_u = malloc(nr_unique * sizeof(*g->edge_u));
	g->edge_v = malloc(nr_unique * sizeof(*g->edge_v));
	if (!g->edge_u || !g->edge_v)
		return fail_memory(r);
	for (uint64_t i = 0; i < nr_unique; i++) {
		g->edge_u[i] = (uint32_t)(edge[i] >> 32);
		g->edge_v[i] = (uint32_t)edge[i];
	}
	return 0;
}

static int read_edges(struct reader *r, const struct claims *c, struct graph *g)
{
	uint64_t nr = 0, *edge = malloc((r->nr_lines + 1) * sizeof(*edge));
	int ret;

	if (!edge)
		return fail_memory(r);
	ret = parse_edges(r, g, edge, &nr);
	if (!ret)
		ret = store_edges(r, c, g, edge, nr);
	free(edge);
	return ret;
}

/* ------------------------------------------------------------------ both */

int graph_parse(const struct graph_text *nodes, const struct graph_text *edges, struct graph *out,
		char *err, size_t err_bytes)
{
	struct reader nodes_reader = {.file = nodes, .err = err, .err_bytes = err ? err_bytes : 0};
	struct reader edges_reader = {.file = edges, .err = err, .err_bytes = err ? err_bytes : 0};
	struct claims claims = {0};
	struct graph g = {0};
	int ret;

	ret = reader_scan(&nodes_reader, &claims);
	if (!ret)
		ret = reader_scan(&edges_reader, &claims);
	if (!ret)
		ret = read_nodes(&nodes_reader, &claims, &g);
	if (!ret)
		ret = read_edges(&edges_reader, &claims, &g);
	if (ret)
		graph_fini(&g);
	else
		*out = g;
	return ret;
}

void graph_fini(struct graph *g)
{
	free(g->split);
	free(g->label);
	free(g->feature_start);
	free(g->feature);
	free(g->edge_u);
	free(g->edge_v);
	*g = (struct graph){0};
}

/* ------------------------------------------------------------------ files */

static int fail_file(const char *path, int error, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes,
		 "%s: %s: the directory of a graph holds nodes.txt and edges.txt, readable files",
		 path, strerror(error));
	return -error;
}

/* Fill a buffer from a file; a file that ends before is what truncation in mid-read looks like. */
static int read_all(int fd, char *buffer, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t nr = read(fd, buffer + done, bytes - done);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr < 0)
			return -errno;
		if (!nr)
			return -EIO;
		done += (size_t)nr;
	}
	return 0;
}

/* Read a whole file. text is owned by the caller, who frees it, also on an error. */
static int read_file(const char *path, char **text, size_t *bytes)
{
	/* Without waiting: a FIFO has no data to begin with, and is refused below. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		ret = -errno;
	else if (S_ISDIR(st.st_mode))
		ret = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		ret = -EINVAL;
	if (ret)
		goto err_close;
	*bytes = (size_t)st.st_size;
	*text = malloc(*bytes + 1);
	ret = *text ? read_all(fd, *text, *bytes) : -ENOMEM;
err_close:
	close(fd);
	return ret;
}

int graph_load(const char *dir, struct graph *out, char *err, size_t err_bytes)
{
	static const char *const names[] = {"nodes.txt", "edges.txt"};
	struct graph_text file[2] = {0};
	char path[2][PATH_MAX], *text[2] = {NULL, NULL};
	int ret = 0;

	if (!err)
		err_bytes = 0;
	for (int i = 0; i < 2 && !ret; i++) {
		int length = snprintf(path[i], sizeof(path[i]), "%s/%s", dir, names[i]);

		if (length < 0 || (size_t)length >= sizeof(path[i]))
			ret = -ENAMETOOLONG;
		else
			ret = read_file(path[i], &text[i], &file[i].bytes);
		if (ret)
			fail_file(path[i], -ret, err, err_bytes);
		file[i].name = path[i];
		file[i].text = text[i];
	}
	if (!ret)
		ret = graph_parse(&file[0], &file[1], out, err, err_bytes);
	free(text[0]);
	free(text[1]);
	return ret;
}
