#include "cudnn_descriptor.h"

#include <string.h>

/*
 * cuDNN's graph interface, names and numbers as in NVIDIA's cuDNN backend
 * reference (cudnn_graph.h). Every operation graph has one engine, without
 * knobs, notes or workspace, and running its plan does nothing.
 */

/* cudnnBackendAttributeName_t: those that are not one zero, or nothing. */
enum {
	ENGINEHEUR_RESULTS = 202,
	ENGINECFG_ENGINE = 300,
	ENGINECFG_KNOB_CHOICES = 302,
	ENGINE_KNOB_INFO = 1302,
	ENGINE_NUMERICAL_NOTE = 1303,
	ENGINE_LAYOUT_INFO = 1304,
	ENGINE_BEHAVIOR_NOTE = 1305
};

/* Bytes of one element, by cudnnBackendAttributeType_t; 0: a descriptor. */
static const uint8_t type_bytes[] = {
	8,			 /* HANDLE */
	4,			 /* DATA_TYPE */
	1,			 /* BOOLEAN */
	8,			 /* INT64 */
	4,			 /* FLOAT */
	8,			 /* DOUBLE */
	8,			 /* VOID_PTR */
	4,  4, 4, 4, 4, 4, 4, 4, /* CONVOLUTION_MODE to POINTWISE_MODE */
	0,			 /* BACKEND_DESCRIPTOR */
	4,  4, 4, 4, 4, 4, 4,	 /* GENSTATS_MODE to PADDING_MODE */
	4,			 /* INT32 */
	1,			 /* CHAR */
	4,			 /* SIGNAL_MODE */
	16,			 /* FRACTION */
	4,  4, 4, /* NORM_MODE, NORM_FWD_PHASE, RNG_DISTRIBUTION */
};

/* How many elements an attribute has. */
static int64_t elements(int name, int type)
{
	switch (name) {
	case ENGINEHEUR_RESULTS:
	case ENGINECFG_ENGINE:
		return 1;
	case ENGINECFG_KNOB_CHOICES:
	case ENGINE_KNOB_INFO:
	case ENGINE_NUMERICAL_NOTE:
	case ENGINE_LAYOUT_INFO:
	case ENGINE_BEHAVIOR_NOTE:
		return 0;
	default:
		return type >= 0 && (size_t)type < sizeof(type_bytes) &&
		       type_bytes[type];
	}
}

PHANTOM_API int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	(void)type;
	*descriptor = phantom_handle_new(PHANTOM_DESCRIPTOR,
					 sizeof(struct phantom_handle));
	return *descriptor ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

/*
 * Descriptors are the caller's own, made before: they stay as they are. Other
 * elements are 0.
 */
PHANTOM_API int cudnnBackendGetAttribute(void *descriptor, int name, int type,
					 int64_t room, int64_t *count,
					 void *values)
{
	int64_t have = elements(name, type);

	(void)descriptor;
	if (count)
		*count = have;
	if (have && room > 0 && values && (size_t)type < sizeof(type_bytes))
		memset(values, 0, type_bytes[type]);
	return CUDNN_STATUS_SUCCESS;
}
