/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/result_touch.h"

#include <inttypes.h>

static const char *truth(bool value)
{
	return value ? "true" : "false";
}

void result_touch_parameters(FILE *out, const void *of)
{
	const struct touch_params *p = ((const struct result_touch *)of)->params;

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

void result_touch_members(FILE *out, const void *of)
{
	const struct result_touch *touch = of;

	fputs(",\"updates_per_s\":", out);
	result_write_double(out, touch->updates_per_s);
}
