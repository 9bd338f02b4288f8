/* build.h - a region at concrete shapes: what lowering writes, and the instance that comes out of it.
 *
 * Each value has a place: a buffer, an offset, and a layout (memory_desc), which may be blocked, permuted or
 * row-major. Producers choose; consumers either take what is there or have it reordered. Buffers get their offsets in
 * the workspace when all steps are known (plan.c). */
#ifndef CPU_BUILD_H
#define CPU_BUILD_H
#include "region/region.h"
#include "matrix/sgemm.h"

/* Memory of a build, or of an instance, which the next one finds again at *spare (scratch.c); not cleared. One thread
 * at a time. */
cpu_scratch *cpu_scratch_open(cpu_scratch **spare); /* NULL: out of memory */
/* Room for elements, aligned to 64 bytes, until the scratch is closed; NULL: out of memory. */
void *cpu_scratch_take(cpu_scratch *scratch, size_t count, size_t element);
void *cpu_scratch_take_zeroed(cpu_scratch *scratch, size_t count, size_t element);
void cpu_scratch_close(cpu_scratch **spare, cpu_scratch *scratch); /* NULL is a no-op */
/* Room for one more element in an array of scratch, which moves then; false: out of memory. */
bool cpu_scratch_grow(cpu_scratch *scratch, void *array, uint32_t count, uint32_t *capacity, size_t element);
/* Frees what waits there. */
void cpu_scratch_drop(cpu_scratch **spare);

enum { CPU_WORK, CPU_INPUT, CPU_OUTPUT, CPU_CONST };

typedef struct cpu_buffer {
    uint32_t kind;  /* CPU_WORK ... */
    uint32_t index; /* number of the region's input or output */
    uint64_t bytes;
    uint64_t offset;      /* WORK: in the workspace */
    uint32_t first, last; /* steps that touch it; first = INLAY_NONE until one does */
    uint32_t pending;     /* reads of values in it that are yet to be lowered */
    uint32_t parent;      /* WORK: it is part of another buffer, at `within`; INLAY_NONE */
    uint64_t within;
    uint32_t copy_of; /* the value that it is a copy of, and that may be read there again; INLAY_NONE */
    const void *data; /* CONST */
} cpu_buffer;

typedef struct cpu_place {
    uint32_t buffer; /* INLAY_NONE = nowhere yet */
    uint64_t offset; /* bytes */
    memory_desc md;
} cpu_place;

/* A memory argument of a step. */
typedef struct cpu_slot {
    uint64_t offset; /* bytes */
    uint32_t buffer;
    uint32_t md; /* number in the instance's mds; INLAY_NONE: only loops of our own read it, who know */
} cpu_slot;

typedef struct cpu_arg {
    int id; /* DN_ARG_* */
    uint32_t slot;
} cpu_arg;

/* A loop of our own. args are addresses in the order of the step's arguments. */
typedef struct cpu_native {
    inlay_status (*run)(const struct cpu_native *self, const cpu_state *state, inlay_run *run, void *const *args,
                        uint32_t threads);
    void (*release)(struct cpu_native *self); /* frees what self owns, but not self; NULL: nothing */
    bool pooled;                              /* it lies in the memory of its instance */
    const char *wrong; /* what it says of a run's data where run answers INLAY_INVALID_ARGUMENT; NULL: it never does */
} cpu_native;
/* Of cpu_emit_native's, and of steps. NULL is a no-op. */
void cpu_native_destroy(cpu_native *native);

typedef struct cpu_step {
    library_primitive primitive; /* NULL: native */
    cpu_native *native;          /* freed with the instance */
    uint32_t first_arg, arg_count;
    uint32_t op; /* for diagnostics */
    bool alone;  /* on one thread: too small to wake others for, or made for one */
} cpu_step;

typedef struct cpu_context cpu_context;
typedef struct kernel_choice kernel_choice;

/* Immutable, but for the pool of contexts. */
struct inlay_instance {
    uint32_t references; /* under compiled->lock */
    int64_t *key;        /* dims of all values it was made for */
    uint32_t key_count;
    uint32_t threads;
    bool takes_turn; /* some step is large enough to be shared by threads */
    uint64_t workspace_bytes;
    cpu_step *steps;
    cpu_arg *args;
    cpu_slot *slots;
    memory_desc *mds; /* [md_count] of operands of oneDNN's kernels */
    cpu_buffer *buffers;
    uint32_t step_count, arg_count, slot_count, md_count, buffer_count;
    uint32_t max_args;           /* of one step */
    cpu_scratch *memory, **home; /* of all this, itself too; home: where it goes for the next instance */
    kernel_choice *choices;      /* [choice_count] kernels of convolutions and products (kernels.h) */
    uint32_t choice_count;
    pthread_mutex_t lock;
    bool has_lock;
    cpu_context *ready; /* atomic: one that waits without the lock */
    cpu_context *idle;  /* contexts that no run is using */
};

/* One function that is fused behind an op, or runs by itself. */
enum { CPU_POST_ELTWISE, CPU_POST_BINARY, CPU_POST_SUM };
typedef struct cpu_post {
    uint32_t kind;
    cpu_eltwise eltwise;
    library_alg alg; /* binary */
    uint32_t other;  /* binary: the other operand */
    uint32_t out;    /* the value after it */
} cpu_post;

enum { CPU_MAX_POSTS = 12 };

/* Ops that may run as one primitive: a first one and what follows it. */
struct cpu_group {
    uint32_t op;   /* the first */
    uint32_t last; /* position: the op whose output the group makes */
    cpu_post posts[CPU_MAX_POSTS];
    uint32_t post_count;
    uint32_t room; /* posts that fuse.c may add: Gemm's C becomes one, too */
    uint32_t bias; /* a value that is added per output channel right behind the op, INLAY_NONE */
    uint32_t out;  /* the value after all posts */
    uint32_t ends; /* an integer convolution's QuantizeLinear that comes last: its op + 1; 0: none */
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
    bool alone;                    /* what is emitted now runs on one thread, and was described for one */
    int64_t (*dims)[CPU_MAX_RANK]; /* [value_count] */
    uint32_t *ranks;               /* [value_count] */
    cpu_scratch *scratch;          /* what follows lies there, as far as an array has a length */
    cpu_place *places;             /* [value_count] */
    cpu_place *plains;             /* [value_count] a row-major copy, where one was made (CPU_HAS_PLAIN) */
    cpu_place *copies;             /* [value_count] the last copy in another layout (CPU_HAS_COPY) */
    uint8_t *has;                  /* [value_count] set of RG_HAS_*: entries of other places were never written */
    uint32_t *uses;                /* [value_count] reads yet to be lowered */
    cpu_place *homes;              /* [value_count] of concatenations: the image whose parts are made in place
                                     (CPU_HAS_HOME) */
    uint64_t *rooms;  /* [value_count] rows that there is room for along the axis of a state that is in place
                                    (append.c); 0: it is none */
    uint32_t *scales; /* [value_count] a factor for each channel that its only reader multiplies weights
                                    by, INLAY_NONE: the value is whole */
    struct deferred_producer *
        *ahead; /* [value_count] the convolution that makes it while its only reader runs (kernels.h);
                                NULL: it is made ahead of that, as usual */
    cpu_group *groups;
    uint32_t group_count;
    int64_t *key;   /* what becomes the instance's */
    cpu_memo *memo; /* descriptors that were made (memo.c) */
    uint32_t step_capacity, arg_capacity, slot_capacity, md_capacity, buffer_capacity, choice_capacity;
    const struct kernel_attempt *attempt; /* kernels to try (kernels.h); NULL: the best */
    bool avoids_library; /* convolutions of our own, where there are such (kernel_skips_onednn_startup) */
};

/* What an instance's key has of a value before its dims. */
static inline int64_t cpu_key_word(uint32_t rank, uint64_t room)
{
    return (int64_t)(room << 8 | rank);
}

/* ------------------------------------------------------------------ layouts (layout.c) */

/* The type of a value's elements. */
static inline library_type cpu_type(const cpu_build *build, uint32_t value)
{
    return build->compiled->values[value].type;
}
/* Row-major float tensor; for other types set md->data_type then, which strides do not depend on. */
void memory_desc_plain(memory_desc *md, uint32_t rank, const int64_t *dims);
void memory_desc_any(memory_desc *md, uint32_t rank, const int64_t *dims);
void memory_desc_strides(memory_desc *md, uint32_t rank, const int64_t *dims, const int64_t *strides);
bool memory_desc_is_plain(
    const memory_desc *md); /* row-major without gaps, as the bytes lie: blocks of a 1x1 image count */
bool memory_desc_is_dense(const memory_desc *md); /* no gaps, no padding */
bool memory_desc_is_blocked(const memory_desc *md);
bool memory_desc_is_image(const memory_desc *md); /* blocked, or channels last: what kernels for images like */
/* Channels last, for tensors of rank 3 to 5; what most kernels for images like best. */
void memory_desc_channels_last(memory_desc *md, uint32_t rank, const int64_t *dims);
/* Channels last with any distance between pixels, as all tiles read and write it. */
bool tiles_lie_well(const memory_desc *md);
int64_t tiles_pixel_step(const memory_desc *md);
/* The blocks of input for a tensor of other dims; false: input is blocked otherwise than in channels alone, by 8 or 16.
 */
bool memory_desc_same_blocks(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
/* Are elements at the same places? Strides of axes that have one element do not count. */
/* Without gaps, axes in the order of x's strides; input is not blocked. */
void memory_desc_packed(memory_desc *md, const memory_desc *input);
/* Are the rows (along the last axis) of input, not blocked, dense and at equal distances? *out_stride: elements. */
bool memory_desc_has_rows(const memory_desc *input, int64_t *out_stride);
/* input seen with other dims, of as many elements, without moving any; false: it can't be. input is not blocked. */
bool memory_desc_reshaped(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
/* Where axes that lie together, and apart from the rest, have to change their order first: input with them row-major,
 * and all else in the order that it had. What memory_desc_reshaped then makes of it; false: there is more to move
 * (merge.c).
 */
bool memory_desc_merged(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
bool memory_desc_equal(const memory_desc *a, const memory_desc *b);
/* The axes of input in another order: axis d becomes axis to[d]. false: the library can't be told of that. */
bool memory_desc_permuted(const memory_desc *input, const int *to, memory_desc *out);
int64_t memory_desc_count(const memory_desc *md);
uint64_t memory_desc_bytes(const memory_desc *md);
size_t cpu_type_bytes(library_type type);
/* The layout of floats that the library calls dnnl_<tag>: axes from the outermost, then blocks from the outermost, such
 * as "aBcd16b". Axes are padded to whole blocks. false: dims that make no layout. */
bool memory_desc_blocks(memory_desc *md, uint32_t rank, const int64_t *dims, const char *tag);
/* Copies elements of 4 bytes from one layout to another, padding by 0, where they are few enough for a plain loop to be
 * done before a kernel for it would be made. false: not so, nothing was done. */
bool memory_desc_copy(const memory_desc *from, const void *source, const memory_desc *to, void *target);
/* The same of a part, [dims] from `first` on in both, of any size; padding is left. */
bool memory_desc_copy_part(const memory_desc *from, const void *source, const memory_desc *to, void *target,
                           const int64_t *dims, const int64_t *first);

/* ------------------------------------------------------------------ types (precision.c) */

bool cpu_has_bf16(void);
/* Of the operands of products. */
library_type cpu_product_type(const cpu_build *build);
/* In which a product may leave a value for those who read it: that type if they are products, too. */
library_type cpu_kept_type(const cpu_build *build, uint32_t value);
/* The value row-major, as float or bfloat16. */
inlay_status cpu_read_rows(cpu_build *build, uint32_t value, library_type type, cpu_place *out);
/* A convolution of bfloat16; *out_done = false: oneDNN has none. */
inlay_status cpu_lower_reduced_conv(cpu_build *build, const cpu_group *group, bool *out_done);
/* Is it a product by a constant matrix, which is packed (product.c)? */
bool cpu_is_packed(const cpu_build *build, const cpu_op *op);

/* ------------------------------------------------------------------ building (build.c) */

int64_t cpu_count(const cpu_build *build, uint32_t value);

/* Where the value lies now, without gaps: in blocks, or with its axes in any order; as float if it was kept as bfloat16
 * (cpu_read_as has that as it is). Constants lie row-major. */
inlay_status cpu_read(cpu_build *build, uint32_t value, cpu_place *out);
/* The same, perhaps as a part of a larger tensor: with gaps between its rows. */
inlay_status cpu_read_strided(cpu_build *build, uint32_t value, cpu_place *out);
/* The same row-major, by a reorder if need be. */
inlay_status cpu_read_plain(cpu_build *build, uint32_t value, cpu_place *out);
/* The same in this layout. */
inlay_status cpu_read_as(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* An operand of a batched product with `rank` axes, of which the last two may be exchanged: as it lies if it is dense
 * and one of the two is contiguous, otherwise row-major. */
inlay_status cpu_read_matrix(cpu_build *build, uint32_t value, uint32_t rank, bool trans, cpu_place *out);
/* The place in another layout of equal dims, by a reorder if they differ. out may be place. */
inlay_status cpu_reorder(cpu_build *build, const cpu_place *place, const memory_desc *layout, cpu_place *out);
/* A constant read as `plain` (dims and strides of the original's elements), in layout md. */
inlay_status cpu_read_constant(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *md,
                               cpu_place *out);
/* A constant of so many floats in a row: a bias, say. */
inlay_status cpu_read_floats(cpu_build *build, uint32_t value, int64_t count, cpu_place *out);
/* The bytes of a pack that a step of our own reads. */
inlay_status cpu_pack_place(cpu_build *build, const void *data, uint64_t bytes, cpu_place *out);
/* A step that copies a tensor into another place, which has the same dims and type in any layout (moves.c). */
inlay_status cpu_emit_copy(cpu_build *build, const cpu_place *from, const cpu_place *to);
/* A copy of an image, which has channels last, with zeros before and after each axis but the channels (pad.c). */
inlay_status cpu_emit_border(cpu_build *build, const cpu_place *input, const int64_t *before, const int64_t *after,
                             cpu_place *out);
/* A buffer for a tensor of this layout. */
inlay_status cpu_new_place(cpu_build *build, const memory_desc *md, cpu_place *out);
/* The same for so many floats in a row: scratch of a step. */
inlay_status cpu_new_floats(cpu_build *build, int64_t count, cpu_place *out);
/* Where to make a value: the region's output if the layout allows, otherwise a buffer of its own. */
inlay_status cpu_result_place(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* Where a step makes what the group's result becomes: the result's place if it does all of the group's posts, otherwise
 * a buffer. */
inlay_status cpu_made_place(cpu_build *build, const cpu_group *group, uint32_t posts_done, const memory_desc *md,
                            cpu_place *out);
/* The region's output, in whatever layout the host expects there. */
inlay_status cpu_output_place(cpu_build *build, uint32_t value, const memory_desc *md, cpu_place *out);
/* The value lies there from now on; copies it out if it leaves the region. */
inlay_status cpu_set_place(cpu_build *build, uint32_t value, const cpu_place *place);
/* May the bytes at this place, read for the last time now by `value`'s reader, be written over? */
bool cpu_is_last_use(const cpu_build *build, uint32_t value);

typedef struct cpu_operand {
    int id; /* a library_operand */
    const cpu_place *place;
} cpu_operand;
/* Makes the primitive and its step; the descriptor stays the caller's. Scratchpad is added. */
inlay_status cpu_emit(cpu_build *build, library_description pd, const cpu_operand *operands, uint32_t count);
/* Adds a step that a loop of our own runs. *native is the step's from here on, also on failure. */
inlay_status cpu_emit_native(cpu_build *build, cpu_native *native, const cpu_place *const *places, uint32_t count);
/* Memory for a step, cleared, that goes with the instance; NULL: out of memory. */
void *cpu_new_native(cpu_build *build, size_t bytes);
/* The same with a copy of *step, the head of a struct of that many bytes, which owns nothing. */
inlay_status cpu_emit_step(cpu_build *build, const cpu_native *step, size_t bytes, const cpu_place *const *places,
                           uint32_t count);

/* A normalisation by constants of an image that lies row-major or channels last, by a loop of our own (batch.c).
 * relu: the first function behind it is one, and is done with it. *out_done = false: the image lies otherwise. */
inlay_status cpu_lower_batch_rows(cpu_build *build, const cpu_group *group, bool relu, bool *out_done);

/* ------------------------------------------------------------------ fused functions (posts.c) */

typedef struct cpu_fused {
    library_description pd; /* the caller destroys it */
    uint32_t count;         /* posts that it does */
    bool sums;              /* posts[sum_at] adds to what is in dst already */
    uint32_t sum_at;
    cpu_place others[CPU_MAX_POSTS]; /* binary operands, as it reads them */
} cpu_fused;

/* Is it none of oneDNN's plain loops, which are there for what nothing faster does? */
bool cpu_is_fast(library_const_description pd);
/* Creates the primitive descriptor of an operation with as many of the group's posts as a fast kernel takes. Its output
 * may have fewer axes than the value (a product's does). */
inlay_status cpu_fuse_posts(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out);
/* Emits it: operands are those of the op itself without dst. Makes the group's output, also by the posts that were not
 * fused. */
inlay_status cpu_emit_fused(cpu_build *build, const cpu_group *group, const cpu_fused *fused,
                            const cpu_operand *operands, uint32_t count);

/* The descriptor that was kept for an equal operation without posts; the caller destroys it. false: there is none. */
bool cpu_memo_find(const cpu_build *build, const library_op *op, library_description *out);
void cpu_memo_keep(cpu_build *build, const library_op *op, library_const_description pd);
void cpu_memo_drop(cpu_build *build);
/* A descriptor without posts. The caller destroys it. */
inlay_status cpu_describe(cpu_build *build, const library_op *op, library_description *out);
/* Functions of one tensor as loops (functions.c): output[i] = f(input[i]); NULL: there is none. output may be input. */
typedef void (*cpu_row_fn)(const float *input, float *output, int64_t n, float alpha, float beta);
cpu_row_fn cpu_row_of(const cpu_eltwise *eltwise);
/* y[i] = f(y[i]) of n elements that are in the cache, for functions that have a loop; kernel: NULL where there is
 * none (sgemm.h). */
struct sgemm_kernel;
void cpu_apply(const struct sgemm_kernel *kernel, const cpu_eltwise *eltwise, float *output, int64_t n);
/* Is that loop the best for so many elements? */
bool cpu_row_is_best(const cpu_state *state, const cpu_eltwise *eltwise, int64_t count);
/* Is the function always that loop, never fused by oneDNN: since it has it not, or not well enough? */
bool cpu_is_ours(library_alg alg);
/* Does oneDNN's code make a number of NaN, or NaN of an infinity that has a limit? Its minima and maxima are those of
 * x86, which take the second operand where one is NaN; its exponential begins with one of each. Loops of our own keep
 * what is not finite, as ONNX has it. */
bool cpu_loses_nan(const cpu_eltwise *eltwise);
bool cpu_binary_loses_nan(library_alg alg);
/* The loop as a step; both places hold floats alike, without gaps but for what pads blocks, if 0 stays 0 by the
 * function. output may be input. */
inlay_status cpu_emit_function(cpu_build *build, const cpu_eltwise *eltwise, const cpu_place *input,
                               const cpu_place *output);
/* A function of a place. overwrite: it may become the result. result: the value that this makes, INLAY_NONE for
 * something in between. */
inlay_status cpu_eltwise_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_eltwise *eltwise,
                            uint32_t result, cpu_place *out);
/* alg(input, value `other`), broadcast to the dims of value `like`. */
inlay_status cpu_binary_at(cpu_build *build, library_alg alg, const cpu_place *input, bool overwrite, uint32_t other,
                           uint32_t like, uint32_t result, cpu_place *out);
/* Runs the group's posts from `first` on what was made so far, and leaves the group's output. */
inlay_status cpu_finish(cpu_build *build, const cpu_group *group, uint32_t first, const cpu_place *made,
                        bool overwrite);

/* Gelu, either form: a loop of our own where there are any. */
bool cpu_is_gelu(const cpu_eltwise *eltwise);

struct sgemm_post;
/* The function as our own loops have it (dense.c); false: they have it not. */
bool cpu_function_of(const cpu_eltwise *eltwise, struct sgemm_post *out);

/* ------------------------------------------------------------------ the rest */

/* A convolution with groups by loops of our own (groups.c), for those that oneDNN has nothing fast for; *out_done is
 * false where the CPU has no such loops. weights: the original's layout as oneDNN numbers its axes. bias: a value,
 * INLAY_NONE. */
inlay_status cpu_lower_groups(cpu_build *build, const cpu_group *group, const memory_desc *weights, uint32_t bias,
                              bool *out_done);

/* Integers (quant*.c). Takes the only reader of what the group makes, op `next`, into the group if it turns integers
 * into what the group's kernel can give as well. */
void cpu_quant_take(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Takes a QuantizeLinear as the last op of a group that is an integer convolution with functions behind it. */
void cpu_quant_end(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Makes QuantizeLinear and the functions of dequantized values before it one group each; at: [op_count], by last op. */
inlay_status cpu_quant_chains(cpu_build *build, uint8_t *taken, cpu_group *at);
/* A product by a constant matrix with loops of our own (dense.c): as written, in pairs (pairs.h), or without blocks of
 * zeros (sparse.h); state->sgemm is there. bias: one for each column, or INLAY_NONE. */
typedef enum cpu_dense_way { CPU_DENSE_PLAIN, CPU_DENSE_PAIRS, CPU_DENSE_SPARSE } cpu_dense_way;
inlay_status cpu_lower_dense(cpu_build *build, const cpu_group *group, uint32_t bias, cpu_dense_way way);
/* Products of matrices that are computed, likewise; C of Gemm is among the group's posts. */
inlay_status cpu_lower_batched(cpu_build *build, const cpu_group *group);
/* Products of either kind by oneDNN, cut into blocks (product_cut.c). bias: as above, of constant matrices. */
inlay_status cpu_lower_cut(cpu_build *build, const cpu_group *group, uint32_t bias);
/* output [batch][m, groups, n] = a [m, groups, k] * weights [batch][groups][k, n], all row-major; output has its place.
 */
inlay_status cpu_emit_cut(cpu_build *build, const cpu_place *place, const cpu_place *weights, int64_t batch,
                          int64_t groups, int64_t m, int64_t k, int64_t n, const cpu_place *output);
/* output = a * weights, products of matrices in the last two axes, the ones before as output has them, row-major;
 * output has its place. */
inlay_status cpu_emit_cut_matrices(cpu_build *build, const cpu_place *place, const cpu_place *weights,
                                   const cpu_place *output);

/* Ops that make elements although an input has none (empty.c): sums, means and maxima of nothing; what else does is an
 * error. */
bool cpu_reads_nothing(const cpu_build *build);
inlay_status cpu_lower_nothing(cpu_build *build, const cpu_group *group);
/* What a reduction of no elements is (reduce.c). */
float cpu_reduced_nothing(const cpu_op *op);

/* A row of n elements: output[i] = alg(p[i], q[i * step]); output may be p. step is 0 or 1. */
void cpu_binary_row(library_alg alg, const float *p, const float *q, float *output, int64_t n, int64_t step);
/* The op's function of two tensors that lie alike without padding, and the group's posts (whole.c). overwrite: x0 may
 * become the result. */
inlay_status cpu_lower_whole(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                             bool overwrite);

/* Concatenates what lies row-major along the axis of the op, into the group's output. */
inlay_status cpu_concat_rows(cpu_build *build, const cpu_group *group, const cpu_place *places, uint32_t count);

/* The same where the result is a state in place: rooms of the region's inputs, and the concatenation (append.c). */
void cpu_read_rooms(cpu_build *build, const uint64_t *rooms);
inlay_status cpu_lower_append(cpu_build *build, const cpu_group *group);
void cpu_state_strides(const cpu_build *build, uint32_t value, int64_t *strides);

/* How many keys, from the first, the mask of the Attention being lowered has columns for; all when there is none. */
int64_t cpu_mask_reach(const cpu_build *build);
/* How a mask lies: elements from one batch, head, query and key to the next. */
typedef struct cpu_mask {
    bool there;
    int64_t batch, head, query, step;
} cpu_mask;
static inline int64_t cpu_mask_at(const cpu_mask *mask, int64_t batch, int64_t head, int64_t query)
{
    return batch * mask->batch + head * mask->head + query * mask->query;
}
/* Input `input` of an attention as a mask, if it has one. */
inlay_status cpu_read_mask(cpu_build *build, uint32_t input, cpu_mask *mask, cpu_place *out);
sgemm_blank cpu_blank(const cpu_op *op);
/* Attention with loops of our own (attend.c). */
struct sgemm_kernel;
inlay_status cpu_lower_attend(cpu_build *build, const cpu_group *group, const struct sgemm_kernel *kernel);

/* Groups of the region at the build's shapes, in an order to lower them in. */
inlay_status cpu_fuse(cpu_build *build);
/* Pads of a window at these sizes, explicit ones and those of auto_pad; `in` and `out` are [spatial]. */
void cpu_window_pads(const cpu_op *op, const int64_t *in, const int64_t *out, const int64_t *kernel, int64_t *begins,
                     int64_t *ends);
/* The weights of the convolution in hand as ONNX Conv has them: [O, I/g, ..], with the groups in front if there are
 * any. */
void cpu_window_weights(const cpu_build *build, uint32_t value, memory_desc *out);
/* Of the taps of a window along one axis the share that lies in the image, over all outputs; 1 when there is no output.
 * A dilated window may have most of them in the padding. */
double cpu_window_share(int64_t kernel, int64_t dilation, int64_t stride, int64_t begin, int64_t in, int64_t out);
/* Has the convolution, of images, a window that lies in padding alone? */
bool cpu_window_misses(const cpu_build *build, const cpu_op *op);
/* Offsets of all buffers; instance->workspace_bytes. */
inlay_status cpu_plan(cpu_build *build);

/* The constant in this layout, from the original or from another pack. Under compiled->lock. */
inlay_status cpu_constant_pack(inlay_compiled *compiled, cpu_constant *constant, const memory_desc *plain,
                               const memory_desc *md, const cpu_pack **out_pack, inlay_diag *diag);
/* The elements of one tensor in another layout, now. */
inlay_status cpu_reorder_now(const cpu_state *state, const memory_desc *from, const void *source, const memory_desc *to,
                             void *target, inlay_diag *diag);
/* What Winograd's convolution with that many points (4, 6) does with these weights (tiles.h); measured once, and kept
 * with the packs. *out_trust lives as long as the constant. Under compiled->lock. */
inlay_status cpu_constant_accuracy(inlay_compiled *compiled, cpu_constant *constant, const memory_desc *plain,
                                   int64_t points, const struct winograd_accuracy **out_trust, inlay_diag *diag);
/* Is there a pack that other layouts can be made from? Winograd's weights are none. */
bool cpu_constant_is_packed(const cpu_constant *constant);
void cpu_constant_deinit(cpu_constant *constant);
/* Frees the packs that were made for the timing of kernels; no instance of that is left. Under compiled->lock. */
void cpu_constant_drop_trials(cpu_constant *constant);

inlay_status cpu_instance_build(inlay_compiled *compiled, const inlay_value_state *values, uint32_t stride,
                                uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                                const struct kernel_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag);
void cpu_instance_destroy(inlay_instance *instance);
/* cpu_execute, and what each step took: [step_count]. */
inlay_status cpu_execute_timed(const cpu_state *state, inlay_compiled *compiled, inlay_instance *instance,
                               const inlay_exec_args *args, double *out_ns);
/* Makes the context of the first run, so that it needs no heap. */
inlay_status cpu_context_prepare(const cpu_state *state, inlay_instance *instance, inlay_diag *diag);
void cpu_contexts_destroy(inlay_instance *instance);
/* Room for one more element; false: out of memory. */
bool cpu_grow(void *array, uint32_t count, uint32_t *capacity, size_t element);
#endif
