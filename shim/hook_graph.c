/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program calls to make graphs that can be launched, and to change them. The driver looks
 * at the memory of their copies, fills and words there and then: where some is not mapped it
 * refuses the call, or ends the process at the graph's launch. So all memory is mapped meanwhile.
 * Afterwards it may move: what a graph does is at addresses, and its launch may use anything
 * (hook_copy.c).
 */
#include "shim/brackets.h"
#include "shim/hooks.h"
#include "shim/summary.h"
#include "shim/when.h"

/* Before brackets begin nothing moves, and all is mapped anyway. @return whether the call may go
 * on; then leave() follows it */
static bool enter(struct bracket *bracket, bool *passes, cu_result *result)
{
	*bracket = (struct bracket){0};
	*passes = when_pass(CU_STREAM_LEGACY);
	*result = *passes ? CU_SUCCESS : bracket_open_all(bracket);
	if (*result)
		hook_leave();
	return *result == CU_SUCCESS;
}

static cu_result leave(struct bracket *bracket, bool passes, const char *name, cu_result result)
{
	if (passes)
		when_passed();
	else
		bracket_close(bracket, name);
	hook_leave();
	return summary_note_result(result);
}

/* One hook: its parameters, and the same as arguments. */
#define HOOK(symbol, parameters, arguments)                                     \
	cu_result hook_##symbol parameters                                      \
	{                                                                       \
		struct bracket bracket;                                         \
		cu_result result;                                               \
		bool passes;                                                    \
                                                                                \
		if (!brackets_are_on() || !hook_enter())                        \
			return real.symbol arguments;                           \
		if (!enter(&bracket, &passes, &result))                         \
			return result;                                          \
		return leave(&bracket, passes, #symbol, real.symbol arguments); \
	}

/* clang-format off */
HOOK(cuGraphInstantiate, INSTANTIATE, (exec, graph, failed, text, bytes))
HOOK(cuGraphInstantiate_v2, INSTANTIATE, (exec, graph, failed, text, bytes))
HOOK(cuGraphInstantiateWithFlags, INSTANTIATE_FLAGS, (exec, graph, flags))
HOOK(cuGraphInstantiateWithParams, INSTANTIATE_PARAMS, (exec, graph, params))
HOOK(cuGraphInstantiateWithParams_ptsz, INSTANTIATE_PARAMS, (exec, graph, params))
HOOK(cuGraphUpload, GRAPH, (graph, stream))
HOOK(cuGraphUpload_ptsz, GRAPH, (graph, stream))
HOOK(cuGraphExecUpdate, EXEC_UPDATE, (exec, graph, failed, why))
HOOK(cuGraphExecUpdate_v2, EXEC_UPDATE_INFO, (exec, graph, info))
HOOK(cuGraphAddMemcpyNode, NODE_ADD, (node, graph, dependencies, nr, params, context))
HOOK(cuGraphAddMemsetNode, NODE_ADD, (node, graph, dependencies, nr, params, context))
HOOK(cuGraphAddNode, NODE_ADD_ANY, (node, graph, dependencies, nr, params))
HOOK(cuGraphAddNode_v2, NODE_ADD_EDGES, (node, graph, dependencies, edges, nr, params))
HOOK(cuGraphAddBatchMemOpNode, NODE_ADD_OPS, (node, graph, dependencies, nr, params))
HOOK(cuGraphBatchMemOpNodeSetParams, NODE_SET, (node, params))
HOOK(cuGraphExecBatchMemOpNodeSetParams, EXEC_SET, (exec, node, params))
HOOK(cuGraphMemcpyNodeSetParams, NODE_SET, (node, params))
HOOK(cuGraphMemsetNodeSetParams, NODE_SET, (node, params))
HOOK(cuGraphNodeSetParams, NODE_SET, (node, params))
HOOK(cuGraphExecMemcpyNodeSetParams, EXEC_SET_CONTEXT, (exec, node, params, context))
HOOK(cuGraphExecMemsetNodeSetParams, EXEC_SET_CONTEXT, (exec, node, params, context))
HOOK(cuGraphExecNodeSetParams, EXEC_SET, (exec, node, params))
HOOK(cuGraphExecChildGraphNodeSetParams, (cu_graph_exec exec, cu_node node, cu_graph graph),
     (exec, node, graph))
/* clang-format on */
