/* bundle.h - the tables that `inlay bundle` generates for a model, and the functions that run them.
 *
 * The generated source contains a bundle_model: regions for the providers, and a flat list of steps with the place of
 * every tensor. The run-time part opens the providers, compiles the regions once, and executes the steps. It allocates
 * only while it starts, from one arena. */
#ifndef BUNDLE_H
#define BUNDLE_H
#include "inlay/plugin.h"

/* The place of a tensor. */
enum { BUNDLE_SLAB, BUNDLE_INPUT, BUNDLE_OUTPUT, BUNDLE_DATA };
typedef struct bundle_place {
    uint32_t kind;   /* BUNDLE_* */
    uint32_t index;  /* of the model's input or output */
    uint64_t offset; /* SLAB */
    uint64_t bytes;
    const void *data; /* DATA */
} bundle_place;

/* A region that one provider compiles. */
typedef struct bundle_region {
    uint32_t provider; /* BUNDLE_REFERENCE or BUNDLE_CPU */
    const inlay_graph *graph;
    const inlay_value_state *states; /* [graph->value_count] */
    const uint32_t *nodes;
    const uint64_t *cookies;
    const uint32_t *inputs, *outputs;
    uint32_t node_count, cookie_count, input_count, output_count;
} bundle_region;

/* RUN: runs a region. COPY: copies in[0] to out[0]. UNLESS: jumps to `target` if the bool in[0] is false. JUMP: jumps
 * to `target`. BEGIN: sets the int64 out[0] to 0 and the bool out[1] to true. TEST: jumps to `target` if the bool in[1]
 * is false, or if the int64 in[0] has reached `block` or the optional in[2]. NEXT: increments in[0] and jumps to
 * `target`. SCAN: copies in[0] to element in[1] (int64) of an axis of out[0]; `block` is the size of what follows the
 * axis, and `backwards` counts elements from the last. ELEMENT: copies element in[1] of such an axis of in[0] to
 * out[0]. */
enum {
    BUNDLE_RUN,
    BUNDLE_COPY,
    BUNDLE_UNLESS,
    BUNDLE_JUMP,
    BUNDLE_BEGIN,
    BUNDLE_TEST,
    BUNDLE_NEXT,
    BUNDLE_SCAN,
    BUNDLE_ELEMENT
};
typedef struct bundle_step {
    uint32_t kind;
    uint32_t region;
    uint32_t target;
    uint32_t in_count;
    uint32_t backwards;
    uint64_t block;
    const bundle_place *in, *out;
} bundle_step;

/* An input or output of the model. */
typedef struct bundle_tensor {
    const char *name;
    const char *npy; /* the header of a .npy file of this type and shape */
    uint32_t npy_bytes;
    uint32_t element_bytes;
    uint64_t bytes;
    const int64_t *dims; /* [rank] */
    uint32_t rank;
    uint32_t dtype; /* an inlay_dtype */
} bundle_tensor;

/* Weights that a provider packed when the bundle was made, found by their key. Weights that are not in the program are
 * packed when it starts. */
#define BUNDLE_MADE_AT_START UINT64_MAX
typedef struct bundle_pack {
    uint64_t key[2];
    uint64_t bytes;
    uint64_t offset; /* in bundle_model.packs_data, or BUNDLE_MADE_AT_START */
} bundle_pack;

/* The address of a constant that packed weights replace. No process can read there, so a provider that reads the
 * constant all the same ends the program instead of computing with other bytes. */
#define BUNDLE_LEFT_OUT ((const char *)~(UINTPTR_MAX >> 16))

enum { BUNDLE_REFERENCE, BUNDLE_CPU, BUNDLE_PROVIDERS };
typedef struct bundle_model {
    const inlay_provider *(*providers[BUNDLE_PROVIDERS])(const inlay_host *host); /* NULL: unused */
    const inlay_option_value *options[BUNDLE_PROVIDERS]; /* [option_counts] of their create() */
    uint32_t option_counts[BUNDLE_PROVIDERS];
    const bundle_region *regions;
    const bundle_step *steps;
    const bundle_tensor *inputs, *outputs;
    const bundle_pack *packs; /* sorted by key */
    const char *packs_data;
    const char *data; /* [data_bytes] the constants */
    uint64_t data_bytes;
    uint32_t region_count, step_count, input_count, output_count, pack_count;
    uint32_t packs_levels;  /* bits of bundle_level() in the keys; 0: the packs are valid at any level */
    uint32_t has_originals; /* the constants are included: missing packs can be made at start */
    uint32_t packs_first;   /* the program is for a first run: it reports packs with their sources */
    uint32_t only_level;    /* the only bundle_level() that it supports; 0: any */
    const char *isa;        /* highest instruction level of kernels, NULL: that of the CPU */
    uint64_t slab_bytes;
    uint64_t arena_bytes; /* measured for start and runs together; 0 = unknown */
} bundle_model;

/* Starts the model in `arena` of `bytes` bytes, aligned to 64, or in allocated memory if it is NULL. Once per process;
 * returns 0 or an INLAY_* status; bundle_error() then returns the message. */
int bundle_start(const bundle_model *model, void *arena, uint64_t bytes);
/* To call before the start: the constants in these pages are dropped from memory once they were packed, and read again
 * from the program's file if needed. */
void bundle_drop_pages(void *pages, uint64_t bytes);
/* inputs and outputs: addresses in the model's order, aligned to the element; results are the same at any address. */
int bundle_run(const bundle_model *model, const void *const *inputs, void *const *outputs);
/* Runs each region once, also in branches that are not taken; the results are meaningless. Only while the bundle is
 * made. */
void bundle_run_all(const bundle_model *model, const void *const *inputs, void *const *outputs);
/* An excluded part of a kernel calls it: the run fails. */
void bundle_fail_excluded(void);
const char *bundle_error(void);
const char *bundle_error_node(void); /* the node that the error is about, or "" */
/* The first node of the region that is being compiled or run, or was last; NULL: none. */
const inlay_node_info *bundle_current_node(void);
/* Peak bytes of the arena, and number of allocations. */
uint64_t bundle_arena_peak(void);
uint64_t bundle_allocations(void);
/* Calls `each` for the weights that were packed at start. Only while the bundle is made. source: the content_hash of
 * the constant that the weights were packed from, if there is only one; 0: unknown. */
typedef void (*bundle_pack_fn)(void *ctx, const uint64_t key[2], uint64_t source, const void *data, uint64_t bytes);
void bundle_made_packs(bundle_pack_fn each, void *ctx);
/* [graph->value_count] of a region: what happened to its constants, see inlay_compile_request.constants; NULL before
 * the start. */
const uint8_t *bundle_constant_fates(uint32_t region);
/* The main program of a bundle; generated code calls it. */
int bundle_main(const bundle_model *model, const char *name, int argc, char **argv);

/* pages.c, pages_wasm.c: memory from the system, zero; NULL: none is left. */
void *pages_map(uint64_t bytes);
/* The contents may be dropped: pages of a file are read again if needed. */
void pages_drop(void *pages, uint64_t bytes);
/* Peak of the resident bytes of the process. */
uint64_t pages_peak(void);

/* faults.c, faults_wasm.c: `report`, which does not return, is called if an instruction of the process faults ... */
void faults_report(void (*report)(int signal));
/* ... or, in a native program, if it runs for more than a minute from now. */
void faults_limit_time(void);

/* heap.c: an arena whose blocks can be freed. */
void heap_open(void *memory, uint64_t bytes); /* NULL: allocate pages */
uint64_t heap_peak(void);
uint64_t heap_calls(void);
void *heap_alloc(uint64_t bytes, uint64_t alignment);
#endif
