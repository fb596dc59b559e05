/* A program that needs nothing but libc. */
#include <stdio.h>

int main(void)
{
	puts("hello");
	return 0;
}
