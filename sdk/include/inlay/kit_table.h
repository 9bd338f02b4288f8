/* inlay/kit_table.h - kernels of the kit: the nodes that they can run, their functions, and tables of them.
 *
 * A part of inlay/kit.h, which explains the kit. Includes neither the graph nor the functions of the host: kit_kernel.h
 * does. */
#ifndef INLAY_KIT_TABLE_H
#define INLAY_KIT_TABLE_H
#include "inlay/kit_call.h"
#include "inlay/kit_node.h"
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inlay_cost;

/* Flags of kernels. */
enum {
    KIT_IN_PLACE = 1u << 0,      /* output 0 may share the buffer of an input with the same dtype and dims */
    KIT_SHAPES_AT_RUN = 1u << 1, /* run allocates every output: shapes depend on data */
    /* Output 0 may share the buffer of input 0, and of no other input, if dtype and number of elements agree; the
     * dims may differ: for Reshape, which then does nothing, and ScatterND, which starts from a copy of input 0. */
    KIT_IN_PLACE_FIRST = 1u << 2
};

/* The reason why a kernel cannot run a node. */
typedef struct kit_refusal {
    uint32_t code;         /* INLAY_REFUSE_* */
    char text[192];        /* the reason, one sentence */
    char accepted_if[128]; /* a change that would make the node acceptable, or empty */
} kit_refusal;
/* Fills the refusal and returns false: `return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use mode linear", "...")`. */
INLAY_PRINTF(4, 5)
bool kit_refuse(kit_refusal *why, uint32_t code, const char *accepted_if, const char *format, ...);

/* Arguments and results of shape. in and out hold the dims (those of out are inferred; count is -1 if they are not
 * known, and rank 0 if the rank is not known). in[i].data is NULL unless the elements are known before the run. */
typedef struct kit_plan {
    const kit_tensor *in;  /* [in_count] */
    const kit_tensor *out; /* [out_count] */
    uint32_t in_count;
    uint32_t out_count;
    uint32_t max_threads;     /* maximum number of workers of kit_parallel in run */
    uint32_t allocates;       /* out: bit i set = run allocates output i; UINT32_MAX = all; initially 0 */
    uint64_t workspace_bytes; /* out: initially 0 */
    void *plan;               /* out: memory of kit_plan_new or malloc, freed by the kit; initially NULL */
    void *room;               /* for kit_plan_new: memory of a plan that is no longer used */
    size_t room_bytes;        /* for kit_plan_new: size of room, afterwards of plan */
} kit_plan;

/* Sets plan->plan to cleared memory of `bytes` bytes and returns it; NULL: out of memory. If shapes change between
 * runs, the function reuses the memory of a discarded plan. */
static inline void *kit_plan_new(kit_plan *plan, size_t bytes)
{
    if (plan->room != NULL && plan->room_bytes >= bytes)
        return plan->plan = memset(plan->room, 0, bytes);
    plan->room_bytes = bytes;
    return plan->plan = calloc(1, bytes);
}

/* A kernel: the nodes that it can run, and its functions. All functions except run may be NULL. */
typedef struct kit_kernel {
    const char *domain; /* NULL = "ai.onnx" */
    const char *op_type;
    uint32_t since_min;    /* inclusive range of since_version that run supports; 0 = from the first */
    uint32_t since_max;    /* 0 = no upper limit, so set it: a later version of the operator may differ */
    uint64_t in_types[4];  /* sets of dtypes for inputs 0 to 3; KIT_ANY = all types of the schema */
    uint64_t out_types[2]; /* sets of dtypes for outputs 0 and 1, likewise */
    uint32_t flags;        /* KIT_IN_PLACE ... */
    /* Returns true if the kernel can run the node, otherwise fills *why with kit_refuse(). NULL: the kernel can run
     * every node that has the stated versions and types. */
    bool (*supports)(const kit_node *node, kit_refusal *why);
    /* Refines *cost, which is initialised with the bytes of inputs and outputs and one operation for each output
     * element. Setting flops suffices: the kit then derives ns. Kernels that do more than one operation for each output
     * element, such as MatMul's, need this function. */
    void (*cost)(const kit_node *node, const kit_plan *shapes, struct inlay_cost *cost);
    inlay_status (*prepare)(const kit_node *node, void **out_state, inlay_diag *diag);
    void (*release)(void *state); /* frees the result of prepare; NULL = free() */
    inlay_status (*shape)(const void *state, kit_plan *plan, inlay_diag *diag);
    inlay_status (*run)(const kit_call *call);

    /* Optional, for element-wise operators on floats: computes n elements of the output. in[k] has n elements, or a
     * single one for all if step[k] is 0 instead of 1; out may be the memory of an input with n elements. state comes
     * from prepare. Kernels with row also run in fused chains, tile by tile, without storing intermediate results. */
    void (*row)(const void *state, float *out, const float *const *in, const int64_t *step, int64_t n);
    /* number of inputs that row reads, at most KIT_ROW_INPUTS; the node's other inputs must be constants */
    uint32_t row_inputs;
    bool (*row_fits)(const kit_node *node); /* optional: whether row computes the same as run for this node */
} kit_kernel;
enum { KIT_ROW_INPUTS = 2 };

/* An array of kernels. */
typedef struct kit_table {
    const kit_kernel *kernels;
    uint32_t count;
} kit_table;

#ifdef __cplusplus
}
#endif
#endif
