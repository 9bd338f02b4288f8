/* region.h - a region of the host's graph on its way to dispatches; README.md says which file does what. Tensors are
 * dense and row-major everywhere. */
#ifndef VULKAN_REGION_H
#define VULKAN_REGION_H
#include "gpu.h"
#include "inlay/kit_region.h"

/* VR_MOST_ROUNDS: of a loop that a CPU's driver goes round before it ends it without a word; a few are those of
 * functions. */
enum { VR_MOST_ROUNDS = 60000, VR_RANK = MOST_RANK, VR_SMALL_BYTES = 4096, VR_MOST_OPERANDS = 15, VR_LOCAL = 64 };

/* Sets of element types. */
#define VR_FLOATS (KIT_BIT(FLOAT) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
#define VR_INTS (KIT_SIGNED | KIT_BIT(UINT8) | KIT_BIT(UINT16) | KIT_BIT(UINT32))
#define VR_NUMBERS (VR_FLOATS | VR_INTS)
#define VR_WIDE (VR_NUMBERS | KIT_BIT(DOUBLE)) /* elementwise arithmetic only */
#define VR_BOOL KIT_BIT(BOOL)
#define VR_MOVED (KIT_NUMBERS | VR_BOOL | KIT_FLOAT8 | KIT_BIT(COMPLEX64))

typedef enum vr_arithmetic { VR_SINGLE, VR_INTEGER, VR_DOUBLE } vr_arithmetic;

typedef struct vr_state {
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
    gpu_device *gpu;   /* NULL until somebody needs it, see vr_open */
} vr_state;

/* The device, opened and tried by the first who asks. */
inlay_status vr_open(vr_state *state, gpu_device **out, inlay_diag *diag);
/* Does the device compute what the shaders say? INLAY_UNSUPPORTED, with the check that it fails. Asked once for a
 * device and a driver's version: the verdict is kept. */
inlay_status vr_try(vr_state *state, gpu_device *device, inlay_diag *diag);

typedef struct vr_build vr_build;
typedef struct vr_op vr_op;
typedef struct vr_operator vr_operator;

typedef struct vr_program vr_program;

/* What operators of one kind have in common. */
typedef struct vr_family {
    bool (*supports)(const kit_node *node, const vr_operator *row, kit_refusal *why); /* NULL: the row says it all */
    inlay_status (*lower)(vr_build *build, const vr_op *op);
    /* Elementwise operators alone: adds what op does to a program. The result is the last slot. */
    uint32_t (*slots)(const vr_build *build, vr_program *program, const vr_op *op);
    bool own_types;                /* supports looks at the types of inputs itself */
    bool several;                  /* more outputs than the first are made */
    bool makes;                    /* the row's types are those of the result, too */
    bool known;                    /* inputs that the device does not read have to be known before the run */
    uint8_t least_rank, most_rank; /* of the first input; 0: any */
} vr_family;

struct vr_operator {
    const char *name;     /* "ms.X": of com.microsoft */
    uint32_t first, last; /* since_version */
    const vr_family *family;
    uint32_t number;      /* an opcode, a kind */
    uint32_t types;       /* of the inputs that the device reads, unless supports looks at them */
    uint32_t host_inputs; /* bit i: the device does not read input i */
};

static inline bool vr_is_hosts(const vr_operator *row, uint32_t input)
{
    return input < 32 && (row->host_inputs >> input & 1u) != 0;
}

/* Shared by the checks of families. Are the elements of an input known when the node is specialized? Those that the
 * size of the result depends on are: the host then waits for them. */
bool vr_is_known(const kit_node *node, uint32_t input, kit_refusal *why);
bool vr_has_types(const kit_node *node, uint32_t input, uint32_t set, kit_refusal *why);
bool vr_makes_types(const kit_node *node, uint32_t set, kit_refusal *why); /* the first output's */

/* The row of a node, or NULL with the reason. */
const vr_operator *vr_find(const kit_node *node, kit_refusal *why);

/* ------------------------------------------------------------------ compiled */

typedef kit_region_value vr_value;

struct vr_op {
    const vr_operator *row;
    inlay_node_info info; /* inputs and outputs are values of the region */
};

/* Matrices that products read as B, in panels of vr_panel() columns: [groups][panels][taps][k][columns of a panel]. How
 * the elements lie in the model is said by the steps. */
typedef struct vr_panels {
    int64_t groups, columns, taps, k;
    int64_t group_step, column_step, tap_step, k_step;
} vr_panels;

typedef struct vr_constant {
    uint32_t value;
    bool packed; /* otherwise as it is */
    vr_panels panels;
    uint64_t offset, bytes; /* in the region's buffer of constants */
} vr_constant;

struct inlay_compiled {
    vr_state *state;
    gpu_device *gpu;
    kit_region region;
    vr_op *ops;       /* [op_count] the region's nodes */
    vr_value *values; /* [value_count] the region's */
    vr_constant *constants;
    uint32_t op_count, value_count, constant_count;
    gpu_buffer memory;    /* of the constants */
    uint32_t specialized; /* how often, see VR_FIXED */
};

/* Columns of a panel: those that an invocation has, times the invocations that share a strip of rows. */
uint32_t vr_panel_columns(const gpu_facts *facts);
uint32_t vr_panel_lanes(const gpu_facts *facts);
uint32_t vr_panel(const gpu_facts *facts);
/* Does op want its constant input of these sizes in panels? */
bool vr_wants_panels(const vr_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vr_panels *out);
/* Which constants the device reads, and how; *out_bytes is what they take. */
void vr_list_constants(inlay_compiled *compiled, const inlay_graph *graph, uint64_t *out_bytes);
/* One of them goes to the region's buffer. */
inlay_status vr_upload(inlay_compiled *compiled, const inlay_compile_request *request, const vr_constant *constant,
                       inlay_diag *diag);
/* In panels, or as it is (NULL). */
const vr_constant *vr_find_constant(const inlay_compiled *compiled, uint32_t value, const vr_panels *panels);

/* ------------------------------------------------------------------ instances */

typedef enum vr_kind { VR_INPUT, VR_OUTPUT, VR_CONSTANT, VR_WORK } vr_kind;
typedef struct vr_buffer {
    vr_kind kind;
    uint32_t index; /* INPUT, OUTPUT: of the region */
    uint64_t bytes;
    uint64_t offset;      /* CONSTANT: in the region's memory; WORK: in the workspace */
    uint32_t first, last; /* dispatches that use it */
} vr_buffer;

typedef struct vr_operand {
    uint32_t push; /* which of the push constants */
    uint32_t buffer;
    uint64_t offset, bytes;
    bool write;
} vr_operand;

typedef struct vr_dispatch {
    gpu_shader shader;
    uint32_t constants[ID_COUNT];
    VkPipeline pipeline;
    uint32_t groups[3];
    vr_operand operands[VR_MOST_OPERANDS];
    uint32_t operand_count;
    uint32_t words, word_count; /* its parameters, from this index on */
    double ns;                  /* expected */
    bool barrier;               /* waits for what was dispatched before */
} vr_dispatch;

/* Commands for one set of addresses. */
typedef struct vr_recording {
    VkDeviceAddress *addresses; /* [input_count + output_count + 1] */
    VkCommandBuffer *segments;  /* [segment_count] */
    bool recorded;
} vr_recording;

struct inlay_instance {
    vr_dispatch *dispatches;
    vr_buffer *buffers;
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
 * Lowering is written without a check behind each call: the first failure stays in vr_build.status with its sentence,
 * what is called behind it does nothing, and what it hands out may be written to. */

typedef struct vr_place {
    uint32_t buffer; /* INLAY_NONE: nobody has made it yet */
    uint64_t offset; /* bytes */
} vr_place;

typedef struct vr_tensor {
    int64_t dims[VR_RANK];
    uint32_t rank;
    inlay_dtype dtype;
    int64_t count;
    bool known;
    const void *data; /* elements, where they are known before the run */
    uint64_t data_bytes;
    vr_place place;
    /* A transposed value that nobody made: its place is that of what it was made from. Only readers that go by strides
     * see such a value. */
    bool turned;
    int64_t strides[VR_RANK];
} vr_tensor;

/* A CPU's driver gets sizes as constants, and compiles for each; regions of sizes that go on changing get them in
 * memory after so many. */
enum { VR_FIXED = 4 };
enum { VR_SIBLINGS = 2, VR_TEMPORARIES = 3 }; /* values of its own that an op may have */
enum { VR_MOST_MADE = 21 };

struct vr_build {
    const inlay_compiled *compiled;
    inlay_instance *in;
    gpu_device *device;
    inlay_diag *diag;
    inlay_status status; /* of what failed first */
    vr_dispatch spare;   /* handed out behind a failure */
    vr_tensor *tensors;  /* [value_count], then those of temporaries */
    bool *done;          /* [op_count] is a part of a group that was emitted */
    bool *done_before;   /* [op_count] room for a copy */
    uint32_t temporaries;
    bool fixed; /* sizes are constants of the shaders */
};

/* An elementwise program, see shaders/program.glsl. */
typedef struct vr_load {
    uint32_t value;           /* INLAY_NONE: what is loaded is the number that the strides say itself */
    uint32_t first;           /* element */
    int64_t strides[VR_RANK]; /* elements, over the result's dims */
} vr_load;
enum { MAKE_RANGE, MAKE_EYE, MAKE_TRILU, MAKE_ONE_HOT }; /* numbers of what is made of positions, in operators.def */
struct vr_program {
    vr_arithmetic in; /* the type of its registers */
    uint32_t slots[MOST_SLOTS], slot_count;
    vr_load loads[MOST_INPUTS];
    uint32_t load_count;
    uint64_t numbers[MOST_NUMBERS];
    uint32_t number_count;
    int64_t dims[VR_RANK]; /* of the result */
    uint32_t rank;
    uint32_t made[VR_MOST_MADE], made_in[VR_MOST_MADE], made_count; /* values that are in registers, which */
    uint32_t result;                                                /* value that it makes */
    bool has_columns; /* the skeleton tells which element of this dimension it is at */
    uint32_t columns;
    bool full; /* something did not fit: more than there is room for, or sizes that do not go together */
};

/* Registers; once the program is full they mean nothing. */
uint32_t vr_slot(vr_program *program, uint32_t op, uint32_t a, uint32_t b, uint32_t c);
uint32_t vr_number(vr_program *program, double x);
uint32_t vr_number_bits(vr_program *program, uint64_t bits); /* as the type that the program computes with has them */
uint32_t vr_load_value(const vr_build *build, vr_program *program, uint32_t value); /* broadcast to the result */
bool vr_in_register(const vr_program *program, uint32_t value, uint32_t *out);
uint32_t vr_get(const vr_build *build, vr_program *program,
                uint32_t value); /* the same, if it is in no register already */
uint32_t vr_load_axis(const vr_build *build, vr_program *program, uint32_t value,
                      uint32_t axis); /* one element a coordinate */
/* From element `first` on, by strides over the result's dimensions (NULL: one element for all). */
uint32_t vr_load_at(const vr_build *build, vr_program *program, uint32_t value, const int64_t *strides, uint32_t first);
void vr_program_start(const vr_build *build, vr_program *program, uint32_t result, vr_arithmetic in);

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
bool vr_computes_in(const vr_build *build, const vr_op *op, vr_arithmetic in);
vr_arithmetic vr_arithmetic_of(inlay_dtype dtype); /* VR_INTEGER or VR_SINGLE */
bool vr_is_float(inlay_dtype dtype);

/* Adds to a program that makes the result of op what can be done right behind it. The program's result is then another
 * value, and ops are done. */
void vr_grow(vr_build *build, const vr_op *op, vr_program *program);
/* The only op that reads a value, if it was not lowered yet and the value is no output; or NULL. */
const vr_op *vr_reader(const vr_build *build, uint32_t value);
static inline uint32_t vr_number_of(const vr_build *build, const vr_op *op)
{
    return (uint32_t)(op - build->compiled->ops);
}
/* Where a Transpose alone reads what a program makes, that becomes the result. strides: of the result's elements over
 * the dimensions that the program had. */
void vr_follow_transpose(vr_build *build, vr_program *program, int64_t *strides);
/* The permutation of a Transpose; false: it is none. */
bool vr_permutation(const vr_op *op, uint32_t rank, uint32_t *out);

/* A new dispatch with room for own_words parameters behind those of a program (own only: without a program). */
vr_dispatch *vr_emit(vr_build *build, gpu_shader shader, uint32_t own_words);
/* The same for op's skeleton, the elementwise ops behind it in program. */
vr_dispatch *vr_skeleton(vr_build *build, const vr_op *op, vr_program *program, gpu_shader shader, uint32_t own_words);
/* A dispatch of the elementwise skeleton alone; the same with what is behind op. */
inlay_status vr_emit_elements(vr_build *build, const vr_program *program);
inlay_status vr_emit_program(vr_build *build, const vr_op *op, vr_program *program);
void vr_fill(vr_build *build, uint32_t value, double x); /* all elements are x */

/* The shader's own constants (ID_OWN), and its parameters from word `first` on, which are integers or vr_bits. */
#define VR_LIST(type, ...)                                                                                             \
    sizeof((type[]){ __VA_ARGS__ }) / sizeof(type), (type[])                                                           \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define VR_OWN(d, ...) vr_own(d, VR_LIST(uint32_t, __VA_ARGS__))
#define VR_PUT(b, d, first, ...) vr_put(b, d, first, VR_LIST(int64_t, __VA_ARGS__))
void vr_own(vr_dispatch *dispatch, size_t count, const uint32_t *list);
void vr_put(const vr_build *build, const vr_dispatch *dispatch, uint32_t first, size_t count, const int64_t *list);
static inline int64_t vr_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* What a dispatch touches: an operand at `push`; the shader's own operand k, which load_a, load_b or load_c reads (an
 * omitted one is left alone); the same by where it lies. */
typedef struct vr_source {
    vr_place place;
    uint64_t bytes;
    inlay_dtype dtype;
} vr_source;
vr_source vr_source_of(const vr_build *build, uint32_t value);
void vr_touch(vr_build *build, vr_dispatch *dispatch, uint32_t push, vr_place place, uint64_t bytes, bool write);
void vr_touch_value(vr_build *build, vr_dispatch *dispatch, uint32_t push, uint32_t value, bool write);
void vr_read(vr_build *build, vr_dispatch *dispatch, uint32_t k, uint32_t value);
void vr_read_at(vr_build *build, vr_dispatch *dispatch, uint32_t k, const vr_source *source);

/* Is what is the same for a subgroup loaded once? Loops whose ends the compiler does not know may load beyond them. */
bool vr_scalar_loads(const vr_build *build);
/* Mesa's driver for CPUs leaves the loops of an invocation after 65,535 rounds of all of them, and says nothing. Do so
 * many go? The same, where op is declined if not. */
bool vr_goes_round(const vr_build *build, int64_t rounds);
void vr_expect_rounds(vr_build *build, const vr_op *op, int64_t rounds);

/* What a dispatch is expected to take, by the bytes or the operations of each of count elements. */
void vr_expect_bytes(const vr_build *build, vr_dispatch *dispatch, double count, double bytes);
void vr_expect_flops(const vr_build *build, vr_dispatch *dispatch, double flops);

/* The end of a dispatch: what its program reads and the place of the result, */
void vr_finish(vr_build *build, vr_dispatch *dispatch, const vr_program *program);
/* and so many workgroups, or one invocation an item. */
inlay_status vr_grid_groups(vr_build *build, vr_dispatch *dispatch, uint64_t groups);
inlay_status vr_grid(vr_build *build, vr_dispatch *dispatch, int64_t items);
inlay_status vr_finish_each(vr_build *build, vr_dispatch *dispatch, const vr_program *program, int64_t items);

/* Places. */
void vr_make(vr_build *build, uint32_t value); /* memory for a result */
uint32_t vr_temporary(vr_build *build, inlay_dtype dtype, uint32_t rank,
                      const int64_t *dims);                                   /* a value of the region's own */
void vr_alias(vr_build *build, uint32_t value, uint32_t of, uint64_t offset); /* result lies in another value */
vr_place vr_buffer_place(vr_build *build, vr_buffer buffer);
vr_place vr_constant_place(vr_build *build, const vr_constant *constant);
bool vr_is_output(const vr_build *build, uint32_t value);

/* A box of elements of any type that changes places. Strides in elements. */
typedef struct vr_box {
    uint32_t rank;
    int64_t dims[2 * VR_RANK], from[2 * VR_RANK], to[2 * VR_RANK];
    int64_t from_base, to_base;
    uint32_t pad; /* PAD_ */
    int64_t begin[2 * VR_RANK], extent[2 * VR_RANK];
    uint32_t fill; /* value of the element outside, or INLAY_NONE */
    /* Indexes that add to where an element comes from, or goes to; or INLAY_NONE. Each has index_count of them, one
     * behind the other, along axes of these sizes and strides. */
    uint32_t indexes, index_count;
    bool scatters;
    int64_t index[2 * VR_RANK], axis_size[VR_RANK], axis_stride[VR_RANK];
} vr_box;
vr_box vr_whole_box(const vr_tensor *tensor); /* all of t, to a tensor of that shape */
inlay_status vr_move(vr_build *build, vr_box *box, uint32_t from, uint32_t to); /* to is made where it is not yet */
inlay_status vr_copy_flat(vr_build *build, uint32_t from, uint32_t to);
void vr_row_major(const int64_t *dims, uint32_t rank, int64_t *strides);
void vr_strides(const vr_build *build, uint32_t value, int64_t *strides); /* of a value, turned or not */
int64_t vr_extent(const vr_tensor *tensor, uint32_t from, uint32_t to);   /* product of dims[from] to dims[to - 1] */
/* Fewer dimensions for the same elements: those of size 1 go, and neighbours that lie behind each other in all tensors
 * become one. Returns how many are left. */
uint32_t vr_merge(uint32_t rank, int64_t *dims, uint32_t tensors, int64_t *const *strides);

/* Sets the status to what the shapes of an op do not allow. */
INLAY_PRINTF(3, 4)
inlay_status vr_decline(vr_build *build, const vr_op *op, const char *format, ...);

/* An axis of rank dimensions, where that may be negative; the same, and attribute `axis`, of an op: false: declined. */
bool vr_axis(int64_t axis, uint32_t rank, uint32_t *out);
bool vr_axis_named(vr_build *build, const vr_op *op, int64_t axis, uint32_t rank, uint32_t *out);
bool vr_axis_of(vr_build *build, const vr_op *op, int64_t otherwise, uint32_t rank, uint32_t *out);
/* Elements of an op's input as integers, known before the run; count -1: not known. */
int64_t vr_ints(const vr_build *build, const vr_op *op, uint32_t input, int64_t *out, uint32_t most);
/* The same for what early versions have in an attribute. */
int64_t vr_attr_or_ints(const vr_build *build, const vr_op *op, const char *name, uint32_t input, int64_t *out,
                        uint32_t most);
uint32_t vr_in_value(const vr_op *op, uint32_t input); /* INLAY_NONE: omitted */
uint32_t vr_out_value(const vr_op *op, uint32_t output);
const vr_tensor *vr_in(const vr_build *build, const vr_op *op, uint32_t input); /* NULL: omitted */
const vr_tensor *vr_out(const vr_build *build, const vr_op *op, uint32_t output);
static inline uint32_t vr_size_of(inlay_dtype dtype)
{
    return inlay_dtype_bits(dtype) / 8;
}
uint32_t vr_element(inlay_dtype dtype); /* EL_ of a type */

/* A window over images of up to three dimensions, missing ones at the front of size 1 (window.c). Shaders have the
 * first six lists as 18 words in this order. */
typedef struct vr_window {
    int64_t out[3], in[3], window[3], stride[3], dilation[3], begin[3], end[3];
    int64_t taps, pixels; /* products of window, of out */
    bool plain;           /* one pixel, one apart, no padding: the result's pixels are the input's */
} vr_window;
/* Sizes are the operator's, of its input 0, and those that the host inferred for the result. weights NULL: the window
 * is attribute kernel_shape. false: they do not fit, which is declined. */
bool vr_window_read(vr_build *build, const vr_op *op, const vr_tensor *weights, bool transposed, vr_window *out);
void vr_put_window(const vr_build *build, const vr_dispatch *dispatch, uint32_t first, const vr_window *window);
/* POOL_: what is made of each window of one plane of op's first input (reduce.c). */
inlay_status vr_emit_windows(vr_build *build, const vr_op *op, vr_program *program, uint32_t kind,
                             const vr_window *window);

/* A product of matrices in batches, or of windows, see shaders/product.comp (product.c). */
typedef struct vr_product {
    int64_t line, lines, n, k, taps;
    int64_t a_row, a_step, b_step, b_column, b_tap, b_panel, out_row, out_column;
    int64_t batch[3], a_batch[3], b_batch[3], out_batch[3];
    vr_source a, b;
    float alpha;
    int64_t group; /* columns of the last of the batches, where those are groups of columns; or 0 */
    bool windows, padded, packed;
    vr_window window;
    /* Products of the same sizes and A, each with a B and a result of its own, are the first of the batches. */
    struct {
        vr_place place;
        const vr_program *program;
    } siblings[VR_SIBLINGS];
    uint32_t sibling_count;
} vr_product;
/* Batches of several tensors, by their strides over the same dimensions: at most three after those that lie behind each
 * other in all are one. strides_of[i] belongs to out[i]. */
bool vr_merge_batches(uint32_t rank, const int64_t *dims, uint32_t tensors, int64_t *const *strides_of, int64_t *batch,
                      int64_t *const *out);
/* One batch of [rows, k] * [k, n], row-major all; the result's batches follow each other. */
vr_product vr_product_of(int64_t rows, int64_t k, int64_t n);
void vr_product_batches(vr_product *product, const int64_t batch[3]);
/* B of op in panels, where it is a constant that the region keeps so; or NULL. */
const vr_constant *vr_panels_of(const vr_build *build, const vr_op *op);
/* Of value a and op's second input, from panels where the region has it so. */
inlay_status vr_finish_product(vr_build *build, const vr_op *op, uint32_t a, vr_product *product, vr_program *program);

enum { ATTENTION_ONNX, ATTENTION_OWN };        /* numbers of rows of operators.def */
enum { BLANK_NAN, BLANK_ZERO, BLANK_GUARDED }; /* see shaders/attend.comp */
/* A softmax of scores times a third matrix, see shaders/attend.comp (attend.c). */
typedef struct vr_attend {
    vr_product scores;
    vr_source source;
    int64_t width, v_row, v_column, v_batch[3];
    uint32_t blank; /* BLANK_*: what becomes of rows that see nothing */
    uint32_t result;
} vr_attend;
/* Is what program makes of a product's result read by a Softmax and a product alone? Those are done then, and so is
 * this: true, whatever the status. */
bool vr_try_attend(vr_build *build, const vr_op *op, const vr_product *product, vr_program *program);

/* Rows that are divided by what they sum up to (reduce.c). Values may be INLAY_NONE. */
typedef struct vr_rows {
    uint32_t kind;
    int64_t count, length, inner;
    float epsilon;
    uint32_t scale, bias;
    int64_t scale_rows, scale_step, scale_per; /* see shaders/rows.comp */
    uint32_t skip, skip_bias; /* values of floats that are added first; the other is of a row's length */
    uint32_t mean, deviation; /* values that get a row's mean and 1 / deviation */
} vr_rows;
/* Rows along the dimensions from axis on, by the attribute epsilon. */
vr_rows vr_rows_of(const vr_build *build, const vr_op *op, uint32_t kind, uint32_t axis);
inlay_status vr_emit_rows(vr_build *build, const vr_op *op, const vr_rows *rows, uint32_t from);

extern const vr_family vr_pointwise, vr_batch_norm, vr_cast, vr_quantize, vr_dequantize, vr_variadic, vr_mat_mul,
    vr_gemm, vr_conv, vr_conv_transpose, vr_pool, vr_global_pool, vr_reduce, vr_softmax, vr_layer_norm,
    vr_instance_norm, vr_lp_norm, vr_view, vr_transpose, vr_concat, vr_split, vr_slice, vr_pad, vr_tile, vr_space_depth,
    vr_gather, vr_elements, vr_tuples, vr_resize, vr_made, vr_constant_of_shape, vr_lrn, vr_attention, vr_skip_norm;

inlay_status vr_plan(vr_build *build);

/* The provider's entries. */
inlay_status vr_assess(void *state, const inlay_graph *graph, const uint8_t *candidates, const inlay_assess_sink *sink,
                       inlay_diag *diag);
inlay_status vr_cost(void *state, const inlay_cost_request *request, inlay_cost *out);
inlay_status vr_compile_on(vr_state *state, gpu_device *device, const inlay_compile_request *request,
                           inlay_compiled **out, inlay_diag *diag);
void vr_release_compiled(void *state, inlay_compiled *compiled);
inlay_status vr_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                           inlay_instance **out, inlay_diag *diag);
void vr_release_instance(void *state, inlay_compiled *compiled, inlay_instance *in);
inlay_status vr_bind(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_bind_args *args,
                     inlay_binding **out, inlay_diag *diag);
void vr_release_binding(void *state, inlay_compiled *compiled, inlay_instance *in, inlay_binding *binding);
inlay_status vr_execute(void *state, inlay_compiled *compiled, inlay_instance *in, const inlay_exec_args *args);
#endif
