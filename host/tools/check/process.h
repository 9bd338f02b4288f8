/* check/process.h - what this process holds, as the kernel and the linker see it; what a plugin takes from malloc. */
#ifndef CHECK_PROCESS_H
#define CHECK_PROCESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct process_state {
    int threads;
    int files;
    long resident_kb;
} process_state;

/* From /proc/self; -1 where it cannot be read. */
process_state process_read_state(void);
/* Is any part of the file at path mapped? */
bool process_has_mapped(const char *path);

/* Symbols that the file needs and neither it nor the libraries that it names define, handle being its dlopen handle:
 * they come from the executable or from what others have loaded. Writes their names, cut to fit. */
uint32_t process_undefined(const char *path, void *handle, char *names, size_t bytes);

/* ------------------------------------------------------------------ heap.c
 *
 * The plugin's own calls of malloc and its like, seen by writing our functions into its table of imports. Libraries
 * that the plugin uses are not seen. */

typedef struct heap_counts {
    uint64_t calls;       /* of malloc, calloc, realloc, ... */
    uint64_t live_blocks; /* that were not freed yet */
    uint64_t live_bytes;
    uint64_t threads; /* calls of pthread_create */
} heap_counts;

/* Begins to look at the plugin whose dlopen handle that is. False: its imports cannot be rewritten. */
bool heap_watch(void *handle);
heap_counts heap_read_counts(void);
/* Forgets the blocks that are alive now: later looks don't show them. */
void heap_mark(void);
/* The call-th allocation from now fails; 0: none does. */
void heap_fail_at(uint64_t call);
/* Has the allocation that was to fail been reached? */
bool heap_has_failed(void);
/* The place in the plugin that most of the blocks since heap_mark come from (of its last allocation if all were freed),
 * as "0x1234" from the start of its file, for addr2line. "" = it never allocated. */
void heap_main_caller(char *text, size_t bytes);
#endif
