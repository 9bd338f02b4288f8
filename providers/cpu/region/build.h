/* build.h - a region at concrete shapes: the state of a build, and the instance that it makes.
 *
 * Each value has a place: a buffer, an offset, and a layout (memory_desc), which may be blocked, permuted or
 * row-major. The producer chooses the layout; a consumer accepts it or adds a reorder. Buffers get their offsets in the
 * workspace when all steps are known (plan.c). A step may overwrite an operand that it reads for the last time. */
#ifndef CPU_BUILD_H
#define CPU_BUILD_H
#include "region/region.h"
#include "matrix/sgemm.h"

/* An arena for a build or an instance (scratch.c). Closing it leaves the memory at *spare for the next one; it is not
 * cleared. Only one thread at a time may use an arena. */
cpu_scratch *cpu_scratch_open(cpu_scratch **spare); /* NULL: out of memory */
/* Memory for `count` elements, aligned as by malloc, valid until the arena is closed; NULL: out of memory. */
void *cpu_scratch_take(cpu_scratch *scratch, size_t count, size_t element);
void *cpu_scratch_take_zeroed(cpu_scratch *scratch, size_t count, size_t element);
void cpu_scratch_close(cpu_scratch **spare, cpu_scratch *scratch); /* NULL is a no-op */
/* Makes room for one more element. array is the address of a pointer to elements of the arena, which may move; count
 * elements are in use. false: out of memory. */
bool cpu_scratch_grow(cpu_scratch *scratch, void *array, uint32_t count, uint32_t *capacity, size_t element);
/* Frees the arena at *spare. */
void cpu_scratch_drop(cpu_scratch **spare);

enum { CPU_WORK, CPU_INPUT, CPU_OUTPUT, CPU_CONST };

typedef struct cpu_buffer {
    uint32_t kind;  /* CPU_WORK ... */
    uint32_t index; /* INPUT, OUTPUT: index among the region's inputs or outputs */
    uint64_t bytes;
    uint64_t offset;      /* WORK: in the workspace */
    uint32_t first, last; /* first and last step that uses it; first = INLAY_NONE: no step yet */
    uint32_t pending;     /* reads of values in it that are not lowered yet */
    uint32_t parent;      /* WORK: the buffer that contains it, at byte `within`; INLAY_NONE: it is separate */
    uint64_t within;
    uint32_t copy_of; /* the value of which it holds a copy, which later reads may use; INLAY_NONE */
    const void *data; /* CONST */
} cpu_buffer;

typedef struct cpu_place {
    uint32_t buffer; /* INLAY_NONE = not assigned yet */
    uint64_t offset; /* bytes */
    memory_desc md;
} cpu_place;

/* A memory argument of a step. */
typedef struct cpu_slot {
    uint64_t offset; /* bytes */
    uint32_t buffer;
    uint32_t md; /* index in the instance's mds; INLAY_NONE: only native steps use the slot */
} cpu_slot;

typedef struct cpu_arg {
    int id; /* LIBRARY_ARG_*; 0 in native steps */
    uint32_t slot;
} cpu_arg;

/* A step that runs a built-in kernel: the first member of the kernel's own struct. args are addresses in the order of
 * the step's arguments. */
typedef struct cpu_native {
    inlay_status (*run)(const struct cpu_native *self, const cpu_state *state, inlay_run *run, void *const *args,
                        uint32_t threads);
    void (*release)(struct cpu_native *self); /* frees members that self owns, but not self; NULL: nothing to free */
    bool pooled;                              /* allocated in the instance's arena */
    const char *wrong; /* the message if `run` returns INLAY_INVALID_ARGUMENT; NULL: it never does */
} cpu_native;
/* Releases native, and frees it unless it is pooled. NULL is a no-op. */
void cpu_native_destroy(cpu_native *native);

typedef struct cpu_step {
    library_primitive primitive; /* NULL: native */
    cpu_native *native;          /* freed with the instance */
    uint32_t first_arg, arg_count;
    uint32_t op; /* for diagnostics */
    bool alone;  /* runs on one thread: too small to wake others, or prepared for one thread */
} cpu_step;

typedef struct cpu_context cpu_context;
typedef struct kernel_choice kernel_choice;

/* Immutable, except for the references and the pool of contexts. */
struct inlay_instance {
    uint32_t references; /* under compiled->lock */
    int64_t *key;        /* rank, capacity and dims of all values, for which it was made (cpu_key_word) */
    uint32_t key_count;
    uint32_t threads;
    bool is_threaded; /* a step is large enough to run on several threads */
    uint64_t workspace_bytes;
    cpu_step *steps;
    cpu_arg *args;
    cpu_slot *slots;
    memory_desc *mds; /* [md_count] of operands of oneDNN's kernels */
    cpu_buffer *buffers;
    uint32_t step_count, arg_count, slot_count, md_count, buffer_count;
    uint32_t max_args;           /* of one step */
    cpu_scratch *memory, **home; /* the arena of this struct and its arrays; home: `spare` of cpu_scratch_close */
    kernel_choice *choices;      /* [choice_count] kernels of convolutions and products (kernels.h) */
    uint32_t choice_count;
    pthread_mutex_t lock;
    bool has_lock;
    cpu_context *ready; /* atomic: one idle context, taken without the lock */
    cpu_context *idle;  /* the other idle contexts, under lock */
};

/* A function of the epilogue of a group: fused into its first op, or a separate step. */
enum { CPU_POST_ELTWISE, CPU_POST_BINARY, CPU_POST_SUM };
typedef struct cpu_post {
    uint32_t kind;
    cpu_eltwise eltwise;
    library_alg alg; /* binary */
    uint32_t other;  /* binary: the other operand */
    uint32_t out;    /* the value after it */
} cpu_post;

enum { CPU_MAX_POSTS = 12 };

/* Ops that may run as one primitive: a first op, and its epilogue. */
struct cpu_group {
    uint32_t op;   /* the first op */
    uint32_t last; /* the op whose output the group computes; the group runs at its position */
    cpu_post posts[CPU_MAX_POSTS];
    uint32_t post_count;
    uint32_t room; /* upper bound of post_count in fuse.c: lowering adds Gemm's C as one more post */
    uint32_t bias; /* a value that is added per output channel right after the op, INLAY_NONE */
    uint32_t out;  /* the value after all posts */
    uint32_t ends; /* integer convolutions: 1 + the op of the QuantizeLinear at the end; 0: none */
};

typedef struct cpu_memo cpu_memo;
enum { CPU_HAS_PLAIN = 1, CPU_HAS_COPY = 2, CPU_HAS_HOME = 4 };
struct cpu_build {
    const cpu_state *state;
    inlay_compiled *compiled;
    inlay_diag *diag;
    inlay_instance *instance;
    const cpu_op *op; /* being lowered */
    uint32_t op_index;
    bool alone;                    /* emitted steps run on one thread, and were described for one */
    int64_t (*dims)[CPU_MAX_RANK]; /* [value_count] */
    uint32_t *ranks;               /* [value_count] */
    cpu_scratch *scratch;          /* the arena of the arrays below */
    cpu_place *places;             /* [value_count] */
    cpu_place *plains;             /* [value_count] a row-major copy; valid if CPU_HAS_PLAIN is set */
    cpu_place *copies;             /* [value_count] the last copy in another layout; valid if CPU_HAS_COPY is set */
    uint8_t *has;                  /* [value_count] set of CPU_HAS_*; entries without their flag are uninitialised */
    uint32_t *uses;                /* [value_count] reads that are not lowered yet */
    /* [value_count] the output of a Concat, whose inputs are written into it directly; valid if CPU_HAS_HOME is set */
    cpu_place *homes;
    /* [value_count] capacity in rows of a state that is updated in place (append.c); 0: not such a state */
    uint64_t *rooms;
    /* [value_count] a per-channel factor that the only reader multiplies into its weights; INLAY_NONE: none */
    uint32_t *scales;
    /* [value_count] the convolution that computes the value while its only reader runs (kernels.h); NULL: it is
     * computed before the reader, as usual */
    struct deferred_producer **ahead;
    cpu_group *groups;
    uint32_t group_count;
    int64_t *key;   /* becomes the instance's key */
    cpu_memo *memo; /* cache of descriptors (memo.c) */
    uint32_t step_capacity, arg_capacity, slot_capacity, md_capacity, buffer_capacity, choice_capacity;
    const struct kernel_attempt *attempt; /* kernels to time (kernels.h); NULL: choose the fastest */
    bool avoids_library;                  /* prefer built-in convolutions (kernel_skips_onednn_startup) */
};

/* The word of an instance's key that precedes the dims of a value; room: cpu_build.rooms. */
static inline int64_t cpu_key_word(uint32_t rank, uint64_t room)
{
    return (int64_t)(room << 8 | rank);
}

/* The type of a value's elements. */
static inline library_type cpu_type(const cpu_build *build, uint32_t value)
{
    return build->compiled->values[value].type;
}

/* ------------------------------------------------------------------ types (precision.c) */

bool cpu_has_bf16(void);
/* The type of GEMM operands: float or bfloat16. */
library_type cpu_product_type(const cpu_build *build);
/* The type of a GEMM's result: cpu_product_type if only GEMMs read it, otherwise float. */
library_type cpu_kept_type(const cpu_build *build, uint32_t value);
/* The value row-major, as float or bfloat16. */
inlay_status cpu_read_rows(cpu_build *build, uint32_t value, library_type type, cpu_place *out);
/* Lowers a convolution in bfloat16; *out_done = false: oneDNN has no kernel. */
inlay_status cpu_lower_reduced_conv(cpu_build *build, const cpu_group *group, bool *out_done);
/* Is it a GEMM with a constant matrix, which is packed (product.c)? */
bool cpu_is_packed(const cpu_build *build, const cpu_op *op);

/* ------------------------------------------------------------------ building (build.c) */

/* The number of elements of the value. */
int64_t cpu_count(const cpu_build *build, uint32_t value);

/* The place of a value, without gaps: blocked, or with its axes in any order. bfloat16 becomes float, except by
 * cpu_read_as. Constants are row-major. */
inlay_status cpu_read(cpu_build *build, uint32_t value, cpu_place *out);
/* The same, but rows may have gaps: the place may be a part of a larger tensor. */
inlay_status cpu_read_strided(cpu_build *build, uint32_t value, cpu_place *out);
/* The same row-major, by a reorder if needed. */
inlay_status cpu_read_plain(cpu_build *build, uint32_t value, cpu_place *out);
/* The same in layout md. */
inlay_status cpu_read_as(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* An operand of a batched GEMM with `rank` axes; trans: the last two are transposed. The current layout if it is dense
 * and one of these two axes is contiguous, otherwise row-major. */
inlay_status cpu_read_matrix(cpu_build *build, uint32_t value, uint32_t rank, bool trans, cpu_place *out);
/* The place in another layout of equal dims, by a reorder if they differ. out may be place. */
inlay_status cpu_reorder(cpu_build *build, const cpu_place *place, const memory_desc *layout, cpu_place *out);
/* A constant in layout md. plain: dims and strides with which the original is read. */
inlay_status cpu_read_constant(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *md,
                               cpu_place *out);
/* A constant vector of `count` floats, such as a bias. */
inlay_status cpu_read_floats(cpu_build *build, uint32_t value, int64_t count, cpu_place *out);
/* Packed weights of a native step, as bytes. The constant owns data. */
inlay_status cpu_pack_place(cpu_build *build, const void *data, uint64_t bytes, cpu_place *out);
/* Adds a step that copies a tensor into a place of the same dims and type in any layout (moves.c). */
inlay_status cpu_emit_copy(cpu_build *build, const cpu_place *from, const cpu_place *to);
/* Adds a step that pads a channels-last image with zeros before and after each spatial axis (pad.c). */
inlay_status cpu_emit_border(cpu_build *build, const cpu_place *input, const int64_t *before, const int64_t *after,
                             cpu_place *out);
/* A new buffer for a tensor of this layout. */
inlay_status cpu_new_place(cpu_build *build, const memory_desc *md, cpu_place *out);
/* A new buffer for `count` floats: scratch memory of a step. */
inlay_status cpu_new_floats(cpu_build *build, int64_t count, cpu_place *out);
/* The place to compute a value in: the region's output if it is one and md is row-major, otherwise a new buffer. */
inlay_status cpu_result_place(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* The place of a step's result: the group's result if the step does all posts of the group, otherwise a new buffer. */
inlay_status cpu_step_result_place(cpu_build *build, const cpu_group *group, uint32_t posts_done, const memory_desc *md,
                                   cpu_place *out);
/* The buffer of the region's output `value`. The caller knows the layout that the host expects. */
inlay_status cpu_output_place(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* Records the place of a computed value; adds a copy to the region's output if needed. */
inlay_status cpu_set_place(cpu_build *build, uint32_t value, const cpu_place *place);
/* May the op being lowered overwrite `value`, because it is its last reader? */
bool cpu_is_last_use(const cpu_build *build, uint32_t value);

typedef struct cpu_operand {
    int id; /* LIBRARY_ARG_* */
    const cpu_place *place;
} cpu_operand;
/* Adds a step that runs a primitive, with its scratchpad. The caller keeps the descriptor. */
inlay_status cpu_emit(cpu_build *build, library_description pd, const cpu_operand *operands, uint32_t count);
/* Adds a step that runs a built-in kernel. Takes ownership of native, also on failure. */
inlay_status cpu_emit_native(cpu_build *build, cpu_native *native, const cpu_place *const *places, uint32_t count);
/* Zeroed memory for a native step, freed with the instance; NULL: out of memory. */
void *cpu_new_native(cpu_build *build, size_t bytes);
/* Adds a native step with a copy of *step, the first member of a struct of `bytes` bytes that owns no memory. */
inlay_status cpu_emit_step(cpu_build *build, const cpu_native *step, size_t bytes, const cpu_place *const *places,
                           uint32_t count);

/* Lowers BatchNormalization of a row-major or channels-last image with constant operands to a native step (batch.c).
 * relu: the first post is Relu, and the step does it. *out_done = false: the image has another layout. */
inlay_status cpu_lower_batch_rows(cpu_build *build, const cpu_group *group, bool relu, bool *out_done);

/* ------------------------------------------------------------------ fused epilogues (posts.c) */

typedef struct cpu_fused {
    library_description pd; /* the caller destroys it */
    uint32_t count;         /* fused posts: the first `count` of the group */
    bool sums;              /* posts[sum_at] is fused as an addition to the old contents of dst */
    uint32_t sum_at;
    cpu_place others[CPU_MAX_POSTS]; /* binary operands, in the layouts that the primitive reads */
} cpu_fused;

/* Is it an optimised kernel, and not one of oneDNN's reference loops? */
bool cpu_is_fast(library_const_description pd);
/* Creates the descriptor of an operation with as many of the group's posts as a fast kernel can fuse. The operation's
 * output may have fewer axes than the group's: a GEMM views [.., N] as [M, N]. */
inlay_status cpu_fuse_posts(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out);
/* Emits the operation, and steps for the posts that were not fused; sets the place of the group's output. operands: all
 * operands of the operation but dst. */
inlay_status cpu_emit_fused(cpu_build *build, const cpu_group *group, const cpu_fused *fused,
                            const cpu_operand *operands, uint32_t count);

/* Looks for a cached descriptor of an equal operation without posts. The caller destroys *out. false: not found. */
bool cpu_memo_find(const cpu_build *build, const library_op *op, library_description *out);
void cpu_memo_keep(cpu_build *build, const library_op *op, library_const_description pd);
void cpu_memo_drop(cpu_build *build);
/* Creates a descriptor without posts. The caller destroys it. */
inlay_status cpu_describe(cpu_build *build, const library_op *op, library_description *out);
/* A built-in loop for a unary function (functions.c): output[i] = f(input[i]); output may be input. NULL: none. */
typedef void (*cpu_row_fn)(const float *input, float *output, int64_t n, float alpha, float beta);
cpu_row_fn cpu_row_of(const cpu_eltwise *eltwise);
/* output[i] = f(output[i]) for n elements in the cache; the function has a built-in loop. kernel (sgemm.h) may be
 * NULL. */
struct sgemm_kernel;
void cpu_apply(const struct sgemm_kernel *kernel, const cpu_eltwise *eltwise, float *output, int64_t n);
/* Is the built-in loop the fastest kernel for `count` elements? */
bool cpu_row_is_best(const cpu_state *state, const cpu_eltwise *eltwise, int64_t count);
/* Does the function always run as the built-in loop, because oneDNN does not have it or is not accurate enough? */
bool cpu_needs_builtin_loop(library_alg alg);
/* Does oneDNN's kernel turn NaN into a number, or an infinity with a finite limit into NaN? Its minimum and maximum
 * are instructions of x86, which return the second operand if one is NaN; its exponential clamps the operand by both.
 * Built-in loops handle NaN and infinity as ONNX defines it. */
bool cpu_loses_nan(const cpu_eltwise *eltwise);
bool cpu_binary_loses_nan(library_alg alg);
/* Adds the built-in loop as a step. Both places hold floats in the same layout without gaps; a blocked layout may have
 * padding if f(0) = 0. output may be input. */
inlay_status cpu_emit_function(cpu_build *build, const cpu_eltwise *eltwise, const cpu_place *input,
                               const cpu_place *output);
/* Adds a step for a function of a place. overwrite: the result may replace the operand. result: the value that this
 * computes, INLAY_NONE for an intermediate result. */
inlay_status cpu_eltwise_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_eltwise *eltwise,
                            uint32_t result, cpu_place *out);
/* The same for alg(input, value `other`), broadcast to the dims of value `like`. */
inlay_status cpu_binary_at(cpu_build *build, library_alg alg, const cpu_place *input, bool overwrite, uint32_t other,
                           uint32_t like, uint32_t result, cpu_place *out);
/* Adds steps for the group's posts from `first` on, applied to the place `made`; sets the place of the group's
 * output. */
inlay_status cpu_finish(cpu_build *build, const cpu_group *group, uint32_t first, const cpu_place *made,
                        bool overwrite);

/* Is it Gelu (exact or tanh) with a built-in loop? */
bool cpu_is_gelu(const cpu_eltwise *eltwise);

struct sgemm_post;
/* The function as an epilogue of built-in GEMMs (dense.c); false: they do not have it. */
bool cpu_function_of(const cpu_eltwise *eltwise, struct sgemm_post *out);

/* ------------------------------------------------------------------ lowerings that several families use */

/* A grouped convolution by built-in kernels (groups.c), where oneDNN has no fast kernel. *out_done = false: the CPU has
 * no such kernels. weights: the original's layout with oneDNN's order of axes. bias: a value, INLAY_NONE. */
inlay_status cpu_lower_groups(cpu_build *build, const cpu_group *group, const memory_desc *weights, uint32_t bias,
                              bool *out_done);

/* Integers (quant*.c). Moves op `next`, the only reader of the group's output, into the group if it converts the
 * integers into a type that the group's kernel can write. */
void cpu_fuse_integer_reader(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Moves a QuantizeLinear to the end of a group: an integer convolution and its epilogue. */
void cpu_fuse_final_quantize(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Groups each QuantizeLinear with the functions of dequantized values before it. at: [op_count], indexed by the group's
 * last op. */
inlay_status cpu_group_quantize_chains(cpu_build *build, uint8_t *taken, cpu_group *at);
/* A GEMM with a constant matrix by built-in kernels (dense.c): a plain sum, Winograd's inner product (pairs.h), or
 * block-sparse (sparse.h). Requires state->sgemm. bias: one element per column, or INLAY_NONE. */
typedef enum cpu_dense_way { CPU_DENSE_PLAIN, CPU_DENSE_PAIRS, CPU_DENSE_SPARSE } cpu_dense_way;
inlay_status cpu_lower_dense(cpu_build *build, const cpu_group *group, uint32_t bias, cpu_dense_way way);
/* The same for computed matrices; C of Gemm is one of the group's posts. */
inlay_status cpu_lower_batched(cpu_build *build, const cpu_group *group);
/* A GEMM by oneDNN, with a constant or a computed matrix, in blocks whose sizes do not depend on threads
 * (product_cut.c). bias: as for cpu_lower_dense, with a constant matrix only. */
inlay_status cpu_lower_cut(cpu_build *build, const cpu_group *group, uint32_t bias);
/* output [batch][m, groups, n] = place [m, groups, k] * weights [batch][groups][k, n], all row-major. The caller has
 * allocated output. */
inlay_status cpu_emit_cut(cpu_build *build, const cpu_place *place, const cpu_place *weights, int64_t batch,
                          int64_t groups, int64_t m, int64_t k, int64_t n, const cpu_place *output);
/* output = place * weights: GEMMs in the last two axes; the axes before are those of output. Row-major. The caller has
 * allocated output. */
inlay_status cpu_emit_cut_matrices(cpu_build *build, const cpu_place *place, const cpu_place *weights,
                                   const cpu_place *output);

/* Ops with an empty input and a nonempty output (empty.c): sums, means and maxima of no elements. Other ops report an
 * error. */
bool cpu_reads_empty_input(const cpu_build *build);
inlay_status cpu_lower_empty_input(cpu_build *build, const cpu_group *group);
/* The result of a reduction of no elements (reduce.c). */
float cpu_reduce_empty(const cpu_op *op);

/* A row of n elements: output[i] = alg(p[i], q[i * step]); output may be p. step is 0 or 1. */
void cpu_binary_row(library_alg alg, const float *x0, const float *x1, float *output, int64_t n, int64_t step);
/* The op's binary function of two tensors with the same layout without padding, and the group's posts (binary_chain.c).
 * overwrite: the result may replace x0. */
inlay_status cpu_lower_binary_chain(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                                    bool overwrite);

/* Concatenates row-major tensors along the op's axis into the group's output. */
inlay_status cpu_concat_rows(cpu_build *build, const cpu_group *group, const cpu_place *places, uint32_t count);

/* Concat into a state that is updated in place (append.c). cpu_read_capacities fills build->rooms from the capacities
 * of the region's inputs; cpu_lower_append writes the new rows only; cpu_inplace_state_strides gives the strides of the
 * state `value`. */
void cpu_read_capacities(cpu_build *build, const uint64_t *rooms);
inlay_status cpu_lower_append(cpu_build *build, const cpu_group *group);
void cpu_inplace_state_strides(const cpu_build *build, uint32_t value, int64_t *strides);

/* The number of keys that the mask of the Attention being lowered has columns for; without a mask, all keys. */
int64_t cpu_mask_columns(const cpu_build *build);
/* Strides of a mask: elements from one batch, head, query and key to the next. */
typedef struct cpu_mask {
    bool there; /* false: the mask is omitted */
    int64_t batch, head, query, step;
} cpu_mask;
static inline int64_t cpu_mask_at(const cpu_mask *mask, int64_t batch, int64_t head, int64_t query)
{
    return batch * mask->batch + head * mask->head + query * mask->query;
}
/* Reads input `input` of an Attention as a mask; mask->there = false: it is omitted. */
inlay_status cpu_read_mask(cpu_build *build, uint32_t input, cpu_mask *mask, cpu_place *out);
/* How the op treats queries that may attend to no key. */
sgemm_blank cpu_masked_row_rule(const cpu_op *op);
/* Attention by built-in kernels (attend.c). */
struct sgemm_kernel;
inlay_status cpu_lower_attend(cpu_build *build, const cpu_group *group, const struct sgemm_kernel *kernel);

/* Sets build->groups, in the order in which they are lowered. */
inlay_status cpu_fuse(cpu_build *build);
/* Pads of a window at these sizes, explicit or by auto_pad; `in` and `out` are [spatial]. */
void cpu_window_pads(const cpu_op *op, const int64_t *in, const int64_t *out, const int64_t *kernel, int64_t *begins,
                     int64_t *ends);
/* The layout of the weights of the convolution being lowered: [O, I/g, ..], or [g, O/g, I/g, ..] if g > 1. */
void cpu_window_weights(const cpu_build *build, uint32_t value, memory_desc *out);
/* The share of a window's taps along one axis that are inside the image, over all outputs; 1 if there is no output.
 * With dilation, most taps may be in the padding. */
double cpu_window_share(int64_t kernel, int64_t dilation, int64_t stride, int64_t begin, int64_t in, int64_t out);
/* Is the window of an output of the convolution in the padding only? */
bool cpu_window_misses(const cpu_build *build, const cpu_op *op);
/* Sets the offsets of all buffers, and instance->workspace_bytes. */
inlay_status cpu_plan(cpu_build *build);

/* The constant in layout md, packed from the original or from another pack. Under compiled->lock. */
inlay_status cpu_constant_pack(inlay_compiled *compiled, cpu_constant *constant, const memory_desc *plain,
                               const memory_desc *md, const cpu_pack **out_pack, inlay_diag *diag);
/* Reorders a tensor immediately. */
inlay_status cpu_reorder_now(const cpu_state *state, const memory_desc *from, const void *source, const memory_desc *to,
                             void *target, inlay_diag *diag);
/* The accuracy of Winograd's convolution with `points` points (4, 6) and these weights (tiles.h). It is measured once
 * and stored with the packs. *out_trust lives as long as the constant. Under compiled->lock. */
inlay_status cpu_constant_accuracy(inlay_compiled *compiled, cpu_constant *constant, const memory_desc *plain,
                                   int64_t points, const struct winograd_accuracy **out_trust, inlay_diag *diag);
/* Can all later reads be served by the packs, without the original? Other layouts cannot be made from Winograd's
 * transformed weights. n-bit weights have one layout only. */
bool cpu_constant_is_packed(const cpu_constant *constant);
void cpu_constant_deinit(cpu_constant *constant);
/* Frees the packs that were made for the timing of kernels, whose instances are destroyed. Under compiled->lock. */
void cpu_constant_drop_trials(cpu_constant *constant);

inlay_status cpu_instance_build(inlay_compiled *compiled, const inlay_value_state *values, uint32_t stride,
                                uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                                const struct kernel_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag);
void cpu_instance_destroy(inlay_instance *instance);
/* cpu_execute that also stores the time of each step: out_ns[step_count], or NULL. */
inlay_status cpu_execute_timed(const cpu_state *state, inlay_compiled *compiled, inlay_instance *instance,
                               const inlay_exec_args *args, double *out_ns);
/* Creates the context of the first run in the instance's arena, so that this run allocates nothing. */
inlay_status cpu_context_prepare(const cpu_state *state, inlay_instance *instance, inlay_diag *diag);
void cpu_contexts_destroy(inlay_instance *instance);
/* Makes room for one more element in an array of malloc; new elements are zeroed. false: out of memory. */
bool cpu_grow(void *array, uint32_t count, uint32_t *capacity, size_t element);
#endif
