/*
 * CUDA_VISIBLE_DEVICES, as NVIDIA's programming guide and torch understand it: a
 * list of ordinals or of (beginnings of) UUIDs, which ends before the first entry
 * that is not a device. A device that is named twice makes none visible.
 */
#ifndef PHANTOM_VISIBLE_H
#define PHANTOM_VISIBLE_H

#include "phantom.h"

/*
 * Fills `physical` with the devices that `list` makes visible, in its order, of
 * `count` there are; all of them for NULL. Returns how many.
 */
int phantom_visible(const char *list, int count,
		    int physical[PHANTOM_DEVICES_MAX]);

#endif
