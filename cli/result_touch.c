/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/result_touch.h"

#include <inttypes.h>

static const char *truth(bool value)
{
	return value ? "true" : "false";
}

void result_touch_parameters(FILE *out, const struct result_touch *touch)
{
	const struct touch_params *p = touch->params;

	fprintf(out, "\"bytes\":%" PRIu64 ",\"page_bytes\":%" PRIu32, p->bytes, p->page_bytes);
	fprintf(out, ",\"pattern\":\"%s\",\"access\":\"%s\",\"elements\":%s",
		touch_pattern_name(p->pattern), touch_access_name(p->access), truth(p->elements));
	if (p->kind == TOUCH_PAGEIN)
		fprintf(out, ",\"touched_pages\":%" PRIu64,
			p->pages ? p->pages : p->bytes / p->page_bytes);
	if (p->kind == TOUCH_GUPS)
		fprintf(out, ",\"updates\":%" PRIu64, p->updates);
	fprintf(out, ",\"warm\":%s,\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32, truth(p->warm),
		p->passes - p->warm_up, p->warm_up);
	fprintf(out, ",\"blocks\":%" PRIu32 ",\"threads\":%" PRIu32 ",\"agents\":%" PRIu32,
		p->shape.blocks, p->shape.threads, p->shape.agents);
	fprintf(out, ",\"seed\":%" PRIu64, p->seed);
}

void result_touch_members(FILE *out, const struct result_touch *touch)
{
	const struct {
		const char *name;
		double value;
	} pages[] = {
		{"in", touch->in},
		{"out", touch->out},
		{"in_place", touch->in_place},
		{"waits", touch->waits},
	};

	fputs(",\"useful_bytes_per_s\":", out);
	result_write_double(out, touch->useful_bytes_per_s);
	fputs(",\"updates_per_s\":", out);
	result_write_double(out, touch->updates_per_s);
	fputs(",\"pages\":", out);
	for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
		fprintf(out, "%c\"%s\":", i ? ',' : '{', pages[i].name);
		result_write_double(out, pages[i].value);
	}
	fputc('}', out);
}
