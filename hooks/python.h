/*
 * The interpreter of the process, as far as the agent calls it. Its functions
 * are looked up in the running process; only those of the stable ABI and a
 * few that every version from 3.9 has.
 */
#ifndef CKPTAGENT_PYTHON_H
#define CKPTAGENT_PYTHON_H

#include <stdbool.h>

/* PYTHON(result, name, arguments): all of them must be there. */
#define PYTHON_FUNCTIONS(PYTHON) \
	PYTHON(int, Py_IsInitialized, (void)) \
	PYTHON(const char *, Py_GetVersion, (void)) \
	PYTHON(int, Py_AddPendingCall, (int (*call)(void *), void *data)) \
	PYTHON(int, PyGILState_Ensure, (void)) \
	PYTHON(void, PyGILState_Release, (int state)) \
	PYTHON(void, PyErr_Fetch, (void **type, void **value, void **tb)) \
	PYTHON(void, PyErr_Restore, (void *type, void *value, void *tb)) \
	PYTHON(void, PyErr_Clear, (void)) \
	PYTHON(void, PyErr_NormalizeException, \
	       (void **type, void **value, void **tb)) \
	PYTHON(int, PyErr_GivenExceptionMatches, (void *e, void *type)) \
	PYTHON(void *, PyErr_Occurred, (void)) \
	PYTHON(void *, PyImport_GetModuleDict, (void)) \
	PYTHON(void *, PyObject_GetAttrString, (void *o, const char *n)) \
	PYTHON(void *, PyObject_Repr, (void *object)) \
	PYTHON(int, PyObject_IsTrue, (void *object)) \
	PYTHON(void *, PyDict_New, (void)) \
	PYTHON(void *, PyDict_GetItemString, (void *d, const char *key)) \
	PYTHON(int, PyDict_SetItemString, (void *d, const char *k, void *v)) \
	PYTHON(void *, PyEval_GetBuiltins, (void)) \
	PYTHON(void *, PyUnicode_DecodeFSDefault, (const char *text)) \
	PYTHON(const char *, PyUnicode_AsUTF8, (void *text)) \
	PYTHON(void *, Py_CompileString, \
	       (const char *text, const char *file, int start)) \
	PYTHON(void *, PyEval_EvalCode, (void *code, void *g, void *l)) \
	PYTHON(void, Py_DecRef, (void *object))

struct python {
#define PYTHON(result, name, arguments) result(*name) arguments;
	PYTHON_FUNCTIONS(PYTHON)
#undef PYTHON
	void **PyExc_KeyboardInterrupt;

	/* Public since 3.13, with an underscore before. */
	int (*Py_IsFinalizing)(void);
};

/* 0; -ESRCH: this process has no Python; -ENOSYS: not one that we know. */
int python_find(struct python *python);

/* Whether Python code can run: started, and not about to end. */
bool python_runs(const struct python *python);

/* An interpreter without the global lock, which the agent does not know. */
bool python_is_free_threaded(const struct python *python);

/* Whether torch was imported to its end. The caller holds the lock. */
bool python_has_torch(const struct python *python);

/*
 * Run the file `path` in a namespace of its own, in which the name
 * __ckptagent_library__ is `library`. The caller holds the lock. 0; 1: the file
 * asks to be run again later (it set ckptagent_again); -1: it failed, and `why`
 * holds one line. An exception is left pending only if it was meant for the job: an
 * interrupt that arrived meanwhile, or what the file calls so (ckptagent_raised).
 */
int python_run(const struct python *python, const char *path,
	       const char *library, char *why, unsigned long why_size);

#endif
