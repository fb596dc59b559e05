/*
 * The profiler that has CUPTI after us, where CUPTI has kept a buffer of ours
 * for the records that come next: they are the profiler's, which does not know
 * the buffer. They are copied into one of its own.
 */
#ifndef CKPTAGENT_CUPTI_CLIENT_H
#define CKPTAGENT_CUPTI_CLIENT_H

#include "cupti_abi.h"

/*
 * The callbacks to register in place of a client's: its own, or where a buffer
 * of ours is out, two that stand before them. The last client counts.
 */
void client_callbacks(cupti_requested_fn **requested,
		      cupti_completed_fn **completed);

#endif
