#include "python.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FILE_INPUT 257 /* Py_file_input */

/* The file is compiled by Python itself, which knows its encoding. */
#define START_TEXT \
	"with open(__file__, 'rb') as ckptagent_file:\n" \
	" exec(compile(ckptagent_file.read(), __file__, 'exec'))\n"

static void *symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int python_find(struct python *python)
{
	int found = 0, missing = 0;
	void *finalizing = symbol("Py_IsFinalizing");

	if (!finalizing)
		finalizing = symbol("_Py_IsFinalizing");
	python->Py_IsFinalizing = (int (*)(void))finalizing;
	python->PyExc_KeyboardInterrupt = symbol("PyExc_KeyboardInterrupt");
#define PYTHON(result, name, arguments) \
	python->name = (result(*) arguments)symbol(#name); \
	found += python->name != NULL; \
	missing += python->name == NULL;
	PYTHON_FUNCTIONS(PYTHON)
#undef PYTHON
	missing += !finalizing + !python->PyExc_KeyboardInterrupt;
	return !found ? -ESRCH : missing ? -ENOSYS : 0;
}

bool python_runs(const struct python *python)
{
	return python->Py_IsInitialized() && !python->Py_IsFinalizing();
}

bool python_is_free_threaded(const struct python *python)
{
	return strstr(python->Py_GetVersion(), "free-threading");
}

static bool true_attribute(const struct python *python, void *object,
			   const char *name)
{
	void *value = python->PyObject_GetAttrString(object, name);
	bool is_true = value && python->PyObject_IsTrue(value) == 1;

	python->PyErr_Clear();
	python->Py_DecRef(value);
	return is_true;
}

bool python_has_torch(const struct python *python)
{
	void *modules = python->PyImport_GetModuleDict();
	void *torch = python->PyDict_GetItemString(modules, "torch");
	void *spec;
	bool importing;

	if (!torch)
		return false;
	spec = python->PyObject_GetAttrString(torch, "__spec__");
	python->PyErr_Clear();
	if (!spec)
		return false;
	importing = true_attribute(python, spec, "_initializing");
	python->Py_DecRef(spec);
	return !importing;
}

static int set_text(const struct python *python, void *names, const char *name,
		    const char *text)
{
	void *value = python->PyUnicode_DecodeFSDefault(text);
	int error = value ? python->PyDict_SetItemString(names, name, value) :
			    -1;

	python->Py_DecRef(value);
	return error;
}

static void *namespace(const struct python *python, const char *path,
		       const char *library)
{
	void *names = python->PyDict_New();

	if (names &&
	    !python->PyDict_SetItemString(names, "__builtins__",
					  python->PyEval_GetBuiltins()) &&
	    !set_text(python, names, "__name__", "ckptagent_sitecustomize") &&
	    !set_text(python, names, "__file__", path) &&
	    !set_text(python, names, "__ckptagent_library__", library))
		return names;
	python->Py_DecRef(names);
	return NULL;
}

static bool is_set(const struct python *python, void *names, const char *name)
{
	void *value = names ? python->PyDict_GetItemString(names, name) : NULL;

	return value && python->PyObject_IsTrue(value) == 1;
}

/* 0 or 1 as python_run(), -1 with an exception pending. */
static int run(const struct python *python, void *names)
{
	void *code = python->Py_CompileString(START_TEXT, "<ckptagent>",
					      FILE_INPUT);
	void *result = code ? python->PyEval_EvalCode(code, names, names) :
			      NULL;

	python->Py_DecRef(code);
	if (!result)
		return -1;
	python->Py_DecRef(result);
	return is_set(python, names, "ckptagent_again");
}

/* The pending exception as one line, and gone unless it is for the job. */
static void explain(const struct python *python, void *names, char *why,
		    unsigned long why_size)
{
	void *type = NULL, *value = NULL, *traceback = NULL, *text;
	const char *utf8;

	python->PyErr_Fetch(&type, &value, &traceback);
	python->PyErr_NormalizeException(&type, &value, &traceback);
	text = value ? python->PyObject_Repr(value) : NULL;
	utf8 = text ? python->PyUnicode_AsUTF8(text) : NULL;
	snprintf(why, why_size, "%s", utf8 ? utf8 : "unknown error");
	python->PyErr_Clear();
	python->Py_DecRef(text);
	python->Py_DecRef(traceback);
	if (type &&
	    (is_set(python, names, "ckptagent_raised") ||
	     python->PyErr_GivenExceptionMatches(
		     type, *python->PyExc_KeyboardInterrupt))) {
		python->PyErr_Restore(type, value, NULL);
		return;
	}
	python->Py_DecRef(type);
	python->Py_DecRef(value);
}

int python_run(const struct python *python, const char *path,
	       const char *library, char *why, unsigned long why_size)
{
	void *names = namespace(python, path, library);
	int result = names ? run(python, names) : -1;

	if (result < 0)
		explain(python, names, why, why_size);
	python->Py_DecRef(names);
	return result;
}
