/*
 * Linked with the library, as a set-user-ID program might be by mistake: prints
 * what it was told by its environment, and whether it counts.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

#include "../fakes/reporter.h"
#include "shim_abi.h"

int main(void)
{
	printf("%s %s\n", getauxval(AT_SECURE) ? "secure" : "plain",
	       ckptagent_setting("budget"));
	return 0;
}
