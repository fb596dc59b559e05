#include "nvtx_client.h"

#include <string.h>

#include "nvtx_calls.h"

static void read_module(struct nvtx_client *client, int module,
			const struct nvtx_callbacks *callbacks)
{
	nvtx_fn ***pointers = NULL;
	unsigned int size = 0;

	if (!callbacks->table(module, &pointers, &size) || !pointers)
		return;
	for (unsigned int i = 0; i < size && i < NVTX_TABLE_MAX; i++) {
		client->pointer[module][i] = pointers[i];
		if (pointers[i])
			client->before[module][i] = *pointers[i];
	}
}

const char *nvtx_client_read(struct nvtx_client *client, nvtx_export_fn *get)
{
	const struct nvtx_callbacks *callbacks = get(NVTX_EXPORT_CALLBACKS);
	const struct nvtx_version *version = get(NVTX_EXPORT_VERSION);

	memset(client, 0, sizeof(*client));
	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) ||
	    !callbacks->table)
		return "it has no tables; its ranges are not seen";
	if (!version || version->struct_size < sizeof(*version) ||
	    version->version < NVTX_OLDEST || version->version > NVTX_NEWEST)
		return "its version is not known; its ranges are not seen";
	for (int module = 1; module < NVTX_MODULES; module++)
		read_module(client, module, callbacks);
	for (int i = 0; i < NVTX_CALLS; i++)
		if (!client->pointer[nvtx_calls[i].module][nvtx_calls[i].index])
			return "its tables lack a function; its ranges are not "
			       "seen";
	return NULL;
}

void nvtx_client_put_back(const struct nvtx_client *client)
{
	for (int module = 1; module < NVTX_MODULES; module++)
		for (int i = 0; i < NVTX_TABLE_MAX; i++)
			if (client->pointer[module][i])
				*client->pointer[module][i] =
					client->before[module][i];
}

/* What the other tool has put in place of what stood there; NULL: nothing. */
static nvtx_fn *theirs(const struct nvtx_client *client,
		       const struct nvtx_call *call)
{
	nvtx_fn *now = *client->pointer[call->module][call->index];

	return now == client->before[call->module][call->index] ? NULL : now;
}

bool nvtx_client_attach(const struct nvtx_client *client)
{
	for (int i = 0; i < NVTX_CALLS; i++)
		if (!nvtx_calls_learn(i, theirs(client, &nvtx_calls[i])))
			return false;
	for (int i = 0; i < NVTX_CALLS; i++)
		*client->pointer[nvtx_calls[i].module][nvtx_calls[i].index] =
			nvtx_calls[i].ours;
	return true;
}
