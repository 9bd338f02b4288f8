/* bundle.h - what `inlay bundle` writes down of a model, and what runs it.
 *
 * The generated source holds a bundle_model: regions as a provider compiles them, and a flat list of steps with the
 * place of every tensor. The run-time part opens the providers, compiles the regions once, and walks the steps. It
 * allocates while it starts, from one arena, and never afterwards. */
#ifndef BUNDLE_H
#define BUNDLE_H
#include "inlay/plugin.h"

/* Where a tensor lies. */
enum { BUNDLE_SLAB, BUNDLE_INPUT, BUNDLE_OUTPUT, BUNDLE_DATA };
typedef struct bundle_place {
    uint32_t kind;   /* BUNDLE_* */
    uint32_t index;  /* of the model's input or output */
    uint64_t offset; /* SLAB */
    uint64_t bytes;
    const void *data; /* DATA */
} bundle_place;

/* What one provider compiles. */
typedef struct bundle_region {
    uint32_t provider; /* BUNDLE_REFERENCE or BUNDLE_CPU */
    const inlay_graph *graph;
    const inlay_value_state *states; /* [graph->value_count] */
    const uint32_t *nodes;
    const uint64_t *cookies;
    const uint32_t *inputs, *outputs;
    uint32_t node_count, cookie_count, input_count, output_count;
} bundle_region;

/* RUN: a region. COPY: in[0] to out[0]. UNLESS: goes on at `target` where the bool at in[0] is false. JUMP: goes on at
 * `target`. BEGIN: the int64 at out[0] becomes 0, the bool at out[1] true. TEST: goes on at `target` where the bool at
 * in[1] is false, or the int64 at in[0] has reached that at in[2], if there is one. NEXT: counts in[0], goes on at
 * `target`. SCAN: in[0] to out[0], behind as many of its size as the int64 at in[1] says. */
enum { BUNDLE_RUN, BUNDLE_COPY, BUNDLE_UNLESS, BUNDLE_JUMP, BUNDLE_BEGIN, BUNDLE_TEST, BUNDLE_NEXT, BUNDLE_SCAN };
typedef struct bundle_step {
    uint32_t kind;
    uint32_t region;
    uint32_t target;
    uint32_t in_count;
    const bundle_place *in, *out;
} bundle_step;

/* An input or output of the model. */
typedef struct bundle_tensor {
    const char *name;
    const char *npy; /* the header of a .npy file of this type and shape */
    uint32_t npy_bytes;
    uint32_t element_bytes;
    uint64_t bytes;
} bundle_tensor;

/* What a provider made of constants when the bundle was made: found by its key. Those that are not in the program are
 * made when it starts. */
#define BUNDLE_MADE_AT_START UINT64_MAX
typedef struct bundle_pack {
    uint64_t key[2];
    uint64_t bytes;
    uint64_t offset; /* in bundle_model.packs_data, or BUNDLE_MADE_AT_START */
} bundle_pack;

enum { BUNDLE_REFERENCE, BUNDLE_CPU, BUNDLE_PROVIDERS };
typedef struct bundle_model {
    const inlay_provider *(*providers[BUNDLE_PROVIDERS])(const inlay_host *host); /* NULL: not needed */
    const inlay_option_value *options[BUNDLE_PROVIDERS]; /* [option_counts] what they are opened with */
    uint32_t option_counts[BUNDLE_PROVIDERS];
    const bundle_region *regions;
    const bundle_step *steps;
    const bundle_tensor *inputs, *outputs;
    const bundle_pack *packs; /* sorted by key */
    const char *packs_data;
    const char *data; /* [data_bytes] the constants */
    uint64_t data_bytes;
    uint32_t region_count, step_count, input_count, output_count, pack_count;
    uint32_t packs_levels;  /* which bits of bundle_level() are part of their keys; 0: they hold at any level */
    uint32_t has_originals; /* what no pack is listed for can be packed when it starts */
    uint32_t packs_first;   /* the bundle is being made: packs are told with their sources */
    uint32_t only_level;    /* the bundle_level() of CPUs that it is for; 0: any */
    const char *isa;        /* the most that kernels may use, NULL: what the CPU has */
    uint64_t slab_bytes;
    uint64_t arena_bytes; /* that starting and running take together, as measured; 0 = not known */
} bundle_model;

/* Starts the model in `arena` of that many bytes, aligned to 64, or NULL for memory of the system's. Once per process;
 * 0 or an INLAY_* status, and bundle_error() says why. */
int bundle_start(const bundle_model *model, void *arena, uint64_t bytes);
/* Before the start: constants between these pages leave memory once a pack was made of one of them, and come back from
 * the program's file where they are read. */
void bundle_let_go(void *pages, uint64_t bytes);
/* inputs and outputs: addresses in the model's order, aligned to the element; results are the same at any address. */
int bundle_run(const bundle_model *model, const void *const *inputs, void *const *outputs);
/* Runs each region once, those behind branches that are not taken as well; what they compute is of no use. Only while
 * the bundle is made. */
void bundle_run_all(const bundle_model *model, const void *const *inputs, void *const *outputs);
/* A part of a kernel that is not in the program was called: the run fails. */
void bundle_left_out(void);
const char *bundle_error(void);
const char *bundle_error_node(void); /* the node that it is about, or "" */
/* The most bytes of the arena that were ever in use, and how often memory was asked for. */
uint64_t bundle_arena_peak(void);
uint64_t bundle_allocations(void);
/* Calls `each` for the packs that starting had to make. Only while the bundle is made. source: the content_hash of the
 * constant that alone it was made of; 0: that is not known. */
typedef void (*bundle_pack_fn)(void *ctx, const uint64_t key[2], uint64_t source, const void *data, uint64_t bytes);
void bundle_made_packs(bundle_pack_fn each, void *ctx);
/* Number of the constants of region `r` that were packed, see inlay_compile_request.constants; NULL before the start.
 */
const uint8_t *bundle_constant_fates(uint32_t region);
/* The main program of a bundle; generated code calls it. */
int bundle_main(const bundle_model *model, const char *name, int argc, char **argv);

/* heap.c: an arena with blocks that can be given back. */
void heap_open(void *memory, uint64_t bytes); /* NULL: the system's */
uint64_t heap_peak(void);
uint64_t heap_calls(void);
void *heap_alloc(uint64_t bytes, uint64_t alignment);
#endif
