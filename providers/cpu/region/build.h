/* build.h - a region at concrete shapes: what lowering writes, and the instance that comes out of it.
 *
 * Each value has a place: a buffer, an offset, and a layout (rg_md), which may be blocked, permuted or
 * row-major. Producers choose; consumers either take what is there or have it reordered. Buffers get their offsets in
 * the workspace when all steps are known (plan.c). */
#ifndef CPU_BUILD_H
#define CPU_BUILD_H
#include "region/region.h"
#include "matrix/sgemm.h"

/* Memory of a build, or of an instance, which the next one finds again at *spare (scratch.c); not cleared. One thread
 * at a time. */
rg_scratch *rg_scratch_open(rg_scratch **spare); /* NULL: out of memory */
/* Room for elements, aligned to 64 bytes, until the scratch is closed; NULL: out of memory. */
void *rg_scratch_take(rg_scratch *scratch, size_t count, size_t element);
void *rg_scratch_take_zeroed(rg_scratch *scratch, size_t count, size_t element);
void rg_scratch_close(rg_scratch **spare, rg_scratch *scratch); /* NULL is a no-op */
/* Room for one more element in an array of scratch, which moves then; false: out of memory. */
bool rg_scratch_grow(rg_scratch *scratch, void *array, uint32_t count, uint32_t *capacity, size_t element);
/* Frees what waits there. */
void rg_scratch_drop(rg_scratch **spare);

enum { RG_WORK, RG_INPUT, RG_OUTPUT, RG_CONST };

typedef struct rg_buffer {
    uint32_t kind;  /* RG_WORK ... */
    uint32_t index; /* number of the region's input or output */
    uint64_t bytes;
    uint64_t offset;      /* WORK: in the workspace */
    uint32_t first, last; /* steps that touch it; first = INLAY_NONE until one does */
    uint32_t pending;     /* reads of values in it that are yet to be lowered */
    uint32_t parent;      /* WORK: it is part of another buffer, at `within`; INLAY_NONE */
    uint64_t within;
    uint32_t copy_of; /* the value that it is a copy of, and that may be read there again; INLAY_NONE */
    const void *data; /* CONST */
} rg_buffer;

typedef struct rg_place {
    uint32_t buffer; /* INLAY_NONE = nowhere yet */
    uint64_t offset; /* bytes */
    rg_md md;
} rg_place;

/* A memory argument of a step. */
typedef struct rg_slot {
    uint64_t offset; /* bytes */
    uint32_t buffer;
    uint32_t md; /* number in the instance's mds; INLAY_NONE: only loops of our own read it, who know */
} rg_slot;

typedef struct rg_arg {
    int id; /* DN_ARG_* */
    uint32_t slot;
} rg_arg;

/* A loop of our own. args are addresses in the order of the step's arguments. */
typedef struct rg_native {
    inlay_status (*run)(const struct rg_native *self, const rg_state *state, inlay_run *run, void *const *args,
                        uint32_t threads);
    void (*release)(struct rg_native *self); /* frees what self owns, but not self; NULL: nothing */
    bool pooled;                             /* it lies in the memory of its instance */
    const char *wrong; /* what it says of a run's data where run answers INLAY_INVALID_ARGUMENT; NULL: it never does */
} rg_native;
/* Of rg_emit_native's, and of steps. NULL is a no-op. */
void rg_native_destroy(rg_native *native);

typedef struct rg_step {
    dn_primitive primitive; /* NULL: native */
    rg_native *native;      /* freed with the instance */
    uint32_t first_arg, arg_count;
    uint32_t op; /* for diagnostics */
    bool alone;  /* on one thread: too small to wake others for, or made for one */
} rg_step;

typedef struct rg_context rg_context;
typedef struct kn_choice kn_choice;

/* Immutable, but for the pool of contexts. */
struct inlay_instance {
    uint32_t references; /* under compiled->lock */
    int64_t *key;        /* dims of all values it was made for */
    uint32_t key_count;
    uint32_t threads;
    bool takes_turn; /* some step is large enough to be shared by threads */
    uint64_t workspace_bytes;
    rg_step *steps;
    rg_arg *args;
    rg_slot *slots;
    rg_md *mds; /* [md_count] of operands of oneDNN's kernels */
    rg_buffer *buffers;
    uint32_t step_count, arg_count, slot_count, md_count, buffer_count;
    uint32_t max_args;          /* of one step */
    rg_scratch *memory, **home; /* of all this, itself too; home: where it goes for the next instance */
    kn_choice *choices;         /* [choice_count] kernels of convolutions and products (kernels.h) */
    uint32_t choice_count;
    pthread_mutex_t lock;
    bool has_lock;
    rg_context *ready; /* atomic: one that waits without the lock */
    rg_context *idle;  /* contexts that no run is using */
};

/* One function that is fused behind an op, or runs by itself. */
enum { RG_POST_ELTWISE, RG_POST_BINARY, RG_POST_SUM };
typedef struct rg_post {
    uint32_t kind;
    rg_eltwise eltwise;
    dn_alg alg;     /* binary */
    uint32_t other; /* binary: the other operand */
    uint32_t out;   /* the value after it */
} rg_post;

enum { RG_MAX_POSTS = 12 };

/* Ops that may run as one primitive: a first one and what follows it. */
struct rg_group {
    uint32_t op;   /* the first */
    uint32_t last; /* position: the op whose output the group makes */
    rg_post posts[RG_MAX_POSTS];
    uint32_t post_count;
    uint32_t room; /* posts that fuse.c may add: Gemm's C becomes one, too */
    uint32_t bias; /* a value that is added per output channel right behind the op, INLAY_NONE */
    uint32_t out;  /* the value after all posts */
    uint32_t ends; /* an integer convolution's QuantizeLinear that comes last: its op + 1; 0: none */
};

typedef struct rg_memo rg_memo;
enum { RG_HAS_PLAIN = 1, RG_HAS_COPY = 2, RG_HAS_HOME = 4 };
struct rg_build {
    const rg_state *state;
    inlay_compiled *compiled;
    inlay_diag *diag;
    inlay_instance *instance;
    const rg_op *op; /* being lowered */
    uint32_t op_index;
    bool alone;                   /* what is emitted now runs on one thread, and was described for one */
    int64_t (*dims)[RG_MAX_RANK]; /* [value_count] */
    uint32_t *ranks;              /* [value_count] */
    rg_scratch *scratch;          /* what follows lies there, as far as an array has a length */
    rg_place *places;             /* [value_count] */
    rg_place *plains;             /* [value_count] a row-major copy, where one was made (RG_HAS_PLAIN) */
    rg_place *copies;             /* [value_count] the last copy in another layout (RG_HAS_COPY) */
    uint8_t *has;                 /* [value_count] set of RG_HAS_*: entries of other places were never written */
    uint32_t *uses;               /* [value_count] reads yet to be lowered */
    rg_place *homes;              /* [value_count] of concatenations: the image whose parts are made in place
                                     (RG_HAS_HOME) */
    uint64_t *rooms;         /* [value_count] rows that there is room for along the axis of a state that is in place
                                (append.c); 0: it is none */
    uint32_t *scales;        /* [value_count] a factor for each channel that its only reader multiplies weights
                                by, INLAY_NONE: the value is whole */
    struct kn_ahead **ahead; /* [value_count] the convolution that makes it while its only reader runs (kernels.h);
                                NULL: it is made ahead of that, as usual */
    rg_group *groups;
    uint32_t group_count;
    int64_t *key;  /* what becomes the instance's */
    rg_memo *memo; /* descriptors that were made (memo.c) */
    uint32_t step_capacity, arg_capacity, slot_capacity, md_capacity, buffer_capacity, choice_capacity;
    const struct kn_attempt *attempt; /* kernels to try (kernels.h); NULL: the best */
    bool spares_library;              /* convolutions of our own, where there are such (kn_spares_library) */
};

/* What an instance's key has of a value before its dims. */
static inline int64_t rg_key_word(uint32_t rank, uint64_t room)
{
    return (int64_t)(room << 8 | rank);
}

/* ------------------------------------------------------------------ layouts (layout.c) */

/* The type of a value's elements. */
static inline dn_type rg_type(const rg_build *build, uint32_t value)
{
    return build->compiled->values[value].type;
}
/* Row-major float tensor; for other types set md->data_type then, which strides do not depend on. */
void rg_md_plain(rg_md *md, uint32_t rank, const int64_t *dims);
void rg_md_any(rg_md *md, uint32_t rank, const int64_t *dims);
void rg_md_strides(rg_md *md, uint32_t rank, const int64_t *dims, const int64_t *strides);
bool rg_md_is_plain(const rg_md *md); /* row-major without gaps, as the bytes lie: blocks of a 1x1 image count */
bool rg_md_is_dense(const rg_md *md); /* no gaps, no padding */
bool rg_md_is_blocked(const rg_md *md);
bool rg_md_is_image(const rg_md *md); /* blocked, or channels last: what kernels for images like */
/* Channels last, for tensors of rank 3 to 5; what most kernels for images like best. */
void rg_md_channels_last(rg_md *md, uint32_t rank, const int64_t *dims);
/* Channels last with any distance between pixels, as all tiles read and write it. */
bool tiles_lie_well(const rg_md *md);
int64_t tiles_pixel_step(const rg_md *md);
/* The blocks of input for a tensor of other dims; false: input is blocked otherwise than in channels alone, by 8 or 16.
 */
bool rg_md_same_blocks(const rg_md *input, uint32_t rank, const int64_t *dims, rg_md *out);
/* Are elements at the same places? Strides of axes that have one element do not count. */
/* Without gaps, axes in the order of x's strides; input is not blocked. */
void rg_md_packed(rg_md *md, const rg_md *input);
/* Are the rows (along the last axis) of input, not blocked, dense and at equal distances? *out_stride: elements. */
bool rg_md_has_rows(const rg_md *input, int64_t *out_stride);
/* input seen with other dims, of as many elements, without moving any; false: it can't be. input is not blocked. */
bool rg_md_reshaped(const rg_md *input, uint32_t rank, const int64_t *dims, rg_md *out);
/* Where axes that lie together, and apart from the rest, have to change their order first: input with them row-major,
 * and all else in the order that it had. What rg_md_reshaped then makes of it; false: there is more to move (merge.c).
 */
bool rg_md_merged(const rg_md *input, uint32_t rank, const int64_t *dims, rg_md *out);
bool rg_md_equal(const rg_md *a, const rg_md *b);
/* The axes of input in another order: axis d becomes axis to[d]. false: the library can't be told of that. */
bool rg_md_permuted(const rg_md *input, const int *to, rg_md *out);
int64_t rg_md_count(const rg_md *md);
uint64_t rg_md_bytes(const rg_md *md);
size_t rg_type_bytes(dn_type type);
/* The layout of floats that the library calls dnnl_<tag>: axes from the outermost, then blocks from the outermost, such
 * as "aBcd16b". Axes are padded to whole blocks. false: dims that make no layout. */
bool rg_md_blocks(rg_md *md, uint32_t rank, const int64_t *dims, const char *tag);
/* Copies elements of 4 bytes from one layout to another, padding by 0, where they are few enough for a plain loop to be
 * done before a kernel for it would be made. false: not so, nothing was done. */
bool rg_md_copy(const rg_md *from, const void *source, const rg_md *to, void *target);
/* The same of a part, [dims] from `first` on in both, of any size; padding is left. */
bool rg_md_copy_part(const rg_md *from, const void *source, const rg_md *to, void *target, const int64_t *dims,
                     const int64_t *first);

/* ------------------------------------------------------------------ types (precision.c) */

bool rg_has_bf16(void);
/* Of the operands of products. */
dn_type rg_product_type(const rg_build *build);
/* In which a product may leave a value for those who read it: that type if they are products, too. */
dn_type rg_kept_type(const rg_build *build, uint32_t value);
/* The value row-major, as float or bfloat16. */
inlay_status rg_read_rows(rg_build *build, uint32_t value, dn_type type, rg_place *out);
/* A convolution of bfloat16; *out_done = false: oneDNN has none. */
inlay_status rg_lower_reduced_conv(rg_build *build, const rg_group *group, bool *out_done);
/* Is it a product by a constant matrix, which is packed (product.c)? */
bool rg_is_packed(const rg_build *build, const rg_op *op);

/* ------------------------------------------------------------------ building (build.c) */

int64_t rg_count(const rg_build *build, uint32_t value);

/* Where the value lies now, without gaps: in blocks, or with its axes in any order; as float if it was kept as bfloat16
 * (rg_read_as has that as it is). Constants lie row-major. */
inlay_status rg_read(rg_build *build, uint32_t value, rg_place *out);
/* The same, perhaps as a part of a larger tensor: with gaps between its rows. */
inlay_status rg_read_strided(rg_build *build, uint32_t value, rg_place *out);
/* The same row-major, by a reorder if need be. */
inlay_status rg_read_plain(rg_build *build, uint32_t value, rg_place *out);
/* The same in this layout. */
inlay_status rg_read_as(rg_build *build, uint32_t value, const rg_md *md, rg_place *out);
/* An operand of a batched product with `rank` axes, of which the last two may be exchanged: as it lies if it is dense
 * and one of the two is contiguous, otherwise row-major. */
inlay_status rg_read_matrix(rg_build *build, uint32_t value, uint32_t rank, bool trans, rg_place *out);
/* The place in another layout of equal dims, by a reorder if they differ. out may be place. */
inlay_status rg_reorder(rg_build *build, const rg_place *place, const rg_md *layout, rg_place *out);
/* A constant read as `plain` (dims and strides of the original's elements), in layout md. */
inlay_status rg_read_constant(rg_build *build, uint32_t value, const rg_md *plain, const rg_md *md, rg_place *out);
/* A constant of so many floats in a row: a bias, say. */
inlay_status rg_read_floats(rg_build *build, uint32_t value, int64_t count, rg_place *out);
/* The bytes of a pack that a step of our own reads. */
inlay_status rg_pack_place(rg_build *build, const void *data, uint64_t bytes, rg_place *out);
/* A step that copies a tensor into another place, which has the same dims and type in any layout (moves.c). */
inlay_status rg_emit_copy(rg_build *build, const rg_place *from, const rg_place *to);
/* A copy of an image, which has channels last, with zeros before and after each axis but the channels (pad.c). */
inlay_status rg_emit_border(rg_build *build, const rg_place *input, const int64_t *before, const int64_t *after,
                            rg_place *out);
/* A buffer for a tensor of this layout. */
inlay_status rg_new_place(rg_build *build, const rg_md *md, rg_place *out);
/* The same for so many floats in a row: scratch of a step. */
inlay_status rg_new_floats(rg_build *build, int64_t count, rg_place *out);
/* Where to make a value: the region's output if the layout allows, otherwise a buffer of its own. */
inlay_status rg_result_place(rg_build *build, uint32_t value, const rg_md *md, rg_place *out);
/* Where a step makes what the group's result becomes: the result's place if it does all of the group's posts, otherwise
 * a buffer. */
inlay_status rg_made_place(rg_build *build, const rg_group *group, uint32_t posts_done, const rg_md *md, rg_place *out);
/* The region's output, in whatever layout the host expects there. */
inlay_status rg_output_place(rg_build *build, uint32_t value, const rg_md *md, rg_place *out);
/* The value lies there from now on; copies it out if it leaves the region. */
inlay_status rg_set_place(rg_build *build, uint32_t value, const rg_place *place);
/* May the bytes at this place, read for the last time now by `value`'s reader, be written over? */
bool rg_is_last_use(const rg_build *build, uint32_t value);

typedef struct rg_operand {
    int id; /* a dn_operand */
    const rg_place *place;
} rg_operand;
/* Makes the primitive and its step; the descriptor stays the caller's. Scratchpad is added. */
inlay_status rg_emit(rg_build *build, dn_description pd, const rg_operand *operands, uint32_t count);
/* Adds a step that a loop of our own runs. *native is the step's from here on, also on failure. */
inlay_status rg_emit_native(rg_build *build, rg_native *native, const rg_place *const *places, uint32_t count);
/* Memory for a step, cleared, that goes with the instance; NULL: out of memory. */
void *rg_new_native(rg_build *build, size_t bytes);
/* The same with a copy of *step, the head of a struct of that many bytes, which owns nothing. */
inlay_status rg_emit_step(rg_build *build, const rg_native *step, size_t bytes, const rg_place *const *places,
                          uint32_t count);

/* A normalisation by constants of an image that lies row-major or channels last, by a loop of our own (batch.c).
 * relu: the first function behind it is one, and is done with it. *out_done = false: the image lies otherwise. */
inlay_status rg_lower_batch_rows(rg_build *build, const rg_group *group, bool relu, bool *out_done);

/* ------------------------------------------------------------------ fused functions (posts.c) */

typedef struct rg_fused {
    dn_description pd; /* the caller destroys it */
    uint32_t count;    /* posts that it does */
    bool sums;         /* posts[sum_at] adds to what is in dst already */
    uint32_t sum_at;
    rg_place others[RG_MAX_POSTS]; /* binary operands, as it reads them */
} rg_fused;

/* Is it none of oneDNN's plain loops, which are there for what nothing faster does? */
bool rg_is_fast(dn_const_description pd);
/* Creates the primitive descriptor of an operation with as many of the group's posts as a fast kernel takes. Its output
 * may have fewer axes than the value (a product's does). */
inlay_status rg_fuse_posts(rg_build *build, const rg_group *group, const dn_op *op, rg_fused *out);
/* Emits it: operands are those of the op itself without dst. Makes the group's output, also by the posts that were not
 * fused. */
inlay_status rg_emit_fused(rg_build *build, const rg_group *group, const rg_fused *fused, const rg_operand *operands,
                           uint32_t count);

/* The descriptor that was kept for an equal operation without posts; the caller destroys it. false: there is none. */
bool rg_memo_find(const rg_build *build, const dn_op *op, dn_description *out);
void rg_memo_keep(rg_build *build, const dn_op *op, dn_const_description pd);
void rg_memo_drop(rg_build *build);
/* A descriptor without posts. The caller destroys it. */
inlay_status rg_describe(rg_build *build, const dn_op *op, dn_description *out);
/* Functions of one tensor as loops (functions.c): output[i] = f(input[i]); NULL: there is none. output may be input. */
typedef void (*rg_row_fn)(const float *input, float *output, int64_t n, float alpha, float beta);
rg_row_fn rg_row_of(const rg_eltwise *eltwise);
/* y[i] = f(y[i]) of n elements that are in the cache, for functions that have a loop; kernel: NULL where there is
 * none (sgemm.h). */
struct sg_kernel;
void rg_apply(const struct sg_kernel *kernel, const rg_eltwise *eltwise, float *output, int64_t n);
/* Is that loop the best for so many elements? */
bool rg_row_is_best(const rg_state *state, const rg_eltwise *eltwise, int64_t count);
/* Is the function always that loop, never fused by oneDNN: since it has it not, or not well enough? */
bool rg_is_ours(dn_alg alg);
/* Does oneDNN's code make a number of NaN, or NaN of an infinity that has a limit? Its minima and maxima are those of
 * x86, which take the second operand where one is NaN; its exponential begins with one of each. Loops of our own keep
 * what is not finite, as ONNX has it. */
bool rg_loses_nan(const rg_eltwise *eltwise);
bool rg_binary_loses_nan(dn_alg alg);
/* The loop as a step; both places hold floats alike, without gaps but for what pads blocks, if 0 stays 0 by the
 * function. output may be input. */
inlay_status rg_emit_function(rg_build *build, const rg_eltwise *eltwise, const rg_place *input,
                              const rg_place *output);
/* A function of a place. overwrite: it may become the result. result: the value that this makes, INLAY_NONE for
 * something in between. */
inlay_status rg_eltwise_at(rg_build *build, const rg_place *place, bool overwrite, const rg_eltwise *eltwise,
                           uint32_t result, rg_place *out);
/* alg(input, value `other`), broadcast to the dims of value `like`. */
inlay_status rg_binary_at(rg_build *build, dn_alg alg, const rg_place *input, bool overwrite, uint32_t other,
                          uint32_t like, uint32_t result, rg_place *out);
/* Runs the group's posts from `first` on what was made so far, and leaves the group's output. */
inlay_status rg_finish(rg_build *build, const rg_group *group, uint32_t first, const rg_place *made, bool overwrite);

/* Gelu, either form: a loop of our own where there are any. */
bool rg_is_gelu(const rg_eltwise *eltwise);

struct sg_post;
/* The function as our own loops have it (dense.c); false: they have it not. */
bool rg_function_of(const rg_eltwise *eltwise, struct sg_post *out);

/* ------------------------------------------------------------------ the rest */

/* A convolution with groups by loops of our own (groups.c), for those that oneDNN has nothing fast for; *out_done is
 * false where the CPU has no such loops. weights: the original's layout as oneDNN numbers its axes. bias: a value,
 * INLAY_NONE. */
inlay_status rg_lower_groups(rg_build *build, const rg_group *group, const rg_md *weights, uint32_t bias,
                             bool *out_done);

/* Integers (quant*.c). Takes the only reader of what the group makes, op `next`, into the group if it turns integers
 * into what the group's kernel can give as well. */
void rg_quant_take(const rg_build *build, uint32_t next, uint8_t *taken, rg_group *group);
/* Takes a QuantizeLinear as the last op of a group that is an integer convolution with functions behind it. */
void rg_quant_end(const rg_build *build, uint32_t next, uint8_t *taken, rg_group *group);
/* Makes QuantizeLinear and the functions of dequantized values before it one group each; at: [op_count], by last op. */
inlay_status rg_quant_chains(rg_build *build, uint8_t *taken, rg_group *at);
/* A product by a constant matrix with loops of our own (dense.c): as written, in pairs (pairs.h), or without blocks of
 * zeros (sparse.h); state->sgemm is there. bias: one for each column, or INLAY_NONE. */
typedef enum rg_dense_way { RG_DENSE_PLAIN, RG_DENSE_PAIRS, RG_DENSE_SPARSE } rg_dense_way;
inlay_status rg_lower_dense(rg_build *build, const rg_group *group, uint32_t bias, rg_dense_way way);
/* Products of matrices that are computed, likewise; C of Gemm is among the group's posts. */
inlay_status rg_lower_batched(rg_build *build, const rg_group *group);
/* Products of either kind by oneDNN, cut into blocks (product_cut.c). bias: as above, of constant matrices. */
inlay_status rg_lower_cut(rg_build *build, const rg_group *group, uint32_t bias);
/* output [batch][m, groups, n] = a [m, groups, k] * weights [batch][groups][k, n], all row-major; output has its place.
 */
inlay_status rg_emit_cut(rg_build *build, const rg_place *place, const rg_place *weights, int64_t batch, int64_t groups,
                         int64_t m, int64_t k, int64_t n, const rg_place *output);
/* output = a * weights, products of matrices in the last two axes, the ones before as output has them, row-major;
 * output has its place. */
inlay_status rg_emit_cut_matrices(rg_build *build, const rg_place *place, const rg_place *weights,
                                  const rg_place *output);

/* Ops that make elements although an input has none (empty.c): sums, means and maxima of nothing; what else does is an
 * error. */
bool rg_reads_nothing(const rg_build *build);
inlay_status rg_lower_nothing(rg_build *build, const rg_group *group);
/* What a reduction of no elements is (reduce.c). */
float rg_reduced_nothing(const rg_op *op);

/* A row of n elements: output[i] = alg(p[i], q[i * step]); output may be p. step is 0 or 1. */
void rg_binary_row(dn_alg alg, const float *p, const float *q, float *output, int64_t n, int64_t step);
/* The op's function of two tensors that lie alike without padding, and the group's posts (whole.c). overwrite: x0 may
 * become the result. */
inlay_status rg_lower_whole(rg_build *build, const rg_group *group, const rg_place *x0, const rg_place *x1,
                            bool overwrite);

/* Concatenates what lies row-major along the axis of the op, into the group's output. */
inlay_status rg_concat_rows(rg_build *build, const rg_group *group, const rg_place *places, uint32_t count);

/* The same where the result is a state in place: rooms of the region's inputs, and the concatenation (append.c). */
void rg_read_rooms(rg_build *build, const uint64_t *rooms);
inlay_status rg_lower_append(rg_build *build, const rg_group *group);
void rg_state_strides(const rg_build *build, uint32_t value, int64_t *strides);

/* How many keys, from the first, the mask of the Attention being lowered has columns for; all when there is none. */
int64_t rg_mask_reach(const rg_build *build);
/* How a mask lies: elements from one batch, head, query and key to the next. */
typedef struct rg_mask {
    bool there;
    int64_t batch, head, query, step;
} rg_mask;
static inline int64_t rg_mask_at(const rg_mask *mask, int64_t batch, int64_t head, int64_t query)
{
    return batch * mask->batch + head * mask->head + query * mask->query;
}
/* Input `input` of an attention as a mask, if it has one. */
inlay_status rg_read_mask(rg_build *build, uint32_t input, rg_mask *mask, rg_place *out);
sg_blank rg_blank(const rg_op *op);
/* Attention with loops of our own (attend.c). */
struct sg_kernel;
inlay_status rg_lower_attend(rg_build *build, const rg_group *group, const struct sg_kernel *kernel);

/* Groups of the region at the build's shapes, in an order to lower them in. */
inlay_status rg_fuse(rg_build *build);
/* Pads of a window at these sizes, explicit ones and those of auto_pad; `in` and `out` are [spatial]. */
void rg_window_pads(const rg_op *op, const int64_t *in, const int64_t *out, const int64_t *kernel, int64_t *begins,
                    int64_t *ends);
/* The weights of the convolution in hand as ONNX Conv has them: [O, I/g, ..], with the groups in front if there are
 * any. */
void rg_window_weights(const rg_build *build, uint32_t value, rg_md *out);
/* Of the taps of a window along one axis the share that lies in the image, over all outputs; 1 when there is no output.
 * A dilated window may have most of them in the padding. */
double rg_window_share(int64_t kernel, int64_t dilation, int64_t stride, int64_t begin, int64_t in, int64_t out);
/* Has the convolution, of images, a window that lies in padding alone? */
bool rg_window_misses(const rg_build *build, const rg_op *op);
/* Offsets of all buffers; instance->workspace_bytes. */
inlay_status rg_plan(rg_build *build);

/* The constant in this layout, from the original or from another pack. Under compiled->lock. */
inlay_status rg_constant_pack(inlay_compiled *compiled, rg_constant *constant, const rg_md *plain, const rg_md *md,
                              const rg_pack **out_pack, inlay_diag *diag);
/* The elements of one tensor in another layout, now. */
inlay_status rg_reorder_now(const rg_state *state, const rg_md *from, const void *source, const rg_md *to, void *target,
                            inlay_diag *diag);
/* What Winograd's convolution with that many points (4, 6) does with these weights (tiles.h); measured once, and kept
 * with the packs. *out_trust lives as long as the constant. Under compiled->lock. */
inlay_status rg_constant_trust(inlay_compiled *compiled, rg_constant *constant, const rg_md *plain, int64_t points,
                               const struct tile_trust **out_trust, inlay_diag *diag);
/* Is there a pack that other layouts can be made from? Winograd's weights are none. */
bool rg_constant_is_packed(const rg_constant *constant);
void rg_constant_deinit(rg_constant *constant);
/* Frees the packs that were made for the timing of kernels; no instance of that is left. Under compiled->lock. */
void rg_constant_drop_trials(rg_constant *constant);

inlay_status rg_instance_build(inlay_compiled *compiled, const inlay_value_state *values, uint32_t stride,
                               uint32_t value_count, const uint64_t *rooms, uint32_t threads,
                               const struct kn_attempt *attempt, inlay_instance **out_instance, inlay_diag *diag);
void rg_instance_destroy(inlay_instance *instance);
/* rg_execute, and what each step took: [step_count]. */
inlay_status rg_execute_timed(const rg_state *state, inlay_compiled *compiled, inlay_instance *instance,
                              const inlay_exec_args *args, double *out_ns);
/* Makes the context of the first run, so that it needs no heap. */
inlay_status rg_context_prepare(const rg_state *state, inlay_instance *instance, inlay_diag *diag);
void rg_contexts_destroy(inlay_instance *instance);
/* Room for one more element; false: out of memory. */
bool rg_grow(void *array, uint32_t count, uint32_t *capacity, size_t element);
#endif
