#pragma GCC visibility push(default)
#include "shim_abi.h"
#pragma GCC visibility pop

#include <errno.h>

#include "agent.h"
#include "digest.h"
#include "hooks.h"
#include "ledger.h"
#include "log.h"
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
