/* build.h - a region at concrete shapes: the state of a build, and the instance that it makes.
 *
 * Each value has a place: a buffer, an offset, and a layout (tensor_layout), which may be permuted or row-major. The
 * producer chooses the layout; a consumer accepts it or adds a reorder. Buffers get their offsets in the workspace when
 * all steps are known (plan.c). A step may overwrite an operand that it reads for the last time. */
#ifndef CPU_BUILD_H
#define CPU_BUILD_H
#include "cpu/region/region.h"
#include "cpu/matrix/sgemm.h"

/* An arena for a build or an instance (scratch.c). Closing it leaves the memory at *spare for the next one; it is not
 * cleared. Only one thread at a time may use an arena. */
cpu_scratch *cpu_scratch_open(cpu_scratch **spare); /* NULL: out of memory */
/* Memory for `count` elements, aligned as by malloc, valid until the arena is closed; NULL: out of memory. */
void *cpu_scratch_take(cpu_scratch *scratch, size_t count, size_t element);
void *cpu_scratch_take_zeroed(cpu_scratch *scratch, size_t count, size_t element);
void cpu_scratch_close(cpu_scratch **spare, cpu_scratch *scratch); /* NULL is a no-op */
/* Makes room for one more element, which is not initialised. array is the address of a pointer to elements of the
 * arena, which may move; count elements are in use. false: out of memory. */
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
    uint32_t pending;     /* number of reads, not lowered yet, of values in this buffer */
    uint32_t parent;      /* WORK: the buffer that contains it, at byte `within`; INLAY_NONE: it is separate */
    uint64_t within;
    uint32_t copy_of; /* the value that is copied here, so that later reads may use the copy; INLAY_NONE: no copy */
    const void *data; /* CONST */
} cpu_buffer;

typedef struct cpu_place {
    uint32_t buffer; /* INLAY_NONE = not assigned yet */
    uint64_t offset; /* bytes */
    tensor_layout layout;
} cpu_place;

/* A memory argument of a step. */
typedef struct cpu_arg {
    uint64_t offset; /* bytes */
    uint32_t buffer;
} cpu_arg;

/* The kernel of a step: the first member of the kernel's own struct. args are addresses in the order of the step's
 * arguments. */
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
    cpu_native *native; /* freed with the instance */
    uint32_t first_arg, arg_count;
    uint32_t op; /* for diagnostics */
} cpu_step;

typedef struct cpu_context cpu_context;
typedef struct kernel_choice kernel_choice;

/* Immutable, except for the references and the pool of contexts. */
struct inlay_instance {
    uint32_t references; /* under compiled->lock */
    int64_t *key;        /* rank, capacity and dims of all values, for which it was made (cpu_key_word) */
    uint32_t key_count;
    uint32_t threads;
    uint64_t workspace_bytes;
    cpu_step *steps;
    cpu_arg *args;
    cpu_buffer *buffers;
    uint32_t step_count, arg_count, buffer_count;
    uint32_t max_args; /* of one step */
    cpu_pack **packs;  /* [pack_count] the packed constants that the instance reads, for cpu_pack.users */
    uint32_t pack_count, pack_capacity;
    cpu_scratch *memory, **home; /* the arena of this struct and its arrays; home: `spare` of cpu_scratch_close */
    kernel_choice *choices;      /* [choice_count] kernels of convolutions and products (kernels.h) */
    uint32_t choice_count;
    pthread_mutex_t lock;
    bool has_lock;
    cpu_context *ready; /* atomic: one idle context, taken without the lock */
    cpu_context *idle;  /* the other idle contexts, under lock */
};

/* A function of the epilogue of a group: fused into its first op, or a separate step. */
enum { CPU_POST_UNARY, CPU_POST_BINARY };
typedef struct cpu_post {
    uint32_t kind;
    cpu_unary unary;
    element_function function; /* binary */
    uint32_t other;            /* binary: the other operand */
    uint32_t out;              /* the value after it */
} cpu_post;

enum { CPU_MAX_POSTS = 12 };

/* Ops that may run as one step: a first op, and its epilogue. */
struct cpu_group {
    uint32_t op;   /* the first op */
    uint32_t last; /* the op whose output the group computes; the group runs at its position */
    uint32_t room; /* upper bound of post_count in fuse.c: lowering adds Gemm's C as one more post */
    uint32_t bias; /* a value that is added per output channel right after the op, INLAY_NONE */
    uint32_t out;  /* the value after all posts */
    uint32_t ends; /* integer convolutions: 1 + the op of the QuantizeLinear at the end; 0: none */
    uint32_t post_count;
    cpu_post posts[CPU_MAX_POSTS]; /* posts from post_count on are not initialised */
};

enum { CPU_HAS_PLAIN = 1, CPU_HAS_COPY = 2, CPU_HAS_HOME = 4 };
struct cpu_build {
    const cpu_state *state;
    inlay_compiled *compiled;
    inlay_diag *diag;
    inlay_instance *instance;
    const cpu_op *op; /* being lowered */
    uint32_t op_index;
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
    cpu_group *groups; /* [op_count] by their last op, in the order of lowering; op INLAY_NONE: no group ends there */
    int64_t *key;      /* becomes the instance's key */
    uint32_t step_capacity, arg_capacity, buffer_capacity, choice_capacity;
    const struct kernel_attempt *attempt; /* kernels to time (kernels.h); NULL: choose the fastest */
};

/* The word of an instance's key that precedes the dims of a value; room: cpu_build.rooms. */
static inline int64_t cpu_key_word(uint32_t rank, uint64_t room)
{
    return (int64_t)(room << 8 | rank);
}

/* The type of a value's elements. */
static inline bool cpu_same_dims(const cpu_build *build, uint32_t a, uint32_t b)
{
    return build->ranks[a] == build->ranks[b] &&
           memcmp(build->dims[a], build->dims[b], build->ranks[a] * sizeof(int64_t)) == 0;
}
static inline element_type cpu_type(const cpu_build *build, uint32_t value)
{
    return build->compiled->values[value].type;
}

/* The number of elements of the value. */
int64_t cpu_count(const cpu_build *build, uint32_t value);

/* The place in another layout of equal dims, by a reorder if they differ. out may be place. */
inlay_status cpu_reorder(cpu_build *build, const cpu_place *place, const tensor_layout *layout, cpu_place *out);
/* Packed weights of a native step, as bytes. The constant owns data. */
inlay_status cpu_pack_place(cpu_build *build, const void *data, uint64_t bytes, cpu_place *out);
/* Adds a step that copies a tensor into a place of the same dims and type in any layout (copies.c). */
inlay_status cpu_emit_copy(cpu_build *build, const cpu_place *from, const cpu_place *to);
/* A new buffer for a tensor of this layout. */
inlay_status cpu_new_place(cpu_build *build, const tensor_layout *layout, cpu_place *out);
/* A new buffer for `count` floats: scratch memory of a step. */
inlay_status cpu_new_floats(cpu_build *build, int64_t count, cpu_place *out);
/* The place to compute a value in: the region's output if it is one and layout is row-major, otherwise a new buffer. */
inlay_status cpu_result_place(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out);
/* The place of a step's result: the group's result if the step does all posts of the group, otherwise a new buffer. */
inlay_status cpu_step_result_place(cpu_build *build, const cpu_group *group, uint32_t posts_done,
                                   const tensor_layout *layout, cpu_place *out);
/* Sets place->buffer to that of the region's input `value`, in layout place->layout. */
inlay_status cpu_input_place(cpu_build *build, uint32_t value, cpu_place *place);
/* The buffer of the region's output `value`. The caller knows the layout that the host expects. */
inlay_status cpu_output_place(cpu_build *build, uint32_t value, const tensor_layout *layout, cpu_place *out);
/* Records the place of a computed value; adds a copy to the region's output if needed. */
inlay_status cpu_set_place(cpu_build *build, uint32_t value, const cpu_place *place);
/* May the op being lowered overwrite `value`, because it is its last reader? */
bool cpu_is_last_use(const cpu_build *build, uint32_t value);

/* Adds a step that runs a kernel. Takes ownership of native, also on failure. */
inlay_status cpu_emit_native(cpu_build *build, cpu_native *native, const cpu_place *const *places, uint32_t count);
/* Zeroed memory for a native step, freed with the instance; NULL: out of memory. */
void *cpu_new_native(cpu_build *build, size_t bytes);
/* Adds a native step with a copy of *step, the first member of a struct of `bytes` bytes that owns no memory. */
inlay_status cpu_emit_step(cpu_build *build, const cpu_native *step, size_t bytes, const cpu_place *const *places,
                           uint32_t count);

/* Sets build->groups. */
inlay_status cpu_fuse(cpu_build *build);
/* Sets the offsets of all buffers, and instance->workspace_bytes. */
inlay_status cpu_plan(cpu_build *build);

/* cpu_execute that also stores the time of each step: out_ns[step_count], or NULL. */
inlay_status cpu_execute_timed(const cpu_state *state, inlay_compiled *compiled, inlay_instance *instance,
                               const struct inlay_exec_args *args, double *out_ns);
/* Creates the context of the first run in the instance's arena, so that this run allocates nothing. */
inlay_status cpu_context_prepare(inlay_instance *instance, inlay_diag *diag);
void cpu_contexts_destroy(inlay_instance *instance);
/* Makes room for one more element in an array of malloc; new elements are zeroed. false: out of memory. */
bool cpu_grow(void *array, uint32_t count, uint32_t *capacity, size_t element);
#endif
