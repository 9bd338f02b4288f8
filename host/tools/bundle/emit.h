/* bundle/emit.h - a collection as C: the header with the model's names, the source with its tables, and the constants.
 */
#ifndef BUNDLE_EMIT_H
#define BUNDLE_EMIT_H
#include "bundle/collect.h"
#include <stdio.h>

/* What the program said when it was first run: what its start takes, and what it packed. */
typedef struct bundle_pack_entry {
    uint64_t key[2];
    uint64_t bytes, offset;
    bool kept; /* in the program; otherwise made when it starts */
} bundle_pack_entry;
typedef struct bundle_facts {
    bundle_pack_entry *packs; /* [pack_count] sorted by key; offsets in the file of packs */
    uint32_t pack_count;
    uint32_t packs_levels; /* see bundle_model */
    uint64_t packs_bytes;
    uint64_t arena_bytes; /* 0: not known yet */
    bool first;           /* the program is for its first run: what it lacks, it names */
    uint32_t only_level;  /* see bundle_model */
    uint8_t *
        *unread; /* [part_count][value_count] 1 = the constant is left out: packs stand for it; NULL: not known yet */
    bool drops;  /* constants are left out */
    uint32_t **value; /* out, with the source: [part_count][value_count] the number of a value there */
    uint32_t *values; /* out: [part_count] how many values there are */
} bundle_facts;

typedef struct bundle_names {
    const char *name;    /* what the bundle's own functions begin with, a C identifier ... */
    const char *api;     /* ... and what they are called in the header that the user gets */
    const char **inputs; /* C identifiers of the model's inputs and outputs */
    const char **outputs;
    struct bundle_part_of *parts; /* what programs can leave out, and what this one needs */
    uint32_t part_count;
    bool has_reference, has_cpu;
    const char *isa; /* "avx2", or NULL */
} bundle_names;

typedef enum bundle_part_kind {
    PART_TABLE,
    PART_FAMILY,
    PART_SET,
    PART_FUNCTION,
    PART_BASELINE,
    PART_LEVEL,
    PART_KERNEL
} bundle_part_kind;
typedef struct bundle_part_of {
    bundle_part_kind kind;
    bool needed;
    char name[64];
} bundle_part_of;

/* C identifiers for the model's names, all different, and for the one that the user chose, which may be any: the
 * sources begin with a prefix of their own. Memory is the collection's. false: no memory. */
bool bundle_name(bundle_collection *collection, const char *api, bundle_names *out);

/* The C type of the elements; NULL: C has none. */
const char *bundle_c_type(inlay_dtype dtype);
/* "const float x[1][3], float y[1][2]": the parameters of the function that runs the model. */
void bundle_write_parameters(FILE *to, const struct graph *graph, const bundle_names *names);

/* The three files; the header's functions begin with `name`, `source` includes bundle.h, `data` is what its symbol
 * NAME_data points to. INLAY_IO_ERROR is left to ferror() of the caller's. */
INLAY_NODISCARD inlay_status bundle_emit_header(FILE *to, const bundle_collection *collection,
                                                const bundle_names *names, const char *name, const bundle_facts *facts,
                                                inlay_diag *diag);
INLAY_NODISCARD inlay_status bundle_emit_source(FILE *to, FILE *data, bundle_collection *collection,
                                                const bundle_names *names, bundle_facts *facts, inlay_diag *diag);
#endif
