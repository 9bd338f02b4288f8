/* region.h - compiles a region of the host's graph to dispatches of shaders. README.md lists the files. Tensors are
 * dense and row-major unless vulkan_tensor.strided is set. */
#ifndef VULKAN_REGION_H
#define VULKAN_REGION_H
#include "vulkan/gpu.h"
#include "inlay/kit_region.h"

/* VULKAN_MAX_LOOP_ROUNDS: Mesa's CPU driver silently ends the loops of an invocation after 65,535 rounds in all. The
 * limit is lower, because the loops inside of functions count, too. VULKAN_SMALL_BYTES: the maximum size of a constant
 * that the region also keeps on the host. */
enum {
    VULKAN_MAX_LOOP_ROUNDS = 60000,
    VULKAN_RANK = MOST_RANK,
    VULKAN_SMALL_BYTES = 4096,
    VULKAN_MAX_OPERANDS = 15,
    VULKAN_WORKGROUP_SIZE = 64,
    VULKAN_GPU_WORKGROUP_SIZE = 256 /* where the invocations of a group are independent, or many share a sum */
};

/* Sets of element types. */
#define VULKAN_FLOATS (KIT_BIT(FLOAT) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
#define VULKAN_INTS (KIT_SIGNED | KIT_BIT(UINT8) | KIT_BIT(UINT16) | KIT_BIT(UINT32))
#define VULKAN_BYTES (KIT_BIT(INT8) | KIT_BIT(UINT8))
#define VULKAN_NUMBERS (VULKAN_FLOATS | VULKAN_INTS)
#define VULKAN_WIDE (VULKAN_NUMBERS | KIT_BIT(DOUBLE)) /* elementwise arithmetic only */
#define VULKAN_BOOL KIT_BIT(BOOL)
#define VULKAN_MOVED (KIT_NUMBERS | VULKAN_BOOL | KIT_FLOAT8 | KIT_BIT(COMPLEX64))

typedef enum vulkan_arithmetic { VULKAN_SINGLE, VULKAN_INTEGER, VULKAN_DOUBLE } vulkan_arithmetic;

/* Tiles of a workgroup (tiles.c): rows and columns of an invocation, invocations along rows and columns, slices of k,
 * steps of a slice in a chunk of k; or the same of matrices and subgroups. ahead: chunks that are loaded before they
 * are needed; 0: operands are not shared, each invocation loads its own. speed: of multiplications on a full device,
 * relative, where nothing is measured. */
typedef struct vulkan_tiling {
    uint32_t rows, columns, side_rows, side_columns, slices, steps, ahead;
    double speed;
} vulkan_tiling;
/* BYTES: products of 8-bit integers. HALF, BYTE_MATRICES: float16 and 8-bit integers on matrix units. */
typedef enum vulkan_tile_kind {
    VULKAN_TILES_FLOAT,
    VULKAN_TILES_BYTES,
    VULKAN_TILES_HALF,
    VULKAN_TILES_BYTE_MATRICES,
    VULKAN_TILE_KINDS
} vulkan_tile_kind;
enum { VULKAN_MAX_TILES = 10, VULKAN_MAX_PARTS = 16 };

/* Measured nanoseconds of a chunk of k: of a tile on an empty device; of all tiles on a full device, for each tile. One
 * more entry follows those of the tiles, of the sum of parts of k: of a dispatch, and for each float that it reads. */
typedef struct vulkan_tile_time {
    float few, many;
} vulkan_tile_time;
typedef struct vulkan_tile_times {
    vulkan_tile_time times[VULKAN_MAX_TILES + 1];
    bool tried, known;
} vulkan_tile_times;

/* Where the times of tiles come from: nothing is measured, or a GPU is, or any device. */
typedef enum vulkan_measuring { VULKAN_ESTIMATE, VULKAN_MEASURE_GPU, VULKAN_MEASURE } vulkan_measuring;

typedef struct vulkan_state {
    const inlay_host *host;
    uint32_t domain; /* the number that the host assigned to the memory domain of the device */
    gpu_options options;
    char cache_dir[4096];
    char device_name[GPU_NAME_BYTES];
    char facts[128];                              /* description of the device for reports */
    bool device_named;                            /* an option names the device */
    bool open_deferred;                           /* the device is opened with the first region */
    double unrequested_ns;                        /* added to each op's cost on a CPU driver that no option names */
    double launch_ns, flops_per_ns, bytes_per_ns; /* parameters of cost.c */
    pthread_mutex_t lock;
    vulkan_measuring measuring;
    vulkan_tile_times tiles[VULKAN_TILE_KINDS]; /* under lock */
    char open_error[512];                       /* why no device can be opened; "": not tried, or opened */
    gpu_device *gpu;                            /* NULL until vulkan_open() */
} vulkan_state;

/* Opens and tests the device on the first call. */
inlay_status vulkan_open(vulkan_state *vulkan, gpu_device **out, inlay_diag *diag);
/* What a result of the device that is kept in a file belongs to. */
typedef struct vulkan_device_key {
    uint64_t shaders;
    uint32_t vendor, driver_version, is_cpu, zero; /* no padding: keys are compared byte by byte */
    uint8_t uuid[VK_UUID_SIZE];
    char name[GPU_NAME_BYTES];
} vulkan_device_key;
vulkan_device_key vulkan_device_key_of(const gpu_device *device);
/* Compares results of the device with expected ones. INLAY_UNSUPPORTED names the failing check. The result is cached
 * for the device and its driver version. */
inlay_status vulkan_self_test(vulkan_state *state, gpu_device *device, inlay_diag *diag);

typedef struct vulkan_build vulkan_build;
typedef struct vulkan_op vulkan_op;
typedef struct vulkan_operator vulkan_operator;

typedef struct vulkan_program vulkan_program;

/* The form of the weights of a product: its second factor. */
typedef enum vulkan_weights {
    VULKAN_NO_WEIGHTS,
    VULKAN_MATRIX,
    VULKAN_WINDOW,            /* [M, C / groups, window] */
    VULKAN_TRANSPOSED_WINDOW, /* [C, M / groups, window] */
    VULKAN_BLOCKS             /* of few bits */
} vulkan_weights;

/* The code and constraints that the operators of a family share. */
typedef struct vulkan_family {
    bool (*supports)(const kit_node *node, const vulkan_operator *row,
                     kit_refusal *why); /* NULL: the row states all constraints */
    inlay_status (*lower)(vulkan_build *build, const vulkan_op *op);
    /* Elementwise operators only: appends the op to a program. The result is the last slot. */
    uint32_t (*append_slots)(const vulkan_build *build, vulkan_program *program, const vulkan_op *op);
    /* Normalisations of a sum only: whether op can add the parts of its input `value` itself, see vulkan_tensor. */
    bool (*adds_parts)(const vulkan_build *build, const vulkan_op *op, uint32_t value);
    bool checks_types;       /* supports() checks the types of inputs itself */
    bool multiple_outputs;   /* computes more outputs than the first */
    bool typed_output;       /* the row's types also apply to the result */
    bool needs_known_inputs; /* host inputs must be known before the run */
    bool is_sized_by_inputs; /* the contents of any input may determine the size of the result */
    bool has_opcode;         /* the row's number is an opcode */
    bool is_float;           /* computes in float for every type */
    bool is_integer;         /* products of 8-bit integers */
    bool may_be_part_empty;  /* one of its outputs may be empty and another one not */
    vulkan_weights weights;
    uint8_t min_rank, max_rank; /* of the first input; 0: no limit */
    uint8_t strided_inputs;     /* the first inputs may have any strides ... */
    uint8_t strided_rank;       /* ... up to this rank of the result; 0: no limit */
} vulkan_family;

struct vulkan_operator {
    const char *name;     /* prefix "ms.": com.microsoft; "inlay.": ai.inlay */
    uint32_t first, last; /* since_version */
    const vulkan_family *family;
    uint32_t number;      /* an opcode or a kind, by family */
    uint64_t types;       /* of the inputs that the device reads, unless supports() checks them */
    uint32_t host_inputs; /* bit i: the device does not read input i */
};

static inline bool vulkan_is_host_input(const vulkan_operator *row, uint32_t input)
{
    return input < 32 && (row->host_inputs >> input & 1u) != 0;
}

/* Helpers of supports(). vulkan_is_known(): the elements of an input are known when the node is specialized. This also
 * holds for inputs that determine the size of the result, since the host waits for them. */
bool vulkan_is_known(const kit_node *node, uint32_t input, kit_refusal *why);
bool vulkan_has_types(const kit_node *node, uint32_t input, uint64_t set, kit_refusal *why);
bool vulkan_has_output_type(const kit_node *node, uint64_t set, kit_refusal *why); /* of the first output */

/* The row of a node, or NULL and the reason. */
const vulkan_operator *vulkan_find_operator(const kit_node *node, kit_refusal *why);

typedef kit_region_value vulkan_value;

struct vulkan_op {
    const vulkan_operator *row;
    inlay_node_info info; /* inputs and outputs are values of the region */
};

/* A constant B of a matrix multiplication, packed in panels of vulkan_panel_width() columns:
 * [groups][panels][taps][k][columns of a panel]. The steps are its strides in the model. Weights of `bits` bits have
 * blocks of `block` rows of k, see blocks.c, and no strides; scales and zeros are values of the region. */
typedef struct vulkan_panels {
    int64_t groups, columns, taps, k;
    int64_t group_step, column_step, tap_step, k_step;
    /* bits 0: plain elements; then block 4 is for products of 8-bit integers: four neighbouring k of a column are
     * contiguous, as signed bytes. zeros may be INLAY_NONE. */
    uint32_t bits, block, scales, zeros;
} vulkan_panels;

typedef struct vulkan_constant {
    uint32_t value;
    bool packed; /* in panels; otherwise in the layout of the model */
    vulkan_panels panels;
    uint64_t offset, bytes; /* in the region's buffer of constants */
} vulkan_constant;

struct inlay_compiled {
    vulkan_state *state;
    gpu_device *gpu;
    kit_region region;
    vulkan_op *ops;       /* [op_count] nodes of the region */
    vulkan_value *values; /* [value_count] owned by region */
    vulkan_constant *constants;
    uint32_t op_count, value_count, constant_count;
    gpu_buffer memory;    /* of the constants */
    uint32_t specialized; /* instances created so far; atomic, see VULKAN_MAX_FIXED_INSTANCES */
};

/* Width of a panel: columns per invocation times invocations that share a strip of rows. */
uint32_t vulkan_panel_columns(const gpu_facts *facts);
uint32_t vulkan_panel_lanes(const gpu_facts *facts);
uint32_t vulkan_panel_width(const gpu_facts *facts);
/* The width of these panels, and their rows of k with those of an incomplete block. */
int64_t vulkan_panels_width(const gpu_facts *facts, const vulkan_panels *panels);
int64_t vulkan_panels_rows(const vulkan_panels *panels);
/* Whether a constant input of these dimensions is packed in panels for op. *out is set for any second factor. */
bool vulkan_wants_panels(const vulkan_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vulkan_panels *out);
/* Lists the constants that the device reads, with their layouts; *out_bytes is their total size. */
void vulkan_list_constants(inlay_compiled *compiled, const inlay_graph *graph, uint64_t *out_bytes);
/* Weights of 2, 4 and 8 bits in blocks (blocks.c): the panels of an op, the elements of k with those of an incomplete
 * last block, the bytes of packed panels of `width` columns, and packing. */
vulkan_panels vulkan_block_panels(const vulkan_op *op);
uint64_t vulkan_block_bytes(const vulkan_panels *panels, int64_t width);
void vulkan_pack_blocks(const inlay_compiled *compiled, const inlay_compile_request *request,
                        const vulkan_constant *constant, int64_t width, uint32_t *to);
/* Copies one constant to the region's device buffer. */
inlay_status vulkan_upload(inlay_compiled *compiled, const inlay_compile_request *request,
                           const vulkan_constant *constant, inlay_diag *diag);
/* The constant of a value in these panels, or unpacked (NULL). */
const vulkan_constant *vulkan_find_constant(const inlay_compiled *compiled, uint32_t value,
                                            const vulkan_panels *panels);

typedef enum vulkan_kind { VULKAN_INPUT, VULKAN_OUTPUT, VULKAN_CONSTANT, VULKAN_WORK } vulkan_kind;
typedef struct vulkan_buffer {
    vulkan_kind kind;
    uint32_t index; /* INPUT, OUTPUT: index among the inputs or outputs of the region */
    uint64_t bytes;
    uint64_t offset;      /* CONSTANT: in the region's buffer of constants; WORK: in the workspace */
    uint32_t first, last; /* first and last dispatch that use it; first INLAY_NONE: unused */
} vulkan_buffer;

typedef struct vulkan_operand {
    uint32_t push; /* index of the push constant */
    uint32_t buffer;
    uint64_t offset, bytes;
    bool write;
} vulkan_operand;

typedef struct vulkan_dispatch {
    gpu_shader shader;
    uint32_t constants[ID_COUNT];
    VkPipeline pipeline;
    uint32_t groups[3];
    vulkan_operand operands[VULKAN_MAX_OPERANDS];
    uint32_t operand_count;
    uint32_t words, word_count; /* index of its parameters in inlay_instance.words, and their count */
    double ns;                  /* expected time */
    uint32_t op;                /* the op whose lowering added it; others may be part of it */
    bool barrier;               /* waits for all earlier dispatches */
} vulkan_dispatch;

/* Command buffers for one set of addresses. */
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
    uint32_t *segment_ends; /* [segment_count] index after the last dispatch of each, ascending */
    pthread_mutex_t lock;
    inlay_binding *own; /* for runs without a binding, one at a time; under lock */
};

/* Building an instance.
 *
 * Lowering functions do not check the status of every call. The first failure is stored in vulkan_build.status with its
 * message; later calls have no effect, and the dispatches that they return may still be written to. */

typedef struct vulkan_place {
    uint32_t buffer; /* INLAY_NONE: not computed yet */
    uint64_t offset; /* bytes */
} vulkan_place;

typedef struct vulkan_tensor {
    int64_t dims[VULKAN_RANK];
    uint32_t rank;
    inlay_dtype dtype;
    int64_t count;
    bool known;
    const void *data; /* elements that are known before the run; or NULL */
    uint64_t data_bytes;
    vulkan_place place;
    /* The value is the result of a Transpose, Split or Slice that is not executed, or a reshape of one: it shares the
     * place of its input and has these strides. Only ops that read by strides get such a value. */
    bool strided;
    int64_t strides[VULKAN_RANK];
    /* Above 0: the value is the sum of this number of float tensors, which follow one another at its place. Only
     * vulkan_skip_norm reads such a value. */
    uint32_t parts;
} vulkan_tensor;

/* CPU drivers get sizes as shader constants and compile for each shape. After this many instances of a region its sizes
 * are read from memory instead. */
enum { VULKAN_MAX_FIXED_INSTANCES = 4 };
enum { VULKAN_MAX_SIBLINGS = 2, VULKAN_MAX_TEMPORARIES = 3 }; /* TEMPORARIES: per op */
enum { VULKAN_MAX_REGISTER_VALUES = 21 };

struct vulkan_build {
    const inlay_compiled *compiled;
    inlay_instance *instance;
    gpu_device *device;
    inlay_diag *diag;
    inlay_status status;               /* the first failure */
    vulkan_dispatch overflow_dispatch; /* returned after a failure */
    vulkan_tensor *tensors;            /* [value_count], then temporaries */
    bool *done;                        /* [op_count] already part of a dispatch */
    bool *done_backup;                 /* [op_count] room for a copy of done */
    uint32_t temporaries;
    bool fixed_sizes; /* sizes are constants of the shaders */
    /* Returns the measured times of a kind of tiles, or NULL. NULL: tiles are chosen by estimates. */
    const vulkan_tile_time *(*tile_times)(const vulkan_build *build, vulkan_tile_kind kind);
};

/* An elementwise program, see shaders/program.glsl. */
typedef struct vulkan_load {
    uint32_t value;               /* INLAY_NONE: the load yields the position itself */
    uint32_t first;               /* element to start at */
    int64_t strides[VULKAN_RANK]; /* elements, over the result's dims */
} vulkan_load;
enum { GENERATE_RANGE, GENERATE_EYE, GENERATE_TRILU, GENERATE_ONE_HOT }; /* numbers in operators.def */
struct vulkan_program {
    vulkan_arithmetic arithmetic; /* type of the registers */
    uint32_t slots[MOST_SLOTS], slot_count;
    vulkan_load loads[MOST_INPUTS];
    uint32_t load_count;
    uint64_t literals[MOST_NUMBERS];
    uint32_t literal_count;
    int64_t dims[VULKAN_RANK]; /* of the result */
    uint32_t rank;
    /* Values that are in registers, and the register of each. */
    uint32_t register_values[VULKAN_MAX_REGISTER_VALUES], registers[VULKAN_MAX_REGISTER_VALUES], register_count;
    bool rounded[VULKAN_MAX_REGISTER_VALUES]; /* the register has been rounded to the 16 bits of its value */
    uint32_t result;                          /* the value that the program computes */
    bool has_columns; /* the shader gives the program the index along column_dim, see AT_COLUMN */
    uint32_t column_dim;
    bool overflow; /* a limit was exceeded, or sizes do not match */
};

/* The following functions return the number of a register, which is meaningless once program->overflow is set. */
uint32_t vulkan_add_slot(vulkan_program *program, uint32_t op, uint32_t a, uint32_t b, uint32_t c);
uint32_t vulkan_literal(vulkan_program *program, double x);
/* A literal by its bits in the program's arithmetic. */
uint32_t vulkan_literal_bits(vulkan_program *program, uint64_t bits);
/* Loads a value, broadcast to the result. */
uint32_t vulkan_load_value(const vulkan_build *build, vulkan_program *program, uint32_t value);
bool vulkan_in_register(const vulkan_program *program, uint32_t value, uint32_t *out);
/* The register of a value; loads it if it has none. */
uint32_t vulkan_register_of(const vulkan_build *build, vulkan_program *program, uint32_t value);
/* Loads one element per coordinate of an axis. */
uint32_t vulkan_load_axis(const vulkan_build *build, vulkan_program *program, uint32_t value, uint32_t axis);
/* Loads from element `first` on, by strides over the result's dimensions (NULL: the same element for all). */
uint32_t vulkan_load_at(const vulkan_build *build, vulkan_program *program, uint32_t value, const int64_t *strides,
                        uint32_t first);
void vulkan_program_start(const vulkan_build *build, vulkan_program *program, uint32_t result, vulkan_arithmetic in);

/* Operations of programs. */
enum {
#define X(name) OP_##name,
#include "vulkan/opcodes.def"
#undef X
    OP_COUNT
};
/* Numbers of pointwise operators in operators.def that are not opcodes. */
enum { GREATER = 128, GREATER_EQUAL, CLIP, MOD, SHIFT };

/* Whether op can be computed in this arithmetic (arithmetic.c). */
bool vulkan_computes_in(const vulkan_build *build, const vulkan_op *op, vulkan_arithmetic arithmetic);
vulkan_arithmetic vulkan_arithmetic_of(inlay_dtype dtype); /* VULKAN_INTEGER or VULKAN_SINGLE */
bool vulkan_is_float(inlay_dtype dtype);

/* Fuses elementwise ops that follow op into the program that computes op's result. Sets program->result to the last
 * value, and marks the fused ops as done. */
void vulkan_fuse_epilogue(vulkan_build *build, const vulkan_op *op, vulkan_program *program);
/* The only op that reads a value, unless the value is an output or the op is lowered already; or NULL. */
const vulkan_op *vulkan_single_reader(const vulkan_build *build, uint32_t value);
static inline uint32_t vulkan_number_of(const vulkan_build *build, const vulkan_op *op)
{
    return (uint32_t)(op - build->compiled->ops);
}
/* Fuses a Transpose if it is the only reader of the program's result. strides: those of the new result, over the
 * dimensions that the program had before. */
void vulkan_follow_transpose(vulkan_build *build, vulkan_program *program, int64_t *strides);
/* The permutation of a Transpose; false: `perm` is invalid. */
bool vulkan_permutation(const vulkan_op *op, uint32_t rank, uint32_t *out);

/* Adds a dispatch with own_words parameters after those of the program. */
vulkan_dispatch *vulkan_add_dispatch(vulkan_build *build, gpu_shader shader, uint32_t own_words);
/* The same, with the elementwise ops after op fused into program. */
vulkan_dispatch *vulkan_add_fused_dispatch(vulkan_build *build, const vulkan_op *op, vulkan_program *program,
                                           gpu_shader shader, uint32_t own_words);
/* A dispatch of the elementwise shader; vulkan_emit_program() also fuses the ops after op. */
inlay_status vulkan_emit_elements(vulkan_build *build, const vulkan_program *program);
inlay_status vulkan_emit_program(vulkan_build *build, const vulkan_op *op, vulkan_program *program);
void vulkan_emit_fill(vulkan_build *build, uint32_t value, double x); /* sets all elements to x */

/* Set the shader's own constants (from ID_OWN on), and its own parameters from word `first` on. Parameters are integers
 * or floats converted by vulkan_bits(). */
#define VULKAN_LIST(type, ...)                                                                                         \
    sizeof((type[]){ __VA_ARGS__ }) / sizeof(type), (type[])                                                           \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define VULKAN_SET_CONSTANTS(d, ...) vulkan_set_constants(d, VULKAN_LIST(uint32_t, __VA_ARGS__))
#define VULKAN_SET_WORDS(b, d, first, ...) vulkan_set_words(b, d, first, VULKAN_LIST(int64_t, __VA_ARGS__))
void vulkan_set_constants(vulkan_dispatch *dispatch, size_t count, const uint32_t *list);
void vulkan_set_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first, size_t count,
                      const int64_t *list);
static inline int64_t vulkan_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Operands. vulkan_add_operand() passes the address of an operand in push constant `push`. vulkan_set_input() sets
 * operand k of the shader itself, which load_a, load_b or load_c reads (k: 0 to 2); it ignores an omitted value. */
typedef struct vulkan_source {
    vulkan_place place;
    uint64_t bytes;
    inlay_dtype dtype;
} vulkan_source;
vulkan_source vulkan_source_of(const vulkan_build *build, uint32_t value);
void vulkan_add_operand(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, vulkan_place place,
                        uint64_t bytes, bool write);
void vulkan_add_value_operand(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t push, uint32_t value,
                              bool write);
void vulkan_set_input(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, uint32_t value);
void vulkan_set_input_source(vulkan_build *build, vulkan_dispatch *dispatch, uint32_t k, const vulkan_source *source);

/* Whether the driver executes a load that is uniform in a subgroup only once. Such a driver may execute the loads of a
 * loop beyond its last round if the compiler does not know the loop's bounds. */
bool vulkan_scalar_loads(const vulkan_build *build);
/* Whether a loop of this many rounds is possible, see VULKAN_MAX_LOOP_ROUNDS. vulkan_require_rounds() declines op
 * otherwise. */
bool vulkan_rounds_fit(const vulkan_build *build, int64_t rounds);
void vulkan_require_rounds(vulkan_build *build, const vulkan_op *op, int64_t rounds);

/* Set the expected time of a dispatch: by `count` elements of `bytes` each, or by operations. */
void vulkan_expect_bytes(const vulkan_build *build, vulkan_dispatch *dispatch, double count, double bytes);
void vulkan_expect_flops(const vulkan_build *build, vulkan_dispatch *dispatch, double flops);

/* Completes a dispatch: adds the inputs and the result of its program. */
void vulkan_finish(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program);
/* Set the grid: this many workgroups, or one invocation per item. */
inlay_status vulkan_grid_groups(vulkan_build *build, vulkan_dispatch *dispatch, uint64_t groups);
inlay_status vulkan_grid(vulkan_build *build, vulkan_dispatch *dispatch, int64_t items);
inlay_status vulkan_finish_each(vulkan_build *build, vulkan_dispatch *dispatch, const vulkan_program *program,
                                int64_t items);

/* Places. */
void vulkan_allocate_value(vulkan_build *build, uint32_t value); /* a buffer for a result, unless it has one */
/* A new value that is not in the graph. */
uint32_t vulkan_add_temporary(vulkan_build *build, inlay_dtype dtype, uint32_t rank, const int64_t *dims);
/* Places a value at a byte offset inside of value `of`. */
void vulkan_alias(vulkan_build *build, uint32_t value, uint32_t of, uint64_t offset);
vulkan_place vulkan_buffer_place(vulkan_build *build, vulkan_buffer buffer);
vulkan_place vulkan_constant_place(vulkan_build *build, const vulkan_constant *constant);
bool vulkan_is_output(const vulkan_build *build, uint32_t value);

/* A copy of a box of elements of any type. `from` and `to` are the strides of the source and of the target over `dims`,
 * in elements. */
typedef struct vulkan_box {
    uint32_t rank;
    int64_t dims[2 * VULKAN_RANK], from[2 * VULKAN_RANK], to[2 * VULKAN_RANK];
    int64_t from_base, to_base;
    uint32_t pad; /* PAD_*: the next two lists are the padding before each axis, and the size of the source */
    int64_t begin[2 * VULKAN_RANK], extent[2 * VULKAN_RANK];
    uint32_t fill; /* value of elements outside of the source, or INLAY_NONE */
    /* The tensor of indexes, which are added to the source position, or to the target position if `scatters`; or
     * INLAY_NONE. Each element has index_count consecutive indexes, one for each axis of axis_size and axis_stride.
     * index: the strides of the tensor over dims. */
    uint32_t indexes, index_count;
    bool scatters;
    int64_t index[2 * VULKAN_RANK], axis_size[VULKAN_RANK], axis_stride[VULKAN_RANK];
} vulkan_box;
vulkan_box vulkan_whole_box(const vulkan_tensor *tensor); /* all of tensor, to a tensor of the same shape */
/* Allocates `to` if it has no place. */
inlay_status vulkan_emit_move(vulkan_build *build, vulkan_box *box, uint32_t from, uint32_t to);
inlay_status vulkan_emit_copy(vulkan_build *build, uint32_t from, uint32_t to);
void vulkan_row_major(const int64_t *dims, uint32_t rank, int64_t *strides);
void vulkan_strides(const vulkan_build *build, uint32_t value, int64_t *strides); /* also of strided values */
/* dims[from] * ... * dims[to - 1] */
int64_t vulkan_dims_product(const vulkan_tensor *tensor, uint32_t from, uint32_t to);
/* Drops dimensions of size 1, and merges neighbours that are contiguous in all tensors. Returns the new rank. */
uint32_t vulkan_merge_dims(uint32_t rank, int64_t *dims, uint32_t tensors, int64_t *const *strides);

/* Declines an op whose shapes or attributes are not supported: sets the status and its message. */
INLAY_PRINTF(3, 4)
inlay_status vulkan_decline(vulkan_build *build, const vulkan_op *op, const char *format, ...);

/* Normalize an axis, which may be negative; false: out of range. vulkan_require_axis() then declines op;
 * vulkan_axis_attribute() reads attribute `axis`. */
bool vulkan_axis(int64_t axis, uint32_t rank, uint32_t *out);
bool vulkan_require_axis(vulkan_build *build, const vulkan_op *op, int64_t axis, uint32_t rank, uint32_t *out);
bool vulkan_axis_attribute(vulkan_build *build, const vulkan_op *op, int64_t otherwise, uint32_t rank, uint32_t *out);
/* Elements of an op's input as integers; -1: not known before the run, not of an integer type, or more than `most`. */
int64_t vulkan_known_ints(const vulkan_build *build, const vulkan_op *op, uint32_t input, int64_t *out, uint32_t most);
/* The same for a list that early versions of the operator have as an attribute. */
int64_t vulkan_attr_or_known_ints(const vulkan_build *build, const vulkan_op *op, const char *name, uint32_t input,
                                  int64_t *out, uint32_t most);
uint32_t vulkan_input_value(const vulkan_op *op, uint32_t input); /* INLAY_NONE: omitted */
uint32_t vulkan_output_value(const vulkan_op *op, uint32_t output);
const vulkan_tensor *vulkan_input(const vulkan_build *build, const vulkan_op *op, uint32_t input); /* NULL: omitted */
const vulkan_tensor *vulkan_output(const vulkan_build *build, const vulkan_op *op, uint32_t output);
static inline uint32_t vulkan_size_of(inlay_dtype dtype)
{
    return inlay_dtype_bits(dtype) / 8;
}
uint32_t vulkan_element(inlay_dtype dtype); /* EL_ of a type */

/* A filter window over up to three spatial dimensions; leading missing ones have size 1 (window.c). Shaders get the
 * first six lists as 18 words in this order. */
typedef struct vulkan_window {
    int64_t out[3], in[3], size[3], stride[3], dilation[3], begin[3], end[3];
    int64_t taps, pixels; /* products of size and of out */
    bool is_pointwise;    /* size 1, stride 1, no padding: pixels of the result are those of the input */
} vulkan_window;
/* Reads the sizes from the attributes, input 0 and the shape that the host inferred for the result. weights NULL: the
 * size is attribute kernel_shape. false: op is declined, since the sizes do not match. */
bool vulkan_window_read(vulkan_build *build, const vulkan_op *op, const vulkan_tensor *weights, bool transposed,
                        vulkan_window *out);
void vulkan_set_window_words(const vulkan_build *build, const vulkan_dispatch *dispatch, uint32_t first,
                             const vulkan_window *window);
/* Emits the function `kind` (POOL_*) of the windows of each plane of op's first input (reduce.c). */
inlay_status vulkan_emit_windows(vulkan_build *build, const vulkan_op *op, vulkan_program *program, uint32_t kind,
                                 const vulkan_window *window);

/* A batched matrix multiplication or a convolution, see shaders/product.comp (product.c). */
typedef struct vulkan_product {
    int64_t line, lines, n, k, taps;
    int64_t a_row, a_step, b_step, b_column, b_tap, b_panel, out_row, out_column;
    int64_t batch[3], a_batch[3], b_batch[3], out_batch[3];
    vulkan_source a, b;
    float alpha;
    int64_t group; /* number of columns of a group if the last batch dimension counts groups of columns; otherwise 0 */
    bool windows, padded, packed;
    const vulkan_panels *blocks;   /* B is weights of a few bits; or NULL */
    bool integers, int32;          /* of 8 bits; int32: the sums are the result, without a program */
    uint32_t a_zero, b_zero, bias; /* values of products of integers; INLAY_NONE: omitted */
    vulkan_window window;
    const vulkan_tiling *tile; /* NULL: the one of least expected time */
    vulkan_tile_kind kind;     /* of this tile */
    /* Multiplications of the same A and sizes, each with its own B and result, become the first batch dimension. */
    struct {
        vulkan_place place;
        const vulkan_program *program;
    } siblings[VULKAN_MAX_SIBLINGS];
    uint32_t sibling_count;
} vulkan_product;
/* Merges the batch dimensions of several tensors, given by their strides, to at most three; false: more remain.
 * strides_of[i] belongs to out[i]. */
bool vulkan_merge_batches(uint32_t rank, const int64_t *dims, uint32_t tensors, int64_t *const *strides_of,
                          int64_t *batch, int64_t *const *out);
/* The tiles of a device (tiles.c): out[VULKAN_MAX_TILES], and their number. Rows and columns of a tile, and k of its
 * chunks. The tile of least expected time, and that time; times NULL: not measured, the time is relative. out_parts: in
 * how many parts k is divided, whose products are added; above 1 by measured times only. */
uint32_t vulkan_list_tiles(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling **out);
bool vulkan_are_matrices(vulkan_tile_kind kind);
uint32_t vulkan_matrix_size(const gpu_facts *facts, vulkan_tile_kind kind); /* 1: no matrices */
uint32_t vulkan_matrix_depth(const gpu_facts *facts, vulkan_tile_kind kind);
int64_t vulkan_tile_height(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile);
int64_t vulkan_tile_width(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile);
int64_t vulkan_tile_chunk(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile);
const vulkan_tiling *vulkan_choose_tile(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tile_time *times,
                                        const vulkan_product *product, uint32_t *out_parts, double *out_time);
/* Times in the cache folder, in the order of the list, then that of sums. false: there are none of this device, its
 * driver and these shaders, or the file is damaged. */
bool vulkan_load_tile_times(const char *cache_dir, const gpu_device *device, vulkan_tile_kind kind,
                            vulkan_tile_time *out);
void vulkan_save_tile_times(const char *cache_dir, const gpu_device *device, vulkan_tile_kind kind,
                            const vulkan_tile_time *times);
bool vulkan_is_tile_time(const vulkan_tile_time *time);
/* The times of a kind, measured on the first call if the options and the device allow it (tile_times.c); or NULL. */
const vulkan_tile_time *vulkan_tile_times_of(const vulkan_build *build, vulkan_tile_kind kind);
vulkan_tile_kind vulkan_tile_kind_of(gpu_shader shader);
const char *vulkan_tile_kind_name(vulkan_tile_kind kind);

/* One row-major [rows, k] x [k, n]; vulkan_product_batches() sets dense batches of results. */
vulkan_product vulkan_product_of(int64_t rows, int64_t k, int64_t n);
void vulkan_product_batches(vulkan_product *product, const int64_t batch[3]);
/* MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv (integers.c). vulkan_start_integers() starts the program of
 * their sums. */
bool vulkan_is_integer_product(const vulkan_op *op);
uint32_t vulkan_second_factor(const vulkan_op *op); /* the input of op that is B */
bool vulkan_integers_support(const kit_node *node, const vulkan_operator *row, kit_refusal *why);
void vulkan_start_integers(vulkan_build *build, const vulkan_op *op, vulkan_program *program, bool is_conv);
/* The slots that round a value, add a zero point (a register, or INLAY_NONE), and clamp it to an integer type. */
uint32_t vulkan_round_slots(vulkan_program *program, uint32_t value, uint32_t zero, inlay_dtype to);
/* The packed constant B of op, or NULL. */
const vulkan_constant *vulkan_panels_of(const vulkan_build *build, const vulkan_op *op);
/* Emits a multiplication whose operands are set. */
inlay_status vulkan_emit_product(vulkan_build *build, const vulkan_product *product, const vulkan_program *program);
/* Emits the multiplication of value a by op's second factor, packed if there is a packed constant of it. */
inlay_status vulkan_finish_product(vulkan_build *build, const vulkan_op *op, uint32_t a, vulkan_product *product,
                                   vulkan_program *program);

enum { ATTENTION_ONNX, ATTENTION_INLAY };                  /* numbers in operators.def */
enum { EMPTY_ROW_NAN, EMPTY_ROW_ZERO, EMPTY_ROW_GUARDED }; /* see shaders/attend.comp */
/* softmax(scores) times a third matrix in one dispatch, see shaders/attend.comp (attend.c). */
typedef struct vulkan_fused_attention {
    vulkan_product scores;
    vulkan_source source;
    vulkan_source sink; /* one more score for each row, without a key; bytes 0: none */
    int64_t width, v_row, v_column, v_batch[3], sink_batch[3];
    uint32_t empty_row; /* EMPTY_ROW_*: result of rows whose keys are all masked */
    uint32_t result;
} vulkan_fused_attention;
/* Fuses the Softmax and the MatMul that are the only readers of a multiplication's result. true: they are lowered;
 * build->status may be an error. */
bool vulkan_fuse_attention(vulkan_build *build, const vulkan_op *op, const vulkan_product *product,
                           vulkan_program *program);

/* Softmax and normalisations of rows (reduce.c). Values may be INLAY_NONE. */
typedef struct vulkan_rows {
    uint32_t kind;
    int64_t count, length, inner;
    float epsilon;
    uint32_t scale, bias;
    int64_t scale_rows, scale_step, scale_per; /* see shaders/rows.comp */
    uint32_t skip, skip_bias; /* float values that are added first; skip_bias has the length of a row */
    uint32_t mean, deviation; /* outputs: mean and 1 / deviation of each row */
    uint32_t sum;             /* output, instead of deviation: x + skip + skip_bias, of their type */
} vulkan_rows;
/* Emits the program of the sums of `parts` tensors of floats as large as its result, which follow one another in value
 * `from`. */
inlay_status vulkan_emit_part_sums(vulkan_build *build, uint32_t parts, uint32_t from, const vulkan_program *program);
/* Rows over the dimensions from axis on, with attribute epsilon. */
vulkan_rows vulkan_rows_of(const vulkan_build *build, const vulkan_op *op, uint32_t kind, uint32_t axis);
inlay_status vulkan_emit_rows(vulkan_build *build, const vulkan_op *op, const vulkan_rows *rows, uint32_t from);

extern const vulkan_family vulkan_pointwise, vulkan_batch_norm, vulkan_blocks, vulkan_cast, vulkan_quantize,
    vulkan_dequantize, vulkan_variadic, vulkan_mat_mul, vulkan_gemm, vulkan_conv, vulkan_conv_transpose,
    vulkan_mat_mul_integer, vulkan_conv_integer, vulkan_pool, vulkan_global_pool, vulkan_reduce, vulkan_softmax,
    vulkan_layer_norm, vulkan_instance_norm, vulkan_lp_norm, vulkan_view, vulkan_transpose, vulkan_concat, vulkan_split,
    vulkan_slice, vulkan_pad, vulkan_tile, vulkan_space_depth, vulkan_gather, vulkan_elements, vulkan_tuples,
    vulkan_resize, vulkan_generated, vulkan_constant_of_shape, vulkan_lrn, vulkan_attention, vulkan_skip_norm;

inlay_status vulkan_plan(vulkan_build *build);
/* Creates the pipelines of the dispatches, and the buffer of their parameters (instance.c). */
inlay_status vulkan_prepare(vulkan_build *build);
/* Records a dispatch (execute.c). recording: of the addresses that its operands need; NULL: all are constants. */
void vulkan_record_dispatch(const inlay_compiled *compiled, const inlay_instance *in, const vulkan_recording *recording,
                            const vulkan_dispatch *dispatch, VkCommandBuffer commands);

/* Entry points of the provider. */
inlay_status vulkan_assess(void *state, const inlay_assess_request *request, inlay_diag *diag);
inlay_status vulkan_cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag);
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
