/*
 * What NVTX 3 agrees on with a tool that it loads, declared anew: the product is
 * built without CUDA's headers. Sources, in nvtx3/ of CUDA 12 and 13 (and of
 * github.com/NVIDIA/NVTX): nvtxDetail/nvtxTypes.h for tables and their indices,
 * nvToolsExt.h for messages and return values, nvtxDetail/nvtxExtTypes.h for
 * extensions.
 *
 * A library that contains NVTX is its client. At its first call it loads the
 * library that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2
 * there with a function that hands out its tables. A function table is an array
 * of addresses of the client's function pointers, which the tool overwrites; a
 * pointer that nobody has overwritten does nothing from then on.
 */
#ifndef CKPTAGENT_NVTX_ABI_H
#define CKPTAGENT_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* NVTX_VERSION: tables and messages are the same in 2 and 3. */
#define NVTX_OLDEST 2
#define NVTX_NEWEST 3

/* NVTX_NO_PUSH_POP_TRACKING: what push and pop return without a tool. */
#define NVTX_UNTRACKED (-2)

/* NvtxExportTableID */
enum nvtx_export {
	NVTX_EXPORT_CALLBACKS = 1,
	NVTX_EXPORT_VERSION = 3,
};

/* NvtxCallbackModule: 1 to 6. */
#define NVTX_MODULE_CORE 1
#define NVTX_MODULE_CORE2 5
#define NVTX_MODULES 7

/* Entries of the largest table, and room for more. */
#define NVTX_TABLE_MAX 64

typedef void nvtx_fn(void);
typedef const void *nvtx_export_fn(uint32_t table);

/* NvtxExportTableCallbacks; the table's size counts entries. */
struct nvtx_callbacks {
	size_t struct_size;
	int (*table)(int module, nvtx_fn ***(*out), unsigned int *size);
};

/* NvtxExportTableVersionInfo */
struct nvtx_version {
	size_t struct_size;
	uint32_t version;
	uint32_t reserved;
	void (*set_tool_version)(uint32_t version);
};

/* nvtxMessageType_t */
enum nvtx_message {
	NVTX_MESSAGE_NARROW = 1,
	NVTX_MESSAGE_WIDE = 2,
	NVTX_MESSAGE_REGISTERED = 3,
};

/* nvtxEventAttributes_t; NVTX_EVENT_ATTRIB_STRUCT_SIZE is its size. */
struct nvtx_attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	int32_t message_type;
	union {
		const char *narrow;
		const wchar_t *wide;
		const void *registered;
	} message;
};

#endif
