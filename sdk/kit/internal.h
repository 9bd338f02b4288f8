/* internal.h - declarations shared by the kit's source files. Not installed.
 *
 *     node.c      access to a node, its values and constants
 *     match.c     selects the kernel of a node; assess and cost
 *     compile.c   a region -> units (kernel, prepared state, source of each tensor)
 *     describe.c  a value at given shapes -> a tensor
 *     shape.c     a region at concrete shapes -> an instance (tensors, workspace)
 *     execute.c   runs an instance; functions that kernels call during a run
 *     chain.c     fuses pointwise kernels
 *     region.c    a copy of a region, for providers that compile whole regions (inlay/kit_region.h)
 *     kept.c      data that persists between processes
 *     isa.c       instruction sets of the CPU
 *     build_id.c  the build id
 *     blocks.c    blocks of quantized weights (blocks.h)
 *     open.c      the handshake */
#ifndef KIT_INTERNAL_H
#define KIT_INTERNAL_H
#include "inlay/check.h"
#include "inlay/kit.h"
#include <stdlib.h>

enum { KIT_ALIGNMENT = 64 };

/* A kernel in the hash table. Kernels of equal hash are linked in the order of the provider's tables. */
typedef struct kit_row {
    const kit_kernel *kernel;
    uint32_t hash;
    uint32_t next; /* row index, INLAY_NONE at the end */
} kit_row;

/* The state of a provider. Immutable after create, so that any thread may use it. */
typedef struct kit_state {
    const kit_provider *self;
    const inlay_host *host;
    void *user; /* from kit_provider.open */
    kit_row *rows;
    uint32_t *heads; /* [mask + 1] first row of each bucket */
    uint32_t row_count;
    uint32_t mask;
    bool has_rows; /* a kernel of the provider has a row function, so chains are possible */
} kit_state;

/* Builds the hash table of the kernels of state->self; kit_rows_deinit frees it. */
inlay_status kit_rows_init(kit_state *state, inlay_diag *diag);
void kit_rows_deinit(kit_state *state);
/* Returns the kernel for a node; NULL: none, and *why holds the reason. */
const kit_kernel *kit_match(const kit_state *state, const kit_node *node, kit_refusal *why);

inlay_status kit_assess(void *state, const inlay_assess_request *request, inlay_diag *diag);
inlay_status kit_cost(void *state, const inlay_cost_request *request, inlay_cost *cost, inlay_diag *diag);

/* A value of kit_node.constant_fate besides INLAY_CONST_*: borrowed, at any address. */
enum { KIT_CONST_UNALIGNED = 0x80 };

/* Location of a tensor's data. */
enum {
    KIT_REF_NONE = 0,   /* omitted, or a dropped constant: always NULL */
    KIT_REF_FIXED = 1,  /* a constant at `address` */
    KIT_REF_INPUT = 2,  /* input `index` of the region */
    KIT_REF_OUTPUT = 3, /* output `index` of the region */
    KIT_REF_INNER = 4   /* inner value `index`, in the workspace */
};
typedef struct kit_ref {
    uint32_t kind; /* KIT_REF_* */
    uint32_t index;
    uint32_t value; /* of the graph that compile got, INLAY_NONE when omitted */
    inlay_dtype dtype;
    const void *address;
} kit_ref;

/* One node of a region. */
typedef struct kit_unit {
    const kit_kernel *kernel;
    void *state;   /* from kernel->prepare */
    kit_ref *refs; /* [in_count + out_count], inputs first */
    uint32_t in_count;
    uint32_t out_count;
    uint32_t alias; /* input whose buffer output 0 may share at equal dims, INLAY_NONE = none */
    char name[128]; /* of the node, for diagnostics */
} kit_unit;

struct kit_chain;
struct inlay_compiled {
    bool is_chain;   /* an offer of chain.c */
    kit_unit *units; /* [unit_count] in the order of the nodes */
    uint32_t unit_count;
    uint32_t inner_count;  /* values made and used within the region only */
    uint32_t max_tensors;  /* of one unit */
    inlay_instance *spare; /* atomic: a released instance whose memory the next one reuses; or NULL */
};

inlay_status kit_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                         inlay_diag *diag);
void kit_release_compiled(void *state, inlay_compiled *compiled);

/* An address that kit_execute stores in tensor `tensor` of the step: that of a buffer of the run. */
typedef struct kit_patch {
    uint32_t tensor;
    uint32_t kind; /* KIT_REF_INPUT, OUTPUT or INNER */
    uint32_t index;
    uint32_t reserved;
    uint64_t offset; /* INNER: from the start of the workspace */
} kit_patch;

typedef struct kit_step {
    const kit_unit *unit;
    kit_tensor *tensors; /* [in_count + out_count] complete except for run-time addresses */
    kit_patch *patches;
    uint32_t patch_count;
    uint32_t tensor_count;
    void *plan;              /* from kernel->shape */
    size_t plan_bytes;       /* 0: the kernel allocated it itself */
    uint64_t scratch_offset; /* of the kernel's workspace */
    uint32_t has_scratch;
    uint32_t allocates;
} kit_step;

enum { KIT_STACK_TENSORS = 24 }; /* steps with more keep their tensors in the workspace */

struct inlay_instance {
    size_t bytes;            /* of the allocation, arrays included */
    struct kit_chain *chain; /* NULL: runs the steps below sequentially */
    uint64_t tensors_offset; /* in the workspace, for steps with many tensors */
    uint32_t step_count;
    uint32_t max_threads;
    kit_step steps[];
};

inlay_status kit_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                            inlay_instance **out_instance, inlay_diag *diag);
/* NULL is a no-op. */
void kit_free_instance(inlay_instance *instance);
void kit_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance);
inlay_status kit_execute(void *state, inlay_compiled *compiled, inlay_instance *instance, const inlay_exec_args *args);

/* Describes a value at the given shapes; INLAY_NONE gives an omitted tensor. INLAY_LIMIT_EXCEEDED: the tensor has more
 * elements than can be counted. */
inlay_status kit_describe(const inlay_value_state *values, uint32_t stride, uint32_t value_count, uint32_t value,
                          kit_tensor *out, inlay_diag *diag);

enum { KIT_COOKIE_CHAIN = 1 };    /* of offers; those of single nodes have 0 */
enum { KIT_CHAIN_GRAIN = 65536 }; /* elements times links of a thread: with less work, a second thread is slower */

/* Offers the chains of the graph. kernels: [node_count] the kernel of each node, or NULL. */
inlay_status kit_offer_chains(const kit_state *state, const inlay_graph *graph, const kit_kernel *const *kernels,
                              const inlay_assess_sink *sink);
/* Builds the chain of a region at concrete shapes and fills in the request's workspace and output plans. The caller
 * frees the chain with free(). On entry, *out_chain is NULL or a chain of the same region to reuse; the function takes
 * ownership of it. On return, NULL means that the region cannot run as a chain at these shapes; the request is then
 * unchanged. */
inlay_status kit_chain_build(const inlay_compiled *compiled, inlay_specialize_request *request,
                             struct kit_chain **out_chain);
inlay_status kit_chain_run(const kit_state *state, const struct kit_chain *chain, uint32_t max_threads,
                           const inlay_exec_args *args);

/* The address of tensors without elements: not NULL and never read. */
extern const char kit_nothing[KIT_ALIGNMENT];

/* Writes into text the GNU build id of the module that contains the address; without one, the version and a hash of the
 * module's code. */
void kit_build_id(const void *address, const char *version, char *text, size_t bytes);
#endif
