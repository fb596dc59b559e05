/* Programs whose arguments are steps: NAME, or NAME:VALUE. */
#ifndef STEPS_H
#define STEPS_H

#include <stdio.h>
#include <string.h>

/* What stands behind `name`, which ends with a colon; NULL: another step. */
static const char *value(const char *step, const char *name)
{
	size_t n = strlen(name);

	return strncmp(step, name, n) ? NULL : step + n;
}

static void step(const char *name);

/* What is printed comes out at once: others print as well. */
static void take_steps(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 1; i < argc; i++)
		step(argv[i]);
}

#endif
