/*
 * The bytes of each range: live now, and when their device stood at its peak.
 *
 * What each range held at the peak is not copied when the peak is reached: a
 * range whose bytes change for the first time after it keeps what it held
 * until then. So a new peak costs one addition, whatever the number of ranges.
 *
 * `device` is an index of the ledger, `range` a number of ranges.h, not 0.
 * Lock-free, without malloc. Bytes of threads that allocate at the very moment
 * of a peak may be counted on either side of it.
 */
#ifndef CKPTAGENT_RANGE_BYTES_H
#define CKPTAGENT_RANGE_BYTES_H

#include <stdint.h>

/*
 * Map the counters (2.4 MB of addresses); to be done before any text has a number
 * and anything below is called. 0 or -ENOMEM.
 */
int range_bytes_begin(void);

void range_bytes_add(int device, uint32_t range, uint64_t n);
void range_bytes_sub(int device, uint32_t range, uint64_t n);

/* The device stands at a new peak with what is live now. */
void range_bytes_peak(int device);

uint64_t range_bytes_live(int device, uint32_t range);
uint64_t range_bytes_at_peak(int device, uint32_t range);

#endif
