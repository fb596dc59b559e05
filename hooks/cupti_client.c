#include "cupti_client.h"

#include <stdatomic.h>
#include <string.h>

#include "cupti_records.h"

static cupti_requested_fn *_Atomic client_requested;
static cupti_completed_fn *_Atomic client_completed;

static void request(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
	client_requested(buffer, bytes, records_max);
}

/* Records hold no address of the buffer that they are in. */
static void hand_on(void *context, uint32_t stream, const uint8_t *records,
		    size_t valid_bytes)
{
	uint8_t *buffer = NULL;
	size_t bytes = 0, records_max = 0;

	request(&buffer, &bytes, &records_max);
	if (!buffer)
		return;
	if (valid_bytes > bytes)
		valid_bytes = 0;
	memcpy(buffer, records, valid_bytes);
	client_completed(context, stream, buffer, bytes, valid_bytes);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer,
		     size_t bytes, size_t valid_bytes)
{
	if (!records_own(buffer)) {
		client_completed(context, stream, buffer, bytes, valid_bytes);
		return;
	}
	if (valid_bytes)
		hand_on(context, stream, buffer, valid_bytes);
	records_completed(context, stream, buffer, bytes, 0);
}

void client_callbacks(cupti_requested_fn **requested,
		      cupti_completed_fn **completed)
{
	if (!*requested || !*completed || !records_buffers_out())
		return;
	client_requested = *requested;
	client_completed = *completed;
	*requested = request;
	*completed = complete;
}
