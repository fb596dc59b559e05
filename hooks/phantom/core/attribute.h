/*
 * The integers that describe a device. The runtime's enum cudaDeviceAttr and
 * the driver's CUdevice_attribute number them alike.
 */
#ifndef PHANTOM_ATTRIBUTE_H
#define PHANTOM_ATTRIBUTE_H

#include "phantom.h"

/* 0 for what the device has not, and for what is not listed. */
PHANTOM_API int phantom_attribute(int attribute, int device);

#endif
