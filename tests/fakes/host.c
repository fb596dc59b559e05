/*
 * A process that looks like a Python with torch to the preloaded library.
 *
 *   host LIBRARY STEP…
 *
 * LIBRARY is what stands for libc10 (see c10.c), loaded with local scope. The
 * steps: alloc and free (of one pointer), uninit, init and finalize (the
 * interpreter), full and room (its queue of pending calls), free-threaded (its
 * version), wait (longer than the library waits for the main thread), live
 * (print the agent's live bytes, whether its hooks are live, its number of
 * events). Pending calls are printed, never run.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef WITH_PYTHON
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT static __attribute__((unused))
#endif

static int initialized = 1, finalizing, full;
static const char *version = "3.14.0 (main)";

EXPORT int Py_IsInitialized(void);
EXPORT int Py_IsFinalizing(void);
EXPORT const char *Py_GetVersion(void);
EXPORT int Py_AddPendingCall(int (*call)(void *), void *data);
EXPORT int PyGILState_Ensure(void);
EXPORT void PyGILState_Release(int state);

int Py_IsInitialized(void)
{
	return initialized;
}

int Py_IsFinalizing(void)
{
	return finalizing;
}

const char *Py_GetVersion(void)
{
	return version;
}

/* In one piece: children say the same. */
static void say(const char *line)
{
	if (write(STDOUT_FILENO, line, strlen(line)) < 0)
		abort();
}

int Py_AddPendingCall(int (*call)(void *), void *data)
{
	(void)call;
	(void)data;
	say(full ? "full\n" : "scheduled\n");
	return full ? -1 : 0;
}

/* The thread that starts the shim in the main thread's place got this far. */
int PyGILState_Ensure(void)
{
	say("fallback\n");
	pause();
	return 0;
}

void PyGILState_Release(int state)
{
	(void)state;
}

/* Looked up, never called. */
EXPORT char PyErr_Fetch, PyErr_Restore, PyErr_Occurred, PyErr_Clear,
	PyErr_NormalizeException, PyErr_GivenExceptionMatches,
	PyImport_GetModuleDict, PyObject_GetAttrString, PyObject_Repr,
	PyObject_IsTrue, PyDict_New, PyDict_GetItemString, PyDict_SetItemString,
	PyEval_GetBuiltins, PyUnicode_DecodeFSDefault, PyUnicode_AsUTF8,
	Py_CompileString, PyEval_EvalCode, Py_DecRef, PyExc_KeyboardInterrupt;

static void *library;

static void *symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static void print_live(void)
{
	uint64_t (*live)(int) = (uint64_t(*)(int))symbol("ckptagent_live");
	uint64_t (*events)(void) = (uint64_t(*)(void))symbol("ckptagent_"
							     "events");
	int (*hooks)(void) = (int (*)(void))symbol("ckptagent_live_hooks");

	printf("live %llu %d %llu\n", (unsigned long long)live(0), hooks(),
	       (unsigned long long)events());
}

static void step(const char *name)
{
	void *ptr = (void *)0x1000;

	if (!strcmp(name, "alloc"))
		((void (*)(void *, size_t))dlsym(library, "fake_alloc"))(ptr,
									 64);
	else if (!strcmp(name, "free"))
		((void (*)(void *))dlsym(library, "fake_free"))(ptr);
	else if (!strcmp(name, "init"))
		initialized = 1;
	else if (!strcmp(name, "uninit"))
		initialized = 0;
	else if (!strcmp(name, "finalize"))
		finalizing = 1;
	else if (!strcmp(name, "full"))
		full = 1;
	else if (!strcmp(name, "room"))
		full = 0;
	else if (!strcmp(name, "free-threaded"))
		version = "3.14.0 free-threading build (main)";
	else if (!strcmp(name, "wait"))
		usleep(100000);
	else if (!strcmp(name, "live"))
		print_live();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	library = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return EXIT_FAILURE;
	}
	for (int i = 2; i < argc; i++)
		step(argv[i]);
	return EXIT_SUCCESS;
}
