/*
 * A 64-bit digest of bytes, for telling a recompute from its original.
 *
 * Not cryptographic. Equal bytes give equal digests (on machines of one byte
 * order); a single changed word always changes it, and so does exchanging two
 * unequal words, all but certainly. The formula:
 *
 *   The input is cut into lines of 8 words of 64 bits, the last one filled up
 *   with zeros. Lane j starts as (j + 1) * G and takes word j of each line:
 *       lane = rotl(lane, 23) + word
 *   After every 64th line, each lane is mixed. At the end
 *       h = mix(bytes), then for each lane in order: h = mix(h ^ lane)
 *   with  mix(x): x ^= x >> 32; x *= G; x ^= x >> 29; x *= G; x ^= x >> 32
 *   and   G = 0x9E3779B97F4A7C15.
 *
 * Every step is a bijection of the lane (or of h) when all else is the same:
 * hence a changed word cannot get lost. The rotation tells apart the lines
 * of a group of 64, the mixing tells apart groups.
 *
 * Any thread, no alignment needed, nothing allocated.
 */
#ifndef CKPTAGENT_DIGEST_H
#define CKPTAGENT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_LINE 64
#define DIGEST_GROUP 64 /* lines */
#define DIGEST_LANES 8
#define DIGEST_DIMENSIONS 64

uint64_t digest(const void *data, uint64_t bytes);

/*
 * A probe: the digest of one line in every `stride` bytes (at least
 * DIGEST_LINE) and of the last DIGEST_LINE bytes, with the number of all
 * bytes mixed in.
 */
uint64_t digest_probe(const void *data, uint64_t bytes, uint64_t stride);

/*
 * The digest of the elements in index order (the last index runs fastest):
 * that of the contiguous copy. `sizes` and `strides` count elements of
 * `itemsize` bytes. More than DIGEST_DIMENSIONS dimensions read as 0.
 */
uint64_t digest_strided(const void *data, uint32_t itemsize, uint32_t ndim,
			const int64_t *sizes, const int64_t *strides);

#endif
