/* bundle/make.h - from a collection to a program, a library or an object: writes sources, calls the compiler, and runs
 * what it made once to see what it packs. */
#ifndef BUNDLE_MAKE_H
#define BUNDLE_MAKE_H
#include "bundle/emit.h"

typedef enum bundle_kind { BUNDLE_PROGRAM, BUNDLE_LIBRARY, BUNDLE_OBJECT } bundle_kind;

typedef struct bundle_job {
    const char *output;
    const char *name;   /* of the functions; NULL: the output's */
    const char *target; /* "x86_64-linux-gnu" */
    const char *isa; /* "avx2": programs that are smaller and use no more; "native": that run on CPUs of this one's kind
                        alone; NULL: what each CPU has */
    double size;     /* bytes of constants and packs together, as a multiple of the constants' */
    const char *cc;  /* NULL: the target's */
    const char *dir; /* where sources and objects are made; there */
    bundle_kind kind;
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    /* Called once memory_bytes and constant_bytes are known; false: INLAY_UNSUPPORTED, and `declined`. */
    bool (*accept)(void *user);
    void *user; /* of both */
    /* Out */
    uint64_t file_bytes, data_bytes, code_bytes, arena_bytes;
    uint64_t constant_bytes; /* of the model's constants */
    /* Of the weights that a run reads, packed or as stored, at the level that needs most; 0: not known. */
    uint64_t memory_bytes;
    bool declined;
    uint32_t pack_count;  /* in the program ... */
    uint32_t start_count; /* ... and made when it starts */
    bool prepared;        /* it was run while it was made: starts find their packs */
    const char *made;     /* the file, in dir */
    const char *tried;    /* a program of what was made */
    char node[128];       /* INLAY_UNSUPPORTED: the node that its provider cannot run, or "" ... */
    char op[64];          /* ... and its operator */
} bundle_job;

/* The target that this program was made for. */
const char *bundle_native_target(void);
INLAY_NODISCARD inlay_status bundle_make(bundle_job *job, bundle_collection *collection, inlay_diag *diag);
/* Puts what was made, and its header, into the places that `output` names. */
INLAY_NODISCARD inlay_status bundle_publish(const bundle_job *job, inlay_diag *diag);
/* Runs the program that was made, or one of the same parts where a library was: inputs are "NAME=FILE.npy", outputs go
 * to DIR/0.npy ... INLAY_UNSUPPORTED: nothing here can run it. */
INLAY_NODISCARD inlay_status bundle_try(const bundle_job *job, char *const *inputs, uint32_t count, const char *dir,
                                        inlay_diag *diag);
#endif
