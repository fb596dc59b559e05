#include "abi.h"
#include "graph.h"
#include "graph_content.h"
#include "lock.h"

#include <stdbool.h>

#define NO_DESTRUCTOR_SYNC 1u /* cudaUserObjectNoDestructorSync */
#define GRAPH_MOVE 1u	      /* cudaGraphUserObjectMove */

static bool is_object(cudaUserObject_t object)
{
	return phantom_handle_is(object, PHANTOM_USER_OBJECT);
}

void user_object_release(cudaUserObject_t object, unsigned count)
{
	bool last;

	phantom_lock();
	object->references -= count < object->references ? count :
							   object->references;
	last = !object->references;
	phantom_unlock();
	if (!last)
		return;
	object->destroy(object->data);
	phantom_handle_end(object, PHANTOM_USER_OBJECT);
}

PHANTOM_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *object,
					     void *data, cudaHostFn_t destroy,
					     unsigned references,
					     unsigned flags)
{
	*object = NULL;
	if (!destroy || !references || flags != NO_DESTRUCTOR_SYNC)
		return cudart_fail(cudaErrorInvalidValue);
	*object = phantom_handle_new(PHANTOM_USER_OBJECT, sizeof(**object));
	if (!*object)
		return cudart_fail(cudaErrorMemoryAllocation);
	(*object)->data = data;
	(*object)->destroy = destroy;
	(*object)->references = references;
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object,
					      unsigned count)
{
	if (!is_object(object))
		return cudart_fail(cudaErrorInvalidValue);
	user_object_release(object, count);
	return cudaSuccess;
}

PHANTOM_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph,
						  cudaUserObject_t object,
						  unsigned count,
						  unsigned flags)
{
	int status = 0;

	if (!phantom_handle_is(graph, PHANTOM_GRAPH) || !is_object(object))
		return cudart_fail(cudaErrorInvalidValue);
	for (unsigned i = 0; !status && i < count; i++)
		status = content_retain(&graph->content, object);
	if (status)
		return cudart_fail(cudaErrorMemoryAllocation);
	if (flags & GRAPH_MOVE)
		user_object_release(object, count);
	return cudaSuccess;
}
