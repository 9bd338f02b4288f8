/* bundle/maker.h - a bundle while it is made. make.c has the order of the work; it calls make_first.c and make_packs.c,
 * these make_parts.c, and all of them make_tools.c. Private to this folder. */
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
    char parts[PATH_MAX];
    char log[PATH_MAX];
    inlay_diag *diag;
    bool native; /* for CPUs of this one's kind alone */
};

/* make_tools.c: is the program for this machine? */
bool maker_is_native(const struct maker *maker);
/* The folder of the run-time part for the target, relative to this program. */
bool maker_find_parts(const char *target, char out[PATH_MAX]);
const char *maker_compiler(const struct maker *maker);
/* A tool of the target's binutils, in the collection's arena; NULL: no memory. */
char *maker_tool(struct maker *maker, const char *tool);
/* Runs argv with its output in log; the exit code, 127 where there is no such program, -1 where it could not be run. */
int maker_run(char *const *argv, const char *log);
/* The error of a program that ended with `code`, with what it said last. */
inlay_status maker_failed(struct maker *maker, const char *what, const char *tool, int code);

/* "FOLDER/FILE" in the collection's arena; NULL: no memory. */
char *maker_path(struct maker *maker, const char *folder, const char *file);
/* A file in the job's folder. */
INLAY_NODISCARD inlay_status maker_write_file(struct maker *maker, const char *file, FILE **out);
INLAY_NODISCARD inlay_status maker_close_file(struct maker *maker, FILE *f, const char *file);

/* make_parts.c: which parts of the providers there are, and which the operators need; what functions are needed shows
 * in the first runs. */
INLAY_NODISCARD inlay_status maker_find_needs(struct maker *maker);
/* NULL: there is none of that name. */
bundle_part_of *maker_part(const struct maker *maker, const char *name);

/* make_first.c: the program that starts the target's programs; NULL: none is needed. */
const char *maker_emulator(const struct maker *maker);
/* At how many levels of instructions the program is run first. */
uint32_t maker_level_count(const struct maker *maker);
/* Runs the program `file` of the job's folder at one of them. *out_again is set where it lacks parts: it is to be built
 * once more, and run again. INLAY_UNSUPPORTED: the job's node cannot be compiled. */
INLAY_NODISCARD inlay_status maker_first_run(struct maker *maker, const char *file, uint32_t level, bool *out_again);

/* stubs.s: what stands for parts of kernels in a first program that is without them. It goes on, and names itself. */
INLAY_NODISCARD inlay_status maker_write_stubs(struct maker *maker);

/* What was left out of kernels and cannot be known not to be needed, for first runs were at these levels
 * (bundle_level()) alone; count 0: there were none. */
void maker_keep_untried(struct maker *maker, const uint64_t *levels, uint32_t count);

/* make_packs.c: takes over what `count` first runs wrote. Packs that are the same at every level count for all of them,
 * the others for their own. As many stay in the program as the job's size allows, those first that stand for what they
 * were made of; the others are made when it starts. Constants are left out whose packs are all there, but where CPUs
 * differ in products of bytes in ways that this one cannot try. */
INLAY_NODISCARD inlay_status maker_read_accounts(struct maker *maker, uint32_t count);
/* The arena of a program with its packs, from runs of it. */
INLAY_NODISCARD inlay_status maker_read_arena(struct maker *maker, uint32_t count);
#endif
