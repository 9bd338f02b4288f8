/* bundle/emit.h - writes a collection as C: the header with the model's names, the source with its tables, and the
 * constants. */
#ifndef BUNDLE_EMIT_H
#define BUNDLE_EMIT_H
#include "bundle/collect.h"
#include <stdio.h>

/* Weights that a provider packed in a first run. */
typedef struct bundle_pack_entry {
    uint64_t key[2];
    uint64_t bytes, offset;
    bool kept; /* in the program; otherwise packed when it starts */
} bundle_pack_entry;
/* Results of the first runs: the packed weights, the memory of a start, and the constants that are not read. */
typedef struct bundle_facts {
    bundle_pack_entry *packs; /* [pack_count] sorted by key; offsets in the file of packs */
    uint32_t pack_count;
    uint32_t packs_levels; /* see bundle_model */
    uint64_t packs_bytes;
    uint64_t arena_bytes; /* 0: unknown */
    bool first;           /* the program is for its first run: it reports the excluded parts that it calls */
    uint32_t only_level;  /* see bundle_model */
    /* [part_count][value_count] 1 = packed weights replace the constant, 2 = a kernel reads it; NULL: unknown */
    uint8_t **unread;
    bool drops;       /* constants are excluded */
    uint32_t **value; /* out, with the source: [part_count][value_count] index of a value in the source */
    uint32_t *values; /* out: [part_count] number of values in the source */
} bundle_facts;

typedef struct bundle_names {
    const char *name;    /* prefix of the bundle's functions, a C identifier ... */
    const char *api;     /* ... and their prefix in the header for the user */
    const char **inputs; /* C identifiers of the model's inputs and outputs */
    const char **outputs;
    struct provider_part *parts; /* the parts that programs can exclude, and whether this one needs them */
    uint32_t part_count;
    bool has_reference, has_cpu;
    bool uniform;     /* see bundle_job */
    bool in_assembly; /* stubs of excluded functions are not in the source, but in assembly (make_stubs.c) */
    const char *isa;  /* "avx2" or "baseline": the highest instruction level; NULL: that of the CPU */
} bundle_names;

/* The kinds of a line in parts.txt. TABLE: a kernel table of the provider reference. FAMILY: a kernel family of cpu.
 * The others: see runtime/merge.sh. */
typedef enum provider_part_kind {
    PART_TABLE,
    PART_FAMILY,
    PART_SET,
    PART_FUNCTION,
    PART_BASELINE,
    PART_LEVEL,
    PART_KERNEL,
    PART_BY_DATA /* no part: the first letters of names of kernels */
} provider_part_kind;
typedef struct provider_part {
    provider_part_kind kind;
    bool needed;
    char name[64];
    const char *signature; /* of a function for WebAssembly, see runtime/wasm/objects.mjs; NULL: none */
} provider_part;

/* Makes unique C identifiers from the model's names and from `api`, the name that the user chose. `api` may be any
 * name, because the sources use a separate prefix. The collection owns the memory. false: out of memory. */
bool bundle_name(bundle_collection *collection, const char *api, bundle_names *out);

/* Writes a string literal of C. */
void bundle_write_text(FILE *to, const char *text, uint64_t bytes);

/* The C type of the elements; NULL: none. */
const char *bundle_c_type(inlay_dtype dtype);
/* "const float x[1][3], float y[1][2]": the parameters of the function that runs the model. */
void bundle_write_parameters(FILE *to, const struct graph *graph, const bundle_names *names);

/* Write the three files. The header's functions begin with `name`. The source includes bundle.h, and its symbol
 * NAME_data points to the contents of `data`. The caller checks ferror(). */
INLAY_NODISCARD inlay_status bundle_emit_header(FILE *to, const bundle_collection *collection,
                                                const bundle_names *names, const char *name, const bundle_facts *facts,
                                                inlay_diag *diag);
INLAY_NODISCARD inlay_status bundle_emit_source(FILE *to, FILE *data, bundle_collection *collection,
                                                const bundle_names *names, bundle_facts *facts, inlay_diag *diag);

/* emit_module.c: the files of a WebAssembly module. The source defines its exports (runtime/wasm/module.h); the types
 * are declarations of TypeScript for runtime/wasm/load.mjs. weights_bytes: size of a separate file of weights, or 0.
 * The caller checks ferror(). */
INLAY_NODISCARD inlay_status bundle_emit_module(FILE *to, const bundle_collection *collection,
                                                const bundle_names *names, uint64_t weights_bytes, inlay_diag *diag);
INLAY_NODISCARD inlay_status bundle_emit_types(FILE *to, const bundle_collection *collection, inlay_diag *diag);
#endif
