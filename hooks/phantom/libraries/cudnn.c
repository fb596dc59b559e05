#include "cudnn_descriptor.h"

/*
 * cuDNN's version, which torch compares with the one it was built for: the build
 * takes it from torch's own requirements.
 */

/* libraryPropertyType: major, minor, patch level. */
PHANTOM_API int cudnnGetProperty(int type, int *value)
{
	static const int version[] = { PHANTOM_CUDNN_VERSION / 10000,
				       PHANTOM_CUDNN_VERSION / 100 % 100,
				       PHANTOM_CUDNN_VERSION % 100 };

	*value = type >= 0 && type < 3 ? version[type] : 0;
	return type >= 0 && type < 3 ? 0 : CUDNN_STATUS_BAD_PARAM;
}

PHANTOM_API void cudnnGetLastErrorString(char *message, size_t bytes)
{
	if (message && bytes)
		*message = '\0';
}
