/* region.h - a region of the host's graph on its way to dispatches; README.md says which file does what. Tensors are
 * dense and row-major everywhere. */
#ifndef VULKAN_REGION_H
#define VULKAN_REGION_H
#include "gpu.h"
#include "inlay/kit_region.h"

/* VULKAN_MOST_ROUNDS: of a loop that a CPU's driver goes round before it ends it without a word; a few are those of
 * functions. */
enum {
    VULKAN_MOST_ROUNDS = 60000,
    VULKAN_RANK = MOST_RANK,
    VULKAN_SMALL_BYTES = 4096,
    VULKAN_MOST_OPERANDS = 15,
    VULKAN_LOCAL = 64
};

/* Sets of element types. */
#define VULKAN_FLOATS (KIT_BIT(FLOAT) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
#define VULKAN_INTS (KIT_SIGNED | KIT_BIT(UINT8) | KIT_BIT(UINT16) | KIT_BIT(UINT32))
#define VULKAN_NUMBERS (VULKAN_FLOATS | VULKAN_INTS)
#define VULKAN_WIDE (VULKAN_NUMBERS | KIT_BIT(DOUBLE)) /* elementwise arithmetic only */
#define VULKAN_BOOL KIT_BIT(BOOL)
#define VULKAN_MOVED (KIT_NUMBERS | VULKAN_BOOL | KIT_FLOAT8 | KIT_BIT(COMPLEX64))

typedef enum vulkan_arithmetic { VULKAN_SINGLE, VULKAN_INTEGER, VULKAN_DOUBLE } vulkan_arithmetic;

typedef struct vulkan_state {
    const inlay_host *host;
    uint32_t domain; /* the host's number of the device's memory */
    gpu_options options;
    char cache_dir[4096];
    char device_name[GPU_NAME];
    char facts[128];                              /* of the device, for people */
    bool named;                                   /* somebody chose the device */
    bool late;                                    /* ... and nobody needs it before the first region */
    double unasked_ns;                            /* that each op costs more where nobody did, and it is the CPU's */
    double launch_ns, flops_per_ns, bytes_per_ns; /* what cost.c reckons with */
    pthread_mutex_t lock;
    char refused[512]; /* why there is no device; "": that is not known */
    gpu_device *gpu;   /* NULL until somebody needs it, see vulkan_open */
} vulkan_state;

/* The device, opened and tried by the first who asks. */
inlay_status vulkan_open(vulkan_state *state, gpu_device **out, inlay_diag *diag);
/* Does the device compute what the shaders say? INLAY_UNSUPPORTED, with the check that it fails. Asked once for a
 * device and a driver's version: the verdict is kept. */
inlay_status vulkan_try(vulkan_state *state, gpu_device *device, inlay_diag *diag);

typedef struct vulkan_build vulkan_build;
typedef struct vulkan_op vulkan_op;
typedef struct vulkan_operator vulkan_operator;

typedef struct vulkan_program vulkan_program;

/* What operators of one kind have in common. */
typedef struct vulkan_family {
    bool (*supports)(const kit_node *node, const vulkan_operator *row,
                     kit_refusal *why); /* NULL: the row says it all */
    inlay_status (*lower)(vulkan_build *build, const vulkan_op *op);
    /* Elementwise operators alone: adds what op does to a program. The result is the last slot. */
    uint32_t (*slots)(const vulkan_build *build, vulkan_program *program, const vulkan_op *op);
    bool own_types;                /* supports looks at the types of inputs itself */
    bool several;                  /* more outputs than the first are made */
    bool makes;                    /* the row's types are those of the result, too */
    bool known;                    /* inputs that the device does not read have to be known before the run */
    uint8_t least_rank, most_rank; /* of the first input; 0: any */
} vulkan_family;

struct vulkan_operator {
    const char *name;     /* "ms.X": of com.microsoft */
    uint32_t first, last; /* since_version */
    const vulkan_family *family;
    uint32_t number;      /* an opcode, a kind */
    uint32_t types;       /* of the inputs that the device reads, unless supports looks at them */
    uint32_t host_inputs; /* bit i: the device does not read input i */
};

static inline bool vulkan_is_hosts(const vulkan_operator *row, uint32_t input)
{
    return input < 32 && (row->host_inputs >> input & 1u) != 0;
}

/* Shared by the checks of families. Are the elements of an input known when the node is specialized? Those that the
 * size of the result depends on are: the host then waits for them. */
bool vulkan_is_known(const kit_node *node, uint32_t input, kit_refusal *why);
bool vulkan_has_types(const kit_node *node, uint32_t input, uint32_t set, kit_refusal *why);
bool vulkan_makes_types(const kit_node *node, uint32_t set, kit_refusal *why); /* the first output's */

/* The row of a node, or NULL with the reason. */
const vulkan_operator *vulkan_find(const kit_node *node, kit_refusal *why);

/* ------------------------------------------------------------------ compiled */

typedef kit_region_value vulkan_value;

struct vulkan_op {
    const vulkan_operator *row;
    inlay_node_info info; /* inputs and outputs are values of the region */
};

/* Matrices that products read as B, in panels of vulkan_panel() columns: [groups][panels][taps][k][columns of a panel].
 * How the elements lie in the model is said by the steps. */
typedef struct vulkan_panels {
    int64_t groups, columns, taps, k;
    int64_t group_step, column_step, tap_step, k_step;
} vulkan_panels;

typedef struct vulkan_constant {
    uint32_t value;
    bool packed; /* otherwise as it is */
    vulkan_panels panels;
    uint64_t offset, bytes; /* in the region's buffer of constants */
} vulkan_constant;

struct inlay_compiled {
    vulkan_state *state;
    gpu_device *gpu;
    kit_region region;
    vulkan_op *ops;       /* [op_count] the region's nodes */
    vulkan_value *values; /* [value_count] the region's */
    vulkan_constant *constants;
    uint32_t op_count, value_count, constant_count;
    gpu_buffer memory;    /* of the constants */
    uint32_t specialized; /* how often, see VULKAN_FIXED */
};

/* Columns of a panel: those that an invocation has, times the invocations that share a strip of rows. */
uint32_t vulkan_panel_columns(const gpu_facts *facts);
uint32_t vulkan_panel_lanes(const gpu_facts *facts);
uint32_t vulkan_panel(const gpu_facts *facts);
/* Does op want its constant input of these sizes in panels? */
bool vulkan_wants_panels(const vulkan_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vulkan_panels *out);
/* Which constants the device reads, and how; *out_bytes is what they take. */
void vulkan_list_constants(inlay_compiled *compiled, const inlay_graph *graph, uint64_t *out_bytes);
/* One of them goes to the region's buffer. */
inlay_status vulkan_upload(inlay_compiled *compiled, const inlay_compile_request *request,
                           const vulkan_constant *constant, inlay_diag *diag);
/* In panels, or as it is (NULL). */
const vulkan_constant *vulkan_find_constant(const inlay_compiled *compiled, uint32_t value,
                                            const vulkan_panels *panels);

/* ------------------------------------------------------------------ instances */

typedef enum vulkan_kind { VULKAN_INPUT, VULKAN_OUTPUT, VULKAN_CONSTANT, VULKAN_WORK } vulkan_kind;
typedef struct vulkan_buffer {
    vulkan_kind kind;
    uint32_t index; /* INPUT, OUTPUT: of the region */
    uint64_t bytes;
    uint64_t offset;      /* CONSTANT: in the region's memory; WORK: in the workspace */
    uint32_t first, last; /* dispatches that use it */
} vulkan_buffer;

typedef struct vulkan_operand {
    uint32_t push; /* which of the push constants */
    uint32_t buffer;
    uint64_t offset, bytes;
    bool write;
} vulkan_operand;

typedef struct vulkan_dispatch {
    gpu_shader shader;
    uint32_t constants[ID_COUNT];
    VkPipeline pipeline;
    uint32_t groups[3];
    vulkan_operand operands[VULKAN_MOST_OPERANDS];
    uint32_t operand_count;
    uint32_t words, word_count; /* its parameters, from this index on */
    double ns;                  /* expected */
    bool barrier;               /* waits for what was dispatched before */
} vulkan_dispatch;

/* Commands for one set of addresses. */
typedef struct vulkan_recording {
    VkDeviceAddress *addresses; /* [input_count + output_count + 1] */
    VkCommandBuffer *segments;  /* [segment_count] */
    bool recorded;
} vulkan_recording;

struct inlay_instance {
    vulkan_dispatch *dispatches;
    vulkan_buffer *buffers;
    uint32_t *words;
    uint32_t dispatch_count, dispatch_capacity, buffer_count, buffer_capacity, word_count, word_capacity;
    uint64_t workspace_bytes;
    gpu_buffer parameters;
    uint32_t segment_count;
    uint32_t *segment_ends; /* dispatches before the end of each */
    pthread_mutex_t lock;
    inlay_binding *own; /* of runs that bring none, one at a time: they have the lock */
};

/* ------------------------------------------------------------------ building an instance
 *
 * Lowering is written without a check behind each call: the first failure stays in vulkan_build.status with its
 * sentence, what is called behind it does nothing, and what it hands out may be written to. */

typedef struct vulkan_place {
    uint32_t buffer; /* INLAY_NONE: nobody has made it yet */
    uint64_t offset; /* bytes */
} vulkan_place;

typedef struct vulkan_tensor {
    int64_t dims[VULKAN_RANK];
    uint32_t rank;
    inlay_dtype dtype;
    int64_t count;
    bool known;
    const void *data; /* elements, where they are known before the run */
    uint64_t data_bytes;
    vulkan_place place;
    /* A transposed value that nobody made: its place is that of what it was made from. Only readers that go by strides
     * see such a value. */
    bool turned;
    int64_t strides[VULKAN_RANK];
} vulkan_tensor;

/* A CPU's driver gets sizes as constants, and compiles for each; regions of sizes that go on changing get them in
 * memory after so many. */
enum { VULKAN_FIXED = 4 };
enum { VULKAN_SIBLINGS = 2, VULKAN_TEMPORARIES = 3 }; /* values of its own that an op may have */
enum { VULKAN_MOST_MADE = 21 };

struct vulkan_build {
    const inlay_compiled *compiled;
    inlay_instance *in;
    gpu_device *device;
    inlay_diag *diag;
    inlay_status status;    /* of what failed first */
    vulkan_dispatch spare;  /* handed out behind a failure */
    vulkan_tensor *tensors; /* [value_count], then those of temporaries */
    bool *done;             /* [op_count] is a part of a group that was emitted */
    bool *done_before;      /* [op_count] room for a copy */
    uint32_t temporaries;
    bool fixed; /* sizes are constants of the shaders */
};

/* An elementwise program, see shaders/program.glsl. */
typedef struct vulkan_load {
    uint32_t value;               /* INLAY_NONE: what is loaded is the number that the strides say itself */
    uint32_t first;               /* element */
    int64_t strides[VULKAN_RANK]; /* elements, over the result's dims */
} vulkan_load;
enum { MAKE_RANGE, MAKE_EYE, MAKE_TRILU, MAKE_ONE_HOT }; /* numbers of what is made of positions, in operators.def */
struct vulkan_program {
    vulkan_arithmetic in; /* the type of its registers */
    uint32_t slots[MOST_SLOTS], slot_count;
    vulkan_load loads[MOST_INPUTS];
    uint32_t load_count;
    uint64_t numbers[MOST_NUMBERS];
    uint32_t number_count;
    int64_t dims[VULKAN_RANK]; /* of the result */
    uint32_t rank;
    uint32_t made[VULKAN_MOST_MADE], made_in[VULKAN_MOST_MADE], made_count; /* values that are in registers, which */
    uint32_t result;                                                        /* value that it makes */
    bool has_columns; /* the skeleton tells which element of this dimension it is at */
    uint32_t columns;
    bool full; /* something did not fit: more than there is room for, or sizes that do not go together */
};

/* Registers; once the program is full they mean nothing. */
uint32_t vulkan_slot(vulkan_program *program, uint32_t op, uint32_t a, uint32_t b, uint32_t c);
uint32_t vulkan_number(vulkan_program *program, double x);
uint32_t vulkan_number_bits(vulkan_program *program,
                            uint64_t bits); /* as the type that the program computes with has them */
uint32_t vulkan_load_value(const vulkan_build *build, vulkan_program *program,
                           uint32_t value); /* broadcast to the result */
bool vulkan_in_register(const vulkan_program *program, uint32_t value, uint32_t *out);
uint32_t vulkan_get(const vulkan_build *build, vulkan_program *program,
                    uint32_t value); /* the same, if it is in no register already */
uint32_t vulkan_load_axis(const vulkan_build *build, vulkan_program *program, uint32_t value,
                          uint32_t axis); /* one element a coordinate */
/* From element `first` on, by strides over the result's dimensions (NULL: one element for all). */
uint32_t vulkan_load_at(const vulkan_build *build, vulkan_program *program, uint32_t value, const int64_t *strides,
                        uint32_t first);
void vulkan_program_start(const vulkan_build *build, vulkan_program *program, uint32_t result, vulkan_arithmetic in);

/* Operations of programs. */
enum {
#define X(name) OP_##name,
#include "opcodes.def"
#undef X
    OP_COUNT
};
/* Numbers of pointwise operators in operators.def that are no opcodes. */
enum { GREATER = 128, GREATER_EQUAL, CLIP, MOD, SHIFT };

/* Can op be computed in a program of this kind (arithmetic.c)? */
bool vulkan_computes_in(const vulkan_build *build, const vulkan_op *op, vulkan_arithmetic in);
vulkan_arithmetic vulkan_arithmetic_of(inlay_dtype dtype); /* VULKAN_INTEGER or VULKAN_SINGLE */
bool vulkan_is_float(inlay_dtype dtype);

/* Adds to a program that makes the result of op what can be done right behind it. The program's result is then another
 * value, and ops are done. */
void vulkan_grow(vulkan_build *build, const vulkan_op *op, vulkan_program *program);
/* The only op that reads a value, if it was not lowered yet and the value is no output; or NULL. */
const vulkan_op *vulkan_reader(const vulkan_build *build, uint32_t value);
static inline uint32_t vulkan_number_of(const vulkan_build *build, const vulkan_op *op)
{
    return (uint32_t)(op - build->compiled->ops);
}
/* Where a Transpose alone reads what a program makes, that becomes the result. strides: of the result's elements over
 * the dimensions that the program had. */
void vulkan_follow_transpose(vulkan_build *build, vulkan_program *program, int64_t *strides);
/* The permutation of a Transpose; false: it is none. */
bool vulkan_permutation(const vulkan_op *op, uint32_t rank, uint32_t *out);

/* A new dispatch with room for own_words parameters behind those of a program (own only: without a program). */
vulkan_dispatch *vulkan_emit(vulkan_build *build, gpu_shader shader, uint32_t own_words);
/* The same for op's skeleton, the elementwise ops behind it in program. */
vulkan_dispatch *vulkan_skeleton(vulkan_build *build, const vulkan_op *op, vulkan_program *program, gpu_shader shader,
                                 uint32_t own_words);
/* A dispatch of the elementwise skeleton alone; the same with what is behind op. */
inlay_status vulkan_emit_elements(vulkan_build *build, const vulkan_program *program);
inlay_status vulkan_emit_program(vulkan_build *build, const vulkan_op *op, vulkan_program *program);
void vulkan_fill(vulkan_build *build, uint32_t value, double x); /* all elements are x */

/* The shader's own constants (ID_OWN), and its parameters from word `first` on, which are integers or vulkan_bits. */
#define VULKAN_LIST(type, ...)                                                                                         \
    sizeof((type[]){ __VA_ARGS__ }) / sizeof(type), (type[])                                                           \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define VULKAN_OWN(d, ...) vulkan_own(d, VULKAN_LIST(uint32_t, __VA_ARGS__))
#define VULKAN_PUT(b, d, first, ...) vulkan_put(b, d, first, VULKAN_LIST(int64_t, __VA_ARGS__))
void vulkan_own(vulkan_dispatch *dispatch, size_t count, const uint32_t *list);
void vulkan_put(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first, size_t count,
                const int64_t *list);
static inline int64_t vulkan_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* What a dispatch touches: an operand at `push`; the shader's own operand k, which load_a, load_b or load_c reads (an
 * omitted one is left alone); the same by where it lies. */
typedef struct vulkan_source {
    vulkan_place place;
    uint64_t bytes;
    inlay_dtype dtype;
} vulkan_source;
vulkan_source vulkan_source_of(const vulkan_build *build, uint32_t value);
void vulkan_touch(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, vulkan_place place, uint64_t bytes,
                  bool write);
void vulkan_touch_value(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, uint32_t value, bool write);
void vulkan_read(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, uint32_t value);
void vulkan_read_at(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, const vulkan_source *source);

/* Is what is the same for a subgroup loaded once? Loops whose ends the compiler does not know may load beyond them. */
bool vulkan_scalar_loads(const vulkan_build *build);
/* Mesa's driver for CPUs leaves the loops of an invocation after 65,535 rounds of all of them, and says nothing. Do so
 * many go? The same, where op is declined if not. */
bool vulkan_goes_round(const vulkan_build *build, int64_t rounds);
void vulkan_expect_rounds(vulkan_build *build, const vulkan_op *op, int64_t rounds);

/* What a dispatch is expected to take, by the bytes or the operations of each of count elements. */
void vulkan_expect_bytes(const vulkan_build *build, vulkan_dispatch *dispatch, double count, double bytes);
void vulkan_expect_flops(const vulkan_build *build, vulkan_dispatch *dispatch, double flops);

/* The end of a dispatch: what its program reads and the place of the result, */
void vulkan_finish(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program);
/* and so many workgroups, or one invocation an item. */
inlay_status vulkan_grid_groups(vulkan_build *build, vulkan_dispatch *dispatch, uint64_t groups);
inlay_status vulkan_grid(vulkan_build *build, vulkan_dispatch *dispatch, int64_t items);
inlay_status vulkan_finish_each(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program,
                                int64_t items);

/* Places. */
void vulkan_make(vulkan_build *build, uint32_t value); /* memory for a result */
uint32_t vulkan_temporary(vulkan_build *build, inlay_dtype dtype, uint32_t rank,
                          const int64_t *dims);                                       /* a value of the region's own */
void vulkan_alias(vulkan_build *build, uint32_t value, uint32_t of, uint64_t offset); /* result lies in another value */
vulkan_place vulkan_buffer_place(vulkan_build *build, vulkan_buffer buffer);
vulkan_place vulkan_constant_place(vulkan_build *build, const vulkan_constant *constant);
bool vulkan_is_output(const vulkan_build *build, uint32_t value);

/* A box of elements of any type that changes places. Strides in elements. */
typedef struct vulkan_box {
    uint32_t rank;
    int64_t dims[2 * VULKAN_RANK], from[2 * VULKAN_RANK], to[2 * VULKAN_RANK];
    int64_t from_base, to_base;
    uint32_t pad; /* PAD_ */
    int64_t begin[2 * VULKAN_RANK], extent[2 * VULKAN_RANK];
    uint32_t fill; /* value of the element outside, or INLAY_NONE */
    /* Indexes that add to where an element comes from, or goes to; or INLAY_NONE. Each has index_count of them, one
     * behind the other, along axes of these sizes and strides. */
    uint32_t indexes, index_count;
    bool scatters;
    int64_t index[2 * VULKAN_RANK], axis_size[VULKAN_RANK], axis_stride[VULKAN_RANK];
} vulkan_box;
vulkan_box vulkan_whole_box(const vulkan_tensor *tensor); /* all of t, to a tensor of that shape */
inlay_status vulkan_move(vulkan_build *build, vulkan_box *box, uint32_t from,
                         uint32_t to); /* to is made where it is not yet */
inlay_status vulkan_copy_flat(vulkan_build *build, uint32_t from, uint32_t to);
void vulkan_row_major(const int64_t *dims, uint32_t rank, int64_t *strides);
void vulkan_strides(const vulkan_build *build, uint32_t value, int64_t *strides); /* of a value, turned or not */
int64_t vulkan_extent(const vulkan_tensor *tensor, uint32_t from,
                      uint32_t to); /* product of dims[from] to dims[to - 1] */
/* Fewer dimensions for the same elements: those of size 1 go, and neighbours that lie behind each other in all tensors
 * become one. Returns how many are left. */
uint32_t vulkan_merge(uint32_t rank, int64_t *dims, uint32_t tensors, int64_t *const *strides);

/* Sets the status to what the shapes of an op do not allow. */
INLAY_PRINTF(3, 4)
inlay_status vulkan_decline(vulkan_build *build, const vulkan_op *op, const char *format, ...);

/* An axis of rank dimensions, where that may be negative; the same, and attribute `axis`, of an op: false: declined. */
bool vulkan_axis(int64_t axis, uint32_t rank, uint32_t *out);
bool vulkan_axis_named(vulkan_build *build, const vulkan_op *op, int64_t axis, uint32_t rank, uint32_t *out);
bool vulkan_axis_of(vulkan_build *build, const vulkan_op *op, int64_t otherwise, uint32_t rank, uint32_t *out);
/* Elements of an op's input as integers, known before the run; count -1: not known. */
int64_t vulkan_ints(const vulkan_build *build, const vulkan_op *op, uint32_t input, int64_t *out, uint32_t most);
/* The same for what early versions have in an attribute. */
int64_t vulkan_attr_or_ints(const vulkan_build *build, const vulkan_op *op, const char *name, uint32_t input,
                            int64_t *out, uint32_t most);
uint32_t vulkan_in_value(const vulkan_op *op, uint32_t input); /* INLAY_NONE: omitted */
uint32_t vulkan_out_value(const vulkan_op *op, uint32_t output);
const vulkan_tensor *vulkan_in(const vulkan_build *build, const vulkan_op *op, uint32_t input); /* NULL: omitted */
const vulkan_tensor *vulkan_out(const vulkan_build *build, const vulkan_op *op, uint32_t output);
static inline uint32_t vulkan_size_of(inlay_dtype dtype)
{
    return inlay_dtype_bits(dtype) / 8;
}
uint32_t vulkan_element(inlay_dtype dtype); /* EL_ of a type */

/* A window over images of up to three dimensions, missing ones at the front of size 1 (window.c). Shaders have the
 * first six lists as 18 words in this order. */
typedef struct vulkan_window {
    int64_t out[3], in[3], window[3], stride[3], dilation[3], begin[3], end[3];
    int64_t taps, pixels; /* products of window, of out */
    bool plain;           /* one pixel, one apart, no padding: the result's pixels are the input's */
} vulkan_window;
/* Sizes are the operator's, of its input 0, and those that the host inferred for the result. weights NULL: the window
 * is attribute kernel_shape. false: they do not fit, which is declined. */
bool vulkan_window_read(vulkan_build *build, const vulkan_op *op, const vulkan_tensor *weights, bool transposed,
                        vulkan_window *out);
void vulkan_put_window(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first,
                       const vulkan_window *window);
/* POOL_: what is made of each window of one plane of op's first input (reduce.c). */
inlay_status vulkan_emit_windows(vulkan_build *build, const vulkan_op *op, vulkan_program *program, uint32_t kind,
                                 const vulkan_window *window);

/* A product of matrices in batches, or of windows, see shaders/product.comp (product.c). */
typedef struct vulkan_product {
    int64_t line, lines, n, k, taps;
    int64_t a_row, a_step, b_step, b_column, b_tap, b_panel, out_row, out_column;
    int64_t batch[3], a_batch[3], b_batch[3], out_batch[3];
    vulkan_source a, b;
    float alpha;
    int64_t group; /* columns of the last of the batches, where those are groups of columns; or 0 */
    bool windows, padded, packed;
    vulkan_window window;
    /* Products of the same sizes and A, each with a B and a result of its own, are the first of the batches. */
    struct {
        vulkan_place place;
        const vulkan_program *program;
    } siblings[VULKAN_SIBLINGS];
    uint32_t sibling_count;
} vulkan_product;
/* Batches of several tensors, by their strides over the same dimensions: at most three after those that lie behind each
 * other in all are one. strides_of[i] belongs to out[i]. */
bool vulkan_merge_batches(uint32_t rank, const int64_t *dims, uint32_t tensors, int64_t *const *strides_of,
                          int64_t *batch, int64_t *const *out);
/* One batch of [rows, k] * [k, n], row-major all; the result's batches follow each other. */
vulkan_product vulkan_product_of(int64_t rows, int64_t k, int64_t n);
void vulkan_product_batches(vulkan_product *product, const int64_t batch[3]);
/* B of op in panels, where it is a constant that the region keeps so; or NULL. */
const vulkan_constant *vulkan_panels_of(const vulkan_build *build, const vulkan_op *op);
/* Of value a and op's second input, from panels where the region has it so. */
inlay_status vulkan_finish_product(vulkan_build *build, const vulkan_op *op, uint32_t a, vulkan_product *product,
                                   vulkan_program *program);

enum { ATTENTION_ONNX, ATTENTION_OWN };        /* numbers of rows of operators.def */
enum { BLANK_NAN, BLANK_ZERO, BLANK_GUARDED }; /* see shaders/attend.comp */
/* A softmax of scores times a third matrix, see shaders/attend.comp (attend.c). */
typedef struct vulkan_attend {
    vulkan_product scores;
    vulkan_source source;
    int64_t width, v_row, v_column, v_batch[3];
    uint32_t blank; /* BLANK_*: what becomes of rows that see nothing */
    uint32_t result;
} vulkan_attend;
/* Is what program makes of a product's result read by a Softmax and a product alone? Those are done then, and so is
 * this: true, whatever the status. */
bool vulkan_try_attend(vulkan_build *build, const vulkan_op *op, const vulkan_product *product,
                       vulkan_program *program);

/* Rows that are divided by what they sum up to (reduce.c). Values may be INLAY_NONE. */
typedef struct vulkan_rows {
    uint32_t kind;
    int64_t count, length, inner;
    float epsilon;
    uint32_t scale, bias;
    int64_t scale_rows, scale_step, scale_per; /* see shaders/rows.comp */
    uint32_t skip, skip_bias; /* values of floats that are added first; the other is of a row's length */
    uint32_t mean, deviation; /* values that get a row's mean and 1 / deviation */
} vulkan_rows;
/* Rows along the dimensions from axis on, by the attribute epsilon. */
vulkan_rows vulkan_rows_of(const vulkan_build *build, const vulkan_op *op, uint32_t kind, uint32_t axis);
inlay_status vulkan_emit_rows(vulkan_build *build, const vulkan_op *op, const vulkan_rows *rows, uint32_t from);

extern const vulkan_family vulkan_pointwise, vulkan_batch_norm, vulkan_cast, vulkan_quantize, vulkan_dequantize,
    vulkan_variadic, vulkan_mat_mul, vulkan_gemm, vulkan_conv, vulkan_conv_transpose, vulkan_pool, vulkan_global_pool,
    vulkan_reduce, vulkan_softmax, vulkan_layer_norm, vulkan_instance_norm, vulkan_lp_norm, vulkan_view,
    vulkan_transpose, vulkan_concat, vulkan_split, vulkan_slice, vulkan_pad, vulkan_tile, vulkan_space_depth,
    vulkan_gather, vulkan_elements, vulkan_tuples, vulkan_resize, vulkan_made, vulkan_constant_of_shape, vulkan_lrn,
    vulkan_attention, vulkan_skip_norm;

inlay_status vulkan_plan(vulkan_build *build);

/* The provider's entries. */
inlay_status vulkan_assess(void *state, const inlay_graph *graph, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag);
inlay_status vulkan_cost(void *state, const inlay_cost_request *request, inlay_cost *out);
inlay_status vulkan_compile_on(vulkan_state *state, gpu_device *device, const inlay_compile_request *request,
                               inlay_compiled **out, inlay_diag *diag);
void vulkan_release_compiled(void *state, inlay_compiled *compiled);
inlay_status vulkan_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag);
void vulkan_release_instance(void *state, inlay_compiled *compiled, inlay_instance *in);
inlay_status vulkan_bind(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_bind_args *args,
                         inlay_binding **out, inlay_diag *diag);
void vulkan_release_binding(void *state, inlay_compiled *compiled, inlay_instance *in, inlay_binding *binding);
inlay_status vulkan_execute(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_exec_args *args);
#endif
