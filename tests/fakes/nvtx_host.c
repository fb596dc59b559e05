/*
 * A process with NVTX in two of its libraries.
 *
 *   nvtx_host STEP…
 *
 * A step is CLIENT:VERB or CLIENT:VERB=TEXT (CLIENT is a or b): init (or
 * init=VERSION), push, wide, event, registered (in a domain), pop, domain-pop,
 * start, end and end-elsewhere (of what was started last; on a thread of its own),
 * mark. What each returns is printed. Other steps: open (print the thread's open
 * ranges, innermost first), live (whether the agent looks at any), number (give
 * the innermost range a number, print it), tool=PATH (set the variable), variable
 * (print it), extension, many=N (push N ranges at a).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx_abi.h"
#include "nvtx_client.h"
#include "shim_abi.h"

#define VARIABLE "NVTX_INJECTION64_PATH"

struct client {
#define CLIENT(result, name, arguments) result(*name) arguments;
	CLIENT_FUNCTIONS(CLIENT)
#undef CLIENT
};

#ifdef WITH_PYTHON
int Py_IsInitialized(void);

int Py_IsInitialized(void)
{
	return 1;
}
#endif

extern char **environ;

static struct client clients[2];
static void *domain;
static uint64_t started;
static struct client *elsewhere;

static void load(struct client *client, const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!library) {
		printf("%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
#define CLIENT(result, name, arguments) \
	client->name = (result(*) arguments)dlsym(library, "client_" #name);
	CLIENT_FUNCTIONS(CLIENT)
#undef CLIENT
}

static void *agent(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static size_t open_ranges(struct ckptagent_range *out, size_t n)
{
	size_t (*ranges)(struct ckptagent_range *, size_t) = (size_t(*)(
		struct ckptagent_range *, size_t))agent("ckptagent_ranges");

	return ranges ? ranges(out, n) : 0;
}

static void print_open(void)
{
	static struct ckptagent_range range[4096];
	size_t n = open_ranges(range, 4096);

	printf("open %zu:", n);
	for (size_t i = 0; i < n && i < 4; i++)
		printf(" [%s]", range[i].text);
	putchar('\n');
}

static void print_number(void)
{
	uint32_t (*number)(uint64_t) =
		(uint32_t(*)(uint64_t))agent("ckptagent_range_number");
	struct ckptagent_range range[1];

	open_ranges(range, 1);
	printf("number %u\n", number(range[0].id));
}

/* The job's environment, not what getenv says. */
static void print_variable(void)
{
	for (char **entry = environ; *entry; entry++)
		if (!strncmp(*entry, VARIABLE, strlen(VARIABLE)))
			printf("%s\n", *entry);
}

static void call_extension(void)
{
	void *library = dlopen(getenv(VARIABLE), RTLD_LAZY);
	int (*init)(const char *) = (int (*)(const char *))dlsym(
		library, "InitializeInjectionNvtxExtension");

	printf("extension %d\n", init("payload"));
}

static void *end_it(void *unused)
{
	elsewhere->end(started);
	return unused;
}

static void end_elsewhere(struct client *client)
{
	pthread_t thread;

	elsewhere = client;
	pthread_create(&thread, NULL, end_it, NULL);
	pthread_join(thread, NULL);
}

static void push_registered(struct client *client, const char *text)
{
	struct nvtx_attributes event = { 3, sizeof(event), .message_type = 3 };

	domain = client->domain("domain");
	event.message.registered = client->enter(domain, text);
	printf("push %d\n", client->domain_push(domain, &event));
}

static void push_event(struct client *client, const char *text)
{
	struct nvtx_attributes event = { 3, sizeof(event), .message_type = 1,
					 .message.narrow = text };

	printf("push %d\n", client->push_event(&event));
}

static void push_wide(struct client *client, const char *text)
{
	wchar_t wide[256];
	size_t n = 0;

	for (; text[n] && n < 255; n++)
		wide[n] = text[n] == '~' ? 0x20ac : (unsigned char)text[n];
	wide[n] = 0;
	printf("push %d\n", client->push_wide(wide));
}

static void client_step(struct client *client, const char *verb,
			const char *text)
{
	if (!strcmp(verb, "init"))
		printf("init %d\n", client->init(*text ? (uint32_t)atoi(text) :
							 3));
	else if (!strcmp(verb, "push"))
		printf("push %d\n", client->push(text));
	else if (!strcmp(verb, "wide"))
		push_wide(client, text);
	else if (!strcmp(verb, "event"))
		push_event(client, text);
	else if (!strcmp(verb, "registered"))
		push_registered(client, text);
	else if (!strcmp(verb, "pop"))
		printf("pop %d\n", client->pop());
	else if (!strcmp(verb, "domain-pop"))
		printf("pop %d\n", client->domain_pop(domain));
	else if (!strcmp(verb, "start"))
		printf("start %d\n", (started = client->start(text)) != 0);
	else if (!strcmp(verb, "end"))
		client->end(started);
	else if (!strcmp(verb, "end-elsewhere"))
		end_elsewhere(client);
	else if (!strcmp(verb, "mark"))
		client->mark(text);
}

static void step(char *text)
{
	char *value = strchr(text, '=');
	char name[64] = "";

	snprintf(name, sizeof(name), "%.*s",
		 (int)(value ? value - text : (long)strlen(text)), text);
	value = value ? value + 1 : "";
	if (name[0] && name[1] == ':')
		client_step(&clients[name[0] - 'a'], name + 2, value);
	else if (!strcmp(name, "open"))
		print_open();
	else if (!strcmp(name, "live"))
		printf("live %d\n",
		       ((int (*)(void))agent("ckptagent_ranges_live"))());
	else if (!strcmp(name, "number"))
		print_number();
	else if (!strcmp(name, "tool"))
		setenv(VARIABLE, value, 1);
	else if (!strcmp(name, "variable"))
		print_variable();
	else if (!strcmp(name, "extension"))
		call_extension();
	else if (!strcmp(name, "many"))
		for (int i = atoi(value); i > 0; i--)
			clients[0].push("many");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	load(&clients[0], "./tests/fakes/nvtx_client_a.so");
	load(&clients[1], "./tests/fakes/nvtx_client_b.so");
	for (int i = 1; i < argc; i++)
		step(argv[i]);
	return EXIT_SUCCESS;
}
