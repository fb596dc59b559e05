/*
 * A CUPTI that writes records of made-up launches and prints the calls which
 * change it. The variable FAKE_CUPTI makes it
 *
 *   taken      have a subscriber already
 *   version=N  of another version
 *   refuse=N   refuse to record activities of kind N
 *   keeps      ask for the next buffer when it has handed over the last
 *   late       keep every buffer back at a flush
 *   untimed    have no room for times on the device
 *   mixed      write times before the regions that they belong to
 *
 * Without POP it has no cuptiActivityPopExternalCorrelationId.
 */
#include "cupti.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS 64
#define STACK 16
#define KERNEL_BYTES 208
#define COPY_BYTES 96
#define API_BYTES 40
#define EXTERNAL_BYTES 24
#define REFUSED 10

static struct {
	uint8_t *data;
	size_t size, used;
} buffers[BUFFERS];
static int filled;

static cupti_requested_fn *requested;
static cupti_completed_fn *completed;
static bool enabled[64];
static bool subscribed;
static uint64_t stack[STACK];
static int depth;
static size_t dropped;
static uint32_t correlation = 1000;

static const char *told(const char *name)
{
	const char *text = getenv("FAKE_CUPTI");

	return text && !strncmp(text, name, strlen(name)) ?
		       text + strlen(name) :
		       NULL;
}

int cuptiGetVersion(uint32_t *version)
{
	const char *other = told("version=");

	*version = other ? (uint32_t)strtoul(other, NULL, 10) : VERSION;
	return CUPTI_SUCCESS;
}

int cuptiSubscribe(void **subscriber, void *callback, void *data)
{
	(void)callback;
	(void)data;
	if (subscribed || told("taken"))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	subscribed = true;
	*subscriber = &subscribed;
	return CUPTI_SUCCESS;
}

int cuptiUnsubscribe(void *subscriber)
{
	subscribed &= subscriber != &subscribed;
	return CUPTI_SUCCESS;
}

int cuptiActivityRegisterCallbacks(cupti_requested_fn *request,
				   cupti_completed_fn *complete)
{
	printf("register\n");
	requested = request;
	completed = complete;
	return CUPTI_SUCCESS;
}

int cuptiActivityEnable(uint32_t kind)
{
	const char *refused = told("refuse=");

	if (refused && strtoul(refused, NULL, 10) == kind)
		return REFUSED;
	printf("enable %u\n", kind);
	enabled[kind] = true;
	return CUPTI_SUCCESS;
}

int cuptiActivityDisable(uint32_t kind)
{
	printf("disable %u\n", kind);
	enabled[kind] = false;
	return CUPTI_SUCCESS;
}

void fake_deliver(void)
{
	for (int i = 0; i < filled; i++)
		completed(NULL, 0, buffers[i].data, buffers[i].size,
			  buffers[i].used);
	filled = 0;
}

static void new_buffer(void)
{
	size_t most;

	requested(&buffers[filled].data, &buffers[filled].size, &most);
	buffers[filled].used = 0;
	filled += buffers[filled].data != NULL;
}

int cuptiActivityFlushAll(uint32_t flag)
{
	printf("flush %u\n", flag);
	if (!told("late"))
		fake_deliver();
	if (told("keeps"))
		new_buffer();
	return CUPTI_SUCCESS;
}

static size_t bytes_of(uint32_t kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return KERNEL_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return COPY_BYTES;
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		return API_BYTES;
	}
	return EXTERNAL_BYTES;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *next = *record;

	next = next ? next + bytes_of(*(uint32_t *)next) : buffer;
	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = next;
	return CUPTI_SUCCESS;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream,
				      size_t *count)
{
	(void)context;
	(void)stream;
	*count = dropped;
	dropped = 0;
	return CUPTI_SUCCESS;
}

int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id)
{
	(void)kind;
	stack[depth++] = id;
	return CUPTI_SUCCESS;
}

#ifdef POP
int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last)
{
	(void)kind;
	if (!depth)
		return REFUSED;
	depth--;
	if (last)
		*last = stack[depth];
	return CUPTI_SUCCESS;
}
#endif

void fake_stack(void)
{
	printf("stack %d\n", depth);
}

/* The record to fill, or NULL where there is no room. */
static uint8_t *record(uint32_t kind)
{
	size_t bytes = bytes_of(kind);
	uint8_t *at;
	int before = filled;

	if (!enabled[kind])
		return NULL;
	if (!filled || buffers[filled - 1].size - buffers[filled - 1].used <
			       bytes) {
		new_buffer();
		if (filled == before) {
			dropped++;
			return NULL;
		}
	}
	at = buffers[filled - 1].data + buffers[filled - 1].used;
	buffers[filled - 1].used += bytes;
	memset(at, 0, bytes);
	memcpy(at, &kind, sizeof(kind));
	return at;
}

static void link_record(void)
{
	static const uint32_t kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
	uint8_t *at = depth ? record(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) :
			      NULL;

	if (!at)
		return;
	memcpy(at + CUPTI_EXTERNAL_KIND, &kind, sizeof(kind));
	memcpy(at + CUPTI_EXTERNAL_ID, &stack[depth - 1], sizeof(*stack));
	memcpy(at + CUPTI_EXTERNAL_CORRELATION, &correlation,
	       sizeof(correlation));
}

static void span_record(uint32_t kind, size_t where, uint64_t nanoseconds)
{
	uint64_t start = told("untimed") ? 0 : 5000000;
	uint64_t end = start ? start + nanoseconds : 0;
	uint8_t *at = record(kind);

	if (!at)
		return;
	memcpy(at + CUPTI_START, &start, sizeof(start));
	memcpy(at + CUPTI_END, &end, sizeof(end));
	memcpy(at + where, &correlation, sizeof(correlation));
}

static void call(uint32_t kind, size_t where, uint64_t nanoseconds)
{
	correlation++;
	if (told("mixed"))
		span_record(kind, where, nanoseconds);
	link_record();
	record(CUPTI_ACTIVITY_KIND_RUNTIME);
	if (!told("mixed"))
		span_record(kind, where, nanoseconds);
}

void fake_launch(uint64_t nanoseconds)
{
	call(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_KERNEL_CORRELATION,
	     nanoseconds);
}

void fake_copy(uint64_t nanoseconds)
{
	call(CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_COPY_CORRELATION, nanoseconds);
}
