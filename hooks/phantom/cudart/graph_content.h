/*
 * The contents of a graph: arrays that it owns. 0 or -ENOMEM.
 */
#ifndef PHANTOM_CUDART_GRAPH_CONTENT_H
#define PHANTOM_CUDART_GRAPH_CONTENT_H

#include "graph.h"

int content_add(struct graph_content *content, enum graph_node type,
		const struct graph_call *call);
/* One more reference to the object, which the contents then own. */
int content_retain(struct graph_content *content, cudaUserObject_t object);
/* Adds all of `from`; what was added before a failure stays. */
int content_copy(struct graph_content *to, const struct graph_content *from);
void content_end(struct graph_content *content);

#endif
