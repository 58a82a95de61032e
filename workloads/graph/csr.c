/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph files: their layout, and opening and checking them; see csr.h. Written by build.c.
 *
 * A graph of given counts and flags has exactly one layout. So a header is checked by computing it
 * anew and comparing, and no file has room for what nobody looks at.
 */
#include "workloads/graph/csr.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/util.h"
#include "workloads/graph/fail.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is mapped as it is");
_Static_assert(sizeof(struct csr_header) == 80, "as docs/graph.md has it");
_Static_assert(offsetof(struct csr_header, checksum) == 72, "as docs/graph.md has it");
_Static_assert(sizeof(size_t) == 8, "files are mapped whole");

/* Vertices between two looks at who watches. */
#define WATCH_VERTICES 65536

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t checksum(const struct csr_header *header)
{
	const unsigned char *byte = (const unsigned char *)header;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < offsetof(struct csr_header, checksum); i++)
		hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Put a section at the end of what is there. Where it begins. */
static uint64_t append(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;

	*end = round_up(at + bytes, CSR_ALIGN);
	return at;
}

int csr_layout(uint64_t nr_vertices, uint64_t nr_edges, uint32_t flags, struct csr_header *out)
{
	const uint64_t vertices_max = flags & CSR_WIDE ? CSR_VERTICES_MAX : CSR_NARROW_VERTICES;
	uint64_t end = CSR_ALIGN;

	if (!nr_vertices || nr_vertices > vertices_max || nr_edges > CSR_EDGES_MAX)
		return -ERANGE;
	*out = (struct csr_header){.version = CSR_VERSION,
				   .flags = flags,
				   .nr_vertices = nr_vertices,
				   .nr_edges = nr_edges};
	memcpy(out->magic, CSR_MAGIC, sizeof(out->magic));
	out->offsets_at = append(&end, (nr_vertices + 1) * sizeof(uint64_t));
	if (flags & CSR_ORIGINAL)
		out->ids_at = append(&end, nr_vertices * sizeof(uint64_t));
	out->neighbours_at = append(&end, nr_edges * (flags & CSR_WIDE ? 8 : 4));
	if (flags & CSR_WEIGHTED)
		out->weights_at = append(&end, nr_edges * sizeof(uint32_t));
	out->file_bytes = end;
	out->checksum = checksum(out);
	return 0;
}

/* ------------------------------------------------------------------ opening */

static int check_header(const char *name, const void *bytes, size_t nr_bytes,
			struct csr_header *header, char *err, size_t err_bytes)
{
	struct csr_header expected;

	if (nr_bytes < sizeof(*header))
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: %zu bytes are no graph file: make one with weir graph "
				  "convert",
				  name, nr_bytes);
	memcpy(header, bytes, sizeof(*header));
	if (memcmp(header->magic, CSR_MAGIC, sizeof(header->magic)) != 0)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: not a graph file: make one with weir graph convert", name);
	if (header->version != CSR_VERSION)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: version %u of the format, this program knows %u: convert "
				  "the graph anew",
				  name, header->version, CSR_VERSION);
	if (header->checksum != checksum(header))
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: the header is damaged (its checksum is wrong): convert the "
				  "graph anew",
				  name);
	if ((header->flags & ~(uint32_t)CSR_FLAGS) ||
	    csr_layout(header->nr_vertices, header->nr_edges, header->flags, &expected) ||
	    memcmp(header, &expected, sizeof(expected)) != 0)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: the header contradicts itself: convert the graph anew",
				  name);
	if (nr_bytes != header->file_bytes)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: %zu bytes where the header says %llu: the file is cut "
				  "short or has more behind it; fetch or convert it again",
				  name, nr_bytes, (unsigned long long)header->file_bytes);
	return 0;
}

static int check_sections(const char *name, const struct csr *g, char *err, size_t err_bytes)
{
	if (g->offset[0])
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: the first offset is not 0: convert the graph anew", name);
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		if (g->offset[v] > g->offset[v + 1] || g->offset[v + 1] > g->nr_edges)
			return graph_fail(err, err_bytes, -EINVAL,
					  "%s: the offsets of vertex %llu are out of order: "
					  "convert the graph anew",
					  name, (unsigned long long)v);
	}
	if (g->offset[g->nr_vertices] != g->nr_edges)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: the last offset is not the number of edges: convert the "
				  "graph anew",
				  name);
	for (uint64_t v = 1; g->id && v < g->nr_vertices; v++) {
		if (g->id[v - 1] >= g->id[v])
			return graph_fail(err, err_bytes, -EINVAL,
					  "%s: the ids of vertices %llu and %llu are out of "
					  "order: convert the graph anew",
					  name, (unsigned long long)v - 1, (unsigned long long)v);
	}
	return 0;
}

int csr_view(const char *name, const void *bytes, size_t nr_bytes, struct csr *out, char *err,
	     size_t err_bytes)
{
	const unsigned char *base = bytes;
	struct csr_header header = {0};
	struct csr g = {0};
	int rc = check_header(name, bytes, nr_bytes, &header, err, err_bytes);

	if (rc)
		return rc;
	g.nr_vertices = header.nr_vertices;
	g.nr_edges = header.nr_edges;
	g.flags = header.flags;
	g.offset = (const void *)(base + header.offsets_at);
	if (header.flags & CSR_WIDE)
		g.wide = (const void *)(base + header.neighbours_at);
	else
		g.narrow = (const void *)(base + header.neighbours_at);
	if (header.flags & CSR_WEIGHTED)
		g.weight = (const void *)(base + header.weights_at);
	if (header.flags & CSR_ORIGINAL)
		g.id = (const void *)(base + header.ids_at);
	rc = check_sections(name, &g, err, err_bytes);
	if (!rc)
		*out = g;
	return rc;
}

int csr_map(const char *name, int fd, struct csr *out, char *err, size_t err_bytes)
{
	struct stat st;
	void *map;
	int rc;

	if (fstat(fd, &st))
		return graph_fail(err, err_bytes, -errno, "%s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s: %s: name a graph file that weir graph convert made", name,
				  S_ISREG(st.st_mode) ? "the file is empty" : "no regular file");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return graph_fail(err, err_bytes, -errno, "%s: cannot be mapped: %s", name,
				  strerror(errno));
	rc = csr_view(name, map, (size_t)st.st_size, out, err, err_bytes);
	if (rc) {
		munmap(map, (size_t)st.st_size);
		return rc;
	}
	out->map = map;
	out->map_bytes = (size_t)st.st_size;
	return 0;
}

int csr_open(const char *name, struct csr *out, char *err, size_t err_bytes)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return graph_fail(err, err_bytes, -errno, "%s: %s", name, strerror(errno));
	rc = csr_map(name, fd, out, err, err_bytes);
	close(fd);
	return rc;
}

bool csr_is_file(const char *name)
{
	char magic[sizeof(CSR_MAGIC) - 1];
	struct stat st;
	bool is;
	int fd;

	if (stat(name, &st) || !S_ISREG(st.st_mode))
		return false;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	is = fd >= 0 && pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	     memcmp(magic, CSR_MAGIC, sizeof(magic)) == 0;
	if (fd >= 0)
		close(fd);
	return is;
}

void csr_close(struct csr *g)
{
	if (g->map)
		munmap(g->map, g->map_bytes);
	memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------ the edges */

/* Whether edge a of a list may stand before edge b: by neighbour, then by weight. */
static bool in_order(const struct csr *g, uint64_t a, uint64_t b)
{
	uint64_t u = csr_neighbour(g, a), v = csr_neighbour(g, b);

	return u < v || (u == v && (!g->weight || g->weight[a] <= g->weight[b]));
}

int csr_check(const char *name, const struct csr *g, const struct graph_watch *watch, char *err,
	      size_t err_bytes)
{
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		for (uint64_t e = g->offset[v]; e < g->offset[v + 1]; e++) {
			if (csr_neighbour(g, e) >= g->nr_vertices)
				return graph_fail(err, err_bytes, -EINVAL,
						  "%s: an edge leads from vertex %llu to %llu, "
						  "which is not there: convert the graph anew",
						  name, (unsigned long long)v,
						  (unsigned long long)csr_neighbour(g, e));
			if (e > g->offset[v] && !in_order(g, e - 1, e))
				return graph_fail(err, err_bytes, -EINVAL,
						  "%s: the edges of vertex %llu are out of order: "
						  "convert the graph anew",
						  name, (unsigned long long)v);
		}
		if (v % WATCH_VERTICES == 0 &&
		    graph_watch_stop(watch, (double)v / (double)g->nr_vertices, "checking"))
			return -ECANCELED;
	}
	return 0;
}
