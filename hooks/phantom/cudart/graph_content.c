#include "graph.h"

#include "graph_content.h"
#include "lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * One more item of `bytes` at the end of an array. Arrays grow in powers of
 * two, so that the count alone says whether there is room.
 */
static int append(void **items, size_t *count, size_t bytes, const void *item)
{
	if (!(*count & (*count - 1))) {
		size_t room = *count ? 2 * *count : 1;
		void *grown = realloc(*items, room * bytes);

		if (!grown)
			return -ENOMEM;
		*items = grown;
	}
	memcpy((char *)*items + *count * bytes, item, bytes);
	++*count;
	return 0;
}

int content_add(struct graph_content *content, enum graph_node type,
		const struct graph_call *call)
{
	uint8_t node = (uint8_t)type;
	int status = 0;

	if (call)
		status = append((void **)&content->calls, &content->call_count,
				sizeof(*call), call);
	if (status)
		return status;
	return append((void **)&content->nodes, &content->node_count,
		      sizeof(node), &node);
}

int content_retain(struct graph_content *content, cudaUserObject_t object)
{
	int status = append((void **)&content->objects, &content->object_count,
			    sizeof(object), &object);

	if (!status) {
		phantom_lock();
		object->references++;
		phantom_unlock();
	}
	return status;
}

int content_copy(struct graph_content *to, const struct graph_content *from)
{
	int status = 0;

	for (size_t i = 0; !status && i < from->node_count; i++)
		status = content_add(to, from->nodes[i], NULL);
	for (size_t i = 0; !status && i < from->call_count; i++)
		status = append((void **)&to->calls, &to->call_count,
				sizeof(*from->calls), &from->calls[i]);
	for (size_t i = 0; !status && i < from->object_count; i++)
		status = content_retain(to, from->objects[i]);
	return status;
}

void content_end(struct graph_content *content)
{
	for (size_t i = 0; i < content->object_count; i++)
		user_object_release(content->objects[i], 1);
	free(content->nodes);
	free(content->calls);
	free(content->objects);
	*content = (struct graph_content){ 0 };
}
