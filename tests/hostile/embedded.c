/*
 * embedded WAY FILE: runs a script in a Python inside this program.
 *
 *   embedded   as a file
 *   frozen     as a module that the program holds, as packagers make them
 *   twice      in one interpreter and, after its end, in another
 *
 * The functions are declared here, so that no header of Python's is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void Py_Initialize(void);
int Py_FinalizeEx(void);
int PyRun_SimpleFile(FILE *file, const char *name);
int PyRun_SimpleString(const char *text);

static int run_file(const char *path)
{
	FILE *file = fopen(path, "r");
	int error = !file || PyRun_SimpleFile(file, path);

	if (file)
		fclose(file);
	return error;
}

/* The script's text becomes part of the program, and then code in no file. */
static int run_frozen(const char *path)
{
	char text[4096], script[16384], *out = script;
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(text, 1, sizeof(text), file) : 0;

	if (file)
		fclose(file);
	out += sprintf(out, "import sys; sys.frozen = True\n"
			    "exec(compile(bytes([");
	for (size_t i = 0; i < n; i++)
		out += sprintf(out, "%u,", (unsigned char)text[i]);
	sprintf(out, "]), '<frozen __main__>', 'exec'))\n");
	return PyRun_SimpleString(script);
}

int main(int argc, char **argv)
{
	int error;

	if (argc < 3)
		return 2;
	Py_Initialize();
	error = strcmp(argv[1], "frozen") ? run_file(argv[2]) :
					    run_frozen(argv[2]);
	if (Py_FinalizeEx())
		return 3;
	if (strcmp(argv[1], "twice"))
		return error;
	Py_Initialize();
	PyRun_SimpleString("print('again')");
	return error || Py_FinalizeEx();
}
