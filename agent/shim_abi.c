#pragma GCC visibility push(default)
#include "shim_abi.h"
#pragma GCC visibility pop

#include <errno.h>

#include "agent.h"
#include "cupti.h"
#include "digest.h"
#include "hooks.h"
#include "ledger.h"
#include "log.h"
#include "range_bytes.h"
#include "range_names.h"
#include "ranges.h"
#include "taken.h"
#include "tape.h"

int ckptagent_abi(void)
{
	return CKPTAGENT_ABI;
}

const char *ckptagent_setting(const char *name)
{
	return agent_setting(name);
}

void ckptagent_log(const char *level, const char *line)
{
	int named = log_level_named(level);

	log_line(named < 0 ? LOG_ERROR : (enum log_level)named, line);
}

int ckptagent_live_hooks(void)
{
	return agent_on() && hook_c10_cpu_live();
}

int ckptagent_live_cuda_hooks(void)
{
	return agent_on() && (hook_c10_cuda_live() || hook_cudart_live());
}

int ckptagent_live_cudart_hooks(void)
{
	return agent_on() && hook_cudart_is_shared();
}

uint64_t ckptagent_live(int device)
{
	return ledger_live(device);
}

uint64_t ckptagent_peak(int device)
{
	return ledger_peak(device);
}

void ckptagent_peak_reset(int device)
{
	ledger_peak_reset(device);
}

uint64_t ckptagent_events(void)
{
	return ledger_events();
}

uint64_t ckptagent_unknown_frees(void)
{
	return ledger_unknown_frees();
}

uint64_t ckptagent_cached(int cuda)
{
	return taken_cached(cuda);
}

uint64_t ckptagent_outside(int cuda)
{
	return taken_outside(cuda);
}

uint64_t ckptagent_taken(int cuda)
{
	return taken_live(cuda);
}

uint64_t ckptagent_taken_peak(int cuda)
{
	return taken_peak(cuda);
}

void ckptagent_taken_peak_reset(int cuda)
{
	taken_peak_reset(cuda);
}

void ckptagent_reserved(int cuda, uint64_t bytes)
{
	taken_reserved(cuda, bytes);
}

void ckptagent_sizes(size_t n, const uint64_t *addresses, uint64_t *bytes)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = ledger_size(addresses[i]);
}

uint32_t ckptagent_block(uint32_t block)
{
	return ledger_block(block);
}

uint64_t ckptagent_block_live(uint32_t block)
{
	return ledger_block_live(block);
}

int ckptagent_ranges_live(void)
{
	return agent_on() && hook_nvtx_live();
}

size_t ckptagent_ranges(struct ckptagent_range *out, size_t n)
{
	return ranges_open(out, n);
}

uint32_t ckptagent_range_number(uint64_t id)
{
	return ranges_number(id);
}

void ckptagent_range_bytes(int device, size_t n,
			   struct ckptagent_range_bytes *out)
{
	bool cuda = device >= LEDGER_CUDA && device < LEDGER_CACHED;
	int others = LEDGER_OUTSIDE + device - LEDGER_CUDA;

	for (uint32_t i = 0; i < n; i++) {
		out[i] = (struct ckptagent_range_bytes){ 0 };
		if (!i || i >= RANGES_NAMES || !range_names_any() ||
		    (device && !cuda))
			continue;
		out[i].openings = range_names_openings(i);
		out[i].tensors = range_bytes_at_peak(device, i);
		if (cuda)
			out[i].outside = range_bytes_at_peak(others, i);
	}
}

void ckptagent_tape_begin(int device)
{
	if (ledger_tape_begin(device) == -ENOMEM)
		agent_stand_down("no memory for the tape");
}

int ckptagent_mark(uint32_t mark, int32_t call)
{
	return tape_mark(mark, call);
}

void ckptagent_tape_end(void)
{
	tape_end();
}

int ckptagent_tape_full(void)
{
	return tape_full();
}

void ckptagent_watch(size_t n, const uint64_t *addresses, int32_t *ids)
{
	for (size_t i = 0; i < n; i++)
		ids[i] = ledger_watch(addresses[i]);
}

size_t ckptagent_segments(struct ckptagent_segment *out, size_t n)
{
	return tape_segments(out, n);
}

size_t ckptagent_storages(struct ckptagent_storage *out, size_t n)
{
	return tape_storages(out, n);
}

int ckptagent_cupti_begin(char *why, size_t why_bytes)
{
	return cupti_begin(why, why_bytes);
}

uint64_t ckptagent_cupti_enter(void)
{
	return cupti_enter();
}

void ckptagent_cupti_leave(uint64_t region)
{
	cupti_leave(region);
}

int ckptagent_cupti_end(size_t n, const uint64_t *regions,
			uint64_t *nanoseconds, char *why, size_t why_bytes)
{
	return cupti_end(n, regions, nanoseconds, why, why_bytes);
}

void ckptagent_digests(size_t n, const uint64_t *addresses,
		       const uint64_t *bytes, uint64_t stride, uint64_t *out)
{
	for (size_t i = 0; i < n; i++) {
		const void *data = (const void *)(uintptr_t)addresses[i];

		out[i] = stride ? digest_probe(data, bytes[i], stride) :
				  digest(data, bytes[i]);
	}
}

uint64_t ckptagent_digest_strided(uint64_t address, uint32_t itemsize,
				  uint32_t ndim, const int64_t *sizes,
				  const int64_t *strides)
{
	return digest_strided((const void *)(uintptr_t)address, itemsize, ndim,
			      sizes, strides);
}
