/* provider.h - what the files of this provider share.
 *
 *     group.c     one node, or a node with those that oneDNN fuses into it -> a group
 *     offers.c    assess: the groups of a graph
 *     price.c     cost
 *     packs.c     constant weights in the layouts of kernels
 *     compile.c   compile and release_compiled
 *     build.c     specialize: a group at concrete shapes -> a list of primitives
 *     copy.c      changes of layout
 *     execute.c   runs it
 *     calls.c     threads and failures of the library
 *     library.h   oneDNN 2 and 3 behind one set of names
 *     lazy_load.c opens the library at the first call */
#ifndef ONEDNN_PROVIDER_H
#define ONEDNN_PROVIDER_H
#include "inlay/extensions.h"
#include "inlay/kit_kernel.h"
#include "inlay/plugin.h"
#include "onednn/library.h"
#include <pthread.h>

enum {
    MOST_RANK = 8,    /* of operands */
    MOST_SPATIAL = 3, /* axes of a window */
    MOST_PARTS = 8,   /* slices of a product */
    MOST_STEPS = 4 + MOST_PARTS,
    MOST_OPERANDS = 5, /* of a primitive */
    NAME_BYTES = 96
};

/* The state of a provider. */
typedef struct onednn_state {
    const inlay_host *host;
    const inlay_ext_team *team; /* NULL: the host has none */
    dnnl_engine_t engine;
    bool reduced;      /* bfloat16 products */
    bool reproducible; /* refuses all nodes: the library chooses kernels by sizes */
} onednn_state;

typedef enum group_kind { GROUP_CONV, GROUP_DECONV, GROUP_PRODUCT } group_kind;

/* Operands of a group. */
enum { OPERAND_INPUT, OPERAND_WEIGHTS, OPERAND_BIAS, OPERAND_ADDEND, OPERAND_COUNT };


/* A function at the end of a group. */
typedef struct group_function {
    dnnl_alg_kind_t kind; /* dnnl_alg_kind_undef: none */
    float alpha, beta;    /* LeakyRelu: slope below 0; Relu and Clip: bounds */
} group_function;

/* A node, and the bias, addition and function that are computed with it. Contains no pointer into a graph. */
struct group {
    group_kind kind;
    uint32_t values[OPERAND_COUNT]; /* index in the graph; INLAY_NONE: none */
    bool constant[OPERAND_COUNT];   /* the operand's elements are known when the group is compiled */
    uint32_t output;
    bool input_transposed, weights_transposed; /* PRODUCT: of Gemm */
    uint32_t spatial;                          /* windows: number of axes */
    int64_t channel_groups;
    uint32_t padding; /* KIT_PAD_* */
    bool sized;       /* DECONV: the output's size determines the padding */
    int64_t kernel[MOST_SPATIAL], strides[MOST_SPATIAL], dilations[MOST_SPATIAL], pads[2 * MOST_SPATIAL],
        output_padding[MOST_SPATIAL];
    group_function function;
    char name[NAME_BYTES]; /* of the first node */
};

/* Reads a node that begins a group. */
bool group_begin(const onednn_state *state, const inlay_graph *graph, uint32_t node, struct group *out,
                 kit_refusal *why);
/* Appends a node that reads the group's output and is its only reader. False: oneDNN does not fuse it. */
bool group_extend(const onednn_state *state, const inlay_graph *graph, uint32_t node, struct group *group);
/* Reads the nodes of an offer. */
bool group_read(const onednn_state *state, const inlay_graph *graph, const uint32_t *nodes, uint32_t count,
                struct group *out, kit_refusal *why);
/* Computes the padding of a window for concrete sizes. in and out: [spatial] */
void group_pads(const struct group *group, const int64_t *in, const int64_t *out, int64_t *begins, int64_t *ends);
/* True if bfloat16 is used for the products of the group. */
bool group_is_reduced(const onednn_state *state, const struct group *group);
/* True if the function is computed by the primitive; otherwise by a loop of this provider (execute.c), because the
 * library's kernels lose NaN. */
static inline bool group_fuses_function(const onednn_state *state, const struct group *group)
{
    return state->reduced && group->function.kind != dnnl_alg_kind_undef;
}

inlay_status onednn_assess(void *state, const inlay_assess_request *request, inlay_diag *diag);
inlay_status onednn_cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag);
inlay_status onednn_compile(void *state, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag);
void onednn_release_compiled(void *state, inlay_compiled *compiled);
inlay_status onednn_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag);
void onednn_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status onednn_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args);

/* Constant weights, or a slice of their columns, in the layout of a kernel. */
typedef struct weights_pack {
    struct weights_pack *next;
    uint32_t part;  /* number of the slice */
    uint32_t users; /* instances that read it, under the lock of the region */
    bool late;      /* made after compile, for the sizes of a run: destroyed with the last instance that reads it */
    library_layout layout;
    kit_pack memory;
} weights_pack;

struct inlay_compiled {
    struct group group;
    uint32_t slots[OPERAND_COUNT]; /* index among the region's inputs; INLAY_NONE: a constant, or none */
    /* elements of constant weights and bias; NULL: none, or packed and released */
    const float *constants[OPERAND_COUNT];
    pthread_mutex_t lock; /* guards packs */
    weights_pack *packs;
};

/* Access to the host's memory for packed weights, in compile and specialize. */
typedef struct pack_source {
    kit_node node;
    uint64_t hash; /* of the weights */
} pack_source;

/* Returns the pack of a slice, to be released by pack_release(); NULL: there is none. */
weights_pack *pack_find(inlay_compiled *compiled, uint32_t part);
/* Packs weights, which have the layout `plain`, for a kernel. source NULL: in memory of this process. *out is to be
 * released, too. */
inlay_status pack_make(const onednn_state *state, inlay_compiled *compiled, const pack_source *source, uint32_t part,
                       library_const_layout plain, const float *data, library_const_layout wanted, weights_pack **out,
                       inlay_diag *diag);
void pack_release(inlay_compiled *compiled, weights_pack *pack);
void packs_destroy(inlay_compiled *compiled);

/* The memory of an operand. */
enum { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORKSPACE, PLACE_CONSTANT };
struct place {
    uint32_t kind;
    uint32_t index;   /* INPUT: of the region */
    uint64_t offset;  /* bytes */
    const void *data; /* CONSTANT */
};

/* An axis of a change of layout. */
typedef struct copy_axis {
    int64_t size, from_step, to_step;
    const int64_t *from_table, *to_table; /* offsets of the indices of a blocked axis; NULL: multiples of the step */
} copy_axis;

/* A change of layout, of floats to floats or to bfloat16. */
struct copy {
    copy_axis axes[LIBRARY_MAX_RANK]; /* the two innermost loops last */
    uint32_t rank;                    /* at least 2 */
    bool halves;                      /* to bfloat16 */
    uint64_t clear_bytes;             /* of the target, if it has padding; otherwise 0 */
    int64_t *tables;                  /* owned */
};
/* Prepares a change of layout. False: the layouts are not described by numbers, or no memory; the library's reorder
 * does it. The library's are several times slower between row-major and blocked images. */
bool copy_prepare(library_const_layout from, library_const_layout to, struct copy *out);
inlay_status copy_run(const onednn_state *state, const struct copy *copy, inlay_run *run, const float *from, void *to);

/* A primitive with its operands, or a change of layout from places[0] to places[1]. */
struct step {
    dnnl_primitive_t primitive; /* NULL: a copy */
    struct copy *copy;
    uint32_t count;
    bool alone; /* one thread: the kernel divides sums by the number of threads, or the work is short */
    struct place places[MOST_OPERANDS];
    void *addresses[MOST_OPERANDS]; /* the addresses that the memory objects have */
    dnnl_exec_arg_t args[MOST_OPERANDS];
};

struct inlay_instance {
    inlay_compiled *compiled;
    weights_pack *packs[MOST_PARTS]; /* [pack_count] packs that the instance reads */
    uint32_t pack_count;
    dnnl_stream_t streams[MOST_PARTS]; /* one for each of the steps that run at once */
    struct step steps[MOST_STEPS];
    uint32_t step_count;
    uint32_t parts_begin, parts_end; /* steps that may run at once */
    uint32_t threads;                /* of the run */
    int64_t output_count;            /* elements */
    group_function function;         /* of the loop after the primitives */
};

/* Builds an instance. source as in pack_make. values: parallel to the values of the graph that compile got. */
inlay_status instance_build(const onednn_state *state, inlay_compiled *compiled, const pack_source *source,
                            const inlay_value_state *values, uint32_t stride, uint32_t max_threads,
                            uint64_t *out_workspace_bytes, inlay_instance **out, inlay_diag *diag);
void instance_destroy(inlay_instance *instance);

/* Sets the number of OpenMP threads of the calling thread, and returns the previous one. */
int threads_set(int threads);
/* Reports a failure of the library. */
inlay_status onednn_fail(dnnl_status_t code, const char *node, inlay_diag *diag);
#endif
