/* check/process.h - resources of this process, from /proc and the dynamic linker, and allocations of a plugin. */
#ifndef CHECK_PROCESS_H
#define CHECK_PROCESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct process_state {
    int threads;
    int files;
    long resident_kb;
    long mapped_kb; /* size of all mappings */
} process_state;

/* From /proc/self; -1 where it cannot be read. */
process_state process_read_state(void);
/* The same, but waits up to 0.2 s until there are not more threads than before: Linux lists a thread for a moment after
 * it was joined. */
process_state process_read_settled(const process_state *before);
/* The time for which this process works or waits for anything but a CPU, so that it does not depend on what else the
 * machine does: its CPU time, or if that is less, the time without that for which its threads waited for a CPU. */
typedef struct process_clock {
    double cpu_ms, idle_ms;
} process_clock;
process_clock process_clock_start(void);
/* Milliseconds since then. */
double process_clock_ms(const process_clock *start);
/* Counts the files in the working directory, which was empty when the group began, and removes them. Writes their
 * names, cut to fit. */
uint32_t process_take_files(char *names, size_t bytes);
/* Is any part of the file at path mapped? */
bool process_has_mapped(const char *path);

/* Was a part of the file at path compiled by rustc? Its allocator aborts the process when memory runs out. */
bool process_is_rust(const char *path);

/* Does the file at path import the function? */
bool process_imports(const char *path, const char *function);
/* Does the file at path export the symbol? */
bool process_exports(const char *path, const char *function);

/* Counts the undefined symbols of the file at path that neither it nor the libraries in its DT_NEEDED entries define,
 * so that they come from the executable or from other loaded libraries. handle: its dlopen handle. Writes their names,
 * cut to fit. */
uint32_t process_undefined(const char *path, void *handle, char *names, size_t bytes);

/* heap.c.
 *
 * Counts the calls of malloc and related functions in the plugin by patching its import table. Calls in libraries that
 * the plugin uses are not counted. */

typedef struct heap_counts {
    uint64_t calls;       /* of malloc, calloc, realloc, ... */
    uint64_t all_blocks;  /* not freed */
    uint64_t live_blocks; /* allocated after heap_mark() and not freed */
    uint64_t live_bytes;
    uint64_t threads; /* calls of pthread_create */
} heap_counts;

/* Patches the imports of the plugin with that dlopen handle. False: they cannot be patched. */
bool heap_watch(void *handle);
heap_counts heap_read_counts(void);
/* Excludes the blocks that are live now from later counts. */
void heap_mark(void);
/* Makes the call-th allocation from now fail; 0: none. */
void heap_fail_at(uint64_t call);
/* Has the allocation that heap_fail_at() chose been reached? */
bool heap_has_failed(void);
/* The call site in the plugin that allocated most of the live blocks since heap_mark() (if all are freed: the last
 * allocation), as an offset in its file ("0x1234") for addr2line. "" = it never allocated. */
void heap_main_caller(char *text, size_t bytes);
#endif
