/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls to wait for its work: there it often learns first of a kernel's fault. */
#include "shim/hooks.h"
#include "shim/summary.h"

cu_result hook_cuCtxSynchronize(void)
{
	return summary_note_result(real.cuCtxSynchronize());
}

cu_result hook_cuStreamSynchronize(cu_stream stream)
{
	return summary_note_result(real.cuStreamSynchronize(stream));
}

cu_result hook_cuStreamSynchronize_ptsz(cu_stream stream)
{
	return summary_note_result(real.cuStreamSynchronize_ptsz(stream));
}

cu_result hook_cuEventSynchronize(cu_event event)
{
	return summary_note_result(real.cuEventSynchronize(event));
}
