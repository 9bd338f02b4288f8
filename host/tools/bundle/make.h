/* bundle/make.h - makes a program, a library or an object of a collection: writes sources, calls the compiler, and runs
 * the result once to get its packed weights. */
#ifndef BUNDLE_MAKE_H
#define BUNDLE_MAKE_H
#include "bundle/emit.h"

typedef enum bundle_kind { BUNDLE_PROGRAM, BUNDLE_LIBRARY, BUNDLE_OBJECT } bundle_kind;

/* Sizes of the file that bundle_make() has written. */
typedef struct bundle_made {
    uint64_t file_bytes, data_bytes, code_bytes, arena_bytes;
    uint64_t constant_bytes; /* of the model's constants */
    /* Bytes of the weights that a run reads, packed or as stored, at the level that needs most; 0: unknown. */
    uint64_t memory_bytes;
    bool declined;
    uint32_t pack_count;  /* in the program ... */
    uint32_t start_count; /* ... and packed when it starts */
    bool prepared;        /* first runs were possible: starts find their packed weights */
    const char *file;     /* the resulting file, in dir */
    const char *tried;    /* the program to test: one with the same contents as `file` */
    char node[128];       /* INLAY_UNSUPPORTED: the node that its provider cannot run, or "" ... */
    char op[64];          /* ... and its operator */
} bundle_made;

typedef struct bundle_job {
    const char *output;
    const char *name;      /* prefix of the functions; NULL: from the output's name */
    const char *target;    /* "x86_64-linux-gnu" */
    bool separate_weights; /* for wasm32: the weights are in a separate file */
    /* "avx2": smaller programs that use no newer instructions; "native": programs for CPUs of this kind only; NULL: all
     * instructions that a CPU has */
    const char *isa;
    bool uniform;    /* of a session with reproducible=cpu: the program has its kernels, and no others for floats */
    double size;     /* limit of constants and packed weights together, as a multiple of the constants */
    const char *cc;  /* NULL: the target's compiler */
    const char *dir; /* existing folder for sources and objects */
    bundle_kind kind;
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero cancels */
    /* Called once memory_bytes and constant_bytes are known; false: bundle_make() sets `declined` and fails with
     * INLAY_UNSUPPORTED. */
    bool (*accept)(void *user);
    void *user; /* argument of progress() and accept() */
    bundle_made made;
} bundle_job;

/* The target of this program. */
const char *bundle_native_target(void);
/* The highest instruction set that the program may use; NULL: the highest of its CPU. The environment variable
 * INLAY_ISA limits programs for this kind of CPU, since they are compared with a session of this process. "baseline"
 * limits all programs for this machine: their session must not have regions of cpu, which need AVX2. */
const char *bundle_limit(const bundle_job *job);
INLAY_NODISCARD inlay_status bundle_make(bundle_job *job, bundle_collection *collection, inlay_diag *diag);
/* Moves the result and its header to the paths that `output` gives. */
INLAY_NODISCARD inlay_status bundle_publish(const bundle_job *job, inlay_diag *diag);
/* Runs the resulting program, or one with the same parts for a library: inputs are "NAME=FILE.npy", outputs are written
 * to DIR/0.npy ... INLAY_UNSUPPORTED: this machine cannot run it. */
INLAY_NODISCARD inlay_status bundle_run_result(const bundle_job *job, char *const *inputs, uint32_t count,
                                               const char *dir, inlay_diag *diag);
#endif
