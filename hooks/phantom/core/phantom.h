/*
 * What all parts of the phantom device share.
 *
 * libphantomcore.so (this folder) keeps the books and knows no foreign name;
 * the stub libraries (cudart, cuda, libraries) have NVIDIA's names and ask it.
 * Its functions return 0 or a negative errno code; the stubs turn those into
 * the codes of their library. All are safe to call from any thread.
 */
#ifndef PHANTOM_H
#define PHANTOM_H

/* A function that another library of the phantom, or torch, calls. */
#define PHANTOM_API __attribute__((visibility("default")))

#define PHANTOM_DEVICES_MAX 16

/* The grain of device memory: what the smallest allocation takes. */
#define PHANTOM_GRAIN ((size_t)2 << 20)

#endif
