/* bundle/maker.h - the state of making a bundle. make.c controls the steps; it calls make_first.c and make_packs.c,
 * which call make_parts.c, and all of them call make_tools.c. Private to this folder. */
#ifndef BUNDLE_MAKER_H
#define BUNDLE_MAKER_H
#include "base/memory.h"
#include "bundle/make.h"
#include <limits.h>

struct maker {
    bundle_job *job;
    bundle_collection *collection;
    bundle_names names;
    bundle_facts facts;
    char runtime_dir[PATH_MAX]; /* folder of the run-time part for the target */
    char log[PATH_MAX];         /* output of the tools and first runs */
    inlay_diag *diag;
    bool native;                /* for CPUs of this kind only */
    char script[PATH_MAX + 32]; /* of maker_emulator() */
};

/* make_tools.c: whether the program is for this machine. */
bool maker_is_native(const struct maker *maker);
bool maker_is_wasm(const struct maker *maker);
/* The target that another name of the architecture means, such as arm64; NULL: none. */
const char *maker_target_meant(const char *target);
/* Finds the folder of the run-time part for the target, relative to this program; false: it does not exist. */
bool maker_find_runtime(const char *target, char out[PATH_MAX]);
const char *maker_compiler(const struct maker *maker);
/* A tool of the target's binutils, in the collection's arena; NULL: out of memory. */
char *maker_tool(struct maker *maker, const char *tool);
/* Runs argv with its output in log; returns the exit code, 127 if the program was not found, -1 if it could not start.
 */
int maker_run(char *const *argv, const char *log);
/* Reports a program that ended with `code`, with its error message. */
inlay_status maker_failed(struct maker *maker, const char *what, const char *tool, int code);

/* Appends the archives of the run-time part; returns the new count. */
uint32_t maker_link_runtime(struct maker *maker, char **argv, uint32_t count);
/* Appends the arguments that redirect malloc() and related functions to the heap of bundles; returns the new count. */
uint32_t maker_wrap_heap(struct maker *maker, char **argv, uint32_t count);
/* The path of the output, with `suffix` in place of its own; NULL: out of memory. */
char *maker_path_beside(struct arena *arena, const bundle_job *job, const char *suffix);
/* "FOLDER/FILE" in the collection's arena; NULL: out of memory. */
char *maker_path(struct maker *maker, const char *folder, const char *file);
/* Opens a file in the job's folder. */
INLAY_NODISCARD inlay_status maker_write_file(struct maker *maker, const char *file, FILE **out);
INLAY_NODISCARD inlay_status maker_close_file(struct maker *maker, FILE *stream, const char *file);

/* make_parts.c: lists the parts of the providers, and marks those that the operators need; first runs show which
 * functions are needed. */
INLAY_NODISCARD inlay_status maker_find_needs(struct maker *maker);
/* Returns the part of that name; NULL: unknown. */
provider_part *maker_part(const struct maker *maker, const char *name);

/* make_first.c: writes the words of the command that runs programs of the target, or the result of the job if
 * `is_result`; returns their number, at most 2. The maker owns them. */
uint32_t maker_emulator(struct maker *maker, bool is_result, char **argv);
/* Number of instruction levels of the first runs. */
uint32_t maker_level_count(const struct maker *maker);
/* Runs the program `file` of the job's folder at one level. *out_again is set if it lacks parts, or constants that
 * packed weights were to replace: build it again, once all levels have run, and rerun. INLAY_UNSUPPORTED: a provider
 * cannot compile the job's node. */
INLAY_NODISCARD inlay_status maker_first_run(struct maker *maker, const char *file, uint32_t level, bool *out_again);

/* make_stubs.c: stubs.s, functions in place of excluded parts. In a first program they report their names. */
INLAY_NODISCARD inlay_status maker_write_stubs(struct maker *maker);

/* Marks excluded parts of kernels as needed unless the first runs, at these levels (bundle_level()), covered them;
 * count 0: no first runs. */
void maker_keep_untested(struct maker *maker, const uint64_t *levels, uint32_t count);

/* make_wasm.c: WebAssembly. Writes the assembly with the weights; separate: only reserves memory for them. */
INLAY_NODISCARD inlay_status maker_write_wasm_data(struct maker *maker, bool separate);
/* Size of a separate file of weights. */
uint64_t maker_weights_bytes(const struct maker *maker);
/* Links a module for load.mjs, or a program for run.mjs. */
INLAY_NODISCARD inlay_status maker_link_wasm(struct maker *maker, bool is_module, const char *output);
/* Writes the files beside the module: the declarations of types, and the separate weights. */
INLAY_NODISCARD inlay_status maker_write_beside(struct maker *maker);
INLAY_NODISCARD inlay_status maker_publish_wasm(const bundle_job *job, struct arena *arena, inlay_diag *diag);

/* make_packs.c: selects from the packed weights of `count` first runs. Packs that are equal at every level are used at
 * every level, others only at their level. The program includes as many as the job's size allows, first those that
 * replace their constant; the others are packed when it starts. Constants are excluded if all their packs are included,
 * unless CPUs differ in int8 GEMM in ways that this CPU cannot test. */
INLAY_NODISCARD inlay_status maker_read_reports(struct maker *maker, uint32_t count);
/* The program has all constants, also those that packed weights replace. */
void maker_keep_constants(struct maker *maker);
/* Sets the size of the arena from the reports of `count` runs of the program that includes its packs. */
INLAY_NODISCARD inlay_status maker_read_arena(struct maker *maker, uint32_t count);
#endif
