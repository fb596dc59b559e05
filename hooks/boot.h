/*
 * Starting the shim inside the job's interpreter, without its help.
 *
 * The first allocator event of a process schedules a pending call; the main
 * thread runs it before its next statement. Where the main thread sits in C
 * for START_WAIT_MS (a join() while a worker trains), a short-lived thread
 * takes the interpreter's lock and does the same. While torch is still being
 * imported, the next event tries again.
 */
#ifndef CKPTAGENT_BOOT_H
#define CKPTAGENT_BOOT_H

/* An allocator event, on any thread. Cheap once the start is over. */
void boot_event(void);

/* The same where the caller holds a lock: a short-lived thread schedules. */
void boot_event_locked(void);

/* In the child of a fork, before anything else runs. */
void boot_after_fork(void);

#endif
