#include "attribute.h"

#include "settings.h"

/* The same on all devices; limits as in the CUDA C++ Programming Guide. */
static const struct fixed {
	int attribute, value;
} fixed[] = {
	{ 1, 1024 },	    /* MaxThreadsPerBlock */
	{ 2, 1024 },	    /* MaxBlockDimX */
	{ 3, 1024 },	    /* MaxBlockDimY */
	{ 4, 64 },	    /* MaxBlockDimZ */
	{ 5, 2147483647 },  /* MaxGridDimX */
	{ 6, 65535 },	    /* MaxGridDimY */
	{ 7, 65535 },	    /* MaxGridDimZ */
	{ 8, 48 << 10 },    /* MaxSharedMemoryPerBlock */
	{ 9, 64 << 10 },    /* TotalConstantMemory */
	{ 10, 32 },	    /* WarpSize */
	{ 11, 2147483647 }, /* MaxPitch */
	{ 12, 65536 },	    /* MaxRegistersPerBlock */
	{ 14, 512 },	    /* TextureAlignment */
	{ 15, 1 },	    /* GpuOverlap */
	{ 19, 1 },	    /* CanMapHostMemory */
	{ 30, 512 },	    /* SurfaceAlignment */
	{ 31, 1 },	    /* ConcurrentKernels */
	{ 40, 3 },	    /* AsyncEngineCount */
	{ 41, 1 },	    /* UnifiedAddressing */
	{ 51, 32 },	    /* TexturePitchAlignment */
	{ 78, 1 },	    /* StreamPrioritiesSupported */
	{ 79, 1 },	    /* GlobalL1CacheSupported */
	{ 80, 1 },	    /* LocalL1CacheSupported */
	{ 82, 65536 },	    /* MaxRegistersPerMultiprocessor */
	{ 83, 1 },	    /* ManagedMemory */
	{ 90, 1 },	    /* ComputePreemptionSupported */
	{ 95, 1 },	    /* CooperativeLaunch */
	{ 99, 1 },	    /* HostRegisterSupported */
	{ 102, 1 },	    /* driver: VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	{ 111, 1 << 10 },   /* ReservedSharedMemoryPerBlock */
	{ 115, 1 },	    /* MemoryPoolsSupported */
};

/* What depends on the model; -1: not listed here either. */
static int of_model(int attribute, int device)
{
	const struct phantom_settings *settings = phantom_settings();
	const struct phantom_model *model = &settings->model;
	const struct phantom_architecture *arch = settings->architecture;

	switch (attribute) {
	case 13: /* ClockRate */
		return model->clock_khz;
	case 16: /* MultiProcessorCount */
		return model->multiprocessors;
	case 33: /* PciBusId */
		return settings->physical[device] + 1;
	case 36: /* MemoryClockRate */
		return model->memory_clock_khz;
	case 37: /* GlobalMemoryBusWidth */
		return model->bus_bits;
	case 38: /* L2CacheSize */
		return model->l2_bytes;
	case 39: /* MaxThreadsPerMultiProcessor */
		return arch->threads_per_multiprocessor;
	case 75: /* ComputeCapabilityMajor */
		return model->major;
	case 76: /* ComputeCapabilityMinor */
		return model->minor;
	case 81: /* MaxSharedMemoryPerMultiprocessor */
		return arch->shared_per_multiprocessor;
	case 97: /* MaxSharedMemoryPerBlockOptin */
		return arch->shared_per_block_optin;
	case 106: /* MaxBlocksPerMultiprocessor */
		return arch->blocks_per_multiprocessor;
	case 120: /* ClusterLaunch */
		return model->major >= 9;
	default:
		return -1;
	}
}

int phantom_attribute(int attribute, int device)
{
	int value = of_model(attribute, device);

	for (size_t i = 0; value < 0 && i < sizeof(fixed) / sizeof(*fixed); i++)
		if (fixed[i].attribute == attribute)
			value = fixed[i].value;
	return value < 0 ? 0 : value;
}
