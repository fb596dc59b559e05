#include "digest.h"

#include <stdbool.h>
#include <string.h>

#define G UINT64_C(0x9E3779B97F4A7C15)
#define GROUP_BYTES (DIGEST_LINE * DIGEST_GROUP)

struct state {
	uint64_t lane[DIGEST_LANES];
	uint64_t lines;
};

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= G;
	x ^= x >> 29;
	x *= G;
	return x ^ x >> 32;
}

static void start(struct state *state)
{
	for (uint64_t j = 0; j < DIGEST_LANES; j++)
		state->lane[j] = (j + 1) * G;
	state->lines = 0;
}

/* Four lanes; where vectors are narrower, the compiler makes two of each. */
typedef uint64_t lanes __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) void
take_lines(uint64_t lane[DIGEST_LANES], const char *data, uint64_t lines)
{
	lanes low, high, word;

	memcpy(&low, lane, sizeof(low));
	memcpy(&high, lane + 4, sizeof(high));
	for (; lines > 0; lines--, data += DIGEST_LINE) {
		memcpy(&word, data, sizeof(word));
		low = (low << 23 | low >> 41) + word;
		memcpy(&word, data + sizeof(word), sizeof(word));
		high = (high << 23 | high >> 41) + word;
	}
	memcpy(lane, &low, sizeof(low));
	memcpy(lane + 4, &high, sizeof(high));
}

static void take_by_any(uint64_t *lane, const char *data, uint64_t lines)
{
	take_lines(lane, data, lines);
}

#if defined(__x86_64__) && !defined(DIGEST_BY_ANY)
__attribute__((target("avx2"))) static void
take_by_avx2(uint64_t *lane, const char *data, uint64_t lines)
{
	take_lines(lane, data, lines);
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define take_by_avx2 take_by_any

static bool has_avx2(void)
{
	return false;
}
#endif

static void take(struct state *state, const char *data, uint64_t lines)
{
	bool avx2 = has_avx2();

	while (lines > 0) {
		uint64_t n = DIGEST_GROUP - state->lines % DIGEST_GROUP;

		if (n > lines)
			n = lines;
		(avx2 ? take_by_avx2 : take_by_any)(state->lane, data, n);
		data += n * DIGEST_LINE;
		lines -= n;
		state->lines += n;
		if (state->lines % DIGEST_GROUP)
			continue;
		for (int j = 0; j < DIGEST_LANES; j++)
			state->lane[j] = mix(state->lane[j]);
	}
}

/* The last line, shorter than others. */
static void take_rest(struct state *state, const char *data, uint64_t bytes)
{
	char line[DIGEST_LINE] = { 0 };

	if (!bytes)
		return;
	memcpy(line, data, bytes);
	take(state, line, 1);
}

static void take_bytes(struct state *state, const char *data, uint64_t bytes)
{
	uint64_t whole = bytes - bytes % DIGEST_LINE;

	take(state, data, whole / DIGEST_LINE);
	take_rest(state, data + whole, bytes - whole);
}

static uint64_t finish(const struct state *state, uint64_t bytes)
{
	uint64_t h = mix(bytes);

	for (int j = 0; j < DIGEST_LANES; j++)
		h = mix(h ^ state->lane[j]);
	return h;
}

uint64_t digest(const void *data, uint64_t bytes)
{
	struct state state;

	start(&state);
	if (bytes)
		take_bytes(&state, data, bytes);
	return finish(&state, bytes);
}

uint64_t digest_probe(const void *data, uint64_t bytes, uint64_t stride)
{
	const char *from = data;
	struct state state;

	if (bytes <= DIGEST_LINE)
		return digest(data, bytes);
	if (stride < DIGEST_LINE)
		stride = DIGEST_LINE;
	start(&state);
	for (uint64_t at = 0; at < bytes - DIGEST_LINE;) {
		take(&state, from + at, 1);
		at = stride < bytes - at ? at + stride : bytes;
	}
	take(&state, from + bytes - DIGEST_LINE, 1);
	return finish(&state, bytes);
}

/* Elements in index order, a group's worth of bytes at a time. */
struct walk {
	struct state state;
	uint64_t bytes;
	uint32_t filled;
	char group[GROUP_BYTES];
};

static void walk_take(struct walk *walk, const char *data, uint64_t bytes)
{
	walk->bytes += bytes;
	if (!walk->filled) {
		uint64_t whole = bytes - bytes % DIGEST_LINE;

		take(&walk->state, data, whole / DIGEST_LINE);
		data += whole;
		bytes -= whole;
	}
	while (bytes > 0) {
		uint64_t n = GROUP_BYTES - walk->filled;

		if (n > bytes)
			n = bytes;
		memcpy(walk->group + walk->filled, data, n);
		walk->filled += n;
		data += n;
		bytes -= n;
		if (walk->filled < GROUP_BYTES)
			continue;
		take(&walk->state, walk->group, DIGEST_GROUP);
		walk->filled = 0;
	}
}

/* A copy of a constant size is one load and one store. */
#define GATHER(size) \
	for (uint64_t i = 0; i < n; i++) { \
		memcpy(to + i * (size), from + (int64_t)i * step, (size)); \
	}

/* n elements that lie `step` bytes apart; false: not a usual size. */
static bool gather(char *to, const char *from, uint64_t n, int64_t step,
		   uint32_t itemsize)
{
	switch (itemsize) {
	case 1:
		GATHER(1)
		return true;
	case 2:
		GATHER(2)
		return true;
	case 4:
		GATHER(4)
		return true;
	case 8:
		GATHER(8)
		return true;
	default:
		return false;
	}
}

/* Usual sizes divide a group, so its room is a whole number of elements. */
static uint64_t walk_gather(struct walk *walk, const char *from, uint64_t n,
			    int64_t step, uint32_t itemsize)
{
	uint64_t room = (GROUP_BYTES - walk->filled) / itemsize;

	if (n > room)
		n = room;
	if (!gather(walk->group + walk->filled, from, n, step, itemsize))
		return 0;
	walk->filled += n * itemsize;
	walk->bytes += n * itemsize;
	if (walk->filled == GROUP_BYTES) {
		take(&walk->state, walk->group, DIGEST_GROUP);
		walk->filled = 0;
	}
	return n;
}

static void walk_row(struct walk *walk, const char *data, uint32_t itemsize,
		     int64_t size, int64_t stride)
{
	int64_t step = stride * itemsize, i = 0;
	uint64_t n;

	if (stride == 1) {
		walk_take(walk, data, (uint64_t)size * itemsize);
		return;
	}
	while (i < size) {
		n = walk_gather(walk, data + i * step, (uint64_t)(size - i),
				step, itemsize);
		if (!n) {
			walk_take(walk, data + i * step, itemsize);
			n = 1;
		}
		i += (int64_t)n;
	}
}

/* The shape with dimensions of size 1 left out and joinable ones joined. */
struct shape {
	uint32_t ndim;
	int64_t size[DIGEST_DIMENSIONS], stride[DIGEST_DIMENSIONS];
};

static void simplify(struct shape *shape, uint32_t ndim, const int64_t *sizes,
		     const int64_t *strides)
{
	shape->ndim = 0;
	for (uint32_t d = 0; d < ndim; d++) {
		uint32_t last = shape->ndim - 1;

		if (sizes[d] == 1)
			continue;
		if (shape->ndim &&
		    shape->stride[last] == sizes[d] * strides[d]) {
			shape->size[last] *= sizes[d];
			shape->stride[last] = strides[d];
			continue;
		}
		shape->size[shape->ndim] = sizes[d];
		shape->stride[shape->ndim++] = strides[d];
	}
	if (shape->ndim)
		return;
	shape->ndim = 1;
	shape->size[0] = 1;
	shape->stride[0] = 1;
}

/* Row by row: count up the index of all dimensions but the last. */
static void walk_shape(struct walk *walk, const char *data, uint32_t itemsize,
		       const struct shape *shape)
{
	int64_t index[DIGEST_DIMENSIONS] = { 0 };
	int32_t last = (int32_t)shape->ndim - 1, d;

	do {
		walk_row(walk, data, itemsize, shape->size[last],
			 shape->stride[last]);
		for (d = last - 1; d >= 0; d--) {
			data += shape->stride[d] * itemsize;
			if (++index[d] < shape->size[d])
				break;
			data -= shape->size[d] * shape->stride[d] * itemsize;
			index[d] = 0;
		}
	} while (d >= 0);
}

uint64_t digest_strided(const void *data, uint32_t itemsize, uint32_t ndim,
			const int64_t *sizes, const int64_t *strides)
{
	struct shape shape;
	struct walk walk;

	if (ndim > DIGEST_DIMENSIONS)
		return 0;
	for (uint32_t d = 0; d < ndim; d++)
		if (sizes[d] <= 0)
			return digest(NULL, 0);
	simplify(&shape, ndim, sizes, strides);
	if (shape.ndim == 1 && shape.stride[0] == 1)
		return digest(data, (uint64_t)shape.size[0] * itemsize);
	start(&walk.state);
	walk.bytes = walk.filled = 0;
	walk_shape(&walk, data, itemsize, &shape);
	take_bytes(&walk.state, walk.group, walk.filled);
	return finish(&walk.state, walk.bytes);
}
